//! The grammar of a stream, whatever the events.

use super::*;
use crate::ask::Shape;
use actors::{Finish, Timings, Usage};
use futures_util::stream::{iter, pending};
use serde_json::Value;

fn head() -> Head {
    Head { shape: Shape::Chat, id: "chatcmpl-1".into(), created_unix_s: 1, model: "m".into() }
}

fn text(text: &str) -> Event {
    Event::Text { text: text.into(), tokens: 1 }
}

fn done() -> Event {
    Event::Done { finish: Finish::Stop, usage: Usage::default(), timings: Timings::default() }
}

async fn frames(events: Vec<Event>) -> Vec<String> {
    let bytes: Vec<u8> = Frames::new(iter(events), Voice::new(&head(), false)).map(|b| b.unwrap().to_vec()).collect::<Vec<_>>().await.concat();
    let all = String::from_utf8(bytes).unwrap();
    assert!(all.ends_with("\n\n"), "{all:?}");
    all.trim_end().split("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap().to_owned()).collect()
}

fn parsed(frame: &str) -> Value {
    serde_json::from_str(frame).unwrap()
}

#[actix_web::test]
async fn role_then_text_then_reason_then_the_end_mark() {
    let got = frames(vec![text("a"), text(""), text("b"), done()]).await;
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
    let sizes: Vec<usize> = Frames::new(events, Voice::new(&head(), false)).map(|b| b.unwrap().len()).collect().await;
    assert!(sizes.len() > 10 && sizes.iter().all(|n| *n < WRITE_BYTES + 1024), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_every_15_seconds() {
    let mut frames = Frames::new(iter([text("a")]).chain(pending()), Voice::new(&head(), false));
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
    let body = whole(iter([text("a"), text("é"), done()]), &head()).await.unwrap();
    assert_eq!(parsed(&body)["choices"][0]["message"]["content"], "aé");
    let failed = Event::Failed(Failure::Fault { message: "m".into() });
    assert_eq!(whole(iter([text("a"), failed]), &head()).await.unwrap_err().message, "m");
    assert!(whole(iter([text("a")]), &head()).await.unwrap_err().message.contains("cut short"));
}
