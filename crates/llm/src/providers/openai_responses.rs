//! OpenAI Responses and the servers that speak it: thin, over `wire` and `decode`.

use async_trait::async_trait;

use crate::api_key::ApiKey;
use crate::error::LlmError;
use crate::http::{Deadlines, Endpoint, answer_decoder};
use crate::provider::{self, EventStream, Provider, random_call_ids};
use crate::schema::SchemaDialect;
use crate::types::ChatRequest;
use decode::ResponsesStreamState;
use options::ResponsesOptions;

pub mod decode;
pub mod options;
pub mod wire;

/// Where the original service answers.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// One server that speaks Responses.
pub struct OpenAiResponses {
    name: String,
    endpoint: Endpoint,
    options: ResponsesOptions,
}

impl OpenAiResponses {
    /// The original service, under the name `openai-responses`.
    pub fn new(api_key: ApiKey) -> Self {
        Self::with_base_url(Some(api_key), BASE_URL).expect("the service's own address is a URL")
    }

    /// A server at `base_url`, the part before `/responses`; without a key no `Authorization` header
    /// is sent. Its options are what is known about that address
    /// ([`ResponsesOptions::for_base_url`]).
    ///
    /// # Errors
    /// `Config` when `base_url` is no http or https address.
    pub fn with_base_url(api_key: Option<ApiKey>, base_url: &str) -> Result<Self, LlmError> {
        let endpoint = Endpoint::new(base_url, &["responses"])?.with_bearer(api_key);
        let options = ResponsesOptions::for_base_url(base_url);
        Ok(Self { name: "openai-responses".to_owned(), endpoint, options })
    }

    /// The same under the name that people configured it with.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same with options of its own.
    #[must_use]
    pub fn with_options(mut self, options: ResponsesOptions) -> Self {
        self.options = options;
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
impl Provider for OpenAiResponses {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        provider::check(req, SchemaDialect::Full)?;
        let decoder = ResponsesStreamState::new(random_call_ids());
        self.endpoint.post(wire::body(req, self.options), decoder).await
    }
}

answer_decoder!(ResponsesStreamState);
