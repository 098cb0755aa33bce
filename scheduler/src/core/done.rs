//! Results of a step: tokens delivered, rows ended, computed blocks sealed.

use super::{Flown, Scheduler};
use crate::event::{Event, Reason};
use kv::{RowFault, RowResult, StepDone, Want};

impl Scheduler {
    /// Takes the results of the oldest step in flight, and hands out what happened: first what the turns since the last call
    /// did (admissions and the like), then this step's tokens and ends, in its order. Results of a step that is not in flight
    /// (the model was lost since) are ignored.
    pub fn step_done(&mut self, done: StepDone, _now_us: u64) -> Vec<Event> {
        if let Some(flight) = self.flights.pop_front_if(|flight| flight.id == done.id) {
            self.stalled = false;
            self.chores.push(Want::Done { step: done.id });
            let mut results = done.results.into_iter().peekable();
            for flown in flight.rows {
                let result = results.next_if(|result| flown.draws && result.seq == flown.seq);
                self.row_done(&flown, result);
            }
            debug_assert!(results.peek().is_none(), "a result for a row that did not draw");
        }
        self.take_events()
    }

    /// One row of a step that is done. A row that ended meanwhile is not here any more: what was drawn for it is dropped.
    fn row_done(&mut self, flown: &Flown, result: Option<RowResult>) {
        let Some(row) = self.rows.get_mut(&flown.seq) else {
            return;
        };
        debug_assert_eq!(result.is_some(), flown.draws, "a result for each row that drew");
        let (token, logprobs) = match (flown.draws, result) {
            (false, _) => (None, None),
            (true, Some(RowResult { token: Ok(token), logprobs, .. })) => (Some(token), logprobs),
            (true, Some(RowResult { token: Err(fault), .. })) => return self.fault(flown, fault),
            (true, None) => return self.fault(flown, RowFault::NotFinite),
        };
        self.chores.extend(row.seal(flown));
        let Some(token) = token else {
            return;
        };
        let (index, end) = row.take(token);
        self.accounts.charge_output(row.submit.key, 1);
        if end != Some(Reason::Stop) {
            self.events.push(Event::Token { seq: flown.seq, token, index, logprobs });
        }
        if let Some(reason) = end {
            self.finish(flown, reason);
        }
    }

    /// The row's numbers went bad, maybe some steps ago: it ends alone, and nobody may reuse what it computed.
    fn fault(&mut self, flown: &Flown, fault: RowFault) {
        if let Some(row) = self.rows.get(&flown.seq) {
            self.chores.push(Want::Forget { seq: flown.seq, tokens: row.ids(0, row.known()) });
        }
        self.finish(flown, Reason::Fault(fault));
    }

    fn finish(&mut self, flown: &Flown, reason: Reason) {
        let Some(row) = self.remove(flown.seq) else {
            return;
        };
        let stop_token = reason == Reason::Stop;
        self.events.push(Event::Finished { seq: flown.seq, reason, stop_token, counts: row.counts });
    }
}
