//! What Python can iterate over and not index: what lazy filters give, once, and the views of a dict.

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Gives its items to the first that asks, and is true even without any.
#[derive(Debug)]
pub(super) struct Generator(Mutex<Vec<Value>>);

impl Generator {
    pub(super) fn of(items: impl IntoIterator<Item = Value>) -> Value {
        Value::from_object(Self(Mutex::new(items.into_iter().collect())))
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let items = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Enumerator::Values(items)
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<generator object>")
    }
}

/// `dict.keys()`, `dict.values()`, `dict.items()`.
#[derive(Debug)]
pub(in crate::text) struct View {
    pub(super) name: &'static str,
    pub(super) items: Vec<Value>,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name, crate::text::python::str(&Value::from(self.items.clone())))
    }
}

pub(in crate::text) fn is_view(value: &Value) -> bool {
    value.downcast_object_ref::<View>().is_some() || value.downcast_object_ref::<Generator>().is_some()
}
