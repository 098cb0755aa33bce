//! Loading takes little more memory than what is loaded: no second copy of the weights, not even for a moment.

use crate::common::{Server, copy, tokenizer};

#[test]
fn loading_peaks_below_one_point_three_times_the_weights() {
    let (_root, dir) = copy("llama_tied");
    tokenizer(&dir);
    // What any process of ours takes: the program, its libraries, the actors, the HTTP threads.
    let empty = Server::of(&dir.to_string_lossy(), &["--kv-budget", "100KB"]).proc_status("VmHWM");
    let server = Server::of_default_model(&["--kv-budget", "32MB"]);
    let peak = server.proc_status("VmHWM");
    let stats = server.stats();
    let (weights, pool) = (stats["memory"]["weight_bytes"].as_u64().unwrap(), stats["kv"]["budget_bytes"].as_u64().unwrap());
    assert!(weights > 100_000_000 && pool > 0, "{stats}");
    let loading = peak - empty - pool;
    println!("peak {peak}, an empty process {empty}, pool {pool}, weights {weights}: {:.3} of the weights", loading as f64 / weights as f64);
    assert!(loading as f64 <= 1.3 * weights as f64, "peak {peak} less {empty} for an empty process and {pool} for the pool; weights {weights}");
}
