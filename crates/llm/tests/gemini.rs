//! The Gemini provider over a real socket: what is sent, what comes of the answer, and what goes back.

mod mock;

use std::sync::Arc;

use llm::capability::target;
use llm::providers::gemini::wire;
use llm::schema::SchemaDialect;
use llm::{
    ChatRequest, ContentBlock, Dialect, ErrorClass, FinishReason, IntegrityError, LlmError,
    Message, Provider, Role, TargetOverrides, ToolSpec, Usage,
};
use mock::{ask, body, sent, stream};
use serde_json::{Value, json};
use wiremock::matchers::{header, method, path, query_param};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

const MODEL: &str = "gemini-3-flash";

/// Asks for two tides; only the first call is signed, and only it has an id.
const CALLS: &str = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Two ports.\",\"thought\":true}],\"role\":\"model\"},\"index\":0}]}\r\n\r\n\
data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"tide\",\"args\":{\"port\":\"Husum\"},\"id\":\"fc-1\"},\"thoughtSignature\":\"c2lnbmVk\"},\
{\"functionCall\":{\"name\":\"tide\",\"args\":{\"port\":\"List\"}}}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\
\"usageMetadata\":{\"promptTokenCount\":50,\"candidatesTokenCount\":20,\"thoughtsTokenCount\":5,\"cachedContentTokenCount\":10}}\r\n\r\n";

/// Says what the tides are; the signature comes in a part of its own.
const ANSWER: &str = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Nine \"}],\"role\":\"model\"},\"index\":0}]}\r\n\r\n\
data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"and ten.\"}],\"role\":\"model\"},\"index\":0}]}\r\n\r\n\
data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"ZW5k\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}]}\r\n\r\n";

const KEY: &str = "sk-test-0123456789abcdef0123";

fn request(messages: Vec<Message>) -> ChatRequest {
    let messages = messages.into_iter().map(Arc::new).collect();
    ChatRequest { model: MODEL.into(), messages, max_tokens: 100, ..ChatRequest::default() }
}

fn question() -> ChatRequest {
    request(vec![Message::user_text("High water in Husum and on Sylt?")])
}

async fn server(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path(format!("/v1beta/models/{MODEL}:streamGenerateContent")))
        .and(query_param("alt", "sse"))
        .and(header("x-goog-api-key", "sk-test-0123456789abcdef0123"))
        .and(header("content-type", "application/json"))
        .respond_with(answer)
        .mount(&server)
        .await;
    server
}

fn provider(server: &MockServer) -> Arc<dyn Provider> {
    told(format!("{}/v1beta", server.uri()), TargetOverrides::NONE)
}

fn told(base_url: String, told: TargetOverrides) -> Arc<dyn Provider> {
    mock::provider(Dialect::Gemini, base_url, Some(KEY), told)
}

#[tokio::test]
async fn two_parallel_calls_over_the_network_become_a_completion() {
    let server = server(stream(CALLS)).await;
    let completion = ask(&*provider(&server), &question()).await.unwrap();
    assert_eq!(completion.finish, FinishReason::ToolUse);
    assert_eq!(
        completion.usage,
        Usage { input: Some(40), output: Some(25), cache_read: Some(10), cache_write: None }
    );
    let message = completion.commit().unwrap();
    let calls: Vec<_> = message.tool_calls().collect();
    assert_eq!((calls[0].id, calls[0].arguments), ("fc-1", &json!({"port": "Husum"})));
    assert!(calls[1].id.starts_with("call_"), "{}", calls[1].id);
    assert_eq!(
        body(&sent(&server).await[0]),
        wire::to_wire(&question(), target(Dialect::Gemini, None, "", MODEL))
    );
}

#[tokio::test]
async fn a_signature_goes_back_with_its_own_call_and_the_results_with_the_names_of_theirs() {
    let server = server(stream(CALLS)).await;
    let step = ask(&*provider(&server), &question()).await.unwrap().commit().unwrap();
    let result = |call: llm::ToolCallRef<'_>| ContentBlock::tool_result(call.id, "9:30", false);
    let results: Vec<ContentBlock> = step.tool_calls().map(result).collect();
    server.reset().await;
    Mock::given(method("POST")).respond_with(stream(ANSWER)).mount(&server).await;

    let mut req = question();
    req.messages.extend([Arc::new(step), Arc::new(Message::new(Role::User, results))]);
    let answer = ask(&*provider(&server), &req).await.unwrap();
    assert_eq!(
        body(&sent(&server).await[0])["contents"].as_array().unwrap()[1..],
        [
            json!({"role": "model", "parts": [
                {"functionCall": {"id": "fc-1", "name": "tide", "args": {"port": "Husum"}},
                 "thoughtSignature": "c2lnbmVk"},
                {"functionCall": {"name": "tide", "args": {"port": "List"}}},
            ]}),
            json!({"role": "user", "parts": [
                {"functionResponse": {"id": "fc-1", "name": "tide", "response": {"result": "9:30"}}},
                {"functionResponse": {"name": "tide", "response": {"result": "9:30"}}},
            ]}),
        ]
    );

    req.messages.push(Arc::new(answer.commit().unwrap()));
    req.messages.push(Arc::new(Message::user_text("Thanks.")));
    ask(&*provider(&server), &req).await.unwrap();
    let parts = &body(&sent(&server).await[1])["contents"][3]["parts"];
    assert_eq!(
        parts,
        &json!([{"text": "Nine and ten."}, {"text": "", "thoughtSignature": "ZW5k"}])
    );
}

#[tokio::test]
async fn a_conversation_begun_elsewhere_goes_on_in_the_middle_of_its_calls() {
    let server = server(stream(ANSWER)).await;
    let call = ContentBlock::ToolCall {
        id: "toolu_1".into(),
        name: "tide".into(),
        arguments: json!({"port": "Husum"}),
        meta: None,
    };
    let req = request(vec![
        Message::user_text("High water in Husum?"),
        Message::new(Role::Assistant, vec![call]),
        Message::new(Role::User, vec![ContentBlock::tool_result("toolu_1", "9:30", false)]),
    ]);
    ask(&*provider(&server), &req).await.unwrap();
    let contents = body(&sent(&server).await[0])["contents"].clone();
    assert_eq!(contents[1]["parts"][0]["thoughtSignature"], "skip_thought_signature_validator");
    assert!(!contents.to_string().contains("toolu_1"), "{contents}");
}

#[tokio::test]
async fn a_model_is_named_with_its_collection_or_without_it() {
    let server = MockServer::start().await;
    let answer = Mock::given(method("POST")).respond_with(stream(ANSWER));
    answer.mount(&server).await;
    let base = format!("{}/v1beta?trace=1", server.uri());
    let provider = told(base, TargetOverrides::NONE);
    for model in ["gemini-3-flash", "models/gemini-3-flash", "tunedModels/mine", "../x?y#z"] {
        ask(&*provider, &ChatRequest { model: model.into(), ..question() }).await.unwrap();
    }
    let address =
        |sent: &Request| format!("{}?{}", sent.url.path(), sent.url.query().unwrap_or_default());
    let addresses: Vec<String> = sent(&server).await.iter().map(address).collect();
    assert_eq!(
        addresses,
        [
            "/v1beta/models/gemini-3-flash:streamGenerateContent?trace=1&alt=sse",
            "/v1beta/models/gemini-3-flash:streamGenerateContent?trace=1&alt=sse",
            "/v1beta/tunedModels/mine:streamGenerateContent?trace=1&alt=sse",
            "/v1beta/x%3Fy%23z:streamGenerateContent?trace=1&alt=sse",
        ]
    );
}

#[tokio::test]
async fn a_tool_that_the_target_cannot_take_is_left_out_and_the_others_are_offered() {
    let server = server(stream(ANSWER)).await;
    let tool = |name: &str, kind: Value| ToolSpec {
        name: name.into(),
        description: "d".into(),
        input_schema: json!({"type": "object", "properties": {"a": {"type": kind}}}),
    };
    let tools = vec![tool("union", json!(["string", "integer"])), tool("plain", json!("string"))];
    let legacy =
        TargetOverrides { tool_schema: Some(SchemaDialect::Limited), ..TargetOverrides::NONE };
    let provider = told(format!("{}/v1beta", server.uri()), legacy);
    ask(&*provider, &ChatRequest { tools, ..question() }).await.unwrap();
    let tools = body(&sent(&server).await[0])["tools"][0]["functionDeclarations"].clone();
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    assert_eq!(tools, json!([{"name": "plain", "description": "d", "parameters": schema}]));
}

#[tokio::test]
async fn an_error_answer_in_a_list_is_read() {
    let body = r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#;
    let refused = server(ResponseTemplate::new(400).set_body_raw(body, "application/json")).await;
    let error = ask(&*provider(&refused), &question()).await.unwrap_err();
    assert_eq!(error.to_string(), "HTTP 400: API key not valid. Please pass a valid API key.");
    assert_eq!((error.class(), error.is_retryable()), (Some(ErrorClass::Auth), false));

    let body = r#"[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]"#;
    let busy = server(ResponseTemplate::new(200).set_body_raw(body, "application/json")).await;
    let error = ask(&*provider(&busy), &question()).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn the_interactions_api_at_the_same_address_is_refused_by_name() {
    let event = "data: {\"interaction\":{\"id\":\"i\"},\"event_type\":\"interaction.created\"}\n\n";
    let other = server(stream(event)).await;
    let error = ask(&*provider(&other), &question()).await.unwrap_err();
    assert!(error.to_string().contains("Gemini Interactions API"), "{error}");
}

#[tokio::test]
async fn a_request_without_messages_is_refused_before_it_is_sent() {
    let server = server(stream(ANSWER)).await;
    let refused = ask(&*provider(&server), &request(Vec::new())).await;
    assert!(matches!(refused.err(), Some(LlmError::Transcript(IntegrityError::Empty))));
    assert_eq!(sent(&server).await.len(), 0);
}
