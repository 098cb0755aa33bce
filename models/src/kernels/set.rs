//! All kernels of a model, each proven by itself, and one line that says which of them serve and why the others do not.

use super::between::Between;
use super::paged::Paged;
use super::plan::{Spec, Tuning};
use super::product::Matrix;
use super::proof::{Proof, prove};
use super::proof_layer::{prove_add_norm, prove_rotation, prove_swiglu};
use super::proof_product::Products;
use super::rotate::Turning;
use crate::rope::Rope;
use std::rc::Rc;
use std::time::Instant;

/// What a model asks of its kernels.
#[derive(Debug)]
pub struct Needs<'a> {
    pub spec: Spec,
    pub rope: &'a Rope,
    pub hidden: i32,
    /// Gates of a layer, and ups.
    pub inner: i32,
    /// Of the norms between the products.
    pub eps: f32,
    /// Whether q and k are normed over head_dim, with the same epsilon.
    pub qk_norm: bool,
    /// Those that its tokens are multiplied with.
    pub matrices: &'a [Matrix],
}

/// Those that serve.
#[derive(Debug, Default)]
pub struct Kernels {
    /// Reads decode rows' keys in the pool; may rotate and store at once.
    pub paged: Option<Rc<Paged>>,
    pub between: Between,
    pub products: Products,
    pub route: String,
}

impl Kernels {
    /// None of them, for this reason.
    pub fn none(why: &str) -> Kernels {
        Kernels { route: format!("decode attention gathers keys: {why}"), ..Kernels::default() }
    }

    /// Whether all of them serve.
    pub fn complete(&self) -> bool {
        let rotates = self.paged.as_ref().is_some_and(|p| p.rotates());
        rotates && self.between.swiglu.is_some() && self.between.add_norm.is_some()
    }

    /// Runs each on the device, beside MLX's own operations.
    pub fn proven(needs: &Needs) -> Kernels {
        let began = Instant::now();
        let mut route = Vec::new();
        let mut paged = None;
        match Tuning::of(&needs.spec).and_then(|t| prove(needs.spec, t)) {
            Ok(Proof { paged: one, error }) => {
                route.push(format!("decode attention by the paged kernel: {error:.2} of the rounding allowed, against MLX's own"));
                let turning = Turning { traditional: needs.rope.traditional(), norm_eps: needs.qk_norm.then_some(needs.eps) };
                let (one, verdict) = prove_rotation(one, &needs.spec, turning, needs.rope);
                route.push(told("rotation and storing", verdict));
                paged = Some(Rc::new(one));
            }
            Err(why) => route.push(format!("decode attention gathers keys: {why}")),
        }
        let mut between = Between::default();
        let verdict = prove_swiglu(needs.inner, needs.spec.dtype).map(|(kernel, error)| {
            between.swiglu = Some(kernel);
            error
        });
        route.push(told("SwiGLU", verdict));
        let verdict = prove_add_norm(needs.hidden, needs.eps, needs.spec.dtype).map(|(kernel, error)| {
            between.add_norm = Some(kernel);
            error
        });
        route.push(told("sum and norm", verdict));
        let (products, told) = Products::proven(needs.matrices);
        route.extend(told);
        let seconds = began.elapsed().as_secs_f64();
        Kernels { paged, between, products, route: format!("{} (compiled and proven in {seconds:.1} s)", route.join("; ")) }
    }
}

fn told(what: &str, verdict: Result<f32, String>) -> String {
    match verdict {
        Ok(error) => format!("{what} in one kernel: {error:.2}"),
        Err(why) => format!("{what} by MLX's operations: {why}"),
    }
}
