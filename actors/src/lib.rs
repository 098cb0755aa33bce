//! The four actors (Request, Scheduler, KV-budget, Model), their messages and their supervision.
//!
//! Thin: an actor notes, takes a turn, carries out. This crate may never know HTTP. From outside there is one handle, [`Service`].

pub mod ask;

pub use ask::{Ask, Event, Failure, Finish, Params, Prompt, Timings, Usage};
