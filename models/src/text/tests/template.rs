//! Templates against jinja2, set up as transformers does.

use crate::text::TextError;
use crate::text::template::{ChatTemplates, DEFAULT};
use serde_json::{Map, Value, json};

fn templates(source: &str) -> ChatTemplates {
    let specials = json!({"bos_token": "<s>", "eos_token": "</s>"});
    let sources = vec![(DEFAULT.to_owned(), source.to_owned())];
    ChatTemplates::new(sources, specials.as_object().unwrap().clone()).unwrap()
}

fn render(case: &Value) -> Result<String, TextError> {
    let kwargs = case["kwargs"].as_object().cloned().unwrap_or_default();
    let messages = case["messages"].as_array().cloned().unwrap_or_default();
    templates(case["template"].as_str().unwrap()).render(&messages, &kwargs)
}

#[test]
fn every_case_renders_as_jinja2_renders_it() {
    check(&serde_json::from_str::<Vec<Value>>(include_str!("../testdata/templates.json")).unwrap());
}

/// Operators, attributes, tuples, filters, tests and methods: what minijinja does otherwise, a line each.
#[test]
fn expressions_mean_what_they_mean_in_python() {
    let mut cases: Vec<Value> = serde_json::from_str(include_str!("../testdata/jinja.json")).unwrap();
    let mut kwargs = cases.remove(0);
    let messages = kwargs.as_object_mut().unwrap().remove("messages").unwrap();
    for case in &mut cases {
        case["messages"] = messages.clone();
        case["kwargs"] = kwargs.clone();
    }
    check(&cases);
}

fn check(cases: &[Value]) {
    let mut wrong = Vec::new();
    for case in cases {
        match (render(case), case["want"].as_str()) {
            (Ok(got), Some(want)) if got == want => {}
            (Err(TextError::Template(_)), None) => {}
            (got, want) => wrong.push(format!("{}\n  got  {got:?}\n  want {want:?}", case["template"])),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_a_template_raises_is_the_whole_message() {
    let case = json!({"template": "{% if true %}{{ raise_exception('Roles must alternate') }}{% endif %}"});
    assert_eq!(render(&case).unwrap_err().to_string(), "chat template: Roles must alternate");
}

#[test]
fn a_template_that_does_not_parse_is_refused_with_its_name_and_line() {
    let error = ChatTemplates::new(vec![("tool_use".into(), "\n{% if %}".into())], Map::new());
    let error = error.map(|_| ()).unwrap_err();
    assert!(error.contains("tool_use") && error.contains(":2"), "{error}");
    for source in ["\n{{ 1 +\n }}", "a\n{{ x", "{# c\n #}{% set 1 = 2 %}", "\n{{ 'a }}", "\r\n{{ a ; b }}", "\n{% for x of y %}{% endfor %}"] {
        let error = ChatTemplates::new(vec![("default".into(), source.into())], Map::new()).map(|_| ()).unwrap_err();
        assert_eq!(error, "chat template \"default\": syntax error (in default:2)", "{source}");
    }
}

#[test]
fn tools_choose_the_template_that_is_named_for_them() {
    let source = |name: &str| (name.to_owned(), format!("{name} {{{{ tools }}}}"));
    let both = ChatTemplates::new(vec![source("default"), source("tool_use")], Map::new()).unwrap();
    let kwargs = |v: Value| v.as_object().unwrap().clone();
    assert_eq!(both.render(&[], &Map::new()).unwrap(), "default None");
    assert_eq!(both.render(&[], &kwargs(json!({"tools": null}))).unwrap(), "default None");
    assert_eq!(both.render(&[], &kwargs(json!({"tools": [1]}))).unwrap(), "tool_use [1]");
    let rag = ChatTemplates::new(vec![source("rag")], Map::new()).unwrap();
    let error = rag.render(&[], &Map::new()).unwrap_err().to_string();
    assert_eq!(error, "chat template: the model has none named \"default\", only rag");
    let none = ChatTemplates::new(vec![], Map::new()).unwrap();
    assert!(matches!(none.render(&[], &Map::new()), Err(TextError::NoTemplate)));
}

#[test]
fn generation_tags_leave_what_is_between_them() {
    // What is set within is gone after it, as in jinja2, where it is a block of its own.
    let case = json!({"template": "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}"});
    assert_eq!(render(&case).unwrap(), "1False");
    let case = json!({"template": "{%- generation -%} a {%- endgeneration %}{% if true %}\nb{% generation %}\nc{% endgeneration %}{% endif %}{{ '{%' }}"});
    assert_eq!(render(&case).unwrap(), "abc{%");
}

#[test]
fn an_error_names_the_line_it_comes_from() {
    let case = json!({"template": "{{ 1 +\n\n 2 }}\n{% set x = [\n 1,\n] %}\n{{ 'a' + 1 }}"});
    let error = render(&case).unwrap_err().to_string();
    assert!(error.contains("default:7"), "{error}");
}

#[test]
fn brackets_within_brackets_are_refused_and_not_followed() {
    for (open, close) in [("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("{1: ", "}"), ("x[", "]"), ("f(", ")")] {
        let source = format!("{{{{ {}1{} }}}}{{% set {} %}}", open.repeat(20_000), close.repeat(20_000), open.repeat(20_000));
        // Whatever comes of it, nothing runs out of stack.
        let _ = ChatTemplates::new(vec![(DEFAULT.to_owned(), source)], Map::new());
    }
    let long = format!("{{{{ {} }}}}", ["'a'"; 3000].join(" + "));
    assert_eq!(render(&json!({ "template": long })).unwrap(), "a".repeat(3000));
}

#[test]
fn a_stopped_clock_tells_its_time() {
    let mut templates = templates("{{ strftime_now('%Y') }}");
    templates.stop_clock(1_709_806_205);
    assert_eq!(templates.render(&[], &Map::new()).unwrap(), "2024");
}

#[test]
fn messages_cannot_be_replaced_but_defaults_can() {
    let case = json!({
        "template": "{{ messages | length }} {{ add_generation_prompt }}",
        "kwargs": {"messages": [1, 2, 3], "add_generation_prompt": false},
    });
    assert_eq!(render(&case).unwrap(), "0 False");
}

#[test]
fn a_template_that_writes_without_end_is_stopped() {
    let case = json!({"template": "{% for i in range(20000) %}{{ messages[0] }}{% endfor %}", "messages": ["ten thousand".repeat(1000)]});
    assert_eq!(render(&case).unwrap_err().to_string(), "chat template: it writes more than 100 MB");
    let loops = json!({"template": "{% for i in range(9999) %}{% for j in range(9999) %}{{ i * j }}{% endfor %}{% endfor %}"});
    let stopped = render(&loops).unwrap_err().to_string();
    assert!(stopped.contains("fuel"), "{stopped}");
}

#[test]
fn a_template_that_copies_without_end_is_stopped() {
    // Sixty doublings, each an instruction or three.
    let doubled = |set: &str, begin: &str, doubling: &str, then: &str| {
        format!("{{% set ns = namespace({set}={begin}) %}}{{% for i in range(60) %}}{{% set ns.{set} = {doubling} %}}{{% endfor %}}{{{{ {then} }}}}")
    };
    for source in [
        doubled("s", "'ab'", "ns.s ~ ns.s", "1"),
        doubled("s", "'ab'|safe", "ns.s + ns.s", "1"),
        doubled("s", "'ab'", "ns.s|replace('a', ns.s)", "1"),
        doubled("s", "'ab'", "[ns.s, ns.s]|join(ns.s)", "1"),
        doubled("s", "'ab'", "ns.s.join([ns.s, ns.s])", "1"),
        doubled("s", "'ab'", "'{}{}'.format(ns.s, ns.s)", "1"),
        doubled("s", "'ab'", "(ns.s ~ '\n')|indent(ns.s, true)", "1"),
        doubled("s", "'ab'", "'x'.ljust(1000, ns.s)", "1"),
        doubled("s", "'ab'", "{'a': ns.s, 'b': [ns.s]}|tojson", "1"),
        doubled("s", "'ab'", "{'a': ns.s, 'b': [ns.s]}|string", "1"),
        doubled("l", "[1]", "ns.l + ns.l", "1"),
        doubled("l", "[1]", "[ns.l, ns.l]", "ns.l"),
        doubled("l", "[1]", "[ns.l, ns.l]", "ns.l|tojson"),
        "{% set s = 'ab' * 1000000 %}{% for i in range(99999) %}{% set x = s.upper() %}{% endfor %}".into(),
        "{% set s = 'ab' * 1000000 %}{% for i in range(99999) %}{% set x = s[1:] %}{% endfor %}".into(),
    ] {
        let error = render(&json!({ "template": source })).unwrap_err().to_string();
        assert!(error.contains("it copies more than 200 MB") || error.contains("fuel"), "{source}: {error}");
    }
}
