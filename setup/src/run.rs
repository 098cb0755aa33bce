//! Running the tools that set-up needs, with an error that names a missing one and how to get it; and files and checksums.

use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::{Command, Stdio};

/// Every failure is one line for a person.
pub(crate) type Outcome<T> = Result<T, String>;

/// A tool, how it shows that it is there, and the Debian package that brings it.
const TOOLS: [(&str, &[&str], &str); 5] = [
    ("g++", &["--version"], "apt-get install g++"),
    ("nm", &["--version"], "apt-get install binutils"),
    ("cargo", &["--version"], "see rustup's or your distribution's Rust package"),
    ("python3", &["--version"], "apt-get install python3"),
    ("python3", &["-m", "pip", "--version"], "apt-get install python3-pip"),
];

pub(crate) fn say(line: &str) {
    eprintln!("setup: {line}");
}

/// Checks the tools named, by their place in [`TOOLS`]' first column.
pub(crate) fn need(names: &[&str]) -> Outcome<()> {
    for (tool, show, get) in TOOLS.iter().filter(|t| names.contains(&t.0)) {
        let shown = Command::new(tool).args(*show).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !shown.is_ok_and(|s| s.success()) {
            return Err(format!("`{tool} {}` does not work here: install it with `{get}`", show.join(" ")));
        }
    }
    Ok(())
}

/// Runs a command to its end and returns what it printed; an error carries the last lines of its complaint.
pub(crate) fn run(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("cannot start `{name}`: {e}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        let last: Vec<&str> = said.lines().rev().take(12).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        return Err(format!("`{name}` failed ({}):\n{}", out.status, last.join("\n")));
    }
    String::from_utf8(out.stdout).map_err(|_| format!("`{name}` printed something that is not UTF-8"))
}

pub(crate) fn make_dir(dir: &Path) -> Outcome<()> {
    std::fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))
}

pub(crate) fn write(file: &Path, text: &str) -> Outcome<()> {
    std::fs::write(file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))
}

/// Replaces a folder by an empty one.
pub(crate) fn fresh_dir(dir: &Path) -> Outcome<()> {
    match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("cannot clear {}: {e}", dir.display())),
        _ => make_dir(dir),
    }
}

/// Hex SHA-256 of a file.
pub(crate) fn sha256(file: &Path) -> Outcome<String> {
    let mut f = std::fs::File::open(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    let mut hash = Sha256::new();
    std::io::copy(&mut f, &mut hash).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}
