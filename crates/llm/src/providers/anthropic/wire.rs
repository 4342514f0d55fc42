//! Chat request → the body of a Messages call.
//!
//! [`to_wire`] is the whole body as a value, [`body`] the same as bytes joined from pieces that each
//! message remembers. A piece depends on nothing but its message.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Number, Value};

use super::decode::DIALECT;
use crate::providers::pieces::{self, CallIdRule, NOTHING_TO_SHOW};
use crate::providers::tools;
use crate::schema::SchemaDialect;
use crate::types::{ChatRequest, ContentBlock, ImageData, Message, ProviderMeta, Role, WireKey};

/// Sent when a request names no limit: the protocol demands one, and every model takes this.
const DEFAULT_MAX_TOKENS: u32 = 4_096;

/// Stands in a failed result without text, which the server refuses.
const SILENT_FAILURE: &str = "(the tool failed without a message)";

/// The whole request as one value.
pub fn to_wire(req: &ChatRequest) -> Value {
    let mut body = pieces::to_value(&Head::of(req));
    body["messages"] =
        req.messages.iter().map(|message| pieces::to_value(&wire(message))).collect();
    body
}

/// The whole request as bytes.
pub fn body(req: &ChatRequest) -> Vec<u8> {
    let key = WireKey { dialect: DIALECT, options: 0 };
    let piece =
        |message: &Arc<Message>| message.wire_bytes(key, |message| pieces::to_json(&wire(message)));
    pieces::join_body(&Head::of(req), "messages", req.messages.iter().map(piece))
}

/// Everything before the messages, in the order in which it rarely changes.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

impl<'a> Head<'a> {
    fn of(req: &'a ChatRequest) -> Self {
        let tools = tools::offered(req, SchemaDialect::PlainRoot).map(|(tool, input_schema)| {
            Tool { name: &tool.name, description: &tool.description, input_schema }
        });
        Self {
            model: &req.model,
            max_tokens: if req.max_tokens == 0 { DEFAULT_MAX_TOKENS } else { req.max_tokens },
            stream: true,
            temperature: pieces::temperature(req.temperature),
            system: req.system.as_deref().filter(|system| !is_blank(system)),
            tools: tools.collect(),
        }
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<&'a Value>,
    },
    Image {
        source: Source<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: ResultContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A server-side block, exactly as it came.
    #[serde(untagged)]
    Verbatim(&'a Value),
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

fn wire(message: &Message) -> WireMessage<'_> {
    let (role, mut content) = match message.role() {
        Role::User => ("user", user_blocks(message)),
        Role::Assistant => ("assistant", assistant_blocks(message)),
    };
    if content.is_empty() {
        content.extend(text_block(NOTHING_TO_SHOW));
    }
    WireMessage { role, content }
}

/// Results first: a call must be answered before anything else is said.
fn user_blocks(message: &Message) -> Vec<Block<'_>> {
    let results = message.content().iter().filter_map(|block| match block {
        ContentBlock::ToolResult { call_id, content, is_error, images } => {
            Some(Block::ToolResult {
                tool_use_id: CallIdRule::WordCharacters.map(call_id),
                content: result_content(content, *is_error, images),
                is_error: *is_error,
            })
        }
        _ => None,
    });
    let rest = message.content().iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } => text_block(text),
        ContentBlock::Image(data) => Some(image(data)),
        _ => None,
    });
    results.chain(rest).collect()
}

fn result_content<'a>(
    content: &'a str,
    is_error: bool,
    images: &'a [ImageData],
) -> ResultContent<'a> {
    let text = match (is_blank(content), is_error) {
        (true, true) => SILENT_FAILURE,
        (true, false) => "",
        (false, _) => content,
    };
    if images.is_empty() {
        return ResultContent::Text(text);
    }
    let text = text_block(text);
    ResultContent::Blocks(text.into_iter().chain(images.iter().map(image)).collect())
}

fn assistant_blocks(message: &Message) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = message.content().iter().filter_map(assistant_block).collect();
    // The server refuses a message that ends with reasoning: an answer that was cut off inside it.
    while let Some(Block::Thinking { .. } | Block::RedactedThinking { .. }) = blocks.last() {
        blocks.pop();
    }
    // Nor may the last message end with white space, and a paused answer goes back as the last one.
    if let Some(Block::Text { text, .. }) = blocks.last_mut() {
        *text = text.trim_end();
    }
    blocks
}

fn assistant_block(block: &ContentBlock) -> Option<Block<'_>> {
    match block {
        ContentBlock::Text { text, meta } if !is_blank(text) => {
            Some(Block::Text { text, citations: citations(meta.as_ref()) })
        }
        ContentBlock::Text { .. } => None,
        ContentBlock::Reasoning { text, meta } => reasoning(text, meta.as_ref()?),
        ContentBlock::ToolCall { id, name, arguments, .. } => Some(Block::ToolUse {
            id: CallIdRule::WordCharacters.map(id),
            name,
            input: pieces::arguments(arguments),
        }),
        ContentBlock::Opaque { meta } if meta.provider == DIALECT => {
            Some(Block::Verbatim(&meta.data))
        }
        ContentBlock::Opaque { .. } | ContentBlock::Image(_) | ContentBlock::ToolResult { .. } => {
            None
        }
    }
}

/// Reasoning goes back only with the signature this dialect gave it: unsigned or foreign reasoning
/// is refused, and the conversation is legal without it.
fn reasoning<'a>(text: &'a str, meta: &'a ProviderMeta) -> Option<Block<'a>> {
    if meta.provider != DIALECT {
        return None;
    }
    let field = |name: &str| meta.data.get(name)?.as_str().filter(|text| !text.is_empty());
    match field("type")? {
        "thinking" => Some(Block::Thinking { thinking: text, signature: field("signature")? }),
        "redacted_thinking" => Some(Block::RedactedThinking { data: field("data")? }),
        _ => None,
    }
}

fn text_block(text: &str) -> Option<Block<'_>> {
    (!is_blank(text)).then_some(Block::Text { text, citations: None })
}

/// Citations point into results of server-side tools, which go back as well.
fn citations(meta: Option<&ProviderMeta>) -> Option<&Value> {
    meta.filter(|meta| meta.provider == DIALECT)?.data.get("citations").filter(|c| c.is_array())
}

/// The server refuses text blocks without a visible character.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn image(image: &ImageData) -> Block<'_> {
    Block::Image {
        source: Source { r#type: "base64", media_type: &image.media_type, data: &image.data },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::types::ToolSpec;

    fn meta(provider: &str, data: Value) -> Option<ProviderMeta> {
        Some(ProviderMeta { provider: provider.into(), data })
    }

    fn call(id: &str, arguments: Value) -> ContentBlock {
        ContentBlock::ToolCall { id: id.into(), name: "ls".into(), arguments, meta: None }
    }

    fn content(role: Role, blocks: Vec<ContentBlock>) -> Value {
        pieces::to_value(&wire(&Message::new(role, blocks)))["content"].clone()
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
        };
        insta::assert_json_snapshot!(to_wire(&req));
        assert_eq!(serde_json::from_slice::<Value>(&body(&req)).unwrap(), to_wire(&req));
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
        let text = String::from_utf8(body(&req)).unwrap();
        assert_eq!(
            text,
            r#"{"model":"m","max_tokens":4096,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#
        );
    }
}
