//! The grammar of a stream, whatever the events.

use super::*;
use crate::openai::{Chunks, Head, Shape};
use actors::{Finish, Timings, Usage};
use futures_util::stream::{iter, pending};
use serde_json::Value;

fn head() -> Head {
    Head { shape: Shape::Chat, id: "chatcmpl-1".into(), created_unix_s: 1, model: "m".into() }
}

fn text(text: &str) -> Event {
    Event::Said { pieces: vec![Piece::Text(text.into())], tokens: 1, logprobs: Vec::new() }
}

fn done() -> Event {
    Event::Done { finish: Finish::Stop, stop: None, usage: Usage::default(), timings: Timings::default() }
}

fn of_one<S: Stream<Item = Event> + Unpin>(events: S) -> Frames<impl Stream<Item = Told> + Unpin> {
    Frames::new(events.map(|event| (0, event)), Box::new(Chunks::new(head(), 1, false, false)), 1, 3)
}

async fn frames(events: Vec<Event>) -> Vec<String> {
    let bytes: Vec<u8> = of_one(iter(events)).map(|b| b.unwrap().to_vec()).collect::<Vec<_>>().await.concat();
    let all = String::from_utf8(bytes).unwrap();
    assert!(all.ends_with("\n\n"), "{all:?}");
    all.trim_end().split("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap().to_owned()).collect()
}

fn parsed(frame: &str) -> Value {
    serde_json::from_str(frame).unwrap()
}

#[actix_web::test]
async fn role_then_text_then_reason_then_the_end_mark() {
    let got = frames(vec![text("a"), text("b"), done()]).await;
    assert_eq!(got.len(), 5, "{got:?}");
    assert_eq!(parsed(&got[0])["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(parsed(&got[1])["choices"][0]["delta"]["content"], "a");
    assert_eq!(parsed(&got[2])["choices"][0]["delta"]["content"], "b");
    assert_eq!(parsed(&got[3])["choices"][0]["finish_reason"], "stop");
    assert_eq!(got[4], "[DONE]");
}

#[actix_web::test]
async fn an_error_is_the_last_frame() {
    let failed = Event::Failed(Failure::Unavailable { message: "the model is being restarted".into(), retry_after_s: 1 });
    for (events, message) in [(vec![text("a"), failed, text("never"), done()], "the model is being restarted"), (vec![text("a")], "cut short")] {
        let got = frames(events).await;
        assert_eq!(got.len(), 3, "{got:?}");
        let error = &parsed(&got[2])["error"];
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
        assert_eq!(error["type"], "server_error");
    }
}

#[actix_web::test]
async fn many_ready_events_do_not_make_one_huge_write() {
    let events = iter((0..10_000).map(|_| text("0123456789")).chain([done()]));
    let sizes: Vec<usize> = of_one(events).map(|b| b.unwrap().len()).collect().await;
    assert!(sizes.len() > 10 && sizes.iter().all(|n| *n < WRITE_BYTES + 1024), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_every_15_seconds() {
    let mut frames = of_one(iter([text("a")]).chain(pending()));
    let start = Instant::now();
    let first = frames.next().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: ") && start.elapsed().is_zero());
    for n in 1..=3 {
        assert_eq!(frames.next().await.unwrap().unwrap(), ": ping\n\n");
        // The timer's grain is a millisecond.
        let late = start.elapsed() - PING_EVERY * n;
        assert!(late <= Duration::from_millis(u64::from(n)), "{late:?}");
    }
}

#[actix_web::test]
async fn a_whole_answer_joins_its_texts_and_keeps_its_errors() {
    let told = |events: Vec<Event>| iter(events.into_iter().map(|event| (0, event)));
    let choices = whole(told(vec![text("a"), text("é"), done()]), 1).await.unwrap();
    let body = Chunks::new(head(), 1, false, false).whole(choices);
    assert_eq!(parsed(&body)["choices"][0]["message"]["content"], "aé");
    let failed = Event::Failed(Failure::Fault { message: "m".into() });
    assert_eq!(whole(told(vec![text("a"), failed]), 1).await.unwrap_err().message, "m");
    assert!(whole(told(vec![text("a")]), 1).await.unwrap_err().message.contains("cut short"));
}

#[actix_web::test]
async fn choices_are_told_apart_and_end_together() {
    let events = vec![(1, text("b")), (0, text("a")), (1, done()), (0, text("c")), (0, done())];
    let voice = Chunks::new(head(), 2, true, false);
    let bytes = Frames::new(iter(events.clone()), Box::new(voice), 2, 3).map(|b| b.unwrap().to_vec()).collect::<Vec<_>>().await.concat();
    let all = String::from_utf8(bytes).unwrap();
    let chunks: Vec<Value> = all.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let of = |n: u64| chunks.iter().filter(|c| c["choices"][0]["index"] == n).filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect::<String>();
    assert_eq!((of(0), of(1)), ("ac".to_owned(), "b".to_owned()));
    assert!(all.ends_with("data: [DONE]\n\n") && all.matches(r#""finish_reason":"stop""#).count() == 2 && all.matches(r#""usage":{"#).count() == 1);
    let choices = whole(iter(events), 2).await.unwrap();
    let body = parsed(&Chunks::new(head(), 2, false, false).whole(choices));
    let said: Vec<&Value> = body["choices"].as_array().unwrap().iter().map(|choice| &choice["message"]["content"]).collect();
    assert_eq!(said, ["ac", "b"]);
}
