//! A client that does not read: its row yields its place, and goes on with the same tokens once it reads.

use crate::house::{agrees, ask, empty, greedy, options, patiently, service, whole};
use actors::{Event, Params};

#[actix::test]
async fn who_does_not_read_yields_their_place_and_loses_nothing() {
    let service = service(512, options(2));
    let params = Params { ignore_eos: true, ..greedy(2_000) };
    let mut slow = service.ask(ask("who reads slowly", params.clone()));
    assert!(matches!(patiently(slow.next()).await, Some(Event::Began { .. })));
    // It runs ahead, and then stands still without a block, far from its end.
    let mut stats = service.watch();
    let paused = patiently(stats.wait_for(|stats| stats.preemptions == 1 && stats.running == 0 && stats.steps_in_flight == 0)).await.unwrap().clone();
    assert_eq!((paused.kv.rows_bytes, paused.waiting), (0, 1), "{paused:?}");
    let line = service.rows().pop().unwrap();
    assert!(line.generated_tokens > 200 && line.generated_tokens < 400, "{line:?}");
    // Whoever comes now has the machine for themselves.
    for i in 0..3 {
        let (prompt, params) = (format!("who reads at once {i}"), greedy(50));
        agrees(&prompt, &params, &whole(service.ask(ask(&prompt, params.clone()))).await.unwrap());
    }
    // What was on the device came yet; no more.
    let later = service.rows().pop().unwrap().generated_tokens;
    assert!(later <= line.generated_tokens + 2, "{later} of {line:?}: a paused row goes on");
    // Nothing is lost of what it reads now: `whole` wants the beginning, which was read above.
    let (mut text, mut end) = (String::new(), None);
    while let Some(event) = patiently(slow.next()).await {
        match event {
            Event::Said { pieces, .. } => text.push_str(&dialects::whole(pieces).text),
            Event::Done { usage, .. } => end = Some(usage.completion_tokens),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(end, Some(2_000));
    let same = whole(service.ask(ask("who reads slowly", params))).await.unwrap();
    assert_eq!(text, same.text);
    empty(&service).await;
}

#[actix::test]
async fn who_leaves_while_paused_leaves_nothing_behind() {
    let service = service(512, options(2));
    let slow = service.ask(ask("who never reads", Params { ignore_eos: true, ..greedy(2_000) }));
    let mut stats = service.watch();
    patiently(stats.wait_for(|stats| stats.preemptions == 1)).await.unwrap();
    drop(slow);
    empty(&service).await;
}
