//! What each block becomes on the wire, and what the head of a request holds.

use serde_json::json;

use std::sync::Arc;

use super::*;
use crate::capability::{self, CallIdRule, Dialect, TargetOverrides};
use crate::types::ToolSpec;

/// The original service, with a model that does not reason.
fn any() -> Target {
    capability::target(Dialect::OpenaiChat, Some("openai-chat"), "", "gpt-4.1")
}

fn row(told: TargetOverrides) -> Target {
    any().with(&told)
}

const NONE: TargetOverrides = TargetOverrides::NONE;

fn call(id: &str, arguments: Value) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: "weather".into(), arguments, meta: None }
}

fn thought(provider: &str, text: &str, data: Value) -> ContentBlock {
    let meta = Some(ProviderMeta { provider: provider.into(), data });
    ContentBlock::Reasoning { text: text.into(), meta }
}

fn sent(role: Role, blocks: Vec<ContentBlock>, target: Target) -> Value {
    pieces::to_value(&wire(&placed(&Message::new(role, blocks), target), target))
}

fn replayed(reasoning: ReasoningReplay, blocks: Vec<ContentBlock>) -> Value {
    sent(
        Role::Assistant,
        blocks,
        row(TargetOverrides { reasoning_replay: Some(reasoning), ..NONE }),
    )[0]
    .clone()
}

#[test]
fn two_calls_and_two_results_become_one_and_two_messages_in_order() {
    let req = ChatRequest {
        model: "gpt-5.5".into(),
        system: Some("Be brief.".into()),
        messages: vec![
            Arc::new(Message::user_text("Weather?")),
            Arc::new(Message::new(
                Role::Assistant,
                vec![
                    thought(DIALECT, "hm", json!({"field": "reasoning"})),
                    call("c1", json!({"city": "Oslo"})),
                    call("c2", json!({"city": "Lima"})),
                ],
            )),
            Arc::new(Message::new(
                Role::User,
                vec![
                    ContentBlock::text("Go on."),
                    ContentBlock::tool_result("c1", "-3°C", false),
                    ContentBlock::tool_result("c2", "no such city", true),
                ],
            )),
        ],
        tools: vec![ToolSpec {
            name: "weather".into(),
            description: "Tells the weather.".into(),
            input_schema: json!({"type": "object"}),
        }],
        max_tokens: 1_000,
        temperature: Some(0.2),
        ..ChatRequest::default()
    };
    insta::assert_json_snapshot!(to_wire(&req, any()));
    let bytes = body(&req, any(), &Joined::default());
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), to_wire(&req, any()));
}

#[test]
fn the_token_limit_has_two_names_and_may_be_absent() {
    let req = ChatRequest { max_tokens: 9, ..ChatRequest::default() };
    assert_eq!(to_wire(&req, any())["max_completion_tokens"], 9);
    let legacy = to_wire(
        &req,
        row(TargetOverrides { max_tokens_field: Some(MaxTokensField::MaxTokens), ..NONE }),
    );
    assert_eq!(legacy["max_tokens"], 9);
    assert_eq!(legacy.get("max_completion_tokens"), None);
    let open = to_wire(&ChatRequest::default(), any());
    assert_eq!((open.get("max_tokens"), open.get("max_completion_tokens")), (None, None));
    assert_eq!(open["stream_options"], json!({"include_usage": true}));
}

#[test]
fn an_error_result_says_so_in_its_text() {
    let blocks = vec![ContentBlock::tool_result("c1", "boom", true)];
    assert_eq!(sent(Role::User, blocks, any())[0]["content"], "ERROR: boom");
}

#[test]
fn pictures_of_results_follow_as_the_users() {
    let picture = ImageData { media_type: "image/png".into(), data: "AA==".into() };
    let result = ContentBlock::ToolResult {
        call_id: "c1".into(),
        content: "see".into(),
        is_error: false,
        images: vec![picture.clone()],
    };
    let blocks = vec![ContentBlock::text("and?"), result, ContentBlock::Image(picture)];
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    assert_eq!(
        sent(Role::User, blocks, any()),
        json!([
            {"role": "tool", "tool_call_id": "c1", "content": "see"},
            {"role": "user", "content": [
                {"type": "text", "text": "Images from the result of c1:"},
                image,
                {"type": "text", "text": "and?"},
                image,
            ]},
        ])
    );
}

#[test]
fn texts_of_a_user_are_one_string() {
    let blocks = ["a", "", "b"].map(ContentBlock::text).to_vec();
    assert_eq!(sent(Role::User, blocks, any()), json!([{"role": "user", "content": "a\nb"}]));
}

#[test]
fn content_is_null_only_beside_calls() {
    let silent = sent(Role::Assistant, vec![call("c1", json!({}))], any());
    assert_eq!(silent[0]["content"], Value::Null);
    let spoken = vec![ContentBlock::text("a"), ContentBlock::text("b"), call("c1", json!({}))];
    assert_eq!(sent(Role::Assistant, spoken, any())[0]["content"], "ab");
}

#[test]
fn a_message_that_says_nothing_here_is_not_sent_empty() {
    let foreign = vec![thought("anthropic", "p", json!({"type": "thinking"}))];
    assert_eq!(
        sent(Role::Assistant, foreign, any()),
        json!([{"role": "assistant", "content": NOTHING_TO_SHOW}])
    );
    let blank = vec![ContentBlock::text("")];
    assert_eq!(
        sent(Role::User, blank, any()),
        json!([{"role": "user", "content": NOTHING_TO_SHOW}])
    );
}

#[test]
fn reasoning_is_dropped_unless_the_server_wants_it_back() {
    let blocks = || {
        vec![
            thought(DIALECT, "I thi", json!({"field": "reasoning_content"})),
            thought(DIALECT, "nk", json!({"field": "reasoning_content"})),
            thought("anthropic", "foreign", json!({"field": "reasoning_content"})),
            call("c1", json!({})),
        ]
    };
    assert_eq!(replayed(ReasoningReplay::None, blocks()).get("reasoning_content"), None);
    let received = replayed(ReasoningReplay::AsReceived, blocks());
    assert_eq!(received["reasoning_content"], "I think");
    let renamed = replayed(ReasoningReplay::Reasoning, blocks());
    assert_eq!(
        (&renamed["reasoning"], renamed.get("reasoning_content")),
        (&json!("I think"), None)
    );
}

#[test]
fn reasoning_goes_back_only_with_calls_and_where_demanded_even_empty() {
    let calls = || vec![call("c1", json!({}))];
    let asked = |empty_reasoning| {
        let reasoning_replay = Some(ReasoningReplay::ReasoningContent);
        let empty_reasoning = Some(empty_reasoning);
        let target = row(TargetOverrides { reasoning_replay, empty_reasoning, ..NONE });
        sent(Role::Assistant, calls(), target)[0].get("reasoning_content").cloned()
    };
    assert_eq!((asked(true), asked(false)), (Some(json!("")), None));
    assert_eq!(replayed(ReasoningReplay::AsReceived, calls()).get("reasoning_content"), None);
    let field = json!({"field": "reasoning_content"});
    let answer = || vec![thought(DIALECT, "t", field.clone()), ContentBlock::text("done")];
    for replay in [ReasoningReplay::ReasoningContent, ReasoningReplay::AsReceived] {
        assert_eq!(replayed(replay, answer()).get("reasoning_content"), None);
    }
}

#[test]
fn signed_details_go_back_unmodified() {
    let details = json!([{"type": "reasoning.text", "signature": "c2ln", "index": 0}]);
    let data = json!({"field": "reasoning", "reasoning_details": details});
    let answer = || vec![thought(DIALECT, "t", data.clone()), ContentBlock::text("done")];
    let sent = replayed(ReasoningReplay::ReasoningDetails, answer());
    assert_eq!(sent["reasoning_details"], details);
    let mut with_call = answer();
    with_call.push(call("c1", json!({})));
    let sent = replayed(ReasoningReplay::AsReceived, with_call);
    assert_eq!((&sent["reasoning_details"], sent.get("reasoning")), (&details, None));
}

#[test]
fn arguments_are_always_an_object_in_a_string() {
    let sent = sent(Role::Assistant, vec![call("c1", Value::String("{\"a".into()))], any());
    let arguments = sent[0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(arguments).unwrap(),
        json!({"unparsed_arguments": "{\"a"})
    );
}

#[test]
fn ids_are_mapped_alike_in_call_and_result() {
    let options = row(TargetOverrides { call_ids: Some(CallIdRule::NineAlphanumeric), ..NONE });
    let calls = sent(Role::Assistant, vec![call("call_1", json!({}))], options);
    let results = sent(Role::User, vec![ContentBlock::tool_result("call_1", "x", false)], options);
    let id = calls[0]["tool_calls"][0]["id"].as_str().unwrap();
    assert_eq!(results[0]["tool_call_id"], id);
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
}

#[test]
fn options_that_change_a_message_change_its_key() {
    let message = Arc::new(Message::new(
        Role::Assistant,
        vec![thought(DIALECT, "t", json!({"field": "reasoning"})), call("call_1", json!({}))],
    ));
    let req = ChatRequest { messages: vec![message], ..ChatRequest::default() };
    let all = [
        any(),
        row(TargetOverrides { reasoning_replay: Some(ReasoningReplay::AsReceived), ..NONE }),
        row(TargetOverrides { reasoning_replay: Some(ReasoningReplay::ReasoningContent), ..NONE }),
        row(TargetOverrides { call_ids: Some(CallIdRule::NineAlphanumeric), ..NONE }),
        any(),
    ];
    for options in all {
        let bytes = body(&req, options, &Joined::default());
        assert_eq!(
            serde_json::from_slice::<Value>(&bytes).unwrap(),
            to_wire(&req, options),
            "{options:?}"
        );
    }
}
