//! Tables of bodies: what is read from the good ones, what is said of the bad ones.

use super::*;
use actors::Choice;
use serde_json::json;

fn card() -> ModelCard {
    ModelCard { id: "team/tiny-1".into(), created_unix_s: 1, context_length: 128 }
}

/// A body that is good but for `extra`.
fn with(shape: Shape, extra: Value) -> Value {
    let mut body = match shape {
        Shape::Chat => json!({"messages": [{"role": "user", "content": "hi"}]}),
        Shape::Text => json!({"prompt": "hi"}),
    };
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn refused(shape: Shape, extra: &Value, kind: Kind, param: &str) {
    let refusal = read(shape, with(shape, extra.clone()), &card()).expect_err(&extra.to_string());
    assert_eq!((refusal.kind.clone(), refusal.param.as_deref()), (kind, Some(param)), "{extra}: {}", refusal.message);
    assert!(refusal.message.contains(param), "{extra}: the message does not name the field: {}", refusal.message);
}

#[test]
fn fields_out_of_range_or_of_the_wrong_type_are_named() {
    let rows = [
        (json!({"model": 7}), "model"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"max_tokens": "5"}), "max_tokens"),
        (json!({"max_tokens": 1.5}), "max_tokens"),
        (json!({"max_tokens": 4294967296u64}), "max_tokens"),
        (json!({"max_tokens": 1e300}), "max_tokens"),
        (json!({"max_completion_tokens": [1]}), "max_completion_tokens"),
        (json!({"max_tokens": 2, "min_tokens": 3}), "min_tokens"),
        (json!({"temperature": 2.1}), "temperature"),
        (json!({"temperature": -0.1}), "temperature"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"temperature": 1e308}), "temperature"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_p": 1e-60}), "top_p"),
        (json!({"top_p": 1.01}), "top_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"top_k": 1.5}), "top_k"),
        (json!({"min_p": 2}), "min_p"),
        (json!({"seed": "x"}), "seed"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"seed": 1e30}), "seed"),
        (json!({"stop": ""}), "stop"),
        (json!({"stop": 5}), "stop"),
        (json!({"stop": ["a", 5]}), "stop[1]"),
        (json!({"stop": ["a", ""]}), "stop[1]"),
        (json!({"stop": vec!["a"; 17]}), "stop"),
        (json!({"stream": "true"}), "stream"),
        (json!({"stream": 1}), "stream"),
        (json!({"stream_options": true}), "stream_options"),
        (json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage"),
        (json!({"ignore_eos": "no"}), "ignore_eos"),
        (json!({"min_tokens": -1}), "min_tokens"),
        (json!({"user": 5}), "user"),
        (json!({"n": 0}), "n"),
        (json!({"n": 129}), "n"),
        (json!({"n": "1"}), "n"),
        (json!({"presence_penalty": -2.5}), "presence_penalty"),
        (json!({"frequency_penalty": 3}), "frequency_penalty"),
        (json!({"repetition_penalty": 0}), "repetition_penalty"),
        (json!({"logit_bias": {"5": 101}}), "logit_bias.5"),
        (json!({"logit_bias": {"five": 1}}), "logit_bias"),
        (json!({"logit_bias": [5]}), "logit_bias"),
        (json!({"priority": "high"}), "priority"),
        (json!({"best_of": 2}), "best_of"),
        (json!({"adapter": "a"}), "adapter"),
        (json!({"response_format": {"type": "yaml"}}), "response_format.type"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
        (json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}), "response_format.json_schema.schema"),
        (json!({"response_format": {"type": "json_schema", "json_schema": {"schema": "string"}}}), "response_format.json_schema.schema"),
        (json!({"response_format": {"type": "json_object"}, "ignore_eos": true}), "ignore_eos"),
        (json!({"response_format": {"type": "json_object"}, "stop": "x"}), "stop"),
        (json!({"response_format": "text"}), "response_format"),
    ];
    for (extra, param) in rows {
        for shape in [Shape::Chat, Shape::Text] {
            refused(shape, &extra, Kind::Invalid, param);
        }
    }
}

#[test]
fn fields_of_one_endpoint_are_named() {
    let tool = json!([{"type": "function", "function": {"name": "f"}}]);
    let chat = [
        (json!({"messages": null}), "messages"),
        (json!({"messages": "hi"}), "messages"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": 1}]}), "messages[1].content"),
        (json!({"chat_template_kwargs": [1]}), "chat_template_kwargs"),
        (json!({"tools": {}}), "tools"),
        (json!({"tools": [5]}), "tools[0]"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
        (json!({"tools": [{"type": "function", "function": {"name": ""}}]}), "tools[0].function.name"),
        (json!({"tools": [{"type": "function", "function": {"name": "a b"}}]}), "tools[0].function.name"),
        (json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}), "tools[0].function.parameters"),
        (json!({"tools": [tool[0], tool[0]]}), "tools[1].function.name"),
        (json!({"tools": tool, "response_format": {"type": "json_object"}}), "response_format"),
        (json!({"tools": tool, "ignore_eos": true}), "ignore_eos"),
        (json!({"tools": tool, "parallel_tool_calls": 1}), "parallel_tool_calls"),
        (json!({"functions": tool}), "functions"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"tools": tool, "tool_choice": "all"}), "tool_choice"),
        (json!({"tools": tool, "tool_choice": {"type": "custom"}}), "tool_choice.type"),
        (json!({"tools": tool, "tool_choice": {"type": "function", "function": {"name": "g"}}}), "tool_choice.function.name"),
        (json!({"logprobs": 1}), "logprobs"),
        (json!({"top_logprobs": 5}), "top_logprobs"),
        (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs"),
        (json!({"reasoning_effort": "hard"}), "reasoning_effort"),
    ];
    let text = [
        (json!({"prompt": null}), "prompt"),
        (json!({"prompt": 5}), "prompt"),
        (json!({"prompt": []}), "prompt"),
        (json!({"prompt": ["a", "b"]}), "prompt"),
        (json!({"prompt": [[1], [2]]}), "prompt"),
        (json!({"prompt": [1, -2]}), "prompt[1]"),
        (json!({"prompt": [1, "a"]}), "prompt[1]"),
        (json!({"prompt": [[1, 2.5]]}), "prompt[0][1]"),
        (json!({"prompt": [{}]}), "prompt[0]"),
        (json!({"logprobs": 21}), "logprobs"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"echo": true}), "echo"),
        (json!({"suffix": "x"}), "suffix"),
    ];
    chat.iter().for_each(|(extra, param)| refused(Shape::Chat, extra, Kind::Invalid, param));
    text.iter().for_each(|(extra, param)| refused(Shape::Text, extra, Kind::Invalid, param));
}

#[test]
fn a_model_goes_by_three_names() {
    for name in [json!(null), json!("default"), json!("team/tiny-1"), json!("tiny-1")] {
        read(Shape::Chat, with(Shape::Chat, json!({"model": name})), &card()).unwrap();
    }
    for name in ["gpt-4o", "team", "tiny", "TINY-1", "", "team/tiny-1:adapter"] {
        refused(Shape::Text, &json!({"model": name}), Kind::NotFound, "model");
    }
}

#[test]
fn what_is_left_out_null_or_neutral_is_the_default() {
    let neutral = json!({
        "max_tokens": null, "temperature": null, "stop": null, "n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {},
        "response_format": {"type": "text"}, "tools": [], "tool_choice": "auto", "logprobs": false, "top_logprobs": 0, "stream": null,
        "stream_options": null, "user": "u", "echo": false, "suffix": "", "best_of": 1, "no_such_field": {"deep": [1]},
    });
    let chat = read(Shape::Chat, with(Shape::Chat, neutral.clone()), &card()).unwrap();
    assert_eq!(chat.params, Params::default());
    assert!(!chat.stream && !chat.include_usage);
    let text = read(Shape::Text, with(Shape::Text, neutral), &card()).unwrap();
    assert_eq!(text.params, Params { usual_tokens: Some(16), ..Params::default() });
    assert_eq!((chat.n, chat.form), (1, Form::default()));
    let unused = json!({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"});
    let unused = read(Shape::Chat, with(Shape::Chat, unused), &card()).unwrap();
    assert_eq!(unused.form, Form::default());
    let Prompt::Chat { kwargs, .. } = unused.prompt else { panic!("{:?}", unused.prompt) };
    assert!(kwargs.is_empty(), "what may not be called is not shown");
}

#[test]
fn every_field_arrives() {
    let body = json!({
        "max_tokens": 5, "max_completion_tokens": 9, "min_tokens": 2, "temperature": 0, "top_p": 0.5, "top_k": 40, "min_p": 0.25, "seed": -1,
        "stop": ["a", "b"], "stream": true, "stream_options": {"include_usage": true}, "ignore_eos": true, "chat_template_kwargs": {"thinking": false},
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.25, "logit_bias": {"7": -100, "3": 1.5, "07": 2}, "logprobs": true,
        "top_logprobs": 3, "priority": -2, "n": 3, "reasoning_effort": "low",
    });
    let wanted = read(Shape::Chat, with(Shape::Chat, body), &card()).unwrap();
    let params = Params {
        max_tokens: Some(9), // the newer name wins
        usual_tokens: None,
        min_tokens: 2,
        temperature: 0.0,
        top_p: 0.5,
        top_k: 40,
        min_p: 0.25,
        seed: Some(u64::MAX),
        stop: vec!["a".into(), "b".into()],
        ignore_eos: true,
        presence_penalty: 0.5,
        frequency_penalty: -0.5,
        repetition_penalty: 1.25,
        logit_bias: vec![(3, 1.5), (7, -100.0)],
        logprobs: Some(3),
        priority: -2,
    };
    assert_eq!(wanted.params, params);
    assert!(wanted.stream && wanted.include_usage && wanted.n == 3);
    let Prompt::Chat { messages, kwargs } = wanted.prompt else { panic!("{:?}", wanted.prompt) };
    assert_eq!(messages, [json!({"role": "user", "content": "hi"})]);
    assert_eq!(Value::Object(kwargs), json!({"thinking": false, "reasoning_effort": "low"}));
    let off = read(Shape::Text, json!({"prompt": "a", "top_k": -1, "seed": u64::MAX, "stop": "x"}), &card()).unwrap();
    assert_eq!((off.params.top_k, off.params.seed, off.params.stop), (0, Some(u64::MAX), vec!["x".to_owned()]));
}

#[test]
fn prompts_are_text_or_ids() {
    let rows =
        [(json!("a"), "Text(\"a\")"), (json!(["a"]), "Text(\"a\")"), (json!([1, 2.0]), "Ids([1, 2])"), (json!([[3]]), "Ids([3])"), (json!([[]]), "Ids([])")];
    for (prompt, read_as) in rows {
        let wanted = read(Shape::Text, json!({"prompt": prompt}), &card()).unwrap();
        assert_eq!(format!("{:?}", wanted.prompt), read_as);
    }
}

#[test]
fn a_very_long_conversation_is_read_whole() {
    let list: Vec<Value> = (0..100_000).map(|i| json!({"role": "user", "content": i.to_string()})).collect();
    let wanted = read(Shape::Chat, json!({"messages": list}), &card()).unwrap();
    let Prompt::Chat { messages, .. } = wanted.prompt else { panic!("{:?}", wanted.prompt) };
    assert_eq!(messages.len(), 100_000);
    assert_eq!(messages[99_999]["content"], "99999");
}

#[test]
fn tools_and_formats_arrive() {
    let parameters = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let tools = json!([
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": parameters, "strict": true}},
        {"function": {"name": "g-1"}},
    ]);
    let choices = [
        (json!(null), Choice::Auto),
        (json!("auto"), Choice::Auto),
        (json!("required"), Choice::Required),
        (json!({"type": "function", "function": {"name": "g-1"}}), Choice::Named("g-1".into())),
    ];
    for (choice, want) in choices {
        let body = json!({"tools": tools, "tool_choice": choice, "parallel_tool_calls": false});
        let wanted = read(Shape::Chat, with(Shape::Chat, body), &card()).unwrap();
        assert_eq!((&wanted.form.choice, wanted.form.parallel, wanted.form.tools.len()), (&want, false, 2));
        let empty = json!({"type": "object", "properties": {}});
        assert_eq!((wanted.form.tools[0].strict, &wanted.form.tools[1].parameters), (true, &empty));
        let Prompt::Chat { kwargs, .. } = wanted.prompt else { panic!("{:?}", wanted.prompt) };
        let shown = [
            json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": parameters}}),
            json!({"type": "function", "function": {"name": "g-1", "parameters": empty}}),
        ];
        assert_eq!(kwargs["tools"], json!(shown));
    }
    let schema = json!({"type": "array"});
    let formats = [
        (json!({"type": "json_object"}), json!({"type": "object"})),
        (json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}}), schema),
    ];
    for ((format, want), shape) in formats.iter().flat_map(|row| [(row, Shape::Chat), (row, Shape::Text)]) {
        let wanted = read(shape, with(shape, json!({"response_format": format})), &card()).unwrap();
        assert_eq!(wanted.form.grammar, Some(actors::Grammar::Schema(want.clone())));
    }
    let effort = read(Shape::Chat, with(Shape::Chat, json!({"reasoning_effort": "none"})), &card()).unwrap();
    let Prompt::Chat { kwargs, .. } = effort.prompt else { panic!("{:?}", effort.prompt) };
    assert_eq!(Value::Object(kwargs), json!({"enable_thinking": false}));
}
