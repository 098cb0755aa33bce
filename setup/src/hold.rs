//! One set-up at a time: a file's lock, which the system gives back when its holder ends, however it ends.

use crate::run::{Outcome, make_dir};
use std::fs::{File, TryLockError};
use std::path::Path;

/// Holds `file`'s lock until dropped. If another process holds it, calls `waiting` once and waits for it.
pub(crate) fn hold(file: &Path, waiting: impl FnOnce()) -> Outcome<File> {
    if let Some(held) = try_hold(file)? {
        return Ok(held);
    }
    waiting();
    let held = open(file)?;
    held.lock().map_err(|e| format!("cannot lock {}: {e}", file.display()))?;
    Ok(held)
}

/// Holds `file`'s lock until dropped, or `None` if another process does.
pub(crate) fn try_hold(file: &Path) -> Outcome<Option<File>> {
    let held = open(file)?;
    match held.try_lock() {
        Ok(()) => Ok(Some(held)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(format!("cannot lock {}: {e}", file.display())),
    }
}

fn open(file: &Path) -> Outcome<File> {
    if let Some(dir) = file.parent() {
        make_dir(dir)?;
    }
    File::options().create(true).append(true).open(file).map_err(|e| format!("cannot open {}: {e}", file.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn the_second_waits_for_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("not yet there").join("lock");
        let first = hold(&file, || panic!("nobody holds it")).unwrap();
        assert!(try_hold(&file).unwrap().is_none());
        let (waits, first_knows) = channel();
        let (holds, held) = channel();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let held = hold(&file, || waits.send(()).unwrap()).unwrap();
                holds.send(()).unwrap();
                drop(held);
            });
            first_knows.recv().unwrap();
            assert!(held.try_recv().is_err(), "held twice");
            drop(first);
            second.join().unwrap();
        });
        held.recv().unwrap();
        assert!(try_hold(&file).unwrap().is_some());
    }
}
