//! What Ollama tells beyond the dialect it shares with others: the context a model is loaded with.
//!
//! Ollama cuts a request that is longer than this context without a word, oldest part first, and its
//! default is small. The request itself cannot raise it; the person who runs the server can.
//! Source: `GET /api/ps` in Ollama's own API, `context_length` of each running model.

use std::time::Duration;

use serde::Deserialize;

use crate::error::LlmError;
use crate::http::{Deadlines, Endpoint};

/// How many tokens of context the server at `base_url` (ends in `/v1`) has loaded `model` with, within
/// `time` altogether. `None` while it is not loaded, and from servers too old to tell.
///
/// # Errors
/// When the server does not answer in time, or not with a list of running models.
pub async fn loaded_context(
    base_url: &str,
    model: &str,
    time: Duration,
) -> Result<Option<u64>, LlmError> {
    let root = base_url.trim_end_matches('/').trim_end_matches("/v1");
    let deadlines = Deadlines { connect: time, idle: time, total: time };
    let endpoint = Endpoint::new(root, &["api", "ps"])?.with_deadlines(deadlines);
    context_of(model, &endpoint.get().await?)
}

#[derive(Deserialize)]
struct Running {
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
    context_length: Option<u64>,
}

fn context_of(model: &str, document: &[u8]) -> Result<Option<u64>, LlmError> {
    let running: Running = serde_json::from_slice(document)
        .map_err(|error| LlmError::Decode(format!("it is no list of running models ({error})")))?;
    let is_it = |running: &&Model| {
        // A name without a tag means this one.
        running.name == model || running.name.strip_suffix(":latest") == Some(model)
    };
    Ok(running.models.iter().find(is_it).and_then(|running| running.context_length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, want: Option<u64>) {
        let document = br#"{"models":[
            {"name":"qwen3:8b","model":"qwen3:8b","size":1,"details":{},"context_length":4096},
            {"name":"llama3:latest","context_length":32768},
            {"name":"old:1b","size_vram":2}]}"#;
        assert_eq!(context_of(model, document).unwrap(), want, "{model}");
    }

    #[test]
    fn the_context_is_that_of_the_model_and_not_of_its_neighbour() {
        check("qwen3:8b", Some(4096));
        check("llama3", Some(32768));
        check("llama3:latest", Some(32768));
        check("qwen3", None);
        check("old:1b", None);
    }

    #[test]
    fn something_else_is_no_list_of_running_models() {
        for wrong in [&b"<html>"[..], b"[]", b"{}", br#"{"models":[{}]}"#] {
            assert!(matches!(context_of("m", wrong), Err(LlmError::Decode(_))));
        }
        assert_eq!(context_of("m", br#"{"models":[]}"#).unwrap(), None);
    }
}
