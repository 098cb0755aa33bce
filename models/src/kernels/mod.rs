//! Kernels of our own, where MLX has none that does what continuous batching needs: attention over a paged pool, and writing into it;
//! and where one launch does what takes MLX several, since a step of decoding is as long as the host takes to launch it; and products
//! of a few rows, which MLX reads the weights several times for, or captures anew.
//!
//! The bodies (`*.inc`) are written once, in what CUDA C++ and Metal have in common; `cuda.h` and `metal.h` supply
//! the rest, and `tests/paged/host.h` does so for plain C++, which is how the bodies are tested without a GPU. MLX compiles them
//! when they are first used. [`prove`] then holds them against MLX's own operations on the device at hand, and whoever asks
//! for them gets the reason instead where that fails.

mod between;
mod paged;
mod plan;
mod product;
mod proof;
mod proof_layer;
mod proof_product;
mod raw;
mod rotate;
mod set;
mod source;

pub use between::{AddNorm, Between, Launch, Launches, Swiglu};
pub use paged::{Batch, Paged, Slots};
pub use plan::{Plan, SPLITS_MAX, Spec, Tuning};
pub use product::{Affine, Dealing, Matrix, Product, ROWS_MAX};
pub use proof::{Proof, prove};
pub use proof_product::{Products, prove_product};
pub use rotate::Turning;
pub use set::{Kernels, Needs};
pub use source::bodies;
