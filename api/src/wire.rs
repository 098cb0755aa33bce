//! JSON and frames, as every protocol writes them.

use serde::Serialize;
use std::io::Write;

pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain structs of strings and numbers serialize")
}

pub(crate) fn write_json<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out.by_ref(), value).expect("plain structs serialize, and a Vec takes every byte");
}

/// A frame that says which event it is, and then what there is to it.
pub(crate) fn event<T: Serialize>(out: &mut Vec<u8>, name: &str, data: &T) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    write_json(out, data);
    out.extend_from_slice(b"\n\n");
}
