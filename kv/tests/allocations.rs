//! Settling allocates nothing in the state that lasts, whatever a turn holds: growth, seals, ends, what lies behind. Only an admission
//! does, once: the table that leaves with it.

#![allow(clippy::unwrap_used)]

use kv::{Grant, Pool, PoolConfig, SeqId, StepId, Want, Wants, Window};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

/// Counts what this thread asks for, so that other threads of the test do not matter.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIZE: u32 = 4;
const ROWS: u64 = 16;
/// A prompt of its own length for each of the rows that run together, and an answer that ends them at different times.
const PROMPT: u32 = 24;
const ANSWER: u32 = 40;
/// Until every row's memory was that of a longest row.
const WARM_UP: u64 = 2000;
const TURNS: u64 = 600;

#[derive(Debug, Clone, Copy)]
struct Case {
    blocks: u32,
    prefix_cache: bool,
    window: Option<Window>,
    /// Of how many texts the prompts are: of few, they are cached as a rule, and copied from.
    texts: u64,
}

#[derive(Debug)]
struct Row {
    seq: SeqId,
    prompt: Arc<[u32]>,
    known: u32,
    room: u32,
}

/// What was settled, and what it allocated.
#[derive(Debug, Default)]
struct Sum {
    admitted: u64,
    copied: u64,
    grown: u64,
    allocated: u64,
}

struct Loop {
    case: Case,
    pool: Pool,
    rows: Vec<Row>,
    wants: Wants,
    next: u64,
    sum: Sum,
}

impl Loop {
    fn new(case: Case) -> Loop {
        let pool = Pool::new(PoolConfig { blocks: case.blocks, block_tokens: SIZE, block_bytes: 1, prefix_cache: case.prefix_cache });
        Loop { case, pool, rows: Vec::new(), wants: Wants::new(0, Vec::new()), next: 0, sum: Sum::default() }
    }

    /// One turn as the scheduler makes it: the last step is done, its tokens are sealed, rows end, others grow and enter.
    fn turn(&mut self, turn: u64) {
        let list = &mut self.wants.list;
        self.wants.turn = turn;
        list.push(Want::Done { step: StepId(turn) });
        for row in self.rows.iter_mut().filter(|row| row.known < row.room) {
            list.push(Want::Seal { seq: row.seq, tokens: [row.known].into_iter().collect() });
            row.known += 1;
            if let Some(window) = self.case.window {
                let tokens = window.reads_from(row.known) / SIZE * SIZE;
                list.push(Want::Behind { seq: row.seq, tokens, after: Some(StepId(turn + 1)) });
            }
        }
        let ends = |row: &Row| row.known >= PROMPT + ANSWER + row.seq.0 as u32 % 7;
        list.extend(self.rows.extract_if(.., |row| ends(row)).map(|row| Want::Release { seq: row.seq, after: Some(StepId(turn + 1)) }));
        for row in self.rows.iter_mut().filter(|row| row.known == row.room) {
            row.room += SIZE;
            list.push(Want::Grow { seq: row.seq, tokens: row.known + 1 });
        }
        if (self.rows.len() as u64) < ROWS {
            self.enter();
        }
        self.settle();
    }

    fn enter(&mut self) {
        self.next += 1;
        let (seq, text) = (SeqId(self.next), (self.next % self.case.texts) as u32);
        let prompt: Arc<[u32]> = (0..PROMPT).map(|at| text * 1000 + at).collect();
        self.wants.list.push(Want::Admit { seq, prompt: prompt.clone(), chunk: PROMPT, spare: 0, window: self.case.window });
        self.rows.push(Row { seq, prompt, known: PROMPT, room: PROMPT });
    }

    fn settle(&mut self) {
        let wants = std::mem::replace(&mut self.wants, Wants::new(0, Vec::new()));
        let before = COUNT.get();
        let mut settled = self.pool.settle(wants);
        self.sum.allocated += COUNT.get() - before;
        for grant in settled.grants.drain(..) {
            match grant {
                Grant::Grown { new } => self.sum.grown += new.len() as u64,
                Grant::Admitted { cached, copy, .. } => {
                    self.sum.admitted += 1;
                    self.sum.copied += u64::from(copy.is_some());
                    // Its prompt is computed in a step of which nothing is told here.
                    let row = self.rows.last().unwrap();
                    self.wants.list.push(Want::Seal { seq: row.seq, tokens: row.prompt[cached as usize..].into() });
                }
            }
        }
        self.pool.check().unwrap();
        // The list of the seal, if there is one, is of this turn already.
        let mut list = settled.room;
        list.append(&mut self.wants.list);
        self.wants = Wants { turn: 0, list, room: settled.grants };
    }
}

#[test]
fn only_an_admission_allocates_and_only_its_table() {
    let plenty = Case { blocks: 1000, prefix_cache: true, window: None, texts: 1000 };
    let window = Some(Window { tokens: 20, ahead: 8 });
    let cases = [
        plenty,
        // Rows take each other's cached blocks.
        Case { blocks: 320, ..plenty },
        Case { prefix_cache: false, ..plenty },
        Case { texts: 3, ..plenty },
        Case { window, ..plenty },
        Case { window, texts: 3, ..plenty },
    ];
    for case in cases {
        let mut running = Loop::new(case);
        (1..=WARM_UP).for_each(|turn| running.turn(turn));
        running.sum = Sum::default();
        (WARM_UP + 1..=WARM_UP + TURNS).for_each(|turn| running.turn(turn));
        let Sum { admitted, copied, grown, allocated } = running.sum;
        assert!(admitted > 100 && grown > 1000 && (copied > 0) == (case.texts == 3), "{case:?}: {:?}", running.sum);
        assert_eq!(allocated, admitted, "{case:?}");
    }
}
