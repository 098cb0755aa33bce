//! `coxswain key`: the entry on standard output, the secret on standard error, and what cannot be written is told.

use crate::common::ended;
use std::fs::OpenOptions;
use std::process::{Command, Stdio};

#[test]
fn the_entry_and_the_secret_go_their_own_ways() {
    let output = ended(&["key", "ann"]);
    let (entry, secret) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && entry.starts_with("[[key]]\nname = \"ann\"\nhash = \"sha256:"), "{entry}");
    assert!(secret.contains("sk-cox-") && !entry.contains("sk-cox-"), "{secret}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_no_secret_is_given_for_it() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_coxswain")).args(["key", "ann"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("coxswain: cannot write to standard output: ") && !said.contains("sk-cox-"), "{said}");
}
