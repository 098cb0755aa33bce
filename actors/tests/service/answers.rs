//! Answers are the model's, whatever else is running and however little memory there is.

use crate::house::{Whole, agrees, ask, cut, empty, greedy, options, oracle, patiently, service, text, whole};
use actors::{Ask, Event, Finish, Form, Key, Params, Prompt, Service};
use futures_util::future::join_all;
use serde_json::{Map, json};

pub(crate) fn prompts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{}{i} says: {}", "shared beginning ".repeat(i % 4), "word ".repeat(i * 7 % 50))).collect()
}

pub(crate) async fn all(service: &Service, prompts: &[String], params: &Params) -> Vec<Whole> {
    let answers = prompts.iter().map(|p| whole(service.ask(ask(p, params.clone()))));
    join_all(answers).await.into_iter().map(Result::unwrap).collect()
}

#[actix::test]
async fn one_request_is_answered() {
    let service = service(256, options(2));
    let params = [
        greedy(1),
        greedy(300),
        Params { ignore_eos: true, ..greedy(700) },
        Params { min_tokens: 290, ..greedy(300) },
        Params { temperature: 0.8, seed: Some(7), ..greedy(100) },
    ];
    for params in params {
        let got = whole(service.ask(ask("Hello, wörld", params.clone()))).await.unwrap();
        agrees("Hello, wörld", &params, &got);
        let t = got.timings;
        assert!(t.ttft_ms >= t.queue_ms && t.queue_ms >= 0.0 && t.seed == got.seed && t.restarts == 0, "{t:?}");
    }
    empty(&service).await;
}

#[actix::test]
async fn a_row_does_not_depend_on_its_neighbours_or_on_depth() {
    for depth in [1, 2] {
        let service = service(1024, options(depth));
        let params = Params { ignore_eos: true, ..greedy(60) };
        for (prompt, got) in prompts(16).iter().zip(all(&service, &prompts(16), &params).await) {
            agrees(prompt, &params, &got);
        }
        empty(&service).await;
    }
}

#[actix::test]
async fn a_chat_is_rendered_and_long_prompts_are_tokenized_aside() {
    let service = service(1024, options(2));
    let long = "long ".repeat(700);
    for content in ["hi", &long] {
        let messages = vec![json!({"role": "user", "content": content})];
        let prompt = Prompt::Chat { messages: messages.clone(), kwargs: Map::new() };
        let ids = service.tokens(prompt.clone()).unwrap();
        let chat =
            whole(service.ask(Ask { id: "chat".into(), prompt, params: greedy(20), key: Key::default(), answer: "answer".into(), form: Form::default() }))
                .await
                .unwrap();
        let same =
            Ask { id: "ids".into(), prompt: Prompt::Ids(ids.clone()), params: greedy(20), key: Key::default(), answer: "answer".into(), form: Form::default() };
        let by_ids = whole(service.ask(same)).await.unwrap();
        assert_eq!((chat.text, chat.usage.prompt_tokens), (by_ids.text, ids.len() as u32));
        assert!(by_ids.usage.cached_tokens >= (ids.len() as u32 - 1) / 32 * 32, "{:?}", by_ids.usage);
    }
}

#[actix::test]
async fn five_times_the_memory_is_answered_within_the_budget() {
    for depth in [1, 2] {
        // 32 rows of about 160 tokens and more want 5 blocks each and more; there are 32. `Watched` checks each step.
        let service = service(32, options(depth));
        let params = Params { ignore_eos: true, ..greedy(120) };
        let prompts = prompts(32);
        let got = all(&service, &prompts, &params).await;
        for (prompt, got) in prompts.iter().zip(&got) {
            agrees(prompt, &params, got);
        }
        let preemptions: u32 = got.iter().map(|g| g.timings.preemptions).sum();
        assert!(preemptions > 0, "the pool was never short: the test tests nothing");
        assert_eq!(service.stats().preemptions, u64::from(preemptions));
        empty(&service).await;
    }
}

#[actix::test]
async fn a_stop_string_is_cut_across_token_borders() {
    let service = service(256, options(2));
    let params = Params { ignore_eos: true, ..greedy(200) };
    let ids = oracle("stop me", &params, 0);
    let full = text().decode(&ids);
    let chars: Vec<char> = full.chars().collect();
    let mut tried = 0;
    for at in (10..chars.len() - 10).step_by(11) {
        // One token is one byte here, so three characters are at least three tokens.
        let stop: String = chars[at..at + 3].iter().collect();
        let want = &full[..full.find(&stop).unwrap()];
        let params = Params { stop: vec!["never said".into(), stop.clone()], ..params.clone() };
        let got = whole(service.ask(ask("stop me", params))).await.unwrap();
        assert_eq!((got.text.as_str(), got.finish), (want, Finish::Stop), "{stop:?}");
        let used = got.usage.completion_tokens as usize;
        assert!(text().decode(&ids[..used + 3]).contains(&stop) && used < 200, "{used}");
        tried += 1;
    }
    assert!(tried > 5);
    empty(&service).await;
}

#[actix::test]
async fn what_is_held_back_for_a_stop_string_comes_at_the_end() {
    let service = service(256, options(2));
    let params = Params { ignore_eos: true, ..greedy(50) };
    let full = cut(&oracle("held", &params, 0));
    let last = full.chars().last().unwrap();
    let params = Params { stop: vec![format!("{last}and more")], ..params };
    let got = whole(service.ask(ask("held", params))).await.unwrap();
    assert_eq!((got.text, got.finish), (full, Finish::Length));
}

#[actix::test]
async fn a_seed_is_enough_to_repeat_an_answer() {
    let service = service(256, options(2));
    let params = Params { temperature: 1.0, ignore_eos: true, ..greedy(40) };
    let first = whole(service.ask(ask("draw", params.clone()))).await.unwrap();
    let second = whole(service.ask(ask("draw", params.clone()))).await.unwrap();
    assert!(first.seed != second.seed && first.text != second.text);
    assert!(first.seed < 1 << 53);
    let again = Params { seed: Some(first.seed), ..params };
    assert_eq!(whole(service.ask(ask("draw", again))).await.unwrap().text, first.text);
}

#[actix::test]
async fn identical_prompts_share_their_prefix() {
    let service = service(256, options(2));
    let prompt = "the same long beginning of everybody ".repeat(6);
    let params = greedy(5);
    let prompts = vec![prompt.clone(); 8];
    let got = all(&service, &prompts, &params).await;
    let cached: u32 = got.iter().map(|g| g.usage.cached_tokens).sum();
    let whole_blocks = prompt.len() as u32 / 32 * 32;
    assert_eq!(cached, 7 * whole_blocks, "one of eight computes, seven share");
    for got in &got {
        agrees(&prompt, &params, got);
    }
}

#[actix::test]
async fn counts_reach_stats_and_metrics() {
    let service = service(256, options(2));
    let params = Params { ignore_eos: true, ..greedy(33) };
    let mut answer = service.ask(ask("count me", params));
    let mut seen = 0;
    while let Some(event) = patiently(answer.next()).await {
        seen += u32::from(matches!(event, Event::Said { .. }));
    }
    empty(&service).await;
    let stats = service.stats();
    assert_eq!((stats.tokens.prompt, stats.tokens.generated), (8, 33));
    assert!(seen > 0 && stats.steps >= 33 && stats.memory.active_bytes > 0);
    let text = service.metrics().unwrap().text();
    let wants = [
        "vllm:generation_tokens_total{model_name=\"synthetic\"} 33",
        "vllm:prompt_tokens_total{model_name=\"synthetic\"} 8",
        "vllm:num_requests_running{model_name=\"synthetic\"} 0",
        "vllm:inter_token_latency_seconds_count{model_name=\"synthetic\"} 32",
        "vllm:time_to_first_token_seconds_count{model_name=\"synthetic\"} 1",
    ];
    for want in wants {
        assert!(text.contains(want), "{want} is not in:\n{text}");
    }
}
