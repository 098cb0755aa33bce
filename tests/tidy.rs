//! The rules that a reader would otherwise have to remember: edges between crates, file heads, sizes, words not left behind.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Each room, and the rooms that it may know. Root composes and may know all.
const EDGES: [(&str, &[&str]); 10] = [
    ("kv", &[]),
    ("scheduler", &["kv"]),
    ("grammar", &["kv"]),
    ("models", &["kv"]),
    ("metrics", &[]),
    ("actors", &["scheduler", "grammar", "dialects", "models", "kv", "metrics"]),
    ("api", &["actors", "dialects", "metrics"]),
    ("loadtest", &["scheduler", "kv", "models"]),
    ("setup", &[]),
    ("dialects", &[]),
];

/// Crates that only one room may use, so that its neighbours cannot know what they must not.
const GUARDED: [(&str, &[&str]); 5] =
    [("mlx-rs", &["models"]), ("mlx-sys", &["models"]), ("actix-web", &["api", "."]), ("actix", &["actors", "api"]), ("llguidance", &["grammar"])];

const LINES_MAX: usize = 500;

/// Words that mean "not done"; put together here so that this file does not contain them.
fn left_behind() -> Vec<String> {
    [("todo", "!("), ("unimplemented", "!("), ("#[ig", "nore"), ("FIX", "ME"), ("assert!", "(true")].map(|(a, b)| format!("{a}{b}")).to_vec()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Names in the `[dependencies]` of a room (and of its targets, not its dev-dependencies).
fn dependencies(room: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(room).join("Cargo.toml")).unwrap();
    let mut inside = false;
    let mut names = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]") && !line.contains("dev-") && !line.contains("workspace");
        } else if inside && let Some(name) = line.split(['.', '=', ' ']).next().filter(|n| !n.is_empty() && !n.starts_with('#')) {
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn rooms_know_only_what_they_may() {
    let rooms: Vec<&str> = EDGES.iter().map(|(r, _)| *r).collect();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.lines().find(|l| l.starts_with("members")).unwrap();
    assert_eq!(members.matches('"').count() / 2, rooms.len(), "a new room needs its line here: {members}");
    for (room, may) in EDGES {
        for dep in dependencies(room).iter().filter(|d| rooms.contains(&d.as_str())) {
            assert!(may.contains(&dep.as_str()), "{room} must not know {dep}");
        }
    }
    for (krate, may) in GUARDED {
        for room in rooms.iter().copied().chain(["."]) {
            assert!(may.contains(&room) || !dependencies(room).iter().any(|d| d == krate), "{room} must not use {krate}");
        }
    }
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() && !["target", "native", ".git", ".venv"].contains(&name.as_str()) {
            sources(&entry, found);
        } else if name.ends_with(".rs") {
            found.push(entry);
        }
    }
}

#[test]
fn files_open_with_what_they_are_for_and_stay_small() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    assert!(files.len() > 50, "the walk found the tree");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        assert!(text.starts_with("//!"), "{shown} does not say what it is for in its first line");
        let lines = text.lines().take_while(|l| !l.starts_with("#[cfg(test)]")).count();
        assert!(lines <= LINES_MAX, "{shown} has {lines} lines before its tests");
        for word in left_behind() {
            assert!(!text.contains(&word), "{shown} has {word} in it");
        }
    }
}

#[test]
fn the_document_of_the_tree_names_every_room() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (room, _) in EDGES {
        assert!(text.contains(&format!("`{room}`")), "ARCHITECTURE.md does not say what {room} is");
    }
}
