//! The clients that people have, before the built program: `tests/clients/run.sh`, and what its parts say of a failure.

use crate::common::{default_model, turn};
use std::process::{Command, Stdio};

fn run(parts: &[&str]) {
    default_model();
    let _turn = turn();
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/run.sh"));
    command.arg(env!("CARGO_BIN_EXE_coxswain")).args(parts).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").stdin(Stdio::null());
    let ran = command.output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{parts:?}: {}\n{}", ran.status, String::from_utf8_lossy(&said));
}

#[test]
fn official_packages_and_curl_are_served() {
    run(&["openai", "anthropic", "ai", "curl"]);
}

#[test]
fn nothing_is_answered_that_the_document_does_not_say() {
    run(&["schema"]);
}
