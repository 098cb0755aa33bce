//! A folder of tools that stands for a machine: `PATH` is that folder and nothing else.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) struct Tools(tempfile::TempDir);

impl Tools {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A tool that is this script for `/bin/sh`.
    pub(crate) fn put(&self, name: &str, script: &str) {
        let file = self.0.path().join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.0.path().join(name)).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A script of this crate's folder, to be run by bash.
pub(crate) fn script(name: &str) -> Command {
    let mut command = Command::new("/bin/bash");
    command.arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name));
    command
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
