//! The text of the kernels, put together for the backend that this build is for.

use std::hash::{DefaultHasher, Hash, Hasher};

const ATTEND: &str = include_str!("attend.inc");
const MERGE: &str = include_str!("merge.inc");
const STORE: &str = include_str!("store.inc");
const ROTATE: &str = include_str!("rotate.inc");
const SWIGLU: &str = include_str!("swiglu.inc");
const ADD_NORM: &str = include_str!("add_norm.inc");
const MATMUL: &str = include_str!("matmul.inc");

/// What every body needs, the names of a thread's place, what attention and products need, and what attention, products and those with
/// packed weights need beside it.
#[cfg(target_os = "macos")]
const PRELUDE: [&str; 6] = [
    include_str!("metal.h"),
    include_str!("metal_ids.inc"),
    include_str!("metal_later.h"),
    include_str!("metal_vec.h"),
    include_str!("metal_mma.h"),
    include_str!("metal_packed.h"),
];
#[cfg(not(target_os = "macos"))]
const PRELUDE: [&str; 6] = [
    include_str!("cuda.h"),
    include_str!("cuda_ids.inc"),
    include_str!("cuda_later.h"),
    include_str!("cuda_vec.h"),
    include_str!("cuda_mma.h"),
    include_str!("cuda_packed.h"),
];

/// One of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Attention of rows that one threadgroup reads whole.
    Whole,
    /// Attention of a part of a row's keys.
    Part,
    /// Parts into outputs.
    Merge,
    /// New keys and values into the pools.
    Store,
    /// q and k rotated, keys and values into the pools.
    Rotate,
    /// The same after a norm of q and of k.
    NormRotate,
    Swiglu,
    AddNorm,
    /// Few rows with a matrix.
    Product,
    /// With one whose weights are packed.
    PackedProduct,
}

impl Kind {
    pub(super) fn inputs(self) -> &'static [&'static str] {
        match self {
            Kind::Whole | Kind::Part => &["q", "k_pool", "v_pool", "table", "lengths", "params", "after"],
            Kind::Store => &["k", "v", "k_pool", "v_pool", "slots", "before"],
            Kind::Merge => &["part", "stat", "lengths", "params"],
            Kind::Rotate => &["qkv", "cosines", "sines", "k_pool", "v_pool", "slots", "before"],
            Kind::NormRotate => &["qkv", "cosines", "sines", "k_pool", "v_pool", "slots", "before", "q_norm", "k_norm"],
            Kind::Swiglu => &["both"],
            Kind::AddNorm => &["x", "y", "weight"],
            Kind::Product => &["x", "w"],
            Kind::PackedProduct => &["x", "w", "scales", "biases"],
        }
    }

    pub(super) fn outputs(self) -> &'static [&'static str] {
        match self {
            Kind::Whole | Kind::Merge | Kind::Swiglu | Kind::Product | Kind::PackedProduct => &["out"],
            Kind::Part => &["part", "stat"],
            Kind::Store => &["done"],
            Kind::Rotate | Kind::NormRotate => &["q", "done"],
            Kind::AddNorm => &["sum", "out"],
        }
    }

    /// Whether inputs that are views are copied first. Never where one is a pool, which is written through.
    pub(super) fn wants_contiguous(self) -> bool {
        matches!(self, Kind::Swiglu | Kind::AddNorm | Kind::Product | Kind::PackedProduct)
    }
}

/// What MLX needs to compile a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// Has a hash of the text in it: MLX keeps compiled kernels by name, on disk too, and does not look at their text again.
    pub(super) name: String,
    pub(super) header: String,
    pub(super) source: String,
}

impl Text {
    pub(super) fn of(kind: Kind) -> Text {
        let [common, ids, later, vectors, products, packed] = PRELUDE;
        let (body, what, define) = match kind {
            Kind::Whole => (ATTEND, "whole", "#define COX_WHOLE 1\n"),
            Kind::Part => (ATTEND, "part", "#define COX_WHOLE 0\n"),
            Kind::Merge => (MERGE, "merge", ""),
            Kind::Store => (STORE, "store", ""),
            Kind::Rotate => (ROTATE, "rotate", "#define COX_NORMS 0\n"),
            Kind::NormRotate => (ROTATE, "norm_rotate", "#define COX_NORMS 1\n"),
            Kind::Swiglu => (SWIGLU, "swiglu", ""),
            Kind::AddNorm => (ADD_NORM, "add_norm", ""),
            Kind::Product => (MATMUL, "product", "#define COX_PACKED 0\n"),
            Kind::PackedProduct => (MATMUL, "packed_product", "#define COX_PACKED 1\n"),
        };
        let more: &[&str] = match kind {
            Kind::Whole | Kind::Part => &[later, vectors],
            Kind::Product => &[later, products],
            Kind::PackedProduct => &[later, products, packed],
            _ => &[],
        };
        let header = bare(common) + &more.iter().map(|m| bare(m)).collect::<String>() + define;
        let source = bare(ids) + &bare(body);
        let mut hash = DefaultHasher::new();
        (&header, &source).hash(&mut hash);
        Text { name: format!("coxswain_{what}_{:016x}", hash.finish()), header, source }
    }
}

/// The bodies as they stand, by their files' names, for tests that compile them with a prelude of their own.
pub fn bodies() -> [(&'static str, &'static str); 7] {
    let all = [ATTEND, MERGE, STORE, ROTATE, SWIGLU, ADD_NORM, MATMUL];
    let names = ["attend.inc", "merge.inc", "store.inc", "rotate.inc", "swiglu.inc", "add_norm.inc", "matmul.inc"];
    std::array::from_fn(|i| (names[i], all[i]))
}

/// Without comments and indentation: MLX copies the text at every call, and hashes it at every launch.
fn bare(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("//"));
    lines.map(|l| format!("{l}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Kind; 10] =
        [Kind::Whole, Kind::Part, Kind::Merge, Kind::Store, Kind::Rotate, Kind::NormRotate, Kind::Swiglu, Kind::AddNorm, Kind::Product, Kind::PackedProduct];

    #[test]
    fn every_name_that_a_body_uses_is_given_to_it_and_no_other_argument_appears() {
        for kind in ALL {
            let text = Text::of(kind);
            for name in kind.inputs().iter().chain(kind.outputs()) {
                // These two order launches and hold nothing to read.
                let uses =
                    [format!(" {name}["), format!("({name},"), format!(", {name})"), format!(", {name},"), format!("? {name} : "), format!(" : {name},")];
                let used = uses.iter().any(|u| text.source.contains(u)) || text.source.contains(&format!("\n{name}["));
                assert!(used || text.source.contains(&format!("({name}[")) || ["after", "before"].contains(name), "{kind:?} does not use {name}");
                // MLX passes an input's shape, strides or rank when it finds such a name.
                for more in ["_shape", "_strides", "_ndim"] {
                    let named = text.source.contains(&format!("{name}{more}"));
                    let product = matches!(kind, Kind::Product | Kind::PackedProduct);
                    let meant = match more {
                        "_strides" => ["q", "k", "v"].contains(name) && kind.inputs().contains(name),
                        "_shape" => product && ["x", "w"].contains(name),
                        _ => false,
                    };
                    assert_eq!(named, meant, "{kind:?}: {name}{more}");
                }
            }
            assert!(!text.source.contains("//"));
        }
    }

    #[test]
    fn a_name_belongs_to_one_text() {
        let names = ALL.map(|k| Text::of(k).name);
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), ALL.len());
        assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')), "{names:?}");
    }
}
