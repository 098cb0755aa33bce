//! Which files a model is read from, in one number: if other contents have taken their place, it differs.
//!
//! Names, sizes, and samples of the contents: all of a small file, and of a large one both ends and pieces in between, since reading 100 GB
//! again would take minutes. Weights of another model, or of the same one after more training, differ everywhere. Times and places on the disk
//! say nothing: whoever copies, touches or restores a file has not changed it.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file up to this size counts whole.
const WHOLE_BYTES: u64 = 4 << 20;
/// Pieces of a larger one, the first at its beginning and the last at its end.
const PIECES: u64 = 64;
const PIECE_BYTES: u64 = 64 << 10;

/// What a worker reads in a folder.
fn is_read(name: &str) -> bool {
    name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")
}

/// Of a file, or of those right in a folder that weights and shapes are read from.
pub fn mark(path: &Path) -> io::Result<u64> {
    let mut paths = vec![path.to_owned()];
    if path.is_dir() {
        paths.clear();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_read) {
                paths.push(entry.path());
            }
        }
        paths.sort();
    }
    // Its keys are always the same, unlike those of a map's.
    let mut hasher = DefaultHasher::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        path.file_name().hash(&mut hasher);
        sample(&File::open(path)?, &mut hasher)?;
    }
    Ok(hasher.finish())
}

fn sample(file: &File, hasher: &mut DefaultHasher) -> io::Result<()> {
    let size = file.metadata()?.len();
    size.hash(hasher);
    let (pieces, length) = if size <= WHOLE_BYTES { (1, size) } else { (PIECES, PIECE_BYTES) };
    let mut piece = vec![0; length as usize];
    for n in 0..pieces {
        file.read_exact_at(&mut piece, (size - length) * n / (pieces - 1).max(1))?;
        piece.hash(hasher);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn contents_count_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| -> PathBuf { dir.path().join(name) };
        let large: Vec<u8> = (0..WHOLE_BYTES + 12_345).map(|i| (i % 251) as u8).collect();
        std::fs::write(file("config.json"), "one").unwrap();
        std::fs::write(file("model.safetensors"), &large).unwrap();
        let mark = || mark(dir.path()).unwrap();
        let before = mark();
        std::fs::write(file("notes.txt"), "of no matter").unwrap();
        std::fs::write(file("copy"), &large).unwrap();
        std::fs::rename(file("copy"), file("model.safetensors")).unwrap();
        assert_eq!(mark(), before, "the same contents at another place on the disk, written at another time");
        let mut changes: Vec<(&str, Vec<u8>)> = vec![("config.json", b"two".to_vec()), ("model.safetensors", large[1..].to_vec())];
        for at in [0, large.len() - 1] {
            let mut other = large.clone();
            other[at] ^= 1;
            changes.push(("model.safetensors", other));
        }
        for (name, other) in changes {
            let own = std::fs::read(file(name)).unwrap();
            std::fs::write(file(name), &other).unwrap();
            assert_ne!(mark(), before, "{name} of {} bytes", other.len());
            std::fs::write(file(name), own).unwrap();
            assert_eq!(mark(), before);
        }
        std::fs::write(file("model-2.safetensors"), "").unwrap();
        assert_ne!(mark(), before, "another file of weights");
    }

    #[test]
    fn a_file_alone_counts_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.gguf");
        std::fs::write(&path, "one").unwrap();
        let before = mark(&path).unwrap();
        std::fs::write(&path, "two").unwrap();
        assert_ne!(mark(&path).unwrap(), before);
        assert!(mark(&dir.path().join("missing")).is_ok(), "a missing file is somebody else's to tell of");
    }
}
