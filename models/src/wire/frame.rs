//! A frame: eight bytes that say what follows and how long it is, then a message as [postcard](https://postcard.jamesmunns.com/wire-format)
//! writes it.
//!
//! | bytes | |
//! |---|---|
//! | 0, 1 | `cx` |
//! | 2, 3 | [`VERSION`], little-endian |
//! | 4 to 7 | length of the message in bytes, little-endian, at most [`LENGTH_MAX`] |
//!
//! Whoever reads trusts nothing: whatever is not a frame is an [`Error`], after which the stream is of no more use.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};

const MAGIC: [u8; 2] = *b"cx";

/// Changes with every message that one end would misread.
pub const VERSION: u16 = 2;

/// 64 MB. The largest honest message is a step of 512 rows at 131,072 positions each: 4,096 blocks of at most five bytes a row, 10 MB.
pub const LENGTH_MAX: u32 = 64 << 20;

const HEAD: usize = 8;

/// What is asked of the system at a time: a step of 64 rows at 8,192 positions, and more.
const PIECE: usize = 128 << 10;

/// Why nothing more can be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Between two frames: the other end has closed.
    #[error("the connection was closed")]
    Closed,
    #[error("the connection ended within a frame")]
    Truncated,
    #[error("what came is no frame: it begins with {0:02x?}")]
    NoFrame([u8; 2]),
    #[error("a frame of version {0} came; this program speaks {VERSION}")]
    Version(u16),
    #[error("a frame of {0} bytes came; {LENGTH_MAX} are allowed")]
    Length(u32),
    #[error("a frame's message cannot be read: {0}")]
    Message(postcard::Error),
    #[error("a frame has {0} bytes after its message")]
    Rest(usize),
    #[error(transparent)]
    Io(io::Error),
}

/// Reads frames; its buffer is kept from one to the next.
#[derive(Debug)]
pub struct Reader<R> {
    from: BufReader<R>,
    buffer: Vec<u8>,
}

impl<R: Read> Reader<R> {
    pub fn new(from: R) -> Reader<R> {
        Reader { from: BufReader::with_capacity(PIECE, from), buffer: Vec::new() }
    }

    /// Waits for the next message.
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        self.fill(HEAD as u32)?;
        let [m0, m1, v0, v1, l0, l1, l2, l3] = self.buffer[..] else { return Err(if self.buffer.is_empty() { Error::Closed } else { Error::Truncated }) };
        if [m0, m1] != MAGIC {
            return Err(Error::NoFrame([m0, m1]));
        }
        let (version, length) = (u16::from_le_bytes([v0, v1]), u32::from_le_bytes([l0, l1, l2, l3]));
        if version != VERSION {
            return Err(Error::Version(version));
        }
        if length > LENGTH_MAX {
            return Err(Error::Length(length));
        }
        self.fill(length)?;
        if self.buffer.len() < length as usize {
            return Err(Error::Truncated);
        }
        let (message, rest) = postcard::take_from_bytes(&self.buffer).map_err(Error::Message)?;
        if rest.is_empty() { Ok(message) } else { Err(Error::Rest(rest.len())) }
    }

    /// So many bytes, or fewer where the stream ends. The buffer grows as they come: a length alone takes no memory.
    fn fill(&mut self, bytes: u32) -> Result<(), Error> {
        self.buffer.clear();
        while self.buffer.len() < bytes as usize {
            let there = match self.from.fill_buf() {
                Ok(there) => there,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A peer that died with bytes unread: nothing more will come.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => &[],
                Err(error) => return Err(Error::Io(error)),
            };
            if there.is_empty() {
                break;
            }
            let take = there.len().min(bytes as usize - self.buffer.len());
            self.buffer.extend_from_slice(&there[..take]);
            self.from.consume(take);
        }
        Ok(())
    }
}

/// Writes frames; its buffer is kept from one to the next.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    buffer: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn new(to: W) -> Writer<W> {
        Writer { to, buffer: Vec::new() }
    }

    /// Sends a message in one write. One that is too long for a frame is an error of kind `InvalidInput`, and nothing was sent.
    pub fn write<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.extend_from_slice(&MAGIC);
        buffer.extend_from_slice(&VERSION.to_le_bytes());
        buffer.extend_from_slice(&[0; 4]);
        self.buffer = postcard::to_extend(message, buffer).map_err(|e| invalid(format!("a message cannot be written: {e}")))?;
        let length = self.buffer.len() - HEAD;
        let short = u32::try_from(length).ok().filter(|length| *length <= LENGTH_MAX);
        let short = short.ok_or_else(|| invalid(format!("a message has {length} bytes; {LENGTH_MAX} are allowed")))?;
        self.buffer[4..HEAD].copy_from_slice(&short.to_le_bytes());
        self.to.write_all(&self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineError, EngineInfo, Memory};
    use crate::wire::{FromWorker, ToWorker};
    use kv::{BlockId, Draw, Edit, Input, Logprobs, Mask, RowFault, RowResult, Sampling, SeqId, Step, StepDone, StepId, StepRow};
    use proptest::prelude::*;

    fn step(rows: u64) -> Step {
        let sampling = Sampling { temperature: 0.7, top_p: 0.9, top_k: 40, min_p: 0.05, seed: u64::MAX };
        let row = |i: u64| StepRow {
            seq: SeqId(i << 40),
            input: if i.is_multiple_of(2) { Input::FromPrevious } else { Input::Tokens((0..300).collect()) },
            start: 31,
            table: (0..i as u32).map(BlockId).collect(),
            draw: (!i.is_multiple_of(3)).then(|| Draw {
                banned: vec![2, 128_009],
                allowed: Some(Mask::new([7, u32::MAX])),
                edits: vec![Edit { id: 9, add: -1.0, scale: 1.5, minus: 0.25 }],
                logprobs: Some(20),
                ..Draw::new(sampling.clone(), 7)
            }),
        };
        Step { id: StepId(u64::MAX), copies: vec![(BlockId(1), BlockId(u32::MAX))], rows: (0..rows).map(row).collect() }
    }

    fn said() -> Vec<FromWorker> {
        let info = EngineInfo {
            name: "a model".into(),
            context: 8192,
            vocab: 49_152,
            blocks: 77,
            block_bytes: 1 << 40,
            window: Some(4096),
            weight_bytes: 5,
            dtype: "f32".into(),
            device: "cpu".into(),
            files: 1 << 60,
        };
        let logprobs = Some(Box::new(Logprobs { drawn: -0.5, top: vec![(9, -0.5), (7, -2.0)] }));
        let results = vec![RowResult { logprobs, ..RowResult::new(SeqId(1), Ok(9)) }, RowResult::new(SeqId(2), Err(RowFault::NotFinite))];
        let load = EngineError::Load { file: "/models/ä".into(), reason: "no tensor".into() };
        vec![
            FromWorker::Opened(info),
            FromWorker::Done(StepDone { id: StepId(3), results, micros: 12 }, Memory { active: 1, cache: 2, peak: u64::MAX }),
            FromWorker::Failed(load),
            FromWorker::Failed(EngineError::Step("it broke".into())),
        ]
    }

    fn written<T: Serialize>(messages: &[T]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        messages.iter().for_each(|message| writer.write(message).unwrap());
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let sent = [ToWorker::Open { job: vec![0, 255], blocks: Some(3) }, ToWorker::Open { job: vec![], blocks: None }, ToWorker::Step(step(64))];
        let bytes = written(&sent);
        let mut reader = Reader::new(&bytes[..]);
        for message in sent {
            assert_eq!(reader.read::<ToWorker>().unwrap(), message);
        }
        assert!(matches!(reader.read::<ToWorker>(), Err(Error::Closed)));
        let bytes = written(&said());
        let mut reader = Reader::new(&bytes[..]);
        for message in said() {
            assert_eq!(reader.read::<FromWorker>().unwrap(), message);
        }
    }

    /// A path need not be text, and a failure that cannot be told would look like a death without a reason.
    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text_is_told_as_well_as_it_can_be() {
        use std::os::unix::ffi::OsStrExt;
        let file = std::ffi::OsStr::from_bytes(b"/models/\xff").into();
        let bytes = written(&[FromWorker::Failed(EngineError::Load { file, reason: "r".into() })]);
        let told = FromWorker::Failed(EngineError::Load { file: "/models/\u{fffd}".into(), reason: "r".into() });
        assert_eq!(Reader::new(&bytes[..]).read::<FromWorker>().unwrap(), told);
    }

    #[test]
    fn what_is_no_frame_is_told_apart() {
        let good = written(&said()[..1]);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let longer = [&with(4, good[4] + 1)[..], &[0]].concat();
        let rows: Vec<(&str, Vec<u8>, &str)> = vec![
            ("nothing", vec![], "the connection was closed"),
            ("half a head", good[..5].to_vec(), "the connection ended within a frame"),
            ("half a message", good[..good.len() - 1].to_vec(), "the connection ended within a frame"),
            ("text", b"terminate called".to_vec(), "what came is no frame: it begins with [74, 65]"),
            ("another version", with(2, 9), "a frame of version 9 came; this program speaks 2"),
            ("a length beyond all", with(7, 0xff), "a frame of 4278190"),
            ("no such message", with(8, 3), "a frame's message cannot be read: "),
            ("a byte too many", longer, "a frame has 1 bytes after its message"),
        ];
        for (what, bytes, expect) in rows {
            let error = Reader::new(&bytes[..]).read::<FromWorker>().unwrap_err().to_string();
            assert!(error.starts_with(expect), "{what}: {error}");
        }
    }

    #[test]
    fn a_message_beyond_all_bounds_is_not_sent() {
        let mut bytes = Vec::new();
        let error = Writer::new(&mut bytes).write(&ToWorker::Open { job: vec![0; LENGTH_MAX as usize], blocks: None }).unwrap_err();
        assert!(error.kind() == io::ErrorKind::InvalidInput && error.to_string().contains("67108864 are allowed"), "{error}");
        assert!(bytes.is_empty());
    }

    proptest! {
        /// Whatever comes, reading ends, with no more memory than came.
        #[test]
        fn noise_is_an_error_or_a_message(noise in proptest::collection::vec(any::<u8>(), 0..400), honest in any::<bool>()) {
            let head = [&MAGIC[..], &VERSION.to_le_bytes(), &(noise.len() as u32).to_le_bytes()].concat();
            let bytes = if honest { [head, noise].concat() } else { noise };
            let (mut to, mut from) = (Reader::new(&bytes[..]), Reader::new(&bytes[..]));
            while to.read::<ToWorker>().is_ok() {}
            while from.read::<FromWorker>().is_ok() {}
            prop_assert!(to.buffer.capacity() <= 4 * bytes.len() + 64, "{}", to.buffer.capacity());
        }

        #[test]
        fn a_changed_byte_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = written(&[ToWorker::Step(step(9))]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut reader = Reader::new(&bytes[..]);
            while reader.read::<ToWorker>().is_ok() {}
        }
    }
}
