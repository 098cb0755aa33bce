//! The keys file: TOML, a `[[key]]` for each. Secrets are not in it, only their SHA-256: they are drawn at random from 256 bits, so
//! that a fast hash is as good as a slow one.

use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What a secret begins with, so that one that lies around is known for what it is.
const SECRET_PREFIX: &str = "sk-cox-";
const HASH_PREFIX: &str = "sha256:";
/// Series and log lines carry a key's name.
const NAME_CHARS_MAX: usize = 64;
const WEIGHT_MAX: u32 = 1_000_000;

/// Some 7,000 keys. A file is read by a thread that serves.
const FILE_BYTES_MAX: u64 = 1_000_000;

/// SHA-256 of a secret.
pub(crate) type Hash = [u8; 32];

/// Why a keys file cannot be used. The message names the file, and within it the key and the field.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Its own words say the line and the column.
    #[error("{}: {message}", path.display())]
    Toml { path: PathBuf, message: String },
    #[error("{}: key {number}{}: {what}", path.display(), if name.is_empty() { String::new() } else { format!(" ({name:?})") })]
    Entry { path: PathBuf, number: usize, name: String, what: String },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    key: Vec<Entry>,
}

/// One `[[key]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// `sha256:` and 64 hexadecimal digits.
    hash: String,
    #[serde(default = "one")]
    pub(crate) weight: u32,
    /// Requests that may run or wait at one time.
    pub(crate) max_rows: Option<u32>,
    pub(crate) requests_per_minute: Option<u32>,
    /// Prompts and answers together.
    pub(crate) tokens_per_minute: Option<u32>,
    #[serde(default)]
    pub(crate) admin: bool,
}

fn one() -> u32 {
    1
}

/// Reads and checks the file.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<Hash, Entry>, KeysError> {
    let text = text(path).map_err(|source| KeysError::Read { path: path.into(), source })?;
    parse(path, &text)
}

/// All of a regular file: a device may have no end.
fn text(path: &Path) -> io::Result<String> {
    // Without waiting for the other end of a pipe, and looked at once it is open: nothing can take its place between the two.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("a keys file must be a regular file of at most {FILE_BYTES_MAX} bytes, and this is another kind of file")));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("a keys file must have at most {FILE_BYTES_MAX} bytes, and this has more")));
    }
    Ok(text)
}

fn parse(path: &Path, text: &str) -> Result<BTreeMap<Hash, Entry>, KeysError> {
    let table: Table = toml::from_str(text).map_err(|e| KeysError::Toml { path: path.into(), message: said(&e, text) })?;
    if table.key.is_empty() {
        return Err(KeysError::Toml { path: path.into(), message: "there is no [[key]] in it".into() });
    }
    let (mut keys, mut names) = (BTreeMap::new(), BTreeSet::new());
    for (i, entry) in table.key.into_iter().enumerate() {
        let wrong = |what: String| KeysError::Entry { path: path.into(), number: i + 1, name: entry.name.clone(), what };
        check(&entry).map_err(wrong)?;
        let hash = hash(&entry.hash).ok_or_else(|| wrong(format!("hash must be {HASH_PREFIX} and 64 hexadecimal digits, as `coxswain key` prints it")))?;
        if !names.insert(entry.name.clone()) {
            return Err(wrong("another key has this name".into()));
        }
        if keys.contains_key(&hash) {
            return Err(wrong("another key has this hash".into()));
        }
        keys.insert(hash, entry);
    }
    Ok(keys)
}

/// Where and what, without the line's value: it goes to the log, and a secret may stand where it should not.
fn said(error: &toml::de::Error, text: &str) -> String {
    let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count());
    let field = text.lines().nth(line).and_then(|line| line.split_once('=')).map_or("", |(field, _)| field.trim());
    let word = |word: &str| if word.contains(SECRET_PREFIX) || word.len() > NAME_CHARS_MAX { "…".to_owned() } else { word.to_owned() };
    let whole = format!("line {}{}: {}", line + 1, if field.is_empty() { String::new() } else { format!(", {field}") }, error.message().replace('\n', " "));
    whole.split(' ').map(word).collect::<Vec<String>>().join(" ")
}

fn check(entry: &Entry) -> Result<(), String> {
    name(&entry.name)?;
    if !(1..=WEIGHT_MAX).contains(&entry.weight) {
        return Err(format!("weight must be from 1 to {WEIGHT_MAX}"));
    }
    for (field, value) in [("max_rows", entry.max_rows), ("requests_per_minute", entry.requests_per_minute), ("tokens_per_minute", entry.tokens_per_minute)] {
        if value == Some(0) {
            return Err(format!("{field} must be at least 1; without it there is no limit"));
        }
    }
    Ok(())
}

/// A name is a label of series and stands in log lines.
fn name(name: &str) -> Result<(), String> {
    let count = name.chars().count();
    if !(1..=NAME_CHARS_MAX).contains(&count) || name.chars().any(char::is_control) {
        return Err(format!("name must have 1 to {NAME_CHARS_MAX} characters, none of them a control character"));
    }
    Ok(())
}

fn hash(text: &str) -> Option<Hash> {
    let digits = text.strip_prefix(HASH_PREFIX)?.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        let digit = |d: u8| char::from(d).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(hash)
}

pub(crate) fn hash_of(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// A new secret, and the lines of the file for it.
///
/// # Errors
/// If the name cannot be one, or the system has no randomness to give.
pub fn fresh(key: &str) -> Result<(String, String), String> {
    name(key)?;
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| format!("no randomness to be had: {e}"))?;
    let secret = format!("{SECRET_PREFIX}{}", hex(&bytes));
    let entry = format!("[[key]]\nname = {}\nhash = \"{HASH_PREFIX}{}\"\n", toml::Value::from(key), hex(&hash_of(&secret)));
    Ok((secret, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<BTreeMap<Hash, Entry>, String> {
        parse(Path::new("keys.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_printed_for_a_key_can_be_read() {
        for key in ["team", "a \"b\" \\c", "日本"] {
            let (secret, entry) = fresh(key).unwrap();
            let keys = parsed(&entry).unwrap();
            assert_eq!(keys[&hash_of(&secret)].name, key);
            assert_ne!(fresh(key).unwrap().0, secret);
        }
        assert!(fresh("").is_err());
    }

    #[test]
    fn only_a_regular_file_of_some_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let pipe = std::ffi::CString::new(at("pipe").to_str().unwrap()).unwrap();
        // SAFETY: the path ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let (_, entry) = fresh("a").unwrap();
        let full = |length: usize| entry.clone() + &"#".repeat(length - entry.len());
        std::fs::write(at("most"), full(FILE_BYTES_MAX as usize)).unwrap();
        std::fs::write(at("more"), full(FILE_BYTES_MAX as usize + 1)).unwrap();
        assert_eq!(read(&at("most")).unwrap().len(), 1);
        for (path, said) in
            [(at("pipe"), "regular file"), (dir.path().into(), "regular file"), ("/dev/zero".into(), "regular file"), (at("more"), "1000000 bytes")]
        {
            let error = read(&path).unwrap_err().to_string();
            assert!(error.starts_with(path.to_str().unwrap()) && error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_hash_is_sha_256() {
        // FIPS 180-2, B.1: "abc".
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let keys = parsed(&format!("[[key]]\nname = \"a\"\nhash = \"sha256:{hash}\"\nweight = 3\nmax_rows = 2\nadmin = true\n")).unwrap();
        let entry = &keys[&hash_of("abc")];
        assert_eq!((entry.weight, entry.max_rows, entry.tokens_per_minute, entry.admin), (3, Some(2), None, true));
    }

    #[test]
    fn a_secret_in_the_file_is_not_told() {
        let (secret, good) = fresh("a").unwrap();
        for wrong in [
            format!("secret = \"{secret}\"\n"),
            format!("{secret} = 1\n"),
            format!("hash = {secret}\n"),
            format!("weight = \"{secret}\"\n"),
            format!("the secret, which is kept nowhere: {secret}\n"),
        ] {
            for text in [format!("{good}{wrong}"), format!("{wrong}{good}")] {
                let error = parsed(&text).unwrap_err();
                assert!(!error.contains(&secret[10..]) && error.contains("line "), "{error}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = format!("[[key]]\nname = \"a\"\nhash = \"sha256:{}\"\n", "0".repeat(64));
        for (text, said) in [
            (String::new(), "keys.toml: there is no [[key]] in it"),
            ("[[key]\n".into(), "line 1"),
            ("[[key]]\nname = \"a\"\n".into(), "hash"),
            (format!("{good}wieght = 2\n"), "wieght"),
            (format!("{good}weight = \"2\"\n"), "weight"),
            (format!("{good}weight = 0\n"), "keys.toml: key 1 (\"a\"): weight must be from 1 to 1000000"),
            (format!("{good}weight = -1\n"), "line 4"),
            (format!("{good}max_rows = 0\n"), "max_rows must be at least 1"),
            (format!("{good}tokens_per_minute = 0\n"), "tokens_per_minute must be at least 1"),
            (good.replace("\"a\"", "\"\""), "keys.toml: key 1: name must have 1 to 64 characters"),
            (good.replace("\"a\"", "\"a\\n\""), "control character"),
            (good.replace("000\"", "00\""), "hash must be sha256: and 64"),
            (good.replace("000\"", "00é\""), "hash must be sha256: and 64"),
            (format!("{good}{good}"), "key 2 (\"a\"): another key has this name"),
            (format!("{good}{}", good.replace("\"a\"", "\"b\"")), "key 2 (\"b\"): another key has this hash"),
        ] {
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
