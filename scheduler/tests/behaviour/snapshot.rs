//! What a snapshot counts.

use crate::bench::{Bench, ask, limits, own};
use kv::SeqId;
use scheduler::{KeyId, KeyLoad, Limits, Snapshot, Submit};

#[test]
fn a_snapshot_counts_rows_tokens_and_charges() {
    let mut bench = Bench::new(Limits { batch: 2, ..limits() });
    let load = |key, running, waiting| KeyLoad { key: KeyId(key), running, waiting, charged: 5 + 2 + 40 };
    bench.submit(ask(1, own(1, 5), 9)).unwrap();
    bench.step();
    bench.submit(ask(2, own(2, 40), 2)).unwrap();
    bench.launch();
    bench.submit(Submit { key: KeyId(2), ..ask(3, own(3, 7), 2) }).unwrap();
    let busy = Snapshot {
        running: 2,
        prefilling: 1,
        waiting: 1,
        preempted: 0,
        steps_in_flight: 1,
        running_tokens: 6 + 40,
        waiting_tokens: 7,
        recomputed_tokens: 0,
        draining: false,
        ledger: bench.pool.ledger(),
        prefills: vec![(SeqId(2), 16)],
        keys: vec![load(1, 2, 0), load(2, 0, 1)],
    };
    assert_eq!(bench.scheduler.snapshot(), busy);
    bench.scheduler.model_lost(bench.now_us);
    bench.flights.clear();
    let keys = vec![load(1, 0, 2), load(2, 0, 1)];
    let lost = Snapshot { running: 0, prefilling: 0, preempted: 2, steps_in_flight: 0, running_tokens: 0, prefills: vec![], keys, ..busy.clone() };
    assert_eq!(bench.scheduler.snapshot(), lost);
    bench.launch();
    bench.scheduler.drain();
    // The first row's six tokens are in the step that is in flight, and a token is drawn from them.
    let back = Snapshot { recomputed_tokens: 6 + 40, draining: true, ledger: bench.pool.ledger(), ..busy };
    assert_eq!(bench.scheduler.snapshot(), back);
}
