//! The Anthropic provider over a real socket: what is sent, what comes of the answer.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod mock;

use std::sync::Arc;

use llm::providers::anthropic::{Anthropic, wire};
use llm::{
    ApiKey, ChatRequest, Completion, ContentBlock, ErrorClass, EventStream, FinishReason,
    IntegrityError, LlmError, Message, Provider, Usage, collect,
};
use serde_json::json;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const ANSWER: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","role":"assistant","model":"m","usage":{"input_tokens":25,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I ask about "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Oslo."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\": \"Os"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"lo\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":40}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn key() -> ApiKey {
    ApiKey::new("sk-test-0123456789abcdef0123").unwrap()
}

fn request() -> ChatRequest {
    ChatRequest {
        model: "claude-sonnet-5".into(),
        messages: vec![Arc::new(Message::user_text("Weather in Oslo?"))],
        max_tokens: 100,
        ..ChatRequest::default()
    }
}

async fn server(answer: ResponseTemplate) -> MockServer {
    mock::server("/v1/messages", answer).await
}

async fn ask(server: &MockServer) -> Result<Completion, LlmError> {
    let provider = Anthropic::with_base_url(key(), &server.uri())?;
    mock::ask(&provider, &request()).await
}

#[tokio::test]
async fn an_answer_over_the_network_becomes_a_completion() {
    let server = server(mock::stream(ANSWER)).await;
    let completion = ask(&server).await.unwrap();
    assert_eq!(completion.finish, FinishReason::ToolUse);
    assert_eq!(completion.usage, Usage { input: Some(25), output: Some(40), ..Usage::default() });
    assert_eq!(
        completion.blocks,
        [
            ContentBlock::text("I ask about Oslo."),
            ContentBlock::ToolCall {
                id: "toolu_1".into(),
                name: "weather".into(),
                arguments: json!({"city": "Oslo"}),
                meta: None,
            },
        ]
    );
}

#[tokio::test]
async fn the_request_carries_the_key_the_version_and_exactly_the_wire_form() {
    let answer = mock::stream(ANSWER);
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v1/messages"))
        .and(header("x-api-key", "sk-test-0123456789abcdef0123"))
        .and(header("anthropic-version", "2023-06-01"))
        .and(header("content-type", "application/json"))
        .respond_with(answer)
        .expect(1)
        .mount(&server)
        .await;
    ask(&server).await.unwrap();
    assert_eq!(mock::body(&mock::sent(&server).await[0]), wire::to_wire(&request()));
}

#[tokio::test]
async fn an_overload_is_retryable_and_a_wrong_key_is_not() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let overloaded = server(ResponseTemplate::new(529).set_body_raw(body, "application/json"));
    let error = ask(&overloaded.await).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(error.to_string(), "HTTP 529: Overloaded");

    let body =
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
    let refused = server(ResponseTemplate::new(401).set_body_raw(body, "application/json"));
    let error = ask(&refused.await).await.unwrap_err();
    assert!(!error.is_retryable());
    assert_eq!(error.class(), Some(ErrorClass::Auth));
}

#[tokio::test]
async fn a_request_without_messages_is_refused_before_it_is_sent() {
    let server = server(ResponseTemplate::new(200)).await;
    let provider = Anthropic::with_base_url(key(), &server.uri()).unwrap();
    let refused = provider.stream(&ChatRequest::default()).await;
    assert!(matches!(refused.err(), Some(LlmError::Transcript(IntegrityError::Empty))));
    assert_eq!(mock::sent(&server).await.len(), 0);
}

/// The request is gone when the stream is read: the stream borrows nothing from it.
async fn stream_of(provider: Arc<dyn Provider>) -> EventStream {
    let req = request();
    provider.stream(&req).await.unwrap()
}

#[tokio::test]
async fn a_provider_is_an_object_and_its_stream_owns_all_it_needs() {
    let server = server(mock::stream(ANSWER)).await;
    let provider = Anthropic::with_base_url(key(), &server.uri()).unwrap().named("proxy");
    let provider: Arc<dyn Provider> = Arc::new(provider);
    assert_eq!(provider.name(), "proxy");
    let stream = stream_of(provider).await;
    let read = tokio::spawn(collect(stream)).await.unwrap();
    assert_eq!(read.unwrap().finish, FinishReason::ToolUse);
}

#[test]
fn an_address_that_is_none_is_refused_when_the_provider_is_made() {
    let error = Anthropic::with_base_url(key(), "localhost").err().unwrap();
    assert_eq!(error.kind(), "config");
    assert_eq!(Anthropic::new(key()).name(), "anthropic");
}
