//! Model families. Each file reads like its paper: packed tokens in, hidden states out; only `attend` knows rows.

mod activation;
mod llama;

pub use llama::{Llama, weight_bytes};
