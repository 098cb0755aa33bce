//! What a client sends to `/v1/chat/completions` and `/v1/completions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    api::fuzzing::body(bytes);
});
