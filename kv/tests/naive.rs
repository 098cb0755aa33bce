//! The pool against a naive one that counts everything from scratch, after every event. The naive pool knows what every block
//! holds on the device: for each slot, the whole prefix that its K and V were computed from.

#![allow(clippy::unwrap_used)]

use kv::{BlockId, Grant, Pool, PoolConfig, SeqId, Settled, StepId, Want, Wants};
use proptest::prelude::*;
use proptest::test_runner::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BLOCK_TOKENS: u32 = 4;

#[derive(Debug, Clone)]
enum Op {
    /// The prompt is so many tokens of one of two common texts, and then its own.
    Admit {
        text: u32,
        common: u32,
        own: Vec<u32>,
        chunk: u32,
        spare: u32,
    },
    Grow {
        row: usize,
        by: u32,
    },
    /// Computes what there is room for, up to so many tokens, and seals it.
    Seal {
        row: usize,
        most: u32,
    },
    Release {
        row: usize,
        held: bool,
    },
    Forget {
        row: usize,
    },
    /// The steps launched so far, up to so many ago, are done.
    Done {
        ago: u64,
    },
    Void,
}

fn op() -> impl Strategy<Value = Op> {
    let admit = (0..2u32, 0..20u32, prop::collection::vec(0..2u32, 0..9), 1..12u32, 0..4u32);
    prop_oneof![
        8 => admit.prop_map(|(text, common, own, chunk, spare)| Op::Admit { text, common, own, chunk, spare }),
        6 => (0..8usize, 1..9u32).prop_map(|(row, by)| Op::Grow { row, by }),
        12 => (0..8usize, 1..16u32).prop_map(|(row, most)| Op::Seal { row, most }),
        5 => (0..8usize, any::<bool>()).prop_map(|(row, held)| Op::Release { row, held }),
        1 => (0..8usize).prop_map(|row| Op::Forget { row }),
        5 => (0..2u64).prop_map(|ago| Op::Done { ago }),
        1 => Just(Op::Void),
    ]
}

#[derive(Debug)]
struct Row {
    tokens: Vec<u32>,
    table: Vec<BlockId>,
    sealed: u32,
    /// Source of a copy, until the first seal.
    source: Option<BlockId>,
}

struct Naive {
    blocks: u32,
    prefix_cache: bool,
    rows: BTreeMap<SeqId, Row>,
    /// By block and slot: the prefix that ends there.
    slots: BTreeMap<(BlockId, u32), Vec<u32>>,
    held_until: BTreeMap<BlockId, StepId>,
    launched: u64,
    done: StepId,
    next: u64,
}

impl Naive {
    fn used(&self) -> BTreeSet<BlockId> {
        self.rows.values().flat_map(|row| row.table.iter().chain(&row.source)).copied().collect()
    }

    fn held(&self) -> BTreeSet<BlockId> {
        let used = self.used();
        let held = self.held_until.iter().filter(|(block, until)| **until > self.done && !used.contains(block));
        held.map(|(block, _)| *block).collect()
    }

    fn available(&self) -> u32 {
        self.blocks - (self.used().len() + self.held().len()) as u32
    }

    /// Blocks that were handed out to be written were in nobody's hands.
    fn check_new(&self, new: &[BlockId]) -> Result<(), TestCaseError> {
        let (used, held) = (self.used(), self.held());
        for (at, block) in new.iter().enumerate() {
            prop_assert!(block.0 >= 1 && block.0 <= self.blocks, "{block:?} does not exist");
            prop_assert!(!used.contains(block), "{block:?} is in use");
            prop_assert!(!held.contains(block), "{block:?} is held");
            prop_assert!(!new[..at].contains(block), "{block:?} is given twice");
        }
        Ok(())
    }

    fn pick(&self, row: usize) -> Option<SeqId> {
        self.rows.keys().nth(row % self.rows.len().max(1)).copied()
    }
}

fn settle(pool: &mut Pool, want: Want) -> Settled {
    pool.settle(Wants { turn: 7, list: vec![want] })
}

fn admit(pool: &mut Pool, naive: &mut Naive, prompt: Vec<u32>, chunk: u32, spare: u32) -> Result<(), TestCaseError> {
    let seq = SeqId(naive.next);
    naive.next += 1;
    let shared: Arc<[u32]> = prompt.clone().into();
    let settled = settle(pool, Want::Admit { seq, prompt: shared, chunk, spare });
    let whole = (prompt.len() as u32).div_ceil(BLOCK_TOKENS);
    let Some(Grant::Admitted { cached, table, copies }) = settled.grants.first().cloned() else {
        prop_assert!(settled.grants.is_empty());
        prop_assert!(whole + spare > naive.available(), "refused what would fit without any sharing");
        return Ok(());
    };
    prop_assert!(cached < prompt.len() as u32, "nothing is left to compute");
    prop_assert!(naive.prefix_cache || cached == 0);
    let granted = (cached + chunk).min(prompt.len() as u32).div_ceil(BLOCK_TOKENS);
    prop_assert_eq!(table.len() as u32, granted);
    let full = (cached / BLOCK_TOKENS) as usize;
    let (kept, new) = table.split_at(full);
    naive.check_new(new)?;
    let left: BTreeSet<_> = naive.used().into_iter().chain(naive.held()).chain(kept.iter().copied()).collect();
    prop_assert!(whole - full as u32 + spare <= naive.blocks - left.len() as u32, "no room for the whole prompt and the spare");
    for &(from, to) in &copies {
        prop_assert_eq!(to, table[full]);
        for slot in 0..BLOCK_TOKENS {
            let copy = naive.slots.get(&(from, slot)).cloned();
            prop_assert!(copy.is_some(), "{:?} was never written", from);
            naive.slots.insert((to, slot), copy.unwrap());
        }
    }
    for position in 0..cached {
        let at = (table[(position / BLOCK_TOKENS) as usize], position % BLOCK_TOKENS);
        prop_assert_eq!(naive.slots.get(&at).map(Vec::as_slice), Some(&prompt[..=position as usize]));
    }
    prop_assert_eq!(copies.len() == 1, cached % BLOCK_TOKENS != 0);
    let source = copies.first().map(|copy| copy.0);
    naive.rows.insert(seq, Row { tokens: prompt, table, sealed: cached, source });
    Ok(())
}

fn grow(pool: &mut Pool, naive: &mut Naive, seq: SeqId, tokens: u32) -> Result<(), TestCaseError> {
    let have = naive.rows[&seq].table.len() as u32;
    let need = tokens.div_ceil(BLOCK_TOKENS).saturating_sub(have);
    let fits = need <= naive.available();
    let settled = settle(pool, Want::Grow { seq, tokens });
    prop_assert_eq!(settled.grants.len() == 1, fits, "{} blocks of {}", need, naive.available());
    if let Some(Grant::Grown { new, copies }) = settled.grants.first() {
        prop_assert!(copies.is_empty());
        prop_assert_eq!(new.len() as u32, need);
        naive.check_new(new)?;
        naive.rows.get_mut(&seq).unwrap().table.extend(new);
    }
    Ok(())
}

fn seal(pool: &mut Pool, naive: &mut Naive, seq: SeqId, most: u32) {
    let row = naive.rows.get_mut(&seq).unwrap();
    let end = (row.table.len() as u32 * BLOCK_TOKENS).min(row.sealed + most);
    while (row.tokens.len() as u32) < end {
        row.tokens.push(row.tokens.len() as u32 % 2);
    }
    for position in row.sealed..end {
        let at = (row.table[(position / BLOCK_TOKENS) as usize], position % BLOCK_TOKENS);
        naive.slots.insert(at, row.tokens[..=position as usize].to_vec());
    }
    let tokens = row.tokens[row.sealed as usize..end as usize].to_vec();
    (row.sealed, row.source) = (end, None);
    settle(pool, Want::Seal { seq, tokens });
}

fn release(pool: &mut Pool, naive: &mut Naive, seq: SeqId, held: bool) {
    let row = naive.rows.remove(&seq).unwrap();
    let after = held.then(|| {
        naive.launched += 1;
        StepId(naive.launched)
    });
    for block in row.table.iter().chain(&row.source) {
        let until = naive.held_until.entry(*block).or_insert(StepId(0));
        *until = (*until).max(after.unwrap_or(StepId(0)));
    }
    settle(pool, Want::Release { seq, after });
}

fn apply(pool: &mut Pool, naive: &mut Naive, op: &Op) -> Result<(), TestCaseError> {
    let row = |naive: &Naive, row: usize| naive.pick(row);
    match op {
        Op::Admit { text, common, own, chunk, spare } => {
            let mut prompt: Vec<u32> = (0..*common).map(|i| (i * 5 + text) % 3).collect();
            prompt.extend(own);
            if !prompt.is_empty() {
                admit(pool, naive, prompt, *chunk, *spare)?;
            }
        }
        Op::Grow { row: at, by } => {
            if let Some(seq) = row(naive, *at) {
                let tokens = naive.rows[&seq].table.len() as u32 * BLOCK_TOKENS + by - 1;
                grow(pool, naive, seq, tokens)?;
            }
        }
        Op::Seal { row: at, most } => {
            if let Some(seq) = row(naive, *at) {
                seal(pool, naive, seq, *most);
            }
        }
        Op::Release { row: at, held } => {
            if let Some(seq) = row(naive, *at) {
                release(pool, naive, seq, *held);
            }
        }
        Op::Forget { row: at } => {
            if let Some(seq) = row(naive, *at) {
                settle(pool, Want::Forget { seq });
                // Like a row whose numbers went bad: it ends, and was the last to touch its blocks.
                release(pool, naive, seq, false);
            }
        }
        Op::Done { ago } => {
            let step = StepId(naive.launched.saturating_sub(*ago));
            naive.done = naive.done.max(step);
            settle(pool, Want::Done { step });
        }
        Op::Void => {
            settle(pool, Want::Void);
            naive.rows.clear();
            naive.slots.clear();
            naive.held_until.clear();
        }
    }
    Ok(())
}

fn compare(pool: &Pool, naive: &Naive) -> Result<(), TestCaseError> {
    pool.check().map_err(|violation| TestCaseError::fail(violation.to_string()))?;
    let ledger = pool.ledger();
    prop_assert_eq!(ledger.total, naive.blocks);
    prop_assert_eq!(ledger.rows as usize, naive.used().len());
    prop_assert_eq!(ledger.held as usize, naive.held().len());
    prop_assert_eq!(ledger.free + ledger.prefix, naive.available());
    prop_assert!(naive.prefix_cache || ledger.prefix == 0);
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 2_000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn agrees_with_a_naive_pool(blocks in 1..24u32, prefix_cache: bool, ops in prop::collection::vec(op(), 1..150)) {
        let config = PoolConfig { blocks, block_tokens: BLOCK_TOKENS, block_bytes: 100, prefix_cache };
        let mut pool = Pool::new(config);
        let mut naive = Naive {
            blocks,
            prefix_cache,
            rows: BTreeMap::new(),
            slots: BTreeMap::new(),
            held_until: BTreeMap::new(),
            launched: 0,
            done: StepId(0),
            next: 0,
        };
        for op in &ops {
            apply(&mut pool, &mut naive, op)?;
            compare(&pool, &naive)?;
        }
    }
}
