//! Grammars compile, accept what is well-formed and refuse what is not; and what they let through is read as calls that obey their schemas.

use std::sync::Arc;

use super::{pieces, tool, tools};
use crate::{Choice, Dialect, Reasoning, Tool, grammar, whole};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

/// A token for every byte, and one for each mark of a family if there is one.
struct Tokens {
    env: TokEnv,
    marks: Vec<&'static str>,
}

const EOS: u32 = 256;

/// Tokens that end one thing and begin another, as real vocabularies have them.
const ACROSS: [&str; 12] = ["a\n<", ".\n\n", "\": ", "\": \"", "\"}", "}}", "}\n</", "\n</", "parameter>\n<", "l>\n{\"", "think>\n\n", "],"];

impl Tokens {
    fn new(special: Option<Dialect>) -> Tokens {
        let reasoning = Reasoning::ALL.iter().flat_map(|r| r.markers());
        let marks: Vec<&'static str> = special.map_or_else(Vec::new, |d| d.markers().iter().chain(reasoning).copied().collect());
        let mut words: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        words.push(b"\xFF<eos>".to_vec());
        words.extend(marks.iter().map(|mark| [b"\xFF", mark.as_bytes()].concat()));
        words.extend(ACROSS.iter().map(|word| word.as_bytes().to_vec()));
        let info = TokRxInfo { vocab_size: words.len() as u32, tok_eos: EOS, tok_bos: None, tok_pad: None, tok_unk: None, tok_end_of_turn: None };
        Tokens { env: Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words))), marks }
    }

    fn id(&self, mark: &str) -> Option<u32> {
        self.marks.iter().position(|m| *m == mark).map(|at| EOS + 1 + at as u32)
    }

    fn spelled(&self, token: u32) -> Vec<u8> {
        if token < EOS {
            return vec![token as u8];
        }
        let at = (token - EOS - 1) as usize;
        self.marks.get(at).unwrap_or_else(|| &ACROSS[at - self.marks.len()]).as_bytes().to_vec()
    }

    /// `text` with its marks as tokens, the longest of those that begin at one place.
    fn ids(&self, text: &str) -> Vec<u32> {
        let (mut ids, mut rest) = (Vec::new(), text.as_bytes());
        while let Some(first) = rest.first() {
            let mark = self.marks.iter().filter(|m| rest.starts_with(m.as_bytes())).max_by_key(|m| m.len());
            ids.push(mark.and_then(|m| self.id(m)).unwrap_or(u32::from(*first)));
            rest = &rest[mark.map_or(1, |m| m.len())..];
        }
        ids
    }

    fn matcher(&self, lark: &str) -> Matcher {
        let mut factory = ParserFactory::new_simple(&self.env).unwrap();
        factory.quiet();
        let matcher = Matcher::new(factory.create_parser(TopLevelGrammar::from_lark(lark.to_owned())));
        assert!(!matcher.is_error(), "{:?}\n{lark}", matcher.get_error());
        matcher
    }

    /// Whether the answer may be this one: `None` if it may, else where it may not go on.
    fn stops_at(&self, lark: &str, answer: &str) -> Option<usize> {
        let mut matcher = self.matcher(lark);
        let ids = self.ids(answer);
        for (at, id) in ids.iter().enumerate() {
            if matcher.is_stopped() {
                return Some(at);
            }
            let mask = matcher.compute_mask().unwrap_or_else(|e| panic!("{e}\n{lark}"));
            if !mask.is_allowed(*id) {
                return Some(at);
            }
            matcher.consume_token(*id).unwrap();
        }
        if matcher.is_stopped() || matcher.is_accepting().unwrap() { None } else { Some(ids.len()) }
    }
}

fn choices() -> [Choice; 3] {
    [Choice::Auto, Choice::Required, Choice::Named("edit".to_owned())]
}

#[test]
fn every_grammar_compiles() {
    let offered = [tools(), vec![tool("nothing known/\"of it", Value::Null)]].concat();
    for dialect in Dialect::ALL {
        for tokens in [Tokens::new(None), Tokens::new(Some(*dialect))] {
            for choice in choices() {
                for (reasoning, begins, parallel) in Reasoning::ALL.iter().flat_map(|r| [(*r, false, true), (*r, true, false)]) {
                    let lark = grammar(*dialect, &offered, &choice, parallel, reasoning, begins, &|mark| tokens.id(mark));
                    assert_eq!(lark.is_none(), *dialect == Dialect::Plain);
                    if let Some(lark) = lark {
                        let mut matcher = tokens.matcher(&lark);
                        assert!(!matcher.compute_mask().unwrap().is_zero(), "{lark}");
                    }
                }
            }
        }
        for (tools, choice) in [(tools(), Choice::None), (vec![], Choice::Auto), (tools(), Choice::Named("rm".to_owned()))] {
            assert_eq!(grammar(*dialect, &tools, &choice, true, Reasoning::None, false, &|_| None), None);
        }
    }
}

/// A call in its family's form, as the grammar has it.
fn call(dialect: Dialect, name: &str, arguments: &Value) -> String {
    let json = || format!("{arguments}").replace("\":", "\": ").replace(",\"", ", \"");
    let bare = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let each =
        |form: &dyn Fn(&str, &Value) -> String, between: &str| arguments.as_object().unwrap().iter().map(|(k, v)| form(k, v)).collect::<Vec<_>>().join(between);
    match dialect {
        Dialect::Plain => String::new(),
        Dialect::Hermes => format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {}}}\n</tool_call>", json()),
        Dialect::Llama3 => format!("{{\"name\": \"{name}\", \"parameters\": {}}}", json()),
        Dialect::Mistral => format!("[TOOL_CALLS]{name}[ARGS]{}", json()),
        Dialect::QwenCoder => {
            let parameters = each(&|k, v| format!("<parameter={k}>\n{}\n</parameter>\n", bare(v)), "");
            format!("<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>")
        }
        Dialect::Gemma4 => {
            let quote = |v: &Value| v.as_str().map_or_else(|| v.to_string(), |text| format!("<|\"|>{text}<|\"|>"));
            format!("<|tool_call>call:{name}{{{}}}<tool_call|>", each(&|k, v| format!("{k}:{}", quote(v)), ","))
        }
        Dialect::Glm => {
            format!("<tool_call>{name}{}\n</tool_call>", each(&|k, v| format!("\n<arg_key>{k}</arg_key>\n<arg_value>{}</arg_value>", bare(v)), ""))
        }
        Dialect::MiniCpm => format!("<function name=\"{name}\">{}</function>", each(&|k, v| format!("<param name=\"{k}\">{}</param>", bare(v)), "")),
    }
}

#[test]
fn the_well_formed_is_accepted_and_the_malformed_refused() {
    for special in [false, true] {
        for dialect in Dialect::ALL.iter().copied().filter(|d| *d != Dialect::Plain) {
            let tokens = Tokens::new(special.then_some(dialect));
            let lark = |choice: &Choice, parallel| grammar(dialect, &tools(), choice, parallel, Reasoning::Think, false, &|mark| tokens.id(mark)).unwrap();
            let good = call(dialect, "get_weather", &json!({"city": "Ulm", "days": 3}));
            let time = call(dialect, "get_time", &json!({}));
            let wrong_type = call(dialect, "get_weather", &json!({"city": "Ulm", "days": "soon"}));
            let lacking = call(dialect, "get_weather", &json!({"days": 3}));
            let unknown = call(dialect, "rm", &json!({}));
            // Mistral's newer form is for tokenizers that have its mark.
            if dialect == Dialect::Mistral && !special {
                continue;
            }
            let between = match dialect {
                Dialect::Llama3 => "; ",
                Dialect::Mistral | Dialect::Gemma4 => "",
                _ => "\n",
            };
            let both = format!("{good}{between}{time}");
            let accepted = |choice: &Choice, parallel, answer: &str| {
                let stop = tokens.stops_at(&lark(choice, parallel), answer);
                assert_eq!(stop, None, "{dialect:?} {choice:?} {special} {answer:?}\n{}", lark(choice, parallel));
            };
            let refused = |choice: &Choice, parallel, answer: &str| {
                assert!(tokens.stops_at(&lark(choice, parallel), answer).is_some(), "{dialect:?} {choice:?} {special} {answer:?}\n{}", lark(choice, parallel));
            };
            for choice in [Choice::Auto, Choice::Required] {
                accepted(&choice, true, &good);
                accepted(&choice, false, &good);
                accepted(&choice, true, &both);
                accepted(&choice, true, &format!("<think>\nHm <b> {{\n</think>\n\n{good}"));
                for bad in [&wrong_type, &lacking, &unknown, &good[..good.len() - 1].to_owned()] {
                    refused(&choice, true, bad);
                }
                refused(&choice, false, &both);
            }
            accepted(&Choice::Auto, true, "");
            accepted(&Choice::Auto, true, "a <b> is 1 < 2,\n<tool [TOOL <| fine");
            accepted(&Choice::Auto, true, "<think>\n\n</think>\n\nHello");
            if dialect != Dialect::Llama3 {
                accepted(&Choice::Auto, true, &format!("First.\n\n{both}"));
            }
            refused(&Choice::Required, true, "");
            refused(&Choice::Required, true, &format!("So: {good}"));
            let named = Choice::Named("get_weather".to_owned());
            accepted(&named, true, &good);
            refused(&named, true, &time);
            refused(&named, true, &both);
        }
    }
}

#[test]
fn reasoning_that_began_in_the_prompt_ends_before_a_call() {
    let tokens = Tokens::new(Some(Dialect::Hermes));
    for choice in [Choice::Auto, Choice::Required] {
        let lark = grammar(Dialect::Hermes, &tools(), &choice, true, Reasoning::Think, true, &|mark| tokens.id(mark)).unwrap();
        let good = call(Dialect::Hermes, "get_time", &json!({}));
        assert_eq!(tokens.stops_at(&lark, &format!("Hm.\n</think>\n\n{good}")), None);
        assert!(tokens.stops_at(&lark, &good).is_some());
    }
}

#[test]
fn mistral_without_its_newer_mark_calls_in_an_array() {
    for tokens in [Tokens::new(None), Tokens::new(Some(Dialect::Mistral))] {
        let lark = |parallel| {
            grammar(Dialect::Mistral, &tools(), &Choice::Required, parallel, Reasoning::None, false, &|mark| tokens.id(mark).filter(|_| mark == "[TOOL_CALLS]"))
                .unwrap()
        };
        let one = r#"[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Ulm"}}]"#;
        let two = r#"[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Ulm"}}, {"name": "get_time", "arguments": {}}]"#;
        assert_eq!((tokens.stops_at(&lark(true), one), tokens.stops_at(&lark(true), two), tokens.stops_at(&lark(false), one)), (None, None, None));
        assert!(tokens.stops_at(&lark(false), two).is_some());
    }
}

/// A tool for the walks: every kind of schema that the families say in their own way.
fn walked() -> Vec<Tool> {
    let properties = json!({
        "text": {"type": "string"}, "short": {"type": "string", "maxLength": 4}, "unit": {"enum": ["C", "a <F> & b", 3, null]},
        "count": {"type": "integer", "minimum": 1, "maximum": 99}, "on": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 1, "maxItems": 3},
        "at": {"$ref": "#/$defs/at"}, "maybe": {"type": ["string", "null"]}, "an odd: key/é": {"type": "boolean"}, "either": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/at"}]}
    });
    let at = json!({"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}, "next": {"$ref": "#/$defs/at"}}, "required": ["x"], "additionalProperties": false});
    let schema = json!({"type": "object", "properties": properties, "required": ["text", "unit", "list"], "additionalProperties": false, "$defs": {"at": at}});
    // Of numbers without bounds a walk finds some that no reader of JSON can hold.
    let free = json!({"additionalProperties": {"type": ["string", "boolean"]}});
    vec![tool("act", schema), tool("act_not", json!({"type": "object", "properties": {}, "additionalProperties": false})), tool("tell.me/x-1", free)]
}

fn obeys_at(value: &Value) -> bool {
    value["x"].as_u64().is_some_and(|x| x < 10) && value.get("next").is_none_or(obeys_at)
}

fn obeys(name: &str, arguments: &Value) -> bool {
    let all = arguments.as_object().unwrap();
    match name {
        "act_not" => return all.is_empty(),
        "tell.me/x-1" => return true,
        _ => {}
    }
    ["text", "unit", "list"].iter().all(|key| all.contains_key(*key))
        && all.iter().all(|(key, value)| match key.as_str() {
            "text" => value.is_string(),
            "short" => value.as_str().is_some_and(|text| text.chars().count() <= 4),
            "unit" => [json!("C"), json!("a <F> & b"), json!(3), json!(null)].contains(value),
            "count" => value.as_u64().is_some_and(|n| (1..100).contains(&n)),
            "on" | "an odd: key/é" => value.is_boolean(),
            "list" => value.as_array().is_some_and(|l| (1..4).contains(&l.len()) && l.iter().all(|n| n.as_u64().is_some_and(|n| n < 10))),
            "at" => obeys_at(value),
            "maybe" => value.is_string() || value.is_null(),
            "either" => value.is_boolean() || obeys_at(value),
            _ => false,
        })
}

/// Text that leads a walk on: without it, it would never find the end of a string.
const HINTS: [&str; 17] = [
    "</think>",
    "<think>",
    "\n</parameter>",
    "<|\"|>",
    "\"",
    "</param>",
    "]]></param>",
    "}",
    "<tool_call>",
    "<function=",
    "<function name=\"",
    "<|tool_call>",
    "[TOOL_CALLS]",
    "</arg_value>",
    "ä<",
    "null",
    "a/b \\",
];

/// A random answer that the grammar allows, up to where it may end; `None` if it grew too long.
fn walk(tokens: &Tokens, lark: &str, random: &mut fastrand::Rng) -> Option<String> {
    let mut matcher = tokens.matcher(lark);
    let (mut answer, mut hint) = (Vec::new(), Vec::new());
    for _ in 0..3000 {
        if matcher.is_stopped() {
            return Some(String::from_utf8(answer).unwrap());
        }
        let mask = matcher.compute_mask().unwrap_or_else(|e| panic!("{e}: {}\n{lark}", String::from_utf8_lossy(&answer)));
        if mask.is_allowed(EOS) && random.u8(..) < 64 {
            return Some(String::from_utf8(answer).unwrap());
        }
        if hint.is_empty() && random.bool() {
            hint = tokens.ids(HINTS[random.usize(..HINTS.len())]);
            hint.reverse();
        }
        let allowed: Vec<u32> = (0..mask.len() as u32).filter(|id| *id != EOS && mask.is_allowed(*id)).collect();
        let next = match hint.pop().filter(|id| mask.is_allowed(*id)) {
            Some(id) => id,
            None if allowed.is_empty() => return mask.is_allowed(EOS).then(|| String::from_utf8(answer).unwrap()),
            None => {
                hint.clear();
                allowed[random.usize(..allowed.len())]
            }
        };
        matcher.consume_token(next).unwrap();
        answer.extend(tokens.spelled(next));
    }
    None
}

#[test]
fn whatever_a_grammar_lets_through_is_read_as_calls_that_obey() {
    let tools = walked();
    let seed = 7;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut calls = [0; 8];
    for special in [false, true] {
        for (dialect, reasoning, begins) in [
            (Dialect::Hermes, Reasoning::Think, true),
            (Dialect::QwenCoder, Reasoning::Think, false),
            (Dialect::Llama3, Reasoning::None, false),
            (Dialect::Mistral, Reasoning::Mistral, false),
            (Dialect::Gemma4, Reasoning::Gemma4, false),
            (Dialect::MiniCpm, Reasoning::Think, false),
            (Dialect::Glm, Reasoning::Think, true),
        ] {
            let tokens = Tokens::new(special.then_some(dialect));
            for choice in [Choice::Auto, Choice::Required, Choice::Named("act".to_owned())] {
                let lark = grammar(dialect, &tools, &choice, true, reasoning, begins, &|mark| tokens.id(mark)).unwrap();
                for _ in 0..6 {
                    let Some(answer) = walk(&tokens, &lark, &mut random) else { continue };
                    let all = whole(super::read(crate::Reader::new(dialect, reasoning, &tools, begins), [answer.as_str()]));
                    let shown = format!("seed {seed} {dialect:?} {choice:?} {special} {answer:?} {all:?}\n{lark}");
                    match choice {
                        Choice::Required => assert!(!all.calls.is_empty() && all.text.is_empty(), "{shown}"),
                        Choice::Named(_) => assert!(all.calls.len() == 1 && all.calls[0].name == "act" && all.text.is_empty(), "{shown}"),
                        _ => assert!(!dialect.opens().iter().any(|open| *open != "{" && all.text.contains(open)), "{shown}"),
                    }
                    for call in &all.calls {
                        assert!(obeys(&call.name, &serde_json::from_str(&call.arguments).unwrap()), "{shown}");
                    }
                    calls[dialect as usize] += all.calls.len();
                }
            }
        }
    }
    assert!(calls[1..].iter().all(|n| *n > 10), "too few calls to mean anything: {calls:?}");
}

#[test]
fn what_the_grammar_has_of_a_call_is_what_the_reader_takes_for_one() {
    for dialect in Dialect::ALL.iter().copied().filter(|d| *d != Dialect::Plain) {
        let arguments = json!({"city": "Ulm", "days": 3});
        let all = whole(pieces(dialect, Reasoning::None, false, &call(dialect, "get_weather", &arguments)));
        assert_eq!(serde_json::from_str::<Value>(&all.calls[0].arguments).unwrap(), arguments);
    }
}
