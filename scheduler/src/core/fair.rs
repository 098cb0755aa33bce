//! Virtual token counters: each key is charged for what it was served, and the least charged one goes next.
//!
//! Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024 (VTC, weighted). An output token costs twice a
//! prompt token. A key that was idle starts at the least charge among the active keys: idleness earns no credit.

use crate::submit::KeyId;
use std::collections::BTreeMap;

const PROMPT_COST: u64 = 1;
const OUTPUT_COST: u64 = 2;

/// Charges are in 1/65536 of a token, so that a weight divides finely.
const SCALE: u64 = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Accounts {
    keys: BTreeMap<KeyId, Account>,
    /// Charge of the key that was the last to leave when no key was active: where the next one starts.
    floor: u64,
}

#[derive(Debug)]
struct Account {
    charged: u64,
    weight: u64,
    /// Rows that wait or run.
    rows: u32,
}

/// Charge for `prompt` tokens.
pub(super) fn prompt_charge(prompt: u32, weight: u32) -> u64 {
    (u64::from(prompt) * PROMPT_COST * SCALE).div_ceil(u64::from(weight.max(1)))
}

impl Accounts {
    /// One more row of `key`.
    pub(super) fn enter(&mut self, key: KeyId, weight: u32) {
        let start = self.least().unwrap_or(self.floor);
        let account = self.keys.entry(key).or_insert(Account { charged: 0, weight: 1, rows: 0 });
        if account.rows == 0 {
            account.charged = account.charged.max(start);
        }
        account.rows += 1;
        account.weight = u64::from(weight.max(1));
    }

    /// One row of `key` less.
    pub(super) fn leave(&mut self, key: KeyId) {
        let Some(account) = self.keys.get_mut(&key) else {
            return;
        };
        account.rows = account.rows.saturating_sub(1);
        let charged = account.charged;
        if let Some(least) = self.least() {
            self.forget_up_to(least);
        } else {
            self.floor = self.floor.max(charged);
            self.forget_up_to(self.floor);
        }
    }

    /// Idle keys that would start at `start` anyway need no account: keys that never come back take no memory.
    fn forget_up_to(&mut self, start: u64) {
        self.keys.retain(|_, account| account.rows > 0 || account.charged > start);
    }

    fn least(&self) -> Option<u64> {
        self.keys.values().filter(|a| a.rows > 0).map(|a| a.charged).min()
    }

    pub(super) fn charge_prompt(&mut self, key: KeyId, tokens: u32) {
        self.charge(key, u64::from(tokens) * PROMPT_COST);
    }

    pub(super) fn charge_output(&mut self, key: KeyId, tokens: u32) {
        self.charge(key, u64::from(tokens) * OUTPUT_COST);
    }

    fn charge(&mut self, key: KeyId, cost: u64) {
        if let Some(account) = self.keys.get_mut(&key) {
            account.charged += (cost * SCALE).div_ceil(account.weight);
        }
    }

    /// In 1/65536 of a weighted token.
    pub(super) fn charged(&self, key: KeyId) -> u64 {
        self.keys.get(&key).map_or(self.floor, |a| a.charged)
    }

    /// Keys with rows, by number.
    pub(super) fn active(&self) -> impl Iterator<Item = (KeyId, u32)> {
        self.keys.iter().filter(|(_, a)| a.rows > 0).map(|(k, a)| (*k, a.rows))
    }

    /// Whole weighted tokens, for people.
    pub(super) fn charged_tokens(&self, key: KeyId) -> u64 {
        self.charged(key) / SCALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyId = KeyId(1);
    const B: KeyId = KeyId(2);

    #[test]
    fn charges_by_weight() {
        let mut accounts = Accounts::default();
        accounts.enter(A, 1);
        accounts.enter(B, 4);
        accounts.charge_prompt(A, 100);
        accounts.charge_prompt(B, 100);
        accounts.charge_output(B, 50);
        assert_eq!(accounts.charged_tokens(A), 100);
        assert_eq!(accounts.charged_tokens(B), 50);
    }

    #[test]
    fn idleness_earns_no_credit() {
        let mut accounts = Accounts::default();
        accounts.enter(A, 1);
        accounts.charge_prompt(A, 1000);
        accounts.enter(B, 1);
        assert_eq!(accounts.charged_tokens(B), 1000, "starts at the least active charge");
        accounts.leave(B);
        accounts.charge_prompt(A, 500);
        accounts.leave(A);
        accounts.enter(B, 1);
        assert_eq!(accounts.charged_tokens(B), 1500, "starts where the last one left");
    }

    #[test]
    fn a_short_absence_keeps_the_debt() {
        let mut accounts = Accounts::default();
        accounts.enter(A, 1);
        accounts.enter(B, 1);
        accounts.charge_prompt(B, 1000);
        accounts.leave(B);
        accounts.enter(B, 1);
        assert_eq!(accounts.charged_tokens(B), 1000);
    }

    #[test]
    fn keys_that_left_take_no_memory() {
        let mut accounts = Accounts::default();
        for n in 0..1000 {
            accounts.enter(KeyId(n), 1);
            accounts.charge_prompt(KeyId(n), n);
            accounts.leave(KeyId(n));
        }
        assert!(accounts.keys.is_empty(), "{}", accounts.keys.len());
    }
}
