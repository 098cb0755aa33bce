//! A door for `fuzz/`: what reads a client's bytes, without a server around it.

use crate::ask;
use crate::body::{check_cost, parse};
use crate::openai::Shape;
use actors::ModelCard;

/// A body as each of the two routes reads it. Whether one takes it.
pub fn body(bytes: &[u8]) -> bool {
    let Ok(body) = check_cost(bytes).and_then(|()| parse(bytes)) else { return false };
    let card = ModelCard { id: "team/tiny".into(), created_unix_s: 1, context_length: 4096 };
    [Shape::Chat, Shape::Text].map(|shape| ask::read(shape, body.clone(), &card).is_ok()).contains(&true)
}
