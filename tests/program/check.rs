//! `coxswain check`: 0 where a model agrees with its recording, 1 where it does not, 2 where there is nothing to compare.

use crate::common::{TINY, Tensors, copy, ended, names};
use std::path::Path;

fn check(dirs: &[&str]) -> (Option<i32>, String, String) {
    let args: Vec<&str> = ["check", "--device", "cpu"].iter().chain(dirs).copied().collect();
    let output = ended(&args);
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A copy whose recording was changed.
fn changed(name: &str, change: impl Fn(&mut Tensors)) -> (Option<i32>, String, String) {
    let (_root, dir) = copy(name);
    let file = dir.join("golden.safetensors");
    let mut golden = Tensors::read(&file);
    change(&mut golden);
    golden.write(&file);
    check(&[&dir.to_string_lossy()])
}

#[test]
fn every_tiny_model_agrees_with_its_recording() {
    let dirs: Vec<String> = names().iter().map(|n| Path::new(TINY).join(n).to_string_lossy().into_owned()).collect();
    let dirs: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let (code, said, wrong) = check(&dirs);
    assert_eq!((code, wrong.as_str()), (Some(0), ""), "{said}");
    for dir in dirs {
        assert!(said.lines().any(|l| l.starts_with(dir)), "{dir} was not held against anything:\n{said}");
    }
    assert!(said.lines().all(|l| l.ends_with(": ok")), "{said}");
}

#[test]
fn a_recording_that_is_only_written_again_still_agrees() {
    assert_eq!(changed("llama_tied", |_| ()).0, Some(0));
}

/// The recording with its last prompt under these numbers as well.
fn repeated(golden: &mut Tensors, numbers: impl IntoIterator<Item = usize>) {
    for n in numbers {
        for what in ["ids", "logits", "greedy"] {
            golden.copy(&format!("{what}_1"), &format!("{what}_{n}"));
        }
    }
}

/// Each has blocks of its own: more of them than the pool held once wrote past its end.
#[test]
fn many_prompts_run_in_one_batch() {
    let (code, said, wrong) = changed("llama_tied", |golden| repeated(golden, 2..24));
    assert_eq!((code, wrong.as_str()), (Some(0), ""), "{said}");
}

#[test]
fn a_gap_in_a_recording_is_named() {
    let (code, _, wrong) = changed("llama_tied", |golden| repeated(golden, [3]));
    assert_eq!(code, Some(2));
    assert!(wrong.contains("has tensor ids_3, but no tensor ids_2"), "{wrong}");
}

#[test]
fn one_logit_off_by_a_hundredth_of_the_spread_is_found() {
    for (name, place) in [("llama_tied", 0), ("llama_q4_mixed", 700), ("qwen3_qknorm", usize::MAX)] {
        let (code, said, _) = changed(name, |golden| {
            let logits = golden.floats("logits_0");
            let (lo, hi) = logits.iter().fold((f32::MAX, f32::MIN), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
            let place = place.min(logits.len() - 1);
            // Towards the middle, so that the spread stays what it is.
            let off = if logits[place] > (lo + hi) / 2.0 { -0.01 } else { 0.01 };
            golden.set_float("logits_0", place, logits[place] + off * (hi - lo));
        });
        assert_eq!(code, Some(1), "{name}: {said}");
        assert!(said.contains("FAILED"), "{name}: {said}");
    }
}

#[test]
fn one_greedy_id_changed_is_found() {
    for index in [0, 3] {
        let (code, said, _) = changed("llama_tied", |golden| {
            let id = golden.ids("greedy_1")[index];
            golden.set_id("greedy_1", index, (id + 1) % 512);
        });
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("greedy id {index} ")) && said.contains("FAILED"), "{said}");
    }
}

#[test]
fn a_damaged_folder_is_no_failed_comparison() {
    let (_root, dir) = copy("llama_tied");
    let at = |file: &str| dir.join(file);
    let whole = std::fs::read(at("golden.safetensors")).unwrap();
    std::fs::write(at("golden.safetensors"), &whole[..whole.len() / 2]).unwrap();
    refused(&dir, "golden.safetensors");
    std::fs::write(at("golden.safetensors"), &whole).unwrap();
    let mut weights = Tensors::read(&at("model.safetensors"));
    weights.remove("model.norm.weight");
    weights.write(&at("model.safetensors"));
    refused(&dir, "model.norm.weight");
    std::fs::remove_file(at("config.json")).unwrap();
    refused(&dir, "config.json");
}

fn refused(dir: &Path, part: &str) {
    let (code, _, wrong) = check(&[&dir.to_string_lossy()]);
    assert_eq!(code, Some(2), "{wrong}");
    assert!(wrong.lines().count() == 1 && wrong.contains(part), "{part}: {wrong}");
}
