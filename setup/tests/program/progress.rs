//! `progress.sh`: few lines of a long build, all of what went wrong, and the build's own exit code.

use crate::tools::{said, script};

/// What is left of what a build says on standard error, and the exit code.
fn shown(build: &str) -> (i32, String) {
    let output = script("progress.sh").args(["boat", "some minutes", "bash", "-c", build]).output().unwrap();
    (output.status.code().unwrap(), said(&output))
}

#[test]
fn a_long_build_is_told_in_a_few_lines() {
    let (code, said) = shown("echo '  Downloaded a v1' >&2; for i in {1..60}; do echo \"   Compiling c$i v1.0\" >&2; done; echo '    Finished `release`' >&2");
    assert_eq!(code, 0);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["make: downloading crates for boat", "make: compiling boat (some minutes)"]);
    assert!(lines[2].starts_with("make: 25 crates so far, ") && lines[3].starts_with("make: 50 crates so far, "), "{said}");
    assert!(lines[4].starts_with("make: compiled boat, 60 crates in "), "{said}");
    assert_eq!(lines.len(), 5);
}

#[test]
fn a_build_with_nothing_to_do_says_nothing() {
    assert_eq!(shown("echo '    Finished `release` profile in 0.1s' >&2"), (0, String::new()));
}

#[test]
fn waits_warnings_and_errors_come_through() {
    let build = "echo '    Blocking waiting for file lock on build directory' >&2; printf '\\e[1m\\e[32m   Compiling\\e[0m c v1\\n' >&2; \
                 printf 'error: no   Compiling here\\n  |  `a\\\\b`\\n' >&2; exit 101";
    let (code, said) = shown(build);
    assert_eq!(code, 101);
    assert_eq!(said, "    Blocking waiting for file lock on build directory\nmake: compiling boat (some minutes)\nerror: no   Compiling here\n  |  `a\\b`\n");
}
