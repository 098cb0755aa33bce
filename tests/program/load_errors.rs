//! What cannot be served is refused with exit code 2 and one line that names the file and the tensor, field or flag.

use crate::common::{Gguf, Tensors, copy, ended, tokenizer};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Standard error of a `serve` that must not begin.
fn refused(args: &[&str]) -> String {
    let args: Vec<&str> = ["serve"].iter().chain(args).copied().collect();
    let output = ended(&args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(!said.contains("panicked") && !said.contains("backtrace"), "{args:?}: {said}");
    said
}

/// One line, with all of `parts` in it.
fn says(said: &str, parts: &[&str]) {
    assert!(said.starts_with("coxswain: ") && said.lines().count() == 1, "not one line: {said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

type Damage = (&'static str, fn(&Path), &'static [&'static str]);

/// A name for the case, what is done to a folder that would be served, and what must be said.
const FOLDERS: &[Damage] = &[
    ("weights cut in the header", |dir| cut(&dir.join("model.safetensors"), |_| 100), &["model.safetensors", "truncated"]),
    ("weights cut in the header's length", |dir| cut(&dir.join("model.safetensors"), |_| 5), &["model.safetensors", "truncated"]),
    ("weights cut in the data", |dir| cut(&dir.join("model.safetensors"), |n| n - 1), &["model.safetensors", "truncated", "tensor model."]),
    ("weights too long", |dir| cut(&dir.join("model.safetensors"), |n| n + 1), &["model.safetensors", "its header says"]),
    ("no weights", |dir| std::fs::remove_file(dir.join("model.safetensors")).unwrap(), &["no *.safetensors"]),
    (
        "a tensor missing",
        |dir| weights(dir, |w| w.remove("model.layers.1.mlp.up_proj.weight")),
        &["model.safetensors: tensor model.layers.1.mlp.up_proj.weight", "missing"],
    ),
    (
        "a shape wrong",
        |dir| weights(dir, |w| w.transpose("model.layers.2.mlp.down_proj.weight")),
        &["model.safetensors", "tensor model.layers.2.mlp.down_proj.weight", "[128, 64]", "[64, 128]"],
    ),
    ("an unknown architecture", |dir| config(dir, "model_type", json!("mamba")), &["config.json", "model_type", "\"mamba\"", "llama"]),
    ("no architecture", |dir| config(dir, "model_type", Value::Null), &["config.json", "model_type", "missing"]),
    (
        "an unknown rope",
        |dir| config(dir, "rope_scaling", json!({"rope_type": "spiral", "factor": 2.0})),
        &["config.json", "rope_scaling.", "\"spiral\"", "yarn"],
    ),
    ("a size that does not fit", |dir| config(dir, "hidden_size", json!(96)), &["model.safetensors", "tensor model.", "96"]),
    ("a size that is none", |dir| config(dir, "num_hidden_layers", json!(-3)), &["config.json", "num_hidden_layers", "-3"]),
    ("config.json broken", |dir| cut(&dir.join("config.json"), |n| n / 2), &["config.json", "JSON"]),
    ("config.json missing", |dir| std::fs::remove_file(dir.join("config.json")).unwrap(), &["config.json"]),
    (
        "more layers than the config has",
        |dir| config(dir, "num_hidden_layers", json!(2)),
        &["model.safetensors", "9 tensors", "config.json", "model.layers.2.input_layernorm.weight"],
    ),
    (
        "a shard missing",
        |dir| {
            index(dir, "m-2.safetensors");
            std::fs::remove_file(dir.join("model.safetensors")).unwrap();
        },
        &["model.safetensors.index.json", "weight_map", "m-2.safetensors is missing"],
    ),
    (
        "a tensor of another shard",
        |dir| {
            index(dir, "m-2.safetensors");
            weights_to(dir, "m-2.safetensors", |w| w.remove("model.norm.weight"));
            std::fs::remove_file(dir.join("model.safetensors")).unwrap();
        },
        &["m-2.safetensors", "tensor model.norm.weight", "missing", "model.safetensors.index.json"],
    ),
    ("a tensor of a type that is none", |dir| weights(dir, |w| w.set_dtype("model.norm.weight", "F33")), &["tensor model.norm.weight", "`F33`", "`F32`"]),
    ("a rope that does not turn", |dir| config(dir, "rope_theta", json!(1)), &["config.json", "rope_theta", "above 1"]),
    ("a pipe for a template", |dir| pipe(&dir.join("chat_template.jinja")), &["chat_template.jinja", "not a plain file"]),
    (
        "a pipe for a tokenizer",
        |dir| {
            std::fs::remove_file(dir.join("tokenizer.json")).unwrap();
            pipe(&dir.join("tokenizer.json"));
        },
        &["tokenizer.json", "not a plain file"],
    ),
    ("tokenizer.json missing", |dir| std::fs::remove_file(dir.join("tokenizer.json")).unwrap(), &["tokenizer.json", "not found"]),
    ("tokenizer.json broken", |dir| cut(&dir.join("tokenizer.json"), |n| n / 2), &["tokenizer.json", "not a tokenizer"]),
];

fn cut(file: &Path, length: fn(u64) -> u64) {
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.set_len(length(file.metadata().unwrap().len())).unwrap();
}

fn weights(dir: &Path, damage: fn(&mut Tensors)) {
    let file = dir.join("model.safetensors");
    let mut tensors = Tensors::read(&file);
    damage(&mut tensors);
    tensors.write(&file);
}

/// The weights again under another name, damaged.
fn weights_to(dir: &Path, name: &str, damage: fn(&mut Tensors)) {
    let mut tensors = Tensors::read(&dir.join("model.safetensors"));
    damage(&mut tensors);
    tensors.write(&dir.join(name));
}

/// An index by which the last norm's weight is in a shard of this name.
fn index(dir: &Path, shard: &str) {
    let map = json!({"model.norm.weight": shard});
    std::fs::write(dir.join("model.safetensors.index.json"), json!({"weight_map": map}).to_string()).unwrap();
}

fn pipe(file: &Path) {
    let made = Command::new("mkfifo").arg(file).status().unwrap();
    assert!(made.success(), "mkfifo {}: {made}", file.display());
}

fn config(dir: &Path, field: &str, value: Value) {
    let file = dir.join("config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    config[field] = value;
    std::fs::write(file, config.to_string()).unwrap();
}

#[test]
fn damaged_folders_are_named() {
    for (case, damage, parts) in FOLDERS {
        println!("{case}");
        let (_root, dir) = copy("llama_tied");
        tokenizer(&dir);
        damage(&dir);
        let dir = dir.to_string_lossy();
        let said = refused(&["--port", "0", "--kv-budget", "1MB", "--model", &dir]);
        says(&said, parts);
        says(&said, &[&dir]);
    }
}

#[test]
fn damaged_gguf_files_are_named() {
    let file = Gguf::of_default_model();
    let path = file.path.to_string_lossy().into_owned();
    let model = ["--port", "0", "--kv-budget", "64MB", "--model", &path];
    file.set_kind("blk.3.ffn_up.weight", 14);
    says(&refused(&model), &[&path, "blk.3.ffn_up.weight", "Q6_K", "Q4_1"]);
    file.set_kind("blk.3.ffn_up.weight", 3);
    file.set_text("general.architecture", "mamba");
    says(&refused(&model), &[&path, "general.architecture", "\"mamba\""]);
    file.cut(7 << 20);
    says(&refused(&model), &[&path, "tensor ", "truncated"]);
    for bytes in [100_000, 20, 3, 0] {
        file.cut(bytes);
        says(&refused(&model), &[&path]);
    }
}

#[test]
fn what_cannot_be_asked_for_is_named() {
    let (_root, dir) = copy("llama_tied");
    tokenizer(&dir);
    let dir = dir.to_string_lossy();
    let said = |more: &[&str]| {
        let args: Vec<&str> = ["--model", &dir].iter().chain(more).copied().collect();
        refused(&args)
    };
    says(&said(&["--port", "0", "--kv-budget", "1KB"]), &["--kv-budget", "1.0 KB", "24.6 KB"]);
    says(&said(&["--port", "0", "--kv-budget", "900TB"]), &["--kv-budget", "900000.0 GB", "more than"]);
    says(&said(&["--port", "0", "--kv-budget", "1MB", "--context", "2049"]), &["--context 2049", "2048 positions"]);
    // More than once: the actors are up by then, and how far they have come when they are let go of differs from run to run.
    for _ in 0..10 {
        says(&said(&["--port", "0", "--kv-budget", "1MB", "--host", "0.0.0.0"]), &["0.0.0.0", "--open"]);
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    says(&said(&["--port", &port, "--kv-budget", "1MB"]), &[&format!("127.0.0.1:{port}"), "in use"]);
    says(&refused(&["--model", "/no/such/model"]), &["--model", "/no/such/model"]);
}

/// The command line's own errors come from its parser, which adds where help is to be had.
#[test]
fn a_wrong_flag_is_named() {
    for (args, parts) in [(["--kv-budget", "x"], ["--kv-budget", "\"x\"", "GiB"]), (["--batch", "0"], ["--batch", "'0'", "1..=512"])] {
        let said = refused(&args);
        let (first, rest) = said.split_once('\n').unwrap();
        assert!(first.starts_with("error: ") && parts.iter().all(|part| first.contains(part)), "{said}");
        assert_eq!(rest.trim(), "For more information, try '--help'.");
    }
}
