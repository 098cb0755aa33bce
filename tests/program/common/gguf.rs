//! The default model's header in a file of its own, to be damaged. Its tensors' bytes are a hole: no test gets as far as them.

use super::default_model;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// The header ends before this.
const HEAD_BYTES: u64 = 8 << 20;

pub(crate) struct Gguf {
    _root: TempDir,
    pub(crate) path: PathBuf,
    head: Vec<u8>,
}

impl Gguf {
    /// As long as the model's own file.
    pub(crate) fn of_default_model() -> Gguf {
        let from = File::open(default_model()).unwrap();
        let size = from.metadata().unwrap().len();
        let mut head = Vec::new();
        from.take(HEAD_BYTES).read_to_end(&mut head).unwrap();
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("damaged.gguf");
        std::fs::write(&path, &head).unwrap();
        let gguf = Gguf { _root: root, path, head };
        gguf.cut(size);
        gguf
    }

    /// Makes the file this long.
    pub(crate) fn cut(&self, bytes: u64) {
        File::options().write(true).open(&self.path).unwrap().set_len(bytes).unwrap();
    }

    /// Where `name` stands first with its length before it, as the format writes strings; gives the place behind it.
    fn behind(&self, name: &str) -> usize {
        let mut wanted = (name.len() as u64).to_le_bytes().to_vec();
        wanted.extend(name.as_bytes());
        let at = self.head.windows(wanted.len()).position(|w| w == wanted).unwrap_or_else(|| panic!("no {name} in the header"));
        at + wanted.len()
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        File::options().write(true).open(&self.path).unwrap().write_all_at(bytes, at as u64).unwrap();
    }

    /// Another value of the same length for a key that holds a string.
    pub(crate) fn set_text(&self, key: &str, value: &str) {
        let at = self.behind(key) + 4;
        let length = u64::from_le_bytes(self.head[at..at + 8].try_into().unwrap());
        assert_eq!(length, value.len() as u64, "{key} cannot hold {value}");
        self.put(at + 8, value.as_bytes());
    }

    /// Another kind for a tensor that is a matrix.
    pub(crate) fn set_kind(&self, tensor: &str, kind: u32) {
        let at = self.behind(tensor);
        assert_eq!(self.head[at..at + 4], 2u32.to_le_bytes(), "{tensor} is no matrix");
        self.put(at + 4 + 16, &kind.to_le_bytes());
    }
}
