//! Today's date, for the templates that tell the model: `strftime_now` in Hugging Face's environment.

use std::ffi::CString;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest result. Formats come from the model's own template, and dates are short.
const BYTES_MAX: usize = 4096;

/// Local time, now. None for a format with a NUL in it, or with a result longer than a date can be.
pub(super) fn now(format: &str) -> Option<String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    at(since.as_secs() as libc::time_t, format)
}

/// C's `strftime`, which is what Python's calls.
pub(super) fn at(seconds: libc::time_t, format: &str) -> Option<String> {
    if format.is_empty() {
        return Some(String::new());
    }
    let format = CString::new(without_zone(format)).ok()?;
    let mut buf = vec![0u8; BYTES_MAX];
    // SAFETY: zeroes are a valid `tm`. Both pointers of localtime_r live through the call, and strftime writes at most
    // `buf.len()` bytes and reads a NUL-terminated format and an initialised `tm`.
    let len = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut tm).is_null() {
            return None;
        }
        libc::strftime(buf.as_mut_ptr().cast(), buf.len(), format.as_ptr(), &tm)
    };
    // 0 means that it did not fit: an empty result needs a format of nothing but empty fields, which no template has.
    if len == 0 {
        return None;
    }
    buf.truncate(len);
    String::from_utf8(buf).ok()
}

/// Python's date has no time zone, and the C library knows no `%f`, microseconds: nothing here has them.
fn without_zone(format: &str) -> String {
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        match (c, chars.as_str().chars().next()) {
            ('%', Some('z' | 'Z')) => drop(chars.next()),
            ('%', Some('f')) => {
                chars.next();
                out.push_str("000000");
            }
            ('%', Some(other)) => {
                chars.next();
                out.extend([c, other]);
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_written_as_asked() {
        // Noon UTC in the middle of a month: the same month in every time zone.
        let noon = 1_718_452_800;
        assert_eq!(super::at(noon, "%b %Y, é").unwrap(), "Jun 2024, é");
        assert_eq!(super::at(noon, "%Y%z %Z.%f %%z").unwrap(), "2024 .000000 %z");
        assert_eq!(super::at(noon, "").unwrap(), "");
        assert_eq!(super::at(noon, "a\0b"), None);
        assert_eq!(super::at(noon, &"%A".repeat(2000)), None);
        assert!(super::now("%Y").unwrap().parse::<u32>().unwrap() >= 2024);
    }
}
