//! The families: what they are called, which marks they write, and how a chat template gives them away.

use std::str::FromStr;

/// How a family says tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// None that is known: text stays text.
    #[default]
    Plain,
    /// Hermes, Qwen 2.5 and 3, Granite 4: `<tool_call>{"name": …, "arguments": …}</tool_call>`.
    Hermes,
    /// Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5: `<tool_call><function=f><parameter=p>…</parameter></function></tool_call>`.
    QwenCoder,
    /// Llama 3: the answer is `{"name": …, "parameters": …}`.
    Llama3,
    /// `[TOOL_CALLS]` and then a JSON array, or since 2025 `name[ARGS]{…}`.
    Mistral,
    /// `<|tool_call>call:f{key:<|"|>text<|"|>,n:3}<tool_call|>`.
    Gemma4,
    /// MiniCPM 5: `<function name="f"><param name="p">…</param></function>`.
    MiniCpm,
    /// GLM 4.5 to 4.7, Ling 3, Laguna: `<tool_call>f<arg_key>p</arg_key><arg_value>…</arg_value></tool_call>`.
    Glm,
}

/// How a family says reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Reasoning {
    /// Not at all.
    #[default]
    None,
    /// `<think>…</think>`.
    Think,
    /// `<|channel>thought … <channel|>`.
    Gemma4,
    /// `[THINK]…[/THINK]`.
    Mistral,
}

/// A name that no family has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is none of {allowed}")]
pub struct UnknownName {
    given: String,
    allowed: String,
}

impl Dialect {
    pub const ALL: &[Dialect] =
        &[Dialect::Plain, Dialect::Hermes, Dialect::QwenCoder, Dialect::Llama3, Dialect::Mistral, Dialect::Gemma4, Dialect::MiniCpm, Dialect::Glm];

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Plain => "none",
            Dialect::Hermes => "hermes",
            Dialect::QwenCoder => "qwen3-coder",
            Dialect::Llama3 => "llama3",
            Dialect::Mistral => "mistral",
            Dialect::Gemma4 => "gemma4",
            Dialect::MiniCpm => "minicpm",
            Dialect::Glm => "glm4",
        }
    }

    /// The family whose marks a chat template writes; `Plain` where it writes none that is known.
    pub fn detect(template: &str) -> Dialect {
        let has = |mark: &str| template.contains(mark);
        let says_json = has("\"name\"") || has("\\\"name\\\"");
        if has("<|tool_call>call:") {
            Dialect::Gemma4
        } else if has("[TOOL_CALLS]") {
            Dialect::Mistral
        } else if has("<function name=") && has("<param name=") {
            Dialect::MiniCpm
        } else if has("<tool_call>") && has("<function=") && has("<parameter=") {
            Dialect::QwenCoder
        } else if has("<tool_call>") && has("<arg_key>") {
            Dialect::Glm
        } else if has("<tool_call>") && says_json && has("arguments") && !has("<tool_calls>") {
            Dialect::Hermes
        } else if has("{\"name\": function name, \"parameters\":") {
            Dialect::Llama3
        } else {
            Dialect::Plain
        }
    }

    /// Special tokens that must stay in the text for a [`crate::Reader`] to see them.
    pub fn markers(self) -> &'static [&'static str] {
        match self {
            Dialect::Plain => &[],
            Dialect::Hermes | Dialect::QwenCoder => &["<tool_call>", "</tool_call>"],
            Dialect::Llama3 => &["<|python_tag|>"],
            Dialect::Mistral => &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
            Dialect::Gemma4 => &["<|tool_call>", "<tool_call|>", "<|\"|>"],
            Dialect::MiniCpm => &["<function", "</function>", "<param", "</param>"],
            Dialect::Glm => &["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
        }
    }

    /// The marks with which a call begins.
    pub(crate) fn opens(self) -> &'static [&'static str] {
        match self {
            Dialect::Plain => &[],
            Dialect::Hermes | Dialect::Glm => &["<tool_call>"],
            Dialect::QwenCoder => &["<tool_call>", "<function="],
            Dialect::Llama3 => &["<|python_tag|>", "{"],
            Dialect::Mistral => &["[TOOL_CALLS]"],
            Dialect::Gemma4 => &["<|tool_call>"],
            Dialect::MiniCpm => &["<function name=\""],
        }
    }
}

impl Reasoning {
    pub const ALL: &[Reasoning] = &[Reasoning::None, Reasoning::Think, Reasoning::Gemma4, Reasoning::Mistral];

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Reasoning::None => "none",
            Reasoning::Think => "think",
            Reasoning::Gemma4 => "gemma4",
            Reasoning::Mistral => "mistral",
        }
    }

    /// The way whose marks a chat template writes.
    pub fn detect(template: &str) -> Reasoning {
        let has = |mark: &str| template.contains(mark);
        if has("<|channel>thought") || (has("<|channel>") && has("<channel|>")) {
            Reasoning::Gemma4
        } else if has("[THINK]") && has("[/THINK]") {
            Reasoning::Mistral
        } else if has("</think>") {
            Reasoning::Think
        } else {
            Reasoning::None
        }
    }

    /// Special tokens that must stay in the text for a [`crate::Reader`] to see them.
    pub fn markers(self) -> &'static [&'static str] {
        match self {
            Reasoning::None => &[],
            Reasoning::Think => &["<think>", "</think>"],
            Reasoning::Gemma4 => &["<|channel>", "<channel|>"],
            Reasoning::Mistral => &["[THINK]", "[/THINK]"],
        }
    }

    /// The opening and the closing mark in full.
    pub(crate) fn pair(self) -> Option<(&'static str, &'static str)> {
        match self {
            Reasoning::None => None,
            Reasoning::Think => Some(("<think>", "</think>")),
            Reasoning::Gemma4 => Some(("<|channel>thought", "<channel|>")),
            Reasoning::Mistral => Some(("[THINK]", "[/THINK]")),
        }
    }

    /// Whether it may open behind text. `<think>` may not: many tokenizers have it as an ordinary word, and people ask about it.
    pub(crate) fn opens_anywhere(self) -> bool {
        matches!(self, Reasoning::Gemma4 | Reasoning::Mistral)
    }
}

/// Whether a rendered prompt ends within the reasoning mark: its last word is the opening one. Marks further up are what somebody said.
pub fn ends_in_reasoning(reasoning: Reasoning, prompt: &str) -> bool {
    reasoning.pair().is_some_and(|(open, _)| prompt.trim_end().ends_with(open))
}

fn by_name<T: Copy>(given: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, UnknownName> {
    all.iter().copied().find(|one| name(*one) == given).ok_or_else(|| {
        let allowed: Vec<&str> = all.iter().copied().map(name).collect();
        UnknownName { given: given.to_owned(), allowed: allowed.join(", ") }
    })
}

impl FromStr for Dialect {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Dialect, UnknownName> {
        by_name(given, Dialect::ALL, Dialect::name)
    }
}

impl FromStr for Reasoning {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Reasoning, UnknownName> {
        by_name(given, Reasoning::ALL, Reasoning::name)
    }
}
