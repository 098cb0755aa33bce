//! A deterministic simulator of the core: production scheduler and pool, the synthetic model's language, a virtual clock, and
//! trouble in doses that each seed draws for itself. After every event all invariants are checked.
//!
//! The way of it: FoundationDB's and TigerBeetle's simulators, and swarm testing (Groce et al., ISSTA 2012): a seed that leaves
//! some kinds of trouble out altogether reaches states that an even mixture of all kinds never reaches.
//!
//! - [`shape`]: limits, pool and speeds that a seed draws. [`script`]: what happens from outside, and when; a list, made before
//!   anything runs, so that it can be cut. [`contest`]: one of keys that want more than there is. [`ask`]: one request of it. [`troubles`]: the doses.
//! - [`world`]: the clock and the actors' mailboxes around the core. [`device`]: steps and blocks. [`clients`]: what the clients
//!   saw, against [`oracle`], the uninterrupted run. [`shares`]: the keys' charges, counted a second time. [`bound`]: how far
//!   they may come apart.
//! - [`trial`]: one script to its end. [`seam`]: where a test plants a bug. [`seen`]: what was met.
//! - [`shrink`]: the shortest list that still fails. [`many`]: seeds on all cores. [`cli`]: the command.

mod ask;
mod bound;
mod cli;
mod clients;
mod contest;
mod device;
mod many;
mod oracle;
mod script;
mod seam;
mod seen;
mod shape;
mod shares;
mod shrink;
#[cfg(test)]
mod tests;
mod trial;
mod troubles;
mod world;

pub use cli::{Args, Verdict, run};
