//! MLX for Linux: what mlx-sys's own build script would have left on a Mac, made from PyPI's wheel instead.
//!
//! Leaves in `native/`: `bindings.rs`, `mlx/lib/{libmlx.so,libmlxc.so}`, `<wheel>.libs/` (with OpenBLAS in place of the
//! reference BLAS) and `cargo.toml`, which `.cargo/config.toml` includes and which replaces mlx-sys's build script.

use crate::run::{Outcome, fresh_dir, make_dir, need, run, say, write};
use crate::wheels::{CUDA13, LIBCLANG, MLX_CPU, MLX_CUDA13, OPENBLAS, Wheel, find};
use crate::{bindings, blas, mlxc};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Raised when what this crate leaves behind changes.
const RECIPE: u32 = 1;

/// Does all of it, or nothing if it was done for this very backend, place and version.
pub(crate) fn lay() -> Outcome<()> {
    if std::env::consts::OS == "macos" {
        return Ok(());
    }
    if std::env::consts::OS != "linux" {
        return Err(format!("{} is not supported: Linux and macOS are", std::env::consts::OS));
    }
    let backend = backend()?;
    let root = std::env::current_dir().map_err(|e| format!("no current folder: {e}"))?;
    let native = root.join("native");
    let stamp_file = native.join("stamp");
    let stamp = format!("{RECIPE} {} {} {}\n", backend.name, backend.version, native.display());
    if std::fs::read_to_string(&stamp_file).is_ok_and(|s| s == stamp) {
        return Ok(());
    }
    need(&["g++", "nm", "cargo", "python3"])?;
    say(&format!("laying MLX {} ({}) in {}: once, about two minutes", backend.version, backend.name, native.display()));
    fresh_dir(&native)?;
    let work = native.join("work");
    for wheel in [backend, &OPENBLAS, &LIBCLANG] {
        wheel.unpack(&work.join("wheels"))?;
    }
    if backend.name == MLX_CUDA13.name {
        say("CUDA 13's own libraries follow: about 1.5 GB, once a machine");
        // libmlx.so looks for them in `nvidia/` two folders above itself, which is here.
        CUDA13.iter().try_for_each(|wheel| wheel.unpack(&native))?;
    }
    let wheels = work.join("wheels");
    let mlx_c = mlx_c_sources(&root)?;
    let libs = place_libraries(&wheels, &native, backend)?;
    mlxc::compile(&mlx_c, &wheels.join("mlx/include"), &work, &native)?;
    blas::replace(&wheels, &libs, &work)?;
    bindings::generate(&mlx_c, &wheels, &work, &native)?;
    write(&native.join("cargo.toml"), &cargo_config(&native, &libs, backend)?)?;
    std::fs::remove_dir_all(&work).map_err(|e| format!("cannot remove {}: {e}", work.display()))?;
    write(&stamp_file, &stamp)?;
    say("MLX is in place");
    Ok(())
}

fn backend() -> Outcome<&'static Wheel> {
    match std::env::var("MLX_BACKEND").as_deref() {
        Err(_) | Ok("" | "cpu") => Ok(&MLX_CPU),
        Ok("cuda13") => Ok(&MLX_CUDA13),
        Ok(other) => Err(format!("MLX_BACKEND={other} is unknown: cpu (the default) and cuda13 are allowed")),
    }
}

/// mlx-c's sources come inside the mlx-sys crate that Cargo resolved: no second copy, no version skew.
fn mlx_c_sources(root: &Path) -> Outcome<PathBuf> {
    let text = run(Command::new("cargo").args(["metadata", "--format-version", "1", "--locked"]).current_dir(root))?;
    let all: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = all["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let sys = packages.iter().find(|p| p["name"] == "mlx-sys").ok_or("mlx-sys is not among the dependencies")?;
    let manifest = sys["manifest_path"].as_str().ok_or("mlx-sys has no manifest path")?;
    let dir = Path::new(manifest).parent().ok_or("mlx-sys has no folder")?;
    Ok(dir.join("src/mlx-c"))
}

/// libmlx.so looks for its private libraries at `$ORIGIN/../../<wheel>.libs`: the shape is kept.
fn place_libraries(wheels: &Path, native: &Path, backend: &Wheel) -> Outcome<PathBuf> {
    let name = format!("{}.libs", backend.name.replace('-', "_"));
    let libs = native.join(&name);
    make_dir(&native.join("mlx/lib"))?;
    let copy = |from: &Path, to: &Path| std::fs::copy(from, to).map(drop).map_err(|e| format!("cannot copy {} to {}: {e}", from.display(), to.display()));
    copy(&wheels.join("mlx/lib/libmlx.so"), &native.join("mlx/lib/libmlx.so"))?;
    make_dir(&libs)?;
    let list = std::fs::read_dir(wheels.join(&name)).map_err(|e| format!("the wheel {} has no {name}: {e}", backend.name))?;
    for entry in list.filter_map(Result::ok) {
        copy(&entry.path(), &libs.join(entry.file_name()))?;
    }
    // MLX compiles CUDA kernels at run time against headers that must lie beside its library.
    if backend.name == MLX_CUDA13.name {
        run(Command::new("cp").arg("-r").arg(wheels.join("mlx/include")).arg(native.join("mlx")))?;
    }
    find(&libs, |n| n.starts_with("libblas-"))?.ok_or_else(|| format!("the wheel {} has no libblas in {name}", backend.name))?;
    Ok(libs)
}

fn cargo_config(native: &Path, libs: &Path, backend: &Wheel) -> Outcome<String> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let native = native.to_str().ok_or("the path of this folder is not UTF-8: move the clone elsewhere")?;
    let libs = libs.to_str().ok_or("the path of this folder is not UTF-8: move the clone elsewhere")?;
    if native.contains(['"', '\\', ',']) {
        return Err(format!("the path {native} has a quote, backslash or comma, which the linker's flags cannot carry: move the clone"));
    }
    Ok(format!(
        "# Written by `setup native` for {} {}; not for committing.\n\
         [target.{triple}.mlx]\n\
         rustc-link-search = [\"native={native}/mlx/lib\"]\n\
         rustc-link-lib = [\"dylib=mlxc\", \"dylib=mlx\"]\n\
         rustc-env = {{ OUT_DIR = \"{native}\" }}\n\
         [target.{triple}]\n\
         rustflags = [\"-C\", \"link-arg=-Wl,-rpath,{native}/mlx/lib\", \"-C\", \"link-arg=-Wl,-rpath-link,{libs}\"]\n",
        backend.name, backend.version
    ))
}
