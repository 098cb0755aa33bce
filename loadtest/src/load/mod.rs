//! What is asked of the server, when, and by whom. Pure: all of it follows from the options and a seed.

pub mod arrivals;
pub mod draw;
pub mod keys;
pub mod prompts;
pub mod slo;
pub mod trace;
pub mod units;
pub mod workload;
