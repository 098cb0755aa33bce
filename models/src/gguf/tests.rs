//! Whole files: what is read back, and what is refused.

use super::writer::{Writer, save};
use super::*;
use proptest::prelude::*;

fn sample() -> Writer {
    let floats = |n: u32| (0..n).flat_map(|i| (i as f32).to_le_bytes()).collect::<Vec<_>>();
    Writer::default()
        .str("general.architecture", "llama")
        .u32("llama.block_count", 30)
        .raw("llama.rope.freq_base", 6, &1e5f32.to_le_bytes())
        .bool("flag", true)
        .raw("negative", 5, &(-1i32).to_le_bytes())
        .strings("tokens", &["a", "é"])
        .f32s("scores", &[0.5, -1.0])
        .i32s("types", &[1, 3])
        .tensor("plain", &[3, 4], 0, &floats(12))
        .tensor("vector", &[5], 0, &floats(5))
        .tensor("blocks", &[64, 2], 2, &(0..72).collect::<Vec<u8>>())
}

fn open(bytes: &[u8]) -> Result<File, String> {
    let (_dir, path) = save(bytes);
    File::open(&path).map_err(|e| e.to_string())
}

#[test]
fn what_was_written_is_read_back() {
    for file in [sample(), sample().alignment(64)] {
        let (_dir, path) = file.save();
        let f = File::open(&path).unwrap();
        assert_eq!(f.version(), 3);
        assert_eq!(f.str("general.architecture").unwrap(), "llama");
        assert_eq!(f.u32("llama.block_count").unwrap(), 30);
        assert_eq!(f.f32("llama.rope.freq_base").unwrap(), 1e5);
        assert_eq!(f.bool_opt("flag").unwrap(), Some(true));
        assert_eq!(f.strings("tokens").unwrap(), ["a", "é"]);
        assert_eq!(f.f32s_opt("scores").unwrap().unwrap(), [0.5, -1.0]);
        assert_eq!(f.i32s_opt("types").unwrap().unwrap(), [1, 3]);
        assert_eq!(f.u64_opt("absent").unwrap(), None);

        let t = f.tensor("plain").unwrap();
        assert_eq!((t.shape.as_slice(), t.kind, t.bytes), ([4, 3].as_slice(), Kind::F32, 48));
        let mut buf = vec![9; 1000];
        f.read_rows(t, 1..3, &mut buf).unwrap();
        let want: Vec<u8> = (3..9).flat_map(|i| (i as f32).to_le_bytes()).collect();
        assert_eq!(buf, want);

        let t = f.tensor("vector").unwrap();
        assert_eq!((t.rows(), t.cols(), t.row_bytes()), (1, 5, 20));

        let t = f.tensor("blocks").unwrap();
        assert_eq!((t.rows(), t.cols(), t.row_bytes()), (2, 64, 36));
        f.read_rows(t, 1..2, &mut buf).unwrap();
        assert_eq!(buf, (36..72).collect::<Vec<u8>>());
        f.read(t, &mut buf).unwrap();
        assert_eq!(buf.len(), 72);
    }
}

#[test]
fn errors_name_the_key_and_what_is_allowed() {
    let (_dir, path) = sample().save();
    let f = File::open(&path).unwrap();
    let check = |e: GgufError, want: &str| {
        assert_eq!(e.to_string(), format!("{}: {want}", path.display()));
    };
    check(f.u32("absent").unwrap_err(), "absent: not in the file");
    check(f.u64("negative").unwrap_err(), "negative: is i32 -1, must be an integer of at least 0");
    check(f.str("tokens").unwrap_err(), "tokens: is array of string, must be a string");
    check(f.tensor("x").unwrap_err(), "tensor x: not in the file");
    let t = f.tensor("plain").unwrap();
    check(f.read_rows(t, 3..5, &mut Vec::new()).unwrap_err(), "tensor plain: rows 3..5 asked for, it has 4");
}

#[test]
fn tensors_that_cannot_be_used_are_named() {
    let one = |axes: &[u64], kind, len| open(&Writer::default().tensor("w", axes, kind, &vec![0; len]).bytes()).unwrap_err();
    let allowed = "must be F32, F16, BF16, Q4_0, Q4_1 or Q8_0";
    for (error, want) in [
        (one(&[256], 12, 144), format!("tensor w: kind Q4_K, {allowed}")),
        (one(&[4], 77, 8), format!("tensor w: kind number 77, {allowed}")),
        (one(&[33], 2, 36), "tensor w: rows of 33 elements, must be a multiple of 32".into()),
        (one(&[1 << 40, 1 << 40], 0, 8), "are too large".into()),
        (one(&[0, 1 << 63], 0, 8), "none may be empty".into()),
        (one(&[1; 5], 0, 8), "tensor w: 5 axes, must be 1 to 4".into()),
        (one(&[64], 0, 8), "tensor w: truncated: its 256 bytes".into()),
    ] {
        assert!(error.contains(&want), "{error} should contain {want}");
    }
    let twice = Writer::default().tensor("w", &[1], 0, &[0; 4]).tensor("w", &[1], 0, &[0; 4]);
    assert!(open(&twice.bytes()).unwrap_err().ends_with("tensor w: is there twice"));
}

#[test]
fn headers_that_lie_are_refused_before_memory_is_taken() {
    let head = |version: u32, tensors: u64, keys: u64| {
        let mut b = b"GGUF".to_vec();
        b.extend(version.to_le_bytes());
        b.extend(tensors.to_le_bytes());
        b.extend(keys.to_le_bytes());
        b
    };
    let huge = u64::MAX.to_le_bytes();
    let array = |kind: u32| [kind.to_le_bytes().as_slice(), &huge].concat();
    for (bytes, want) in [
        (b"GGML".to_vec(), "not a GGUF file"),
        (b"GG".to_vec(), "truncated at byte 0: the magic number needs 4 bytes, 2 are left"),
        (head(1, 0, 0), "GGUF version 1, must be 2 or 3"),
        (head(3u32.swap_bytes(), 0, 0), "version big endian"),
        (head(3, u64::MAX, 0), "tensor count: 18446744073709551615 are announced, at most 0 fit"),
        (head(3, 0, u64::MAX), "metadata count"),
        (Writer::default().raw("k", 8, &huge).bytes(), "k: 18446744073709551615 are announced"),
        (Writer::default().raw("k", 9, &array(4)).bytes(), "k: 18446744073709551615 are announced"),
        (Writer::default().raw("k", 9, &array(8)).bytes(), "k: 18446744073709551615 are announced"),
        (Writer::default().raw("k", 9, &array(9)).bytes(), "k: array of type 9"),
        (Writer::default().raw("k", 99, &[0; 8]).bytes(), "k: value type 99"),
        (Writer::default().u32("k", 1).u32("k", 2).bytes(), "metadata key k is there twice"),
        (Writer::default().u32("general.alignment", 3).bytes(), "general.alignment: is U32(3)"),
    ] {
        let error = open(&bytes).map(|_| ()).unwrap_err();
        assert!(error.contains(want), "{error} should contain {want}");
    }
}

/// A tensor's entry holds its offset behind its name, its one axis and its kind.
#[test]
fn tensors_may_not_share_bytes() {
    let name = b"vector";
    let good = sample().bytes();
    let at = good.windows(name.len()).position(|w| w == name).unwrap() + name.len() + 4 + 8 + 4;
    for (offset, want) in
        [(0u64, "begins within the"), (32, "tensor vector: begins within the 48 bytes of tensor plain"), (128, "tensor vector: begins within the 72 bytes")]
    {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        let error = open(&bytes).map(|_| ()).unwrap_err();
        assert!(error.contains(want), "{offset}: {error} should contain {want}");
    }
}

#[test]
fn a_header_without_end_is_not_read_to_its_end() {
    use std::os::unix::fs::FileExt;
    let array =
        |key: &str| [&(key.len() as u64).to_le_bytes(), key.as_bytes(), &9u32.to_le_bytes(), &10u32.to_le_bytes(), &(1u64 << 24).to_le_bytes()].concat();
    let head = [b"GGUF\x03\0\0\0".as_slice(), &0u64.to_le_bytes(), &2u64.to_le_bytes(), &array("first")].concat();
    let (_dir, path) = save(&head);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    // What the arrays hold is a hole of 128 MiB each.
    file.write_all_at(&array("second"), head.len() as u64 + (8 << 24)).unwrap();
    file.set_len(1 << 40).unwrap();
    let error = File::open(&path).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("second: 16777216 are announced, at most 167"), "{error}");
}

#[test]
fn names_do_not_break_the_line() {
    let error = open(&Writer::default().tensor("a\nb", &[33], 2, &[0; 36]).bytes()).map(|_| ()).unwrap_err();
    assert!(error.contains("tensor a\\nb: rows of 33"), "{error}");
    let error = open(&Writer::default().raw(&"k\n".repeat(100_000), 99, &[]).bytes()).map(|_| ()).unwrap_err();
    assert!(error.len() < 1000 && !error.contains('\n'), "{error}");
}

#[test]
fn what_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(File::open(dir.path()).map(|_| ()).unwrap_err().to_string(), format!("{}: is not a plain file", dir.path().display()));
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = sample().bytes();
    // The padding after the last tensor is nobody's.
    let needed = bytes.len() - (96 - 72);
    for len in 0..needed {
        let error = open(&bytes[..len]).map(|_| ()).unwrap_err();
        assert!(error.contains("model.gguf"), "{error}");
    }
    assert!(open(&bytes[..needed]).is_ok());
    assert!(open(&bytes[..needed - 1]).unwrap_err().contains("tensor blocks: truncated"));
}

#[test]
fn a_file_cut_after_opening_fails_at_the_read() {
    let (_dir, path) = sample().save();
    let f = File::open(&path).unwrap();
    std::fs::write(&path, b"GGUF").unwrap();
    let t = f.tensor("blocks").unwrap();
    let error = f.read(t, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("tensor blocks: cannot read its bytes"), "{error}");
}

proptest! {
    #[test]
    fn damaged_files_never_panic(at in 0usize..700, value: u8, more: [u8; 8], wide: bool) {
        let mut bytes = sample().bytes();
        let at = at % bytes.len();
        bytes[at] = value;
        if wide {
            for (b, m) in bytes[at..].iter_mut().zip(more) {
                *b = m;
            }
        }
        let (_dir, path) = save(&bytes);
        if let Ok(f) = File::open(&path) {
            for t in f.tensors() {
                let mut buf = Vec::new();
                prop_assert!(f.read(t, &mut buf).is_ok());
                prop_assert_eq!(buf.len() as u64, t.bytes);
            }
        }
    }
}
