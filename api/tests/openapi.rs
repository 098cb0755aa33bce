//! `/openapi.json` is true of the routes and of the fields that are read. Whether answers are as it says, `tests/clients` asks a live service.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Response, Server};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

fn document() -> Value {
    serde_json::from_str(include_str!("../openapi.json")).unwrap()
}

/// Every source of the crate, without its tests.
fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.file_stem().unwrap().to_string_lossy().ends_with("tests") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text.split("#[cfg(test)]").next().unwrap().to_owned()));
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
    found
}

/// The string that each occurrence of `before` is followed by.
fn strings_behind<'a>(text: &'a str, before: &str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.strip_prefix('"')?.split('"').next())
}

/// Names of all properties at or below a value.
fn properties(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            names.extend(map.get("properties").and_then(Value::as_object).into_iter().flat_map(|p| p.keys().cloned()));
            map.values().for_each(|inner| properties(inner, names));
        }
        Value::Array(list) => list.iter().for_each(|inner| properties(inner, names)),
        _ => {}
    }
}

fn ask(server: &Server, method: &str, path: &str) -> Response {
    let mut client = server.client();
    let body = if method == "get" { "" } else { "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}" };
    client.send(format!("{} {path} HTTP/1.1\r\nhost: x\r\n{body}{}", method.to_uppercase(), if body.is_empty() { "\r\n" } else { "" }).as_bytes());
    client.response()
}

#[test]
fn it_is_served_to_everybody_with_the_programs_version() {
    let server = Server::start();
    let served = ask(&server, "get", "/openapi.json");
    assert_eq!((served.status, served.header("content-type")), (200, Some("application/json")));
    assert_eq!(served.json(), document());
    assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
}

/// Both ways: what the table of routes has is written down, and what is written down answers.
#[test]
fn routes_and_paths_are_the_same() {
    let (_, table) = sources().into_iter().find(|(path, _)| path.ends_with("routes.rs")).unwrap();
    // `.service(post("/path", …` has one, `.service(scope)` none.
    let path = |rest: &str| Some(rest.split_once('(')?.1.strip_prefix('"')?.split('"').next()?.replace(":.*}", "}"));
    let routes: BTreeSet<String> = table.split(".service(").skip(1).filter_map(path).collect();
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(routes, paths.keys().cloned().collect());
    let server = Server::start();
    for (path, item) in paths {
        for method in METHODS {
            let parameters = item[method]["parameters"].as_array().or_else(|| item["get"]["parameters"].as_array());
            let asked = parameters.into_iter().flatten().fold(path.clone(), |asked, parameter| {
                let name = parameter["name"].as_str().unwrap();
                asked.replace(&format!("{{{name}}}"), parameter["example"].as_str().unwrap_or("none"))
            });
            let response = ask(&server, method, &asked);
            let code = (response.status >= 400).then(|| response.json()["error"]["code"].as_str() == Some("no_such_route"));
            assert_ne!(code, Some(true), "{method} {asked}");
            assert_eq!(response.status == 405, item.get(method).is_none(), "{method} {asked}: {}", response.status);
            let written = item[method]["responses"].get(response.status.to_string());
            assert!(response.status == 405 || written.is_some(), "{method} {asked}: {} is not written down", response.status);
        }
    }
}

#[test]
fn every_field_that_is_read_is_written_down() {
    let mut written = BTreeSet::new();
    properties(&document()["components"]["schemas"], &mut written);
    let mut count = 0;
    for (path, text) in sources().iter().filter(|(path, _)| !path.ends_with("fields.rs") && !path.ends_with("keys/file.rs")) {
        for reader in ["flag", "text", "list", "object", "integer", "number", "take"] {
            for name in strings_behind(text, &format!(".{reader}(")) {
                assert!(written.contains(name), "{}: {name} is read and not written down", path.display());
                count += 1;
            }
        }
    }
    assert!(count > 50, "the way in which fields are read has changed: {count}");
}

#[test]
fn nothing_refers_to_what_is_not_there() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|inner| references(inner, found));
            }
            Value::Array(list) => list.iter().for_each(|inner| references(inner, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
    }
    for kind in ["schemas", "responses", "headers"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            assert!(found.contains(&format!("#/components/{kind}/{name}")), "{kind}/{name} is not used");
        }
    }
}
