//! Folders of safetensors files: the index, and tensors that are missing or left over.

use crate::config::Config;
use crate::engine::EngineError;
use crate::families::Llama;
use crate::mlx::Place;
use crate::weights::{AffineRows, Described, Float, Loader, SafetensorsFolder, Source};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tiny");
const ONE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A copy of a tiny model that a test may damage.
struct Folder {
    dir: TempDir,
    /// Its weights, as they were.
    bytes: Vec<u8>,
}

impl Folder {
    fn of(name: &str) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        let from = Path::new(TINY).join(name);
        for file in ["config.json", ONE, "golden.safetensors"] {
            std::fs::copy(from.join(file), dir.path().join(file)).unwrap();
        }
        Folder { dir, bytes: std::fs::read(from.join(ONE)).unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file with those of the model's tensors whose names `keep` likes, and `more` of two floats each.
    fn write(&self, file: &str, keep: impl Fn(&str) -> bool, more: &[&str]) {
        let all = SafeTensors::deserialize(&self.bytes).unwrap();
        let mut tensors: Vec<(String, TensorView)> = all.tensors().into_iter().filter(|(name, _)| keep(name)).collect();
        tensors.extend(more.iter().map(|name| (name.to_string(), TensorView::new(Dtype::F32, vec![2], &[0; 8]).unwrap())));
        safetensors::serialize_to_file(tensors, None, &self.at(file)).unwrap();
    }

    fn config(&self, field: &str, value: Value) {
        let mut config: Value = serde_json::from_slice(&std::fs::read(self.at("config.json")).unwrap()).unwrap();
        config[field] = value;
        std::fs::write(self.at("config.json"), config.to_string()).unwrap();
    }

    /// Two files, the second with layer 1, and an index; `change` may damage its map.
    fn split(&self, change: impl FnOnce(&mut Map<String, Value>)) {
        std::fs::remove_file(self.at(ONE)).unwrap();
        let second = |name: &str| name.starts_with("model.layers.1.");
        self.write("m-1.safetensors", |name| !second(name), &[]);
        self.write("m-2.safetensors", second, &[]);
        let all = SafeTensors::deserialize(&self.bytes).unwrap();
        let place = |name: &str| json!(if second(name) { "m-2.safetensors" } else { "m-1.safetensors" });
        let mut map = all.names().into_iter().map(|name| (name.to_owned(), place(name))).collect();
        change(&mut map);
        std::fs::write(self.at(INDEX), json!({"metadata": {}, "weight_map": map}).to_string()).unwrap();
    }

    fn open(&self) -> Result<SafetensorsFolder, EngineError> {
        let config = Config::from_dir(self.dir.path())?;
        SafetensorsFolder::open(self.dir.path(), config.quant, &["golden.safetensors"])
    }

    /// The message, without the folder before its file.
    fn refused(&self) -> String {
        let error = self.open().map(|_| ()).unwrap_err().to_string();
        error.strip_prefix(&format!("{}/", self.dir.path().display())).unwrap_or(&error).to_owned()
    }
}

#[test]
fn the_index_says_where_tensors_are() {
    let folder = Folder::of("llama_tied");
    folder.split(|_| {});
    // The same weights again, an adapter, and a file that is none: not in the index, so not looked at.
    folder.write("consolidated.safetensors", |_| true, &[]);
    folder.write("adapters.safetensors", |_| false, &["model.layers.0.self_attn.q_proj.lora_a"]);
    std::fs::write(folder.at("broken.safetensors"), "x").unwrap();
    let got = folder.open().unwrap();
    let whole = Folder::of("llama_tied").open().unwrap();
    for path in ["model.embed_tokens", "model.layers.1.mlp.up_proj", "model.layers.2.mlp.up_proj"] {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        got.dense(path, 3..5, &mut a).unwrap();
        whole.dense(path, 3..5, &mut b).unwrap();
        assert_eq!(a, b, "{path}");
    }
}

#[test]
fn an_index_that_the_files_do_not_follow_is_refused() {
    let tensor = "model.layers.1.mlp.up_proj.weight";
    let folder = Folder::of("llama_tied");
    folder.split(|_| {});
    std::fs::remove_file(folder.at("m-2.safetensors")).unwrap();
    assert_eq!(folder.refused(), format!("{INDEX}: weight_map: m-2.safetensors is missing, which holds 9 of the 29 tensors"));

    let folder = Folder::of("llama_tied");
    folder.split(|map| _ = map.insert(tensor.to_owned(), json!("m-1.safetensors")));
    assert_eq!(folder.refused(), format!("m-1.safetensors: tensor {tensor} is missing, which {INDEX} says is here"));

    let folder = Folder::of("llama_tied");
    folder.split(|_| {});
    folder.write("m-2.safetensors", |name| name.starts_with("model.layers.1.") && name != tensor, &[]);
    assert_eq!(folder.refused(), format!("m-2.safetensors: tensor {tensor} is missing, which {INDEX} says is here"));

    let folder = Folder::of("llama_tied");
    folder.split(|_| {});
    folder.write("m-2.safetensors", |name| name.starts_with("model.layers.1.") || name == "model.norm.weight", &[]);
    assert!(folder.refused().starts_with("m-2.safetensors: tensor model.norm.weight is also in "), "{}", folder.refused());

    let folder = Folder::of("llama_tied");
    folder.split(|_| {});
    std::fs::remove_file(folder.at("m-2.safetensors")).unwrap();
    std::fs::create_dir(folder.at("m-2.safetensors")).unwrap();
    assert_eq!(folder.refused(), "m-2.safetensors: is not a plain file");

    let folder = Folder::of("llama_tied");
    std::fs::create_dir(folder.at(INDEX)).unwrap();
    assert_eq!(folder.refused(), format!("{INDEX}: is not a plain file"));
}

#[test]
fn tensors_that_the_model_does_not_use_are_refused() {
    let more = |name: &str, tensors: &[&str]| {
        let folder = Folder::of(name);
        folder.write(ONE, |_| true, tensors);
        folder
    };
    let said = |count: &str, first: &str| format!("{ONE}: has {count} that the model of config.json does not use; the first is {first}");
    let folder = Folder::of("llama_tied");
    folder.config("num_hidden_layers", json!(2));
    assert_eq!(folder.refused(), said("9 tensors", "model.layers.2.input_layernorm.weight"));
    for (name, tensor) in [
        ("llama_tied", "model.layers.3.input_layernorm.weight"),
        ("llama_tied", "model.layers.00.input_layernorm.weight"),
        ("llama_tied", "model.layers.0.self_attn.q_norm.weight"),
        ("llama_tied", "model.layers.0.self_attn.q_proj.bias"),
        ("llama_tied", "model.layers.0.self_attn.q_proj.biases"),
        ("llama_tied", "model.layers.0.self_attn.q_proj.lora_a"),
        ("llama_tied", "model.layers.0.input_layernorm.bias"),
        ("llama_tied", "model.layers.0.mlp.experts.0.up_proj.weight"),
        ("llama_tied", "language_model.model.norm.weight"),
        ("llama_tied", "lm_head.bias"),
        ("llama_tied", "lm_head.scales"),
        ("llama_tied", "inv_freq"),
        ("llama_tied", "x"),
        ("llama_tied", ""),
        ("llama_bias", "model.embed_tokens.bias"),
        ("qwen2_bias", "model.layers.0.self_attn.o_proj.bias"),
        ("qwen3_qknorm", "model.layers.0.self_attn.v_norm.weight"),
        ("llama_q4_g32", "model.layers.0.input_layernorm.scales"),
    ] {
        assert_eq!(more(name, &[tensor]).refused(), said("a tensor", tensor), "{name}");
    }
    for (name, tensor) in [
        ("llama_tied", "lm_head.weight"),
        ("llama_tied", "model.layers.0.self_attn.rotary_emb.inv_freq"),
        ("qwen2_bias", "model.layers.2.self_attn.rotary_emb.inv_freq"),
        ("qwen3_qknorm", "model.rotary_emb.inv_freq"),
    ] {
        more(name, &[tensor]).open().unwrap();
    }
    let folder = Folder::of("llama_tied");
    folder.write("adapters.safetensors", |_| false, &["a", "b"]);
    assert_eq!(folder.refused(), "adapters.safetensors: has 2 tensors that the model of config.json does not use; the first is a");
}

/// Remembers what it was asked for.
struct Asked<'a> {
    source: &'a SafetensorsFolder,
    names: RefCell<BTreeSet<String>>,
}

impl Asked<'_> {
    fn note(&self, path: &str, leaf: &str) {
        self.names.borrow_mut().insert(format!("{path}.{leaf}"));
    }
}

impl Source for Asked<'_> {
    fn has(&self, path: &str, leaf: &str) -> bool {
        self.source.has(path, leaf)
    }

    fn describe(&self, path: &str) -> Result<Described, EngineError> {
        self.source.describe(path)
    }

    fn dense(&self, path: &str, rows: Range<usize>, out: &mut Vec<f32>) -> Result<(), EngineError> {
        self.note(path, "weight");
        self.source.dense(path, rows, out)
    }

    fn affine(&self, path: &str, rows: Range<usize>) -> Result<AffineRows, EngineError> {
        ["weight", "scales", "biases"].into_iter().for_each(|leaf| self.note(path, leaf));
        self.source.affine(path, rows)
    }

    fn vector(&self, path: &str, leaf: &str, len: usize) -> Result<Vec<f32>, EngineError> {
        self.note(path, leaf);
        self.source.vector(path, leaf, len)
    }

    fn bad(&self, path: &str, leaf: &str, reason: &str) -> EngineError {
        self.source.bad(path, leaf, reason)
    }
}

/// What is let through as used is what a family asks for, to the tensor.
#[test]
fn every_tensor_of_an_opened_folder_is_read() {
    let _turn = crate::mlx::turn();
    let mut seen = 0;
    for entry in std::fs::read_dir(TINY).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        let folder = Folder::of(&entry.file_name().unwrap().to_string_lossy());
        let (config, source) = (Config::from_dir(&entry).unwrap(), folder.open().unwrap());
        let asked = Asked { source: &source, names: RefCell::default() };
        Llama::load(&config, &Loader { source: &asked, dense: Some(Float::F32), float: Float::F32, place: Place::Cpu }).unwrap();
        let all: BTreeSet<String> = SafeTensors::deserialize(&folder.bytes).unwrap().names().into_iter().map(str::to_owned).collect();
        assert_eq!(asked.names.into_inner(), all, "{}", entry.display());
        seen += 1;
    }
    assert!(seen >= 9, "{seen} folders");
}
