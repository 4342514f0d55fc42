//! What each block becomes on the wire.

use serde_json::json;

use std::sync::Arc;

use super::*;
use crate::capability::{self, Dialect, TargetOverrides};
use crate::types::ToolSpec;

/// A server of which nothing is known but that its models see pictures.
fn any() -> Target {
    let sees = TargetOverrides { images: Some(true), ..TargetOverrides::NONE };
    capability::target(Dialect::OpenaiResponses, None, "", "m").with(&sees)
}

fn calls_last() -> Target {
    any().with(&TargetOverrides { calls_last: Some(true), ..TargetOverrides::NONE })
}

fn own(data: Value) -> Option<ProviderMeta> {
    Some(ProviderMeta { provider: DIALECT.into(), data })
}

fn foreign(data: Value) -> Option<ProviderMeta> {
    Some(ProviderMeta { provider: "anthropic".into(), data })
}

fn text(text: &str, meta: Option<ProviderMeta>) -> ContentBlock {
    ContentBlock::Text { text: text.into(), meta }
}

fn thought(meta: Option<ProviderMeta>) -> ContentBlock {
    ContentBlock::Reasoning { text: "hm".into(), meta }
}

fn call(id: &str, meta: Option<ProviderMeta>) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: "tide".into(), arguments: json!({}), meta }
}

fn picture() -> ImageData {
    ImageData { media_type: "image/png".into(), data: "AA==".into() }
}

fn item(id: &str) -> Value {
    json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": "U0VBTEVE"})
}

fn sent(role: Role, blocks: Vec<ContentBlock>, target: Target) -> Value {
    pieces::to_value(&wire(&placed(&Message::new(role, blocks), target), target))
}

fn answer(blocks: Vec<ContentBlock>) -> Value {
    sent(Role::Assistant, blocks, any())
}

fn kinds(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

fn a_step() -> Vec<Arc<Message>> {
    vec![
        Arc::new(Message::user_text("When is high water?")),
        Arc::new(Message::new(
            Role::Assistant,
            vec![
                thought(own(item("rs_1"))),
                text("I look.", own(json!({"id": "msg_1", "phase": "commentary"}))),
                call("call_1", own(json!({"id": "fc_1"}))),
                call("call_2", None),
            ],
        )),
        Arc::new(Message::new(
            Role::User,
            vec![
                ContentBlock::text("Go on."),
                ContentBlock::tool_result("call_1", "noon", false),
                ContentBlock::tool_result("call_2", "no such port", true),
            ],
        )),
    ]
}

#[test]
fn a_step_goes_out_as_reasoning_message_calls_and_their_outputs_in_order() {
    let req = ChatRequest {
        model: "gpt-5.5".into(),
        system: Some("Be brief.".into()),
        messages: a_step(),
        tools: vec![ToolSpec {
            name: "tide".into(),
            description: "Tells the tide.".into(),
            input_schema: json!({"type": "object", "properties": {"port": {"type": "string"}}}),
        }],
        max_tokens: 1_000,
        temperature: Some(0.2),
        ..ChatRequest::default()
    };
    let flagged = TargetOverrides { obfuscation_flag: Some(true), ..TargetOverrides::NONE };
    let options = any().with(&flagged);
    insta::assert_json_snapshot!(to_wire(&req, options));
    let bytes = body(&req, options, &Joined::default());
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), to_wire(&req, options));
}

#[test]
fn a_request_without_extras_names_only_what_every_request_needs() {
    let req = ChatRequest { model: "m".into(), ..ChatRequest::default() };
    assert_eq!(
        to_wire(&req, any()),
        json!({
            "model": "m",
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "input": [],
        })
    );
}

#[test]
fn reasoning_goes_back_verbatim_and_only_where_it_came_from() {
    let odd = json!({"type": "reasoning", "id": "x", "summary": [], "status": null, "deep": [1]});
    let blocks = vec![
        thought(own(odd.clone())),
        thought(foreign(json!({"type": "reasoning", "id": "rs_foreign"}))),
        thought(own(json!({"type": "something else"}))),
        thought(None),
        call("call_1", None),
    ];
    let sent = answer(blocks);
    assert_eq!((&sent[0], kinds(&sent)), (&odd, vec!["reasoning", "function_call"]));
}

#[test]
fn reasoning_without_what_it_led_to_stays_at_home() {
    let rest = |blocks| kinds(&answer(blocks)).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let (first, second) = (|| thought(own(item("rs_1"))), || thought(own(item("rs_2"))));
    assert_eq!(rest(vec![ContentBlock::text("a"), first(), second()]), ["message"]);
    assert_eq!(rest(vec![first(), ContentBlock::text("a"), second()]), ["reasoning", "message"]);
    // Text without a character is not sent, so it is nothing that reasoning led to either.
    let silent = text("", own(json!({"id": "msg_1", "phase": "commentary"})));
    assert_eq!(answer(vec![first(), silent]), answer(vec![first()]));
    assert_eq!(answer(vec![first()])[0]["content"], NOTHING_TO_SHOW);
}

#[test]
fn a_message_goes_back_with_its_id_phase_and_parts() {
    let state = json!({"id": "msg_1", "phase": "final_answer"});
    let refusal = json!({"id": "msg_1", "phase": "final_answer", "refusal": true});
    let blocks = vec![
        text("a", own(state.clone())),
        call("call_1", None),
        text("b", own(refusal)),
        text("c", own(json!({"id": "msg_2"}))),
    ];
    let part = |text| json!({"type": "output_text", "text": text, "annotations": []});
    assert_eq!(
        answer(blocks),
        json!([
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
             "phase": "final_answer", "content": [part("a"), {"type": "refusal", "refusal": "b"}]},
            {"type": "function_call", "call_id": "call_1", "name": "tide", "arguments": "{}"},
            {"type": "message", "id": "msg_2", "role": "assistant", "status": "completed",
             "content": [part("c")]},
        ])
    );
}

#[test]
fn text_without_an_id_of_this_protocol_goes_out_as_plain_text() {
    let long = format!("msg_{}", "x".repeat(61));
    for meta in [
        None,
        foreign(json!({"id": "msg_1"})),
        own(json!({"id": "62bf2bb7-56af"})),
        own(json!({"id": long})),
        own(json!({"refusal": true})),
    ] {
        assert_eq!(
            answer(vec![text("a", meta)]),
            json!([{"type": "message", "role": "assistant", "content": "a"}])
        );
    }
    let sent = answer(vec![text("a", own(json!({"id": "x", "phase": "commentary"})))]);
    assert_eq!((sent[0].get("id"), &sent[0]["phase"]), (None, &json!("commentary")));
}

#[test]
fn the_id_of_a_calls_item_is_sent_only_in_the_form_of_this_protocol() {
    let id = |meta| answer(vec![call("call_1", meta)])[0].get("id").cloned();
    assert_eq!(id(own(json!({"id": "fc_1"}))), Some("fc_1".into()));
    assert_eq!(id(own(json!({"id": "p0Ax/j=="}))), None);
    assert_eq!(id(foreign(json!({"id": "fc_1"}))), None);
    assert_eq!(id(None), None);
}

#[test]
fn an_opaque_item_goes_back_verbatim_and_only_where_it_came_from() {
    let search = json!({"type": "web_search_call", "id": "ws_1", "action": {"query": "q"}});
    let opaque = |meta: Option<ProviderMeta>| ContentBlock::Opaque { meta: meta.unwrap() };
    let blocks = vec![
        thought(own(item("rs_1"))),
        opaque(own(search.clone())),
        opaque(foreign(json!({"type": "server_tool_use"}))),
    ];
    assert_eq!(answer(blocks), json!([item("rs_1"), search]));
}

#[test]
fn a_surface_that_wants_its_calls_last_gets_them_last() {
    let blocks = || {
        vec![
            call("call_1", None),
            text("a", None),
            call("call_2", None),
            thought(own(item("rs_1"))),
        ]
    };
    let last = sent(Role::Assistant, blocks(), calls_last());
    assert_eq!(kinds(&last), ["message", "reasoning", "function_call", "function_call"]);
    assert_eq!((&last[2]["call_id"], &last[3]["call_id"]), (&json!("call_1"), &json!("call_2")));
    assert_eq!(kinds(&answer(blocks())), ["function_call", "message", "function_call"]);
}

#[test]
fn options_that_change_a_message_change_its_key() {
    let blocks = vec![call("call_1", None), text("a", None)];
    let message = Arc::new(Message::new(Role::Assistant, blocks));
    let req = ChatRequest { messages: vec![message], ..ChatRequest::default() };
    for options in [any(), calls_last(), any()] {
        let bytes = body(&req, options, &Joined::default());
        let value = serde_json::from_slice::<Value>(&bytes).unwrap();
        assert_eq!(value, to_wire(&req, options), "{options:?}");
    }
}

#[test]
fn pictures_stand_in_the_output_that_made_them_and_beside_the_users_words() {
    let result = |content: &str| ContentBlock::ToolResult {
        call_id: "call_1".into(),
        content: content.into(),
        is_error: false,
        images: vec![picture()],
    };
    let blocks = vec![ContentBlock::text("and?"), result("see"), ContentBlock::Image(picture())];
    let url = "data:image/png;base64,AA==";
    let image = json!({"type": "input_image", "image_url": url, "detail": "auto"});
    let said = |text| json!({"type": "input_text", "text": text});
    assert_eq!(
        sent(Role::User, blocks, any()),
        json!([
            {"type": "function_call_output", "call_id": "call_1", "output": [said("see"), image]},
            {"type": "message", "role": "user", "content": [said("and?"), image]},
        ])
    );
    assert_eq!(sent(Role::User, vec![result("")], any())[0]["output"], json!([image]));
}

#[test]
fn a_failed_result_says_so_in_its_text() {
    let sent = sent(Role::User, vec![ContentBlock::tool_result("call_1", "boom", true)], any());
    assert_eq!(sent[0]["output"], "ERROR: boom");
}

#[test]
fn a_message_that_says_nothing_here_is_not_left_out() {
    let said = json!([{"type": "input_text", "text": NOTHING_TO_SHOW}]);
    let silent = sent(Role::User, vec![ContentBlock::text("")], any());
    assert_eq!(silent, json!([{"type": "message", "role": "user", "content": said}]));
    assert_eq!(
        answer(vec![thought(foreign(json!({"type": "thinking"})))]),
        json!([{"type": "message", "role": "assistant", "content": NOTHING_TO_SHOW}])
    );
}

#[test]
fn a_call_and_its_output_agree_on_an_id_that_is_too_long() {
    let id = format!("resp_{}:call_0", "x".repeat(60));
    let call = answer(vec![call(&id, None)])[0]["call_id"].clone();
    let output = sent(Role::User, vec![ContentBlock::tool_result(&id, "x", false)], any());
    assert_eq!(call, output[0]["call_id"]);
    assert!(call.as_str().unwrap().len() <= 64, "{call}");
}

#[test]
fn arguments_are_always_an_object_in_a_string() {
    let broken = ContentBlock::ToolCall {
        id: "call_1".into(),
        name: "tide".into(),
        arguments: Value::String("{\"a".into()),
        meta: None,
    };
    let sent = answer(vec![broken]);
    let arguments = sent[0]["arguments"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(arguments).unwrap(),
        json!({"unparsed_arguments": "{\"a"})
    );
}
