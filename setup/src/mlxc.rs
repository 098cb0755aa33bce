//! mlx-c, compiled against the wheel's headers into `native/mlx/lib/libmlxc.so`.

use crate::run::{Outcome, fresh_dir, run, say, write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Stands in for what x86-64 and older compilers lack: mlx-c expects ARM's half types, and `<format>` came with GCC 13.
/// Only `{}` without options is used by mlx-c.
const COMPAT: &str = r#"#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include "mlx/types/half_types.h"
#if !defined(__aarch64__)
#define HAS_FLOAT16
#define HAS_BFLOAT16
using mlx::core::bfloat16_t;
using mlx::core::float16_t;
#endif
#if __has_include(<format>)
#include <format>
#else
namespace std {
inline void put_rest(ostringstream& out, string_view pattern) { out << pattern; }
template <class First, class... Rest>
void put_rest(ostringstream& out, string_view pattern, const First& first, const Rest&... rest) {
  const auto at = pattern.find("{}");
  out << pattern.substr(0, at) << first;
  put_rest(out, pattern.substr(at + 2), rest...);
}
template <class... Args>
string format(string_view pattern, const Args&... args) {
  ostringstream out;
  put_rest(out, pattern, args...);
  return out.str();
}
}  // namespace std
#endif
"#;

/// Compiles every source file, as many at once as there are cores, and links them.
pub(crate) fn compile(mlx_c: &Path, include: &Path, work: &Path, native: &Path) -> Outcome<()> {
    let list = std::fs::read_dir(mlx_c.join("mlx/c")).map_err(|e| format!("cannot list mlx-c's sources in {}: {e}", mlx_c.display()))?;
    let mut sources: Vec<PathBuf> = list.filter_map(Result::ok).map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "cpp")).collect();
    sources.sort();
    say(&format!("compiling mlx-c ({} files)", sources.len()));
    let objects = work.join("objects");
    fresh_dir(&objects)?;
    let compat = work.join("compat.h");
    write(&compat, COMPAT)?;
    let queue = Mutex::new(sources.iter());
    let next = || queue.lock().ok().and_then(|mut q| q.next());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(source) = next() {
                        one(source, &objects, &compat, mlx_c, include)?;
                    }
                    Ok::<(), String>(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a compiling thread panicked".to_owned())?)
    })?;
    link(&sources, &objects, native)
}

fn object(source: &Path, objects: &Path) -> PathBuf {
    objects.join(source.file_stem().unwrap_or_default()).with_extension("o")
}

fn one(source: &Path, objects: &Path, compat: &Path, mlx_c: &Path, include: &Path) -> Outcome<()> {
    let mut cxx = Command::new("g++");
    cxx.args(["-std=c++20", "-O1", "-fPIC", "-include"]).arg(compat).arg("-I").arg(mlx_c).arg("-I").arg(include);
    run(cxx.arg("-c").arg(source).arg("-o").arg(object(source, objects))).map(drop)
}

fn link(sources: &[PathBuf], objects: &Path, native: &Path) -> Outcome<()> {
    let lib = native.join("mlx/lib");
    let mut cxx = Command::new("g++");
    cxx.arg("-shared").arg("-o").arg(lib.join("libmlxc.so")).args(sources.iter().map(|s| object(s, objects)));
    // libmlx's own needs (BLAS, CUDA) are found when a program starts, not here.
    cxx.arg("-L").arg(&lib).args(["-lmlx", "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"]);
    run(&mut cxx).map(drop)
}
