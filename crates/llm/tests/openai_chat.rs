//! The Chat Completions provider over a real socket: what is sent, what comes of the answer.

mod mock;

use std::sync::Arc;

use llm::capability::{MaxTokensField, ReasoningReplay, target};
use llm::providers::openai_chat::wire;
use llm::{
    ChatRequest, ContentBlock, Dialect, FinishReason, IntegrityError, LlmError, Message, Provider,
    Role, TargetOverrides, Usage,
};
use mock::{ask, body, sent};
use serde_json::json;
use wiremock::MockServer;

const TWO_CALLS: &str = r#"data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"Two cities."},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"weather","arguments":""}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Oslo\"}"}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"weather","arguments":"{\"city\":"}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"\"Lima\"}"}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c","choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20,"total_tokens":70,"prompt_tokens_details":{"cached_tokens":10}}}

data: [DONE]

"#;

fn request() -> ChatRequest {
    ChatRequest {
        model: "m".into(),
        system: Some("Be brief.".into()),
        messages: vec![Arc::new(Message::user_text("Weather in Oslo and Lima?"))],
        max_tokens: 100,
        ..ChatRequest::default()
    }
}

async fn server() -> MockServer {
    mock::server("/v1/chat/completions", mock::stream(TWO_CALLS)).await
}

fn provider(server: &MockServer, key: Option<&str>) -> Arc<dyn Provider> {
    let base_url = format!("{}/v1", server.uri());
    mock::provider(Dialect::OpenaiChat, base_url, key, TargetOverrides::NONE)
}

fn told(server: &MockServer, told: TargetOverrides) -> Arc<dyn Provider> {
    mock::provider(Dialect::OpenaiChat, format!("{}/v1", server.uri()), None, told)
}

#[tokio::test]
async fn two_parallel_calls_over_the_network_become_a_completion() {
    let server = server().await;
    let completion = ask(&*provider(&server, None), &request()).await.unwrap();
    assert_eq!(completion.finish, FinishReason::ToolUse);
    assert_eq!(
        completion.usage,
        Usage { input: Some(40), output: Some(20), cache_read: Some(10), cache_write: None }
    );
    let message = completion.commit().unwrap();
    let calls: Vec<_> =
        message.tool_calls().map(|call| (call.id, call.name, call.arguments.clone())).collect();
    assert_eq!(
        calls,
        [
            ("call_a", "weather", json!({"city": "Oslo"})),
            ("call_b", "weather", json!({"city": "Lima"})),
        ]
    );
}

#[tokio::test]
async fn the_key_is_a_bearer_token_and_without_one_the_header_is_absent() {
    let server = server().await;
    ask(&*provider(&server, Some("sk-test-0123456789")), &request()).await.unwrap();
    ask(&*provider(&server, None), &request()).await.unwrap();
    let sent = sent(&server).await;
    assert_eq!(sent[0].headers["authorization"], "Bearer sk-test-0123456789");
    assert!(!sent[1].headers.contains_key("authorization"));
}

#[tokio::test]
async fn the_body_is_exactly_the_wire_form_for_the_servers_options() {
    let server = server().await;
    ask(&*provider(&server, None), &request()).await.unwrap();
    let renamed = TargetOverrides {
        max_tokens_field: Some(MaxTokensField::MaxCompletionTokens),
        ..TargetOverrides::NONE
    };
    ask(&*told(&server, renamed), &request()).await.unwrap();
    let sent = sent(&server).await;
    let body = |at: usize| body(&sent[at]);
    let cautious = target(Dialect::OpenaiChat, None, "", "m");
    assert_eq!(body(0), wire::to_wire(&request(), cautious));
    assert_eq!(
        (&body(0)["max_tokens"], &body(1)["max_completion_tokens"]),
        (&json!(100), &json!(100))
    );
    assert_eq!(body(1), wire::to_wire(&request(), cautious.with(&renamed)));
}

#[tokio::test]
async fn reasoning_of_a_call_goes_back_to_a_compatible_server_in_its_own_field() {
    let server = server().await;
    let provider = provider(&server, None);
    let answer = ask(&*provider, &request()).await.unwrap().commit().unwrap();
    let mut req = request();
    req.messages.push(Arc::new(answer));
    let results = ["call_a", "call_b"].map(|id| ContentBlock::tool_result(id, "rain", false));
    req.messages.push(Arc::new(Message::new(Role::User, results.to_vec())));
    ask(&*provider, &req).await.unwrap();
    let none =
        TargetOverrides { reasoning_replay: Some(ReasoningReplay::None), ..TargetOverrides::NONE };
    ask(&*told(&server, none), &req).await.unwrap();
    let sent = sent(&server).await;
    let assistant = |at: usize| body(&sent[at])["messages"][2].clone();
    assert_eq!(assistant(1)["reasoning_content"], "Two cities.");
    assert_eq!(assistant(2).get("reasoning_content"), None);
}

#[tokio::test]
async fn a_request_without_messages_is_refused_before_it_is_sent() {
    let server = server().await;
    let refused = ask(&*provider(&server, None), &ChatRequest::default()).await;
    assert!(matches!(refused.err(), Some(LlmError::Transcript(IntegrityError::Empty))));
    assert_eq!(sent(&server).await.len(), 0);
}
