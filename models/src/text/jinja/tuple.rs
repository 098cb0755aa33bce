//! Tuples, which print and compare otherwise than lists, and are otherwise lists.

use minijinja::value::{Enumerator, Object, ObjectRepr, Value, ValueKind};
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::text) struct Tuple(pub(in crate::text) Vec<Value>);

impl Object for Tuple {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

pub(super) fn is_tuple(value: &Value) -> bool {
    value.downcast_object_ref::<Tuple>().is_some()
}

pub(super) fn is_list(value: &Value) -> bool {
    value.kind() == ValueKind::Seq && !is_tuple(value)
}
