//! What comes over the socket between server and worker, in both directions, until it is no frame.
#![no_main]

use models::wire::frame::Reader;
use models::wire::{FromWorker, ToWorker};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (mut to, mut from) = (Reader::new(bytes), Reader::new(bytes));
    while to.read::<ToWorker>().is_ok() {}
    while from.read::<FromWorker>().is_ok() {}
});
