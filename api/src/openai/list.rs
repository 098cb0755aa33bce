//! `/v1/models`.

use actors::ModelCard;
use serde::Serialize;

/// `/v1/models`.
#[derive(Serialize)]
pub(crate) struct ModelList<'a> {
    object: &'static str,
    data: [Model<'a>; 1],
}

#[derive(Serialize)]
pub(crate) struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// Tokens of prompt and answer together.
    max_model_len: u32,
}

impl<'a> Model<'a> {
    pub(crate) fn new(card: &'a ModelCard) -> Self {
        Model { id: &card.id, object: "model", created: card.created_unix_s, owned_by: "coxswain", max_model_len: card.context_length }
    }

    pub(crate) fn list(card: &'a ModelCard) -> ModelList<'a> {
        ModelList { object: "list", data: [Model::new(card)] }
    }
}
