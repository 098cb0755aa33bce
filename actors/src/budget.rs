//! The KV-budget actor: it owns block numbers and bytes, and settles what the scheduler asks, in order. It chooses nothing.

use crate::messages::{Granted, ModelIs, Settle};
use crate::scheduling::Scheduling;
use actix::{Actor, Addr, Context, Handler};
use kv::Pool;

/// Pools up to this size are checked whole after every settlement in debug builds; larger ones would make tests crawl.
const CHECKED_BLOCKS_MAX: u32 = 4096;

pub(crate) struct Budget {
    pub(crate) pool: Pool,
    pub(crate) scheduling: Addr<Scheduling>,
}

impl Actor for Budget {
    type Context = Context<Self>;
}

/// A pool that finds itself wrong panics rather than give one row's memory to another. Then nothing more can be planned, and
/// the rows must hear of it instead of waiting.
impl Drop for Budget {
    fn drop(&mut self) {
        let reason = "the KV budget stopped after an internal fault";
        self.scheduling.do_send(ModelIs::Gone(reason.into()));
    }
}

impl Handler<Settle> for Budget {
    type Result = ();

    fn handle(&mut self, Settle(wants): Settle, _: &mut Self::Context) {
        let settled = self.pool.settle(wants);
        if cfg!(debug_assertions)
            && settled.ledger.total <= CHECKED_BLOCKS_MAX
            && let Err(violation) = self.pool.check()
        {
            panic!("{violation}");
        }
        self.scheduling.do_send(Granted(settled));
    }
}
