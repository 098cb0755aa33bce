//! A GGUF file: its header, a tensor's bytes, and the tokenizer in its metadata.
#![no_main]

#[path = "common/scratch.rs"]
mod scratch;
#[path = "common/texts.rs"]
mod texts;

use models::gguf::File;
use models::text::Text;
use scratch::Scratch;
use std::sync::LazyLock;

static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("gguf"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = File::open(&SCRATCH.write("model.gguf", bytes)) else { return };
    let mut buffer = Vec::new();
    for tensor in file.tensors() {
        file.read(tensor, &mut buffer).expect("a tensor lies within its file");
    }
    if let Ok(text) = Text::from_gguf(&file) {
        texts::there_and_back(text);
    }
});
