//! `setup native` where MLX already lies, when laying it again fails or is killed: what was there stays.

#![cfg(target_os = "linux")]

use crate::tools::{Tools, said};
use std::path::Path;
use std::process::{Command, Output};

/// A clone with MLX of another version in place, and what an earlier, killed set-up left beside it.
fn clone() -> tempfile::TempDir {
    let clone = tempfile::tempdir().unwrap();
    for (dir, stamp) in [("native", "0 mlx-cpu 0.1 an older one"), ("native.laying-1", "half")] {
        std::fs::create_dir(clone.path().join(dir)).unwrap();
        std::fs::write(clone.path().join(dir).join("stamp"), stamp).unwrap();
    }
    clone
}

/// A machine on which a download ends as `download` does.
fn machine(download: &str) -> Tools {
    let tools = Tools::new();
    ["g++", "nm", "cargo"].iter().for_each(|name| tools.put(name, "exit 0"));
    tools.put("python3", &format!("[ \"$3\" = download ] || exit 0\n{download}"));
    tools
}

fn lay(clone: &Path, tools: &Tools, home: &Path, backend: &str) -> Output {
    let mut setup = Command::new(env!("CARGO_BIN_EXE_setup"));
    setup.arg("native").current_dir(clone).env("PATH", tools.path()).env("COXSWAIN_HOME", home).env("MLX_BACKEND", backend);
    setup.output().unwrap()
}

/// Names in a folder that begin like `prefix`.
fn names(dir: &Path, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names
}

fn stamp(clone: &Path) -> String {
    std::fs::read_to_string(clone.join("native/stamp")).unwrap()
}

#[test]
fn a_failed_download_leaves_what_was_there() {
    let (clone, home) = (clone(), tempfile::tempdir().unwrap());
    let tools = machine("echo 'no route to the index' >&2; exit 1");
    for backend in ["cuda13", ""] {
        let output = lay(clone.path(), &tools, home.path(), backend);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot download mlx-") && said.contains("no route to the index"), "{said}");
        assert_eq!(stamp(clone.path()), "0 mlx-cpu 0.1 an older one");
    }
}

#[test]
fn the_backend_that_is_laid_is_the_one_that_is_laid_again() {
    let (clone, home) = (clone(), tempfile::tempdir().unwrap());
    std::fs::write(clone.path().join("native/stamp"), "0 mlx-cuda-13 0.1 an older one").unwrap();
    for (asked, wheel) in [("", "mlx-cuda-13"), ("cpu", "mlx-cpu")] {
        let said = said(&lay(clone.path(), &machine("exit 1"), home.path(), asked));
        assert!(said.contains(&format!("cannot download {wheel}==")), "MLX_BACKEND={asked}: {said}");
    }
}

#[test]
fn a_killed_set_up_leaves_what_was_there_and_the_next_one_clears_up() {
    let (clone, home) = (clone(), tempfile::tempdir().unwrap());
    let killed = machine("kill -9 $PPID");
    assert_eq!(lay(clone.path(), &killed, home.path(), "").status.code(), None, "it was not killed");
    assert_eq!(stamp(clone.path()), "0 mlx-cpu 0.1 an older one");
    let wheels = home.path().join("wheels");
    let part = names(&wheels, "mlx-cpu.part-");
    let laying = names(clone.path(), "native.laying-");
    assert_eq!((part.len(), laying.len()), (1, 1), "the killed one was downloading: {part:?} {laying:?}");
    assert_ne!(laying[0], "native.laying-1", "it cleared up itself");
    // The next one fails as well, but not before it has looked around.
    lay(clone.path(), &machine("exit 1"), home.path(), "");
    assert!(!names(&wheels, "mlx-cpu.part-").contains(&part[0]));
    assert_eq!(names(clone.path(), "native"), ["native", "native.lock"]);
    assert_eq!(stamp(clone.path()), "0 mlx-cpu 0.1 an older one");
}

#[test]
fn an_unknown_backend_is_refused_before_anything_is_done() {
    let (clone, home) = (clone(), tempfile::tempdir().unwrap());
    let output = lay(clone.path(), &machine("exit 1"), home.path(), "metal");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("MLX_BACKEND=metal is unknown: cpu and cuda13 are allowed"));
    assert_eq!(names(home.path(), ""), Vec::<String>::new());
}
