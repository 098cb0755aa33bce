//! The header of a safetensors file: entries by name, each held against its own shape, its neighbours and the file's length.
//!
//! One entry is read with the crate `safetensors` (the format's own). The header as a whole is not: its errors name no tensor.

use crate::plain::one_line;
use safetensors::tensor::TensorInfo;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The format's name for what is no tensor: notes, from strings to strings.
const NOTES: &str = "__metadata__";

/// All tensors in the order of their bytes. `head` is the header, `data` the bytes that follow it in the file.
pub fn tensors(head: &[u8], data: u64) -> Result<Vec<(String, TensorInfo)>, String> {
    let json: Map<String, Value> = serde_json::from_slice(head).map_err(|e| format!("header: is not a JSON object: {e}"))?;
    let mut all = Vec::with_capacity(json.len());
    for (name, entry) in json {
        if name == NOTES {
            serde_json::from_value::<HashMap<String, String>>(entry).map_err(|e| one_line(&format!("header: {NOTES}: {e}")))?;
            continue;
        }
        let info: TensorInfo = serde_json::from_value(entry).map_err(|e| one_line(&format!("header: tensor {name}: {e}")))?;
        all.push((name, info));
    }
    all.sort_by_key(|(_, info)| info.data_offsets);
    let mut end = 0;
    for (name, info) in &all {
        end = placed(info, end, data).map_err(|reason| one_line(&format!("header: tensor {name}: {reason}")))?;
    }
    if end as u64 != data {
        return Err(format!("holds {data} bytes of data, its header says {end}"));
    }
    Ok(all)
}

/// A tensor must begin where the one before it ended, be as long as its shape says, and end within the file. Gives its end.
fn placed(info: &TensorInfo, begin: usize, data: u64) -> Result<usize, String> {
    let (from, to) = info.data_offsets;
    let what = format!("{:?} of shape {:?}", info.dtype, info.shape);
    if info.shape.contains(&0) {
        return Err(format!("{what} is empty: every axis must be 1 or more"));
    }
    let bits = info.shape.iter().try_fold(info.dtype.bitsize(), |n, d| n.checked_mul(*d));
    let bytes = bits.ok_or_else(|| format!("{what} is too large"))?;
    if !bytes.is_multiple_of(8) {
        return Err(format!("{what} is not a whole number of bytes"));
    }
    let bytes = bytes / 8;
    if to < from || to - from != bytes {
        return Err(format!("{what} takes {bytes} bytes, data_offsets say {from} to {to}"));
    }
    if from != begin {
        let how = if from < begin { "which another tensor has" } else { "and leaves a hole" };
        return Err(format!("data_offsets begin at {from}, {how}: {begin} is needed"));
    }
    if to as u64 > data {
        return Err(format!("the file is truncated: {to} bytes of data are needed, {data} are there"));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, data: u64, want: &str) {
        let got = tensors(head.as_bytes(), data).map(|_| ()).unwrap_err();
        assert!(got.contains(want), "{got} should contain {want}");
        assert!(!got.contains('\n'), "{got}");
    }

    /// One sound tensor of 8 bytes, then `w` as given.
    fn with(w: &str) -> String {
        format!(r#"{{"a": {{"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, "w": {w}}}"#)
    }

    #[test]
    fn entries_come_in_the_order_of_their_bytes() {
        let head = r#"{"__metadata__": {"format": "mlx"},
            "b": {"dtype": "U32", "shape": [1, 2], "data_offsets": [4, 12]},
            "z": {"dtype": "BF16", "shape": [], "data_offsets": [12, 14]},
            "a": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}"#;
        let all = tensors(head.as_bytes(), 14).unwrap();
        let names: Vec<&str> = all.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["a", "b", "z"]);
    }

    #[test]
    fn a_faulty_entry_is_named() {
        for (w, want) in [
            (r#"{"dtype": "F32", "shape": [0, 4], "data_offsets": [8, 8]}"#, "tensor w: F32 of shape [0, 4] is empty"),
            (r#"{"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [8, 8]}"#, "tensor w: F32 of shape [4294967296, 4294967296] is too large"),
            (r#"{"dtype": "F32", "shape": [-2], "data_offsets": [8, 16]}"#, "tensor w: invalid value: integer `-2`"),
            (r#"{"dtype": "F32", "shape": [1.5], "data_offsets": [8, 16]}"#, "tensor w: invalid type: floating point `1.5`"),
            (r#"{"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}"#, "tensor w: invalid value: integer `-8`"),
            (r#"{"dtype": "F33", "shape": [2], "data_offsets": [8, 16]}"#, "tensor w: unknown variant `F33`"),
            (r#"{"dtype": "F\n3", "shape": [2], "data_offsets": [8, 16]}"#, "tensor w: unknown variant `F\\n3`"),
            (r#"{"dtype": "F32", "shape": [2], "data_offsets": [8, 12]}"#, "tensor w: F32 of shape [2] takes 8 bytes, data_offsets say 8 to 12"),
            (r#"{"dtype": "F32", "shape": [2], "data_offsets": [16, 8]}"#, "tensor w: F32 of shape [2] takes 8 bytes, data_offsets say 16 to 8"),
            (r#"{"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}"#, "tensor w: data_offsets begin at 4, which another tensor has: 8 is needed"),
            (r#"{"dtype": "F32", "shape": [2], "data_offsets": [12, 20]}"#, "tensor w: data_offsets begin at 12, and leaves a hole: 8 is needed"),
            (r#"{"dtype": "F32", "shape": [2], "data_offsets": [18446744073709551608, 18446744073709551615]}"#, "tensor w: F32 of shape [2] takes"),
            (r#"{"dtype": "F32", "shape": [2], "data_offsets": [18446744073709551607, 18446744073709551615]}"#, "tensor w: data_offsets begin at"),
            (r#"{"dtype": "F32", "shape": [2], "data_offsets": [8, 18446744073709551616]}"#, "tensor w: "),
            (r#"{"dtype": "F4", "shape": [3], "data_offsets": [8, 9]}"#, "tensor w: F4 of shape [3] is not a whole number of bytes"),
            (r#"{"dtype": "F32", "shape": [2]}"#, "tensor w: missing field `data_offsets`"),
            (r#"{"dtype": "F32", "data_offsets": [8, 16]}"#, "tensor w: missing field `shape`"),
            ("7", "tensor w: invalid type"),
        ] {
            check(&with(w), 16, want);
        }
        check(&with(r#"{"dtype": "F32", "shape": [288230376151711744], "data_offsets": [8, 1152921504606846984]}"#), 16, "tensor w: the file is truncated");
        check(&with(r#"{"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}"#), 24, "holds 24 bytes of data, its header says 16");
    }

    #[test]
    fn what_is_no_header_is_refused() {
        check("", 0, "header: is not a JSON object");
        check("[]", 0, "header: is not a JSON object");
        check(&"[".repeat(1 << 20), 0, "header: is not a JSON object");
        check(&with(&format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20))), 8, "header: is not a JSON object");
        check(r#"{"__metadata__": {"format": 1}}"#, 0, "header: __metadata__: ");
        check(r#"{"a\nb": {}}"#, 0, "header: tensor a\\nb: missing field");
    }
}
