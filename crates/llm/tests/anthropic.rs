//! The Anthropic provider over a real socket: what is sent, what comes of the answer.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod mock;

use std::sync::Arc;

use llm::capability::target;
use llm::providers::anthropic::wire;
use llm::providers::{Connection, connect};
use llm::{
    ApiKey, ChatRequest, Completion, ContentBlock, Dialect, ErrorClass, EventStream, FinishReason,
    IntegrityError, LlmError, Message, Provider, TargetFor, TargetOverrides, Usage, collect,
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

const KEY: &str = "sk-test-0123456789abcdef0123";

fn provider(server: &MockServer) -> Arc<dyn Provider> {
    mock::provider(Dialect::Anthropic, server.uri(), Some(KEY), TargetOverrides::NONE)
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
    mock::ask(&*provider(server), &request()).await
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
    let row = target(Dialect::Anthropic, None, "", "claude-sonnet-5");
    assert_eq!(mock::body(&mock::sent(&server).await[0]), wire::to_wire(&request(), row));
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
    let refused = provider(&server).stream(&ChatRequest::default()).await;
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
    let stream = stream_of(provider(&server)).await;
    let read = tokio::spawn(collect(stream)).await.unwrap();
    assert_eq!(read.unwrap().finish, FinishReason::ToolUse);
}

#[tokio::test]
async fn the_key_goes_in_the_header_that_the_server_wants_and_without_one_in_none() {
    let server = server(mock::stream(ANSWER)).await;
    let mut connection = Connection::new(Dialect::Anthropic, server.uri());
    mock::ask(&*connect(connection.clone()).unwrap(), &request()).await.unwrap();
    connection.key = Some(ApiKey::new(KEY).unwrap());
    connection.target = TargetFor::new(Dialect::Anthropic, Some("azure"), &server.uri());
    mock::ask(&*connect(connection.clone()).unwrap(), &request()).await.unwrap();
    let told = serde_json::from_value(json!({"key_header": "api-key"})).unwrap();
    connection.target = connection.target.with(&told);
    mock::ask(&*connect(connection).unwrap(), &request()).await.unwrap();
    let sent = mock::sent(&server).await;
    let header = |at: usize, name: &str| sent[at].headers.get(name).map(|value| value == KEY);
    let keys = |at| ["x-api-key", "api-key", "authorization"].map(|name| header(at, name));
    assert_eq!(keys(0), [None, None, None]);
    assert_eq!(keys(1), [Some(true), None, None]);
    assert_eq!(keys(2), [None, Some(true), None]);
}

#[test]
fn an_address_that_is_none_is_refused_when_the_provider_is_made() {
    for dialect in Dialect::ALL {
        let error = connect(Connection::new(dialect, "localhost")).err().unwrap();
        assert_eq!(error.kind(), "config", "{dialect:?}");
    }
}

#[test]
fn a_provider_goes_by_the_name_it_was_configured_under_or_by_its_dialect() {
    for dialect in Dialect::ALL {
        let mut connection = Connection::new(dialect, "http://127.0.0.1:1");
        assert_eq!(connect(connection.clone()).unwrap().name(), dialect.name());
        connection.name = "proxy".to_owned();
        assert_eq!(connect(connection).unwrap().name(), "proxy");
    }
}

#[tokio::test]
async fn a_refusal_comes_with_the_words_of_the_server_beside_its_content() {
    let refused = include_str!("fixtures/anthropic/refusal.sse");
    let server = mock::server("/v1/messages", mock::stream(refused)).await;
    let completion = mock::ask(&*provider(&server), &request()).await.unwrap();
    assert_eq!(completion.finish, FinishReason::Refusal);
    assert_eq!(completion.explanation.as_deref(), Some("not this"));
    let odd = refused
        .replace(r#"{"category":"policy","explanation":"not this"}"#, r#"{"explanation":7}"#);
    let server = mock::server("/v1/messages", mock::stream(&odd)).await;
    let completion = mock::ask(&*provider(&server), &request()).await.unwrap();
    assert_eq!((completion.finish, completion.explanation), (FinishReason::Refusal, None));
}
