//! What each block becomes on the wire.

use serde_json::json;

use std::sync::Arc;

use super::*;
use crate::capability::{self, Dialect, TargetOverrides};

/// A model that wants its calls back signed.
const NEW: &str = "gemini-3-pro";

/// A model that signs as it likes.
const OLDER: &str = "gemini-2.5-flash";

/// A model that does not know signatures.
const OLD: &str = "gemini-2.0-flash";

fn own(data: Value) -> Option<ProviderMeta> {
    Some(ProviderMeta { provider: DIALECT.into(), data })
}

fn foreign() -> Option<ProviderMeta> {
    Some(ProviderMeta { provider: "anthropic".into(), data: json!({"thoughtSignature": "X"}) })
}

fn text(text: &str, meta: Option<ProviderMeta>) -> ContentBlock {
    ContentBlock::Text { text: text.into(), meta }
}

fn thought(meta: Option<ProviderMeta>) -> ContentBlock {
    ContentBlock::Reasoning { text: "hm".into(), meta }
}

fn call(id: &str, name: &str, meta: Option<ProviderMeta>) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: name.into(), arguments: json!({"a": 1}), meta }
}

fn picture() -> ImageData {
    ImageData { media_type: "image/png".into(), data: "AA==".into() }
}

fn result_with_picture(call_id: &str) -> ContentBlock {
    ContentBlock::ToolResult {
        call_id: call_id.into(),
        content: "see".into(),
        is_error: false,
        images: vec![picture()],
    }
}

/// A request of `turns`, which begin with the user's.
fn request(model: &str, turns: Vec<Vec<ContentBlock>>) -> ChatRequest {
    let roles = [Role::User, Role::Assistant].into_iter().cycle();
    let messages = turns.into_iter().zip(roles);
    let messages = messages.map(|(blocks, role)| Arc::new(Message::new(role, blocks))).collect();
    ChatRequest { model: model.into(), messages, ..ChatRequest::default() }
}

fn row(model: &str) -> Target {
    capability::target(Dialect::Gemini, None, "", model)
}

fn sent(req: &ChatRequest) -> Value {
    let options = row(&req.model);
    let value = to_wire(req, options);
    assert_eq!(
        serde_json::from_slice::<Value>(&body(req, options, &Joined::default())).unwrap(),
        value
    );
    value
}

/// The parts of an assistant message as `model` gets them.
fn answer(model: &str, blocks: Vec<ContentBlock>) -> Value {
    let req = request(model, vec![vec![ContentBlock::text("go")], blocks]);
    sent(&req)["contents"][1]["parts"].clone()
}

/// The parts of the user message that follows `calls`.
fn results(model: &str, calls: Vec<ContentBlock>, blocks: Vec<ContentBlock>) -> Value {
    let req = request(model, vec![vec![ContentBlock::text("go")], calls, blocks]);
    sent(&req)["contents"][2]["parts"].clone()
}

/// The signature of each part, or null.
fn signatures(parts: &Value) -> Vec<Value> {
    let parts = parts.as_array().unwrap().iter();
    parts.map(|part| part.get("thoughtSignature").cloned().unwrap_or_default()).collect()
}

#[test]
fn a_request_sends_every_block_to_where_it_came_from() {
    let turns = vec![
        vec![ContentBlock::text("What is here?"), ContentBlock::Image(picture())],
        vec![
            thought(None),
            text("I look.", None),
            text("", own(json!({"thoughtSignature": "S1", "model": NEW}))),
            call("g1", "ls", own(json!({"thoughtSignature": "S2", "id": "g1", "model": NEW}))),
            call("made", "cat", own(json!({"model": NEW}))),
            ContentBlock::Opaque {
                meta: own(json!({"executableCode": {"code": "1"}, "thoughtSignature": "S3"}))
                    .unwrap(),
            },
            ContentBlock::Opaque { meta: foreign().unwrap() },
        ],
        vec![
            ContentBlock::text("go on"),
            ContentBlock::tool_result("made", "no such file", true),
            result_with_picture("g1"),
        ],
    ];
    let tool = ToolSpec {
        name: "ls".into(),
        description: "Lists a folder.".into(),
        input_schema: json!({"type": "object", "properties": {"path": {"type": ["string", "null"]}}}),
    };
    let req = ChatRequest {
        system: Some("Be brief.".into()),
        tools: vec![tool],
        max_tokens: 1_000,
        temperature: Some(0.7),
        ..request(NEW, turns)
    };
    insta::assert_json_snapshot!(sent(&req));
}

#[test]
fn a_bare_request_has_nothing_but_its_contents() {
    let req = request(NEW, vec![vec![ContentBlock::text("hi")]]);
    assert_eq!(sent(&req), json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
}

#[test]
fn a_signature_goes_back_on_its_very_part_and_on_no_other() {
    let signed = own(json!({"thoughtSignature": "S"}));
    let parts = answer(NEW, vec![call("g1", "ls", signed), call("g2", "ls", own(json!({})))]);
    assert_eq!(signatures(&parts), [json!("S"), json!(null)]);
    let signed = || own(json!({"thoughtSignature": "S"}));
    let parts = answer(NEW, vec![text("a", None), text("b", signed()), text("", signed())]);
    assert_eq!(
        parts,
        json!([
            {"text": "a"},
            {"text": "b", "thoughtSignature": "S"},
            {"text": "", "thoughtSignature": "S"},
        ])
    );
}

#[test]
fn only_a_signed_thought_goes_back() {
    let signed = own(json!({"thoughtSignature": "S"}));
    let parts = answer(NEW, vec![thought(signed), thought(own(json!({}))), thought(foreign())]);
    assert_eq!(parts, json!([{"text": "hm", "thought": true, "thoughtSignature": "S"}]));
}

#[test]
fn a_call_of_another_provider_gets_the_stand_in_where_the_model_knows_signatures() {
    let calls =
        || vec![text("I look.", foreign()), call("a", "ls", foreign()), call("b", "ls", None)];
    let stand_in = json!(STAND_IN);
    assert_eq!(signatures(&answer(NEW, calls())), [json!(null), stand_in.clone(), json!(null)]);
    assert_eq!(signatures(&answer(OLDER, calls())), [json!(null), stand_in, json!(null)]);
    assert_eq!(signatures(&answer(OLD, calls())), [json!(null), json!(null), json!(null)]);
}

#[test]
fn an_unsigned_call_of_its_own_goes_back_as_it_came_unless_the_model_demands_a_signature() {
    let calls = |model: &str| vec![call("a", "ls", own(json!({"model": model})))];
    assert_eq!(signatures(&answer(OLDER, calls(OLDER))), [json!(null)]);
    assert_eq!(signatures(&answer(OLD, calls(OLD))), [json!(null)]);
    assert_eq!(signatures(&answer(NEW, calls(NEW))), [json!(STAND_IN)]);
}

#[test]
fn the_signature_of_another_model_stays_at_home() {
    let other = || own(json!({"thoughtSignature": "S", "model": OLDER}));
    let parts = answer(NEW, vec![text("a", other()), text("", other()), call("a", "ls", other())]);
    assert_eq!(signatures(&parts), [json!(null), json!(STAND_IN)]);
    assert_eq!(signatures(&answer(OLDER, vec![call("a", "ls", other())])), [json!("S")]);
}

#[test]
fn a_result_repeats_the_name_and_the_id_of_its_call() {
    let calls = vec![call("made", "w", None), call("a2", "v", own(json!({"id": "g2"})))];
    let answers = vec![
        ContentBlock::tool_result("a2", "2", false),
        ContentBlock::tool_result("made", "1", true),
    ];
    assert_eq!(
        results(NEW, calls, answers),
        json!([
            {"functionResponse": {"name": "w", "response": {"error": "1"}}},
            {"functionResponse": {"id": "g2", "name": "v", "response": {"result": "2"}}},
        ])
    );
}

#[test]
fn a_result_follows_a_change_of_the_call_before_it() {
    let call = |name| vec![call("c", name, None)];
    let answers = || vec![ContentBlock::tool_result("c", "1", false)];
    let mut req = request(NEW, vec![vec![ContentBlock::text("go")], call("w"), answers()]);
    let name = |req: &ChatRequest| {
        sent(req)["contents"][2]["parts"][0]["functionResponse"]["name"].clone()
    };
    assert_eq!(name(&req), "w");
    Arc::make_mut(&mut req.messages[1]).content_mut().clear();
    assert_eq!(name(&req), UNKNOWN_TOOL);
    *Arc::make_mut(&mut req.messages[1]).content_mut() = call("v");
    assert_eq!(name(&req), "v");
}

#[test]
fn pictures_of_a_result_go_inside_of_it_or_beside_it_as_the_model_takes_them() {
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let sent = |model| {
        let blocks = vec![ContentBlock::text("and?"), result_with_picture("c")];
        results(model, vec![call("c", "draw", None)], blocks)
    };
    let response = |parts: Value| {
        let mut response = json!({"name": "draw", "response": {"result": "see"}});
        response.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
        json!({ "functionResponse": response })
    };
    assert_eq!(sent(NEW), json!([response(json!({"parts": [image]})), {"text": "and?"}]));
    let origin = json!({"text": "Images from the result of draw:"});
    assert_eq!(sent(OLDER), json!([response(json!({})), origin, image, {"text": "and?"}]));
}

#[test]
fn arguments_that_never_became_an_object_go_back_inside_one() {
    let broken = ContentBlock::ToolCall {
        id: "c".into(),
        name: "ls".into(),
        arguments: json!("{\"a"),
        meta: own(json!({"thoughtSignature": "S"})),
    };
    let parts = answer(NEW, vec![broken]);
    assert_eq!(parts[0]["functionCall"]["args"], json!({"unparsed_arguments": "{\"a"}));
}

#[test]
fn a_message_that_says_nothing_here_is_not_sent_empty() {
    let stand_in = json!([{"text": NOTHING_TO_SHOW}]);
    assert_eq!(answer(NEW, vec![thought(foreign()), text("", None)]), stand_in);
    let req = request(NEW, vec![vec![ContentBlock::text("")]]);
    assert_eq!(sent(&req)["contents"][0]["parts"], stand_in);
}

#[test]
fn tools_are_described_in_the_field_that_the_target_takes() {
    let tool = |name: &str, input_schema| ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema,
    };
    let optional = json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}});
    let union = json!({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}});
    let tools = vec![tool("f", optional.clone()), tool("g", union.clone())];
    let req = ChatRequest { tools, ..request(NEW, vec![vec![ContentBlock::text("hi")]]) };
    let declared = |schemas| {
        let told = TargetOverrides { tool_schema: Some(schemas), ..TargetOverrides::NONE };
        let options = row(NEW).with(&told);
        to_wire(&req, options)["tools"][0]["functionDeclarations"].clone()
    };
    assert_eq!(
        declared(SchemaDialect::Full),
        json!([
            {"name": "f", "parametersJsonSchema": optional},
            {"name": "g", "parametersJsonSchema": union},
        ])
    );
    let limited =
        json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}}});
    assert_eq!(declared(SchemaDialect::Limited), json!([{"name": "f", "parameters": limited}]));
}

#[test]
fn one_conversation_is_written_for_each_model_it_goes_to() {
    let mut req = request(NEW, vec![vec![ContentBlock::text("go")], vec![call("c", "ls", None)]]);
    let signature = |req: &ChatRequest| signatures(&sent(req)["contents"][1]["parts"])[0].clone();
    assert_eq!(signature(&req), STAND_IN);
    req.model = OLD.into();
    assert_eq!(signature(&req), json!(null));
    req.model = NEW.into();
    assert_eq!(signature(&req), STAND_IN);
}
