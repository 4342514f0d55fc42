//! OpenAI Responses and the servers that speak it: thin, over `wire` and `decode`.

use crate::capability::Target;
use crate::error::LlmError;
use crate::http::{Endpoint, answer_decoder};
use crate::provider::EventStream;
use crate::providers::joined::Joined;
use crate::types::ChatRequest;
use decode::ResponsesStreamState;

pub mod decode;
pub mod wire;

/// The address below `base_url`, the part before `/responses`.
pub(super) fn endpoint(base_url: &str) -> Result<Endpoint, LlmError> {
    Endpoint::new(base_url, &["responses"])
}

pub(super) async fn ask(
    endpoint: &Endpoint,
    joined: &Joined,
    req: &ChatRequest,
    target: Target,
) -> Result<EventStream, LlmError> {
    endpoint
        .post(wire::body(req, target, joined), ResponsesStreamState::new(endpoint.call_ids()))
        .await
}

answer_decoder!(ResponsesStreamState);
