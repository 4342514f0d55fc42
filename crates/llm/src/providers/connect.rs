//! Makes a provider out of an address, a key and what is known of the server.

use std::sync::Arc;

use async_trait::async_trait;

use super::joined::Joined;
use super::{anthropic, gemini, openai_chat, openai_responses};
use crate::api_key::ApiKey;
use crate::capability::{Dialect, KeyHeader, TargetFor};
use crate::error::LlmError;
use crate::http::{Deadlines, Endpoint};
use crate::provider::{self, EventStream, Provider};
use crate::recording::{Player, Tape};
use crate::types::ChatRequest;

/// What it takes to reach a server.
#[derive(Clone)]
pub struct Connection {
    /// The name that people configured it under.
    pub name: String,
    /// The address without the path of the dialect, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key; without one no header for it is sent.
    pub key: Option<ApiKey>,
    /// The dialect, and what the server and its models take.
    pub target: TargetFor,
    /// How long an answer may take.
    pub deadlines: Deadlines,
    /// Where requests are kept, or answered from without the network and a key.
    pub tape: Option<Tape>,
}

impl Connection {
    /// A server at `base_url` under the name of its dialect, without a key, and with what is known by
    /// the address alone.
    pub fn new(dialect: Dialect, base_url: impl Into<String>) -> Self {
        let base_url = base_url.into();
        Self {
            name: dialect.name().to_owned(),
            target: TargetFor::new(dialect, None, &base_url),
            base_url,
            key: None,
            deadlines: Deadlines::default(),
            tape: None,
        }
    }
}

/// The provider behind a connection. Nothing is sent before the first request.
///
/// # Errors
/// `Config` when the address is no http or https address.
pub fn connect(connection: Connection) -> Result<Arc<dyn Provider>, LlmError> {
    let Connection { name, base_url, key, target, deadlines, tape } = connection;
    let endpoint = match target.dialect() {
        Dialect::Anthropic => anthropic::endpoint(&base_url)?,
        Dialect::OpenaiChat => openai_chat::endpoint(&base_url)?,
        Dialect::OpenaiResponses => openai_responses::endpoint(&base_url)?,
        Dialect::Gemini => gemini::endpoint(&base_url)?,
    };
    let endpoint = match key {
        Some(key) => with_key(endpoint, key, target.of("").key_header),
        None => endpoint,
    };
    let endpoint = endpoint.with_deadlines(deadlines).with_tape(tape, target.dialect());
    Ok(Arc::new(Connected { name, endpoint, target, joined: Joined::default() }))
}

/// A provider that knows no server, only a recording, in whatever dialect that is.
///
/// # Errors
/// `Config` when the recording holds no request in a dialect that is spoken here.
pub fn replay(name: &str, player: Arc<Player>) -> Result<Arc<dyn Provider>, LlmError> {
    let dialect = player.dialect().ok_or_else(|| {
        LlmError::Config("the recording holds no request in a known format".to_owned())
    })?;
    connect(Connection {
        name: name.to_owned(),
        tape: Some(Tape::Replay(player)),
        ..Connection::new(dialect, "http://recording.invalid")
    })
}

fn with_key(endpoint: Endpoint, key: ApiKey, header: KeyHeader) -> Endpoint {
    match header {
        KeyHeader::Bearer => endpoint.with_bearer(Some(key)),
        KeyHeader::XApiKey => endpoint.with_key("x-api-key", "", key),
        KeyHeader::ApiKey => endpoint.with_key("api-key", "", key),
        KeyHeader::XGoogApiKey => endpoint.with_key("x-goog-api-key", "", key),
    }
}

struct Connected {
    name: String,
    endpoint: Endpoint,
    target: TargetFor,
    joined: Joined,
}

#[async_trait]
impl Provider for Connected {
    fn name(&self) -> &str {
        &self.name
    }

    fn target(&self) -> Option<TargetFor> {
        Some(self.target)
    }

    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        let target = self.target.of(&req.model);
        provider::check(req, target.tool_schema)?;
        let (endpoint, joined) = (&self.endpoint, &self.joined);
        match self.target.dialect() {
            Dialect::Anthropic => anthropic::ask(endpoint, joined, req, target).await,
            Dialect::OpenaiChat => openai_chat::ask(endpoint, joined, req, target).await,
            Dialect::OpenaiResponses => openai_responses::ask(endpoint, joined, req, target).await,
            Dialect::Gemini => gemini::ask(endpoint, joined, req, target).await,
        }
    }
}
