//! The pool against a naive one that counts everything from scratch, after every event. The naive pool knows what every block
//! holds on the device: for each slot, the whole prefix that its K and V were computed from, and by whom.

#![allow(clippy::unwrap_used)]

use kv::{BlockId, Grant, Pool, PoolConfig, SeqId, Settled, StepId, Want, Wants, Window, blocks_at_once};
use proptest::prelude::*;
use proptest::test_runner::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BLOCK_TOKENS: u32 = 4;
const CHUNK_MAX: u32 = 12;
/// Stands in tables for what lies behind.
const NOBODYS: BlockId = BlockId(0);

#[derive(Debug, Clone)]
enum Op {
    /// The prompt is so many tokens of one of two common texts, and then its own.
    Admit {
        text: u32,
        common: u32,
        own: Vec<u32>,
        chunk: u32,
        spare: u32,
        window: Option<u32>,
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
    /// All but the last so many of the sealed positions lie behind.
    Behind {
        row: usize,
        keep: u32,
        held: bool,
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
    let admit = (0..2u32, 0..20u32, prop::collection::vec(0..2u32, 0..9), 1..CHUNK_MAX, 0..4u32, prop::option::of(1..20u32));
    prop_oneof![
        8 => admit.prop_map(|(text, common, own, chunk, spare, window)| Op::Admit { text, common, own, chunk, spare, window }),
        6 => (0..8usize, 1..9u32).prop_map(|(row, by)| Op::Grow { row, by }),
        12 => (0..8usize, 1..16u32).prop_map(|(row, most)| Op::Seal { row, most }),
        5 => (0..8usize, 0..9u32, any::<bool>()).prop_map(|(row, keep, held)| Op::Behind { row, keep, held }),
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
    /// By block and slot: who wrote it, and the prefix that ends there.
    slots: BTreeMap<(BlockId, u32), (SeqId, Vec<u32>)>,
    /// Whose numbers went bad.
    bad: BTreeSet<SeqId>,
    held_until: BTreeMap<BlockId, StepId>,
    launched: u64,
    done: StepId,
    next: u64,
}

impl Naive {
    fn used(&self) -> BTreeSet<BlockId> {
        self.rows.values().flat_map(|row| row.table.iter().chain(&row.source)).copied().filter(|block| *block != NOBODYS).collect()
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

    /// No table names these any more; a step in flight may.
    fn let_go(&mut self, blocks: impl Iterator<Item = BlockId>, held: bool) -> Option<StepId> {
        let after = held.then(|| {
            self.launched += 1;
            StepId(self.launched)
        });
        for block in blocks {
            let until = self.held_until.entry(block).or_insert(StepId(0));
            *until = (*until).max(after.unwrap_or(StepId(0)));
        }
        after
    }

    fn pick(&self, row: usize) -> Option<SeqId> {
        self.rows.keys().nth(row % self.rows.len().max(1)).copied()
    }
}

fn settle(pool: &mut Pool, want: Want) -> Settled {
    pool.settle(Wants::new(7, vec![want]))
}

fn admit(pool: &mut Pool, naive: &mut Naive, prompt: Vec<u32>, (chunk, spare): (u32, u32), window: Option<u32>) -> Result<(), TestCaseError> {
    let seq = SeqId(naive.next);
    naive.next += 1;
    let shared: Arc<[u32]> = prompt.clone().into();
    let window = window.map(|tokens| Window { tokens, ahead: CHUNK_MAX });
    let settled = settle(pool, Want::Admit { seq, prompt: shared, chunk, spare, window });
    let whole = |given_up| blocks_at_once(window, BLOCK_TOKENS, prompt.len() as u32, given_up);
    let Some(Grant::Admitted { cached, table, copy }) = settled.grants.first().cloned() else {
        prop_assert!(settled.grants.is_empty());
        prop_assert!(whole(0) + spare > naive.available(), "refused what would fit without any sharing");
        return Ok(());
    };
    prop_assert!(cached < prompt.len() as u32, "nothing is left to compute");
    prop_assert!(naive.prefix_cache || cached == 0);
    let granted = (cached + chunk).min(prompt.len() as u32).div_ceil(BLOCK_TOKENS);
    prop_assert_eq!(table.len() as u32, granted);
    let full = (cached / BLOCK_TOKENS) as usize;
    let read_from = window.map_or(0, |window| (cached + 1).saturating_sub(window.tokens));
    let (behind, mine) = table.split_at((read_from / BLOCK_TOKENS) as usize);
    let (kept, new) = mine.split_at(full - behind.len());
    prop_assert!(behind.iter().all(|block| *block == NOBODYS) && !kept.contains(&NOBODYS), "{:?} is read from {}", table, read_from);
    naive.check_new(new)?;
    let left: BTreeSet<_> = naive.used().into_iter().chain(naive.held()).chain(kept.iter().copied()).collect();
    let more = (whole(behind.len() as u32).saturating_sub(kept.len() as u32)).max(new.len() as u32);
    prop_assert!(more + spare <= naive.blocks - left.len() as u32, "no room for the whole prompt and the spare");
    if let Some((from, to)) = copy {
        prop_assert_eq!(to, table[full]);
        for slot in 0..BLOCK_TOKENS {
            let copy = naive.slots.get(&(from, slot)).cloned();
            prop_assert!(copy.as_ref().is_some_and(|(by, _)| !naive.bad.contains(by)), "{:?} was never written, or is bad", from);
            // From here on it is the row's own.
            naive.slots.insert((to, slot), (seq, copy.unwrap().1));
        }
    }
    for position in behind.len() as u32 * BLOCK_TOKENS..cached {
        let at = (table[(position / BLOCK_TOKENS) as usize], position % BLOCK_TOKENS);
        let found = naive.slots.get(&at);
        prop_assert_eq!(found.map(|(_, prefix)| prefix.as_slice()), Some(&prompt[..=position as usize]));
        prop_assert!(found.is_some_and(|(by, _)| !naive.bad.contains(by)), "{:?} is bad", at);
    }
    prop_assert_eq!(copy.is_some(), cached % BLOCK_TOKENS != 0);
    let source = copy.map(|copy| copy.0);
    naive.rows.insert(seq, Row { tokens: prompt, table, sealed: cached, source });
    Ok(())
}

fn grow(pool: &mut Pool, naive: &mut Naive, seq: SeqId, tokens: u32) -> Result<(), TestCaseError> {
    let have = naive.rows[&seq].table.len() as u32;
    let need = tokens.div_ceil(BLOCK_TOKENS).saturating_sub(have);
    let fits = need <= naive.available();
    let settled = settle(pool, Want::Grow { seq, tokens });
    prop_assert_eq!(settled.grants.len() == 1, fits, "{} blocks of {}", need, naive.available());
    if let Some(Grant::Grown { new }) = settled.grants.first() {
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
        naive.slots.insert(at, (seq, row.tokens[..=position as usize].to_vec()));
    }
    let tokens = row.tokens[row.sealed as usize..end as usize].into();
    (row.sealed, row.source) = (end, None);
    settle(pool, Want::Seal { seq, tokens });
}

fn release(pool: &mut Pool, naive: &mut Naive, seq: SeqId, held: bool) {
    let row = naive.rows.remove(&seq).unwrap();
    let blocks = row.table.into_iter().chain(row.source).filter(|block| *block != NOBODYS);
    let after = naive.let_go(blocks, held);
    settle(pool, Want::Release { seq, after });
}

fn behind(pool: &mut Pool, naive: &mut Naive, seq: SeqId, keep: u32, held: bool) {
    let row = naive.rows.get_mut(&seq).unwrap();
    let tokens = row.sealed.saturating_sub(keep);
    let places = row.table[..(tokens / BLOCK_TOKENS) as usize].iter_mut();
    let blocks: Vec<BlockId> = places.map(|place| std::mem::replace(place, NOBODYS)).filter(|block| *block != NOBODYS).collect();
    let after = naive.let_go(blocks.into_iter(), held);
    settle(pool, Want::Behind { seq, tokens, after });
}

fn apply(pool: &mut Pool, naive: &mut Naive, op: &Op) -> Result<(), TestCaseError> {
    let row = |naive: &Naive, row: usize| naive.pick(row);
    match op {
        Op::Admit { text, common, own, chunk, spare, window } => {
            let mut prompt: Vec<u32> = (0..*common).map(|i| (i * 5 + text) % 3).collect();
            prompt.extend(own);
            if !prompt.is_empty() {
                admit(pool, naive, prompt, (*chunk, *spare), *window)?;
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
        Op::Behind { row: at, keep, held } => {
            if let Some(seq) = row(naive, *at) {
                behind(pool, naive, seq, *keep, *held);
            }
        }
        Op::Release { row: at, held } => {
            if let Some(seq) = row(naive, *at) {
                release(pool, naive, seq, *held);
            }
        }
        Op::Forget { row: at } => {
            if let Some(seq) = row(naive, *at) {
                settle(pool, Want::Forget { seq, tokens: Default::default() });
                naive.bad.insert(seq);
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
            bad: BTreeSet::new(),
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
