//! Chat request → the body of a Responses call.
//!
//! [`to_wire`] is the whole body as a value, [`body`] the same as bytes, of which those of messages are
//! written once ([`Joined`]): they depend on the message and on the target. One canonical message
//! becomes several items, so it is written as a list without its brackets.
//!
//! Nothing is kept on the server (`store: false`), so every request carries the whole dialogue and
//! asks for reasoning in a sealed form that can be carried along.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Number, Value};

use super::decode::DIALECT;
use crate::capability::{Effort, ReasoningReplay, Target, ThinkingStyle};
use crate::providers::joined::Joined;
use crate::providers::pieces::{self, NOTHING_TO_SHOW};
use crate::providers::{images, thinking, tools};
use crate::types::{ChatRequest, ContentBlock, ImageData, Message, ProviderMeta, Role, ToolChoice};

/// The longest id of an item that the service takes back, in characters.
const LONGEST_ID: usize = 64;

/// The whole request as one value.
pub fn to_wire(req: &ChatRequest, target: Target) -> Value {
    let mut body = pieces::to_value(&Head::of(req, target));
    let mut items = Vec::new();
    for message in &req.messages {
        let placed = placed(message, target);
        items.extend(wire(&placed, target).iter().map(pieces::to_value));
    }
    body["input"] = items.into();
    body
}

/// The whole request as bytes.
pub fn body(req: &ChatRequest, target: Target, joined: &Joined) -> Vec<u8> {
    let write =
        |at: usize| pieces::to_json_items(&wire(&placed(&req.messages[at], target), target));
    let head = Head::of(req, target);
    let join = |items: &[u8]| pieces::join_body(&head, "input", &[items]);
    joined.items((DIALECT, req, target), write, join)
}

/// The message with its pictures where the target takes them.
fn placed<'a>(message: &'a Message, target: Target) -> Cow<'a, Message> {
    images::placed(message, target, |id| target.call_ids.map(id).into_owned())
}

/// Everything before the items, in the order in which it rarely changes.
#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    store: bool,
    include: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: Effort,
}

#[derive(Serialize)]
struct StreamOptions {
    include_obfuscation: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: Cow<'a, Value>,
    /// Said because its absence means `true` here: the server would then make every optional
    /// parameter a required one.
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> Head<'a> {
    fn of(req: &'a ChatRequest, target: Target) -> Self {
        let tools = tools::offered(req, target.tool_schema).map(|(tool, parameters)| Tool {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters,
            strict: target.strict_field.then_some(false),
        });
        let tools: Vec<Tool<'_>> = tools.collect();
        let is_asked = target.thinking == ThinkingStyle::Effort;
        let effort = thinking::depth(req, target).filter(|_| is_asked).and_then(|d| d.effort);
        Self {
            model: &req.model,
            max_output_tokens: (req.max_tokens > 0).then_some(req.max_tokens),
            stream: true,
            stream_options: target
                .obfuscation_flag
                .then_some(StreamOptions { include_obfuscation: false }),
            store: false,
            include: ["reasoning.encrypted_content"],
            temperature: pieces::temperature(req.temperature).filter(|_| target.temperature),
            reasoning: effort.map(|effort| Reasoning { effort }),
            prompt_cache_key: pieces::cache_key(req, target),
            instructions: req.system.as_deref().filter(|system| !system.is_empty()),
            tool_choice: pieces::tool_choice(req, target).filter(|_| !tools.is_empty()),
            tools,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message(Spoken<'a>),
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        call_id: Cow<'a, str>,
        name: &'a str,
        /// JSON inside a string, as this dialect has it.
        arguments: String,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
    /// Exactly as it came.
    #[serde(untagged)]
    Reasoning(&'a Value),
    /// A server-side item, exactly as it came.
    #[serde(untagged)]
    Verbatim(&'a Value),
}

/// A message, in one of the two forms for the assistant that the service's own types know: with an
/// id as an item of an earlier answer, without one as plain text. Servers that check requests
/// against those types refuse parts without an id.
#[derive(Serialize)]
struct Spoken<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText {
        text: Cow<'a, str>,
    },
    InputImage {
        image_url: String,
        /// How closely it is looked at, which the service's types demand; this is its default.
        detail: &'static str,
    },
    OutputText {
        text: &'a str,
        /// Demanded by the service's types, citations or not.
        annotations: [(); 0],
    },
    Refusal {
        refusal: &'a str,
    },
}

fn wire(message: &Message, target: Target) -> Vec<Item<'_>> {
    match message.role() {
        Role::User => user_items(message, target),
        Role::Assistant => assistant_items(message, target),
    }
}

/// Results first: a call must be answered before anything else is said.
fn user_items(message: &Message, target: Target) -> Vec<Item<'_>> {
    let results = message.content().iter().filter_map(|block| match block {
        ContentBlock::ToolResult { call_id, content, is_error, images } => {
            Some(Item::FunctionCallOutput {
                call_id: target.call_ids.map(call_id),
                output: output(content, *is_error, images),
            })
        }
        _ => None,
    });
    let mut items: Vec<Item<'_>> = results.collect();
    let parts = message.content().iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } => input_text(text.as_str().into()),
        ContentBlock::Image(image) => Some(input_image(image)),
        _ => None,
    });
    let mut parts: Vec<Part<'_>> = parts.collect();
    if parts.is_empty() && items.is_empty() {
        parts.extend(input_text(NOTHING_TO_SHOW.into()));
    }
    if !parts.is_empty() {
        items.push(Item::Message(Spoken::plain("user", None, Content::Parts(parts))));
    }
    items
}

fn output<'a>(content: &'a str, is_error: bool, images: &'a [ImageData]) -> Output<'a> {
    let text = pieces::result_text(content, is_error);
    if images.is_empty() {
        return Output::Text(text);
    }
    Output::Parts(input_text(text).into_iter().chain(images.iter().map(input_image)).collect())
}

fn input_text(text: Cow<'_, str>) -> Option<Part<'_>> {
    (!text.is_empty()).then_some(Part::InputText { text })
}

fn input_image(image: &ImageData) -> Part<'_> {
    Part::InputImage { image_url: pieces::data_url(image), detail: "auto" }
}

fn assistant_items(message: &Message, target: Target) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    for block in message.content() {
        match block {
            ContentBlock::Text { text, meta } if !text.is_empty() => {
                say(text, own(meta.as_ref()), &mut items);
            }
            ContentBlock::Reasoning { .. } if target.reasoning_replay == ReasoningReplay::None => {}
            ContentBlock::Reasoning { meta, .. } => items.extend(reasoning(own(meta.as_ref()))),
            ContentBlock::ToolCall { id, name, arguments, meta } => {
                items.push(Item::FunctionCall {
                    id: item_id(own(meta.as_ref()), "fc_"),
                    call_id: target.call_ids.map(id),
                    name,
                    arguments: pieces::arguments(arguments).to_string(),
                });
            }
            ContentBlock::Opaque { meta } => {
                items.extend(own(Some(meta)).map(Item::Verbatim));
            }
            _ => {}
        }
    }
    if target.calls_last {
        items.sort_by_key(|item| matches!(item, Item::FunctionCall { .. }));
    }
    // The server refuses reasoning without the item it led to: what an answer that was cut off, or
    // whose calls were dropped, ends with.
    while let Some(Item::Reasoning(_)) = items.last() {
        items.pop();
    }
    if items.is_empty() {
        say(NOTHING_TO_SHOW, None, &mut items);
    }
    items
}

/// State that this dialect made. That of another one stays at home, and the conversation is legal
/// without it.
fn own(meta: Option<&ProviderMeta>) -> Option<&Value> {
    meta.filter(|meta| meta.provider == DIALECT).map(|meta| &meta.data)
}

fn reasoning(item: Option<&Value>) -> Option<Item<'_>> {
    item.filter(|item| item["type"] == "reasoning").map(Item::Reasoning)
}

/// Adds text to the message it was part of, or as a message of its own.
fn say<'a>(text: &'a str, state: Option<&'a Value>, items: &mut Vec<Item<'a>>) {
    let phase = state.and_then(|state| state["phase"].as_str());
    let Some(id) = item_id(state, "msg_") else {
        items.push(Item::Message(Spoken::plain("assistant", phase, Content::Text(text))));
        return;
    };
    let part = match state.is_some_and(|state| state["refusal"] == true) {
        true => Part::Refusal { refusal: text },
        false => Part::OutputText { text, annotations: [] },
    };
    let known = items.iter_mut().find_map(|item| match item {
        Item::Message(Spoken { id: Some(known), content: Content::Parts(parts), .. })
            if *known == id =>
        {
            Some(parts)
        }
        _ => None,
    });
    match known {
        Some(parts) => parts.push(part),
        None => items.push(Item::Message(Spoken {
            id: Some(id),
            status: Some("completed"),
            ..Spoken::plain("assistant", phase, Content::Parts(vec![part]))
        })),
    }
}

impl<'a> Spoken<'a> {
    fn plain(role: &'static str, phase: Option<&'a str>, content: Content<'a>) -> Self {
        Self { id: None, role, status: None, phase, content }
    }
}

/// The id that an item came with, if the service takes it back: compatible servers and gateways have
/// forms of their own, and an item without an id is as good.
fn item_id<'a>(state: Option<&'a Value>, prefix: &str) -> Option<&'a str> {
    let id = state?["id"].as_str()?;
    (id.starts_with(prefix) && id.chars().nth(LONGEST_ID).is_none()).then_some(id)
}

#[cfg(test)]
mod tests;
