//! The byte budget of KV memory, as people write it: `8GB`, `512MiB`, `auto`.

use serde::{Deserialize, Serialize};

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BudgetSpec {
    /// What the device says is usable, less weights, less a workspace.
    Auto,
    Bytes(u64),
}

/// MB is 10^6 bytes and MiB is 2^20, as IEC 80000-13 has it.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Reads a budget: `auto`, or a positive number (a decimal fraction is fine with a unit) and a unit in any case. The error is a
/// sentence that names what was written and what is allowed.
pub fn parse(text: &str) -> Result<BudgetSpec, String> {
    let trimmed = text.trim();
    if trimmed.eq_ignore_ascii_case("auto") {
        return Ok(BudgetSpec::Auto);
    }
    let digits_end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits_end);
    let unit = unit.trim().to_ascii_lowercase();
    let Some(&(_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("budget {text:?}: unknown unit {unit:?}; {ALLOWED}"));
    };
    let bytes = scaled(number, scale).map_err(|why| format!("budget {text:?}: {why}; {ALLOWED}"))?;
    if bytes == 0 {
        return Err(format!("budget {text:?} is no bytes at all; {ALLOWED}"));
    }
    Ok(BudgetSpec::Bytes(bytes))
}

const ALLOWED: &str = "write \"auto\", bytes, or a number with KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024)";

/// `number × scale` in whole bytes, rounded down, without floating point: a budget must not depend on rounding modes.
fn scaled(number: &str, scale: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err("not a number");
    }
    if scale == 1 && !fraction.is_empty() {
        return Err("a fraction needs a unit");
    }
    if fraction.len() > 18 {
        return Err("too many digits");
    }
    let whole: u128 = whole.parse().map_err(|_| "too large")?;
    let tenths = 10u128.pow(fraction.len() as u32);
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| "not a number")? };
    let bytes = whole.checked_mul(u128::from(scale)).and_then(|b| b.checked_add(part * u128::from(scale) / tenths)).ok_or("too large")?;
    u64::try_from(bytes).map_err(|_| "too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let rows: &[(&str, u64)] = &[
            ("1", 1),
            ("8589934592", 1 << 33),
            ("7 B", 7),
            ("3kB", 3_000),
            ("512MB", 512_000_000),
            ("8GB", 8_000_000_000),
            ("8 gb", 8_000_000_000),
            ("2KiB", 2048),
            ("512MiB", 1 << 29),
            ("1GiB", 1 << 30),
            ("1.5GiB", 3 << 29),
            ("0.5KB", 500),
            ("1.999999999999999999KB", 1_999),
            ("2TB", 2_000_000_000_000),
            (" 2TiB ", 2 << 40),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in rows {
            assert_eq!(parse(text), Ok(BudgetSpec::Bytes(*bytes)), "{text:?}");
        }
        assert_eq!(parse("auto"), Ok(BudgetSpec::Auto));
        assert_eq!(parse("AUTO"), Ok(BudgetSpec::Auto));
    }

    #[test]
    fn says_what_is_wrong() {
        let rows: &[(&str, &str)] = &[
            ("", "not a number"),
            ("GB", "not a number"),
            ("-1GB", "unknown unit"),
            ("8GX", "unknown unit \"gx\""),
            ("8GB!", "unknown unit"),
            ("1.2.3GB", "not a number"),
            ("1.GB", "not a number"),
            ("1.5", "a fraction needs a unit"),
            ("0", "no bytes"),
            ("0.0001KB", "no bytes"),
            ("18446744073709551616", "too large"),
            ("99999999999TB", "too large"),
            ("999999999999999999999999999999999999999999GB", "too large"),
            ("1.0000000000000000001GB", "too many digits"),
        ];
        for (text, part) in rows {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && error.contains("GiB"), "{text:?}: {error}");
        }
    }
}
