//! OpenAI Chat Completions and the many servers that speak it: thin, over `wire` and `decode`.

use std::time::Duration;

use crate::api_key::ApiKey;
use crate::capability::Target;
use crate::error::LlmError;
use crate::http::{Deadlines, Endpoint, answer_decoder};
use crate::provider::EventStream;
use crate::providers::joined::Joined;
use crate::types::ChatRequest;
use decode::ChatStreamState;

pub mod decode;
mod models;
pub mod wire;

/// The ids of the models that a server lists, in its order, within `time` altogether. `base_url` is the
/// part before `/models`; a key goes as the bearer token.
///
/// # Errors
/// When the server does not answer in time, or not with a list of models.
pub async fn list_models(
    api_key: Option<ApiKey>,
    base_url: &str,
    time: Duration,
) -> Result<Vec<String>, LlmError> {
    let endpoint = Endpoint::new(base_url, &["models"])?.with_bearer(api_key);
    let deadlines = Deadlines { connect: time, idle: time, total: time };
    models::ids(&endpoint.with_deadlines(deadlines).get().await?)
}

/// The address below `base_url`, the part before `/chat/completions`.
pub(super) fn endpoint(base_url: &str) -> Result<Endpoint, LlmError> {
    Endpoint::new(base_url, &["chat", "completions"])
}

pub(super) async fn ask(
    endpoint: &Endpoint,
    joined: &Joined,
    req: &ChatRequest,
    target: Target,
) -> Result<EventStream, LlmError> {
    endpoint.post(wire::body(req, target, joined), ChatStreamState::new(endpoint.call_ids())).await
}

answer_decoder!(ChatStreamState);
