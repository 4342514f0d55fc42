//! Chat request → the body of a generateContent call.
//!
//! [`to_wire`] is the whole body as a value, [`body`] the same as bytes joined from pieces that each
//! message remembers. A piece depends on its message, on the model and its options, and for results
//! on the calls of the message before, because this dialect names the tool in a result.

use std::borrow::Cow;
use std::hash::Hash as _;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Number, Value};

use super::decode::DIALECT;
use super::options::{GeminiOptions, Signatures};
use crate::providers::pieces::{self, NOTHING_TO_SHOW};
use crate::providers::tools;
use crate::schema::SchemaDialect;
use crate::types::{
    ChatRequest, ContentBlock, ImageData, Message, ProviderMeta, Role, ToolSpec, WireKey,
};

/// The documented stand-in for the signature of a call that this model did not make.
const STAND_IN: &str = "skip_thought_signature_validator";

/// Stands in a result for the name of a tool that nothing before it called.
const UNKNOWN_TOOL: &str = "unknown";

/// The whole request as one value. The model is not part of it: it stands in the address.
pub fn to_wire(req: &ChatRequest, options: GeminiOptions) -> Value {
    let mut body = pieces::to_value(&Head::of(req, options));
    let contents = steps(req).map(|step| pieces::to_value(&step.content(req, options)));
    body["contents"] = contents.collect();
    body
}

/// The whole request as bytes.
pub fn body(req: &ChatRequest, options: GeminiOptions) -> Vec<u8> {
    let piece = |step: Step<'_>| {
        let key = WireKey { dialect: DIALECT, options: step.key(req, options) };
        step.message.wire_bytes(key, |_| pieces::to_json(&step.content(req, options)))
    };
    pieces::join_body(&Head::of(req, options), "contents", steps(req).map(piece))
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
    generation_config: Option<GenerationConfig>,
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
}

impl<'a> Head<'a> {
    fn of(req: &'a ChatRequest, options: GeminiOptions) -> Self {
        let system = req.system.as_deref().filter(|system| !system.is_empty());
        let declaration = |(tool, schema): (&'a ToolSpec, _)| {
            let (full, limited) = match options.schemas {
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
            tools::offered(req, options.schemas).map(declaration).collect();
        let config = GenerationConfig {
            max_output_tokens: (req.max_tokens > 0).then_some(req.max_tokens),
            temperature: pieces::temperature(req.temperature),
        };
        let told = config.max_output_tokens.is_some() || config.temperature.is_some();
        Self {
            system_instruction: system.map(|text| SystemInstruction { parts: [text_part(text)] }),
            tools: (!tools.is_empty()).then_some([Tools { function_declarations: tools }]),
            generation_config: told.then_some(config),
        }
    }
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

fn steps(req: &ChatRequest) -> impl Iterator<Item = Step<'_>> {
    let before = req.messages.iter().map(|message| Some(&**message));
    let messages = req.messages.iter();
    std::iter::once(None)
        .chain(before)
        .zip(messages)
        .map(|(before, message): (_, &Arc<Message>)| Step { message, before })
}

/// A call, as its result has to repeat it.
#[derive(Clone, Copy, Hash)]
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
    fn key(self, req: &ChatRequest, options: GeminiOptions) -> u64 {
        options.key(&req.model, |hasher| {
            let is_result = |block: &_| matches!(block, ContentBlock::ToolResult { .. });
            if let Some(before) = self.before
                && self.message.content().iter().any(is_result)
            {
                called(before).for_each(|called| called.hash(hasher));
            }
        })
    }

    fn content(self, req: &ChatRequest, options: GeminiOptions) -> Content<'a> {
        let (role, mut parts) = match self.message.role() {
            Role::User => ("user", self.user_parts(options)),
            Role::Assistant => ("model", assistant_parts(self.message, &req.model, options)),
        };
        if parts.is_empty() {
            parts.push(text_part(NOTHING_TO_SHOW));
        }
        Content { role, parts }
    }

    /// Results first, in the order of their calls: without ids the server tells them apart by it.
    fn user_parts(self, options: GeminiOptions) -> Vec<Part<'a>> {
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
        let (mut parts, mut beside) = (Vec::new(), Vec::new());
        for (position, block) in results {
            let ContentBlock::ToolResult { content, is_error, images, .. } = block else {
                continue;
            };
            let (id, name) = calls.get(position).map_or((None, UNKNOWN_TOOL), |c| (c.id, c.name));
            let images = images.iter().map(image_part);
            let response =
                if *is_error { Response::Error(content) } else { Response::Result(content) };
            let mut inside = Vec::new();
            if !options.images_beside_results {
                inside.extend(images);
            } else if images.len() > 0 {
                beside.push(text_part(format!("Images from the result of {name}:")));
                beside.extend(images);
            }
            let response = FunctionResponse { id, name, response, parts: inside };
            parts.push(unsigned(Data::FunctionResponse(response)));
        }
        parts.extend(beside);
        parts.extend(content.iter().filter_map(|block| match block {
            ContentBlock::Text { text, .. } if !text.is_empty() => Some(text_part(text)),
            ContentBlock::Image(image) => Some(image_part(image)),
            _ => None,
        }));
        parts
    }
}

fn assistant_parts<'a>(message: &'a Message, model: &str, options: GeminiOptions) -> Vec<Part<'a>> {
    let mut first_call = true;
    let part = |block: &'a ContentBlock| match block {
        ContentBlock::Text { text, meta } => {
            let signature = signature(meta.as_ref(), model);
            let said = !text.is_empty() || signature.is_some();
            said.then(|| signed(Data::Text(text.into()), signature))
        }
        ContentBlock::Reasoning { text, meta } => {
            // Only a signature makes a thought worth sending back.
            let signature = signature(meta.as_ref(), model)?;
            let thought_signature = Some(signature);
            let data = Data::Text(text.into());
            Some(Part::Ours(Signed { data, thought: true, thought_signature }))
        }
        ContentBlock::ToolCall { name, arguments, meta, .. } => {
            let stands_in = std::mem::take(&mut first_call)
                && match options.signatures {
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
