//! What a browser gets at `/`.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Client, Response, Server};

/// The files that the page asks for itself; its scripts name the rest, and a test beside the handler holds that list complete.
const FILES: [(&str, &str); 5] = [
    ("/", "text/html; charset=utf-8"),
    ("/console/style.css", "text/css; charset=utf-8"),
    ("/console/main.js", "text/javascript; charset=utf-8"),
    ("/console/theme.js", "text/javascript; charset=utf-8"),
    ("/console/icon.svg", "image/svg+xml"),
];

fn ask(client: &mut Client, method: &str, path: &str, known: Option<&str>) -> Response {
    let known = known.map(|tags| format!("if-none-match: {tags}\r\n")).unwrap_or_default();
    client.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{known}\r\n").as_bytes());
    // Neither of these has a body, whatever length is said.
    if method == "HEAD" || !known.is_empty() { client.head() } else { client.response() }
}

#[test]
fn the_page_and_its_files_come_with_a_strict_policy() {
    let server = Server::start();
    let mut client = server.client();
    for (path, content_type) in FILES {
        let response = ask(&mut client, "GET", path, None);
        assert_eq!((response.status, response.header("content-type")), (200, Some(content_type)), "{path}");
        let policy = response.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split(';').any(|p| p.trim() == part), "{path}: {part} is not in {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(response.header("cache-control"), Some("no-cache"), "{path}");
        assert!(!response.body.is_empty());
    }
    let missing = ask(&mut client, "GET", "/console/none.js", None);
    assert_eq!((missing.status, missing.json()["error"]["code"].as_str()), (404, Some("no_such_route")));
}

#[test]
fn a_probe_gets_the_head_and_nothing_else() {
    let server = Server::start();
    let mut client = server.client();
    for (path, content_type) in FILES {
        let whole = ask(&mut client, "GET", path, None);
        let head = ask(&mut client, "HEAD", path, None);
        assert_eq!((head.status, head.header("content-type")), (200, Some(content_type)), "{path}");
        assert_eq!(head.header("etag"), whole.header("etag"), "{path}");
        assert_eq!(head.header("content-length"), Some(whole.body.len().to_string().as_str()), "{path}");
    }
    // What stands next on the connection is an answer, not a body that was left over.
    assert_eq!(client.get("/livez").status, 200);
}

#[test]
fn what_a_browser_has_already_is_not_sent_again() {
    let server = Server::start();
    let mut client = server.client();
    for (path, _) in FILES {
        let tag = ask(&mut client, "GET", path, None).header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let response = ask(&mut client, "GET", path, Some(&known));
            assert_eq!((response.status, response.header("etag")), (304, Some(tag.as_str())), "{path} {known}");
            assert!(response.header("content-security-policy").is_some(), "{path}");
        }
        client.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\nif-none-match: \"other\"\r\n\r\n").as_bytes());
        let stale = client.response();
        assert_eq!((stale.status, stale.body.is_empty()), (200, false), "{path}");
    }
    assert_eq!(client.get("/livez").status, 200);
}

#[test]
fn other_methods_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")));
}
