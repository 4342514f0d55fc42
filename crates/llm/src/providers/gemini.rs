//! Gemini generateContent: thin, over `wire` and `decode`.

use async_trait::async_trait;

use crate::api_key::ApiKey;
use crate::error::LlmError;
use crate::http::{Deadlines, Endpoint, answer_decoder};
use crate::provider::{self, EventStream, Provider, random_call_ids};
use crate::types::ChatRequest;
use decode::GeminiStreamState;
use options::GeminiOptions;

pub mod decode;
pub mod options;
pub mod wire;

/// Where the service itself answers; the last part is the version of the protocol.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// The service, or a server that speaks its protocol.
pub struct Gemini {
    name: String,
    endpoint: Endpoint,
    options: Option<GeminiOptions>,
}

impl Gemini {
    /// The service itself, under the name `gemini`.
    pub fn new(api_key: ApiKey) -> Self {
        Self::with_base_url(api_key, BASE_URL).expect("the service's own address is a URL")
    }

    /// A server of the same protocol at `base_url`, the part before `/models/…`, version included.
    ///
    /// # Errors
    /// `Config` when `base_url` is no http or https address.
    pub fn with_base_url(api_key: ApiKey, base_url: &str) -> Result<Self, LlmError> {
        let endpoint = Endpoint::new(base_url, &[])?.with_key("x-goog-api-key", "", api_key);
        Ok(Self { name: "gemini".to_owned(), endpoint, options: None })
    }

    /// The same under the name that people configured it with.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same with these options for every model, instead of what is known about each
    /// ([`GeminiOptions::for_model`]).
    #[must_use]
    pub fn with_options(mut self, options: GeminiOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// The same with other deadlines.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.endpoint = self.endpoint.with_deadlines(deadlines);
        self
    }
}

#[async_trait]
impl Provider for Gemini {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        let options = self.options.unwrap_or_else(|| GeminiOptions::for_model(&req.model));
        provider::check(req, options.schemas)?;
        let decoder = GeminiStreamState::new(random_call_ids()).of_model(&req.model);
        let address = self.endpoint.below(&path(&req.model), Some(("alt", "sse")));
        self.endpoint.post_to(address, wire::body(req, options), decoder).await
    }
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
