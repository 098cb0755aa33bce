//! A row with a grammar: each token goes through it, and out comes the mask of the next draw.

use super::Request;
use crate::ask::Failure;
use crate::messages::Allow;
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use std::time::Instant;

impl Request {
    /// Takes the token of this index through the grammar, on a thread of the blocking pool: a mask takes tens of microseconds mostly and
    /// milliseconds at times, which no other stream of this HTTP worker should wait for. The device goes on with everybody else's rows.
    pub(super) fn follow(&mut self, token: u32, index: u32, ctx: &mut Context<Self>) {
        let Some(mut guide) = self.guide.take() else { return };
        let aside = tokio::task::spawn_blocking(move || {
            let mask = guide.take(token).and_then(|()| guide.mask());
            (guide, mask)
        });
        ctx.spawn(aside.into_actor(self).map(move |outcome, request, ctx| match outcome {
            Ok((guide, Ok(mask))) => {
                request.guide = Some(guide);
                request.desk.scheduling.do_send(Allow { seq: request.seq, index: index + 1, mask });
            }
            Ok((_, Err(reason))) => request.lose_the_way(&reason, ctx),
            Err(_panic) => request.lose_the_way("it failed", ctx),
        }));
    }

    /// The row ends alone.
    fn lose_the_way(&mut self, reason: &str, ctx: &mut Context<Self>) {
        let param = if self.form.grammar.is_some() { "response_format" } else { "tools" };
        let message = format!("{param} could not be followed any further, it asks for too much at once: {reason}");
        self.fail(Failure::Invalid { param, code: "schema_too_complex", message }, Instant::now(), ctx);
    }
}
