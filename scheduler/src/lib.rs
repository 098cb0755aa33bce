//! Which rows run, in which order, with which tokens: sequences, plans and fairness.
//!
//! This crate is pure: time, randomness and memory come as arguments. It may never know MLX, actors or HTTP.
//! A turn is: [`Scheduler::begin_turn`] → the pool settles the wants → [`Scheduler::settled`] → perhaps a step.
