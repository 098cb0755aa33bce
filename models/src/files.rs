//! Which files a model is read from, in one number: if another one has taken a file's place, or its content was changed, it differs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a model in a folder is read from.
const KINDS: [&str; 4] = ["json", "safetensors", "jinja", "txt"];

/// Of a file, or of those right in a folder: their names, places on the disk, sizes and times of change.
pub fn mark(path: &Path) -> io::Result<u64> {
    let mut paths = vec![path.to_owned()];
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| KINDS.iter().any(|one| kind == *one)) {
                paths.push(path);
            }
        }
        paths.sort();
    }
    // Its keys are always the same, unlike those of a map's.
    let mut hasher = DefaultHasher::new();
    for file in paths.iter().filter(|path| path.is_file()) {
        let data = std::fs::metadata(file)?;
        (file.file_name(), data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec()).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_place_of_another_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        std::fs::write(file("a.json"), "one").unwrap();
        std::fs::write(file("b"), "two").unwrap();
        let (one, all) = (mark(&file("a.json")).unwrap(), mark(dir.path()).unwrap());
        std::fs::write(file("notes.md"), "of no matter").unwrap();
        assert_eq!((mark(&file("a.json")).unwrap(), mark(dir.path()).unwrap()), (one, all));
        std::fs::rename(file("b"), file("a.json")).unwrap();
        assert!(mark(&file("a.json")).unwrap() != one && mark(dir.path()).unwrap() != all);
        assert!(mark(&file("b")).is_ok(), "a missing file is somebody else's to tell of");
    }
}
