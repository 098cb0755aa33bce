//! The values that labels may take. Enums, not strings: a label whose values come from a request would grow without bound.

/// Declares an enum with its label values, so that a variant without a value cannot exist.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// All values, in the order of the variants: `values()[v as usize]` is `v.as_str()`.
            pub(crate) fn values() -> Vec<&'static str> {
                vec![$($value),+]
            }

            /// The label's value.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $value),+ }
            }
        }
    };
}

label! {
    /// `finished_reason` of `vllm:request_success_total`.
    FinishReason {
        /// A stop token or a stop string.
        Stop = "stop",
        /// `max_tokens` or the context's end.
        Length = "length",
        /// The client left.
        Abort = "abort",
        /// The row failed.
        Error = "error",
    }
}

label! {
    /// `phase` of `coxswain:step_seconds`: where a step's time goes.
    StepPhase {
        /// Deciding what the step does, and settling it with the KV budget.
        Plan = "plan",
        /// The forward pass of a step that computes at least one chunk of a prompt.
        Prefill = "prefill",
        /// The forward pass of a step that only decodes.
        Decode = "decode",
        /// Telling the rows what they got.
        Reply = "reply",
    }
}

label! {
    /// `reason` of `coxswain:admissions_refused_total`.
    Refusal {
        /// A field is out of its range, or prompt and answer exceed the context.
        Invalid = "invalid",
        /// It can never fit the KV budget.
        NeverFits = "never_fits",
        /// The queue is full.
        QueueFull = "queue_full",
        /// The key has used up its rate.
        RateLimit = "rate_limit",
        /// No key, or one that is not the service's.
        Unauthorized = "unauthorized",
        /// The service is shutting down.
        Draining = "draining",
        /// No model: still loading, or lost for good.
        NoModel = "no_model",
    }
}

label! {
    /// `phase` of `coxswain:disconnects_total`: what the row was doing when its client left.
    DisconnectPhase {
        Queue = "queue",
        Prefill = "prefill",
        Decode = "decode",
    }
}

label! {
    /// `cause` of `coxswain:worker_restarts_total`: how the model was lost.
    WorkerCause {
        /// Its process ended, by itself or by a signal, or said that it cannot go on.
        Exit = "exit",
        /// It gave no answer in time.
        Hang = "hang",
        /// What it sent could not be understood.
        Ipc = "ipc",
    }
}

label! {
    /// `id` of `coxswain:invariant_violations_total`: K1 to K6 are the KV budget's, S1 to S8 the scheduler's.
    Invariant {
        K1 = "K1", K2 = "K2", K3 = "K3", K4 = "K4", K5 = "K5", K6 = "K6",
        S1 = "S1", S2 = "S2", S3 = "S3", S4 = "S4", S5 = "S5", S6 = "S6", S7 = "S7", S8 = "S8",
    }
}
