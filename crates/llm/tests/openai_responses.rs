//! The Responses provider over a real socket: what is sent, what comes of the answer.

mod mock;

use std::sync::Arc;

use llm::capability::target;
use llm::providers::openai_responses::wire;
use llm::{
    ChatRequest, ContentBlock, Dialect, FinishReason, IntegrityError, LlmError, Message, Provider,
    Role, TargetOverrides, Usage,
};
use mock::{ask, body, sent};
use serde_json::json;
use wiremock::MockServer;

const STEP: &str = include_str!("fixtures/openai-responses/reasoning_then_call.sse");

fn request() -> ChatRequest {
    ChatRequest {
        model: "m".into(),
        system: Some("Be brief.".into()),
        messages: vec![Arc::new(Message::user_text("When is high water in Bergen?"))],
        max_tokens: 100,
        ..ChatRequest::default()
    }
}

async fn server(answer: &str) -> MockServer {
    mock::server("/v1/responses", mock::stream(answer)).await
}

fn provider(server: &MockServer, key: Option<&str>) -> Arc<dyn Provider> {
    told(server, key, TargetOverrides::NONE)
}

fn told(server: &MockServer, key: Option<&str>, told: TargetOverrides) -> Arc<dyn Provider> {
    mock::provider(Dialect::OpenaiResponses, format!("{}/v1", server.uri()), key, told)
}

#[tokio::test]
async fn a_step_over_the_network_becomes_a_completion() {
    let server = server(STEP).await;
    let completion = ask(&*provider(&server, None), &request()).await.unwrap();
    assert_eq!(completion.finish, FinishReason::ToolUse);
    assert_eq!(
        completion.usage,
        Usage { input: Some(80), output: Some(40), cache_read: Some(0), cache_write: None }
    );
    let message = completion.commit().unwrap();
    let calls: Vec<_> = message.tool_calls().map(|call| (call.id, call.arguments)).collect();
    assert_eq!(calls, [("call_1", &json!({"port": "Bergen"}))]);
}

#[tokio::test]
async fn the_next_request_carries_the_reasoning_the_call_and_its_output_in_that_order() {
    let server = server(STEP).await;
    let provider = provider(&server, None);
    let answer = ask(&*provider, &request()).await.unwrap().commit().unwrap();
    let mut req = request();
    req.messages.push(Arc::new(answer));
    let result = ContentBlock::tool_result("call_1", "noon", false);
    req.messages.push(Arc::new(Message::new(Role::User, vec![result])));
    ask(&*provider, &req).await.unwrap();
    let sent = body(&sent(&server).await[1]);
    assert_eq!(
        sent["input"].as_array().unwrap()[1..],
        [
            json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "U0VBTEVELTE="}),
            json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                   "phase": "commentary", "content": [{"type": "output_text",
                   "text": "I look at the harbour.", "annotations": []}]}),
            json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "tide",
                   "arguments": "{\"port\":\"Bergen\"}"}),
            json!({"type": "function_call_output", "call_id": "call_1", "output": "noon"}),
        ]
    );
}

#[tokio::test]
async fn the_key_is_a_bearer_token_and_without_one_the_header_is_absent() {
    let server = server(STEP).await;
    ask(&*provider(&server, Some("sk-test-0123456789")), &request()).await.unwrap();
    ask(&*provider(&server, None), &request()).await.unwrap();
    let sent = sent(&server).await;
    assert_eq!(sent[0].headers["authorization"], "Bearer sk-test-0123456789");
    assert!(!sent[1].headers.contains_key("authorization"));
}

#[tokio::test]
async fn the_body_is_exactly_the_wire_form_for_the_servers_options() {
    let server = server(STEP).await;
    ask(&*provider(&server, None), &request()).await.unwrap();
    let flagged = TargetOverrides { obfuscation_flag: Some(true), ..TargetOverrides::NONE };
    ask(&*told(&server, None, flagged), &request()).await.unwrap();
    let sent = sent(&server).await;
    let cautious = target(Dialect::OpenaiResponses, None, "", "m");
    assert_eq!(body(&sent[0]), wire::to_wire(&request(), cautious));
    assert_eq!(body(&sent[1]), wire::to_wire(&request(), cautious.with(&flagged)));
    assert_eq!(
        (body(&sent[0]).get("stream_options"), &body(&sent[1])["stream_options"]),
        (None, &json!({"include_obfuscation": false}))
    );
}

#[tokio::test]
async fn an_answer_that_fails_on_the_way_says_how_long_to_wait() {
    let server = server(include_str!("fixtures/openai-responses/failed_for_now.sse")).await;
    let error = ask(&*provider(&server, None), &request()).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(error.retry_after().map(|wait| wait.as_millis()), Some(2_500));
}

#[tokio::test]
async fn a_request_without_messages_is_refused_before_it_is_sent() {
    let server = server(STEP).await;
    let refused = ask(&*provider(&server, None), &ChatRequest::default()).await;
    assert!(matches!(refused.err(), Some(LlmError::Transcript(IntegrityError::Empty))));
    assert_eq!(sent(&server).await.len(), 0);
}
