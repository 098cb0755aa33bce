//! What is asked: built-in prompts, a file of them, or random words. Pure.

use super::draw::{self, Purpose};
use crate::chat::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Prompts that a model answers at length, for when no file is given.
const BUILT_IN: &[&str] = &[
    "Write a detailed story about a lighthouse keeper who finds a message in a bottle.",
    "Explain step by step how bread is made, from grain to loaf, with all the details.",
    "Describe the history of the bicycle from its invention until today.",
    "Write a long letter to a friend about a journey through the mountains.",
    "Explain how a computer stores numbers, text, pictures and sound.",
    "Give a thorough introduction to growing vegetables in a small garden.",
    "Tell the story of a day in the life of a city, hour by hour.",
    "Describe in detail how the human heart works.",
    "Write an essay about the advantages and the drawbacks of working from home.",
    "Explain the rules and the basic strategy of chess to a beginner.",
    "Write a dialogue between a teacher and a student about the solar system.",
    "Describe how a ship crosses an ocean, and what each member of the crew does.",
    "Write a guide for visitors to a national park, with advice for each season.",
    "Explain what inflation is, where it comes from and what it does to people.",
    "Tell a long fairy tale about a fox, a crow and a winter without end.",
    "Describe how a film is made, from the first idea to the first evening in a cinema.",
];

/// Common English words, which most tokenizers know as one token each.
const WORDS: &[&str] = &[
    "the",
    "harbour",
    "master",
    "keeps",
    "a",
    "book",
    "of",
    "every",
    "ship",
    "that",
    "comes",
    "and",
    "goes",
    "with",
    "its",
    "cargo",
    "crew",
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
    "program",
    "question",
    "work",
    "government",
    "number",
    "night",
    "point",
    "home",
    "water",
    "room",
    "mother",
    "area",
    "money",
    "story",
    "fact",
    "month",
    "lot",
    "right",
    "study",
    "eye",
    "job",
    "word",
];

/// A conversation: some messages that are there already, then turns of a user, each asked when the one before is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub before: Vec<Message>,
    pub turns: Vec<String>,
}

impl Conversation {
    pub fn of(prompt: impl Into<String>) -> Conversation {
        Conversation { before: Vec::new(), turns: vec![prompt.into()] }
    }
}

/// What a line of a file asks: exactly one of the three. Other fields are ignored.
#[derive(Deserialize)]
pub(super) struct Asked {
    prompt: Option<String>,
    turns: Option<Vec<String>>,
    messages: Option<Vec<Message>>,
}

impl Asked {
    pub(super) fn nothing(&self) -> bool {
        self.prompt.is_none() && self.turns.is_none() && self.messages.is_none()
    }

    pub(super) fn conversation(self) -> Result<Conversation, String> {
        match (self.prompt, self.turns, self.messages) {
            (Some(prompt), None, None) => Ok(Conversation::of(prompt)),
            (None, Some(turns), None) if !turns.is_empty() => Ok(Conversation { before: Vec::new(), turns }),
            (None, None, Some(mut before)) => match before.pop() {
                Some(last) if last.role == "user" => Ok(Conversation { before, turns: vec![last.content] }),
                _ => Err("messages must end with one of role user".into()),
            },
            _ => Err("it must have exactly one of prompt, turns (not empty), messages".into()),
        }
    }
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LineError {
    pub line: usize,
    pub reason: String,
}

/// The prompts to use when none are given.
pub fn built_in() -> Vec<Conversation> {
    BUILT_IN.iter().map(|prompt| Conversation::of(*prompt)).collect()
}

/// Reads JSON lines, each with `prompt` (text), `turns` (texts), or `messages` (the last one a user's).
pub fn parse(text: &str) -> Result<Vec<Conversation>, LineError> {
    lines(text, "prompt", |line| json::<Asked>(line)?.conversation())
}

/// A line of JSON. It is line 1 to the parser only.
pub(super) fn json<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|e| e.to_string().replace(" at line 1 column ", " at column "))
}

/// Each line that is not empty, read; a file without one is an error, too.
pub(super) fn lines<T>(text: &str, what: &str, mut read: impl FnMut(&str) -> Result<T, String>) -> Result<Vec<T>, LineError> {
    let filled = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let all: Vec<T> = filled.map(|(i, line)| read(line).map_err(|reason| LineError { line: i + 1, reason })).collect::<Result<_, _>>()?;
    if all.is_empty() { Err(LineError { line: 1, reason: format!("the file has no {what}") }) } else { Ok(all) }
}

/// So many random words; the first ones differ from text to text, so that no prefix is shared by chance.
pub fn words(seed: u64, text: u64, count: u32) -> String {
    let first = draw::bits(seed, Purpose::Words, text);
    let word = |i: u32| WORDS[(draw::bits(first, Purpose::Words, u64::from(i)) % WORDS.len() as u64) as usize];
    let mut out = String::with_capacity(count as usize * 7);
    for i in 0..count {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(word(i));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(turns: &[&str]) -> Conversation {
        Conversation { before: Vec::new(), turns: turns.iter().map(|t| (*t).to_owned()).collect() }
    }

    #[test]
    fn a_line_is_a_prompt_turns_or_messages() {
        let text = r#"{"prompt":"a"}

{"question_id":81,"turns":["b","c"]}
{"messages":[{"role":"system","content":"s"},{"role":"user","content":"d"}]}"#;
        let system = Message { role: "system".into(), content: "s".into() };
        let last = Conversation { before: vec![system], ..turns(&["d"]) };
        assert_eq!(parse(text).unwrap(), [turns(&["a"]), turns(&["b", "c"]), last]);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            ("", 1),
            ("{\"prompt\":\"a\"}\nnonsense", 2),
            ("{}", 1),
            ("{\"turns\":[]}", 1),
            ("{\"prompt\":\"a\",\"turns\":[\"b\"]}", 1),
            ("\n{\"messages\":[{\"role\":\"assistant\",\"content\":\"d\"}]}", 2),
            ("{\"messages\":[]}", 1),
            ("{\"prompt\":3}", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn random_texts_have_their_length_and_nothing_in_common() {
        let text = words(1, 0, 50);
        assert_eq!(text.split(' ').count(), 50);
        assert_eq!(text, words(1, 0, 50));
        let starts: std::collections::BTreeSet<String> = (0..100).map(|i| words(1, i, 6)).collect();
        assert_eq!(starts.len(), 100);
        assert_ne!(words(1, 0, 6), words(2, 0, 6));
    }
}
