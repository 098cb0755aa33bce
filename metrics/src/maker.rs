//! Makes and registers series that all carry `model_name`. Names and labels are constants, so failing is a bug and asserts.

use prometheus::core::Collector;
use prometheus::{Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

pub(crate) struct Maker<'a> {
    pub(crate) registry: Registry,
    pub(crate) model_name: &'a str,
}

impl Maker<'_> {
    fn opts(&self, name: &str, help: &str) -> Opts {
        Opts::new(name, help).const_label("model_name", self.model_name)
    }

    fn keep<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let series = made.expect("names and labels are constants");
        self.registry.register(Box::new(series.clone())).expect("names are distinct");
        series
    }

    /// A whole number that goes up and down: rows, bytes.
    pub(crate) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.keep(IntGauge::with_opts(self.opts(name, help)))
    }

    /// A number from 0 to 1.
    pub(crate) fn ratio(&self, name: &str, help: &str) -> Gauge {
        self.keep(Gauge::with_opts(self.opts(name, help)))
    }

    pub(crate) fn gauges(&self, name: &str, help: &str, label: &str) -> IntGaugeVec {
        self.gauge_family(name, help, &[label])
    }

    /// A series that is always 1 and says something with its labels.
    pub(crate) fn info(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.keep(GaugeVec::new(self.opts(name, help), labels))
    }

    pub(crate) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.keep(IntCounter::with_opts(self.opts(name, help)))
    }

    pub(crate) fn counter_family(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.keep(IntCounterVec::new(self.opts(name, help), labels))
    }

    pub(crate) fn gauge_family(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.keep(IntGaugeVec::new(self.opts(name, help), labels))
    }

    pub(crate) fn histogram_family(&self, name: &str, help: &str, labels: &[&str], bounds: &[f64]) -> HistogramVec {
        self.keep(HistogramVec::new(HistogramOpts::from(self.opts(name, help)).buckets(bounds.to_vec()), labels))
    }

    /// One counter for each of `values`, in their order.
    pub(crate) fn counters(&self, name: &str, help: &str, label: &str, values: &[&str]) -> Vec<IntCounter> {
        let family = self.counter_family(name, help, &[label]);
        values.iter().map(|v| family.with_label_values(&[v])).collect()
    }

    pub(crate) fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> Histogram {
        let opts = HistogramOpts::from(self.opts(name, help)).buckets(bounds.to_vec());
        self.keep(Histogram::with_opts(opts))
    }

    /// One histogram for each of `values`, in their order.
    pub(crate) fn histograms(&self, name: &str, help: &str, label: &str, values: &[&str], bounds: &[f64]) -> Vec<Histogram> {
        let family = self.histogram_family(name, help, &[label], bounds);
        values.iter().map(|v| family.with_label_values(&[v])).collect()
    }
}
