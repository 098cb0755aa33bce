//! Words of a server, fit for a terminal and a page: what would move the cursor, colour or turn round the line is shown, not done. Pure.

use std::fmt::Write;

/// Control characters, and those that change the direction of what follows, as escapes.
pub fn plain(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            let _infallible = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown() {
        for (text, expect) in [
            ("SmolLM2 135M \"é\" 東 \\", "SmolLM2 135M \"é\" 東 \\"),
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("\u{202e}txt", "\\u{202e}txt"),
        ] {
            assert_eq!(plain(text), expect);
        }
    }
}
