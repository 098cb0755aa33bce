//! How much of each kind of trouble a seed makes. Half of the kinds are left out of any one seed.

use fastrand::Rng;

/// Doses, from 0 (none of it) to [`FULL`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Troubles {
    /// Single requests that are cancelled, by number: waiting, running or over.
    pub(crate) cancels: u32,
    /// Many clients leave at one moment.
    pub(crate) storms: u32,
    /// Clients that leave once they have read so many tokens.
    pub(crate) leavers: u32,
    /// Clients that read slowly, or stop reading for minutes.
    pub(crate) slow: u32,
    /// The model is lost.
    pub(crate) deaths: u32,
    /// Prompts near the context's end, and beyond it, or beyond the pool.
    pub(crate) giants: u32,
    /// Rows whose numbers go bad at some draw.
    pub(crate) faults: u32,
    /// Keys that appear, idle and come back.
    pub(crate) churn: u32,
    /// Identical prompts at one moment.
    pub(crate) crowds: u32,
    /// Prompts that begin like others, and next turns of earlier chats.
    pub(crate) shared: u32,
    /// Rows that sample; the others are greedy.
    pub(crate) sampled: u32,
    /// Rows with priorities of their own.
    pub(crate) priorities: u32,
    /// Rows that may stop before their last token.
    pub(crate) stops: u32,
}

/// The dose at which every request has it.
pub(crate) const FULL: u32 = 10;

impl Troubles {
    pub(crate) fn draw(rng: &mut Rng) -> Troubles {
        let mut dose = || if rng.bool() { 0 } else { rng.u32(1..=FULL) };
        Troubles {
            cancels: dose(),
            storms: dose(),
            leavers: dose(),
            slow: dose(),
            deaths: dose(),
            giants: dose(),
            faults: dose(),
            churn: dose(),
            crowds: dose(),
            shared: dose(),
            sampled: dose(),
            priorities: dose(),
            stops: dose(),
        }
    }
}

/// Whether this one has it, at that dose.
pub(crate) fn hit(rng: &mut Rng, dose: u32) -> bool {
    rng.u32(0..FULL) < dose
}
