//! Virtual token counters: each key is charged for what it was served, and the least charged one goes next.
//!
//! Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024 (VTC, weighted). An output token costs twice a
//! prompt token. A key that had no row waiting starts at the least charge among the keys that wait, or, if none does, no lower than
//! the last one that did: neither idleness earns credit, nor asking for less than one's share. So of keys that wait, none is ahead of
//! another by more than what a full batch of some key's rows costs (S8; `loadtest/src/sim/bound.rs` derives it).
//!
//! That alone would let ever new keys, each the least charged one, keep an old key waiting as long as they come. So there is a
//! clock as well, which goes as fast as the charge of a key would that had its share of what is served while somebody waits (virtual
//! time: Demers, Keshav and Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM 1989), and from where the first
//! one stood that had to wait. No key without rows starts before it: once it has passed an old key's charge, whoever is new goes after
//! that key. But no key starts after all those that wait, either: rows that run cannot be taken their places, so a key that waits may be
//! served less than the clock says. Of keys charged alike, those go first that came before the clock had passed them and were charged
//! nothing since, so that a new key does not stand behind a flood; then those with fewer rows in the batch; then the row that came first.
//! Were new keys always first, they could keep the last one that waits waiting: these can until the clock has passed it.

use crate::submit::KeyId;
use std::collections::BTreeMap;

const PROMPT_COST: u64 = 1;
const OUTPUT_COST: u64 = 2;

/// Charges are in 1/65536 of a token, so that a weight divides finely.
const SCALE: u64 = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Accounts {
    keys: BTreeMap<KeyId, Account>,
    /// The largest charge of a key whose row was the last to wait, or the last of all, when it went: no key starts below.
    floor: u64,
    /// Of the keys with rows.
    active_weight: u64,
    /// Rows that wait.
    waiting: u32,
    clock: u64,
}

#[derive(Debug)]
struct Account {
    charged: u64,
    weight: u64,
    /// Rows that wait or run.
    rows: u32,
    /// Of them those that were never admitted.
    waiting: u32,
    /// With no row in the batch it began to wait where others stood that the clock had not passed, and was charged nothing since.
    new: bool,
}

impl Account {
    /// Its part of the weight of keys with rows.
    fn active_weight(&self) -> u64 {
        if self.rows > 0 { self.weight } else { 0 }
    }
}

/// In the order of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    charged: u64,
    old: bool,
    /// Rows that were admitted and have not ended.
    running: u32,
}

impl Standing {
    /// Once one more row is admitted.
    pub(super) fn after(self, prompt: u32, weight: u32) -> Standing {
        Standing { charged: self.charged + prompt_charge(prompt, weight), old: true, running: self.running + 1 }
    }
}

/// Charge for `prompt` tokens.
fn prompt_charge(prompt: u32, weight: u32) -> u64 {
    (u64::from(prompt) * PROMPT_COST * SCALE).div_ceil(u64::from(weight.max(1)))
}

impl Accounts {
    /// One more row of `key`.
    pub(super) fn enter(&mut self, key: KeyId, weight: u32) {
        let runs = self.keys.get(&key).is_some_and(|account| account.rows > 0);
        let start = self.start(runs);
        let account = self.keys.entry(key).or_insert(Account { charged: 0, weight: 1, rows: 0, waiting: 0, new: false });
        if account.waiting == 0 {
            account.new = !runs && account.charged <= start && self.clock <= start;
            account.charged = account.charged.max(start);
        }
        if self.waiting == 0 {
            // It stood still while nobody waited.
            self.clock = self.clock.max(account.charged);
        }
        self.active_weight -= account.active_weight();
        account.rows += 1;
        account.waiting += 1;
        account.weight = u64::from(weight.max(1));
        self.active_weight += account.active_weight();
        self.waiting += 1;
    }

    /// A row of `key` with so many tokens in its prompt is admitted for the first time.
    pub(super) fn admit(&mut self, key: KeyId, prompt: u32) {
        self.charge(key, u64::from(prompt) * PROMPT_COST);
        self.stop_waiting(key);
    }

    fn stop_waiting(&mut self, key: KeyId) {
        if let Some(account) = self.keys.get_mut(&key) {
            account.waiting -= 1;
            self.waiting -= 1;
            if self.waiting == 0 {
                self.floor = self.floor.max(account.charged);
            }
        }
    }

    /// One row of `key` less; `waited`: it was never admitted.
    pub(super) fn leave(&mut self, key: KeyId, waited: bool) {
        if waited {
            self.stop_waiting(key);
        }
        let Some(account) = self.keys.get_mut(&key) else {
            return;
        };
        self.active_weight -= account.active_weight();
        account.rows -= 1;
        self.active_weight += account.active_weight();
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

    /// Where a key starts that had no row waiting. One whose rows run will be charged for them yet, on top of that: it starts with the
    /// first.
    fn start(&self, runs: bool) -> u64 {
        let waiting = || self.keys.values().filter(|a| a.waiting > 0).map(|a| a.charged);
        match (waiting().min(), waiting().max()) {
            (Some(first), Some(_)) if runs => first,
            (Some(first), Some(last)) => self.clock.clamp(first, last),
            _ => self.least().unwrap_or(0).max(self.floor),
        }
    }

    fn least(&self) -> Option<u64> {
        self.keys.values().filter(|a| a.rows > 0).map(|a| a.charged).min()
    }

    pub(super) fn charge_output(&mut self, key: KeyId, tokens: u32) {
        self.charge(key, u64::from(tokens) * OUTPUT_COST);
    }

    fn charge(&mut self, key: KeyId, cost: u64) {
        if self.waiting > 0 {
            self.clock += (cost * SCALE).checked_div(self.active_weight).unwrap_or(0);
        }
        if let Some(account) = self.keys.get_mut(&key) {
            account.charged += (cost * SCALE).div_ceil(account.weight);
            account.new &= cost == 0;
        }
    }

    /// In 1/65536 of a weighted token.
    pub(super) fn charged(&self, key: KeyId) -> u64 {
        self.keys.get(&key).map_or(self.floor, |a| a.charged)
    }

    /// Where `key` stands among those that wait: the least goes next.
    pub(super) fn standing(&self, key: KeyId) -> Standing {
        let account = self.keys.get(&key);
        Standing { charged: self.charged(key), old: !account.is_some_and(|a| a.new), running: account.map_or(0, |a| a.rows - a.waiting) }
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
        accounts.admit(A, 100);
        accounts.admit(B, 100);
        accounts.charge_output(B, 50);
        assert_eq!(accounts.charged_tokens(A), 100);
        assert_eq!(accounts.charged_tokens(B), 50);
    }

    #[test]
    fn idleness_earns_no_credit() {
        let mut accounts = Accounts::default();
        accounts.enter(A, 1);
        accounts.admit(A, 1000);
        accounts.enter(B, 1);
        assert_eq!(accounts.charged_tokens(B), 1000, "starts at the least active charge");
        accounts.leave(B, true);
        accounts.charge_output(A, 250);
        accounts.leave(A, false);
        accounts.enter(B, 1);
        assert_eq!(accounts.charged_tokens(B), 1500, "starts where the last one left");
    }

    #[test]
    fn of_keys_charged_alike_the_new_go_first_and_then_those_with_fewer_rows() {
        let mut accounts = Accounts::default();
        (0..5).for_each(|_| accounts.enter(A, 1));
        accounts.admit(A, 5);
        accounts.admit(A, 5);
        accounts.enter(B, 1);
        let (a, b) = (accounts.standing(A), accounts.standing(B));
        assert_eq!((a.old, a.running, b.old, b.running), (true, 2, false, 0));
        assert!(a.charged == b.charged && b < a, "{a:?} {b:?}");
        assert_eq!(a.after(3, 1), Standing { charged: 13 * SCALE, old: true, running: 3 });
        assert!(Standing { old: true, ..b } < a && a < Standing { running: 0, ..b.after(1, 1) });
    }

    #[test]
    fn a_short_absence_keeps_the_debt() {
        let mut accounts = Accounts::default();
        accounts.enter(A, 1);
        accounts.enter(B, 1);
        accounts.admit(B, 1000);
        accounts.leave(B, false);
        accounts.enter(B, 1);
        assert_eq!(accounts.charged_tokens(B), 1000);
    }

    #[test]
    fn the_clock_goes_by_shares_and_only_while_somebody_waits() {
        let mut accounts = Accounts::default();
        accounts.enter(A, 1);
        accounts.enter(B, 3);
        // A fourth of 100 for each unit of weight, and of what follows while B waits.
        accounts.admit(A, 100);
        accounts.charge_output(A, 14);
        assert_eq!(accounts.clock / SCALE, 25 + 7);
        accounts.admit(B, 40);
        accounts.charge_output(B, 1000);
        assert_eq!((accounts.clock / SCALE, accounts.waiting), (42, 0), "nobody waits any more");
        accounts.enter(A, 2);
        accounts.enter(A, 5);
        assert_eq!((accounts.active_weight, accounts.waiting), (8, 2), "a key's weight is what it came with last");
        accounts.leave(A, true);
        accounts.leave(A, true);
        accounts.leave(A, false);
        assert_eq!((accounts.active_weight, accounts.waiting), (3, 0));
    }

    #[test]
    fn a_key_starts_at_the_clock_but_not_after_all_that_wait() {
        let mut accounts = Accounts::default();
        let c = KeyId(3);
        accounts.enter(A, 1);
        accounts.enter(A, 1);
        accounts.enter(B, 1);
        accounts.enter(B, 1);
        // B is charged 40 and waits, A waits with nothing charged: the clock stands at 20.
        accounts.admit(B, 40);
        accounts.enter(c, 1);
        assert_eq!(accounts.charged_tokens(c), 20);
        accounts.leave(c, true);
        // The clock passes both.
        accounts.clock = 1000 * SCALE;
        accounts.enter(c, 1);
        assert_eq!(accounts.charged_tokens(c), 40);
    }

    #[test]
    fn a_key_that_did_not_wait_starts_where_the_last_one_waited() {
        let mut accounts = Accounts::default();
        accounts.enter(A, 1);
        accounts.admit(A, 10);
        accounts.enter(B, 1);
        accounts.admit(B, 100);
        // A has run all the while, and was charged less.
        accounts.enter(A, 1);
        assert_eq!([A, B].map(|key| accounts.charged_tokens(key)), [110, 110]);
        // While it waits, it keeps what it is behind.
        accounts.charge_output(B, 5);
        accounts.enter(A, 1);
        assert_eq!([A, B].map(|key| accounts.charged_tokens(key)), [110, 120]);
    }

    #[test]
    fn the_clock_does_not_go_by_a_debt() {
        let mut accounts = Accounts::default();
        accounts.enter(A, 1);
        accounts.enter(B, 1);
        // A waits: the clock stands at half of what B is charged.
        accounts.admit(B, 5000);
        accounts.leave(B, false);
        assert_eq!(accounts.active().collect::<Vec<_>>(), [(A, 1)]);
        accounts.enter(B, 1);
        accounts.enter(KeyId(3), 1);
        assert_eq!([A, B, KeyId(3)].map(|key| accounts.charged_tokens(key)), [0, 5000, 2500]);
    }

    #[test]
    fn keys_that_left_take_no_memory() {
        let mut accounts = Accounts::default();
        for n in 0..1000 {
            accounts.enter(KeyId(n), 1);
            accounts.admit(KeyId(n), n);
            accounts.leave(KeyId(n), false);
        }
        assert!(accounts.keys.is_empty(), "{}", accounts.keys.len());
    }
}
