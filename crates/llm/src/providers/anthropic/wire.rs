//! Chat request → the body of a Messages call.
//!
//! [`to_wire`] is the whole body as a value, [`body`] the same as bytes, of which those of messages are
//! written once ([`Joined`]): they depend on the message and on the target. The mark that ends a cached
//! beginning is no part of them: it moves with every step, and what it leaves must stay as it is.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Number, Value};

use super::decode::DIALECT;
use crate::capability::{CacheHintKind, Effort, ReasoningReplay, Target, ThinkingStyle};
use crate::providers::joined::Joined;
use crate::providers::pieces::{self, NOTHING_TO_SHOW};
use crate::providers::thinking::{self, Depth, LEAST_BUDGET};
use crate::providers::{images, tools};
use crate::types::{ChatRequest, ContentBlock, ImageData, Message, ProviderMeta, Role, ToolChoice};

/// Sent when a request names no limit: the protocol demands one, and every model takes this.
const DEFAULT_MAX_TOKENS: u32 = 4_096;

/// Stands in a failed result without text, which the server refuses.
const SILENT_FAILURE: &str = "(the tool failed without a message)";

/// The whole request as one value.
pub fn to_wire(req: &ChatRequest, target: Target) -> Value {
    let mut body = pieces::to_value(&Head::of(req, target));
    let mut messages: Vec<Value> = req
        .messages
        .iter()
        .map(|message| pieces::to_value(&wire(&placed(message, target), target)))
        .collect();
    let marked = req.messages.last().filter(|last| is_marked(req, last, target));
    let blocks = marked.and(messages.last_mut()).and_then(|last| last["content"].as_array_mut());
    if let Some(block) = blocks.and_then(|blocks| blocks.last_mut()) {
        block["cache_control"] = pieces::to_value(&MARK);
    }
    body["messages"] = messages.into();
    body
}

/// The whole request as bytes.
pub fn body(req: &ChatRequest, target: Target, joined: &Joined) -> Vec<u8> {
    let write = |at: usize| pieces::to_json(&wire(&placed(&req.messages[at], target), target));
    let is_marked = req.messages.last().is_some_and(|last| is_marked(req, last, target));
    let head = Head::of(req, target);
    joined.items((DIALECT, req, target), write, |items| {
        let join = |items: &[&[u8]]| pieces::join_body(&head, "messages", items);
        if is_marked { join(&with_mark(items, &mark())) } else { join(&[items]) }
    })
}

/// The message with its pictures where the target takes them.
fn placed<'a>(message: &'a Message, target: Target) -> Cow<'a, Message> {
    images::placed(message, target, |id| target.call_ids.map(id).into_owned())
}

/// The sign that what stands before it, tools and system included, is worth keeping.
#[derive(Serialize, Clone, Copy)]
struct CacheControl {
    r#type: &'static str,
}

const MARK: CacheControl = CacheControl { r#type: "ephemeral" };

fn wants_marks(req: &ChatRequest, target: Target) -> bool {
    req.cache.is_some() && target.cache_hint == CacheHintKind::CacheControl
}

/// Whether the last block of the last message carries the mark. One that only the server understands
/// goes back as it came.
fn is_marked(req: &ChatRequest, last: &Message, target: Target) -> bool {
    let ends_ours = || {
        let placed = placed(last, target);
        let message = wire(&placed, target);
        !matches!(message.content.last(), None | Some(Block::Verbatim(_)))
    };
    wants_marks(req, target) && ends_ours()
}

/// The field that is the mark, behind another one.
fn mark() -> Vec<u8> {
    [b",\"cache_control\":".to_vec(), pieces::to_json(&MARK)].concat()
}

/// The items with the mark on the last block of the last one, whose end is known: `}]}`.
fn with_mark<'a>(items: &'a [u8], mark: &'a [u8]) -> [&'a [u8]; 3] {
    const END: &[u8] = b"}]}";
    debug_assert!(items.ends_with(END), "a message ends with its last block");
    let (before, end) = items.split_at(items.len() - END.len());
    [before, mark, end]
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
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<System<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Disabled,
    Adaptive,
    Enabled { budget_tokens: u32 },
}

#[derive(Serialize)]
struct OutputConfig {
    effort: Effort,
}

#[derive(Serialize)]
#[serde(untagged)]
enum System<'a> {
    Text(&'a str),
    Marked([Marked<'a>; 1]),
}

#[derive(Serialize)]
struct Marked<'a> {
    r#type: &'static str,
    text: &'a str,
    cache_control: CacheControl,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Choice {
    Auto,
    Any,
    None,
}

impl<'a> Head<'a> {
    fn of(req: &'a ChatRequest, target: Target) -> Self {
        let tools = tools::offered(req, target.tool_schema).map(|(tool, input_schema)| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema,
        });
        let tools: Vec<Tool<'_>> = tools.collect();
        let max_tokens = if req.max_tokens == 0 { DEFAULT_MAX_TOKENS } else { req.max_tokens };
        let depth = thinking::depth(req, target);
        let thinking = depth.and_then(|depth| asked(depth, target, max_tokens));
        let is_thinking = thinking.is_some_and(|thinking| thinking != Thinking::Disabled);
        let effort = depth.filter(|_| is_thinking).and_then(|depth| depth.effort);
        let system = req.system.as_deref().filter(|system| !is_blank(system));
        let marked = |text| System::Marked([Marked { r#type: "text", text, cache_control: MARK }]);
        Self {
            model: &req.model,
            max_tokens,
            stream: true,
            temperature: pieces::temperature(req.temperature)
                .filter(|_| target.temperature && !is_thinking),
            thinking,
            output_config: effort.map(|effort| OutputConfig { effort }),
            system: system.map(if wants_marks(req, target) { marked } else { System::Text }),
            tool_choice: req
                .tool_choice
                .filter(|_| !tools.is_empty())
                .map(|choice| tool_choice(choice, target, thinking)),
            tools,
        }
    }
}

/// What the target is told about thinking; nothing where the answer leaves no room for it.
fn asked(depth: Depth, target: Target, max_tokens: u32) -> Option<Thinking> {
    match target.thinking {
        ThinkingStyle::Adaptive | ThinkingStyle::Budget if depth.off => Some(Thinking::Disabled),
        ThinkingStyle::Adaptive => Some(Thinking::Adaptive),
        ThinkingStyle::Budget => {
            // The limit covers both, and half of it stays for the answer unless someone counted.
            let most = if depth.is_budget { max_tokens - 1 } else { max_tokens / 2 };
            let budget_tokens = depth.budget.max(LEAST_BUDGET).min(most);
            (budget_tokens >= LEAST_BUDGET).then_some(Thinking::Enabled { budget_tokens })
        }
        ThinkingStyle::None
        | ThinkingStyle::Effort
        | ThinkingStyle::Reasoning
        | ThinkingStyle::Toggle
        | ThinkingStyle::EnableThinking
        | ThinkingStyle::Level => None,
    }
}

/// A call cannot be demanded of a model that thinks within a budget.
fn tool_choice(choice: ToolChoice, target: Target, thinking: Option<Thinking>) -> Choice {
    let in_budget = matches!(thinking, Some(Thinking::Enabled { .. }));
    match choice {
        ToolChoice::Required if target.tool_choice_required && !in_budget => Choice::Any,
        ToolChoice::Required | ToolChoice::Auto => Choice::Auto,
        ToolChoice::None => Choice::None,
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

fn wire(message: &Message, target: Target) -> WireMessage<'_> {
    let (role, mut content) = match message.role() {
        Role::User => ("user", user_blocks(message, target)),
        Role::Assistant => ("assistant", assistant_blocks(message, target)),
    };
    if content.is_empty() {
        content.extend(text_block(NOTHING_TO_SHOW));
    }
    WireMessage { role, content }
}

/// Results first: a call must be answered before anything else is said.
fn user_blocks(message: &Message, target: Target) -> Vec<Block<'_>> {
    let results = message.content().iter().filter_map(|block| match block {
        ContentBlock::ToolResult { call_id, content, is_error, images } => {
            Some(Block::ToolResult {
                tool_use_id: target.call_ids.map(call_id),
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

fn assistant_blocks(message: &Message, target: Target) -> Vec<Block<'_>> {
    let blocks = message.content().iter().filter_map(|block| assistant_block(block, target));
    let mut blocks: Vec<Block<'_>> = blocks.collect();
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

fn assistant_block(block: &ContentBlock, target: Target) -> Option<Block<'_>> {
    match block {
        ContentBlock::Text { text, meta } if !is_blank(text) => {
            Some(Block::Text { text, citations: citations(meta.as_ref()) })
        }
        ContentBlock::Text { .. } => None,
        ContentBlock::Reasoning { .. } if target.reasoning_replay == ReasoningReplay::None => None,
        ContentBlock::Reasoning { text, meta } => reasoning(text, meta.as_ref()?),
        ContentBlock::ToolCall { id, name, arguments, .. } => Some(Block::ToolUse {
            id: target.call_ids.map(id),
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
mod tests;
