//! Chat request → the body of a Chat Completions call.
//!
//! [`to_wire`] is the whole body as a value, [`body`] the same as bytes, of which those of messages are
//! written once ([`Joined`]): they depend on the message and on the target. One canonical message may
//! become several on this wire, so it is written as a list without its brackets.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Number, Value};

use super::decode::DIALECT;
use crate::capability::{
    CacheHintKind, Effort, MaxTokensField, ReasoningReplay, SystemRole, Target, ThinkingStyle,
};
use crate::providers::joined::Joined;
use crate::providers::pieces::{self, NOTHING_TO_SHOW};
use crate::providers::thinking::{self, Depth};
use crate::providers::{images, tools};
use crate::types::{ChatRequest, ContentBlock, ImageData, Message, ProviderMeta, Role, ToolChoice};

/// The whole request as one value.
pub fn to_wire(req: &ChatRequest, target: Target) -> Value {
    let mut body = pieces::to_value(&Head::of(req, target));
    let mut messages: Vec<Value> =
        system(req, target).into_iter().map(|message| pieces::to_value(&message)).collect();
    for message in &req.messages {
        let placed = placed(message, target);
        messages.extend(wire(&placed, target).iter().map(pieces::to_value));
    }
    body["messages"] = messages.into();
    body
}

/// The whole request as bytes.
pub fn body(req: &ChatRequest, target: Target, joined: &Joined) -> Vec<u8> {
    let lead = system(req, target).map(|message| pieces::to_json(&message)).unwrap_or_default();
    let write =
        |at: usize| pieces::to_json_items(&wire(&placed(&req.messages[at], target), target));
    let head = Head::of(req, target);
    joined.items((DIALECT, req, target), write, |items| {
        let comma: &[u8] = if lead.is_empty() || items.is_empty() { b"" } else { b"," };
        pieces::join_body(&head, "messages", &[&lead, comma, items])
    })
}

/// The message with its pictures where the target takes them.
fn placed<'a>(message: &'a Message, target: Target) -> Cow<'a, Message> {
    images::placed(message, target, |id| target.call_ids.map(id).into_owned())
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
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(flatten)]
    thinking: Thinking,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
}

/// Without it most servers send no usage.
#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// One mark for the whole request; the router puts it where the model's own protocol wants it.
#[derive(Serialize)]
struct CacheControl {
    r#type: &'static str,
}

/// The fields in which servers are asked for a depth of thought.
#[derive(Serialize, Default)]
struct Thinking {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningDepth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Toggle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_thinking: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ReasoningDepth {
    Effort(Effort),
    MaxTokens(u32),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Toggle {
    Enabled,
    Disabled,
}

impl Thinking {
    fn of(depth: Depth, target: Target) -> Self {
        let Depth { off, effort, budget, is_budget } = depth;
        let asked = Self::default();
        match target.thinking {
            ThinkingStyle::Effort => Self { reasoning_effort: effort, ..asked },
            ThinkingStyle::Reasoning if is_budget && !off => {
                Self { reasoning: Some(ReasoningDepth::MaxTokens(budget)), ..asked }
            }
            ThinkingStyle::Reasoning => {
                Self { reasoning: effort.map(ReasoningDepth::Effort), ..asked }
            }
            ThinkingStyle::Toggle if off => Self { thinking: Some(Toggle::Disabled), ..asked },
            ThinkingStyle::Toggle => {
                Self { thinking: Some(Toggle::Enabled), reasoning_effort: effort, ..asked }
            }
            ThinkingStyle::EnableThinking => Self {
                enable_thinking: Some(!off),
                thinking_budget: (is_budget && !off).then_some(budget),
                ..asked
            },
            ThinkingStyle::None
            | ThinkingStyle::Adaptive
            | ThinkingStyle::Budget
            | ThinkingStyle::Level => asked,
        }
    }
}

impl<'a> Head<'a> {
    fn of(req: &'a ChatRequest, target: Target) -> Self {
        let limit = (req.max_tokens > 0).then_some(req.max_tokens);
        let tools = tools::offered(req, target.tool_schema).map(|(tool, parameters)| Tool {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters,
                strict: target.strict_field.then_some(false),
            },
        });
        let tools: Vec<Tool<'_>> = tools.collect();
        let thinking = thinking::depth(req, target).map(|depth| Thinking::of(depth, target));
        let is_original = target.max_tokens_field == MaxTokensField::MaxCompletionTokens;
        Self {
            model: &req.model,
            max_tokens: limit.filter(|_| !is_original),
            max_completion_tokens: limit.filter(|_| is_original),
            stream: true,
            stream_options: target.usage_flag.then_some(StreamOptions { include_usage: true }),
            temperature: pieces::temperature(req.temperature).filter(|_| target.temperature),
            thinking: thinking.unwrap_or_default(),
            prompt_cache_key: pieces::cache_key(req, target),
            cache_control: (req.cache.is_some()
                && target.cache_hint == CacheHintKind::CacheControl)
                .then_some(CacheControl { r#type: "ephemeral" }),
            tool_choice: pieces::tool_choice(req, target).filter(|_| !tools.is_empty()),
            tools,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
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

fn system(req: &ChatRequest, target: Target) -> Option<WireMessage<'_>> {
    let text = req.system.as_deref().filter(|text| !text.is_empty())?;
    let role = match target.system_role {
        SystemRole::System => "system",
        SystemRole::Developer => "developer",
    };
    Some(WireMessage { role, content: text_content(text), ..WireMessage::default() })
}

fn text_content<'a>(text: impl Into<Cow<'a, str>>) -> Content<'a> {
    Content::Text(text.into())
}

fn wire(message: &Message, target: Target) -> Vec<WireMessage<'_>> {
    match message.role() {
        Role::User => user_messages(message, target),
        Role::Assistant => vec![assistant_message(message, target)],
    }
}

/// Results first, one message each, as the server demands after calls; then what the user said.
fn user_messages(message: &Message, target: Target) -> Vec<WireMessage<'_>> {
    let results = message.content().iter().filter_map(|block| match block {
        ContentBlock::ToolResult { call_id, content, is_error, images } => Some(WireMessage {
            role: "tool",
            tool_call_id: Some(target.call_ids.map(call_id)),
            content: result_content(content, *is_error, images),
            ..WireMessage::default()
        }),
        _ => None,
    });
    let mut messages: Vec<WireMessage<'_>> = results.collect();
    let mut parts: Vec<Part<'_>> = Vec::new();
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

fn result_content<'a>(content: &'a str, is_error: bool, images: &[ImageData]) -> Content<'a> {
    let text = pieces::result_text(content, is_error);
    if images.is_empty() {
        return Content::Text(text);
    }
    let text = (!text.is_empty()).then_some(Part::Text { text });
    Content::Parts(text.into_iter().chain(images.iter().map(image_part)).collect())
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

fn assistant_message(message: &Message, target: Target) -> WireMessage<'_> {
    let text = message.text();
    let tool_calls: Vec<Call<'_>> = message
        .tool_calls()
        .map(|call| Call {
            id: target.call_ids.map(call.id),
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
    replay_reasoning(&mut out, message, target);
    out
}

fn replay_reasoning<'a>(out: &mut WireMessage<'a>, message: &'a Message, target: Target) {
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
    match target.reasoning_replay {
        ReasoningReplay::ReasoningContent if calls => {
            out.reasoning_content =
                Some(text()).filter(|text| target.empty_reasoning || !text.is_empty());
        }
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
mod tests;
