//! The folder for downloads, `$COXSWAIN_HOME` or `~/.cache/coxswain`: who may write there, and what killed set-ups left there.

use crate::hold::{hold, try_hold};
use crate::run::{Outcome, say};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The folder for downloads, held by this process alone: two set-ups neither download a thing twice nor take each other's parts
/// for leftovers.
pub(crate) struct Store {
    home: PathBuf,
    _held: File,
}

impl Store {
    /// Waits for another set-up that is downloading, and removes what killed ones left.
    pub(crate) fn open() -> Outcome<Self> {
        let home = home()?;
        let held = hold(&home.join("lock"), || say(&format!("waiting for another set-up, which is downloading to {}", home.display())))?;
        sweep(&home)?;
        Ok(Self { home, _held: held })
    }

    pub(crate) fn wheels(&self) -> PathBuf {
        self.home.join("wheels")
    }

    pub(crate) fn models(&self) -> PathBuf {
        models(&self.home)
    }
}

/// Removes what killed set-ups left, unless one is downloading right now.
pub(crate) fn sweep_if_free() -> Outcome<()> {
    let home = home()?;
    if try_hold(&home.join("lock"))?.is_some() { sweep(&home) } else { Ok(()) }
}

/// Where models lie in the folder for downloads.
pub(crate) fn models(home: &Path) -> PathBuf {
    home.join("models")
}

/// `$COXSWAIN_HOME`, or `~/.cache/coxswain`.
pub(crate) fn home() -> Outcome<PathBuf> {
    if let Some(h) = std::env::var_os("COXSWAIN_HOME").filter(|h| !h.is_empty()) {
        return std::path::absolute(PathBuf::from(h)).map_err(|e| format!("COXSWAIN_HOME: {e}"));
    }
    let home = std::env::var_os("HOME").filter(|h| !h.is_empty());
    let home = home.ok_or("neither COXSWAIN_HOME nor HOME is set: set one to the folder for downloads")?;
    Ok(PathBuf::from(home).join(".cache/coxswain"))
}

/// Removes the parts of unfinished downloads. Only whoever holds the folder may: every part is then nobody's.
fn sweep(home: &Path) -> Outcome<()> {
    remove_all(&home.join("wheels"), |name| name.contains(".part-"))?;
    remove_all(&models(home), |name| name.starts_with("unpack-"))
}

/// Removes every entry of `dir` whose name is `unwanted`. A folder that is not there has none.
pub(crate) fn remove_all(dir: &Path, unwanted: impl Fn(&str) -> bool) -> Outcome<()> {
    if !dir.exists() {
        return Ok(());
    }
    let list = std::fs::read_dir(dir).map_err(|e| format!("cannot list {}: {e}", dir.display()))?;
    for entry in list {
        let path = entry.map_err(|e| format!("cannot list {}: {e}", dir.display()))?.path();
        if path.file_name().and_then(|n| n.to_str()).is_some_and(&unwanted) {
            std::fs::remove_dir_all(&path).map_err(|e| format!("cannot remove {}: {e}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_takes_parts_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        sweep(home.path()).unwrap();
        for dir in ["wheels/mlx-cpu-1.0-abc", "wheels/mlx-cpu.part-123", "models/unpack-7/inner", "models/mine"] {
            std::fs::create_dir_all(at(dir)).unwrap();
        }
        std::fs::write(at("models/a.gguf"), "weights").unwrap();
        sweep(home.path()).unwrap();
        for kept in ["wheels/mlx-cpu-1.0-abc", "models/mine", "models/a.gguf"] {
            assert!(at(kept).exists(), "{kept} is gone");
        }
        for gone in ["wheels/mlx-cpu.part-123", "models/unpack-7"] {
            assert!(!at(gone).exists(), "{gone} is still there");
        }
    }
}
