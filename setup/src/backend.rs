//! Which MLX: the one asked for with `MLX_BACKEND`, or else the one that is already laid, or else the CPU's.

use crate::run::Outcome;
use crate::wheels::{MLX_CPU, MLX_CUDA13, Wheel};
use std::path::Path;

/// Raised when what this crate leaves behind changes.
const RECIPE: u32 = 1;

/// One of the two builds of MLX for Linux.
#[derive(Clone, Copy)]
pub(crate) struct Backend {
    /// Its name in `MLX_BACKEND`.
    pub(crate) name: &'static str,
    pub(crate) wheel: &'static Wheel,
}

pub(crate) const CPU: Backend = Backend { name: "cpu", wheel: &MLX_CPU };
pub(crate) const CUDA13: Backend = Backend { name: "cuda13", wheel: &MLX_CUDA13 };

impl Backend {
    /// `asked` is `MLX_BACKEND`, `stamp` what the stamp of an earlier set-up says, of whatever version or place.
    pub(crate) fn choose(asked: Option<&str>, stamp: Option<&str>) -> Outcome<Self> {
        let laid = stamp.and_then(|s| s.split_whitespace().nth(1));
        match asked.filter(|a| !a.is_empty()) {
            Some("cpu") => Ok(CPU),
            Some("cuda13") => Ok(CUDA13),
            Some(other) => Err(format!("MLX_BACKEND={other} is unknown: cpu and cuda13 are allowed; without it, what is laid stays (at first cpu)")),
            None => Ok([CPU, CUDA13].into_iter().find(|b| laid == Some(b.wheel.name)).unwrap_or(CPU)),
        }
    }

    /// What the stamp of a `native/` says that holds this backend, made by this version of set-up for this place.
    pub(crate) fn stamp(&self, native: &Path) -> String {
        format!("{RECIPE} {} {} {}\n", self.wheel.name, self.wheel.version, native.display())
    }

    pub(crate) fn is_cuda(&self) -> bool {
        self.wheel.name == MLX_CUDA13.name
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let other = if self.is_cuda() { "MLX_BACKEND=cpu switches back" } else { "MLX_BACKEND=cuda13 is for NVIDIA GPUs" };
        write!(f, "MLX {} for {} ({other})", self.wheel.version, self.name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_was_laid_stays_until_another_is_asked_for() {
        let stamp = |b: Backend| b.stamp(Path::new("/somewhere else"));
        for (asked, laid, want) in [
            (None, None, "cpu"),
            (None, Some(stamp(CPU)), "cpu"),
            (None, Some(stamp(CUDA13)), "cuda13"),
            (Some(""), Some(stamp(CUDA13)), "cuda13"),
            (None, Some("0 mlx-cuda-13 0.1 /an/older/recipe".to_owned()), "cuda13"),
            (Some("cpu"), Some(stamp(CUDA13)), "cpu"),
            (Some("cuda13"), Some(stamp(CPU)), "cuda13"),
            (Some("cuda13"), None, "cuda13"),
            (None, Some("not a stamp".to_owned()), "cpu"),
            (None, Some(String::new()), "cpu"),
        ] {
            assert_eq!(Backend::choose(asked, laid.as_deref()).unwrap().name, want, "{asked:?} {laid:?}");
        }
    }

    #[test]
    fn an_unknown_backend_is_refused_by_name() {
        let why = Backend::choose(Some("metal"), None).err().unwrap();
        assert!(why.contains("MLX_BACKEND=metal") && why.contains("cpu and cuda13"), "{why}");
    }
}
