//! Spans reach a collector: the whole tree of one request, under the client's own trace, with what happened on the way, and no text.

use crate::common::{Server, copy, tokenizer, until};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value::{DoubleValue, IntValue, StringValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Everything that was posted to it. Its thread ends with the process.
fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let posts = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&posts);
    thread::spawn(move || {
        for client in listener.incoming() {
            let to = Arc::clone(&to);
            // Kept open for more than one post.
            thread::spawn(move || {
                while let Some(post) = take(client.as_ref().unwrap()) {
                    to.lock().unwrap().extend(post)
                }
            });
        }
    });
    (endpoint, posts)
}

/// The body of one post, answered; None at the connection's end.
fn take(client: &TcpStream) -> Option<Vec<u8>> {
    let mut reader = BufReader::new(client);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    (&mut &*client).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    Some(body)
}

/// Messages of protobuf that stand one behind another are one, with the lists of all.
fn spans(posts: &Mutex<Vec<u8>>) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(&posts.lock().unwrap()[..]).unwrap();
    request.resource_spans.into_iter().flat_map(|r| r.scope_spans).flat_map(|s| s.spans).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_request_is_a_tree_of_spans_under_the_clients_trace() {
    let (_root, dir) = copy("llama_tied");
    tokenizer(&dir);
    let (endpoint, posts) = collector();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let server = Server::in_environment(&dir.to_string_lossy(), &["--name", "tiny", "--kv-budget", "10MB"], &environment);

    let text = "harbour lights";
    let body = format!(r#"{{"prompt":[5,6,7,8],"stop":["{text}"],"max_tokens":300,"ignore_eos":true,"stream":true,"seed":7,"top_k":5,"temperature":0.5}}"#);
    let mut client = TcpStream::connect(server.addr).unwrap();
    let head = format!("POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\n");
    client.write_all(format!("{head}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    until("a row that decodes", || (server.stats()["rows"][0]["generated_tokens"].as_u64()? > 3).then_some(()));
    let worker = server.stats()["worker"]["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::KILL).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("[DONE]"), "{answer}");

    let name = "text_completion tiny";
    let all = until("the spans", || Some(spans(&posts)).filter(|all| ["POST /v1/completions", name].iter().all(|n| all.iter().any(|s| s.name == *n))));
    let one = |name: &str| all.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {all:#?}"));
    let server_span = one("POST /v1/completions");
    assert_eq!((hex(&server_span.trace_id), hex(&server_span.parent_span_id)), (TRACE.into(), PARENT.into()));
    assert_eq!(server_span.kind, SpanKind::Server as i32);
    // Those before it, of /readyz and /stats, would have come first.
    assert_eq!(all.iter().filter(|span| span.kind == SpanKind::Server as i32).count(), 1, "{all:#?}");
    let whole = one(name);
    assert_eq!((whole.kind, &whole.parent_span_id), (SpanKind::Internal as i32, &server_span.span_id));
    for part in ["queue", "prefill", "decode"] {
        assert_eq!(one(part).parent_span_id, whole.span_id, "{part}");
    }
    let happened: Vec<&str> = one("decode").events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(happened, ["worker_lost", "resumed"]);

    let attribute = |span: &Span, key: &str| span.attributes.iter().find(|a| a.key == key).and_then(|a| a.value.clone()?.value);
    assert_eq!(attribute(server_span, "http.route"), Some(StringValue("/v1/completions".into())));
    assert_eq!(attribute(server_span, "http.response.status_code"), Some(IntValue(200)));
    for (key, value) in [
        ("gen_ai.operation.name", StringValue("text_completion".into())),
        ("gen_ai.request.model", StringValue("tiny".into())),
        ("gen_ai.request.max_tokens", IntValue(300)),
        ("gen_ai.request.temperature", DoubleValue(0.5)),
        ("gen_ai.request.top_p", DoubleValue(1.0)),
        ("gen_ai.request.top_k", IntValue(5)),
        ("gen_ai.request.seed", IntValue(7)),
        ("gen_ai.response.model", StringValue("tiny".into())),
        ("gen_ai.response.finish_reasons", StringValue("length".into())),
        ("gen_ai.usage.output_tokens", IntValue(300)),
    ] {
        assert_eq!(attribute(whole, key), Some(value), "{key}");
    }
    assert!(attribute(whole, "gen_ai.response.id").is_some() && attribute(whole, "gen_ai.usage.input_tokens").is_some());
    let raw = posts.lock().unwrap();
    assert!(!raw.windows(text.len()).any(|w| w == text.as_bytes()), "text of a request is in a span");
}
