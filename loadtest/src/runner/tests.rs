//! The pacer keeps its times, and ends when nobody listens.

use super::pacer::pace;
use std::time::{Duration, Instant};

#[test]
fn arrivals_are_given_out_in_order_and_never_early() {
    let start = Instant::now();
    let offsets = [0, 5, 5, 20].map(Duration::from_millis);
    let mut from = pace(start, offsets.into_iter().zip(0..));
    for (i, expect) in offsets.into_iter().enumerate() {
        let (offset, what) = from.blocking_recv().unwrap();
        assert_eq!((offset, what), (expect, i));
        assert!(start.elapsed() >= offset, "{i} came before it was due");
    }
    assert_eq!(from.blocking_recv(), None);
}

#[test]
fn a_pacer_of_endless_arrivals_ends_with_its_listener() {
    struct Ends(std::sync::mpsc::Sender<()>);
    impl Iterator for Ends {
        type Item = (Duration, ());
        fn next(&mut self) -> Option<Self::Item> {
            Some((Duration::ZERO, ()))
        }
    }
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let (to, ended) = std::sync::mpsc::channel();
    drop(pace(Instant::now(), Ends(to)));
    ended.recv().unwrap();
}
