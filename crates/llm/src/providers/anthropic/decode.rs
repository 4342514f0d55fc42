//! Server-sent events of the Messages protocol to stream events; pure.
//!
//! What travels as [`ProviderMeta`] with provider [`DIALECT`]:
//! - a reasoning block: `{"type":"thinking","signature":"…"}`, to which the replay adds the block's
//!   text as `thinking`, or `{"type":"redacted_thinking","data":"…"}`, which is the whole block;
//! - a text block with citations: `{"citations":[…]}`, in the order they came;
//! - an opaque block: the whole block as it must be sent back.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::capability::Dialect;
use crate::error::{LlmError, MAX_MESSAGE_CHARS};
use crate::providers::call_ids::CallIds;
use crate::providers::fault;
use crate::providers::held::{self, Held};
use crate::providers::loose::{Count, JsonText, Object, Text, read_event, read_part};
use crate::sse::SseFrame;
use crate::stream::IdSource;
use crate::stream::{FinishReason, StreamEvent, Usage};
use crate::types::ProviderMeta;

/// The name of this wire dialect in [`ProviderMeta::provider`].
pub const DIALECT: &str = Dialect::Anthropic.name();

/// One event, with the fields of all kinds. Reading them in one pass borrows the text; an enum
/// tagged by `type` would buffer every event first. Large parts are boxed: passing them by value
/// through the layers of a deserializer costs more than the allocation.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    delta: Object<Box<Delta<'a>>>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    usage: Object<Box<Counts>>,
}

/// The `delta` of `content_block_delta` and of `message_delta`.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    signature: Text<'a>,
    #[serde(borrow, default)]
    partial_json: Text<'a>,
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
    #[serde(borrow, default)]
    stop_details: Option<&'a RawValue>,
}

/// What is said about a refusal.
#[derive(Deserialize)]
struct StopDetails {
    #[serde(default)]
    explanation: Option<String>,
}

#[derive(Deserialize)]
struct MessageStart {
    #[serde(default)]
    usage: Object<Box<Counts>>,
}

/// Token counts; each event tells some of them, null means "not told".
#[derive(Clone, Copy, Deserialize)]
struct Counts {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
}

impl From<Counts> for Usage {
    fn from(counts: Counts) -> Self {
        Self {
            input: counts.input_tokens.0,
            output: counts.output_tokens.0,
            cache_read: counts.cache_read_input_tokens.0,
            cache_write: counts.cache_creation_input_tokens.0,
        }
    }
}

/// The known fields of a `content_block`.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    signature: Text<'a>,
    #[serde(borrow, default)]
    input: JsonText<'a>,
    #[serde(borrow, default)]
    citations: Option<&'a RawValue>,
}

/// A block between its start and its stop.
enum Open {
    Text {
        block: u32,
        citations: Vec<Value>,
    },
    Reasoning {
        block: u32,
        signature: String,
    },
    /// `whole` holds the arguments that came with the start; they count unless deltas follow.
    Call {
        call: u32,
        whole: Option<String>,
    },
    /// Kept verbatim; `input` collects the JSON text of a server-side call.
    Opaque {
        block: u32,
        fields: Map<String, Value>,
        input: String,
    },
}

/// Decodes one answer.
pub struct StreamState {
    ids: CallIds,
    next_block: u32,
    calls: u32,
    /// By the wire's own index. An index may be used again once its block has stopped.
    open: BTreeMap<u64, Open>,
    stop_reason: Option<String>,
    finished: bool,
    held: Held,
}

impl StreamState {
    /// A state for a new answer; `ids` names calls that the server left unnamed.
    pub fn new(ids: IdSource) -> Self {
        Self {
            ids: CallIds::new(ids),
            next_block: 0,
            calls: 0,
            open: BTreeMap::new(),
            stop_reason: None,
            finished: false,
            held: Held::default(),
        }
    }

    /// Whether `Finish` has been emitted: everything after it is ignored.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes the next event and appends what it means to `out`.
    ///
    /// # Errors
    /// `Api` for an error that the server reports, `Decode` for what the protocol does not allow.
    /// The answer ends there; what was appended before is still valid.
    pub fn on_sse(
        &mut self,
        frame: SseFrame<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        if self.finished {
            return Ok(());
        }
        let Some(data) = fault::document(&frame)? else { return Ok(()) };
        let mut mended = String::new();
        let (event, json) = read_event(data, &mut mended)?;
        self.apply(event, json, out)
    }

    /// Ends the stream and emits `Finish` unless the server's own end mark did.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream broke off: neither a stop reason nor an end mark came.
    pub fn on_end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if self.finished {
            return Ok(());
        }
        if self.stop_reason.is_none() {
            return Err(LlmError::UnexpectedEof);
        }
        self.finish(out)
    }

    fn apply(
        &mut self,
        event: Event<'_>,
        json: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        match event.kind.as_str() {
            "content_block_delta" => self.delta(event.index, event.delta, out)?,
            "content_block_start" => self.block_start(&event, out)?,
            "content_block_stop" => {
                if let Some(open) = event.index.0.and_then(|index| self.open.remove(&index)) {
                    close(open, out);
                }
            }
            // Behind gateways it comes twice; its counts are totals, so saying them again is harmless.
            "message_start" => {
                let start =
                    event.message.map(RawValue::get).map(serde_json::from_str::<MessageStart>);
                if let Some(Ok(MessageStart { usage: Object(Some(counts)) })) = start {
                    out.push(StreamEvent::Usage((*counts).into()));
                }
            }
            "message_delta" => {
                if let Some(delta) = event.delta.0 {
                    out.extend(delta.stop_details.and_then(refusal));
                    self.stop_reason =
                        delta.stop_reason.into_non_empty().or(self.stop_reason.take());
                }
                if let Some(counts) = event.usage.0 {
                    out.push(StreamEvent::Usage((*counts).into()));
                }
            }
            "message_stop" => self.finish(out)?,
            "error" => return Err(fault::from_json(json)),
            _ => {}
        }
        Ok(())
    }

    fn block_start(
        &mut self,
        event: &Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let (Some(index), Some(raw)) = (event.index.0, event.content_block) else {
            return Err(refuse("a block started without an index or without content"));
        };
        if self.open.contains_key(&index) {
            return Err(refuse(format!("block {index} started twice")));
        }
        self.held.add(held::ENTRY)?;
        let start: Block<'_> = read_part(raw)?;
        let block = self.next_block;
        self.next_block += 1;
        let open = match start.kind.as_str() {
            "text" => {
                push_text(block, start.text, out);
                let citations = start.citations.map(RawValue::get);
                self.held.add(citations.map_or(0, str::len))?;
                let citations = citations.map(serde_json::from_str);
                Open::Text { block, citations: citations.and_then(Result::ok).unwrap_or_default() }
            }
            "thinking" => {
                self.held.add(start.signature.as_str().len())?;
                push_reasoning(block, start.thinking, out);
                Open::Reasoning { block, signature: start.signature.as_str().to_owned() }
            }
            "redacted_thinking" => {
                let meta = meta(read_part(raw)?);
                out.push(StreamEvent::ReasoningDone { block, meta: Some(meta) });
                return Ok(());
            }
            "tool_use" => self.call_start(block, &start, out)?,
            _ => {
                self.held.add(raw.get().len())?;
                Open::Opaque { block, fields: read_part(raw)?, input: String::new() }
            }
        };
        self.open.insert(index, open);
        Ok(())
    }

    fn call_start(
        &mut self,
        block: u32,
        start: &Block<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<Open, LlmError> {
        let Some(name) = start.name.non_empty() else {
            return Err(refuse("a tool call has no name"));
        };
        let call = self.calls;
        self.calls += 1;
        out.push(StreamEvent::ToolStart {
            index: call,
            block,
            id: self.ids.claim(start.id.non_empty()),
            name: name.to_owned(),
        });
        // Normally `{}`; compatible servers put the whole input here and send no deltas.
        let whole = start.input.as_str();
        self.held.add(whole.len())?;
        Ok(Open::Call { call, whole: (!matches!(whole, "" | "{}")).then(|| whole.to_owned()) })
    }

    fn delta(
        &mut self,
        index: Count,
        delta: Object<Box<Delta<'_>>>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let Some(index) = index.0 else {
            return Err(refuse("a block delta has no index"));
        };
        let Some(open) = self.open.get_mut(&index) else {
            return Err(refuse(format!("a delta for block {index} came outside of the block")));
        };
        let Some(delta) = delta.0 else { return Ok(()) };
        match (delta.kind.as_str(), open) {
            ("text_delta", Open::Text { block, .. }) => push_text(*block, delta.text, out),
            ("thinking_delta", Open::Reasoning { block, .. }) => {
                push_reasoning(*block, delta.thinking, out);
            }
            ("signature_delta", Open::Reasoning { signature, .. }) => {
                self.held.add(delta.signature.as_str().len())?;
                signature.push_str(delta.signature.as_str());
            }
            ("input_json_delta", Open::Call { call, whole }) => {
                if let Some(fragment) = delta.partial_json.into_non_empty() {
                    *whole = None;
                    out.push(StreamEvent::ToolDelta { index: *call, fragment });
                }
            }
            ("citations_delta", Open::Text { citations, .. }) => {
                citations.extend(citation(&delta, &mut self.held)?);
            }
            (kind, Open::Opaque { fields, input, .. }) => {
                opaque_delta(kind, &delta, fields, input, &mut self.held)?;
            }
            (
                kind @ ("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta"),
                _,
            ) => return Err(refuse(format!("block {index} cannot take a {kind}"))),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let raw = self.stop_reason.take();
        if raw.is_none() && self.next_block == 0 {
            return Err(LlmError::UnexpectedEof);
        }
        for open in std::mem::take(&mut self.open).into_values() {
            close(open, out);
        }
        let reason = finish_reason(raw.as_deref(), self.calls > 0);
        out.push(StreamEvent::Finish { reason, raw });
        self.finished = true;
        Ok(())
    }
}

/// The canonical reason; an end mark without a reason is a normal end.
/// The server's words about a refusal; details of another kind or shape say nothing.
fn refusal(details: &RawValue) -> Option<StreamEvent> {
    let StopDetails { explanation } = serde_json::from_str(details.get()).ok()?;
    let explanation: String = explanation?.chars().take(MAX_MESSAGE_CHARS).collect();
    (!explanation.is_empty()).then_some(StreamEvent::Refusal { explanation })
}

fn finish_reason(raw: Option<&str>, called: bool) -> FinishReason {
    match raw {
        // Without a call there is nothing to wait for, and asking again would loop.
        Some("tool_use") | None if called => FinishReason::ToolUse,
        Some("end_turn" | "tool_use") | None => FinishReason::EndTurn,
        Some("max_tokens") => FinishReason::MaxTokens,
        Some("stop_sequence") => FinishReason::StopSequence,
        Some("pause_turn" | "compaction") => FinishReason::PauseTurn,
        Some("refusal") => FinishReason::Refusal,
        Some("model_context_window_exceeded") => FinishReason::ContextWindow,
        Some(other) => FinishReason::Other(other.to_owned()),
    }
}

/// Emits what a block kept back until its end.
fn close(open: Open, out: &mut Vec<StreamEvent>) {
    match open {
        Open::Text { block, citations } => {
            if !citations.is_empty() {
                let meta = meta(json!({ "citations": citations }));
                out.push(StreamEvent::TextMeta { block, meta });
            }
        }
        Open::Reasoning { block, signature } => {
            let meta = (!signature.is_empty())
                .then(|| meta(json!({ "type": "thinking", "signature": signature })));
            out.push(StreamEvent::ReasoningDone { block, meta });
        }
        Open::Call { call, whole } => {
            if let Some(fragment) = whole {
                out.push(StreamEvent::ToolDelta { index: call, fragment });
            }
        }
        Open::Opaque { block, mut fields, input } => {
            if let Ok(input @ Value::Object(_)) = serde_json::from_str(&input) {
                fields.insert("input".to_owned(), input);
            }
            out.push(StreamEvent::Opaque { block, meta: meta(Value::Object(fields)) });
        }
    }
}

/// Adds a delta to a block that is kept verbatim; unknown kinds are ignored.
fn opaque_delta(
    kind: &str,
    delta: &Delta<'_>,
    fields: &mut Map<String, Value>,
    input: &mut String,
    held: &mut Held,
) -> Result<(), LlmError> {
    let (field, text) = match kind {
        "input_json_delta" => {
            held.add(delta.partial_json.as_str().len())?;
            input.push_str(delta.partial_json.as_str());
            return Ok(());
        }
        "citations_delta" => {
            let Some(citation) = citation(delta, held)? else { return Ok(()) };
            match fields.entry("citations").or_insert(Value::Null) {
                Value::Array(citations) => citations.push(citation),
                empty => *empty = Value::Array(vec![citation]),
            }
            return Ok(());
        }
        "compaction_delta" => ("content", &delta.content),
        "text_delta" => ("text", &delta.text),
        _ => return Ok(()),
    };
    held.add(text.as_str().len())?;
    match fields.entry(field).or_insert(Value::Null) {
        Value::String(known) => known.push_str(text.as_str()),
        empty => *empty = Value::String(text.as_str().to_owned()),
    }
    Ok(())
}

fn citation(delta: &Delta<'_>, held: &mut Held) -> Result<Option<Value>, LlmError> {
    let Some(raw) = delta.citation else { return Ok(None) };
    held.add(raw.get().len())?;
    read_part(raw).map(Some)
}

fn push_text(block: u32, text: Text<'_>, out: &mut Vec<StreamEvent>) {
    if let Some(text) = text.into_non_empty() {
        out.push(StreamEvent::Text { block, text });
    }
}

fn push_reasoning(block: u32, text: Text<'_>, out: &mut Vec<StreamEvent>) {
    if let Some(text) = text.into_non_empty() {
        out.push(StreamEvent::Reasoning { block, text });
    }
}

fn meta(data: Value) -> ProviderMeta {
    ProviderMeta { provider: DIALECT.to_owned(), data }
}

fn refuse(what: impl Into<String>) -> LlmError {
    LlmError::Decode(what.into())
}

#[cfg(test)]
mod tests;
