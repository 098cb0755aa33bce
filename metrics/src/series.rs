//! The series themselves, in groups by what they tell of. Every name of the service stands in this file and in README.md.

use crate::buckets;
use crate::labels::{DisconnectPhase, FinishReason, Invariant, Refusal, StepPhase, WorkerCause};
use crate::maker::Maker;
use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntGauge};

/// The service as a whole.
pub(crate) struct Service {
    pub(crate) running: IntGauge,
    pub(crate) waiting: IntGauge,
    pub(crate) preemptions: IntCounter,
    pub(crate) refused: Vec<IntCounter>,
    pub(crate) disconnects: Vec<IntCounter>,
    pub(crate) violations: Vec<IntCounter>,
    pub(crate) loaded: GaugeVec,
}

impl Service {
    pub(crate) fn new(m: &Maker) -> Service {
        let reasons = Refusal::values();
        let phases = DisconnectPhase::values();
        let ids = Invariant::values();
        let adapters = m.info(
            "vllm:lora_requests_info",
            "Adapters in use; the value is when that was last so.",
            &["max_lora", "waiting_lora_adapters", "running_lora_adapters"],
        );
        // None can be mounted, so none ever was in use.
        adapters.with_label_values(&["0", "", ""]).set(0.0);
        Service {
            running: m.gauge("vllm:num_requests_running", "Rows in the batch."),
            waiting: m.gauge("vllm:num_requests_waiting", "Rows in the queue."),
            preemptions: m.counter("vllm:num_preemptions_total", "Rows that lost their blocks and went back to the queue."),
            refused: m.counters("coxswain:admissions_refused_total", "Requests refused before they became a row.", "reason", &reasons),
            disconnects: m.counters("coxswain:disconnects_total", "Clients that left, by what their row was doing.", "phase", &phases),
            violations: m.counters("coxswain:invariant_violations_total", "Broken invariants; each is a bug.", "id", &ids),
            loaded: m.info("coxswain:loaded_info", "What is loaded; always 1.", &["model", "dtype", "tier", "device"]),
        }
    }
}

/// Losses of the model, and what they cost.
pub(crate) struct Losses {
    pub(crate) restarts: Vec<IntCounter>,
    pub(crate) recovered: IntCounter,
    pub(crate) recomputed: IntCounter,
}

impl Losses {
    pub(crate) fn new(m: &Maker) -> Losses {
        let causes = WorkerCause::values();
        Losses {
            restarts: m.counters("coxswain:worker_restarts_total", "Times the model was lost, by how; it is opened again each time.", "cause", &causes),
            recovered: m.counter("coxswain:recovered_rows_total", "Rows that went on after the model was lost under them."),
            recomputed: m.counter("coxswain:recomputed_tokens_total", "Tokens computed again, after preemption or loss of the model."),
        }
    }
}

/// Memory: the KV pool and the device.
pub(crate) struct Memory {
    pub(crate) usage: Gauge,
    pub(crate) cache_config: GaugeVec,
    pub(crate) prefix_queries: IntCounter,
    pub(crate) prefix_hits: IntCounter,
    pub(crate) rows: IntGauge,
    pub(crate) prefix: IntGauge,
    pub(crate) scratch: IntGauge,
    pub(crate) free: IntGauge,
    pub(crate) budget: IntGauge,
    pub(crate) mlx_active: IntGauge,
    pub(crate) mlx_cache: IntGauge,
    pub(crate) mlx_peak: IntGauge,
}

impl Memory {
    pub(crate) fn new(m: &Maker) -> Memory {
        let kv = m.gauges("coxswain:kv_bytes", "Bytes of the KV pool by holder.", "holder");
        let mlx = m.gauges("coxswain:mlx_memory_bytes", "Bytes that the device's allocator holds.", "kind");
        let shape = ["block_size", "num_gpu_blocks", "cache_dtype"];
        Memory {
            usage: m.ratio("vllm:kv_cache_usage_perc", "Share of the KV pool that live rows hold, 0 to 1."),
            cache_config: m.info("vllm:cache_config_info", "The KV pool's shape; always 1.", &shape),
            prefix_queries: m.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache, once a request."),
            prefix_hits: m.counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache, once a request."),
            rows: kv.with_label_values(&["rows"]),
            prefix: kv.with_label_values(&["prefix"]),
            scratch: kv.with_label_values(&["scratch"]),
            free: kv.with_label_values(&["free"]),
            budget: m.gauge("coxswain:kv_budget_bytes", "Bytes that everything with KV in it may use together."),
            mlx_active: mlx.with_label_values(&["active"]),
            mlx_cache: mlx.with_label_values(&["cache"]),
            mlx_peak: mlx.with_label_values(&["peak"]),
        }
    }
}

/// Requests and their tokens.
pub(crate) struct Requests {
    pub(crate) prompt_tokens: IntCounter,
    pub(crate) generation_tokens: IntCounter,
    pub(crate) prompt_tokens_cached: IntCounter,
    pub(crate) ended: Vec<IntCounter>,
    pub(crate) prompt: Histogram,
    pub(crate) generation: Histogram,
    pub(crate) max_tokens: Histogram,
    pub(crate) longest_answer: Histogram,
    pub(crate) n: Histogram,
}

impl Requests {
    pub(crate) fn new(m: &Maker, context_tokens: u32) -> Requests {
        let bounds = buckets::one_two_five(context_tokens);
        let tokens = |name, help| m.histogram(name, help, &bounds);
        let reasons = FinishReason::values();
        Requests {
            prompt_tokens: m.counter("vllm:prompt_tokens_total", "Prompt tokens of rows whose prefill is done, cached ones included."),
            generation_tokens: m.counter("vllm:generation_tokens_total", "Tokens generated."),
            prompt_tokens_cached: m.counter("vllm:prompt_tokens_cached_total", "Prompt tokens that a cached prefix spared."),
            ended: m.counters("vllm:request_success_total", "Requests that ended, by how.", "finished_reason", &reasons),
            prompt: tokens("vllm:request_prompt_tokens", "Prompt tokens of a request."),
            generation: tokens("vllm:request_generation_tokens", "Generated tokens of a request."),
            max_tokens: tokens("vllm:request_params_max_tokens", "The max_tokens that a request asked for."),
            longest_answer: tokens("vllm:request_max_num_generation_tokens", "Tokens of a request's longest answer."),
            n: m.histogram("vllm:request_params_n", "Answers that a request asked for.", buckets::PARAMS_N),
        }
    }
}

/// Times of requests and tokens.
pub(crate) struct Times {
    pub(crate) first_token: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) per_output_token: Histogram,
    pub(crate) e2e: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) inference: Histogram,
    pub(crate) prefill: Histogram,
    pub(crate) decode: Histogram,
}

impl Times {
    pub(crate) fn new(m: &Maker) -> Times {
        let time = |name, help| m.histogram(name, help, buckets::REQUEST);
        let token_time = |name, help| m.histogram(name, help, buckets::TOKEN);
        Times {
            first_token: m.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", buckets::FIRST_TOKEN),
            inter_token: token_time("vllm:inter_token_latency_seconds", "Between two tokens of a row."),
            per_output_token: token_time("vllm:request_time_per_output_token_seconds", "A request's mean time between tokens."),
            e2e: time("vllm:e2e_request_latency_seconds", "From arrival to the end."),
            queue: time("vllm:request_queue_time_seconds", "From arrival to admission, of requests that were admitted."),
            inference: time("vllm:request_inference_time_seconds", "From admission to the last token."),
            prefill: time("vllm:request_prefill_time_seconds", "From admission to the first token."),
            decode: time("vllm:request_decode_time_seconds", "From the first token to the last."),
        }
    }
}

/// Steps: what each carried and where its time went.
pub(crate) struct Steps {
    pub(crate) iteration_tokens: Histogram,
    pub(crate) batch_rows: Histogram,
    pub(crate) seconds: Vec<Histogram>,
    /// Prefill, decode.
    pub(crate) tokens: Vec<Histogram>,
}

impl Steps {
    pub(crate) fn new(m: &Maker) -> Steps {
        let phases = StepPhase::values();
        let kinds = ["prefill", "decode"];
        Steps {
            iteration_tokens: m.histogram("vllm:iteration_tokens_total", "Tokens of a step.", buckets::STEP_TOKENS),
            batch_rows: m.histogram("coxswain:batch_rows", "Rows of a step.", buckets::BATCH_ROWS),
            seconds: m.histograms("coxswain:step_seconds", "Time of a step by phase.", "phase", &phases, buckets::STEP_SECONDS),
            tokens: m.histograms("coxswain:step_tokens", "Tokens of a step by kind.", "kind", &kinds, buckets::STEP_TOKENS),
        }
    }
}
