//! The header: metadata, tensor infos, and the checks that make the rest of the file safe to read.

use super::cursor::Cursor;
use super::tensor::ALLOWED;
use super::{Array, GgufError, Kind, TensorInfo, Value};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Bounds far above any real file, for files whose claimed size is not real either (sparse files).
const KEYS_MAX: u64 = 1 << 16;
const TENSORS_MAX: u64 = 1 << 20;
const ELEMENTS_MAX: u64 = 1 << 24;
const DIMS_MAX: u32 = 4;
const ALIGNMENT_MAX: u64 = 1 << 20;

/// Everything before the tensors' data: vocabularies of a quarter of a million tokens with their merges take some 20 MB.
const BYTES_MAX: u64 = 256 << 20;

pub(super) struct Header {
    pub(super) version: u32,
    pub(super) metadata: HashMap<String, Value>,
    pub(super) tensors: Vec<TensorInfo>,
}

/// Reads and checks everything before the tensor data. `size` is the file's.
pub(super) fn read(file: &std::fs::File, size: u64, path: &Path) -> Result<Header, GgufError> {
    let mut c = Cursor::new(file, size.min(BYTES_MAX), path);
    let magic: [u8; 4] = c.array("the magic number")?;
    if &magic != b"GGUF" {
        return Err(c.invalid("not a GGUF file: it does not start with \"GGUF\"".into()));
    }
    let version = c.u32("the version")?;
    if !(2..=3).contains(&version) {
        let shown = if (2..=3).contains(&version.swap_bytes()) { "big endian".into() } else { version.to_string() };
        return Err(c.invalid(format!("GGUF version {shown}, must be 2 or 3, little endian")));
    }
    // Least sizes: an info has a name's length, a dimension count, a kind and an offset; a pair a length, a type, a byte.
    let tensors = c.count("tensor count", 24, TENSORS_MAX)?;
    let keys = c.count("metadata count", 13, KEYS_MAX)?;
    let metadata = read_metadata(&mut c, keys)?;
    let alignment = alignment(&c, &metadata)?;
    let tensors = read_tensors(&mut c, tensors, alignment, size, path)?;
    Ok(Header { version, metadata, tensors })
}

fn read_metadata(c: &mut Cursor<'_>, keys: usize) -> Result<HashMap<String, Value>, GgufError> {
    let mut metadata = HashMap::new();
    for i in 0..keys {
        let key = c.string(&format!("metadata key {i}"))?;
        let kind = c.u32(&key)?;
        let value = read_value(c, kind, &key)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(c.invalid(format!("metadata key {key} is there twice")));
        }
    }
    Ok(metadata)
}

fn read_value(c: &mut Cursor<'_>, kind: u32, key: &str) -> Result<Value, GgufError> {
    Ok(match kind {
        0 => Value::U8(u8::from_le_bytes(c.array(key)?)),
        1 => Value::I8(i8::from_le_bytes(c.array(key)?)),
        2 => Value::U16(u16::from_le_bytes(c.array(key)?)),
        3 => Value::I16(i16::from_le_bytes(c.array(key)?)),
        4 => Value::U32(u32::from_le_bytes(c.array(key)?)),
        5 => Value::I32(i32::from_le_bytes(c.array(key)?)),
        6 => Value::F32(f32::from_le_bytes(c.array(key)?)),
        7 => Value::Bool(c.array::<1>(key)? != [0]),
        8 => Value::String(c.string(key)?),
        9 => {
            let kind = c.u32(key)?;
            Value::Array(read_array(c, kind, key)?)
        }
        10 => Value::U64(u64::from_le_bytes(c.array(key)?)),
        11 => Value::I64(i64::from_le_bytes(c.array(key)?)),
        12 => Value::F64(f64::from_le_bytes(c.array(key)?)),
        _ => return Err(c.invalid(format!("{key}: value type {kind}, must be 0 to 12"))),
    })
}

fn read_array(c: &mut Cursor<'_>, kind: u32, key: &str) -> Result<Array, GgufError> {
    Ok(match kind {
        0 => Array::U8(numbers(c, key, u8::from_le_bytes)?),
        1 => Array::I8(numbers(c, key, i8::from_le_bytes)?),
        2 => Array::U16(numbers(c, key, u16::from_le_bytes)?),
        3 => Array::I16(numbers(c, key, i16::from_le_bytes)?),
        4 => Array::U32(numbers(c, key, u32::from_le_bytes)?),
        5 => Array::I32(numbers(c, key, i32::from_le_bytes)?),
        6 => Array::F32(numbers(c, key, f32::from_le_bytes)?),
        7 => Array::Bool(numbers(c, key, |b: [u8; 1]| b != [0])?),
        8 => {
            let n = c.count(key, 8, ELEMENTS_MAX)?;
            Array::String((0..n).map(|_| c.string(key)).collect::<Result<_, _>>()?)
        }
        10 => Array::U64(numbers(c, key, u64::from_le_bytes)?),
        11 => Array::I64(numbers(c, key, i64::from_le_bytes)?),
        12 => Array::F64(numbers(c, key, f64::from_le_bytes)?),
        _ => {
            let reason = format!("{key}: array of type {kind}, must be of numbers, bools or strings");
            return Err(c.invalid(reason));
        }
    })
}

fn numbers<T, const N: usize>(c: &mut Cursor<'_>, key: &str, from: impl Fn([u8; N]) -> T) -> Result<Vec<T>, GgufError> {
    let n = c.count(key, N as u64, ELEMENTS_MAX)?;
    let bytes = c.bytes(n * N, key)?;
    let (chunks, _) = bytes.as_chunks::<N>();
    Ok(chunks.iter().map(|&b| from(b)).collect())
}

fn alignment(c: &Cursor<'_>, metadata: &HashMap<String, Value>) -> Result<u64, GgufError> {
    match metadata.get("general.alignment") {
        None => Ok(32),
        Some(&Value::U32(a)) if a.is_power_of_two() && u64::from(a) <= ALIGNMENT_MAX => Ok(a.into()),
        Some(v) => Err(c.invalid(format!("general.alignment: is {v:?}, must be a u32 power of two of at most {ALIGNMENT_MAX}"))),
    }
}

fn read_tensors(c: &mut Cursor<'_>, count: usize, alignment: u64, size: u64, path: &Path) -> Result<Vec<TensorInfo>, GgufError> {
    let mut tensors = Vec::new();
    let mut names = HashSet::new();
    for i in 0..count {
        let name = c.string(&format!("name of tensor {i}"))?;
        let info = read_info(c, name, path)?;
        if !names.insert(info.name.clone()) {
            return Err(tensor_error(path, &info.name, "is there twice".into()));
        }
        if !info.offset.is_multiple_of(alignment) {
            let reason = format!("offset {} is not a multiple of {alignment}", info.offset);
            return Err(tensor_error(path, &info.name, reason));
        }
        tensors.push(info);
    }
    let start = c.at().next_multiple_of(alignment);
    for t in &mut tensors {
        let end = start.checked_add(t.offset).and_then(|o| o.checked_add(t.bytes));
        if end.is_none_or(|end| end > size) {
            let reason = format!("truncated: its {} bytes start {} bytes into the data, and the file has {size} bytes in all", t.bytes, t.offset);
            return Err(tensor_error(path, &t.name, reason));
        }
        t.offset += start;
    }
    apart(&tensors, path)?;
    Ok(tensors)
}

/// No byte is of two tensors.
fn apart(tensors: &[TensorInfo], path: &Path) -> Result<(), GgufError> {
    let mut all: Vec<&TensorInfo> = tensors.iter().collect();
    all.sort_by_key(|t| t.offset);
    for pair in all.windows(2) {
        if pair[0].offset + pair[0].bytes > pair[1].offset {
            return Err(tensor_error(path, &pair[1].name, format!("begins within the {} bytes of tensor {}", pair[0].bytes, pair[0].name)));
        }
    }
    Ok(())
}

/// One info; `offset` is still from the start of the data.
fn read_info(c: &mut Cursor<'_>, name: String, path: &Path) -> Result<TensorInfo, GgufError> {
    let dims = c.u32(&name)?;
    if !(1..=DIMS_MAX).contains(&dims) {
        return Err(tensor_error(path, &name, format!("{dims} axes, must be 1 to {DIMS_MAX}")));
    }
    let mut sizes = Vec::new();
    for _ in 0..dims {
        sizes.push(c.u64(&name)?);
    }
    let number = c.u32(&name)?;
    let offset = c.u64(&name)?;
    let kind = Kind::from_ggml(number).map_err(|k| tensor_error(path, &name, format!("kind {k}, must be {ALLOWED}")))?;
    if sizes.contains(&0) {
        return Err(tensor_error(path, &name, format!("axes {sizes:?}: none may be empty")));
    }
    let block = kind.block_len() as u64;
    if !sizes[0].is_multiple_of(block) {
        let reason = format!("rows of {} elements, must be a multiple of {block} for {kind}", sizes[0]);
        return Err(tensor_error(path, &name, reason));
    }
    let blocks = sizes.iter().try_fold(1u64, |n, &s| n.checked_mul(s)).map(|n| n / block);
    let bytes = blocks.and_then(|n| n.checked_mul(kind.block_bytes() as u64));
    let shape = sizes.iter().rev().map(|&s| usize::try_from(s).ok()).collect();
    match (bytes, shape) {
        (Some(bytes), Some(shape)) => Ok(TensorInfo { name, shape, kind, offset, bytes }),
        _ => Err(tensor_error(path, &name, format!("axes {sizes:?} are too large"))),
    }
}

fn tensor_error(path: &Path, tensor: &str, reason: String) -> GgufError {
    GgufError::Tensor { file: path.to_owned(), tensor: tensor.to_owned(), reason }
}
