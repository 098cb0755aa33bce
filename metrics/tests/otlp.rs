//! Spans really arrive at a collector: a listener on loopback takes the post and decodes it with OTLP's own messages.
#![allow(clippy::unwrap_used)]

use metrics::traces;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use tracing_subscriber::layer::SubscriberExt;

struct Post {
    head: Vec<String>,
    body: Vec<u8>,
}

/// Takes one request and answers 200.
fn take_post(stream: TcpStream) -> Post {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_lowercase());
    }
    let length = head.iter().find_map(|h| h.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    Post { head, body }
}

#[test]
fn spans_arrive_under_the_clients_trace() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let collector = thread::spawn(move || take_post(listener.accept().unwrap().0));

    let (layer, guard) = traces::to_collector(&endpoint).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let span = tracing::info_span!("chat", otel.name = "chat tiny", gen_ai.request.model = "tiny", gen_ai.usage.output_tokens = tracing::field::Empty);
        traces::adopt(&span, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None);
        let _in = span.enter();
        tracing::info_span!("prefill").in_scope(|| tracing::info!("preempted"));
        tracing::debug_span!("too fine for a collector").in_scope(|| {});
        span.record("gen_ai.usage.output_tokens", 5);
    });
    drop(guard);

    let post = collector.join().unwrap();
    assert_eq!(post.head[0], "post /v1/traces http/1.1");
    assert!(post.head.contains(&"content-type: application/x-protobuf".to_owned()), "{:?}", post.head);
    let request = ExportTraceServiceRequest::decode(&post.body[..]).unwrap();
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    let service = resource.attributes.iter().find(|a| a.key == "service.name").unwrap();
    assert_eq!(service.value.as_ref().unwrap().value, Some(Value::StringValue("coxswain".into())));

    let spans: Vec<_> = request.resource_spans.iter().flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans).collect();
    let names: Vec<&str> = spans.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["prefill", "chat tiny"]);
    let (prefill, chat) = (spans[0], spans[1]);
    assert_eq!(chat.trace_id, 0x0af7651916cd43dd8448eb211c80319c_u128.to_be_bytes());
    assert_eq!(chat.parent_span_id, 0xb7ad6b7169203331_u64.to_be_bytes());
    assert_eq!(prefill.parent_span_id, chat.span_id);
    assert_eq!(prefill.events[0].name, "preempted");
    let value = |key| chat.attributes.iter().find(|a| a.key == key).unwrap().value.as_ref().unwrap().value.clone().unwrap();
    assert_eq!(value("gen_ai.request.model"), Value::StringValue("tiny".into()));
    assert_eq!(value("gen_ai.usage.output_tokens"), Value::IntValue(5));
}

#[test]
fn a_malformed_traceparent_starts_a_trace_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collector = thread::spawn(move || take_post(listener.accept().unwrap().0));
    let (layer, guard) = traces::to_collector(&endpoint).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let span = tracing::info_span!("chat");
        traces::adopt(&span, "00-nonsense", None);
        span.in_scope(|| {});
    });
    drop(guard);
    let request = ExportTraceServiceRequest::decode(&collector.join().unwrap().body[..]).unwrap();
    let span = &request.resource_spans[0].scope_spans[0].spans[0];
    assert!(span.parent_span_id.is_empty());
    assert_eq!(span.trace_id.len(), 16);
}

#[test]
fn tls_is_refused_with_a_reason() {
    let error = traces::to_collector::<tracing_subscriber::Registry>("https://collector:4318").err().unwrap();
    assert!(error.to_string().contains("must start with http://"), "{error}");
}
