//! Loading takes little more memory than what is loaded: no second copy of the weights, not even for a moment.

use crate::common::{Server, copy, tokenizer};

#[test]
fn loading_peaks_below_one_point_three_times_the_weights() {
    let (_root, dir) = copy("llama_tied");
    tokenizer(&dir);
    // What any worker takes: the program and its libraries.
    let peak = |server: &Server| server.proc_status_of(server.stats()["worker"]["pid"].as_u64().unwrap() as u32, "VmHWM");
    let empty = peak(&Server::of(&dir.to_string_lossy(), &["--kv-budget", "100KB"]));
    let server = Server::of_default_model(&["--kv-budget", "32MB"]);
    let peak = peak(&server);
    let stats = server.stats();
    let (weights, pool) = (stats["memory"]["weight_bytes"].as_u64().unwrap(), stats["kv"]["budget_bytes"].as_u64().unwrap());
    assert!(weights > 100_000_000 && pool > 0, "{stats}");
    let loading = peak - empty - pool;
    println!("peak {peak}, an empty process {empty}, pool {pool}, weights {weights}: {:.3} of the weights", loading as f64 / weights as f64);
    assert!(loading as f64 <= 1.3 * weights as f64, "peak {peak} less {empty} for an empty process and {pool} for the pool; weights {weights}");
}
