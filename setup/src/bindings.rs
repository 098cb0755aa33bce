//! `native/bindings.rs`: what mlx-sys includes, generated from mlx-c's headers as mlx-sys's own build does.

use crate::run::{Outcome, run, say, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// x86-64 has no `float16_t`; mlx-rs wants a tuple struct for it and a plain integer for bfloat16.
const HALF: &str = "#define HAS_FLOAT16\n#define HAS_BFLOAT16\ntypedef unsigned short float16_t;\ntypedef unsigned short bfloat16_t;\n";
const FLOAT16: &str = "#[repr(transparent)] #[derive(Debug, Default, Copy, Clone)] pub struct float16_t(pub u16);";

pub(crate) fn generate(mlx_c: &Path, wheels: &Path, work: &Path, native: &Path) -> Outcome<()> {
    say("generating bindings");
    let libclang = wheels.join("clang/native");
    let libclang = if libclang.is_dir() { libclang } else { libclang_in_data(wheels)? };
    // SAFETY: no other thread runs yet; bindgen reads this variable and nothing else sets it.
    unsafe { std::env::set_var("LIBCLANG_PATH", libclang) };
    let compiler_headers = run(Command::new("g++").arg("-print-file-name=include"))?;
    let mut headers: Vec<PathBuf> = std::fs::read_dir(mlx_c.join("mlx/c"))
        .map_err(|e| format!("cannot list mlx-c's headers: {e}"))?
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|x| x == "h"))
        .collect();
    headers.sort();
    let mut builder = bindgen::Builder::default()
        .clang_arg(format!("-I{}", mlx_c.display()))
        .clang_arg(format!("-I{}", compiler_headers.trim()))
        .blocklist_function("malloc")
        .blocklist_function("realloc");
    if std::env::consts::ARCH == "x86_64" {
        let half = work.join("half.h");
        write(&half, HALF)?;
        builder = builder.clang_arg(format!("-include{}", half.display())).blocklist_type("float16_t").raw_line(FLOAT16);
    }
    for h in &headers {
        builder = builder.header(h.to_string_lossy());
    }
    let text = builder.generate().map_err(|e| format!("bindgen: {e}"))?.to_string();
    write(&native.join("bindings.rs"), &text)
}

/// The wheel of libclang keeps its library in a data folder.
fn libclang_in_data(wheels: &Path) -> Outcome<PathBuf> {
    let data = crate::wheels::find(wheels, |n| n.starts_with("libclang-") && n.ends_with(".data"))?;
    let dir = data.map(|d| d.join("platlib/clang/native")).filter(|d| d.is_dir());
    dir.ok_or_else(|| format!("the libclang wheel has no clang/native in {}", wheels.display()))
}
