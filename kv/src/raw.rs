//! Lists of numbers as their bytes, little-endian: most of a step is tables and masks, and number by number they would take longer to write
//! and to read than everything else that is done for it.

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;

/// For a `Vec<BlockId>`.
pub(crate) mod table {
    use super::{read, write};
    use crate::step::BlockId;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(table: &[BlockId], to: S) -> Result<S::Ok, S::Error> {
        write(table.iter().map(|block| block.0), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<BlockId>, D::Error> {
        read(from, BlockId)
    }
}

/// For an `Arc<[u32]>`.
pub(crate) mod words {
    use super::{read, write};
    use serde::{Deserializer, Serializer};
    use std::sync::Arc;

    pub(crate) fn serialize<S: Serializer>(words: &Arc<[u32]>, to: S) -> Result<S::Ok, S::Error> {
        write(words.iter().copied(), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[u32]>, D::Error> {
        read(from, |word| word).map(Arc::from)
    }
}

fn write<S: Serializer>(words: impl ExactSizeIterator<Item = u32>, to: S) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::with_capacity(words.len() * size_of::<u32>());
    words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    to.serialize_bytes(&bytes)
}

fn read<'de, D: Deserializer<'de>, T>(from: D, of: fn(u32) -> T) -> Result<Vec<T>, D::Error> {
    from.deserialize_bytes(Bytes(of))
}

struct Bytes<T>(fn(u32) -> T);

impl<T> Visitor<'_> for Bytes<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the bytes of a list of numbers, four each")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        match bytes.as_chunks() {
            (words, []) => Ok(words.iter().map(|word| (self.0)(u32::from_le_bytes(*word))).collect()),
            _ => Err(E::invalid_length(bytes.len(), &self)),
        }
    }
}
