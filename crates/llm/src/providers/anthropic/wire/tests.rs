//! What each block becomes on the wire, and what the head of a request holds.

use serde_json::json;

use std::sync::Arc;

use super::*;
use crate::capability::{self, Dialect};
use crate::types::ToolSpec;

fn meta(provider: &str, data: Value) -> Option<ProviderMeta> {
    Some(ProviderMeta { provider: provider.into(), data })
}

fn call(id: &str, arguments: Value) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: "ls".into(), arguments, meta: None }
}

fn row(model: &str) -> Target {
    capability::target(Dialect::Anthropic, Some("anthropic"), "", model)
}

fn content(role: Role, blocks: Vec<ContentBlock>) -> Value {
    pieces::to_value(&wire(&Message::new(role, blocks), row("claude-sonnet-5")))["content"].clone()
}

#[test]
fn a_request_keeps_its_own_reasoning_and_drops_a_foreign_one() {
    let thinking = json!({"type": "thinking", "signature": "c2ln"});
    let redacted = json!({"type": "redacted_thinking", "data": "ZW5j"});
    let foreign = json!({"type": "reasoning", "id": "rs_1"});
    let reasoning = |text: &str, meta| ContentBlock::Reasoning { text: text.into(), meta };
    let req = ChatRequest {
        model: "claude-sonnet-5".into(),
        system: Some("Be brief.".into()),
        messages: vec![
            Arc::new(Message::user_text("What is here?")),
            Arc::new(Message::new(
                Role::Assistant,
                vec![
                    reasoning("Let me look.", meta(DIALECT, thinking)),
                    reasoning("", meta(DIALECT, redacted)),
                    reasoning("other", meta("openai-responses", foreign)),
                    reasoning("unsigned", None),
                    ContentBlock::text("I look."),
                    call("toolu_1", json!({"path": "."})),
                ],
            )),
            Arc::new(Message::new(
                Role::User,
                vec![
                    ContentBlock::text("go on"),
                    ContentBlock::tool_result("toolu_1", "no such folder", true),
                ],
            )),
        ],
        tools: vec![ToolSpec {
            name: "ls".into(),
            description: "Lists a folder.".into(),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }],
        max_tokens: 1_000,
        temperature: Some(0.7),
        ..ChatRequest::default()
    };
    insta::assert_json_snapshot!(to_wire(&req, row(&req.model)));
    assert_eq!(
        serde_json::from_slice::<Value>(&body(&req, row(&req.model), &Joined::default())).unwrap(),
        to_wire(&req, row(&req.model))
    );
}

#[test]
fn empty_and_blank_text_blocks_are_left_out() {
    let blocks = vec![ContentBlock::text(""), ContentBlock::text(" \n"), call("t1", json!({}))];
    let sent = content(Role::Assistant, blocks);
    assert_eq!(sent, json!([{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]));
}

#[test]
fn a_message_that_says_nothing_here_is_not_sent_empty() {
    let foreign = ContentBlock::Reasoning { text: "p".into(), meta: meta("other", json!({})) };
    let stand_in = json!([{"type": "text", "text": NOTHING_TO_SHOW}]);
    assert_eq!(content(Role::Assistant, vec![foreign]), stand_in);
    assert_eq!(content(Role::User, vec![ContentBlock::text("")]), stand_in);
}

#[test]
fn citations_go_back_with_their_text_and_only_to_their_own_provider() {
    let cited = json!([{"type": "web_search_result_location", "encrypted_index": "eA=="}]);
    let text = |provider| ContentBlock::Text {
        text: "as they say".into(),
        meta: meta(provider, json!({"citations": cited})),
    };
    let sent = content(Role::Assistant, vec![text(DIALECT), text("gemini")]);
    assert_eq!((&sent[0]["citations"], sent[1].get("citations")), (&cited, None));
}

#[test]
fn an_answer_cut_off_inside_its_reasoning_does_not_end_with_it() {
    let thinking = json!({"type": "thinking", "signature": "c2ln"});
    let cut = ContentBlock::Reasoning { text: "so".into(), meta: meta(DIALECT, thinking) };
    let sent = content(Role::Assistant, vec![ContentBlock::text("Well"), cut]);
    assert_eq!(sent, json!([{"type": "text", "text": "Well"}]));
}

#[test]
fn an_answer_does_not_end_with_white_space() {
    let blocks = vec![ContentBlock::text("a \n"), ContentBlock::text("b \n")];
    let sent = content(Role::Assistant, blocks);
    assert_eq!((&sent[0]["text"], &sent[1]["text"]), (&json!("a \n"), &json!("b")));
}

#[test]
fn an_opaque_block_goes_back_verbatim_and_only_to_its_own_provider() {
    let block = json!({"type": "server_tool_use", "id": "srv_1", "input": {"q": 1}});
    let opaque = |provider: &str| ContentBlock::Opaque {
        meta: ProviderMeta { provider: provider.into(), data: block.clone() },
    };
    let blocks = vec![opaque(DIALECT), opaque("gemini"), ContentBlock::text("x")];
    let sent = content(Role::Assistant, blocks);
    assert_eq!(sent, json!([block, {"type": "text", "text": "x"}]));
}

#[test]
fn a_result_may_be_empty_unless_it_is_an_error() {
    let result = |text, is_error| ContentBlock::tool_result("t1", text, is_error);
    let sent = content(Role::User, vec![result("", false), result(" ", true)]);
    assert_eq!(
        sent,
        json!([
            {"type": "tool_result", "tool_use_id": "t1", "content": ""},
            {"type": "tool_result", "tool_use_id": "t1", "content": SILENT_FAILURE, "is_error": true},
        ])
    );
}

#[test]
fn pictures_stand_in_the_result_that_made_them() {
    let picture = ImageData { media_type: "image/png".into(), data: "AA==".into() };
    let result = ContentBlock::ToolResult {
        call_id: "t1".into(),
        content: String::new(),
        is_error: false,
        images: vec![picture.clone()],
    };
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AA=="});
    let image = json!({"type": "image", "source": source});
    let sent = content(Role::User, vec![ContentBlock::Image(picture), result]);
    assert_eq!(
        sent,
        json!([{"type": "tool_result", "tool_use_id": "t1", "content": [image]}, image])
    );
}

#[test]
fn a_call_and_its_result_agree_on_a_foreign_id() {
    let calls = content(Role::Assistant, vec![call("functions.ls:0", json!({}))]);
    let results =
        content(Role::User, vec![ContentBlock::tool_result("functions.ls:0", "x", false)]);
    assert_eq!(calls[0]["id"], results[0]["tool_use_id"]);
    assert_ne!(calls[0]["id"], "functions.ls:0");
}

#[test]
fn arguments_that_were_no_json_go_back_as_an_object() {
    let sent = content(Role::Assistant, vec![call("t1", Value::String("{\"a".into()))]);
    assert_eq!(sent[0]["input"], json!({"unparsed_arguments": "{\"a"}));
}

#[test]
fn a_request_without_extras_names_only_what_the_protocol_demands() {
    let req = ChatRequest {
        model: "m".into(),
        system: Some(" ".into()),
        messages: vec![Arc::new(Message::user_text("hi"))],
        ..ChatRequest::default()
    };
    let text = String::from_utf8(body(&req, row(&req.model), &Joined::default())).unwrap();
    assert_eq!(
        text,
        r#"{"model":"m","max_tokens":4096,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#
    );
}
