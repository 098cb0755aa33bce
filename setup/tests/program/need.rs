//! `need.sh` on machines that lack something: all of it is named at once, with what brings it.

use crate::tools::{Tools, said, script};

/// Debian 12 with everything.
fn machine() -> Tools {
    let tools = Tools::new();
    for name in ["cc", "g++", "nm", "python3"] {
        tools.put(name, "exit 0");
    }
    tools.put("uname", r#"[ "$1" = -m ] && echo x86_64 || echo Linux"#);
    tools.put("getconf", "echo glibc 2.36");
    tools.put("cargo", r#"echo "cargo 1.95.0 (f2d3ce0bd 2026-03-21)""#);
    tools
}

/// Exit code and standard error of `need.sh` there.
fn need(tools: &Tools) -> (i32, String) {
    let output = script("need.sh").env("PATH", tools.path()).output().unwrap();
    (output.status.code().unwrap(), said(&output))
}

#[test]
fn a_machine_with_everything_hears_nothing() {
    assert_eq!(need(&machine()), (0, String::new()));
}

type Case = (&'static str, fn(&Tools), &'static [&'static str]);

/// What is wrong with the machine, how it gets so, and what must be said, line by line after the first.
const LACKING: &[Case] = &[
    (
        "no compiler at all",
        |t| ["cc", "g++", "nm"].iter().for_each(|tool| t.remove(tool)),
        &["cc, the C compiler and linker, is missing: apt-get install gcc", "g++ is missing: apt-get install g++", "nm is missing: apt-get install binutils"],
    ),
    ("no python", |t| t.remove("python3"), &["python3 with pip is missing: apt-get install python3 python3-pip"]),
    ("python without pip", |t| t.put("python3", "[ $1 = --version ]"), &["python3 has no pip (python3 -m pip does not run): apt-get install python3-pip"]),
    ("no cargo", |t| t.remove("cargo"), &["cargo is missing, 1.95 or later is needed: curl -sSf https://sh.rustup.rs | sh"]),
    (
        "Debian's cargo, which stops at this folder's configuration",
        |t| t.put("cargo", r#"[ -e .cargo/config.toml ] && { echo "error: could not load Cargo configuration" >&2; exit 101; }; echo "cargo 1.65.0""#),
        &["cargo is 1.65, 1.95 or later is needed: curl -sSf https://sh.rustup.rs | sh"],
    ),
    (
        "an old cargo of rustup's",
        |t| {
            t.put("cargo", "echo 'cargo 1.94.1 (abc 2026-01-01)'");
            t.put("rustup", "exit 0");
        },
        &["cargo is 1.94, 1.95 or later is needed: rustup update stable"],
    ),
    (
        "a rustup without a toolchain",
        |t| t.put("cargo", "echo no default toolchain >&2; exit 1"),
        &["cargo does not run (cargo --version fails), 1.95 or later"],
    ),
    ("an old glibc", |t| t.put("getconf", "echo glibc 2.31"), &["glibc is 2.31: MLX's wheel needs 2.35 or newer"]),
    ("another C library", |t| t.put("getconf", "exit 1"), &["the C library is not glibc"]),
    ("another processor", |t| t.put("uname", "[ \"$1\" = -m ] && echo riscv64 || echo Linux"), &["the processor is riscv64", "x86_64 and aarch64"]),
];

#[test]
fn what_is_missing_is_named_with_what_brings_it() {
    for (case, spoil, want) in LACKING {
        let tools = machine();
        spoil(&tools);
        let (code, said) = need(&tools);
        assert_eq!(code, 2, "{case}: {said}");
        assert!(want.iter().all(|part| said.contains(part)), "{case}: {said}");
    }
}

/// macOS has no wheel and no glibc to ask for; what builds MLX there is asked for instead.
#[test]
fn a_mac_is_told_its_own_commands() {
    let tools = machine();
    tools.put("uname", "[ \"$1\" = -m ] && echo arm64 || echo Darwin");
    tools.put("cmake", "exit 0");
    ["nm", "getconf"].iter().for_each(|tool| tools.remove(tool));
    assert_eq!(need(&tools), (0, String::new()));
    ["cc", "cmake"].iter().for_each(|tool| tools.remove(tool));
    let (code, said) = need(&tools);
    assert_eq!(code, 2);
    assert!(said.contains("is missing: xcode-select --install\n") && said.contains("brew install cmake") && !said.contains("apt-get"), "{said}");
}

#[test]
fn everything_that_is_missing_is_in_one_message() {
    let tools = Tools::new();
    tools.put("uname", "echo Linux");
    let (code, said) = need(&tools);
    assert_eq!(code, 2);
    for name in ["cc,", "g++", "python3 with pip", "nm", "processor", "C library", "cargo"] {
        assert_eq!(
            said.lines().filter(|line| line.starts_with(&format!("make:   {name}")) || line.contains(&format!("the {name} is"))).count(),
            1,
            "{name}: {said}"
        );
    }
}
