//! The gate: a request shows its secret and gets its key, or is told why not.

use super::file::{self, Entry, Hash, KeysError};
use super::rate::Bucket;
use crate::refusal::{Kind, Refusal};
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actors::Key;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// All keys. The file may be read again while requests are served.
#[derive(Debug)]
pub struct Keys {
    path: PathBuf,
    holders: RwLock<BTreeMap<Hash, Arc<Holder>>>,
    /// Numbers by name. A name keeps its number, and its tokens, when the file is read again: what it was served is not forgotten.
    known: Mutex<BTreeMap<String, (u32, Arc<AtomicU64>)>>,
}

/// One key, and what it has used.
#[derive(Debug)]
pub(crate) struct Holder {
    entry: Entry,
    key: Key,
    used: Mutex<Used>,
}

#[derive(Debug)]
struct Used {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// Of the key's tokens, those that the bucket knows of.
    tokens_counted: u64,
}

impl Keys {
    /// # Errors
    /// If the file cannot be read, or says something that cannot be.
    pub fn open(path: &Path) -> Result<Keys, KeysError> {
        let keys = Keys { path: path.into(), holders: RwLock::default(), known: Mutex::default() };
        keys.reload()?;
        Ok(keys)
    }

    /// Reads the file again. A key whose entry stays as it was keeps what it has used of its minute. Gives the number of keys.
    ///
    /// # Errors
    /// As [`Keys::open`]; what was there before stays in force then.
    pub fn reload(&self) -> Result<usize, KeysError> {
        let entries = file::read(&self.path)?;
        let before = self.holders.read().unwrap_or_else(PoisonError::into_inner).clone();
        let now = Instant::now();
        let holder = |(hash, entry): (Hash, Entry)| match before.get(&hash) {
            Some(same) if same.entry == entry => (hash, Arc::clone(same)),
            _ => (hash, Arc::new(self.holder(entry, now))),
        };
        let holders: BTreeMap<Hash, Arc<Holder>> = entries.into_iter().map(holder).collect();
        let count = holders.len();
        *self.holders.write().unwrap_or_else(PoisonError::into_inner) = holders;
        Ok(count)
    }

    fn holder(&self, entry: Entry, now: Instant) -> Holder {
        let mut known = lock(&self.known);
        // 0 is for everybody, where there are no keys.
        let next = known.len() as u32 + 1;
        let (number, tokens) = known.entry(entry.name.clone()).or_insert_with(|| (next, Arc::default())).clone();
        let used = Used {
            requests: entry.requests_per_minute.map(|n| Bucket::new(n, now)),
            tokens: entry.tokens_per_minute.map(|n| Bucket::new(n, now)),
            tokens_counted: tokens.load(Ordering::Relaxed),
        };
        let rows = entry.max_rows.map(|n| Arc::new(Semaphore::new(n as usize)));
        let key = Key { number, name: entry.name.as_str().into(), weight: entry.weight, rows, tokens };
        Holder { entry, key, used: Mutex::new(used) }
    }

    /// Every key's name.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        let holders = self.holders.read().unwrap_or_else(PoisonError::into_inner);
        holders.values().map(|holder| Arc::clone(&holder.key.name)).collect()
    }

    /// Whose secret the request shows, as a bearer token or, as Anthropic's clients do, in `x-api-key`.
    pub(crate) fn holder_of(&self, headers: &HeaderMap) -> Result<Arc<Holder>, Refusal> {
        let secret = secret(headers).ok_or_else(|| Refusal::new(Kind::NoKey, "no API key was sent; send it as `Authorization: Bearer KEY`"))?;
        let holders = self.holders.read().unwrap_or_else(PoisonError::into_inner);
        let holder = holders.get(&file::hash_of(secret)).cloned();
        holder.ok_or_else(|| Refusal { code: Some("invalid_api_key"), ..Refusal::new(Kind::NoKey, "the API key is not one of this server's") })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn secret(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, secret) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
    });
    bearer.or_else(|| headers.get("x-api-key")?.to_str().ok()).filter(|secret| !secret.is_empty())
}

impl Holder {
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.entry.admin
    }

    /// One more request now; or how long until there may be one, and what there is too much of.
    pub(crate) fn request(&self, now: Instant) -> Result<(), (Duration, String)> {
        let used = &mut *lock(&self.used);
        let tokens = self.key.tokens.load(Ordering::Relaxed);
        let new = tokens - std::mem::replace(&mut used.tokens_counted, tokens);
        if let Some(bucket) = &mut used.tokens {
            bucket.take(new as f64, now);
            // An answer's length is not known beforehand: whoever has not used up the minute may ask.
            let wait = bucket.wait(1.0, now);
            if !wait.is_zero() {
                return Err((wait, format!("this key may use {} tokens a minute", self.entry.tokens_per_minute.unwrap_or(0))));
            }
        }
        if let Some(bucket) = &mut used.requests {
            let wait = bucket.wait(1.0, now);
            if !wait.is_zero() {
                return Err((wait, format!("this key may send {} requests a minute", self.entry.requests_per_minute.unwrap_or(0))));
            }
            bucket.take(1.0, now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::{HeaderName, HeaderValue};

    fn header(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        headers
    }

    struct Written {
        folder: tempfile::TempDir,
        secrets: Vec<String>,
    }

    /// A file of these keys, each with further lines.
    fn written(keys: &[(&str, &str)]) -> Written {
        let folder = tempfile::tempdir().unwrap();
        let (secrets, entries): (Vec<_>, Vec<_>) = keys.iter().map(|(name, more)| file::fresh(name).map(|(s, e)| (s, e + more)).unwrap()).unzip();
        std::fs::write(folder.path().join("keys.toml"), entries.join("\n")).unwrap();
        Written { folder, secrets }
    }

    impl Written {
        fn path(&self) -> PathBuf {
            self.folder.path().join("keys.toml")
        }
    }

    #[test]
    fn a_secret_is_shown_in_either_way() {
        let file = written(&[("a", ""), ("b", "admin = true\n")]);
        let keys = Keys::open(&file.path()).unwrap();
        let name = |headers: &HeaderMap| keys.holder_of(headers).map(|h| (h.key().name.to_string(), h.is_admin()));
        let [a, b] = &file.secrets[..] else { panic!() };
        assert_eq!(name(&header("authorization", &format!("Bearer {a}"))).unwrap(), ("a".into(), false));
        assert_eq!(name(&header("authorization", &format!("bearer  {b}"))).unwrap(), ("b".into(), true));
        assert_eq!(name(&header("x-api-key", b)).unwrap(), ("b".into(), true));
        for headers in [header("authorization", a), header("authorization", "Bearer "), header("x-api-key", ""), HeaderMap::new()] {
            assert_eq!(name(&headers).unwrap_err().kind, Kind::NoKey);
        }
        assert_eq!(name(&header("x-api-key", &a[..a.len() - 1])).unwrap_err().code, Some("invalid_api_key"));
    }

    #[test]
    fn a_minute_of_requests_and_of_tokens() {
        let file = written(&[("a", "requests_per_minute = 2\n"), ("b", "tokens_per_minute = 60\n")]);
        let keys = Keys::open(&file.path()).unwrap();
        let [a, b] = [0, 1].map(|i| keys.holder_of(&header("x-api-key", &file.secrets[i])).unwrap());
        let now = Instant::now();
        assert_eq!([a.request(now), a.request(now)], [Ok(()), Ok(())]);
        let (wait, said) = a.request(now).unwrap_err();
        assert!(wait > Duration::from_secs(29) && wait <= Duration::from_secs(30) && said.contains("2 requests a minute"), "{wait:?} {said}");
        b.request(now).unwrap();
        b.key().tokens.fetch_add(100, Ordering::Relaxed);
        let (wait, said) = b.request(now).unwrap_err();
        assert!(wait > Duration::from_secs(40) && wait <= Duration::from_secs(41) && said.contains("60 tokens a minute"), "{wait:?} {said}");
        assert_eq!(b.request(now + Duration::from_secs(42)), Ok(()));
    }

    #[test]
    fn a_file_read_again_takes_force_or_leaves_all_as_it_was() {
        let file = written(&[("a", "requests_per_minute = 1\n"), ("b", "weight = 2\n")]);
        let keys = Keys::open(&file.path()).unwrap();
        let [a, b] = [0, 1].map(|i| header("x-api-key", &file.secrets[i]));
        let holder = |headers: &HeaderMap| keys.holder_of(headers);
        let now = Instant::now();
        holder(&a).unwrap().request(now).unwrap();
        let number = holder(&b).unwrap().key().number;

        let text = std::fs::read_to_string(file.path()).unwrap();
        std::fs::write(file.path(), text.replace("weight = 2", "weight = 5")).unwrap();
        assert_eq!(keys.reload().unwrap(), 2);
        assert!(holder(&a).unwrap().request(now).is_err(), "its minute is used");
        let again = holder(&b).unwrap();
        assert_eq!((again.key().number, again.key().weight), (number, 5));

        std::fs::write(file.path(), "[[key]]\nname = 3\n").unwrap();
        assert!(keys.reload().unwrap_err().to_string().contains("line 2"));
        assert_eq!(holder(&b).unwrap().key().weight, 5);

        let (_, only_b) = text.split_once("\n\n").unwrap();
        std::fs::write(file.path(), only_b).unwrap();
        keys.reload().unwrap();
        assert_eq!(holder(&a).unwrap_err().kind, Kind::NoKey);
        assert_eq!(holder(&b).unwrap().key().number, number);
    }
}
