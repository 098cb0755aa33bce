//! The kernels held against MLX's own operations in every shape; then the one for decode rows, timed over a Llama-3-8B's pools.
//!
//! usage: attention [prove|time|all] [ROWSxCONTEXT,…]        for example: attention all 8x512,64x512,16x4096
//!
//! Each layer's output is the next layer's query, over pools of its own, so that nothing runs beside it and no cache holds the keys.

use kv::step::BLOCK_TOKENS;
use mlx_rs::{Array, Dtype, ops};
use models::config::{RopeConfig, Scaling};
use models::kernels::{Kernels, Needs, Paged, Plan, Spec, Tuning};
use models::mlx::{self, DeviceChoice, Res};
use models::rope::Rope;
use std::time::Instant;

/// Llama-3-8B.
const SPEC: Spec = Spec { heads: 32, kv_heads: 8, head_dim: 128, dtype: Dtype::Bfloat16 };
const LAYERS: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: no other thread runs yet.
    unsafe { models::mlx::settle_environment() };
    let args: Vec<String> = std::env::args().skip(1).collect();
    let what = args.first().map_or("all", String::as_str);
    if !["prove", "time", "all"].contains(&what) {
        return Err(format!("{what}: prove, time and all are possible").into());
    }
    mlx::choose(DeviceChoice::Gpu)?;
    if what != "time" {
        prove_all();
    }
    if what != "prove" {
        let shapes = args.get(1).map_or("8x512,32x512,64x512,16x4096", String::as_str);
        println!("a launch that does nothing to speak of: {:.2} us", launch_micros()?);
        for shape in shapes.split(',') {
            let (rows, context) = shape.split_once('x').ok_or_else(|| format!("{shape}: ROWSxCONTEXT is needed, such as 8x512"))?;
            time(rows.parse()?, context.parse()?)?;
        }
    }
    Ok(())
}

/// Every head_dim and type, with groups of 1, 4, 7 and 16 heads; pairings and norms take turns.
fn prove_all() {
    let mut turn = 0;
    for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
        for head_dim in [16, 64, 80, 96, 128, 256] {
            for (heads, kv_heads) in [(4, 4), (8, 2), (14, 2), (16, 1)] {
                let (traditional, qk_norm) = (turn % 2 == 1, turn / 2 % 2 == 1);
                turn += 1;
                let rope = Rope::new(&RopeConfig { theta: 500_000.0, traditional, scaling: Scaling::None }, head_dim as usize);
                let spec = Spec { heads, kv_heads, head_dim, dtype };
                let kernels = Kernels::proven(&Needs { spec, rope: &rope, hidden: 1000, inner: 1500, eps: 1e-5, qk_norm, matrices: &[] });
                let verdict = if kernels.complete() { "ok" } else { "FAILED" };
                println!("{dtype:?} head_dim {head_dim:3} heads {heads:2} over {kv_heads}: {verdict}: {}", kernels.route);
            }
        }
    }
}

/// Constants to compare, the first of them as served.
fn tunings() -> Result<Vec<Tuning>, String> {
    let served = Tuning::of(&SPEC)?;
    let more = [(16, 2, 4, 2), (16, 2, 4, 4), (16, 4, 4, 2), (16, 4, 4, 3), (16, 2, 8, 3), (8, 2, 4, 3)];
    Ok(std::iter::once(served).chain(more.map(|(lanes, deep, warps, ahead)| Tuning { lanes, deep, warps, parts: 1, ahead })).collect())
}

/// Microseconds a layer and bytes of K and V a second, for each tuning with the planned splits, then for other splits.
fn time(rows: u32, context: u32) -> Result<(), Box<dyn std::error::Error>> {
    let width = context.div_ceil(BLOCK_TOKENS);
    let slots = (rows * width + 1) * BLOCK_TOKENS;
    let pools = (0..2 * LAYERS).map(|_| waves(&[slots as i32, SPEC.kv_heads * SPEC.head_dim])).collect::<Res<Vec<Array>>>()?;
    // Blocks of a row lie apart, as they do after a while of service.
    let table: Vec<u32> = (0..rows * width).map(|i| 1 + (i % width) * rows + i / width).collect();
    let lengths = vec![context; rows as usize];
    let planned = Plan::of(&lengths, None, SPEC.kv_heads as u32).splits;
    let mut ways: Vec<(Tuning, u32)> = tunings()?.into_iter().map(|t| (t, planned)).collect();
    let served = ways[0].0;
    ways.extend([1, 2, 4, 8, 16, 32].into_iter().filter(|s| *s != planned && context.div_ceil(*s) >= 32).map(|s| (served, s)));
    for (tuning, splits) in ways {
        let paged = Paged::new(SPEC, tuning)?;
        let batch = paged.batch(&lengths, &table, &[None], Some(splits))?;
        let q = waves(&[rows as i32, SPEC.heads, SPEC.head_dim])?;
        let after = Paged::first();
        let micros = micros(&q, |q| pools.chunks_exact(2).try_fold(q, |q, kv| paged.attend(&q, (&kv[0], &kv[1]), &after, &batch, None)));
        let bytes = f64::from(rows) * f64::from(context) * f64::from(SPEC.kv_heads * SPEC.head_dim) * 4.0;
        let Tuning { lanes, deep, warps, ahead, .. } = tuning;
        match micros {
            Ok(us) => println!(
                "rows {rows:3} context {context:5} splits {splits:2} lanes {lanes:2} deep {deep} warps {warps} ahead {ahead}: {us:7.1} us a layer, {:5.2} TB/s, {:6.2} ms for {LAYERS}",
                bytes / us / 1e6,
                us * LAYERS as f64 / 1e3
            ),
            Err(e) => println!("rows {rows} context {context} splits {splits} lanes {lanes} deep {deep} warps {warps} ahead {ahead}: {}", e.what()),
        }
    }
    Ok(())
}

/// Numbers between -1 and 1 that do not repeat.
fn waves(shape: &[i32]) -> Res<Array> {
    let a = ops::sin(ops::arange::<f32, f32>(None, shape.iter().product::<i32>() as f32, None)?)?.reshape(shape)?.as_dtype(SPEC.dtype)?;
    a.eval()?;
    Ok(a)
}

/// What one operation of a chain costs when its work is next to nothing.
fn launch_micros() -> Res<f64> {
    let one = Array::from_f32(1.0);
    micros(&one, |x| (0..LAYERS).try_fold(x, |x, _| ops::add(&x, &one)))
}

/// Microseconds a layer: the median over 15 rounds, of four chains of layers each, after two rounds that compile and warm up. What it
/// costs to build the graph is not in it.
fn micros(start: &Array, layers: impl Fn(Array) -> Res<Array>) -> Res<f64> {
    let mut times = Vec::new();
    for round in 0..17 {
        let end = (0..4).try_fold(start.clone(), |x, _| layers(x))?;
        let began = Instant::now();
        end.eval()?;
        if round > 1 {
            times.push(began.elapsed().as_secs_f64() * 1e6 / (4 * LAYERS) as f64);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
