//! A folder for what can only be read from files, beside the program: in a target folder, which is no one's to keep.

use std::path::{Path, PathBuf};

pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let program = std::env::current_exe().expect("a program knows where it is");
        let dir = program.with_file_name(format!("scratch-{name}"));
        std::fs::create_dir_all(&dir).expect("a target folder can be written to");
        Scratch(dir)
    }

    #[allow(dead_code)]
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and gives its path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a target folder can be written to");
        path
    }
}
