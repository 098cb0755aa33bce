//! Every tiny model of the oracle: logits at every position and greedy ids, solo, batched, chunked, scattered (parity tier L1).

#![allow(clippy::unwrap_used)]

use models::check::check;
use models::mlx::DeviceChoice;
use std::path::Path;

/// One test for all of them: MLX is for one thread at a time.
#[test]
fn every_recorded_model_holds() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tiny");
    let mut cases: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    cases.sort();
    assert!(cases.len() >= 9, "the oracle records nine cases, {} are in {}", cases.len(), dir.display());
    for case in cases {
        for line in check(&case, DeviceChoice::Cpu, None).unwrap() {
            assert!(line.ok(), "{}: {line}", case.display());
        }
    }
}
