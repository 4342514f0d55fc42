//! Gemini generateContent: thin, over `wire` and `decode`.

use crate::capability::Target;
use crate::error::LlmError;
use crate::http::{Endpoint, answer_decoder};
use crate::provider::EventStream;
use crate::providers::joined::Joined;
use crate::types::ChatRequest;
use decode::GeminiStreamState;

pub mod decode;
pub mod wire;

/// The address that models are below: `base_url`, the part before `/models/…`, version included.
pub(super) fn endpoint(base_url: &str) -> Result<Endpoint, LlmError> {
    Endpoint::new(base_url, &[])
}

pub(super) async fn ask(
    endpoint: &Endpoint,
    joined: &Joined,
    req: &ChatRequest,
    target: Target,
) -> Result<EventStream, LlmError> {
    let decoder = GeminiStreamState::new(endpoint.call_ids()).of_model(&req.model);
    let address = endpoint.below(&path(&req.model), Some(("alt", "sse")));
    endpoint.post_to(address, wire::body(req, target, joined), decoder).await
}

/// The path of a model, which people write with or without the collection it is in.
fn path(model: &str) -> Vec<String> {
    let method = format!("{model}:streamGenerateContent");
    match method.contains('/') {
        true => method.split('/').map(str::to_owned).collect(),
        false => vec!["models".to_owned(), method],
    }
}

answer_decoder!(GeminiStreamState);
