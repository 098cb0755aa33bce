//! Whatever an answer holds and however it is cut, the same pieces come, nothing is lost, and arguments are JSON objects.

use super::{joined, read, tools};
use crate::{Dialect, Piece, Reader, Reasoning, whole};
use proptest::prelude::*;

const FRAGMENTS: [&str; 67] = [
    "<tool_call>",
    "</tool_call>",
    "\n",
    " ",
    "{\"name\": \"",
    "get_weather",
    "get_time",
    "edit",
    "\", \"arguments\": ",
    "{}",
    "{\"city\": \"U\"}",
    "}",
    "{",
    "\"",
    "\\u00e4",
    "\\",
    "[",
    "]",
    ",",
    ";",
    "<function=",
    ">",
    "<parameter=",
    "city",
    "days",
    "</parameter>",
    "</function>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|tool_call>",
    "call:",
    "<|\"|>",
    "<tool_call|>",
    "<function name=\"",
    "\">",
    "<param name=\"",
    "</param>",
    "<![CDATA[",
    "]]>",
    "<think>",
    "</think>",
    "<|channel>thought",
    "<channel|>",
    "[THINK]",
    "[/THINK]",
    "ä",
    "12",
    "true",
    "null",
    ":",
    "<",
    "<tool",
    "</",
    "1e5",
    "-",
    "é\u{1}",
    "{\"name\": \"get_time\", \"arguments\": {}}",
    "<function=get_weather>\n<parameter=city>\nU\n</parameter>\n</function>",
    "call:edit{path:<|\"|>x<|\"|>}",
    "get_time[ARGS]{}",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "get_weather<arg_key>city</arg_key>",
];

fn answers() -> impl Strategy<Value = String> {
    prop::collection::vec(0..FRAGMENTS.len(), 0..24).prop_map(|picks| picks.into_iter().map(|i| FRAGMENTS[i]).collect())
}

/// `answer` cut at some of its characters.
fn cut<'a>(answer: &'a str, cuts: &[bool]) -> Vec<&'a str> {
    let (mut portions, mut from) = (Vec::new(), 0);
    for (i, (at, _)) in answer.char_indices().enumerate() {
        if cuts[i % cuts.len()] {
            portions.push(&answer[from..at]);
            from = at;
        }
    }
    portions.push(&answer[from..]);
    portions
}

/// Each call's arguments, joined, and whether it broke.
fn told(pieces: &[Piece]) -> Vec<(String, bool)> {
    let mut calls: Vec<(String, bool)> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Call { index, .. } => {
                assert_eq!(*index as usize, calls.len(), "indices count the calls that were begun");
                calls.push((String::new(), false));
            }
            Piece::Arguments { index, text } => calls[*index as usize].0.push_str(text),
            Piece::Broken { index, .. } => calls[*index as usize].1 = true,
            _ => {}
        }
    }
    calls
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_do_not_matter(answer in answers(), cuts in prop::collection::vec(any::<bool>(), 1..40), begins in any::<bool>()) {
        for dialect in Dialect::ALL {
            for reasoning in Reasoning::ALL {
                let reader = || Reader::new(*dialect, *reasoning, &tools(), begins);
                let at_once = read(reader(), [answer.as_str()]);
                prop_assert_eq!(&read(reader(), cut(&answer, &cuts)), &at_once);
                let calls: Vec<_> = told(&at_once).into_iter().filter(|(_, broken)| !broken).map(|(arguments, _)| arguments).collect();
                let all = whole(joined(at_once));
                prop_assert_eq!(all.calls.iter().map(|c| c.arguments.clone()).collect::<Vec<_>>(), calls);
                for call in all.calls {
                    let parsed: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
                    prop_assert!(parsed.is_object());
                }
            }
        }
    }

    #[test]
    fn plain_text_stays_as_it_is(answer in answers(), cuts in prop::collection::vec(any::<bool>(), 1..40)) {
        let all = whole(read(Reader::new(Dialect::Plain, Reasoning::None, &tools(), false), cut(&answer, &cuts)));
        prop_assert_eq!((all.text, all.reasoning.len(), all.calls.len()), (answer, 0, 0));
    }

    /// Where no call comes of it, every character of an answer is still there.
    #[test]
    fn nothing_is_lost(answer in answers()) {
        for dialect in Dialect::ALL {
            let all = whole(read(Reader::new(*dialect, Reasoning::None, &tools(), false), [answer.as_str()]));
            if all.calls.is_empty() {
                prop_assert_eq!(&all.text, &answer);
            }
        }
    }
}

#[test]
fn long_answers_take_time_in_proportion() {
    // Text, half marks, a long string and a long run of malformed calls: a reader that looked back would not come to an end.
    let unit = "<tool_call>{\"name\": \"rm\"} <tool_cal ]] </param> \n\n";
    for dialect in Dialect::ALL {
        let long = format!("{}<tool_call><function=edit><parameter=text>{}", unit.repeat(4000), "\n<".repeat(200_000));
        let all = whole(read(Reader::new(*dialect, Reasoning::Think, &tools(), false), long.split_inclusive('<')));
        assert!(all.text.len() + 1000 > long.len(), "{dialect:?}");
    }
}
