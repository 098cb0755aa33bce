//! Answers of every family, well-formed and not, and the pieces they become.

use super::{pieces, read, short, tools};
use crate::{Dialect, Piece, Reader, Reasoning, whole};

fn check(dialect: Dialect, reasoning: Reasoning, rows: &[(&str, &[&str])]) {
    for (answer, expect) in rows {
        assert_eq!(short(&pieces(dialect, reasoning, false, answer)), *expect, "{answer:?}");
    }
}

#[test]
fn hermes() {
    let none: &[&str] = &[];
    check(
        Dialect::Hermes,
        Reasoning::None,
        &[
            ("", none),
            ("Hello, 1 < 2 <tool", &["\"Hello, 1 < 2 <tool"]),
            ("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>", &[r#"get_weather({"city": "Köln"})"#]),
            (
                "Two.\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\n<tool_call>{\"arguments\": {\"city\": \"}\\\"\"}, \"name\": \"get_weather\"}</tool_call>\n",
                &["\"Two.\n", "get_time({})", r#"get_weather({"city": "}\""})"#],
            ),
            // The other word for arguments, none at all, and arguments as a string.
            ("<tool_call>{\"name\": \"get_time\", \"parameters\": {}}</tool_call>", &["get_time({})"]),
            ("<tool_call>{\"name\": \"get_time\"}</tool_call>", &["get_time({})"]),
            ("<tool_call>{\"name\": \"get_time\", \"arguments\": null}</tool_call>", &["get_time({})"]),
            ("<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Ulm\\\"}\"}</tool_call>", &[r#"get_weather({"city": "Ulm"})"#]),
            // A line break within a string is no JSON, and is meant.
            ("<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\nb\"}}</tool_call>", &[r#"get_weather({"city": "a\nb"})"#]),
            // The closing mark is missing, or never comes.
            ("<tool_call>{\"name\": \"get_time\"}", &["get_time({})"]),
            ("<tool_call>{\"name\": \"get_time\"}\n</tool", &["get_time({})"]),
            ("<tool_call>{\"name\": \"get_time\"} Done.", &["get_time({})", "\" Done."]),
            // Not a call: nobody's name, no JSON, no name.
            ("<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>", &["\"<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>"]),
            ("<tool_call>get_time</tool_call>", &["\"<tool_call>get_time</tool_call>"]),
            ("<tool_call>{\"arguments\": {}}</tool_call>", &["\"<tool_call>{\"arguments\": {}}</tool_call>"]),
            (" <tool_call>\n<tool_call>{\"name\": \"get_time\"}</tool_call>", &["\" <tool_call>\n", "get_time({})"]),
            // Malformed behind its name, or cut.
            (
                "<tool_call>{\"name\": \"get_weather\", \"arguments\": {city}} Hm",
                &["get_weather({ !<tool_call>{\"name\": \"get_weather\", \"arguments\": {c", "\"ity}} Hm"],
            ),
            (
                "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ul",
                &["get_weather({\"city\": \"Ul !<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ul"],
            ),
            (
                "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\\ud800\"}}",
                &["get_weather({\"city\": \"\\ud800 !<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\\ud800\"", "\"}}"],
            ),
            (
                "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"days\": 1e999}}",
                &["get_weather({\"days\": 1e999 !<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"days\": 1e999}", "\"}"],
            ),
        ],
    );
}

#[test]
fn qwen_coder() {
    check(
        Dialect::QwenCoder,
        Reasoning::None,
        &[
            (
                "<tool_call>\n<function=get_weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
                &[r#"get_weather({"city":"Ulm","days":3})"#],
            ),
            ("On it.\n\n<function=get_time>\n</function>\n</tool_call>", &["\"On it.\n\n", "get_time({})"]),
            (
                "<tool_call>\n<function=edit>\n<parameter=path>\n12\n</parameter>\n<parameter=text>\n\n<b>\"a\"</b>\n</p\n\n</parameter>\n<parameter=force>\nTrue\n</parameter>\n<parameter=ratio>\n0.50\n</parameter>\n<parameter=tags>\n[\"x\"]\n</parameter>\n<parameter=at>\n{\"line\": 1}\n</parameter>\n<parameter=mode>\nnull\n</parameter>\n</function>\n</tool_call>",
                &[r#"edit({"path":"12","text":"\n<b>\"a\"</b>\n</p\n","force":true,"ratio":0.50,"tags":["x"],"at":{"line": 1},"mode":null})"#],
            ),
            // Values that are not what the schema says stay what they are.
            (
                "<function=get_weather><parameter=days>soon</parameter><parameter=more>[1]</parameter></function>",
                &[r#"get_weather({"days":"soon","more":[1]})"#],
            ),
            ("<tool_call><function=rm></function></tool_call>", &["\"<tool_call><function=rm></function></tool_call>"]),
            ("<tool_call>\n<function=get_time> now", &["get_time( !<tool_call>\n<function=get_time> n", "\"ow"]),
            ("<function=get_weather><parameter=city>U", &["get_weather({\"city\":\"U !<function=get_weather><parameter=city>U"]),
        ],
    );
}

#[test]
fn llama3() {
    check(
        Dialect::Llama3,
        Reasoning::None,
        &[
            (r#"{"name": "get_weather", "parameters": {"city": "Ulm"}}"#, &[r#"get_weather({"city": "Ulm"})"#]),
            (
                r#"<|python_tag|>{"type": "function", "name": "get_time", "parameters": {}}; {"name": "get_weather", "parameters": {"days": 1}}"#,
                &["get_time({})", r#"get_weather({"days": 1})"#],
            ),
            (r#"{"name": "get_time"}; then"#, &["get_time({})", "\"; then"]),
            (r#"{"city": "Ulm", "name": "get_time"}"#, &[r#""{"city": "Ulm", "name": "get_time"}"#]),
            (r#"So: {"name": "get_time"}"#, &[r#""So: {"name": "get_time"}"#]),
            ("<|python_tag|>brave_search.call(query=\"x\")", &["\"<|python_tag|>brave_search.call(query=\"x\")"]),
        ],
    );
}

#[test]
fn mistral() {
    check(
        Dialect::Mistral,
        Reasoning::Mistral,
        &[
            (
                r#"[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Ulm"}}, {"name": "get_time", "arguments": {}, "id": "abcdefghi"}]"#,
                &[r#"get_weather({"city": "Ulm"})"#, "get_time({})"],
            ),
            (
                r#"Sure.[TOOL_CALLS]get_weather[ARGS]{"city": "Ulm"}[TOOL_CALLS]get_time[CALL_ID]abcdefghi[ARGS]{}"#,
                &["\"Sure.", r#"get_weather({"city": "Ulm"})"#, "get_time({})"],
            ),
            (r#"[THINK]Which?[/THINK][TOOL_CALLS]get_time{}"#, &["~Which?", "get_time({})"]),
            ("[TOOL_CALLS][]", &["\"[TOOL_CALLS][]"]),
            ("[TOOL_CALLS]rm[ARGS]{}", &["\"[TOOL_CALLS]rm[ARGS]{}"]),
            (r#"[TOOL_CALLS][{"name": "get_time"}, {"name": "rm"}]"#, &["get_time({})", "\", {\"name\": \"rm\"}]"]),
            ("[TOOL_CALLS]get_time[ARGS]now", &["get_time( ![TOOL_CALLS]get_time[ARGS]n", "\"ow"]),
        ],
    );
}

#[test]
fn gemma4() {
    check(
        Dialect::Gemma4,
        Reasoning::Gemma4,
        &[
            ("<|tool_call>call:get_weather{city:<|\"|>Ulm, \"Neu\" <|{<|\"|>,days:3}<tool_call|>", &[r#"get_weather({"city":"Ulm, \"Neu\" <|{","days":3})"#]),
            (
                "<|channel>thought\nHm.\n<channel|>Both.<|tool_call>call:get_time{}<tool_call|><|tool_call>call:edit{at:{line:1,<|\"|>x<|\"|>:[]},force:true,path:<|\"|><|\"|>,tags:[<|\"|>a<|\"|>,<|\"|>b<|\"|>],text:12,mode:null}<tool_call|>",
                &["~Hm.", "\"Both.", "get_time({})", r#"edit({"at":{"line":1,"x":[]},"force":true,"path":"","tags":["a","b"],"text":"12","mode":null})"#],
            ),
            ("<|tool_call>call:get_weather{ city: \"U\\\"lm\" , days: soon }<tool_call|>", &[r#"get_weather({"city":"U\"lm","days":"soon"})"#]),
            ("<|tool_call>call:rm{}<tool_call|>", &["\"<|tool_call>call:rm{}<tool_call|>"]),
            ("<|tool_call>call:get_weather{city:}<tool_call|>", &["get_weather({\"city\": !<|tool_call>call:get_weather{city:}", "\"<tool_call|>"]),
            ("<|tool_call>call:get_weather{city:<|\"|>U<|", &["get_weather({\"city\":\"U !<|tool_call>call:get_weather{city:<|\"|>U<|"]),
            ("<|channel>thought\n<channel|>Hi", &["\"Hi"]),
        ],
    );
}

#[test]
fn mini_cpm() {
    check(
        Dialect::MiniCpm,
        Reasoning::Think,
        &[
            (
                r#"<function name="get_weather"><param name="city">Ulm</param><param name="days">3</param></function>"#,
                &[r#"get_weather({"city":"Ulm","days":3})"#],
            ),
            (
                "<think>\nEasy.\n</think>\n\n<function name=\"edit\"><param name=\"path\">a &amp; b&c</param><param name=\"text\"><![CDATA[<p>\n</param> &amp;]]></param></function>\n<function name=\"get_time\"></function>",
                &["~Easy.", r#"edit({"path":"a & b&c","text":"<p>\n</param> &amp;"})"#, "get_time({})"],
            ),
            (r#"<function name="rm"></function>"#, &[r#""<function name="rm"></function>"#]),
            (r#"<function name="get_time"><param>"#, &[r#"get_time( !<function name="get_time"><param>"#]),
        ],
    );
}

#[test]
fn glm() {
    check(
        Dialect::Glm,
        Reasoning::Think,
        &[
            (
                "<think>a</think>\nSure.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>\nUlm</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
                &["~a", "\"Sure.\n", r#"get_weather({"city":"\nUlm","days":3})"#],
            ),
            (
                "<tool_call>get_time</tool_call><tool_call>edit<arg_key>tags</arg_key><arg_value>[\"a\"]</arg_value><arg_key>text</arg_key><arg_value>a </b></arg_value></tool_call>",
                &["get_time({})", r#"edit({"tags":["a"],"text":"a </b>"})"#],
            ),
            ("<tool_call>rm</tool_call>", &["\"<tool_call>rm</tool_call>"]),
            ("<tool_call>get_time now</tool_call>", &["get_time( !<tool_call>get_time n", "\"ow</tool_call>"]),
        ],
    );
}

#[test]
fn reasoning_opens_an_answer_or_began_in_the_prompt() {
    let rows: [(bool, &str, &[&str]); 7] = [
        (false, "<think>\na <b>\n\nc\n</think>\n\nHi", &["~a <b>\n\nc", "\"Hi"]),
        (true, "\na\n</think>\n\nHi </think>", &["~a", "\"Hi </think>"]),
        (true, "a </thi", &["~a </thi"]),
        (true, "</think>\n", &[]),
        (false, "\n Hi <think>no", &["\"\n Hi <think>no"]),
        (true, "<tool_call>{\"name\": \"get_time\"}</tool_call>", &["~<tool_call>{\"name\": \"get_time\"}</tool_call>"]),
        (true, "x</think>\n<tool_call>{\"name\": \"get_time\"}</tool_call>", &["~x", "get_time({})"]),
    ];
    for (begins, answer, expect) in rows {
        assert_eq!(short(&pieces(Dialect::Hermes, Reasoning::Think, begins, answer)), expect, "{answer:?}");
    }
}

#[test]
fn without_tools_nothing_is_a_call() {
    for dialect in Dialect::ALL {
        let answer = " <tool_call>{\"name\": \"get_time\"}</tool_call>[TOOL_CALLS]\n";
        assert_eq!(read(Reader::new(*dialect, Reasoning::None, &[], false), [answer]), [Piece::Text(answer.to_owned())]);
    }
}

#[test]
fn names_and_arguments_are_given_out_as_soon_as_they_are_known() {
    let mut reader = Reader::new(Dialect::QwenCoder, Reasoning::None, &tools(), false);
    let call = |index, name: &str| Piece::Call { index, name: name.to_owned() };
    let arguments = |text: &str| Piece::Arguments { index: 0, text: text.to_owned() };
    let rows = [
        ("a <to", Piece::Text("a ".to_owned())),
        ("ol_call>\n<function=edit>", call(0, "edit")),
        ("\n<parameter=text>\nfn main", arguments("{\"text\":\"fn main")),
        (" {\n", arguments(" {")),
        ("}\n</par", arguments("\\n}")),
        ("ameter>", arguments("\"")),
        ("</function>", arguments("}")),
    ];
    for (portion, expect) in rows {
        assert_eq!(reader.push(portion), [expect], "{portion:?}");
    }
}

#[test]
fn a_malformed_call_is_text_in_its_place() {
    let answer = "a <tool_call>{\"name\": \"get_weather\", \"arguments\": [1]} b <tool_call>{\"name\": \"get_time\"}</tool_call>";
    let all = whole(pieces(Dialect::Hermes, Reasoning::None, false, answer));
    assert_eq!(all.text, "a <tool_call>{\"name\": \"get_weather\", \"arguments\": [1]} b ");
    assert_eq!(all.calls.iter().map(|c| (c.name.as_str(), c.arguments.as_str())).collect::<Vec<_>>(), [("get_time", "{}")]);
}
