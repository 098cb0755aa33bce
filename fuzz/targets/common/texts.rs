//! What a service does with a tokenizer that it has loaded.

use models::text::Text;
use std::sync::Arc;

const TEXTS: [&str; 4] = ["", " Hi there,  1234 <s>x</s>\n", "\u{e9}\u{6771}\u{1f600}\u{0}\u{200d}", "aaaaaaaaaaaaaaaa ab ba"];

pub fn there_and_back(text: Text) {
    let text = Arc::new(text);
    let mut all: Vec<u32> = (0..8).chain([text.vocab_size() as u32, u32::MAX]).collect();
    for special in [false, true] {
        all.extend(TEXTS.iter().filter_map(|words| text.encode(words, special).ok()).flatten());
    }
    let _words = text.decode(&all);
    let mut detokenizer = text.detokenizer();
    for id in all {
        let _part = detokenizer.push(id);
        let _bytes = text.token_bytes(id);
    }
}
