//! Without a subscriber anywhere in the process: a program of its own, since one that is set in another test's thread is heard here.

use metrics::traces;

#[test]
fn without_tracing_a_traceparent_changes_nothing() {
    let span = tracing::info_span!("chat");
    traces::adopt(&span, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None);
    assert!(span.is_disabled());
}
