//! Which files of a folder hold its weights: those that `model.safetensors.index.json` names, or without one, every safetensors file.
//!
//! The index is Hugging Face's: `weight_map` gives each tensor its file. Where there is one, other safetensors files of the
//! folder (the same weights in another layout, adapters) are nobody's business. But an index that does not name the
//! `model.safetensors` beside it was left by another state of the folder: transformers takes that file before any index, too.

use crate::engine::EngineError;
use crate::plain::{self, one_line};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// What the index is called.
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// What holds all weights of a model that is not cut into shards.
const WHOLE: &str = "model.safetensors";

/// Far above any index: some hundred bytes for each of a hundred thousand tensors.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The files to open, and which of them must hold which tensor.
#[derive(Debug, PartialEq)]
pub(super) struct Shards {
    pub(super) files: Vec<PathBuf>,
    /// Tensor → its file's name; empty without an index.
    pub(super) map: BTreeMap<String, String>,
}

/// Looks for the index and checks that its files are there; without one, lists the folder, leaving out `skip`.
pub(super) fn find(dir: &Path, skip: &[&str]) -> Result<Shards, EngineError> {
    let index = dir.join(INDEX);
    match plain::read(&index, INDEX_BYTES_MAX) {
        Ok(text) => {
            let (files, map) = named(&text).map_err(|reason| load(&index, &reason))?;
            if !files.contains(WHOLE) && dir.join(WHOLE).exists() {
                return Ok(Shards { files: vec![dir.join(WHOLE)], map: BTreeMap::new() });
            }
            there(dir, &files, &map).map_err(|reason| load(&index, &reason))?;
            Ok(Shards { files: files.iter().map(|name| dir.join(name)).collect(), map })
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Shards { files: listed(dir, skip)?, map: BTreeMap::new() }),
        Err(e) => Err(load(&index, &e.to_string())),
    }
}

fn load(file: &Path, reason: &str) -> EngineError {
    EngineError::Load { file: file.to_owned(), reason: one_line(reason) }
}

fn listed(dir: &Path, skip: &[&str]) -> Result<Vec<PathBuf>, EngineError> {
    let cannot = |e| load(dir, &format!("cannot be listed: {e}"));
    let list = std::fs::read_dir(dir).map_err(cannot)?;
    let mut paths = list.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<PathBuf>, _>>().map_err(cannot)?;
    paths.retain(|p| p.extension().is_some_and(|x| x == "safetensors"));
    paths.retain(|p| !skip.iter().any(|s| p.file_name().is_some_and(|n| n == *s)));
    paths.sort();
    if paths.is_empty() { Err(load(dir, "has no *.safetensors file")) } else { Ok(paths) }
}

/// The files that an index names, and its map.
fn named(text: &str) -> Result<(BTreeSet<String>, BTreeMap<String, String>), String> {
    let json: Map<String, Value> = serde_json::from_str(text).map_err(|e| format!("is not a JSON object: {e}"))?;
    let map = json.get("weight_map").and_then(Value::as_object).filter(|map| !map.is_empty());
    let map = map.ok_or("weight_map: must be an object that maps at least one tensor's name to a file's name")?;
    let (mut of, mut names) = (BTreeMap::new(), BTreeSet::new());
    for (tensor, file) in map {
        let name = file.as_str().filter(|name| is_name(name));
        let name = name.ok_or_else(|| format!("weight_map: tensor {tensor} is in {file}: the name of a file in the same folder is needed"))?;
        names.insert(name.to_owned());
        of.insert(tensor.clone(), name.to_owned());
    }
    Ok((names, of))
}

/// Every named file must be there. What else may be wrong with it, opening it says.
fn there(dir: &Path, names: &BTreeSet<String>, map: &BTreeMap<String, String>) -> Result<(), String> {
    // A link to nowhere is missing, too.
    let missing = |name: &&String| std::fs::metadata(dir.join(name)).is_err_and(|e| e.kind() == ErrorKind::NotFound);
    let Some(name) = names.iter().find(missing) else { return Ok(()) };
    let tensors = map.values().filter(|n| *n == name).count();
    Err(format!("weight_map: {name} is missing, which holds {tensors} of the {} tensors", map.len()))
}

/// One step within the folder: no path that leads elsewhere.
fn is_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(n)), None) if n == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is found in a folder of files with these names and, if given, an index.
    fn found(files: &[&str], index: Option<&str>) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        for name in files {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        if let Some(text) = index {
            std::fs::write(dir.path().join(INDEX), text).unwrap();
        }
        let name = |p: &PathBuf| p.file_name().unwrap().to_string_lossy().into_owned();
        find(dir.path(), &["golden.safetensors"]).map(|s| s.files.iter().map(name).collect()).map_err(|e| e.to_string())
    }

    fn map(pairs: Value) -> String {
        json!({"metadata": {"total_size": 1}, "weight_map": pairs}).to_string()
    }

    #[test]
    fn without_an_index_every_file_counts() {
        let files = ["model-2.safetensors", "model-1.safetensors", "golden.safetensors", "notes.txt"];
        assert_eq!(found(&files, None).unwrap(), ["model-1.safetensors", "model-2.safetensors"]);
        assert!(found(&["golden.safetensors"], None).unwrap_err().ends_with("has no *.safetensors file"));
    }

    #[test]
    fn with_an_index_only_its_own_files_count() {
        let files = ["m-1.safetensors", "m-2.safetensors", "consolidated.safetensors", "adapters.safetensors"];
        let index = map(json!({"b": "m-2.safetensors", "a": "m-1.safetensors", "c": "m-1.safetensors"}));
        assert_eq!(found(&files, Some(&index)).unwrap(), ["m-1.safetensors", "m-2.safetensors"]);
    }

    #[test]
    fn an_index_of_other_files_gives_way_to_the_whole_model() {
        let (stale, own) = (map(json!({"a": "m-1.safetensors"})), map(json!({"a": "model.safetensors", "b": "m-1.safetensors"})));
        let files = ["model.safetensors", "m-1.safetensors"];
        assert_eq!(found(&files[..1], Some(&stale)).unwrap(), ["model.safetensors"]);
        assert_eq!(found(&files, Some(&stale)).unwrap(), ["model.safetensors"]);
        assert_eq!(found(&files, Some(&own)).unwrap(), ["m-1.safetensors", "model.safetensors"]);
        assert!(found(&files[..1], Some(&own)).unwrap_err().contains("m-1.safetensors is missing"));
        assert!(found(&files, Some("{}")).unwrap_err().contains("weight_map"), "a file that cannot be read is no reason to guess");
    }

    #[test]
    fn an_index_that_cannot_be_followed_is_named() {
        for (index, want) in [
            (
                map(json!({"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-2.safetensors"})),
                "weight_map: m-2.safetensors is missing, which holds 2 of the 3 tensors",
            ),
            (map(json!({"a": "../m-1.safetensors"})), "weight_map: tensor a is in \"../m-1.safetensors\": the name of a file in the same folder is needed"),
            (map(json!({"a": "/m-1.safetensors"})), "weight_map: tensor a is in "),
            (map(json!({"a": "./m-1.safetensors"})), "weight_map: tensor a is in "),
            (map(json!({"a": ".."})), "weight_map: tensor a is in "),
            (map(json!({"a": ""})), "weight_map: tensor a is in "),
            (map(json!({"a\nb": 7})), "weight_map: tensor a\\nb is in 7"),
            (map(json!({})), "weight_map: must be an object"),
            (map(json!(["m-1.safetensors"])), "weight_map: must be an object"),
            ("{}".to_owned(), "weight_map: must be an object"),
            ("[]".to_owned(), "is not a JSON object"),
            ("{".to_owned(), "is not a JSON object"),
        ] {
            let error = found(&["m-1.safetensors"], Some(&index)).unwrap_err();
            assert!(error.contains(&format!("{INDEX}: {want}")), "{error} should contain {want}");
        }
    }
}
