//! OpenAI Chat Completions and the many servers that speak it: thin, over `wire` and `decode`.

use std::time::Duration;

use async_trait::async_trait;

use crate::api_key::ApiKey;
use crate::error::LlmError;
use crate::http::{Deadlines, Endpoint, answer_decoder};
use crate::provider::{self, EventStream, Provider, random_call_ids};
use crate::schema::SchemaDialect;
use crate::types::ChatRequest;
use decode::ChatStreamState;
use options::ChatOptions;

pub mod decode;
mod models;
pub mod options;
pub mod wire;

/// Where the original service answers.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// One server that speaks Chat Completions.
pub struct OpenAiChat {
    name: String,
    endpoint: Endpoint,
    options: ChatOptions,
}

impl OpenAiChat {
    /// The original service, under the name `openai-chat`.
    pub fn new(api_key: ApiKey) -> Self {
        Self::with_base_url(Some(api_key), BASE_URL).expect("the service's own address is a URL")
    }

    /// A server at `base_url`, the part before `/chat/completions`; without a key no
    /// `Authorization` header is sent. Its options are what is known about that address
    /// ([`ChatOptions::for_base_url`]).
    ///
    /// # Errors
    /// `Config` when `base_url` is no http or https address.
    pub fn with_base_url(api_key: Option<ApiKey>, base_url: &str) -> Result<Self, LlmError> {
        let endpoint = endpoint(api_key, base_url, &["chat", "completions"])?;
        let options = ChatOptions::for_base_url(base_url);
        Ok(Self { name: "openai-chat".to_owned(), endpoint, options })
    }

    /// The same under the name that people configured it with.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same with options of its own.
    #[must_use]
    pub fn with_options(mut self, options: ChatOptions) -> Self {
        self.options = options;
        self
    }

    /// The same with other deadlines.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.endpoint = self.endpoint.with_deadlines(deadlines);
        self
    }

    /// The ids of the models that a server lists, in its order, within `time` altogether. `base_url` and
    /// `api_key` as for [`OpenAiChat::with_base_url`].
    ///
    /// # Errors
    /// When the server does not answer in time, or not with a list of models.
    pub async fn list_models(
        api_key: Option<ApiKey>,
        base_url: &str,
        time: Duration,
    ) -> Result<Vec<String>, LlmError> {
        let endpoint = endpoint(api_key, base_url, &["models"])?;
        let deadlines = Deadlines { connect: time, idle: time, total: time };
        models::ids(&endpoint.with_deadlines(deadlines).get().await?)
    }
}

fn endpoint(api_key: Option<ApiKey>, base_url: &str, path: &[&str]) -> Result<Endpoint, LlmError> {
    Ok(Endpoint::new(base_url, path)?.with_bearer(api_key))
}

#[async_trait]
impl Provider for OpenAiChat {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        provider::check(req, SchemaDialect::Full)?;
        let decoder = ChatStreamState::new(random_call_ids());
        self.endpoint.post(wire::body(req, self.options), decoder).await
    }
}

answer_decoder!(ChatStreamState);
