//! `coxswain sim`: seeds run, one line at the end, and the same line for the same seeds.

use crate::common::ended;

/// What is said, without how long it took.
fn said(args: &[&str]) -> String {
    let output = ended(&[&["sim"], args].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("sim: ") && text.ends_with(" s: nothing broken\n") && text.lines().count() == 1, "{text}");
    let (said, _) = text.split_once(" virtual hours, ").unwrap();
    said.to_owned()
}

#[test]
fn seeds_run_and_run_again() {
    let several = said(&["--seed", "7", "--seeds", "20"]);
    assert!(several.starts_with("sim: 20 seeds, "), "{several}");
    assert_eq!(several, said(&["--seed", "7", "--seeds", "20"]));
    assert_ne!(several, said(&["--seed", "8", "--seeds", "20"]));
    let one = said(&["--seed", "7"]);
    assert!(one.starts_with("sim: 1 seeds, ") && one.contains(" preemptions, "), "{one}");
    let day = said(&["--seed", "7", "--hours", "24"]);
    assert!(day.ends_with(" 24.0") || day.contains(" deaths of the model, 24."), "{day}");
}

#[test]
fn what_is_no_number_of_seeds_is_named() {
    for (args, part) in [(["sim", "--seeds", "0"], "--seeds"), (["sim", "--hours", "0"], "--hours"), (["sim", "--seed", "x"], "--seed")] {
        let output = ended(&args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.starts_with("error: ") && text.lines().next().unwrap().contains(part), "{text}");
    }
}
