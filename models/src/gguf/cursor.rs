//! A reader that knows how much of the file is left, and allocates nothing that the file cannot fill.

use super::GgufError;
use std::io::{BufReader, Read};
use std::path::Path;

/// Longest string: chat templates are the longest in use, at some tens of kilobytes.
const STRING_BYTES_MAX: u64 = 16 << 20;

/// Reads forwards from the start of a file of known size.
pub(super) struct Cursor<'a> {
    input: BufReader<&'a std::fs::File>,
    at: u64,
    size: u64,
    path: &'a Path,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a std::fs::File, size: u64, path: &'a Path) -> Self {
        Self { input: BufReader::with_capacity(1 << 18, file), at: 0, size, path }
    }

    /// Bytes from the start of the file.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn left(&self) -> u64 {
        self.size - self.at
    }

    pub(super) fn invalid(&self, reason: String) -> GgufError {
        GgufError::Invalid { file: self.path.to_owned(), reason }
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        self.need(N as u64, what)?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A count of things that take at least `min_bytes` each, so that the rest of the file bounds it.
    pub(super) fn count(&mut self, what: &str, min_bytes: u64, max: u64) -> Result<usize, GgufError> {
        let n = self.u64(what)?;
        let fits = (self.left() / min_bytes).min(max);
        if n > fits {
            let reason = format!("{what}: {n} are announced, at most {fits} fit");
            return Err(self.invalid(reason));
        }
        usize::try_from(n).map_err(|_| self.invalid(format!("{what}: {n} is too many")))
    }

    pub(super) fn bytes(&mut self, len: usize, what: &str) -> Result<Vec<u8>, GgufError> {
        self.need(len as u64, what)?;
        let mut bytes = vec![0; len];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn string(&mut self, what: &str) -> Result<String, GgufError> {
        let len = self.count(what, 1, STRING_BYTES_MAX)?;
        let bytes = self.bytes(len, what)?;
        String::from_utf8(bytes).map_err(|_| self.invalid(format!("{what}: is not UTF-8")))
    }

    fn need(&self, len: u64, what: &str) -> Result<(), GgufError> {
        if len <= self.left() {
            return Ok(());
        }
        let (at, left) = (self.at, self.left());
        Err(self.invalid(format!("truncated at byte {at}: {what} needs {len} bytes, {left} are left")))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), GgufError> {
        self.input.read_exact(bytes).map_err(|source| GgufError::Io { file: self.path.to_owned(), source })?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}
