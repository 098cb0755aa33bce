//! A folder's tokenizer.json.
#![no_main]

#[path = "common/scratch.rs"]
mod scratch;
#[path = "common/texts.rs"]
mod texts;

use models::text::Text;
use scratch::Scratch;
use std::sync::LazyLock;

static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("tokenizer"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    SCRATCH.write("tokenizer.json", bytes);
    if let Ok(text) = Text::from_dir(SCRATCH.dir()) {
        texts::there_and_back(text);
    }
});
