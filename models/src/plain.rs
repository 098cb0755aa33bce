//! Opening what a model is made of: plain files only, and none read further than it may be long.
//!
//! Opening a pipe waits for its other end for ever, so files are opened without waiting and looked at afterwards: nothing can
//! take a file's place between the look and the opening.

use std::fs::{File, OpenOptions};
#[cfg(any(feature = "text", test))]
use std::io::Read;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Characters of a message. Names and values in it are the file's own, and may be of any length.
const SHOWN_MAX: usize = 400;

/// A plain file and its length in bytes. The error's text is a reason that reads on after the file's name.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    let options = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = options.map_err(|e| Error::new(e.kind(), format!("cannot be opened: {e}")))?;
    let meta = file.metadata().map_err(|e| Error::new(e.kind(), format!("cannot be read: {e}")))?;
    if !meta.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "is not a plain file"));
    }
    Ok((file, meta.len()))
}

/// The text of a plain file of at most `bytes_max` bytes.
#[cfg(any(feature = "text", test))]
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<String> {
    let (file, _) = open(path)?;
    let mut bytes = Vec::new();
    // One byte more than allowed: the length that the file had when it was opened may not be the last word.
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|e| Error::new(e.kind(), format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > bytes_max {
        return Err(Error::new(ErrorKind::InvalidData, format!("is too long: at most {bytes_max} bytes are read")));
    }
    String::from_utf8(bytes).map_err(|e| Error::new(ErrorKind::InvalidData, format!("is not UTF-8: {e}")))
}

/// A message as one line of bearable length, whatever names and values from a file stand in it.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == SHOWN_MAX {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_plain_files_are_opened_and_nothing_waits() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("folder")).unwrap();
        let pipe = CString::new(at("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a valid C string for the length of the call.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let _socket = UnixListener::bind(at("socket")).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link to a pipe")).unwrap();
        for (name, want) in [
            ("folder", "is not a plain file"),
            ("pipe", "is not a plain file"),
            ("link to a pipe", "is not a plain file"),
            ("socket", "cannot be opened: "),
            ("nothing", "cannot be opened: "),
        ] {
            let error = open(&at(name)).unwrap_err().to_string();
            assert!(error.starts_with(want), "{name}: {error}");
            assert_eq!(read(&at(name), 9).unwrap_err().to_string(), error, "{name}");
        }
        assert_eq!(read(&at("nothing"), 9).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(open(&at("link")).unwrap().1, 4);
        assert!(open(Path::new("/dev/null")).unwrap_err().to_string().starts_with("is not a plain file"));
    }

    #[test]
    fn nothing_is_read_past_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "héllo").unwrap();
        assert_eq!(read(&file, 6).unwrap(), "héllo");
        assert_eq!(read(&file, 5).unwrap_err().to_string(), "is too long: at most 5 bytes are read");
        File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&file, 5).unwrap_err().to_string(), "is too long: at most 5 bytes are read");
        std::fs::write(&file, b"h\xFF").unwrap();
        assert!(read(&file, 5).unwrap_err().to_string().starts_with("is not UTF-8: "));
    }

    #[test]
    fn messages_stay_one_line() {
        assert_eq!(one_line("tensor a\nb\u{1b}[0m é"), "tensor a\\nb\\u{1b}[0m é");
        assert_eq!(one_line(&"é".repeat(1000)), "é".repeat(SHOWN_MAX) + "…");
    }
}
