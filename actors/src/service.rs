//! The one handle to the running service. It is cheap to clone, and nothing here blocks.

use crate::answer::Answer;
use crate::ask::{Ask, Failure};
use crate::stats::Stats;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// What `/v1/models` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    pub id: String,
    /// Seconds since 1970 at which the model was loaded.
    pub created_unix_s: u64,
    /// Positions a sequence may have, prompt and answer together.
    pub context_length: u32,
}

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Requests that were still running at the deadline and were cut with `Unavailable`. 0: all were answered.
    pub cut: u32,
}
