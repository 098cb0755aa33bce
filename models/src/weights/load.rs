//! Weights into MLX arrays: matrices that are used together become one, filled slab by slab in place.

use super::{Described, Float, Form, Source};
use crate::engine::EngineError;
use crate::kernels::{self, Matrix, Product, Products};
use crate::mlx::{self, Place, Res};
use mlx_rs::ops::indexing::{TryIndexMutOp, take_axis};
use mlx_rs::{Array, Dtype, ops};
use std::ops::Range;
use std::rc::Rc;

/// Elements of one slab: 4 MiB of f32, so that what loading needs beyond the weights stays small.
const SLAB: usize = 1 << 20;

/// A matrix `[out, in]`.
#[derive(Debug)]
pub enum Weight {
    Dense {
        rows: Array,
        /// The same memory, as products take it: made once, not at every product.
        turned: Array,
    },
    /// Packed words `[out, in * bits / 32]`, scales and biases `[out, in / group]`.
    Affine { words: Array, scales: Array, biases: Array, group: i32, bits: i32 },
}

impl Weight {
    fn dense(rows: Array) -> Res<Weight> {
        let turned = rows.t();
        turned.eval()?;
        Ok(Weight::Dense { rows, turned })
    }

    /// `[T, in]` → `[T, out]`.
    fn apply(&self, x: &Array) -> Res<Array> {
        match self {
            Weight::Dense { turned, .. } => ops::matmul(x, turned),
            Weight::Affine { words, scales, biases, group, bits } => ops::quantized_matmul(x, words, scales, biases, true, *group, *bits),
        }
    }

    /// As it is kept, in one array or in three.
    fn arrays(&self) -> ([&Array; 3], usize) {
        match self {
            Weight::Dense { rows, .. } => ([rows; 3], 1),
            Weight::Affine { words, scales, biases, .. } => ([words, scales, biases], 3),
        }
    }

    fn bytes(&self) -> u64 {
        let (all, count) = self.arrays();
        all[..count].iter().map(|a| a.nbytes() as u64).sum()
    }

    fn matrix(&self) -> Matrix {
        match self {
            Weight::Dense { rows, .. } => Matrix { outs: rows.dim(0), ins: rows.dim(1), dtype: rows.dtype(), affine: None },
            Weight::Affine { words, scales, group, bits, .. } => {
                let affine = Some(kernels::Affine { bits: *bits, group: *group });
                Matrix { outs: words.dim(0), ins: scales.dim(1) * group, dtype: scales.dtype(), affine }
            }
        }
    }
}

/// A matrix with the kernel for its products with few rows, where it is given one.
#[derive(Debug)]
struct Served {
    weight: Weight,
    product: Option<Rc<Product>>,
}

impl Served {
    fn apply(&self, x: &Array) -> Res<Array> {
        match self.product.as_ref().filter(|p| p.serves(x)) {
            Some(product) => {
                let (all, count) = self.weight.arrays();
                product.apply(x, &all[..count])
            }
            None => self.weight.apply(x),
        }
    }

    fn multiply_by(&mut self, products: &Products) {
        self.product = products.of(&self.weight.matrix());
    }
}

impl From<Weight> for Served {
    fn from(weight: Weight) -> Served {
        Served { weight, product: None }
    }
}

/// One or several matrices over the same input, side by side: `[T, in]` → `[T, sum of outs]`.
#[derive(Debug)]
pub struct Linear {
    /// One, unless quantised parts differ in bits or groups.
    parts: Vec<Served>,
    bias: Option<Array>,
}

impl Linear {
    pub fn apply(&self, x: &Array) -> Res<Array> {
        let y = match &self.parts[..] {
            [one] => one.apply(x)?,
            many => {
                let each = many.iter().map(|p| p.apply(x)).collect::<Res<Vec<Array>>>()?;
                ops::concatenate(&each, -1)?
            }
        };
        match &self.bias {
            Some(b) => ops::add(&y, b),
            None => Ok(y),
        }
    }

    pub fn matrices(&self) -> impl Iterator<Item = Matrix> {
        self.parts.iter().map(|p| p.weight.matrix())
    }

    /// From here on few rows go to these kernels, where there is one for the shape.
    pub fn multiply_by(&mut self, products: &Products) {
        self.parts.iter_mut().for_each(|p| p.multiply_by(products));
    }

    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.weight.bytes()).sum::<u64>() + self.bias.as_ref().map_or(0, |b| b.nbytes() as u64)
    }
}

/// The table of token vectors, `[vocab, hidden]`; also the head of a model that ties the two.
#[derive(Debug)]
pub struct Embedding(Served);

impl Embedding {
    /// ids `[T]` → `[T, hidden]`.
    pub fn look_up(&self, ids: &Array) -> Res<Array> {
        match &self.0.weight {
            Weight::Dense { rows, .. } => take_axis(rows, ids, 0),
            Weight::Affine { words, scales, biases, group, bits } => {
                let row = |a: &Array| take_axis(a, ids, 0);
                ops::dequantize(row(words)?, row(scales)?, &row(biases)?, *group, *bits)
            }
        }
    }

    /// `[R, hidden]` → logits `[R, vocab]`.
    pub fn as_head(&self, x: &Array) -> Res<Array> {
        self.0.apply(x)
    }

    pub fn matrix(&self) -> Matrix {
        self.0.weight.matrix()
    }

    /// As [`Linear::multiply_by`], for [`Embedding::as_head`].
    pub fn multiply_by(&mut self, products: &Products) {
        self.0.multiply_by(products);
    }

    pub fn bytes(&self) -> u64 {
        self.0.weight.bytes()
    }

    /// The type that activations take from it.
    pub fn dtype(&self) -> Dtype {
        self.matrix().dtype
    }
}

/// Reads a source into arrays.
pub struct Loader<'a> {
    pub source: &'a dyn Source,
    /// Some: every matrix dense in this type. None: as stored.
    pub dense: Option<Float>,
    /// Type of norms, biases and of what cannot be kept as stored.
    pub float: Float,
    pub place: Place,
}

impl Loader<'_> {
    /// Norms, biases and what cannot be kept as stored are of type `dense`, or else of the embedding's.
    pub fn new(source: &dyn Source, dense: Option<Float>, place: Place) -> Result<Loader<'_>, EngineError> {
        let float = match dense {
            Some(float) => float,
            None => match source.describe("model.embed_tokens")?.form {
                Form::Dense(f) | Form::Affine { float: f, .. } => f,
            },
        };
        Ok(Loader { source, dense, float, place })
    }

    /// How a matrix that is stored so is kept in memory.
    fn kept(&self, form: Form) -> Form {
        match (self.dense, form) {
            (Some(float), _) => Form::Dense(float),
            (None, Form::Affine { bits, group, float }) if !mlx::has_kernel(bits, group) => Form::Dense(float),
            (None, form) => form,
        }
    }

    /// Bytes that [`Loader::linear`] would take, of which no matrix is read.
    pub fn linear_bytes(&self, modules: &[(String, usize)], cols: usize, bias: bool) -> Result<u64, EngineError> {
        let mut bytes = 0;
        for (path, rows) in modules {
            bytes += self.matrix_bytes(path, *rows, cols)?;
            if bias {
                self.vector(path, "bias", *rows)?;
                bytes += (rows * self.float.bytes()) as u64;
            }
        }
        Ok(bytes)
    }

    /// Fails where [`Loader::norm`] or a bias would.
    pub fn vector(&self, path: &str, leaf: &str, len: usize) -> Result<(), EngineError> {
        self.source.vector(path, leaf, len).map(|_| ())
    }

    /// Bytes of one matrix, such as [`Loader::embedding`] would take.
    pub fn matrix_bytes(&self, path: &str, rows: usize, cols: usize) -> Result<u64, EngineError> {
        Ok(self.kept(self.checked(path, rows, cols)?.form).bytes(rows, cols))
    }

    /// Several modules `(path, rows)` over the same input of `cols` as one; `bias` when the config says that they have one.
    pub fn linear(&self, modules: &[(String, usize)], cols: usize, bias: bool) -> Result<Linear, EngineError> {
        let all = modules.iter().map(|(path, rows)| self.checked(path, *rows, cols)).collect::<Result<Vec<_>, _>>()?;
        let paths: Vec<(&str, Described)> = modules.iter().map(|(p, _)| p.as_str()).zip(all).collect();
        let same = paths.iter().all(|(_, d)| d.form == paths[0].1.form);
        let parts = if self.dense.is_some() || same {
            vec![self.weight(&paths)?.into()]
        } else {
            paths.iter().map(|one| self.weight(std::slice::from_ref(one)).map(Served::from)).collect::<Result<_, _>>()?
        };
        Ok(Linear { parts, bias: if bias { Some(self.biases(modules)?) } else { None } })
    }

    pub fn embedding(&self, path: &str, rows: usize, cols: usize) -> Result<Embedding, EngineError> {
        let d = self.checked(path, rows, cols)?;
        Ok(Embedding(self.weight(&[(path, d)])?.into()))
    }

    /// A norm's weight, `[len]`.
    pub fn norm(&self, path: &str, len: usize) -> Result<Array, EngineError> {
        let v = self.source.vector(path, "weight", len)?;
        self.narrow(Array::from_slice(&v, &[len as i32])).map_err(|e| self.source.bad(path, "weight", e.what()))
    }

    fn biases(&self, modules: &[(String, usize)]) -> Result<Array, EngineError> {
        let mut all = Vec::new();
        for (path, rows) in modules {
            // qwen2 has biases on q, k and v alone and some llamas lack single ones: a missing one is an error, never a zero.
            all.extend(self.source.vector(path, "bias", *rows)?);
        }
        self.narrow(Array::from_slice(&all, &[all.len() as i32])).map_err(|e| self.source.bad(&modules[0].0, "bias", e.what()))
    }

    fn narrow(&self, a: Array) -> Res<Array> {
        let a = a.as_dtype(self.float.mlx())?;
        a.eval()?;
        Ok(a)
    }

    fn checked(&self, path: &str, rows: usize, cols: usize) -> Result<Described, EngineError> {
        let d = self.source.describe(path)?;
        if (d.rows, d.cols) != (rows, cols) {
            return Err(self.source.bad(path, "weight", &format!("stands for shape [{}, {}]: [{rows}, {cols}] is needed by the config", d.rows, d.cols)));
        }
        Ok(d)
    }

    fn weight(&self, parts: &[(&str, Described)]) -> Result<Weight, EngineError> {
        let (path, first) = parts[0];
        let done = match self.kept(first.form) {
            Form::Affine { bits, group, .. } => return self.packed(parts, bits, group),
            Form::Dense(float) => self.filled(parts, float),
        };
        done?.map_err(|e| self.source.bad(path, "weight", e.what()))
    }

    /// One dense matrix, its slabs written in place: MLX updates an array in place while nobody else holds it.
    fn filled(&self, parts: &[(&str, Described)], float: Float) -> Result<Res<Weight>, EngineError> {
        let rows: usize = parts.iter().map(|(_, d)| d.rows).sum();
        let cols = parts[0].1.cols;
        let mut whole = match ops::zeros_dtype(&[rows as i32, cols as i32], float.mlx()) {
            Ok(a) => a,
            Err(e) => return Ok(Err(e)),
        };
        let (mut at, mut wide) = (0, Vec::with_capacity(SLAB.max(cols)));
        for (path, d) in parts {
            for slab in slabs(d) {
                let shape = [slab.len() as i32, cols as i32];
                // What is stored in the type that is wanted goes in as it is, without f32 between.
                let stored = if d.form == Form::Dense(float) { self.source.stored(path, slab.clone())? } else { None };
                let rows = match stored {
                    Some(bytes) => Ok(mlx::from_bytes(&bytes, &shape, float.mlx())),
                    None => {
                        wide.clear();
                        match d.form {
                            Form::Dense(_) => self.source.dense(path, slab.clone(), &mut wide)?,
                            Form::Affine { .. } => self.source.affine(path, slab.clone())?.widen(&mut wide),
                        }
                        Array::from_slice(&wide, &shape).as_dtype(float.mlx())
                    }
                };
                if let Err(e) = rows.and_then(|rows| put(&mut whole, at, &rows)) {
                    return Ok(Err(e));
                }
                at += slab.len();
            }
        }
        Ok(Weight::dense(whole))
    }

    /// One packed matrix of parts that share bits and groups.
    fn packed(&self, parts: &[(&str, Described)], bits: usize, group: usize) -> Result<Weight, EngineError> {
        let mut all = self.source.affine(parts[0].0, 0..parts[0].1.rows)?;
        for (path, d) in &parts[1..] {
            let more = self.source.affine(path, 0..d.rows)?;
            all.words.extend(more.words);
            all.scales.extend(more.scales);
            all.biases.extend(more.biases);
        }
        let (rows, cols) = (all.rows() as i32, all.cols);
        let groups = (cols / group) as i32;
        let words = Array::from_slice(&all.words, &[rows, all.row_words() as i32]);
        let side = |bytes: &[u8]| mlx::from_bytes(bytes, &[rows, groups], all.float.mlx());
        Ok(Weight::Affine { words, scales: side(&all.scales), biases: side(&all.biases), group: group as i32, bits: bits as i32 })
    }
}

fn slabs(d: &Described) -> impl Iterator<Item = Range<usize>> + use<> {
    let (rows, step) = (d.rows, (SLAB / d.cols).max(1));
    (0..rows).step_by(step).map(move |r| r..(r + step).min(rows))
}

fn put(whole: &mut Array, at: usize, rows: &Array) -> Res<()> {
    whole.try_index_mut((at as i32..at as i32 + rows.dim(0), ..), rows)?;
    whole.eval()
}
