//! Llama and its near kin: qwen2 (biases on q, k, v) and qwen3 (norms on q and k).
//!
//! Oracle: mlx-lm's `models/{llama,qwen2,qwen3}.py`. Every layer is pre-norm attention, then pre-norm SwiGLU.

use crate::attend::{Pool, Rows};
use crate::config::{Config, Family};
use crate::engine::EngineError;
use crate::families::activation::silu;
use crate::kernels::{Between, Launches, Matrix, Products};
use crate::mlx::{Place, Res};
use crate::rope::Angles;
use crate::weights::{Embedding, Linear, Loader};
use mlx_rs::fast::rms_norm;
use mlx_rs::ops::indexing::{Ellipsis, IndexOp};
use mlx_rs::{Array, Dtype, ops};

/// All weights of a model.
#[derive(Debug)]
pub struct Llama {
    heads: i32,
    kv_heads: i32,
    head_dim: i32,
    intermediate: i32,
    eps: f32,
    place: Place,
    embed: Embedding,
    layers: Vec<Layer>,
    norm: Array,
    /// None: tied to the embedding.
    head: Option<Linear>,
    /// Kernels between the products of a layer; none until they are given.
    between: Between,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Array,
    /// q, k and v as one matrix.
    qkv: Linear,
    /// qwen3: over head_dim, before the rotation.
    qk_norm: Option<(Array, Array)>,
    out: Linear,
    mlp_norm: Array,
    /// gate and up as one matrix.
    gate_up: Linear,
    down: Linear,
}

impl Llama {
    pub fn load(c: &Config, from: &Loader) -> Result<Llama, EngineError> {
        let head = if is_tied(c, from) { None } else { Some(Join::head(c).load(from)?) };
        Ok(Llama {
            heads: c.heads as i32,
            kv_heads: c.kv_heads as i32,
            head_dim: c.head_dim as i32,
            intermediate: c.intermediate as i32,
            eps: c.norm_eps,
            place: from.place,
            embed: from.embedding("model.embed_tokens", c.vocab, c.hidden)?,
            layers: (0..c.layers).map(|i| Layer::load(c, from, i)).collect::<Result<_, _>>()?,
            norm: from.norm("model.norm", c.hidden)?,
            head,
            between: Between::default(),
        })
    }

    /// The type of activations, and of K and V.
    pub fn dtype(&self) -> Dtype {
        self.embed.dtype()
    }

    pub fn bytes(&self) -> u64 {
        let layer = |l: &Layer| l.qkv.bytes() + l.out.bytes() + l.gate_up.bytes() + l.down.bytes();
        self.embed.bytes() + self.layers.iter().map(layer).sum::<u64>() + self.head.as_ref().map_or(0, Linear::bytes)
    }

    /// These kernels do what they can of what stands between the products.
    pub fn launch_between(&mut self, kernels: Between) {
        self.between = kernels;
    }

    /// Every matrix that tokens are multiplied with.
    pub fn matrices(&self) -> Vec<Matrix> {
        let head = self.head.as_ref().map_or_else(|| vec![self.embed.matrix()], |h| h.matrices().collect());
        let linears = self.layers.iter().flat_map(|l| [&l.qkv, &l.out, &l.gate_up, &l.down]);
        linears.flat_map(Linear::matrices).chain(head).collect()
    }

    /// These kernels do the products of few tokens, where they are for the shape.
    pub fn multiply_by(&mut self, products: &Products) {
        for layer in &mut self.layers {
            for linear in [&mut layer.qkv, &mut layer.out, &mut layer.gate_up, &mut layer.down] {
                linear.multiply_by(products);
            }
        }
        match &mut self.head {
            Some(head) => head.multiply_by(products),
            None => self.embed.multiply_by(products),
        }
    }

    /// ids `[T]` → hidden states `[T, hidden]` after the last layer, before the last norm.
    pub fn forward(&self, ids: &Array, angles: &Angles, rows: &Rows, pool: &mut Pool) -> Res<Array> {
        let mut x = self.embed.look_up(ids)?;
        let Some(first) = self.layers.first() else { return Ok(x) };
        let launches = self.between.launches(x.dim(0))?;
        let mut normed = rms_norm(&x, Some(&first.attention_norm), self.eps)?;
        for (i, layer) in self.layers.iter().enumerate() {
            let attended = self.attend(i, layer, &normed, angles, rows, pool)?;
            (x, normed) = self.add_norm(&x, &layer.out.apply(&attended)?, &layer.mlp_norm, &launches)?;
            let mlp = self.mlp(layer, &normed, &launches)?;
            match self.layers.get(i + 1) {
                Some(next) => (x, normed) = self.add_norm(&x, &mlp, &next.attention_norm, &launches)?,
                None => x = ops::add(&x, &mlp)?,
            }
        }
        Ok(x)
    }

    /// The residual sum, and its norm.
    fn add_norm(&self, x: &Array, y: &Array, weight: &Array, launches: &Launches) -> Res<(Array, Array)> {
        if let Some(both) = self.between.add_norm(x, y, weight, launches)? {
            return Ok(both);
        }
        let sum = ops::add(x, y)?;
        let normed = rms_norm(&sum, Some(weight), self.eps)?;
        Ok((sum, normed))
    }

    /// hidden `[R, hidden]` → logits `[R, vocab]` in f32.
    pub fn logits(&self, hidden: &Array) -> Res<Array> {
        let x = rms_norm(hidden, Some(&self.norm), self.eps)?;
        let z = match &self.head {
            Some(head) => head.apply(&x)?,
            None => self.embed.as_head(&x)?,
        };
        z.as_dtype(Dtype::Float32)
    }

    /// Normed `[T, hidden]` → what its rows attend to, `[T, heads * head_dim]`.
    fn attend(&self, index: usize, layer: &Layer, x: &Array, angles: &Angles, rows: &Rows, pool: &mut Pool) -> Res<Array> {
        let qkv = layer.qkv.apply(x)?;
        let norms = layer.qk_norm.as_ref().map(|(q, k)| (q, k));
        if pool.rotates(&qkv) {
            return pool.attend_to_product(index, &qkv, angles, norms, rows);
        }
        let (q, k, v) = self.rotated(&qkv, norms, angles)?;
        pool.attend(index, &q, &k, &v, rows)
    }

    /// q `[T, heads, head_dim]`, k and v `[T, kv_heads, head_dim]`, rotated by MLX's operations.
    fn rotated(&self, qkv: &Array, norms: Option<(&Array, &Array)>, angles: &Angles) -> Res<(Array, Array, Array)> {
        let (h, kv, d) = (self.heads, self.kv_heads, self.head_dim);
        let all = qkv.reshape(&[qkv.dim(0), h + 2 * kv, d])?;
        let v = all.index((.., h + kv.., ..));
        let (q, k) = match norms {
            None => {
                // One rotation for both: they differ in nothing here.
                let qk = angles.rotate(&all.index((.., ..h + kv, ..)))?;
                (qk.index((.., ..h, ..)), qk.index((.., h.., ..)))
            }
            Some((q_norm, k_norm)) => {
                let q = rms_norm(all.index((.., ..h, ..)), Some(q_norm), self.eps)?;
                let k = rms_norm(all.index((.., h..h + kv, ..)), Some(k_norm), self.eps)?;
                (angles.rotate(&q)?, angles.rotate(&k)?)
            }
        };
        Ok((q, k, v))
    }

    fn mlp(&self, layer: &Layer, x: &Array, launches: &Launches) -> Res<Array> {
        let both = layer.gate_up.apply(x)?;
        if let Some(gated) = self.between.swiglu(&both, launches)? {
            return layer.down.apply(&gated);
        }
        let gate = silu(&both.index((Ellipsis, ..self.intermediate)), self.place)?;
        layer.down.apply(&gate.multiply(both.index((Ellipsis, self.intermediate..)))?)
    }
}

impl Layer {
    fn load(c: &Config, from: &Loader, index: usize) -> Result<Layer, EngineError> {
        let path = |name: &str| format!("model.layers.{index}.{name}");
        let [qkv, out, gate_up, down] = Join::of_layer(c, index);
        let qk_norm = match c.family {
            Family::Qwen3 => Some((from.norm(&path("self_attn.q_norm"), c.head_dim)?, from.norm(&path("self_attn.k_norm"), c.head_dim)?)),
            Family::Llama | Family::Qwen2 => None,
        };
        Ok(Layer {
            attention_norm: from.norm(&path("input_layernorm"), c.hidden)?,
            qkv: qkv.load(from)?,
            qk_norm,
            out: out.load(from)?,
            mlp_norm: from.norm(&path("post_attention_layernorm"), c.hidden)?,
            gate_up: gate_up.load(from)?,
            down: down.load(from)?,
        })
    }
}

/// Modules `(path, rows)` over one input, kept as one matrix.
struct Join {
    modules: Vec<(String, usize)>,
    cols: usize,
    bias: bool,
}

impl Join {
    fn head(c: &Config) -> Join {
        Join { modules: vec![("lm_head".to_owned(), c.vocab)], cols: c.hidden, bias: false }
    }

    /// Those of q, k and v; of the output; of gate and up; of down.
    fn of_layer(c: &Config, index: usize) -> [Join; 4] {
        let path = |name: &str| format!("model.layers.{index}.{name}");
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let qkv = vec![(path("self_attn.q_proj"), q), (path("self_attn.k_proj"), kv), (path("self_attn.v_proj"), kv)];
        let gate_up = vec![(path("mlp.gate_proj"), c.intermediate), (path("mlp.up_proj"), c.intermediate)];
        [
            Join { modules: qkv, cols: c.hidden, bias: c.qkv_bias },
            Join { modules: vec![(path("self_attn.o_proj"), c.hidden)], cols: q, bias: c.o_bias },
            Join { modules: gate_up, cols: c.hidden, bias: c.mlp_bias },
            Join { modules: vec![(path("mlp.down_proj"), c.hidden)], cols: c.intermediate, bias: c.mlp_bias },
        ]
    }

    fn load(&self, from: &Loader) -> Result<Linear, EngineError> {
        from.linear(&self.modules, self.cols, self.bias)
    }

    fn bytes(&self, from: &Loader) -> Result<u64, EngineError> {
        from.linear_bytes(&self.modules, self.cols, self.bias)
    }
}

fn is_tied(c: &Config, from: &Loader) -> bool {
    c.tied.unwrap_or_else(|| !from.source.has("lm_head", "weight"))
}

/// What [`Llama::bytes`] will be. Needs no matrix, and fails for whatever is missing or of a wrong shape, as loading would.
pub fn weight_bytes(c: &Config, from: &Loader) -> Result<u64, EngineError> {
    let mut bytes = from.matrix_bytes("model.embed_tokens", c.vocab, c.hidden)?;
    if !is_tied(c, from) {
        bytes += Join::head(c).bytes(from)?;
    }
    from.vector("model.norm", "weight", c.hidden)?;
    for index in 0..c.layers {
        for (path, len) in norms(c, index) {
            from.vector(&path, "weight", len)?;
        }
        for join in Join::of_layer(c, index) {
            bytes += join.bytes(from)?;
        }
    }
    Ok(bytes)
}

/// A layer's norms, with their lengths.
fn norms(c: &Config, index: usize) -> Vec<(String, usize)> {
    let mut all = vec![("input_layernorm", c.hidden), ("post_attention_layernorm", c.hidden)];
    if c.family == Family::Qwen3 {
        all.extend([("self_attn.q_norm", c.head_dim), ("self_attn.k_norm", c.head_dim)]);
    }
    all.into_iter().map(|(name, len)| (format!("model.layers.{index}.{name}"), len)).collect()
}
