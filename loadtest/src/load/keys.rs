//! Which API key a request goes with: names for the report, secrets for the wire, weights for the mix. Pure.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What a server is shown and nobody else: not in a report, and not in a debug print.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Secret, Self::Err> {
        Ok(Secret::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One member of the mix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Key {
    /// None: a single key without a name, or none at all.
    pub name: Option<String>,
    #[serde(skip)]
    pub secret: Option<Secret>,
    /// Its share of requests is this over the sum.
    pub weight: f64,
}

/// Never empty: without keys it has one member that has no secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys(Vec<Key>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct KeysError {
    /// The option, or the line; never the text, which may be a secret.
    pub place: String,
    pub reason: String,
}

const FORM: &str = "it must be NAME=SECRET:WEIGHT, the name of letters, digits, - _ . and the weight a number greater than 0";

impl Keys {
    /// The values of `--key`: one secret, or members of a mix.
    pub fn of_options(options: &[Secret]) -> Result<Keys, KeysError> {
        let fail = |i: usize, reason: &str| KeysError { place: format!("--key number {}", i + 1), reason: reason.into() };
        match options {
            [] => Ok(Keys(vec![Key { name: None, secret: None, weight: 1.0 }])),
            [only] => Keys::of_one(only).map_err(|reason| fail(0, &reason)),
            _ => {
                let members = options.iter().enumerate().map(|(i, text)| Key::parse(text.expose()).ok_or_else(|| fail(i, FORM)));
                Keys::distinct(members.collect::<Result<_, _>>()?).map_err(|(i, reason)| fail(i, &reason))
            }
        }
    }

    /// A single `--key` is a secret as it is, unless it is a member, or would be one with another name or weight.
    fn of_one(text: &Secret) -> Result<Keys, String> {
        if text.expose().is_empty() || !text.expose().bytes().all(|b| b.is_ascii_graphic()) {
            return Err("a secret must have visible ASCII characters only".into());
        }
        match Key::parse(text.expose()) {
            Some(member) => Ok(Keys(vec![member])),
            None if Key::looks_like_one(text.expose()) => Err(format!("{FORM}; a secret that has = and ends in :NUMBER needs that form, too")),
            None => Ok(Keys(vec![Key { name: None, secret: Some(text.clone()), weight: 1.0 }])),
        }
    }

    /// A file with one member a line; empty lines and those that begin with # are left out.
    pub fn parse(text: &str) -> Result<Keys, KeysError> {
        let fail = |line: usize, reason: &str| KeysError { place: format!("line {line}"), reason: reason.into() };
        let mut lines = Vec::new();
        let mut members = Vec::new();
        for (i, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
            if !line.is_empty() && !line.starts_with('#') {
                members.push(Key::parse(line).ok_or_else(|| fail(i, FORM))?);
                lines.push(i);
            }
        }
        if members.is_empty() {
            return Err(fail(1, "the file has no key"));
        }
        Keys::distinct(members).map_err(|(i, reason)| fail(lines[i], &reason))
    }

    fn distinct(members: Vec<Key>) -> Result<Keys, (usize, String)> {
        for (i, key) in members.iter().enumerate() {
            if members[..i].iter().any(|other| other.name == key.name) {
                return Err((i, format!("the name {} is there twice", key.name.as_deref().unwrap_or_default())));
            }
        }
        Ok(Keys(members))
    }

    pub fn all(&self) -> &[Key] {
        &self.0
    }

    /// The index of the member for this draw of [0, 1).
    pub fn pick(&self, unit: f64) -> usize {
        let mut left = unit * self.0.iter().map(|key| key.weight).sum::<f64>();
        let found = self.0.iter().position(|key| {
            left -= key.weight;
            left < 0.0
        });
        // Rounding may leave a crumb.
        found.unwrap_or(self.0.len() - 1)
    }

    pub fn secret(&self, index: usize) -> Option<&Secret> {
        self.0[index].secret.as_ref()
    }

    /// A server's words without the secrets that it may repeat.
    pub fn redact(&self, text: String) -> String {
        let secrets = self.0.iter().filter_map(|key| key.secret.as_ref());
        secrets.fold(text, |text, secret| text.replace(secret.expose(), "…"))
    }
}

impl Key {
    /// `NAME=SECRET:WEIGHT`; a secret may have = and : in it.
    fn parse(text: &str) -> Option<Key> {
        let (name, rest) = text.split_once('=')?;
        let (secret, weight) = rest.rsplit_once(':')?;
        let weight: f64 = weight.parse().ok()?;
        let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        let usable = !secret.is_empty() && secret.bytes().all(|b| b.is_ascii_graphic());
        let weighs = weight > 0.0 && weight.is_finite();
        (named && usable && weighs).then(|| Key { name: Some(name.into()), secret: Some(Secret::new(secret)), weight })
    }

    /// There is a number where a weight would be.
    fn looks_like_one(text: &str) -> bool {
        let weight = text.split_once('=').and_then(|(_, rest)| rest.rsplit_once(':'));
        weight.is_some_and(|(_, weight)| weight.parse::<f64>().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::draw::{self, Purpose};

    fn options(texts: &[&str]) -> Result<Keys, KeysError> {
        Keys::of_options(&texts.iter().map(|t| Secret::new(*t)).collect::<Vec<_>>())
    }

    fn key(name: &str, secret: &str, weight: f64) -> Key {
        Key { name: Some(name.into()), secret: Some(Secret::new(secret)), weight }
    }

    #[test]
    fn one_key_is_a_secret_and_more_are_a_mix() {
        assert_eq!(options(&[]).unwrap().all(), [Key { name: None, secret: None, weight: 1.0 }]);
        for bare in ["sk-1", "YWJj==", "a=b", "a=b:c", "a:3"] {
            assert_eq!(options(&[bare]).unwrap().all(), [Key { name: None, secret: Some(Secret::new(bare)), weight: 1.0 }], "{bare}");
        }
        assert_eq!(options(&["ann=s=1:2:3"]).unwrap().all(), [key("ann", "s=1:2", 3.0)]);
        assert_eq!(options(&["ann=s:1", "bob=t:0.5"]).unwrap().all(), [key("ann", "s", 1.0), key("bob", "t", 0.5)]);
    }

    #[test]
    fn errors_name_the_place_and_keep_the_secret() {
        for (texts, place) in [
            (vec!["hunter2", "bob=hunter2:1"], "--key number 1"),
            (vec!["bob=hunter2:1", "ann=hunter2"], "--key number 2"),
            (vec!["bob=hunter2:1", "ann=hunter2:0"], "--key number 2"),
            (vec!["bob=hunter2:1", "bob=hunter2:2"], "--key number 2"),
            (vec!["hunter2 "], "--key number 1"),
            (vec!["ann=hunter2:0"], "--key number 1"),
            (vec!["ann=hunter2:-1"], "--key number 1"),
            (vec!["ann=hunter2:inf"], "--key number 1"),
            (vec!["a!=hunter2:1"], "--key number 1"),
            (vec!["=hunter2:1"], "--key number 1"),
            (vec![""], "--key number 1"),
        ] {
            let error = options(&texts).unwrap_err();
            assert_eq!(error.place, place, "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let error = Keys::parse("# team\nann=hunter2:1\n\nbob hunter2 1\n").unwrap_err();
        assert_eq!(error.place, "line 4");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert_eq!(Keys::parse("ann=a:1\n# x\nann=b:1").unwrap_err().place, "line 3");
        assert_eq!(Keys::parse("# nobody\n").unwrap_err().reason, "the file has no key");
        assert_eq!(Keys::parse(" ann=a:1 \n\n").unwrap().all(), [key("ann", "a", 1.0)]);
    }

    #[test]
    fn secrets_are_in_no_print() {
        let keys = options(&["ann=hunter2:1", "bob=hunter3:1"]).unwrap();
        assert!(!format!("{keys:?}").contains("hunter"), "{keys:?}");
        assert!(!serde_json::to_string(keys.all()).unwrap().contains("hunter"));
        assert_eq!(keys.redact("no key hunter2 here, nor hunter3".into()), "no key … here, nor …");
    }

    #[test]
    fn the_mix_has_the_proportions_of_the_weights() {
        let keys = options(&["a=s:5", "b=s:3", "c=s:2"]).unwrap();
        let mut counts = [0.0f64; 3];
        for i in 0..10_000 {
            counts[keys.pick(draw::unit(9, Purpose::Key, i))] += 1.0;
        }
        for (count, share) in counts.into_iter().zip([0.5, 0.3, 0.2]) {
            // Five standard deviations of a binomial.
            assert!((count - 1e4 * share).abs() < 5.0 * (1e4 * share * (1.0 - share)).sqrt(), "{counts:?}");
        }
        assert_eq!((keys.pick(0.0), keys.pick(0.999_999_999_999)), (0, 2));
    }
}
