//! Where MLX is laid: built up in a folder beside `native/`, which takes its place by renaming when it is whole. What was there
//! works until then, whatever happens to the set-up.

use crate::hold::hold;
use crate::run::{Outcome, fresh_dir, say};
use crate::store::remove_all;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Prefixes beside `native`: what is being laid, and what has been replaced.
const LAYING: &str = "native.laying-";
const OLD: &str = "native.old";

/// `native/` of a clone, held by this process alone.
pub(crate) struct Place {
    root: PathBuf,
    _held: File,
}

impl Place {
    /// Waits for another set-up of the same clone, and puts right what a killed one left.
    pub(crate) fn open(root: &Path) -> Outcome<Self> {
        let held = hold(&root.join("native.lock"), || say("waiting for another set-up in this folder"))?;
        let place = Self { root: root.to_owned(), _held: held };
        place.recover()?;
        Ok(place)
    }

    /// Where MLX lies once it is laid.
    pub(crate) fn native(&self) -> PathBuf {
        self.root.join("native")
    }

    /// Has `fill` lay MLX in an empty folder, and puts that folder where `native` is. If it fails, `native` stays what it was.
    pub(crate) fn replace(&self, fill: impl FnOnce(&Path) -> Outcome<()>) -> Outcome<()> {
        let laid = self.root.join(format!("{LAYING}{}", std::process::id()));
        let swapped = fresh_dir(&laid).and_then(|()| fill(&laid)).and_then(|()| self.swap(&laid));
        let tidied = self.recover();
        swapped.and(tidied)
    }

    fn swap(&self, laid: &Path) -> Outcome<()> {
        if self.native().exists() {
            rename(&self.native(), &self.root.join(OLD))?;
        }
        rename(laid, &self.native())
    }

    /// Removes what is no longer needed. A set-up killed between its two renames left no `native`: the old one returns.
    fn recover(&self) -> Outcome<()> {
        let old = self.root.join(OLD);
        if old.exists() && !self.native().exists() {
            rename(&old, &self.native())?;
        }
        remove_all(&self.root, |name| name == OLD || name.starts_with(LAYING))
    }
}

fn rename(from: &Path, to: &Path) -> Outcome<()> {
    std::fs::rename(from, to).map_err(|e| format!("cannot rename {} to {}: {e}", from.display(), to.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs::{create_dir, read_to_string, write};

    fn folder(dir: &Path, text: &str) {
        create_dir(dir).unwrap();
        write(dir.join("stamp"), text).unwrap();
    }

    /// Names in a folder, sorted.
    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_laid_replaces_what_was_there() {
        let root = tempfile::tempdir().unwrap();
        let place = Place::open(root.path()).unwrap();
        for text in ["first", "second"] {
            place.replace(|laid| crate::run::write(&laid.join("stamp"), text)).unwrap();
            assert_eq!(read_to_string(place.native().join("stamp")).unwrap(), text);
            assert_eq!(names(root.path()), ["native", "native.lock"]);
        }
    }

    #[test]
    fn a_failure_leaves_what_was_there_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        folder(&root.path().join("native"), "old");
        let place = Place::open(root.path()).unwrap();
        let failed = place.replace(|laid| crate::run::write(&laid.join("stamp"), "half").and(Err("no route".to_owned())));
        assert_eq!(failed, Err("no route".to_owned()));
        assert_eq!(read_to_string(place.native().join("stamp")).unwrap(), "old");
        assert_eq!(names(root.path()), ["native", "native.lock"]);
    }

    /// What a killed set-up may leave (folders and what is in them), and what `native` must hold afterwards.
    const KILLED: [(&[(&str, &str)], &str); 3] = [
        (&[("native", "old"), ("native.laying-1", "half")], "old"),
        (&[("native.old", "old"), ("native.laying-1", "new")], "old"),
        (&[("native", "new"), ("native.old", "old")], "new"),
    ];

    #[test]
    fn whatever_a_killed_one_left_something_whole_is_there() {
        for (left, want) in KILLED {
            let root = tempfile::tempdir().unwrap();
            left.iter().for_each(|(name, text)| folder(&root.path().join(name), text));
            let place = Place::open(root.path()).unwrap();
            assert_eq!(read_to_string(place.native().join("stamp")).unwrap(), want, "{left:?}");
            assert_eq!(names(root.path()), ["native", "native.lock"], "{left:?}");
        }
    }
}
