//! Compiles the bodies with the system's C++ compiler, once for each kernel shape, and talks to the program.

use crate::fused::FUSED;
use crate::matmul::MATMUL;
use crate::naive::{Rows, Wanted};
use mlx_rs::Dtype;
use models::kernels::{Plan, Spec, Tuning, bodies};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// One set of a kernel's constants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) spec: Spec,
    pub(crate) tuning: Tuning,
}

const fn case(dtype: Dtype, head_dim: i32, heads: i32, kv_heads: i32, [lanes, deep, warps, parts, ahead]: [i32; 5]) -> Case {
    Case { spec: Spec { heads, kv_heads, head_dim, dtype }, tuning: Tuning { lanes, deep, warps, parts, ahead } }
}

/// Every head_dim and type that is served, groups of heads from 1 to 16, and constants other than those that are served.
pub(crate) static CASES: [Case; 14] = [
    case(Dtype::Bfloat16, 128, 8, 2, [16, 2, 4, 1, 3]),
    case(Dtype::Bfloat16, 128, 8, 2, [8, 4, 4, 1, 2]),
    case(Dtype::Bfloat16, 128, 4, 1, [16, 4, 8, 1, 1]),
    case(Dtype::Bfloat16, 64, 6, 2, [8, 2, 4, 1, 3]),
    case(Dtype::Float16, 80, 3, 3, [16, 2, 4, 1, 3]),
    case(Dtype::Bfloat16, 80, 5, 1, [16, 2, 4, 1, 3]),
    case(Dtype::Float16, 96, 11, 1, [16, 2, 4, 2, 3]),
    case(Dtype::Float32, 96, 7, 1, [32, 2, 4, 1, 3]),
    case(Dtype::Float32, 256, 2, 1, [32, 2, 4, 1, 3]),
    case(Dtype::Bfloat16, 256, 16, 1, [32, 2, 4, 2, 3]),
    case(Dtype::Float32, 16, 4, 2, [4, 2, 4, 1, 3]),
    case(Dtype::Float32, 128, 2, 2, [32, 4, 8, 1, 5]),
    case(Dtype::Float32, 128, 2, 2, [16, 8, 2, 1, 3]),
    case(Dtype::Float16, 64, 8, 2, [4, 4, 1, 2, 3]),
];

pub(crate) fn type_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bfloat16 => "bf16",
        Dtype::Float16 => "f16",
        _ => "float",
    }
}

/// Programs made of the bodies: attention, attention without barriers and without copies that run behind, and the kernels that replace several operations, and products, with
/// and without.
struct Built {
    // Holds the programs; removed at the end.
    dir: tempfile::TempDir,
}

static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let line = |i: usize, c: &Case| {
        let (s, t) = (&c.spec, &c.tuning);
        let name = type_name(s.dtype);
        format!(
            "case {i}: run<{name}, {}, {}, {}, {}, {}, {}, {}, {}>(); break;\n",
            s.head_dim, s.heads, s.kv_heads, t.parts, t.lanes, t.deep, t.warps, t.ahead
        )
    };
    let lines: Vec<String> = CASES.iter().enumerate().map(|(i, c)| line(i, c)).collect();
    let fused: Vec<String> = FUSED.iter().enumerate().map(|(i, c)| format!("case {i}: {}; break;\n", c.call())).collect();
    let build = |name: &str, main: &str, cases: &str, barriers: bool| {
        let at = dir.path().join(name);
        std::fs::create_dir(&at).unwrap();
        let files = [
            ("cases.inc", cases),
            ("host.h", include_str!("host.h")),
            ("launch.h", include_str!("launch.h")),
            ("main.inc", include_str!("main.inc")),
            ("main.cpp", main),
        ];
        for (file, text) in bodies().into_iter().chain(files) {
            let mute = !barriers && file.ends_with(".inc");
            std::fs::write(at.join(file), if mute { text.replace("COX_BARRIER()", "(void)0") } else { text.to_owned() }).unwrap();
        }
        compile(&at);
    };
    build("whole", include_str!("driver.cpp"), &lines.concat(), true);
    build("no_barriers", include_str!("driver.cpp"), &lines[0], false);
    // As on Metal, where no copies run behind.
    build("at_once", &format!("#define COX_BEHIND 0\n{}", include_str!("driver.cpp")), &lines.concat(), true);
    build("fused", include_str!("fused.cpp"), &fused.concat(), true);
    build("fused_no_barriers", include_str!("fused.cpp"), &fused.concat(), false);
    let matmul: Vec<String> = MATMUL.iter().enumerate().map(|(i, c)| format!("case {i}: {}; break;\n", c.call())).collect();
    build("matmul", include_str!("matmul.cpp"), &matmul.concat(), true);
    build("matmul_no_barriers", include_str!("matmul.cpp"), &matmul[0], false);
    Built { dir }
});

fn compile(at: &Path) {
    let done = Command::new("g++")
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "run", "main.cpp"])
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

pub(crate) fn run_at_once(case: &Case, rows: &Rows, wanted: &Wanted, plan: Plan) -> Result<Vec<f32>, String> {
    play(&BUILT.dir.path().join("at_once/run"), case, rows, wanted, plan)
}

/// A program's output on this input, or what it says went wrong.
pub(crate) fn fused(which: usize, seed: u32, input: &[u8], barriers: bool) -> Result<Vec<u8>, String> {
    let program = BUILT.dir.path().join(if barriers { "fused/run" } else { "fused_no_barriers/run" });
    feed(&program, which, seed, input).map_err(|why| format!("{:?}: {why}", FUSED[which]))
}

/// A product's output on this input, or what the program says went wrong.
pub(crate) fn matmul(which: usize, seed: u32, input: &[u8], barriers: bool) -> Result<Vec<u8>, String> {
    let program = BUILT.dir.path().join(if barriers { "matmul/run" } else { "matmul_no_barriers/run" });
    feed(&program, which, seed, input).map_err(|why| format!("{:?}: {why}", MATMUL[which]))
}

fn play(program: &Path, case: &Case, rows: &Rows, wanted: &Wanted, plan: Plan) -> Result<Vec<f32>, String> {
    let which = CASES.iter().position(|c| c.spec == case.spec && c.tuning == case.tuning).unwrap();
    let mut input = Vec::new();
    let extra = rows.line as u32 - case.spec.heads as u32;
    let head = [wanted.lengths.len() as u32, rows.slots as u32, rows.width as u32, plan.chunk, wanted.window.unwrap_or(0), plan.splits, extra];
    words(&mut input, &head);
    for values in [&rows.q, &rows.k, &rows.v] {
        numbers(&mut input, values, case.spec.dtype);
    }
    words(&mut input, &rows.table);
    words(&mut input, &wanted.lengths);
    let output = feed(program, which, wanted.seed, &input).map_err(|why| format!("{case:?} {plan:?}: {why}"))?;
    Ok(back(&output, case.spec.dtype))
}

fn feed(program: &Path, which: usize, seed: u32, input: &[u8]) -> Result<Vec<u8>, String> {
    let mut child =
        Command::new(program).args([which.to_string(), seed.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program reads all of it before it writes anything; a broken pipe means that it failed, and its status says so below.
    let sent = child.stdin.take().unwrap().write_all(input);
    let done = child.wait_with_output().unwrap();
    if done.status.success() && sent.is_ok() { Ok(done.stdout) } else { Err(format!("{} {}", done.status, String::from_utf8_lossy(&done.stderr))) }
}

pub(crate) fn words(to: &mut Vec<u8>, values: &[u32]) {
    to.extend(values.iter().flat_map(|w| w.to_ne_bytes()));
}

pub(crate) fn numbers(to: &mut Vec<u8>, values: &[f32], dtype: Dtype) {
    match dtype {
        Dtype::Bfloat16 => to.extend(values.iter().flat_map(|x| half::bf16::from_f32(*x).to_ne_bytes())),
        Dtype::Float16 => to.extend(values.iter().flat_map(|x| half::f16::from_f32(*x).to_ne_bytes())),
        _ => to.extend(values.iter().flat_map(|x| x.to_ne_bytes())),
    }
}

pub(crate) fn back(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    match dtype {
        Dtype::Bfloat16 => bytes.chunks_exact(2).map(|b| half::bf16::from_ne_bytes([b[0], b[1]]).to_f32()).collect(),
        Dtype::Float16 => bytes.chunks_exact(2).map(|b| half::f16::from_ne_bytes([b[0], b[1]]).to_f32()).collect(),
        _ => bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect(),
    }
}
