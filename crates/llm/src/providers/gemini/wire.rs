//! Chat request → the body of a generateContent call.
//!
//! [`to_wire`] is the whole body as a value, [`body`] the same as bytes, of which those of messages are
//! written once ([`Joined`]): they depend on the message, on the model and its target, and for results on
//! the calls of the message before, because this dialect names the tool in a result.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Number, Value};

use super::decode::DIALECT;
use crate::capability::{Effort, ReasoningReplay, Signatures, Target, ThinkingStyle};
use crate::providers::joined::Joined;
use crate::providers::pieces::{self, NOTHING_TO_SHOW};
use crate::providers::thinking::{self, Depth};
use crate::providers::{images, tools};
use crate::schema::SchemaDialect;
use crate::types::{
    ChatRequest, ContentBlock, ImageData, Message, ProviderMeta, Role, ToolChoice, ToolSpec,
};

/// The documented stand-in for the signature of a call that this model did not make.
const STAND_IN: &str = "skip_thought_signature_validator";

/// Stands in a result for the name of a tool that nothing before it called.
const UNKNOWN_TOOL: &str = "unknown";

/// The whole request as one value. The model is not part of it: it stands in the address.
pub fn to_wire(req: &ChatRequest, target: Target) -> Value {
    let mut body = pieces::to_value(&Head::of(req, target));
    let contents = (0..req.messages.len()).map(|at| {
        let step = step(req, at);
        let placed = step.placed(target);
        pieces::to_value(&step.of(&placed).content(req, target))
    });
    body["contents"] = contents.collect();
    body
}

/// The whole request as bytes.
pub fn body(req: &ChatRequest, target: Target, joined: &Joined) -> Vec<u8> {
    let write = |at: usize| {
        let step = step(req, at);
        let placed = step.placed(target);
        pieces::to_json(&step.of(&placed).content(req, target))
    };
    let head = Head::of(req, target);
    let join = |items: &[u8]| pieces::join_body(&head, "contents", &[items]);
    joined.items((DIALECT, req, target), write, join)
}

/// Everything before the messages, in the order in which it rarely changes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<GenerationConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: FunctionCallingConfig,
}

#[derive(Serialize)]
struct FunctionCallingConfig {
    mode: &'static str,
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: [Part<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<Cow<'a, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Cow<'a, Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<Level>,
    include_thoughts: bool,
}

/// An effort in the letters of this dialect.
#[derive(Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Level {
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

impl Level {
    /// There is none for no thought at all.
    fn of(effort: Effort) -> Self {
        match effort {
            Effort::None | Effort::Minimal => Self::Minimal,
            Effort::Low => Self::Low,
            Effort::Medium => Self::Medium,
            Effort::High => Self::High,
            Effort::Xhigh | Effort::Max => Self::Xhigh,
        }
    }
}

impl ThinkingConfig {
    fn of(depth: Depth, target: Target) -> Option<Self> {
        let include_thoughts = !depth.off;
        match target.thinking {
            ThinkingStyle::Level => {
                let thinking_level = Some(Level::of(depth.effort?));
                Some(Self { thinking_budget: None, thinking_level, include_thoughts })
            }
            ThinkingStyle::Budget => {
                // The nearest effort has the bounds: what the model cannot do has no name there.
                let (least, most) =
                    (target.efforts.nearest(Effort::None), target.efforts.nearest(Effort::Max));
                let budget = depth.budget.max(least?.budget()).min(most?.budget());
                Some(Self { thinking_budget: Some(budget), thinking_level: None, include_thoughts })
            }
            ThinkingStyle::None
            | ThinkingStyle::Effort
            | ThinkingStyle::Reasoning
            | ThinkingStyle::Toggle
            | ThinkingStyle::EnableThinking
            | ThinkingStyle::Adaptive => None,
        }
    }
}

impl<'a> Head<'a> {
    fn of(req: &'a ChatRequest, target: Target) -> Self {
        let system = req.system.as_deref().filter(|system| !system.is_empty());
        let declaration = |(tool, schema): (&'a ToolSpec, _)| {
            let (full, limited) = match target.tool_schema {
                SchemaDialect::Full | SchemaDialect::PlainRoot => (Some(schema), None),
                SchemaDialect::Limited => (None, Some(schema)),
            };
            Declaration {
                name: &tool.name,
                description: &tool.description,
                parameters_json_schema: full,
                parameters: limited,
            }
        };
        let tools: Vec<Declaration<'_>> =
            tools::offered(req, target.tool_schema).map(declaration).collect();
        let config = GenerationConfig {
            max_output_tokens: (req.max_tokens > 0).then_some(req.max_tokens),
            temperature: pieces::temperature(req.temperature).filter(|_| target.temperature),
            thinking_config: thinking::depth(req, target)
                .and_then(|depth| ThinkingConfig::of(depth, target)),
        };
        let told = config.max_output_tokens.is_some()
            || config.temperature.is_some()
            || config.thinking_config.is_some();
        let choice = pieces::tool_choice(req, target).filter(|_| !tools.is_empty());
        Self {
            system_instruction: system.map(|text| SystemInstruction { parts: [text_part(text)] }),
            tools: (!tools.is_empty()).then_some([Tools { function_declarations: tools }]),
            tool_config: choice.map(tool_config),
            generation_config: told.then_some(config),
        }
    }
}

fn tool_config(choice: ToolChoice) -> ToolConfig {
    let mode = match choice {
        ToolChoice::Auto => "AUTO",
        ToolChoice::Required => "ANY",
        ToolChoice::None => "NONE",
    };
    ToolConfig { function_calling_config: FunctionCallingConfig { mode } }
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Ours(Signed<'a>),
    /// A part that only the server understands, exactly as it came.
    Verbatim(&'a Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Signed<'a> {
    #[serde(flatten)]
    data: Data<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data<'a> {
    Text(Cow<'a, str>),
    InlineData(InlineData<'a>),
    FunctionCall(FunctionCall<'a>),
    FunctionResponse(FunctionResponse<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: Cow<'a, Value>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Response<'a> {
    Result(&'a str),
    Error(&'a str),
}

/// A message and what it answers.
#[derive(Clone, Copy)]
struct Step<'a> {
    message: &'a Message,
    before: Option<&'a Message>,
}

fn step(req: &ChatRequest, at: usize) -> Step<'_> {
    let before = at.checked_sub(1).map(|before| &*req.messages[before]);
    Step { message: &req.messages[at], before }
}

/// A call, as its result has to repeat it.
#[derive(Clone, Copy)]
struct Called<'a> {
    call_id: &'a str,
    name: &'a str,
    /// The id that the server gave, if it gave one.
    id: Option<&'a str>,
}

fn called(message: &Message) -> impl Iterator<Item = Called<'_>> {
    message.content().iter().filter_map(|block| match block {
        ContentBlock::ToolCall { id, name, meta, .. } => {
            Some(Called { call_id: id, name, id: field(meta.as_ref(), "id") })
        }
        _ => None,
    })
}

/// A field of state that this dialect keeps.
fn field<'a>(meta: Option<&'a ProviderMeta>, name: &str) -> Option<&'a str> {
    meta.filter(|meta| meta.provider == DIALECT)?.data.get(name)?.as_str()
}

/// Whether the state is of this dialect and, as far as it tells, of this model.
fn is_own(meta: Option<&ProviderMeta>, model: &str) -> bool {
    meta.is_some_and(|meta| meta.provider == DIALECT)
        && field(meta, "model").is_none_or(|maker| maker == model)
}

/// The signature in it, if this model can read it.
fn signature<'a>(meta: Option<&'a ProviderMeta>, model: &str) -> Option<&'a str> {
    field(meta, "thoughtSignature").filter(|text| !text.is_empty() && is_own(meta, model))
}

impl<'a> Step<'a> {
    /// The message with its pictures where the target takes them.
    fn placed(self, target: Target) -> Cow<'a, Message> {
        let name = |id: &str| {
            let call = self.before.into_iter().flat_map(called).find(|call| call.call_id == id);
            call.map_or(UNKNOWN_TOOL, |call| call.name).to_owned()
        };
        images::placed(self.message, target, name)
    }

    /// The same step with another form of its message.
    fn of<'b>(self, message: &'b Message) -> Step<'b>
    where
        'a: 'b,
    {
        Step { message, before: self.before }
    }

    fn content(self, req: &ChatRequest, target: Target) -> Content<'a> {
        let (role, mut parts) = match self.message.role() {
            Role::User => ("user", self.user_parts()),
            Role::Assistant => ("model", assistant_parts(self.message, &req.model, target)),
        };
        if parts.is_empty() {
            parts.push(text_part(NOTHING_TO_SHOW));
        }
        Content { role, parts }
    }

    /// Results first, in the order of their calls: without ids the server tells them apart by it.
    fn user_parts(self) -> Vec<Part<'a>> {
        let calls: Vec<Called<'_>> = self.before.into_iter().flat_map(called).collect();
        let position = |block: &&ContentBlock| match block {
            ContentBlock::ToolResult { call_id, .. } => {
                Some(calls.iter().position(|call| call.call_id == call_id).unwrap_or(calls.len()))
            }
            _ => None,
        };
        let content = self.message.content();
        let mut results: Vec<(usize, &ContentBlock)> =
            content.iter().filter_map(|block| Some((position(&block)?, block))).collect();
        results.sort_by_key(|(position, _)| *position);
        let mut parts = Vec::new();
        for (position, block) in results {
            let ContentBlock::ToolResult { content, is_error, images, .. } = block else {
                continue;
            };
            let (id, name) = calls.get(position).map_or((None, UNKNOWN_TOOL), |c| (c.id, c.name));
            let response =
                if *is_error { Response::Error(content) } else { Response::Result(content) };
            let inside = images.iter().map(image_part).collect();
            let response = FunctionResponse { id, name, response, parts: inside };
            parts.push(unsigned(Data::FunctionResponse(response)));
        }
        parts.extend(content.iter().filter_map(|block| match block {
            ContentBlock::Text { text, .. } if !text.is_empty() => Some(text_part(text)),
            ContentBlock::Image(image) => Some(image_part(image)),
            _ => None,
        }));
        parts
    }
}

fn assistant_parts<'a>(message: &'a Message, model: &str, target: Target) -> Vec<Part<'a>> {
    let mut first_call = true;
    let part = |block: &'a ContentBlock| match block {
        ContentBlock::Text { text, meta } => {
            let signature = signature(meta.as_ref(), model);
            let said = !text.is_empty() || signature.is_some();
            said.then(|| signed(Data::Text(text.into()), signature))
        }
        ContentBlock::Reasoning { .. } if target.reasoning_replay == ReasoningReplay::None => None,
        ContentBlock::Reasoning { text, meta } => {
            // Only a signature makes a thought worth sending back.
            let signature = signature(meta.as_ref(), model)?;
            let thought_signature = Some(signature);
            let data = Data::Text(text.into());
            Some(Part::Ours(Signed { data, thought: true, thought_signature }))
        }
        ContentBlock::ToolCall { name, arguments, meta, .. } => {
            let stands_in = std::mem::take(&mut first_call)
                && match target.signatures {
                    Signatures::Demanded => true,
                    Signatures::Expected => !is_own(meta.as_ref(), model),
                    Signatures::Unknown => false,
                };
            let signature = signature(meta.as_ref(), model).or(stands_in.then_some(STAND_IN));
            let (id, args) = (field(meta.as_ref(), "id"), pieces::arguments(arguments));
            Some(signed(Data::FunctionCall(FunctionCall { id, name, args }), signature))
        }
        ContentBlock::Opaque { meta } if meta.provider == DIALECT => {
            Some(Part::Verbatim(&meta.data))
        }
        ContentBlock::Opaque { .. } | ContentBlock::Image(_) | ContentBlock::ToolResult { .. } => {
            None
        }
    };
    message.content().iter().filter_map(part).collect()
}

fn signed<'a>(data: Data<'a>, thought_signature: Option<&'a str>) -> Part<'a> {
    Part::Ours(Signed { data, thought: false, thought_signature })
}

fn unsigned(data: Data<'_>) -> Part<'_> {
    signed(data, None)
}

fn text_part<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    unsigned(Data::Text(text.into()))
}

fn image_part(image: &ImageData) -> Part<'_> {
    unsigned(Data::InlineData(InlineData { mime_type: &image.media_type, data: &image.data }))
}

#[cfg(test)]
mod tests;
