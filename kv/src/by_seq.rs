//! Rows by their ids, looked up many times a step.

use crate::step::SeqId;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// A hash table whose order is that of insertion and removal: the same in every run, unlike `HashMap`'s. An id is a number that the
/// service counts, not one that a client chooses, so the hash need not resist anybody.
pub type BySeq<T> = IndexMap<SeqId, T, FxBuildHasher>;
