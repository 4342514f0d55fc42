//! A server that answers every request alike and keeps what it was asked.

#![allow(dead_code, unreachable_pub, reason = "each test target uses its part of this module")]
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::sync::Arc;

use llm::providers::{Connection, connect};
use llm::{ApiKey, ChatRequest, Completion, Dialect, LlmError, Provider, TargetOverrides, collect};
use serde_json::Value;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

/// Answers what is posted to `at`.
pub async fn server(at: &str, answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).and(path(at)).respond_with(answer).mount(&server).await;
    server
}

/// A successful answer.
pub fn stream(body: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(body, "text/event-stream")
}

/// A server of this dialect at `base_url`, of which nothing is known but what `told` says.
pub fn provider(
    dialect: Dialect,
    base_url: String,
    key: Option<&str>,
    told: TargetOverrides,
) -> Arc<dyn Provider> {
    let mut connection = Connection::new(dialect, base_url);
    connection.key = key.map(|key| ApiKey::new(key).unwrap());
    connection.target = connection.target.with(&told);
    connect(connection).unwrap()
}

/// Asks and reads the answer to its end.
pub async fn ask(provider: &dyn Provider, req: &ChatRequest) -> Result<Completion, LlmError> {
    collect(provider.stream(req).await?).await
}

/// The requests that reached the server.
pub async fn sent(server: &MockServer) -> Vec<Request> {
    server.received_requests().await.unwrap()
}

/// The body of a request.
pub fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}
