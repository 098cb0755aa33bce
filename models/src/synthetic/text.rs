//! The synthetic model's text side: one token a byte, an end token and a turn token, in Hugging Face's layout.
//!
//! A token is rarely a whole character here, so half characters and stop strings across token borders are the normal case.

use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;

/// Ends an answer.
pub const END: u32 = 256;
/// Separates the turns of a chat.
pub const TURN: u32 = 257;
/// 256 bytes and the two above.
pub const VOCAB: u32 = 258;

const TEMPLATE: &str = "{% for m in messages %}<|turn|>{{ m.role }}: {{ m.content }}{% endfor %}\
                        {% if add_generation_prompt %}<|turn|>assistant: {% endif %}";

/// Writes `tokenizer.json` and `tokenizer_config.json` into `dir`, for `Text::from_dir`.
pub fn write_dir(dir: &Path) -> io::Result<()> {
    let special = |id: u32, content: &str| json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let vocab: Map<String, Value> = (0..=255u8).map(|byte| (letter(byte).to_string(), json!(byte))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [special(END, "<|end|>"), special(TURN, "<|turn|>")],
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": [],
        },
    });
    let config = json!({"eos_token": "<|end|>", "chat_template": TEMPLATE});
    std::fs::write(dir.join("tokenizer.json"), tokenizer.to_string())?;
    std::fs::write(dir.join("tokenizer_config.json"), config.to_string())
}

/// The letter that stands for a byte in a byte-level vocabulary: printable Latin-1 stands for itself, the rest follows from
/// U+0100 on (Radford et al., 2019).
fn letter(byte: u8) -> char {
    let plain = |b: u8| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if plain(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&b| !plain(b)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(all(test, feature = "text"))]
mod tests {
    use super::*;
    use crate::text::Text;

    #[test]
    fn one_token_a_byte() {
        let dir = tempfile::tempdir().unwrap();
        write_dir(dir.path()).unwrap();
        let text = Text::from_dir(dir.path()).unwrap();
        let said = "So \u{1f600}, naïve\n\0!";
        let want: Vec<u32> = said.bytes().map(u32::from).collect();
        assert_eq!(text.encode(said, true).unwrap(), want);
        assert_eq!(text.decode(&want), said);
        assert_eq!((text.stop_ids(), text.vocab_size()), (&[END][..], VOCAB as usize));
        let rendered = text.render_chat(&[json!({"role": "user", "content": "hi"})], &Map::new()).unwrap();
        let ids = text.encode(&rendered, false).unwrap();
        assert_eq!((ids[0], ids.iter().filter(|&&id| id == TURN).count()), (TURN, 2));
    }
}
