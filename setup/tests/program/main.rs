//! Set-up as a newcomer meets it: its scripts and its program, on machines that lack something, or that stop halfway.

#![allow(clippy::unwrap_used)]

mod need;
mod progress;
mod relay;
mod tools;
