//! One request's spans: the whole, and within it queue, prefill and decode. Names follow OpenTelemetry's conventions for
//! generative AI; no prompt text ever goes into a span. Where nobody collects spans, this costs next to nothing.
//! What happens on the way goes to the spans alone, not to the log (target `spans`).
//! Whole numbers are signed: only those are numbers to a collector, the others become text.

use crate::ask::{Params, Prompt, Usage};
use tracing::Span;
use tracing::field::Empty;

pub(crate) struct Trace {
    whole: Span,
    /// The part that the request is in; dropping it ends it.
    phase: Span,
}

impl Trace {
    /// The whole request as a child of the span that it is asked in, its time in the queue begun.
    pub(crate) fn begin(model: &str, id: &str, prompt: &Prompt, params: &Params, seed: u64) -> Trace {
        let operation = match prompt {
            Prompt::Chat { .. } => "chat",
            Prompt::Text(_) | Prompt::Ids(_) => "text_completion",
        };
        let whole = tracing::info_span!(
            "request",
            otel.name = Empty,
            otel.kind = "internal",
            gen_ai.operation.name = operation,
            gen_ai.request.model = model,
            gen_ai.request.max_tokens = params.max_tokens.map(i64::from),
            gen_ai.request.temperature = f64::from(params.temperature),
            gen_ai.request.top_p = f64::from(params.top_p),
            gen_ai.request.top_k = i64::from(params.top_k),
            gen_ai.request.seed = seed.cast_signed(),
            gen_ai.response.id = id,
            gen_ai.response.model = model,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
        );
        if !whole.is_disabled() {
            whole.record("otel.name", format!("{operation} {model}"));
        }
        let phase = tracing::info_span!(parent: &whole, "queue");
        Trace { whole, phase }
    }

    pub(crate) fn admitted(&mut self, cached_tokens: u32) {
        self.phase = tracing::info_span!(parent: &self.whole, "prefill", cached_tokens = i64::from(cached_tokens));
    }

    pub(crate) fn first_token(&mut self) {
        self.phase = tracing::info_span!(parent: &self.whole, "decode");
    }

    pub(crate) fn preempted(&self) {
        tracing::info!(target: "spans", parent: &self.phase, "preempted");
    }

    pub(crate) fn worker_lost(&self) {
        tracing::info!(target: "spans", parent: &self.phase, "worker_lost");
    }

    pub(crate) fn resumed(&self, recomputed_tokens: u32) {
        tracing::info!(target: "spans", parent: &self.phase, recomputed_tokens = i64::from(recomputed_tokens), "resumed");
    }

    /// The request is over; the spans end here.
    pub(crate) fn end(&mut self, finish: &'static str, usage: &Usage) {
        self.whole.record("gen_ai.response.finish_reasons", finish);
        self.whole.record("gen_ai.usage.input_tokens", i64::from(usage.prompt_tokens));
        self.whole.record("gen_ai.usage.output_tokens", i64::from(usage.completion_tokens));
        self.phase = Span::none();
        self.whole = Span::none();
    }
}
