//! Anthropic Messages: thin, over `wire` and `decode`.

use crate::capability::Target;
use crate::error::LlmError;
use crate::http::{Endpoint, answer_decoder};
use crate::provider::EventStream;
use crate::providers::joined::Joined;
use crate::types::ChatRequest;
use decode::StreamState;

pub mod decode;
pub mod wire;

/// The version of the protocol that `wire` and `decode` speak.
const VERSION: &str = "2023-06-01";

/// The address below `base_url`, the part before `/v1/messages`.
pub(super) fn endpoint(base_url: &str) -> Result<Endpoint, LlmError> {
    Ok(Endpoint::new(base_url, &["v1", "messages"])?.with_header("anthropic-version", VERSION))
}

pub(super) async fn ask(
    endpoint: &Endpoint,
    joined: &Joined,
    req: &ChatRequest,
    target: Target,
) -> Result<EventStream, LlmError> {
    endpoint.post(wire::body(req, target, joined), StreamState::new(endpoint.call_ids())).await
}

answer_decoder!(StreamState);
