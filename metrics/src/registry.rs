//! The registry: every series made once, every child resolved once, so that recording is a few atomic additions.

use crate::keys::{KeySeries, Keys};
use crate::maker::Maker;
use crate::series::{Losses, Memory, Requests, Service, Steps, Times};
use prometheus::{Registry, TextEncoder};

/// All series of one service. Share it in an `Arc`; every method takes `&self` and does no I/O.
///
/// Every series carries `model_name`. Children of bounded labels exist from the start, so that a rate over them is 0 and not absent.
pub struct Metrics {
    registry: Registry,
    pub(crate) service: Service,
    pub(crate) losses: Losses,
    pub(crate) memory: Memory,
    pub(crate) requests: Requests,
    pub(crate) times: Times,
    pub(crate) steps: Steps,
    keys: Keys,
}

impl Metrics {
    /// A fresh registry for the model that clients know as `model_name`; `context_tokens` bounds the token histograms.
    pub fn new(model_name: &str, context_tokens: u32) -> Metrics {
        let maker = Maker { registry: Registry::new(), model_name };
        Metrics {
            service: Service::new(&maker),
            losses: Losses::new(&maker),
            memory: Memory::new(&maker),
            requests: Requests::new(&maker, context_tokens),
            times: Times::new(&maker),
            steps: Steps::new(&maker),
            keys: Keys::new(&maker),
            registry: maker.registry,
        }
    }

    /// The series of the key with this name, which must be one of the operator's.
    pub fn key(&self, name: &str) -> KeySeries {
        KeySeries::new(&self.keys, name)
    }

    /// Everything in Prometheus' text exposition format 0.0.4; [`CONTENT_TYPE`](crate::CONTENT_TYPE) goes with it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text).expect("writing to a string cannot fail, and every family has a name and a child");
        text
    }
}
