//! Answers of a wanted form: grammars, calls of tools, several at once, log-probabilities, penalties.

use crate::answers::{all, prompts};
use crate::house::{agrees, ask, empty, greedy, options, oracle, patiently, service, text, whole};
use actors::{Answer, Ask, Choice, Event, Failure, Finish, Form, Grammar, Params, Piece, TokenLogprob, Tool};
use futures_util::future::{join, join_all};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({
        "type": "object", "required": ["name", "n"], "additionalProperties": false,
        "properties": {"name": {"type": "string", "maxLength": 8}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    })
}

fn json_of(prompt: &str, seed: u64) -> Ask {
    let params = Params { temperature: 1.0, seed: Some(seed), ..greedy(400) };
    Ask { form: Form { grammar: Some(Grammar::Schema(schema())), ..Form::default() }, ..ask(prompt, params) }
}

fn obeys(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text:?}"));
    let (name, n) = (value["name"].as_str().unwrap(), value["n"].as_u64().unwrap());
    assert!(name.chars().count() <= 8 && n <= 99 && value.as_object().unwrap().len() == 2, "{value}");
}

#[actix::test]
async fn rows_with_a_grammar_obey_it_and_their_neighbours_notice_nothing() {
    for depth in [1, 2] {
        // Room for a third of them: they are preempted, too.
        let service = service(48, options(depth));
        let params = Params { ignore_eos: true, ..greedy(60) };
        let plain = prompts(12);
        let guided = join_all((0..16).map(|i| whole(service.ask(json_of(&format!("json {i}"), i)))));
        let (guided, got) = join(guided, all(&service, &plain, &params)).await;
        for (prompt, got) in plain.iter().zip(&got) {
            agrees(prompt, &params, got);
        }
        let guided: Vec<_> = guided.into_iter().map(Result::unwrap).collect();
        for one in &guided {
            assert_eq!(one.finish, Finish::Stop, "{one:?}");
            obeys(&one.text);
        }
        // The same seed gives the same answer, alone as among others.
        let alone = whole(service.ask(json_of("json 3", 3))).await.unwrap();
        assert_eq!(alone.text, guided[3].text);
        empty(&service).await;
    }
}

#[actix::test]
async fn a_grammar_that_max_tokens_cuts_ends_with_length() {
    let service = service(64, options(2));
    let mut asked = json_of("cut", 1);
    asked.params.max_tokens = Some(4);
    let got = whole(service.ask(asked)).await.unwrap();
    assert_eq!((got.finish, got.usage.completion_tokens), (Finish::Length, 4));
}

#[actix::test]
async fn min_tokens_gives_way_to_a_grammar_that_is_at_its_end() {
    let service = service(64, options(2));
    let mut asked = json_of("short", 1);
    asked.form.grammar = Some(Grammar::Schema(json!({"enum": [1, "two"]})));
    asked.params.min_tokens = 30;
    let got = whole(service.ask(asked)).await.unwrap();
    assert_eq!(got.finish, Finish::Stop);
    assert!(["1", "\"two\""].contains(&got.text.trim()), "{:?}", got.text);
}

#[actix::test]
async fn a_cut_shows_no_half_character_and_keeps_a_call_as_far_as_it_came() {
    let mut options = options(2);
    options.dialect = Some(actors::Dialect::Hermes);
    let service = service(256, options);
    let long = json!({"type": "object", "required": ["x"], "properties": {"x": {"type": "string", "minLength": 200}}});
    let form = Form { tools: vec![Tool { parameters: long, ..tool() }], choice: Choice::Required, parallel: false, grammar: None };
    let prompt = actors::Prompt::Chat { messages: vec![json!({"role": "user", "content": "call"})], kwargs: serde_json::Map::new() };
    for seed in 0..8 {
        let params = Params { temperature: 1.0, seed: Some(seed), ..greedy(120) };
        let (pieces, finish) = pieces_of(service.ask(Ask { form: form.clone(), prompt: prompt.clone(), ..ask("", params) })).await;
        let said = dialects::whole(pieces.clone());
        assert_eq!((finish, said.text.as_str(), said.calls.len()), (Finish::Length, "", 1), "{pieces:?}");
        assert!(!said.calls[0].arguments.contains(char::REPLACEMENT_CHARACTER), "{said:?}");
    }
}

#[actix::test]
async fn a_schema_that_cannot_be_followed_names_its_field() {
    let service = service(64, options(2));
    let wrong = Form { grammar: Some(Grammar::Schema(json!({"type": "string", "pattern": "("}))), ..Form::default() };
    let Err(Failure::Invalid { param, code, .. }) = whole(service.ask(Ask { form: wrong, ..ask("x", greedy(5)) })).await else { panic!("it was taken") };
    assert_eq!((param, code), ("response_format", "invalid_schema"));
    empty(&service).await;
}

fn tool() -> Tool {
    Tool { name: "look_up".into(), description: None, parameters: schema(), strict: false }
}

async fn pieces_of(mut answer: Answer) -> (Vec<Piece>, Finish) {
    let mut all = Vec::new();
    loop {
        match patiently(answer.next()).await.unwrap() {
            Event::Began { .. } => {}
            Event::Said { pieces, .. } => all.extend(pieces),
            Event::Done { finish, .. } => return (all, finish),
            Event::Failed(failure) => panic!("{failure:?}"),
        }
    }
}

#[actix::test]
async fn a_call_that_is_asked_for_comes_and_obeys_its_schema() {
    let mut options = options(2);
    options.dialect = Some(actors::Dialect::Hermes);
    let service = service(256, options);
    for (i, choice) in [Choice::Required, Choice::Named("look_up".into())].into_iter().enumerate() {
        let form = Form { tools: vec![tool()], choice, parallel: false, grammar: None };
        let prompt = actors::Prompt::Chat { messages: vec![json!({"role": "user", "content": "call"})], kwargs: serde_json::Map::new() };
        let params = Params { temperature: 1.0, seed: Some(i as u64), ..greedy(400) };
        let (pieces, finish) = pieces_of(service.ask(Ask { form, prompt, ..ask("", params) })).await;
        let said = dialects::whole(pieces.clone());
        assert_eq!((finish, said.calls.len(), said.text.as_str()), (Finish::Calls, 1, ""), "{pieces:?}");
        assert_eq!(said.calls[0].name, "look_up");
        obeys(&said.calls[0].arguments);
        assert!(pieces.len() > 3, "the arguments grow: {pieces:?}");
    }
}

#[actix::test]
async fn several_answers_have_seeds_that_follow_one_another_and_share_the_prompt() {
    let service = service(256, options(2));
    let prompt = "a prompt of several blocks ".repeat(10);
    let params = Params { temperature: 0.8, seed: Some(40), ignore_eos: true, ..greedy(30) };
    let answers = service.ask_all(ask(&prompt, params.clone()), 3);
    let got = join_all(answers.into_iter().map(whole)).await;
    let mut computed = 0;
    for (i, got) in (0..).zip(got) {
        let got = got.unwrap();
        agrees(&prompt, &Params { seed: Some(40 + i), ..params.clone() }, &got);
        computed += got.usage.prompt_tokens - got.usage.cached_tokens;
    }
    let whole_prompt = service.encode(&prompt).unwrap().len() as u32;
    assert!(computed < 2 * whole_prompt, "{computed} tokens of a prompt of {whole_prompt} were computed");
    let too_many = service.ask_all(ask("x", greedy(1)), 100_000);
    assert!(matches!(join_all(too_many.into_iter().map(whole)).await[..], [Err(Failure::Invalid { param: "n", .. })]));
    empty(&service).await;
}

#[actix::test]
async fn log_probabilities_are_of_the_tokens_that_are_told() {
    let service = service(64, options(2));
    let params = Params { logprobs: Some(2), ignore_eos: true, ..greedy(40) };
    let mut answer = service.ask(ask("say", params.clone()));
    let mut all: Vec<TokenLogprob> = Vec::new();
    while let Some(event) = patiently(answer.next()).await {
        if let Event::Said { tokens, logprobs, .. } = event {
            assert_eq!(tokens as usize, logprobs.len());
            all.extend(logprobs);
        }
    }
    let ids = oracle("say", &params, 0);
    let bytes: Vec<Vec<u8>> = ids.iter().map(|id| text().token_bytes(*id).unwrap()).collect();
    let told: Vec<Vec<u8>> = all.iter().map(|token| token.bytes.clone()).collect();
    assert_eq!(told, bytes[..told.len()]);
    assert!(told.len() + 4 > bytes.len() && all.iter().all(|token| token.top.len() == 2 && token.top[0].1 == token.logprob));
}

#[actix::test]
async fn penalties_and_biases_reach_the_draw_with_every_token_known() {
    // What the synthetic model does with edits is mixed into its hash: only the very same edits give the very same tokens.
    let service = service(64, options(2));
    let wanted = Params { presence_penalty: 0.5, repetition_penalty: 1.5, logit_bias: vec![(7, 1.0)], ignore_eos: true, ..greedy(30) };
    let got = whole(service.ask(ask("penalties", wanted.clone()))).await.unwrap();
    let again = whole(service.ask(ask("penalties", wanted.clone()))).await.unwrap();
    let without = whole(service.ask(ask("penalties", Params { repetition_penalty: 1.0, ..wanted }))).await.unwrap();
    assert_eq!(got.text, again.text);
    assert_ne!(got.text, without.text);
    let unknown = Params { logit_bias: vec![(4_000_000_000, 1.0)], ..greedy(5) };
    assert!(matches!(whole(service.ask(ask("x", unknown))).await, Err(Failure::Invalid { param: "logit_bias", .. })));
}
