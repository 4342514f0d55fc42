//! Anthropic Messages: thin, over `wire` and `decode`.

use async_trait::async_trait;

use crate::api_key::ApiKey;
use crate::error::LlmError;
use crate::http::{Deadlines, Endpoint, answer_decoder};
use crate::provider::{self, EventStream, Provider, random_call_ids};
use crate::schema::SchemaDialect;
use crate::types::ChatRequest;
use decode::StreamState;

pub mod decode;
pub mod wire;

/// Where the service itself answers.
pub const BASE_URL: &str = "https://api.anthropic.com";

/// The version of the protocol that `wire` and `decode` speak.
const VERSION: &str = "2023-06-01";

/// The service, or a server that speaks its protocol.
pub struct Anthropic {
    name: String,
    endpoint: Endpoint,
}

impl Anthropic {
    /// The service itself, under the name `anthropic`.
    pub fn new(api_key: ApiKey) -> Self {
        Self::with_base_url(api_key, BASE_URL).expect("the service's own address is a URL")
    }

    /// A server of the same protocol at `base_url`, the part before `/v1/messages`.
    ///
    /// # Errors
    /// `Config` when `base_url` is no http or https address.
    pub fn with_base_url(api_key: ApiKey, base_url: &str) -> Result<Self, LlmError> {
        let endpoint = Endpoint::new(base_url, &["v1", "messages"])?
            .with_header("anthropic-version", VERSION)
            .with_key("x-api-key", "", api_key);
        Ok(Self { name: "anthropic".to_owned(), endpoint })
    }

    /// The same under the name that people configured it with.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
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
impl Provider for Anthropic {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        provider::check(req, SchemaDialect::PlainRoot)?;
        let decoder = StreamState::new(random_call_ids());
        self.endpoint.post(wire::body(req), decoder).await
    }
}

answer_decoder!(StreamState);
