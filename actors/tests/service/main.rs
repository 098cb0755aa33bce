//! The service whole: real actors and the real worker loop over the synthetic engine, whose tokens an oracle knows.
//! Nothing here sleeps: tests wait for events, or for the published stats.

#![allow(clippy::unwrap_used)]

mod answers;
mod forms;
mod house;
mod leaving;
mod losing;
mod refusing;
mod slow;
