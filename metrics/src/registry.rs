//! The registry: every series made once, every child resolved once, so that recording is a few atomic additions.

use crate::buckets;
use crate::labels::{DisconnectPhase, FinishReason, Invariant, Refusal, StepPhase};
use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

/// All series of one service. Share it in an `Arc`; every method takes `&self` and never blocks on I/O.
///
/// Every series carries `model_name`. Children of bounded labels exist from the start, so that a rate over them is 0 and not absent.
pub struct Metrics {
    registry: Registry,
    pub(crate) rows_running: IntGauge,
    pub(crate) rows_waiting: IntGauge,
    pub(crate) kv_usage: Gauge,
    pub(crate) cache_config: GaugeVec,
    pub(crate) prompt_tokens: IntCounter,
    pub(crate) generation_tokens: IntCounter,
    pub(crate) prompt_tokens_cached: IntCounter,
    pub(crate) request_success: Vec<IntCounter>,
    pub(crate) preemptions: IntCounter,
    pub(crate) prefix_queries: IntCounter,
    pub(crate) prefix_hits: IntCounter,
    pub(crate) first_token: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) per_output_token: Histogram,
    pub(crate) e2e: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) inference: Histogram,
    pub(crate) prefill: Histogram,
    pub(crate) decode: Histogram,
    pub(crate) request_prompt_tokens: Histogram,
    pub(crate) request_generation_tokens: Histogram,
    pub(crate) params_max_tokens: Histogram,
    pub(crate) max_num_generation_tokens: Histogram,
    pub(crate) params_n: Histogram,
    pub(crate) iteration_tokens: Histogram,
    pub(crate) kv_rows: IntGauge,
    pub(crate) kv_prefix: IntGauge,
    pub(crate) kv_scratch: IntGauge,
    pub(crate) kv_free: IntGauge,
    pub(crate) kv_budget: IntGauge,
    pub(crate) mlx_active: IntGauge,
    pub(crate) mlx_cache: IntGauge,
    pub(crate) mlx_peak: IntGauge,
    pub(crate) batch_rows: Histogram,
    pub(crate) step_seconds: Vec<Histogram>,
    pub(crate) step_prefill_tokens: Histogram,
    pub(crate) step_decode_tokens: Histogram,
    pub(crate) refused: Vec<IntCounter>,
    pub(crate) disconnects: Vec<IntCounter>,
    pub(crate) violations: Vec<IntCounter>,
    pub(crate) loaded: GaugeVec,
}

impl Metrics {
    /// A fresh registry for the model that clients know as `model_name`; `context_tokens` bounds the token histograms.
    pub fn new(model_name: &str, context_tokens: u32) -> Metrics {
        let maker = Maker {
            registry: Registry::new(),
            model_name,
        };
        let tokens = buckets::one_two_five(context_tokens);
        let kv = maker.gauges(
            "coxswain:kv_bytes",
            "Bytes of the KV pool by holder.",
            "holder",
        );
        let mlx = maker.gauges(
            "coxswain:mlx_memory_bytes",
            "Bytes that the device's allocator holds.",
            "kind",
        );
        let step_tokens = maker.histograms(
            "coxswain:step_tokens",
            "Tokens of a step by kind.",
            "kind",
            buckets::STEP_TOKENS,
        );
        let request = |name, help| maker.histogram(name, help, buckets::REQUEST);
        let tokens = |name, help| maker.histogram(name, help, &tokens);
        Metrics {
            rows_running: maker.gauge("vllm:num_requests_running", "Rows in the batch."),
            rows_waiting: maker.gauge("vllm:num_requests_waiting", "Rows in the queue."),
            kv_usage: maker.ratio(
                "vllm:kv_cache_usage_perc",
                "Share of the KV pool that live rows hold, 0 to 1.",
            ),
            cache_config: maker.info(
                "vllm:cache_config_info",
                "The KV pool's shape; always 1.",
                &["block_size", "num_gpu_blocks", "cache_dtype"],
            ),
            prompt_tokens: maker.counter(
                "vllm:prompt_tokens_total",
                "Prompt tokens of rows whose prefill is done, cached ones included.",
            ),
            generation_tokens: maker.counter("vllm:generation_tokens_total", "Tokens generated."),
            prompt_tokens_cached: maker.counter(
                "vllm:prompt_tokens_cached_total",
                "Prompt tokens that a cached prefix spared.",
            ),
            request_success: maker.counters(
                "vllm:request_success_total",
                "Requests that ended, by how.",
                "finished_reason",
                FinishReason::ALL.iter().map(|v| v.as_str()),
            ),
            preemptions: maker.counter(
                "vllm:num_preemptions_total",
                "Rows that lost their blocks and went back to the queue.",
            ),
            prefix_queries: maker.counter(
                "vllm:prefix_cache_queries_total",
                "Prompt tokens looked up in the prefix cache, once a request.",
            ),
            prefix_hits: maker.counter(
                "vllm:prefix_cache_hits_total",
                "Prompt tokens found in the prefix cache, once a request.",
            ),
            first_token: maker.histogram(
                "vllm:time_to_first_token_seconds",
                "From arrival to the first token.",
                buckets::FIRST_TOKEN,
            ),
            inter_token: maker.histogram(
                "vllm:inter_token_latency_seconds",
                "Between two tokens of a row.",
                buckets::TOKEN,
            ),
            per_output_token: maker.histogram(
                "vllm:request_time_per_output_token_seconds",
                "A request's mean time between tokens.",
                buckets::TOKEN,
            ),
            e2e: request(
                "vllm:e2e_request_latency_seconds",
                "From arrival to the last token.",
            ),
            queue: request(
                "vllm:request_queue_time_seconds",
                "From arrival to admission.",
            ),
            inference: request(
                "vllm:request_inference_time_seconds",
                "From admission to the last token.",
            ),
            prefill: request(
                "vllm:request_prefill_time_seconds",
                "From admission to the first token.",
            ),
            decode: request(
                "vllm:request_decode_time_seconds",
                "From the first token to the last.",
            ),
            request_prompt_tokens: tokens(
                "vllm:request_prompt_tokens",
                "Prompt tokens of a request.",
            ),
            request_generation_tokens: tokens(
                "vllm:request_generation_tokens",
                "Generated tokens of a request.",
            ),
            params_max_tokens: tokens(
                "vllm:request_params_max_tokens",
                "The max_tokens that a request asked for.",
            ),
            max_num_generation_tokens: tokens(
                "vllm:request_max_num_generation_tokens",
                "Generated tokens of the longest answer of a request.",
            ),
            params_n: maker.histogram(
                "vllm:request_params_n",
                "Answers that a request asked for.",
                buckets::PARAMS_N,
            ),
            iteration_tokens: maker.histogram(
                "vllm:iteration_tokens_total",
                "Tokens of a step.",
                buckets::STEP_TOKENS,
            ),
            kv_rows: kv.with_label_values(&["rows"]),
            kv_prefix: kv.with_label_values(&["prefix"]),
            kv_scratch: kv.with_label_values(&["scratch"]),
            kv_free: kv.with_label_values(&["free"]),
            kv_budget: maker.gauge(
                "coxswain:kv_budget_bytes",
                "Bytes that everything with KV in it may use together.",
            ),
            mlx_active: mlx.with_label_values(&["active"]),
            mlx_cache: mlx.with_label_values(&["cache"]),
            mlx_peak: mlx.with_label_values(&["peak"]),
            batch_rows: maker.histogram(
                "coxswain:batch_rows",
                "Rows of a step.",
                buckets::BATCH_ROWS,
            ),
            step_seconds: {
                let seconds = maker.histograms(
                    "coxswain:step_seconds",
                    "Time of a step by phase.",
                    "phase",
                    buckets::STEP_SECONDS,
                );
                StepPhase::ALL
                    .iter()
                    .map(|v| seconds.with_label_values(&[v.as_str()]))
                    .collect()
            },
            step_prefill_tokens: step_tokens.with_label_values(&["prefill"]),
            step_decode_tokens: step_tokens.with_label_values(&["decode"]),
            refused: maker.counters(
                "coxswain:admissions_refused_total",
                "Requests refused before they became a row.",
                "reason",
                Refusal::ALL.iter().map(|v| v.as_str()),
            ),
            disconnects: maker.counters(
                "coxswain:disconnects_total",
                "Clients that left, by what their row was doing.",
                "phase",
                DisconnectPhase::ALL.iter().map(|v| v.as_str()),
            ),
            violations: maker.counters(
                "coxswain:invariant_violations_total",
                "Broken invariants; each is a bug.",
                "id",
                Invariant::ALL.iter().map(|v| v.as_str()),
            ),
            loaded: maker.info(
                "coxswain:loaded_info",
                "What is loaded; always 1.",
                &["model", "dtype", "tier", "device"],
            ),
            registry: maker.registry,
        }
    }

    /// Everything in Prometheus' text exposition format 0.0.4: answer with [`prometheus::TEXT_FORMAT`] as content type.
    pub fn text(&self) -> String {
        let mut text = String::new();
        prometheus::TextEncoder::new()
            .encode_utf8(&self.registry.gather(), &mut text)
            .expect("writing to a string cannot fail, and every family has a child");
        text
    }
}

/// Makes and registers series that all carry `model_name`. Names and labels are constants, so failing is a bug and asserts.
struct Maker<'a> {
    registry: Registry,
    model_name: &'a str,
}

impl Maker<'_> {
    fn opts(&self, name: &str, help: &str) -> Opts {
        Opts::new(name, help).const_label("model_name", self.model_name)
    }

    fn keep<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let series = made.expect("names and labels are constants");
        self.registry
            .register(Box::new(series.clone()))
            .expect("names are distinct");
        series
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.keep(IntGauge::with_opts(self.opts(name, help)))
    }

    fn ratio(&self, name: &str, help: &str) -> Gauge {
        self.keep(Gauge::with_opts(self.opts(name, help)))
    }

    fn gauges(&self, name: &str, help: &str, label: &str) -> IntGaugeVec {
        self.keep(IntGaugeVec::new(self.opts(name, help), &[label]))
    }

    fn info(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.keep(GaugeVec::new(self.opts(name, help), labels))
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.keep(IntCounter::with_opts(self.opts(name, help)))
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = &'static str>,
    ) -> Vec<IntCounter> {
        let family = self.keep(IntCounterVec::new(self.opts(name, help), &[label]));
        values.map(|v| family.with_label_values(&[v])).collect()
    }

    fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> Histogram {
        let opts = HistogramOpts::from(self.opts(name, help)).buckets(bounds.to_vec());
        self.keep(Histogram::with_opts(opts))
    }

    fn histograms(&self, name: &str, help: &str, label: &str, bounds: &[f64]) -> HistogramVec {
        let opts = HistogramOpts::from(self.opts(name, help)).buckets(bounds.to_vec());
        self.keep(HistogramVec::new(opts, &[label]))
    }
}
