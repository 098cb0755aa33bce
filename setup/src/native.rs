//! MLX for Linux: what mlx-sys's own build script would have left on a Mac, made from PyPI's wheel instead.
//!
//! Leaves in `native/`: `bindings.rs`, `mlx/lib/{libmlx.so,libmlxc.so}`, `<wheel>.libs/` (with OpenBLAS in place of the
//! reference BLAS) and `cargo.toml`, which `.cargo/config.toml` includes and which replaces mlx-sys's build script.

use crate::backend::Backend;
use crate::place::Place;
use crate::run::{Outcome, make_dir, need, run, say, write};
use crate::store::Store;
use crate::wheels::{CUDA13, LIBCLANG, OPENBLAS, Wheel, find};
use crate::{bindings, blas, mlxc};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Does all of it, or nothing if it was done for this very backend, place and version.
pub(crate) fn lay() -> Outcome<()> {
    let asked = std::env::var("MLX_BACKEND").ok().filter(|a| !a.is_empty());
    match std::env::consts::OS {
        "linux" => {}
        "macos" if asked.is_none() => return Ok(()),
        "macos" => return Err("MLX_BACKEND chooses among the builds for Linux: unset it, macOS has Metal's".to_owned()),
        other => return Err(format!("{other} is not supported: Linux and macOS are")),
    }
    let root = std::env::current_dir().map_err(|e| format!("no current folder: {e}"))?;
    let place = Place::open(&root)?;
    let native = place.native();
    let stamp = std::fs::read_to_string(native.join("stamp")).ok();
    let backend = Backend::choose(asked.as_deref(), stamp.as_deref())?;
    if stamp.is_none_or(|s| s != backend.stamp(&native)) {
        need(&["g++", "nm", "cargo", "python3"])?;
        let config = cargo_config(&native, &backend)?;
        say(&format!("laying MLX {} for {} in {}: once, about a minute", backend.wheel.version, backend.name, native.display()));
        place.replace(|laid| {
            fill(laid, &root, &backend)?;
            write(&laid.join("cargo.toml"), &config)?;
            write(&laid.join("stamp"), &backend.stamp(&native))
        })?;
    }
    say(&format!("in use: {backend}"));
    Ok(())
}

/// Everything but the two files that name the final place: nothing else here knows where it will lie.
fn fill(laid: &Path, root: &Path, backend: &Backend) -> Outcome<()> {
    let work = laid.join("work");
    let wheels = work.join("wheels");
    let store = Store::open()?;
    for wheel in [backend.wheel, &OPENBLAS, &LIBCLANG] {
        wheel.unpack(&store, &wheels)?;
    }
    if backend.is_cuda() {
        say("CUDA 13's own libraries follow: about 1.5 GB, downloaded once a machine");
        // libmlx.so looks for them in `nvidia/` two folders above itself, which is here.
        CUDA13.iter().try_for_each(|wheel| wheel.unpack(&store, laid))?;
    }
    // Others may download while this one compiles.
    drop(store);
    let mlx_c = mlx_c_sources(root)?;
    let libs = place_libraries(&wheels, laid, backend)?;
    mlxc::compile(&mlx_c, &wheels.join("mlx/include"), &work, laid)?;
    blas::replace(&wheels, &libs, &work)?;
    bindings::generate(&mlx_c, &wheels, &work, laid)?;
    std::fs::remove_dir_all(&work).map_err(|e| format!("cannot remove {}: {e}", work.display()))
}

/// mlx-c's sources come inside the mlx-sys crate that Cargo resolved: no second copy, no version skew.
fn mlx_c_sources(root: &Path) -> Outcome<PathBuf> {
    say("asking cargo for mlx-c's sources (the first time, it downloads all crates)");
    let text = run(Command::new("cargo").args(["metadata", "--format-version", "1", "--locked"]).current_dir(root))?;
    let all: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = all["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let sys = packages.iter().find(|p| p["name"] == "mlx-sys").ok_or("mlx-sys is not among the dependencies")?;
    let manifest = sys["manifest_path"].as_str().ok_or("mlx-sys has no manifest path")?;
    let dir = Path::new(manifest).parent().ok_or("mlx-sys has no folder")?;
    Ok(dir.join("src/mlx-c"))
}

/// libmlx.so looks for its private libraries at `$ORIGIN/../../<wheel>.libs`: the shape is kept.
fn place_libraries(wheels: &Path, native: &Path, backend: &Backend) -> Outcome<PathBuf> {
    let name = libs_name(backend.wheel);
    let libs = native.join(&name);
    make_dir(&native.join("mlx/lib"))?;
    let copy = |from: &Path, to: &Path| std::fs::copy(from, to).map(drop).map_err(|e| format!("cannot copy {} to {}: {e}", from.display(), to.display()));
    copy(&wheels.join("mlx/lib/libmlx.so"), &native.join("mlx/lib/libmlx.so"))?;
    make_dir(&libs)?;
    let list = std::fs::read_dir(wheels.join(&name)).map_err(|e| format!("the wheel {} has no {name}: {e}", backend.wheel.name))?;
    for entry in list.filter_map(Result::ok) {
        copy(&entry.path(), &libs.join(entry.file_name()))?;
    }
    // MLX compiles CUDA kernels at run time against headers that must lie beside its library.
    if backend.is_cuda() {
        run(Command::new("cp").arg("-r").arg(wheels.join("mlx/include")).arg(native.join("mlx")))?;
    }
    find(&libs, |n| n.starts_with("libblas-"))?.ok_or_else(|| format!("the wheel {} has no libblas in {name}", backend.wheel.name))?;
    Ok(libs)
}

/// The folder of a wheel's private libraries, in the wheel and in `native/`.
fn libs_name(wheel: &Wheel) -> String {
    format!("{}.libs", wheel.name.replace('-', "_"))
}

fn cargo_config(native: &Path, backend: &Backend) -> Outcome<String> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let native = native.to_str().ok_or("the path of this folder is not UTF-8: move the clone elsewhere")?;
    if native.contains(['"', '\\', ',']) {
        return Err(format!("the path {native} has a quote, backslash or comma, which the linker's flags cannot carry: move the clone"));
    }
    let Wheel { name, version, .. } = backend.wheel;
    let libs = libs_name(backend.wheel);
    Ok(format!(
        "# Written by `setup native` for {name} {version}; not for committing.\n\
         [target.{triple}.mlx]\n\
         rustc-link-search = [\"native={native}/mlx/lib\"]\n\
         rustc-link-lib = [\"dylib=mlxc\", \"dylib=mlx\"]\n\
         rustc-env = {{ OUT_DIR = \"{native}\" }}\n\
         [target.{triple}]\n\
         rustflags = [\"-C\", \"link-arg=-Wl,-rpath,{native}/mlx/lib\", \"-C\", \"link-arg=-Wl,-rpath-link,{native}/{libs}\"]\n"
    ))
}
