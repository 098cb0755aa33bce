//! The console: a page for people, in the binary. It knows no more than any client: it asks the routes that everybody asks.
//!
//! Its files lie in `api/console/`. They are served as they are, without a build step, and all of them may be seen by anybody: a
//! key that the service wants is typed into the page, and goes where every client's key goes.

use crate::refusal::{Kind, Refusal};
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, EntityTag, IfNoneMatch, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};

/// Everything from here, and nothing from elsewhere; no markup from text (trusted types), no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

struct File {
    name: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! file {
    ($name:literal, $content_type:expr) => {
        File { name: $name, content_type: $content_type, text: include_str!(concat!("../console/", $name)) }
    };
}

/// At `/`.
static PAGE: File = file!("index.html", HTML);

/// At `/console/NAME`.
static PARTS: [File; 14] = [
    file!("style.css", CSS),
    file!("icon.svg", SVG),
    file!("theme.js", JS),
    file!("main.js", JS),
    file!("dom.js", JS),
    file!("server.js", JS),
    file!("settings.js", JS),
    file!("answer.js", JS),
    file!("chat.js", JS),
    file!("watch.js", JS),
    file!("metrics.js", JS),
    file!("batch.js", JS),
    file!("lanes.js", JS),
    file!("draw.js", JS),
];

pub(crate) async fn page(request: HttpRequest) -> HttpResponse {
    PAGE.response(&request)
}

pub(crate) async fn part(name: web::Path<String>, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    let found = PARTS.iter().find(|file| file.name == *name);
    let missing = || Refusal { code: Some("no_such_route"), ..Refusal::new(Kind::NotFound, "the console has no such file") };
    Ok(found.ok_or_else(missing)?.response(&request))
}

impl File {
    /// The file, or 304 if the browser has it. `no-cache` means: ask each time. Files of two versions never meet in one page.
    fn response(&self, request: &HttpRequest) -> HttpResponse {
        let tag = EntityTag::new_strong(format!("{:016x}", hash(self.text.as_bytes())));
        let known = match request.get_header::<IfNoneMatch>() {
            Some(IfNoneMatch::Any) => true,
            Some(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(&tag)),
            None => false,
        };
        let mut response = HttpResponse::build(if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
        response
            .insert_header((ETAG, tag.to_string()))
            .insert_header((CACHE_CONTROL, "no-cache"))
            .insert_header((CONTENT_SECURITY_POLICY, POLICY))
            .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .insert_header((REFERRER_POLICY, "no-referrer"))
            .insert_header(("cross-origin-opener-policy", "same-origin"))
            .insert_header(("cross-origin-resource-policy", "same-origin"));
        if known { response.finish() } else { response.content_type(self.content_type).body(self.text) }
    }
}

/// FNV-1a. Against files that change by mistake, not by design: they are the binary's own.
const fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What a text refers to as `console/NAME` or, between the scripts, as `./NAME`.
    fn references(text: &str) -> impl Iterator<Item = &str> {
        text.split('"').filter_map(|word| word.strip_prefix("console/").or_else(|| word.strip_prefix("./")))
    }

    #[test]
    fn the_page_and_its_scripts_name_every_part_and_no_other() {
        let parts: BTreeSet<&str> = PARTS.iter().map(|file| file.name).collect();
        let named: BTreeSet<&str> = PARTS.iter().chain([&PAGE]).flat_map(|file| references(file.text)).collect();
        assert_eq!(named, parts);
        let stored = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/console")).unwrap();
        let stored: BTreeSet<String> = stored.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name != PAGE.name).collect();
        assert_eq!(stored, parts.iter().map(|&name| name.to_owned()).collect());
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_is_put_in_as_markup() {
        for file in PARTS.iter().chain([&PAGE]) {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for word in ["://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\"", "onclick=\""] {
                assert!(!text.contains(word), "{} has {word} in it", file.name);
            }
        }
    }

    #[test]
    fn tags_tell_files_apart() {
        let tags: BTreeSet<u64> = PARTS.iter().chain([&PAGE]).map(|file| hash(file.text.as_bytes())).collect();
        assert_eq!(tags.len(), PARTS.len() + 1);
        // The published test vectors of FNV-1a, 64 bits.
        assert_eq!((hash(b""), hash(b"a"), hash(b"foobar")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8));
    }
}
