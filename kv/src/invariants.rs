//! The registry of what always holds, for the pool (K) and for the scheduler (S).
//!
//! Tests check all of it after every event. The service checks the cheap ones: a violation panics in a debug build and is
//! counted by its id in a release build.

use std::fmt;

macro_rules! registry {
    ($($id:ident $text:literal)*) => {
        /// An invariant's name, as metrics and reports show it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant {
            $(#[doc = $text] $id),*
        }

        impl Invariant {
            pub const ALL: &'static [Invariant] = &[$(Invariant::$id),*];

            /// The label: `K1` … `S8`.
            pub fn id(self) -> &'static str {
                match self { $(Invariant::$id => stringify!($id)),* }
            }

            /// The sentence.
            pub fn text(self) -> &'static str {
                match self { $(Invariant::$id => $text),* }
            }
        }
    };
}

registry! {
    K1 "Blocks of rows, cached, held and free ones add up to the total."
    K2 "A block has no reference exactly if it is free, cached or held."
    K3 "References add up to the lengths of all tables, and the pinned sources of copies."
    K4 "A prefix entry matches its tokens, and is the only one that does."
    K5 "A want is granted whole or not at all."
    K6 "Bytes in use never exceed the budget; block 0 is never handed out."
    S1 "At most `depth` steps, and never more than two, are in flight."
    S2 "A sequence that was not cancelled finishes exactly once."
    S3 "Delivered tokens are a prefix of the uninterrupted run."
    S4 "Every limit holds: rows, chunk, step tokens, context, queue."
    S5 "The oldest running row is never preempted."
    S6 "No block that a step in flight names is written for another row."
    S7 "Draining terminates: while rows are left, a step can be made, or is in flight, or waits for a mask."
    S8 "No key waits for ever while another is served: among keys with rows waiting, charges stay close."
}

/// An invariant that does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub detail: String,
}

impl Violation {
    pub fn new(invariant: Invariant, detail: impl Into<String>) -> Violation {
        Violation { invariant, detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.invariant.id(), self.invariant.text(), self.detail)
    }
}

impl std::error::Error for Violation {}

/// `Ok` if `holds`; otherwise the violation, its detail written only then.
pub fn ensure(invariant: Invariant, holds: bool, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { invariant, detail: detail() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_says_what_does_not_hold_and_where() {
        let violation = ensure(Invariant::K5, false, || "row 7".into()).unwrap_err();
        assert_eq!(violation.to_string(), "K5: A want is granted whole or not at all. (row 7)");
        assert_eq!(ensure(Invariant::K5, true, || panic!("written in vain")), Ok(()));
    }
}
