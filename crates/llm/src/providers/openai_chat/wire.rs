//! Chat request → the body of a Chat Completions call.
//!
//! [`to_wire`] is the whole body as a value, [`body`] the same as bytes joined from pieces that each
//! message remembers. A piece depends on its message and on the options in its key; one canonical
//! message may become several on this wire, so a piece is a list without its brackets.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Number, Value};

use super::decode::DIALECT;
use super::options::{ChatOptions, ReasoningReplay};
use crate::providers::pieces::{self, NOTHING_TO_SHOW};
use crate::providers::tools;
use crate::schema::SchemaDialect;
use crate::types::{ChatRequest, ContentBlock, ImageData, Message, ProviderMeta, Role};

/// The whole request as one value.
pub fn to_wire(req: &ChatRequest, options: ChatOptions) -> Value {
    let mut body = pieces::to_value(&Head::of(req, options));
    let messages = req.messages.iter().flat_map(|message| wire(message, options));
    body["messages"] =
        system(req).into_iter().chain(messages).map(|m| pieces::to_value(&m)).collect();
    body
}

/// The whole request as bytes.
pub fn body(req: &ChatRequest, options: ChatOptions) -> Vec<u8> {
    let lead = system(req).map(|message| Arc::from(pieces::to_json(&message)));
    let piece = |message: &Arc<Message>| {
        message.wire_bytes(options.key(), |message| pieces::to_json_items(&wire(message, options)))
    };
    let messages = req.messages.iter().map(piece);
    pieces::join_body(&Head::of(req, options), "messages", lead.into_iter().chain(messages))
}

/// Everything before the messages, in the order in which it rarely changes.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

/// Without it most servers send no usage.
#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Head<'a> {
    fn of(req: &'a ChatRequest, options: ChatOptions) -> Self {
        let limit = (req.max_tokens > 0).then_some(req.max_tokens);
        let tools = tools::offered(req, SchemaDialect::Full).map(|(tool, parameters)| Tool {
            r#type: "function",
            function: Function { name: &tool.name, description: &tool.description, parameters },
        });
        Self {
            model: &req.model,
            max_tokens: limit.filter(|_| options.legacy_max_tokens),
            max_completion_tokens: limit.filter(|_| !options.legacy_max_tokens),
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            temperature: pieces::temperature(req.temperature),
            tools: tools.collect(),
        }
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: Cow<'a, Value>,
}

#[derive(Serialize, Default)]
struct WireMessage<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize, Default)]
#[serde(untagged)]
enum Content<'a> {
    #[default]
    Null,
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    /// JSON inside a string, as this dialect has it.
    arguments: String,
}

fn system(req: &ChatRequest) -> Option<WireMessage<'_>> {
    let text = req.system.as_deref().filter(|text| !text.is_empty())?;
    Some(WireMessage { role: "system", content: text_content(text), ..WireMessage::default() })
}

fn text_content<'a>(text: impl Into<Cow<'a, str>>) -> Content<'a> {
    Content::Text(text.into())
}

fn wire(message: &Message, options: ChatOptions) -> Vec<WireMessage<'_>> {
    match message.role() {
        Role::User => user_messages(message, options),
        Role::Assistant => vec![assistant_message(message, options)],
    }
}

/// Results first, one message each, as the server demands after calls; then what the user said.
fn user_messages(message: &Message, options: ChatOptions) -> Vec<WireMessage<'_>> {
    let mut messages: Vec<WireMessage<'_>> = Vec::new();
    let mut parts: Vec<Part<'_>> = Vec::new();
    for block in message.content() {
        if let ContentBlock::ToolResult { call_id, content, is_error, images } = block {
            let id = options.call_ids.map(call_id);
            // A result holds only text here; its pictures follow as the user's, with their origin.
            if !images.is_empty() {
                parts.push(text_part(format!("Images from the result of {id}:")));
                parts.extend(images.iter().map(image_part));
            }
            messages.push(WireMessage {
                role: "tool",
                tool_call_id: Some(id),
                content: Content::Text(pieces::result_text(content, *is_error)),
                ..WireMessage::default()
            });
        }
    }
    parts.extend(message.content().iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } if !text.is_empty() => Some(text_part(text)),
        ContentBlock::Image(image) => Some(image_part(image)),
        _ => None,
    }));
    if parts.is_empty() && messages.is_empty() {
        parts.push(text_part(NOTHING_TO_SHOW));
    }
    if !parts.is_empty() {
        let content = user_content(parts);
        messages.push(WireMessage { role: "user", content, ..WireMessage::default() });
    }
    messages
}

/// Text alone goes as a string, which every server takes; parts are for pictures.
fn user_content(mut parts: Vec<Part<'_>>) -> Content<'_> {
    if parts.iter().any(|part| matches!(part, Part::ImageUrl { .. })) {
        return Content::Parts(parts);
    }
    if let [Part::Text { text }] = &mut parts[..] {
        return Content::Text(std::mem::take(text));
    }
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text } => Some(&**text),
            Part::ImageUrl { .. } => None,
        })
        .collect();
    text_content(texts.join("\n"))
}

fn text_part<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    Part::Text { text: text.into() }
}

fn image_part<'a>(image: &ImageData) -> Part<'a> {
    Part::ImageUrl { image_url: ImageUrl { url: pieces::data_url(image) } }
}

fn assistant_message(message: &Message, options: ChatOptions) -> WireMessage<'_> {
    let text = message.text();
    let tool_calls: Vec<Call<'_>> = message
        .tool_calls()
        .map(|call| Call {
            id: options.call_ids.map(call.id),
            r#type: "function",
            function: CalledFunction {
                name: call.name,
                arguments: pieces::arguments(call.arguments).to_string(),
            },
        })
        .collect();
    let content = match (text.is_empty(), tool_calls.is_empty()) {
        (false, _) => text_content(text),
        (true, false) => Content::Null,
        (true, true) => text_content(NOTHING_TO_SHOW),
    };
    let mut out = WireMessage { role: "assistant", content, tool_calls, ..WireMessage::default() };
    replay_reasoning(&mut out, message, options.reasoning);
    out
}

fn replay_reasoning<'a>(out: &mut WireMessage<'a>, message: &'a Message, replay: ReasoningReplay) {
    let own = || {
        message.content().iter().filter_map(|block| match block {
            ContentBlock::Reasoning { text, meta: Some(meta) } if meta.provider == DIALECT => {
                Some((text.as_str(), meta))
            }
            _ => None,
        })
    };
    let text = || own().map(|(text, _)| text).collect::<String>();
    let details = || own().flat_map(|(_, meta)| reasoning_details(meta));
    let calls = !out.tool_calls.is_empty();
    match replay {
        ReasoningReplay::ReasoningContent if calls => out.reasoning_content = Some(text()),
        ReasoningReplay::Reasoning if calls => {
            out.reasoning = Some(text()).filter(|text| !text.is_empty());
        }
        ReasoningReplay::ReasoningDetails => out.reasoning_details = details().collect(),
        ReasoningReplay::AsReceived if calls => {
            out.reasoning_details = details().collect();
            if out.reasoning_details.is_empty() {
                let text = Some(text()).filter(|text| !text.is_empty());
                match own().find_map(|(_, meta)| meta.data.get("field")?.as_str()) {
                    Some("reasoning_content") => out.reasoning_content = text,
                    Some("reasoning") => out.reasoning = text,
                    Some("reasoning_text") => out.reasoning_text = text,
                    // A form of its own (a content list) that no request takes.
                    _ => {}
                }
            }
        }
        ReasoningReplay::None
        | ReasoningReplay::AsReceived
        | ReasoningReplay::ReasoningContent
        | ReasoningReplay::Reasoning => {}
    }
}

fn reasoning_details(meta: &ProviderMeta) -> &[Value] {
    meta.data.get("reasoning_details").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::providers::CallIdRule;
    use crate::types::ToolSpec;

    const ANY: ChatOptions = ChatOptions {
        legacy_max_tokens: false,
        reasoning: ReasoningReplay::None,
        call_ids: CallIdRule::UpTo40,
    };

    fn call(id: &str, arguments: Value) -> ContentBlock {
        ContentBlock::ToolCall { id: id.into(), name: "weather".into(), arguments, meta: None }
    }

    fn thought(provider: &str, text: &str, data: Value) -> ContentBlock {
        let meta = Some(ProviderMeta { provider: provider.into(), data });
        ContentBlock::Reasoning { text: text.into(), meta }
    }

    fn sent(role: Role, blocks: Vec<ContentBlock>, options: ChatOptions) -> Value {
        pieces::to_value(&wire(&Message::new(role, blocks), options))
    }

    fn replayed(reasoning: ReasoningReplay, blocks: Vec<ContentBlock>) -> Value {
        sent(Role::Assistant, blocks, ChatOptions { reasoning, ..ANY })[0].clone()
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
        };
        insta::assert_json_snapshot!(to_wire(&req, ANY));
        let bytes = body(&req, ANY);
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), to_wire(&req, ANY));
    }

    #[test]
    fn the_token_limit_has_two_names_and_may_be_absent() {
        let req = ChatRequest { max_tokens: 9, ..ChatRequest::default() };
        assert_eq!(to_wire(&req, ANY)["max_completion_tokens"], 9);
        let legacy = to_wire(&req, ChatOptions { legacy_max_tokens: true, ..ANY });
        assert_eq!(legacy["max_tokens"], 9);
        assert_eq!(legacy.get("max_completion_tokens"), None);
        let open = to_wire(&ChatRequest::default(), ANY);
        assert_eq!((open.get("max_tokens"), open.get("max_completion_tokens")), (None, None));
        assert_eq!(open["stream_options"], json!({"include_usage": true}));
    }

    #[test]
    fn an_error_result_says_so_in_its_text() {
        let blocks = vec![ContentBlock::tool_result("c1", "boom", true)];
        assert_eq!(sent(Role::User, blocks, ANY)[0]["content"], "ERROR: boom");
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
        let image =
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
        assert_eq!(
            sent(Role::User, blocks, ANY),
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
        assert_eq!(sent(Role::User, blocks, ANY), json!([{"role": "user", "content": "a\nb"}]));
    }

    #[test]
    fn content_is_null_only_beside_calls() {
        let silent = sent(Role::Assistant, vec![call("c1", json!({}))], ANY);
        assert_eq!(silent[0]["content"], Value::Null);
        let spoken = vec![ContentBlock::text("a"), ContentBlock::text("b"), call("c1", json!({}))];
        assert_eq!(sent(Role::Assistant, spoken, ANY)[0]["content"], "ab");
    }

    #[test]
    fn a_message_that_says_nothing_here_is_not_sent_empty() {
        let foreign = vec![thought("anthropic", "p", json!({"type": "thinking"}))];
        assert_eq!(
            sent(Role::Assistant, foreign, ANY),
            json!([{"role": "assistant", "content": NOTHING_TO_SHOW}])
        );
        let blank = vec![ContentBlock::text("")];
        assert_eq!(
            sent(Role::User, blank, ANY),
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
    fn reasoning_goes_back_only_with_calls_and_then_even_empty() {
        let call = vec![call("c1", json!({}))];
        let empty = replayed(ReasoningReplay::ReasoningContent, call.clone());
        assert_eq!(empty["reasoning_content"], "");
        assert_eq!(replayed(ReasoningReplay::AsReceived, call).get("reasoning_content"), None);
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
        let sent = sent(Role::Assistant, vec![call("c1", Value::String("{\"a".into()))], ANY);
        let arguments = sent[0]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(arguments).unwrap(),
            json!({"unparsed_arguments": "{\"a"})
        );
    }

    #[test]
    fn ids_are_mapped_alike_in_call_and_result() {
        let options = ChatOptions { call_ids: CallIdRule::NineAlphanumeric, ..ANY };
        let calls = sent(Role::Assistant, vec![call("call_1", json!({}))], options);
        let results =
            sent(Role::User, vec![ContentBlock::tool_result("call_1", "x", false)], options);
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
            ANY,
            ChatOptions { reasoning: ReasoningReplay::AsReceived, ..ANY },
            ChatOptions { reasoning: ReasoningReplay::ReasoningContent, ..ANY },
            ChatOptions { call_ids: CallIdRule::NineAlphanumeric, ..ANY },
            ANY,
        ];
        for options in all {
            let bytes = body(&req, options);
            assert_eq!(
                serde_json::from_slice::<Value>(&bytes).unwrap(),
                to_wire(&req, options),
                "{options:?}"
            );
        }
    }
}
