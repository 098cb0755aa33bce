//! Compiles the bodies with the system's C++ compiler, once for each kernel shape, and talks to the program.

use crate::naive::{Rows, Wanted};
use mlx_rs::Dtype;
use models::kernels::{Plan, Spec, Tuning, bodies};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// One set of a kernel's constants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) spec: Spec,
    pub(crate) tuning: Tuning,
}

const fn case(dtype: Dtype, head_dim: i32, heads: i32, kv_heads: i32, [lanes, deep, warps, parts]: [i32; 4]) -> Case {
    Case { spec: Spec { heads, kv_heads, head_dim, dtype }, tuning: Tuning { lanes, deep, warps, parts } }
}

/// Every head_dim and type that is served, groups of heads from 1 to 16, and constants other than those that are served.
pub(crate) static CASES: [Case; 14] = [
    case(Dtype::Bfloat16, 128, 8, 2, [16, 2, 4, 1]),
    case(Dtype::Bfloat16, 128, 8, 2, [8, 4, 4, 1]),
    case(Dtype::Bfloat16, 128, 4, 1, [16, 4, 8, 1]),
    case(Dtype::Bfloat16, 64, 6, 2, [8, 2, 4, 1]),
    case(Dtype::Float16, 80, 3, 3, [16, 2, 4, 1]),
    case(Dtype::Bfloat16, 80, 5, 1, [16, 2, 4, 1]),
    case(Dtype::Float16, 96, 11, 1, [16, 2, 4, 2]),
    case(Dtype::Float32, 96, 7, 1, [32, 2, 4, 1]),
    case(Dtype::Float32, 256, 2, 1, [32, 2, 4, 1]),
    case(Dtype::Bfloat16, 256, 16, 1, [32, 2, 4, 2]),
    case(Dtype::Float32, 16, 4, 2, [4, 2, 4, 1]),
    case(Dtype::Float32, 128, 2, 2, [32, 4, 8, 1]),
    case(Dtype::Float32, 128, 2, 2, [16, 8, 2, 1]),
    case(Dtype::Float16, 64, 8, 2, [4, 4, 1, 2]),
];

fn type_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bfloat16 => "bf16",
        Dtype::Float16 => "f16",
        _ => "float",
    }
}

/// Two programs: the bodies as they are, and without barriers.
struct Built {
    // Holds the programs; removed at the end.
    dir: tempfile::TempDir,
}

static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let [attend, merge, store] = bodies();
    let line = |i: usize, c: &Case| {
        let (s, t) = (&c.spec, &c.tuning);
        let name = type_name(s.dtype);
        format!("case {i}: run<{name}, {}, {}, {}, {}, {}, {}, {}>(); break;\n", s.head_dim, s.heads, s.kv_heads, t.parts, t.lanes, t.deep, t.warps)
    };
    let lines: Vec<String> = CASES.iter().enumerate().map(|(i, c)| line(i, c)).collect();
    let build = |name: &str, attend: &str, cases: &str| {
        let at = dir.path().join(name);
        std::fs::create_dir(&at).unwrap();
        let files = [
            ("attend.inc", attend),
            ("merge.inc", merge),
            ("store.inc", store),
            ("cases.inc", cases),
            ("host.h", include_str!("host.h")),
            ("driver.cpp", include_str!("driver.cpp")),
        ];
        for (file, text) in files {
            std::fs::write(at.join(file), text).unwrap();
        }
        compile(&at);
    };
    build("whole", attend, &lines.concat());
    build("no_barriers", &attend.replace("COX_BARRIER()", "(void)0"), &lines[0]);
    Built { dir }
});

fn compile(at: &Path) {
    let done = Command::new("g++")
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "run", "driver.cpp"])
        .current_dir(at)
        .output()
        .expect("g++ is needed (it is for the build, too)");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

pub(crate) fn run(case: &Case, rows: &Rows, wanted: &Wanted, plan: Plan) -> Result<Vec<f32>, String> {
    play(&BUILT.dir.path().join("whole/run"), case, rows, wanted, plan)
}

pub(crate) fn run_without_barriers(case: &Case, rows: &Rows, wanted: &Wanted, plan: Plan) -> Result<Vec<f32>, String> {
    play(&BUILT.dir.path().join("no_barriers/run"), case, rows, wanted, plan)
}

fn play(program: &PathBuf, case: &Case, rows: &Rows, wanted: &Wanted, plan: Plan) -> Result<Vec<f32>, String> {
    let which = CASES.iter().position(|c| c.spec == case.spec && c.tuning == case.tuning).unwrap();
    let mut child = Command::new(program)
        .args([which.to_string(), wanted.seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = Vec::new();
    let extra = rows.line as u32 - case.spec.heads as u32;
    let head = [wanted.lengths.len() as u32, rows.slots as u32, rows.width as u32, plan.chunk, wanted.window.unwrap_or(0), plan.splits, extra];
    words(&mut input, &head);
    for values in [&rows.q, &rows.k, &rows.v] {
        numbers(&mut input, values, case.spec.dtype);
    }
    words(&mut input, &rows.table);
    words(&mut input, &wanted.lengths);
    // The program reads all of it before it writes anything; a broken pipe means that it failed, and its status says so below.
    let sent = child.stdin.take().unwrap().write_all(&input);
    let done = child.wait_with_output().unwrap();
    if !done.status.success() || sent.is_err() {
        return Err(format!("{case:?} {plan:?}: {} {}", done.status, String::from_utf8_lossy(&done.stderr)));
    }
    Ok(back(&done.stdout, case.spec.dtype))
}

fn words(to: &mut Vec<u8>, values: &[u32]) {
    to.extend(values.iter().flat_map(|w| w.to_ne_bytes()));
}

fn numbers(to: &mut Vec<u8>, values: &[f32], dtype: Dtype) {
    match dtype {
        Dtype::Bfloat16 => to.extend(values.iter().flat_map(|x| half::bf16::from_f32(*x).to_ne_bytes())),
        Dtype::Float16 => to.extend(values.iter().flat_map(|x| half::f16::from_f32(*x).to_ne_bytes())),
        _ => to.extend(values.iter().flat_map(|x| x.to_ne_bytes())),
    }
}

fn back(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    match dtype {
        Dtype::Bfloat16 => bytes.chunks_exact(2).map(|b| half::bf16::from_ne_bytes([b[0], b[1]]).to_f32()).collect(),
        Dtype::Float16 => bytes.chunks_exact(2).map(|b| half::f16::from_ne_bytes([b[0], b[1]]).to_f32()).collect(),
        _ => bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect(),
    }
}
