//! HTTP: OpenAI's and Anthropic's wire types, server-sent events, failures → status. This crate may never know MLX.
//!
//! A request's way through the rooms: `body` reads bytes → `fields` reads JSON → `ask` makes an [`actors::Ask`] of it → [`actors::Service`] answers
//! with events → `stream` or `whole` makes wire text of them. `routes` composes, `refusal` is where every status is decided, `server` binds.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod anthropic;
mod ask;
mod body;
mod complete;
mod console;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod ids;
mod keys;
mod messages;
mod openai;
mod openapi;
mod refusal;
mod responses;
mod routes;
mod server;
mod stream;
mod tag;
mod tokens;
mod turns;
mod voice;
mod wire;

pub use keys::{Keys, KeysError, fresh as fresh_key};
pub use routes::app;
pub use server::{Bound, Running, ServeError, ServeOptions, bind, serve};
