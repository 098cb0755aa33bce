//! End-to-end tests: the built program, started as a user starts it, asked over HTTP, ended by signals.
//!
//! Most need the default model where `make model` leaves it, and say so if it is not there. Servers of that model take turns:
//! two at once would only make each other slow.

#![allow(clippy::unwrap_used)]

mod check;
mod clients;
mod common;
mod deterministic;
mod disconnect;
mod drain;
mod fit;
mod folder;
mod key;
mod ledger;
mod load_errors;
mod loadtest;
/// Reads `/proc`.
#[cfg(target_os = "linux")]
mod memory;
mod prefix;
mod seeds;
mod sim;
mod stall;
mod traces;
mod window;
mod worker;
