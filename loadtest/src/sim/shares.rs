//! The keys' charges, counted a second time from what the clients saw, and held against the scheduler's own (S8).
//!
//! Two checks make what `bound` holds to its bound. The charges are right: a weighted token for each prompt token at admission, two for each
//! drawn one, and a key that had none waiting starts no lower than the least of those that have (Sheng et al., OSDI 2024), nor before
//! the clock, which goes by an equal share for each unit of active weight of what is served while somebody waits, unless all that wait
//! are before it or its own rows run. And the least
//! charged key goes first: whoever is admitted has no more charge than any other key whose rows could have been.

use super::clients::Client;
use kv::invariants::Invariant::S8;
use kv::invariants::ensure;
use kv::{SeqId, Violation};
use scheduler::{Event, KeyId, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Charges are in 1/65536 of a weighted token, as the scheduler rounds.
const SCALE: u64 = 1 << 16;

#[derive(Debug, Clone, Copy)]
struct Share {
    charged: u64,
    weight: u64,
    rows: u32,
    waiting: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Every key there ever was: nothing is forgotten here.
    keys: BTreeMap<KeyId, Share>,
    floor: u64,
    clock: u64,
    /// As of the turn's plan, with what was admitted since: keys whose waiting rows could all be admitted.
    plan: Option<BTreeMap<KeyId, Waiting>>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    charged: u64,
    rows: u32,
}

/// Keys with rows waiting, and how many. A key is compared with others only if none of those rows may be held back for a prefix that
/// another row computes: one that begins with the same block.
pub(crate) fn waiting(clients: &BTreeMap<SeqId, Client>, block_tokens: Option<u32>) -> BTreeMap<KeyId, u32> {
    let open: Vec<&Client> = clients.values().filter(|client| !client.is_over()).collect();
    let first = |client: &Client| block_tokens.and_then(|n| client.prompt.get(..n as usize).map(<[u32]>::to_vec));
    let mut firsts: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    for block in open.iter().filter_map(|client| first(client)) {
        *firsts.entry(block).or_default() += 1;
    }
    let (mut rows, mut held) = (BTreeMap::new(), BTreeSet::new());
    for client in open.iter().filter(|client| client.waits()) {
        *rows.entry(client.key).or_insert(0) += 1;
        if first(client).is_some_and(|block| firsts[&block] > 1) {
            held.insert(client.key);
        }
    }
    rows.retain(|key, _| !held.contains(key));
    rows
}

impl Shares {
    fn least(&self) -> Option<u64> {
        self.keys.values().filter(|share| share.rows > 0).map(|share| share.charged).min()
    }

    pub(crate) fn enter(&mut self, key: KeyId, weight: u32) {
        let mut waiting: Vec<u64> = self.keys.values().filter(|share| share.waiting > 0).map(|share| share.charged).collect();
        waiting.sort_unstable();
        let runs = self.keys.get(&key).is_some_and(|share| share.rows > 0);
        let start = match &waiting[..] {
            [first, ..] if runs => *first,
            [] => self.least().unwrap_or(0).max(self.floor),
            [first, ..] => self.clock.min(waiting[waiting.len() - 1]).max(*first),
        };
        let share = self.keys.entry(key).or_insert(Share { charged: 0, weight: 1, rows: 0, waiting: 0 });
        if share.waiting == 0 {
            share.charged = share.charged.max(start);
        }
        if waiting.is_empty() {
            self.clock = self.clock.max(share.charged);
        }
        share.rows += 1;
        share.waiting += 1;
        share.weight = u64::from(weight.max(1));
    }

    /// `waited`: the row was never admitted.
    pub(crate) fn leave(&mut self, key: KeyId, waited: bool) {
        let Some(share) = self.keys.get_mut(&key) else { return };
        share.rows -= 1;
        let charged = share.charged;
        if waited {
            self.stop_waiting(key);
        }
        if self.least().is_none() {
            self.floor = self.floor.max(charged);
        }
    }

    fn stop_waiting(&mut self, key: KeyId) {
        let Some(share) = self.keys.get_mut(&key) else { return };
        share.waiting -= 1;
        let charged = share.charged;
        if self.keys.values().all(|share| share.waiting == 0) {
            self.floor = self.floor.max(charged);
        }
    }

    /// A cancel while the list is with the pool frees a place in it that this plan does not know of.
    pub(crate) fn forget_plan(&mut self) {
        self.plan = None;
    }

    /// The scheduler plans now.
    pub(crate) fn plan(&mut self, clients: &BTreeMap<SeqId, Client>, block_tokens: Option<u32>) {
        let charged = |key: &KeyId| self.keys[key].charged;
        let plan = waiting(clients, block_tokens).into_iter().map(|(key, rows)| (key, Waiting { charged: charged(&key), rows }));
        self.plan = Some(plan.collect());
    }

    /// Keys with rows waiting.
    pub(crate) fn waiting(&self) -> BTreeSet<KeyId> {
        self.keys.iter().filter(|(_, share)| share.waiting > 0).map(|(key, _)| *key).collect()
    }

    /// Charges what an event tells of `client`. True if the event is an admission that other keys wanted too.
    pub(crate) fn hear(&mut self, event: &Event, client: &Client) -> Result<bool, Violation> {
        let key = client.key;
        match event {
            Event::Admitted { .. } => {
                let prompt = client.prompt.len() as u64;
                let contested = self.check_turn(key, prompt)?;
                self.charge(key, prompt);
                self.stop_waiting(key);
                return Ok(contested);
            }
            Event::Token { .. } => self.charge(key, 2),
            Event::Finished { stop_token, .. } => {
                self.charge(key, 2 * u64::from(*stop_token));
                self.leave(key, false);
            }
            Event::Preempted { .. } | Event::Resumed { .. } => {}
        }
        Ok(false)
    }

    fn charge(&mut self, key: KeyId, tokens: u64) {
        let active: u64 = self.keys.values().filter(|share| share.rows > 0).map(|share| share.weight).sum();
        if self.keys.values().any(|share| share.waiting > 0) {
            self.clock += tokens * SCALE / active;
        }
        if let Some(share) = self.keys.get_mut(&key) {
            share.charged += (tokens * SCALE).div_ceil(share.weight);
        }
    }

    fn check_turn(&mut self, key: KeyId, prompt: u64) -> Result<bool, Violation> {
        let Some(plan) = &mut self.plan else { return Ok(false) };
        let weight = self.keys[&key].weight;
        let others = plan.iter().filter(|(other, waiting)| **other != key && waiting.rows > 0);
        let least = others.min_by_key(|(_, waiting)| waiting.charged).map(|(other, waiting)| (*other, waiting.charged));
        let Some(own) = plan.get_mut(&key) else { return Ok(false) };
        if let Some((other, charged)) = least {
            ensure(S8, own.charged <= charged, || format!("{key:?}, charged {}, is admitted before {other:?}, charged {charged}", own.charged))?;
        }
        own.charged += (prompt * SCALE).div_ceil(weight);
        own.rows = own.rows.saturating_sub(1);
        Ok(least.is_some())
    }

    /// What the scheduler says of its keys is what was counted here.
    pub(crate) fn check(&self, shot: &Snapshot) -> Result<(), Violation> {
        let counted = self.keys.iter().filter(|(_, share)| share.rows > 0).map(|(key, share)| (*key, share.charged / SCALE, share.rows));
        let said = shot.keys.iter().map(|load| (load.key, load.charged, load.running + load.waiting));
        let same = counted.clone().eq(said);
        ensure(S8, same, || format!("keys are {:?}, counted {:?}", shot.keys, counted.collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::ask::Ask;
    use kv::Sampling;
    use scheduler::{Submit, Wishes};

    fn client(seq: u64, key: u32, prompt: &[u32]) -> (SeqId, Client) {
        let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0, seed: 0 };
        let submit = Submit {
            seq: SeqId(seq),
            key: KeyId(key),
            weight: 1,
            priority: 0,
            prompt: prompt.into(),
            max_tokens: 1,
            min_tokens: 0,
            stop_ids: [].into(),
            ignore_eos: false,
            sampling,
            wishes: Wishes::default(),
            mask: None,
        };
        (SeqId(seq), Client::new(&Ask { submit, guide_us: 0, fault_at: None, read_us: 0, leaves_after: None }, 8))
    }

    /// Key 1 was charged 5 tokens more than key 2, and both have rows waiting.
    fn both_wait(clients: &BTreeMap<SeqId, Client>, block_tokens: Option<u32>) -> Shares {
        let mut shares = Shares::default();
        for client in clients.values() {
            shares.enter(client.key, 1);
        }
        shares.charge(KeyId(1), 5);
        shares.plan(clients, block_tokens);
        shares
    }

    #[test]
    fn whoever_is_charged_more_goes_later() {
        let clients = BTreeMap::from([client(1, 1, &[1, 2]), client(2, 2, &[3, 4]), client(3, 2, &[5, 6])]);
        let admitted = |seq| Event::Admitted { seq: SeqId(seq), cached: 0, wait_us: 0 };
        let hear = |shares: &mut Shares, seq| shares.hear(&admitted(seq), &clients[&SeqId(seq)]);
        let wrong = hear(&mut both_wait(&clients, None), 1).unwrap_err();
        assert_eq!(wrong.invariant, S8, "{wrong}");
        // Key 2 goes first, twice, because two tokens are less than five; then nobody else waits.
        let mut shares = both_wait(&clients, None);
        assert_eq!([2, 3, 1].map(|seq| hear(&mut shares, seq)), [Ok(true), Ok(true), Ok(false)]);
    }

    #[test]
    fn a_key_that_may_be_held_back_is_not_compared() {
        let clients = BTreeMap::from([client(1, 1, &[1, 2]), client(2, 2, &[3, 4]), client(3, 3, &[3, 5])]);
        let admitted = Event::Admitted { seq: SeqId(1), cached: 0, wait_us: 0 };
        for (block_tokens, compared) in [(None, true), (Some(1), false), (Some(2), true)] {
            let heard = both_wait(&clients, block_tokens).hear(&admitted, &clients[&SeqId(1)]);
            assert_eq!(heard.is_err(), compared, "{block_tokens:?}");
        }
    }
}
