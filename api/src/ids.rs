//! Names of requests: the client's `x-request-id` where it is sane, else one of ours.

use actix_web::http::header::HeaderValue;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a client's id that we carry along.
const CLIENT_ID_BYTES_MAX: usize = 128;

/// 32 hexadecimal digits that no other request of this process has: half a counter, mixed with keys that the process drew at its start.
/// They tell requests apart; they are no secret.
pub(crate) fn fresh() -> String {
    static KEYS: LazyLock<(RandomState, RandomState)> = LazyLock::new(|| (RandomState::new(), RandomState::new()));
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}{:016x}", KEYS.0.hash_one(n), KEYS.1.hash_one(n))
}

/// The client's id if it has 1 to 128 bytes, all visible ASCII: it goes into log lines and back into a header.
pub(crate) fn of_client(header: Option<&HeaderValue>) -> Option<String> {
    let bytes = header?.as_bytes();
    let sane = (1..=CLIENT_ID_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    sane.then(|| String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn only_sane_ids_are_taken() {
        let long = "x".repeat(129);
        let rows: [(&[u8], bool); 6] =
            [(b"a-1:b", true), (b"", false), (b"a b", false), ("é".as_bytes(), false), (&long.as_bytes()[..128], true), (long.as_bytes(), false)];
        for (bytes, taken) in rows {
            let value = HeaderValue::from_bytes(bytes).unwrap();
            assert_eq!(of_client(Some(&value)).is_some(), taken, "{bytes:?}");
        }
        assert_eq!(of_client(None), None);
    }

    #[test]
    fn fresh_ids_differ() {
        let ids: BTreeSet<String> = (0..1000).map(|_| fresh()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 32));
    }
}
