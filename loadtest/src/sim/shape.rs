//! Limits, pool and speeds of one seed. Small on purpose: sharing, shortage and preemption are the rule here, not the exception.

use fastrand::Rng;
use kv::{Elements, Geometry, Layer, PoolConfig, Span};
use scheduler::Limits;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) limits: Limits,
    pub(crate) pool: PoolConfig,
    pub(crate) budget_bytes: u64,
    /// Token ids are below this.
    pub(crate) vocab: u32,
    pub(crate) pace: Pace,
}

/// How long things take, in virtual microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// A step of one token, and each token more.
    pub(crate) step_us: u64,
    pub(crate) token_us: u64,
    /// From a list's sending to its settlement's arrival.
    pub(crate) settle_us: u64,
    /// From the first message noted to the turn.
    pub(crate) lag_us: u64,
    /// From the model's loss to its return.
    pub(crate) reopen_us: u64,
}

impl Shape {
    pub(crate) fn draw(rng: &mut Rng) -> Shape {
        let block_tokens = pick(rng, &[1, 2, 4, 4, 4, 4, 8, 16, 32]);
        // Half of the models have windows in all layers. Their rows may be much longer than what they hold.
        let windowed = rng.bool();
        let context = block_tokens.clamp(4, 16) * if windowed { rng.u32(6..=40) } else { rng.u32(6..=14) };
        let window = windowed.then(|| if rng.bool() { rng.u32(1..=2 * block_tokens) } else { rng.u32(1..=context) });
        let small_chunks = rng.bool();
        let limits = Limits {
            batch: pick(rng, &[1, 2, 3, 4, 5, 6, 8, 16]),
            prefill_chunk: if small_chunks { rng.u32(1..=8) } else { rng.u32(8..=64) },
            step_tokens: if rng.bool() { rng.u32(2..=24) } else { rng.u32(24..=96) },
            context,
            depth: rng.u32(1..=2),
            queue: if rng.bool() { rng.u32(1..=8) } else { 48 },
            pool_tokens: 0,
            block_tokens,
            prefix_cache: rng.u32(0..4) > 0,
            window,
        };
        let tiny = rng.u32(0..4) > 0;
        // Tiny pools hold one to three of the longest rows; some do not even hold one.
        let longest = limits.blocks_at_once(context, 0);
        let blocks = if tiny { rng.u32(longest.div_ceil(2).max(2)..=longest * 2) } else { rng.u32(longest * 2..=longest * 6) };
        let limits = Limits { pool_tokens: u64::from(blocks * block_tokens), ..limits };
        let (block_bytes, budget_bytes) = budget(rng, &limits, blocks);
        let pool = PoolConfig { blocks, block_tokens, block_bytes, prefix_cache: limits.prefix_cache };
        Shape { limits, pool, budget_bytes, vocab: rng.u32(8..=64), pace: Pace::draw(rng) }
    }
}

impl Pace {
    fn draw(rng: &mut Rng) -> Pace {
        let step_us = rng.u64(1_000..=200_000);
        // Mailboxes are fast as a rule, and as slow as steps in some seeds, so that everything can come while a list is out.
        let mailbox = |rng: &mut Rng| if rng.u32(0..3) > 0 { rng.u64(0..=20) } else { rng.u64(0..=2 * step_us) };
        let (settle_us, lag_us) = (mailbox(rng), mailbox(rng));
        Pace { step_us, token_us: rng.u64(0..=step_us / 4), settle_us, lag_us, reopen_us: rng.u64(1..=20 * step_us) }
    }
}

/// Bytes of a block of some model, and what a budget leaves for blocks once its rows' states are billed: it holds so many blocks and
/// block 0, with some bytes too few for another.
fn budget(rng: &mut Rng, limits: &Limits, blocks: u32) -> (u64, u64) {
    let constant_bytes = pick(rng, &[2, 4]);
    let quantised = Elements::Affine { bits: pick(rng, &[4, 8]), group: 32, constant_bytes };
    let elements = if rng.bool() { Elements::Dense { bytes: constant_bytes } } else { quantised };
    let span = limits.window.map_or(Span::Full, Span::Window);
    let layer = Layer { span, kv_heads: rng.u32(1..=4), head_dim: rng.u32(1..=4) * 32, elements };
    let geometry = Geometry::new(vec![layer; rng.usize(1..=4)], limits.block_tokens).expect("a layer with K and V makes a block");
    let geometry = geometry.with_state(if rng.bool() { rng.u64(1..=100_000) } else { 0 });
    assert_eq!(geometry.window(), limits.window);
    let block_bytes = geometry.block_bytes();
    let states_bytes = geometry.state_bytes() * u64::from(limits.batch);
    let budget_bytes = geometry.bytes(u64::from(blocks), limits.batch) + rng.u64(0..block_bytes);
    assert_eq!(geometry.blocks(budget_bytes, limits.batch), blocks, "blocks of {block_bytes} bytes in {budget_bytes}");
    (block_bytes, budget_bytes - states_bytes)
}

pub(crate) fn pick(rng: &mut Rng, from: &[u32]) -> u32 {
    from[rng.usize(0..from.len())]
}
