//! OpenBLAS in place of the wheel's reference BLAS, which is ten times slower.
//!
//! The package scipy-openblas32 is OpenBLAS with `scipy_` before each symbol. A stub library of jumps, under the file name
//! and soname that libmlx.so already asks for, gives the symbols their plain names back.

use crate::run::{Outcome, run, say, write};
use crate::wheels::find;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn replace(wheels: &Path, libs: &Path, work: &Path) -> Outcome<()> {
    say("putting OpenBLAS in place of the reference BLAS");
    let openblas = wheels.join("scipy_openblas32/lib/libscipy_openblas.so");
    let old = find(libs, |n| n.starts_with("libblas-"))?.ok_or("no libblas to replace")?;
    let have = symbols(&openblas)?;
    let want: BTreeSet<String> = symbols(&old)?.into_iter().filter(|s| !s.starts_with('_')).collect();
    // The reference library also exports its own glue, which nobody else calls: what must not be missing is what is called.
    let called = called(&[wheels.join("mlx/lib/libmlx.so"), find(libs, |n| n.starts_with("liblapack-"))?.ok_or("no liblapack in the wheel")?])?;
    if let Some(s) = want.iter().find(|s| called.contains(*s) && !have.contains(&format!("scipy_{s}"))) {
        return Err(format!("OpenBLAS has no `{s}`, which MLX calls"));
    }
    let jump = if std::env::consts::ARCH == "aarch64" { "b" } else { "jmp" };
    let at_plt = if std::env::consts::ARCH == "aarch64" { "" } else { "@PLT" };
    let mut text = String::from(".text\n");
    for s in want.iter().filter(|s| have.contains(&format!("scipy_{s}"))) {
        text += &format!(".globl {s}\n.type {s},%function\n{s}: {jump} scipy_{s}{at_plt}\n");
    }
    text += ".section .note.GNU-stack,\"\",%progbits\n";
    let stub = work.join("blas.s");
    write(&stub, &text)?;
    let kept = libs.join("libscipy_openblas.so");
    std::fs::copy(&openblas, &kept).map_err(|e| format!("cannot copy OpenBLAS to {}: {e}", kept.display()))?;
    let soname = old.file_name().and_then(|n| n.to_str()).ok_or("libblas has no name")?;
    let mut cxx = Command::new("g++");
    cxx.arg("-shared").arg("-o").arg(&old).arg(&stub).arg("-L").arg(libs);
    cxx.args(["-lscipy_openblas", "-Wl,-rpath,$ORIGIN", &format!("-Wl,-soname,{soname}")]);
    run(&mut cxx).map(drop)
}

/// The functions a library defines.
fn symbols(library: &Path) -> Outcome<BTreeSet<String>> {
    names(library, "--defined-only")
}

/// The functions that these libraries want from others.
fn called(libraries: &[PathBuf]) -> Outcome<BTreeSet<String>> {
    libraries.iter().map(|l| names(l, "--undefined-only")).try_fold(BTreeSet::new(), |mut all, some| {
        all.extend(some?);
        Ok(all)
    })
}

fn names(library: &Path, which: &str) -> Outcome<BTreeSet<String>> {
    let text = run(Command::new("nm").args(["-D", which]).arg(library))?;
    Ok(text.lines().filter_map(|l| l.split_whitespace().last()).map(|s| s.split('@').next().unwrap_or(s).to_owned()).collect())
}
