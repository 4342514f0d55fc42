//! Server-sent events of Gemini's generateContent to stream events; pure.
//!
//! What travels as [`ProviderMeta`] with provider [`DIALECT`]:
//! - a text or reasoning block: `{"thoughtSignature":"…"}`, the signature of exactly this part. A part
//!   that is signed never shares a block with another, so a signature that comes with an empty text is
//!   an empty block of its own;
//! - a call: the same, with `"id"` where the server gave it one. The id of the block itself may be
//!   made up and means nothing to the server;
//! - an opaque block: the whole part as it must be sent back.
//!
//! Beside a signature or an id stands `"model"`, the model that was asked: signatures hold for their
//! own model only.

mod arguments;
mod chunk;
mod usage;

use serde_json::{Map, Value};

use self::arguments::Arguments;
use self::chunk::{Call, Candidate, Chunk, Flag, Part, PartialArg};
use self::usage::Counts;
use crate::capability::Dialect;
use crate::error::LlmError;
use crate::providers::call_ids::CallIds;
use crate::providers::fault;
use crate::providers::held::Held;
use crate::providers::loose::{is_told, read_event, read_part};
use crate::sse::SseFrame;
use crate::stream::{FinishReason, IdSource, StreamEvent};
use crate::types::ProviderMeta;

/// The name of this wire dialect in [`ProviderMeta::provider`].
pub const DIALECT: &str = Dialect::Gemini.name();

/// Decodes one answer.
pub struct GeminiStreamState {
    ids: CallIds,
    model: Option<String>,
    next_block: u32,
    current: Current,
    calls: u32,
    /// A call whose arguments come in pieces.
    open: Option<OpenCall>,
    end: Option<End>,
    counts: Counts,
    finished: bool,
    held: Held,
}

/// The block that an unsigned part of its kind still goes to.
#[derive(Clone, Copy)]
enum Current {
    None,
    Text(u32),
    Reasoning(u32),
}

struct OpenCall {
    index: u32,
    arguments: Arguments,
    /// What the replay needs so far.
    meta: Map<String, Value>,
}

/// Why the answer ends. The server says it in mid-stream, and may say it twice.
enum End {
    Reason(String),
    PromptBlocked(String),
}

impl GeminiStreamState {
    /// A state for a new answer; `ids` names calls that the server left unnamed.
    pub fn new(ids: IdSource) -> Self {
        Self {
            ids: CallIds::new(ids),
            model: None,
            next_block: 0,
            current: Current::None,
            calls: 0,
            open: None,
            end: None,
            counts: Counts::default(),
            finished: false,
            held: Held::default(),
        }
    }

    /// The same for an answer of `model`, whose signatures no other model takes.
    #[must_use]
    pub fn of_model(mut self, model: &str) -> Self {
        self.model = Some(model.to_owned());
        self
    }

    /// Whether `Finish` has been emitted. The protocol has no end mark, so only
    /// [`on_end`](Self::on_end) emits it.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes the next event and appends what it means to `out`.
    ///
    /// # Errors
    /// `Api` for an error that the server reports and for a sample that failed, `Decode` for what
    /// the protocol does not allow and for the stream of another protocol. The answer ends there;
    /// what was appended before is still valid.
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
        let (chunk, json) = read_event(data, &mut mended)?;
        self.apply(chunk, json, out)
    }

    /// Ends the stream and emits `Finish`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream broke off: no reason for its end came.
    pub fn on_end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if self.finished {
            return Ok(());
        }
        let (reason, raw) = match self.end.take() {
            None => return Err(LlmError::UnexpectedEof),
            Some(End::Reason(raw)) => (finish_reason(&raw, self.calls > 0), raw),
            Some(End::PromptBlocked(why)) => {
                (FinishReason::Refusal, format!("promptFeedback:{why}"))
            }
        };
        self.close_call(out);
        self.leave_block(out);
        out.push(StreamEvent::Finish { reason, raw: Some(raw) });
        self.finished = true;
        Ok(())
    }

    fn apply(
        &mut self,
        chunk: Chunk<'_>,
        json: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        if let Some(event) = chunk.event_type.non_empty() {
            return Err(refuse(format!(
                "it is a stream of the Gemini Interactions API (event {event:?}), which is another \
                 protocol than generateContent"
            )));
        }
        if let Some(counts) = chunk.usage_metadata.0 {
            let known = self.counts;
            self.counts.absorb(*counts);
            if self.counts != known {
                out.push(StreamEvent::Usage(self.counts.usage()));
            }
        }
        if let Some(why) =
            chunk.prompt_feedback.0.and_then(|told| told.block_reason.into_non_empty())
        {
            self.end = Some(End::PromptBlocked(why));
        }
        if let Some(candidate) = chunk.candidates.0 {
            self.candidate(*candidate, out)?;
        }
        match chunk.error {
            Some(error) if is_told(error) => Err(fault::from_json(json)),
            _ => Ok(()),
        }
    }

    fn candidate(
        &mut self,
        candidate: Candidate<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let parts = candidate.content.0.map(|content| content.parts.0).unwrap_or_default();
        for part in parts.into_iter().filter_map(|part| part.0) {
            self.part(part, out)?;
        }
        // It does not end the answer: usage and, with code execution, more parts come after it.
        if let Some(reason) = candidate.finish_reason.into_non_empty() {
            if let Some(error) = failed_sample(&reason, candidate.finish_message.non_empty()) {
                return Err(error);
            }
            self.close_call(out);
            self.end = Some(End::Reason(reason));
        }
        Ok(())
    }

    fn part(&mut self, part: Part<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if let Some(call) = part.call.0 {
            return self.call(&call, part.signature.into_non_empty(), out);
        }
        if part.text.0.is_none() && !part.other.is_empty() {
            return self.opaque(part, out);
        }
        let signature = part.signature.into_non_empty();
        match (part.text.into_non_empty(), signature) {
            (text, Some(signature)) => {
                self.signed_text(part.thought, text, signature, out)?;
            }
            (Some(text), None) if part.thought => {
                let block = match self.current {
                    Current::Reasoning(block) => block,
                    _ => self.new_block(out),
                };
                self.current = Current::Reasoning(block);
                out.push(StreamEvent::Reasoning { block, text });
            }
            (Some(text), None) => {
                let block = match self.current {
                    Current::Text(block) => block,
                    _ => self.new_block(out),
                };
                self.current = Current::Text(block);
                out.push(StreamEvent::Text { block, text });
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// A signed part has a block to itself: joined with another, its signature would be refused.
    fn signed_text(
        &mut self,
        thought: bool,
        text: Option<String>,
        signature: String,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        self.held.add(signature.len())?;
        let block = self.new_block(out);
        let mut data = Map::new();
        data.insert("thoughtSignature".to_owned(), signature.into());
        let meta = self.meta(data);
        if thought {
            out.extend(text.map(|text| StreamEvent::Reasoning { block, text }));
            out.push(StreamEvent::ReasoningDone { block, meta: Some(meta) });
        } else {
            out.extend(text.map(|text| StreamEvent::Text { block, text }));
            out.push(StreamEvent::TextMeta { block, meta });
        }
        Ok(())
    }

    fn call(
        &mut self,
        call: &Call<'_>,
        signature: Option<String>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        self.held.add(signature.as_ref().map_or(0, String::len))?;
        if let Some(name) = call.name.non_empty() {
            self.close_call(out);
            let index = self.calls;
            self.calls += 1;
            let block = self.new_block(out);
            let id = self.ids.claim(call.id.non_empty());
            out.push(StreamEvent::ToolStart { index, block, id, name: name.to_owned() });
            if !call.is_streamed() {
                let fragment = call.args.map_or("{}", |args| args.get()).to_owned();
                out.push(StreamEvent::ToolDelta { index, fragment });
                let meta = call_meta(call, signature);
                self.push_call_meta(index, meta, out);
                return Ok(());
            }
            let arguments = Arguments::new(call.args, &mut self.held)?;
            self.open = Some(OpenCall { index, arguments, meta: call_meta(call, None) });
        }
        self.piece(call, signature, out)
    }

    /// A piece of the call that is open.
    fn piece(
        &mut self,
        call: &Call<'_>,
        signature: Option<String>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let Some(open) = &mut self.open else {
            // The mark that closes a call may follow something that has closed it.
            return match call.is_streamed() || call.args.is_some() {
                true => Err(refuse("a function call has no name")),
                false => Ok(()),
            };
        };
        for piece in call.partial_args.0.iter().filter_map(|piece| piece.0.as_ref()) {
            open.arguments.put(piece, &mut self.held)?;
        }
        if let Some(signature) = signature {
            open.meta.insert("thoughtSignature".to_owned(), signature.into());
        }
        if !call.goes_on() {
            self.close_call(out);
        }
        Ok(())
    }

    fn close_call(&mut self, out: &mut Vec<StreamEvent>) {
        if let Some(OpenCall { index, arguments, meta }) = self.open.take() {
            out.push(StreamEvent::ToolDelta { index, fragment: arguments.into_json() });
            self.push_call_meta(index, meta, out);
        }
    }

    fn push_call_meta(&self, index: u32, meta: Map<String, Value>, out: &mut Vec<StreamEvent>) {
        // The model alone is worth keeping too: it tells an unsigned call of its own from a
        // stranger's.
        if !meta.is_empty() || self.model.is_some() {
            out.push(StreamEvent::ToolMeta { index, meta: self.meta(meta) });
        }
    }

    /// A part that only the server understands.
    fn opaque(&mut self, part: Part<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let block = self.new_block(out);
        let mut data = Map::new();
        for (name, raw) in part.other {
            self.held.add(name.len() + raw.get().len())?;
            data.insert(name.into_owned(), read_part(raw)?);
        }
        if part.thought {
            data.insert("thought".to_owned(), true.into());
        }
        if let Some(signature) = part.signature.into_non_empty() {
            self.held.add(signature.len())?;
            data.insert("thoughtSignature".to_owned(), signature.into());
        }
        let meta = ProviderMeta { provider: DIALECT.to_owned(), data: Value::Object(data) };
        out.push(StreamEvent::Opaque { block, meta });
        Ok(())
    }

    fn new_block(&mut self, out: &mut Vec<StreamEvent>) -> u32 {
        self.leave_block(out);
        let block = self.next_block;
        self.next_block += 1;
        block
    }

    fn leave_block(&mut self, out: &mut Vec<StreamEvent>) {
        if let Current::Reasoning(block) = std::mem::replace(&mut self.current, Current::None) {
            out.push(StreamEvent::ReasoningDone { block, meta: None });
        }
    }

    fn meta(&self, mut data: Map<String, Value>) -> ProviderMeta {
        if let Some(model) = &self.model {
            data.insert("model".to_owned(), model.as_str().into());
        }
        ProviderMeta { provider: DIALECT.to_owned(), data: Value::Object(data) }
    }
}

impl Call<'_> {
    /// Whether the arguments come in pieces.
    fn is_streamed(&self) -> bool {
        self.will_continue.0 || !self.partial_args.0.is_empty()
    }

    /// Whether more pieces follow.
    fn goes_on(&self) -> bool {
        let unfinished =
            |piece: &_| matches!(piece, Some(PartialArg { will_continue: Flag(true), .. }));
        self.will_continue.0 || self.partial_args.0.iter().any(|piece| unfinished(&piece.0))
    }
}

fn call_meta(call: &Call<'_>, signature: Option<String>) -> Map<String, Value> {
    let id = call.id.non_empty().map(|id| ("id".to_owned(), id.into()));
    let signature = signature.map(|signature| ("thoughtSignature".to_owned(), signature.into()));
    signature.into_iter().chain(id).collect()
}

fn finish_reason(raw: &str, called: bool) -> FinishReason {
    match raw {
        // The service knows only the first; servers that imitate it have a word of their own.
        "STOP" | "FUNCTION_CALL" if called => FinishReason::ToolUse,
        "STOP" | "FUNCTION_CALL" => FinishReason::EndTurn,
        "MAX_TOKENS" => FinishReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => FinishReason::Refusal,
        other => FinishReason::Other(other.to_owned()),
    }
}

/// The error behind a reason that says the model or the request went wrong.
fn failed_sample(reason: &str, message: Option<&str>) -> Option<LlmError> {
    let ours = match reason {
        "MALFORMED_FUNCTION_CALL" => "the model wrote a call that its server could not read",
        "UNEXPECTED_TOOL_CALL" => "the model called a tool that it was not offered",
        "TOO_MANY_TOOL_CALLS" => "the model called too many tools in a row",
        "MALFORMED_RESPONSE" => "the model wrote an answer that its server could not read",
        "MISSING_THOUGHT_SIGNATURE" => "a call in the request lacks the signature it came with",
        _ => return None,
    };
    let message = message.unwrap_or(ours).to_owned();
    Some(LlmError::Api { kind: reason.to_lowercase(), message, status: None })
}

fn refuse(what: impl Into<String>) -> LlmError {
    LlmError::Decode(what.into())
}

#[cfg(test)]
mod tests;
