//! The kernel for products of few rows held against MLX's own, and timed beside it over the matrices of Llama-3-8B.
//!
//! usage: products prove [all]
//!        products time [ROWS,…] [bf16|f16|4bit|8bit,…]         for example: products time 1,2,4,8,16,32 bf16,4bit
//!        products tune [ROWS,…] [bf16|f16|4bit|8bit,…]         with other constants than those that are served
//!
//! Each product's rows follow from the one before it, and its weights are another copy than the last one's, so that nothing runs beside
//! it and no cache holds them. What makes rows of a product is one launch, whose time alone is taken off.

use mlx_rs::error::Exception;
use mlx_rs::ops::indexing::IndexOp;
use mlx_rs::transforms::async_eval;
use mlx_rs::{Array, Dtype, ops};
use models::kernels::{Affine, Dealing, Matrix, Product, ROWS_MAX, prove_product};
use models::mlx::{self, DeviceChoice, Res};
use std::time::Instant;

type Failed = Box<dyn std::error::Error>;

/// Llama-3-8B's, as `[outs, ins]`: q, k and v; what follows attention; gates and ups; down; the head.
const SHAPES: [(&str, i32, i32); 5] = [("qkv", 6144, 4096), ("out", 4096, 4096), ("gate_up", 28672, 4096), ("down", 4096, 14336), ("head", 128_256, 4096)];

/// Bytes of all copies of a matrix: several times a GPU's largest cache.
const COPIES: usize = 256 << 20;

/// Bytes that are read in one evaluation, so that what it costs to begin one is nothing beside it, within these numbers of products.
const READ: usize = 8 << 30;
const CHAIN: (usize, usize) = (8, 256);

/// Evaluations, of which the first compiles and the second fills MLX's caches.
const ROUNDS: usize = 9;

fn main() -> Result<(), Failed> {
    // SAFETY: no other thread runs yet.
    unsafe { models::mlx::settle_environment() };
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |i: usize| args.get(i).map(String::as_str);
    let (rows, forms) = match word(0) {
        Some("prove") => (Vec::new(), Vec::new()),
        Some("time" | "tune") => {
            let rows = word(1).unwrap_or("1,2,4,8,16,32").split(',').map(str::parse).collect::<Result<Vec<i32>, _>>()?;
            (rows, word(2).unwrap_or("bf16,4bit").split(',').map(form).collect::<Result<Vec<_>, _>>()?)
        }
        _ => return Err("prove, time and tune are possible".into()),
    };
    if let Some(rows) = rows.iter().find(|r| !(1..=ROWS_MAX).contains(*r)) {
        return Err(format!("{rows} rows: 1 to {ROWS_MAX} are possible").into());
    }
    mlx::choose(DeviceChoice::Gpu)?;
    match word(0) {
        Some("time") => each(&forms, &rows, time),
        Some("tune") => each(&forms, &rows, tune),
        _ if prove_all(word(1) == Some("all")) => Ok(()),
        _ => Err("not all of them held".into()),
    }
}

fn form(name: &str) -> Result<(Dtype, Option<Affine>), String> {
    match name {
        "bf16" => Ok((Dtype::Bfloat16, None)),
        "f16" => Ok((Dtype::Float16, None)),
        "4bit" => Ok((Dtype::Bfloat16, Some(Affine { bits: 4, group: 64 }))),
        "8bit" => Ok((Dtype::Bfloat16, Some(Affine { bits: 8, group: 64 }))),
        other => Err(format!("{other}: bf16, f16, 4bit and 8bit are possible")),
    }
}

fn named(m: &Matrix) -> String {
    match m.affine {
        None => format!("{:?}", m.dtype),
        Some(Affine { bits, group }) => format!("{bits} bits by {group} {:?}", m.dtype),
    }
}

/// Both types, dense and in the common way to pack, or in every way; with the lengths above, of which each is compiled by itself where
/// weights are packed. Whether all of them held.
fn prove_all(every: bool) -> bool {
    let packed = |bits, group| Some(Affine { bits, group });
    let mut forms = vec![None, packed(4, 64)];
    if every {
        forms.extend([packed(4, 32), packed(4, 128), packed(8, 64), packed(8, 32), packed(8, 128)]);
    }
    let mut held = true;
    for affine in forms {
        for dtype in [Dtype::Bfloat16, Dtype::Float16] {
            let lengths: &[i32] = if dtype == Dtype::Bfloat16 || affine.is_none() { &[4096, 14336] } else { &[4096] };
            for (ins, outs) in lengths.iter().flat_map(|ins| [4096, 151_937].map(|outs| (*ins, outs))) {
                let matrix = Matrix { outs, ins, dtype, affine };
                let began = Instant::now();
                let verdict = prove_product(matrix);
                held &= verdict.is_ok();
                let told = verdict.map_or_else(|why| format!("FAILED: {why}"), |(_, error)| format!("ok: {error:.2} of what rounding explains"));
                println!("{} [{outs}, {ins}]: {told} ({:.1} s)", named(&matrix), began.elapsed().as_secs_f64());
            }
        }
    }
    held
}

/// A matrix in as many copies as no cache holds.
struct Copies {
    matrix: Matrix,
    name: &'static str,
    all: Vec<Vec<Array>>,
    /// `[ROWS_MAX, ins]`.
    x: Array,
}

impl Copies {
    fn new(name: &'static str, matrix: Matrix) -> Res<Copies> {
        let m = &matrix;
        let copy = |i: usize| -> Res<Vec<Array>> {
            match m.affine {
                None => Ok(vec![waves(&[m.outs, m.ins], m.dtype, i)?]),
                Some(Affine { bits, group }) => {
                    let words = waves(&[m.outs, m.ins * bits / 32], Dtype::Float32, i)?.abs()?.multiply(Array::from_f32(4e9))?.as_dtype(Dtype::Uint32)?;
                    // Small, so that rows that follow from rows stay finite.
                    let side = |seed| -> Res<Array> {
                        let a = waves(&[m.outs, m.ins / group], Dtype::Float32, seed)?.multiply(Array::from_f32(1e-3))?.as_dtype(m.dtype)?;
                        a.eval()?;
                        Ok(a)
                    };
                    words.eval()?;
                    Ok(vec![words, side(i)?, side(i + 1)?])
                }
            }
        };
        let count = (COPIES / bytes(m) + 1).max(2);
        Ok(Copies { matrix, name, all: (0..count).map(copy).collect::<Res<_>>()?, x: waves(&[ROWS_MAX, m.ins], m.dtype, 7)? })
    }

    /// One product in a chain of them.
    fn measure(&self, rows: i32, product: impl Fn(&Array, &[&Array]) -> Res<Array>) -> Res<Micros> {
        let start = self.x.index(..rows);
        start.eval()?;
        let count = (READ / bytes(&self.matrix)).clamp(CHAIN.0, CHAIN.1);
        // The next rows wait for this product, of which one element is enough.
        let next = |y: &Array| ops::add(&start, y.index((..1, ..1)));
        let glue = median(count, || (0..count).try_fold(start.clone(), |x, _| next(&x)))?;
        let whole = median(count, || {
            (0..count).try_fold(start.clone(), |x, i| {
                let weights: Vec<&Array> = self.all[i % self.all.len()].iter().collect();
                next(&product(&x, &weights)?)
            })
        })?;
        Ok(Micros { all: whole.all - glue.all, host: whole.host - glue.host })
    }
}

/// Of one product: until it is done, and of that until the host has launched it.
#[derive(Debug, Clone, Copy)]
struct Micros {
    all: f64,
    host: f64,
}

/// One of so many in a chain, whose graph is built outside of the time that is taken.
fn median(count: usize, chain: impl Fn() -> Res<Array>) -> Res<Micros> {
    let (mut all, mut host) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let end = chain()?;
        let began = Instant::now();
        async_eval([&end])?;
        let launched = began.elapsed();
        end.eval()?;
        if round > 1 {
            all.push(began.elapsed().as_secs_f64() * 1e6 / count as f64);
            host.push(launched.as_secs_f64() * 1e6 / count as f64);
        }
    }
    let middle = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    Ok(Micros { all: middle(all), host: middle(host) })
}

fn bytes(m: &Matrix) -> usize {
    let elements = m.outs as usize * m.ins as usize;
    m.affine.map_or(elements * 2, |a| elements * a.bits as usize / 8 + elements / a.group as usize * 4)
}

/// Numbers between -1 and 1 that hardly repeat.
fn waves(shape: &[i32], dtype: Dtype, seed: usize) -> Res<Array> {
    let line = |count: i32, step: f32| {
        let from = seed as f32;
        ops::arange::<f32, f32>(Some(from), from + count as f32, None)?.multiply(Array::from_f32(step))
    };
    let a = ops::sin(ops::add(line(shape[0], 0.7)?.reshape(&[-1, 1])?, line(shape[1], 1.3)?.reshape(&[1, -1])?)?)?.as_dtype(dtype)?;
    a.eval()?;
    Ok(a)
}

fn each(forms: &[(Dtype, Option<Affine>)], rows: &[i32], what: impl Fn(&Copies, i32) -> Result<(), Failed>) -> Result<(), Failed> {
    for (dtype, affine) in forms {
        for (name, outs, ins) in SHAPES {
            let copies = Copies::new(name, Matrix { outs, ins, dtype: *dtype, affine: *affine })?;
            rows.iter().try_for_each(|rows| what(&copies, *rows))?;
        }
    }
    Ok(())
}

fn told(copies: &Copies, rows: i32, what: &str, measured: Result<Micros, String>) {
    let (m, name) = (&copies.matrix, copies.name);
    let read = bytes(m) as f64;
    match measured {
        Ok(Micros { all, host }) => {
            println!("{} {name:7} rows {rows:2} {what}: {all:7.1} us, {:4.2} TB/s; host {host:6.1} us", named(m), read / all / 1e6);
        }
        Err(why) => println!("{} {name:7} rows {rows:2} {what}: {why}", named(m)),
    }
}

/// The kernel as it is served, and MLX's own operation.
fn time(copies: &Copies, rows: i32) -> Result<(), Failed> {
    let measured = Product::new(copies.matrix).and_then(|p| copies.measure(rows, |x, w| p.apply(x, w)).map_err(one_line));
    told(copies, rows, "kernel", measured);
    let turned: Vec<Array> = copies.all.iter().map(|w| w[0].t()).collect();
    let at = std::cell::Cell::new(0);
    let own = |x: &Array, w: &[&Array]| match copies.matrix.affine {
        Some(Affine { bits, group }) => ops::quantized_matmul(x, w[0], w[1], w[2], true, group, bits),
        None => {
            at.set((at.get() + 1) % turned.len());
            ops::matmul(x, &turned[at.get()])
        }
    };
    told(copies, rows, "MLX   ", copies.measure(rows, own).map_err(one_line));
    Ok(())
}

/// The kernel with several sets of constants, the first of them as served.
fn tune(copies: &Copies, rows: i32) -> Result<(), Failed> {
    let served = copies.matrix.served(rows)?.2;
    let others = [(7, 2, 8, 132), (4, 3, 8, 132), (3, 3, 8, 132), (3, 2, 8, 264), (2, 4, 8, 132), (2, 2, 8, 264), (2, 3, 16, 132)];
    let others = others.map(|(tall, deep, warps, groups)| Dealing { tall, deep, warps, groups }).into_iter().filter(|d| *d != served);
    for dealing in std::iter::once(served).chain(others) {
        let Dealing { tall, deep, warps, groups } = dealing;
        let measured = Product::dealt(copies.matrix, dealing).and_then(|p| copies.measure(rows, |x, w| p.apply(x, w)).map_err(one_line));
        told(copies, rows, &format!("tall {tall} deep {deep} warps {warps:2} groups {groups}"), measured);
    }
    Ok(())
}

fn one_line(e: Exception) -> String {
    e.what().replace('\n', " ")
}
