//! Server-sent events of Chat Completions servers to stream events; pure.
//!
//! What travels as [`ProviderMeta`](crate::types::ProviderMeta) with provider [`DIALECT`], on a
//! reasoning block: `{"field": …, "reasoning_details": […]}`. `field` names where the text came from
//! and must go back to: `reasoning_content`, `reasoning`, `reasoning_text`, or `content` for
//! Mistral's typed list; it is missing when only the details had text. `reasoning_details` are
//! OpenRouter's entries with their pieces joined, to be sent back as they are; it is missing when
//! there were none.

mod calls;
mod chunk;
mod reasoning;
mod usage;

use serde_json::value::RawValue;

use self::calls::Calls;
use self::chunk::{Chunk, Content, Delta};
use self::reasoning::Reasoning;
use crate::capability::Dialect;
use crate::error::LlmError;
use crate::providers::fault;
use crate::providers::loose::{is_told, read_event};
use crate::sse::SseFrame;
use crate::stream::IdSource;
use crate::stream::{FinishReason, StreamEvent, Usage};

/// The name of this wire dialect in [`ProviderMeta::provider`](crate::types::ProviderMeta::provider).
pub const DIALECT: &str = Dialect::OpenaiChat.name();

/// The end mark of the protocol; several servers never send it.
const DONE: &str = "[DONE]";

/// Decodes one answer.
pub struct ChatStreamState {
    next_block: u32,
    /// The block that text of its kind still goes to.
    current: Current,
    calls: Calls,
    reasoning: Reasoning,
    refused: bool,
    finish_reason: Option<String>,
    native_finish_reason: Option<String>,
    /// The last one alone counts: servers that send several repeat or correct them whole.
    usage: Option<Usage>,
    finished: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Current {
    None,
    Text(u32),
    Reasoning(u32),
}

impl ChatStreamState {
    /// A state for a new answer; `ids` names calls that the server left unnamed.
    pub fn new(ids: IdSource) -> Self {
        Self {
            next_block: 0,
            current: Current::None,
            calls: Calls::new(ids),
            reasoning: Reasoning::default(),
            refused: false,
            finish_reason: None,
            native_finish_reason: None,
            usage: None,
            finished: false,
        }
    }

    /// Whether `Finish` has been emitted: everything after it is ignored.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes the next event and appends what it means to `out`.
    ///
    /// # Errors
    /// `Api` for an error that the server reports, `Decode` for what the protocol does not allow,
    /// `UnexpectedEof` for an end mark after nothing. The answer ends there; what was appended
    /// before is still valid.
    pub fn on_sse(
        &mut self,
        frame: SseFrame<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        if self.finished {
            return Ok(());
        }
        if frame.data.trim() == DONE {
            return self.finish(End::Marked, out);
        }
        let Some(data) = fault::document(&frame)? else { return Ok(()) };
        let mut mended = String::new();
        let (chunk, json) = read_event(data, &mut mended)?;
        self.apply(chunk, json, out)
    }

    /// Ends the stream and emits `Finish` unless the server's own end mark did.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream broke off: neither a finish reason nor the end mark came.
    /// `Api` when the server gave an error as its reason, `Decode` when a call never got its name.
    pub fn on_end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if self.finished { Ok(()) } else { self.finish(End::Closed, out) }
    }

    fn apply(
        &mut self,
        chunk: Chunk<'_>,
        json: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let Chunk { choices, usage, x_groq, error } = chunk;
        let mut counts = usage.0.or_else(|| x_groq.0.and_then(|groq| groq.usage.0));
        if let Some(choice) = choices.0 {
            counts = counts.or(choice.usage.0);
            if let Some(delta) = choice.delta.0 {
                self.delta(*delta, out)?;
            }
            // Neither reason ends the answer: usage, signatures and even text come after them.
            self.finish_reason =
                choice.finish_reason.into_non_empty().or(self.finish_reason.take());
            let native = choice.native_finish_reason.into_non_empty();
            self.native_finish_reason = native.or(self.native_finish_reason.take());
        }
        self.usage = counts.and_then(|counts| counts.usage()).or(self.usage);
        match error {
            Some(error) if is_told(error) => Err(fault::from_json(json)),
            _ => Ok(()),
        }
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let texts = [
            ("reasoning_content", delta.reasoning_content),
            ("reasoning", delta.reasoning),
            ("reasoning_text", delta.reasoning_text),
        ];
        // Hosts send the same text in several fields; the first one that has any is taken.
        let text =
            texts.into_iter().find_map(|(field, text)| Some((field, text.into_non_empty()?)));
        let reasoned = text.is_some();
        if let Some((field, text)) = text {
            self.push_reasoning(Some(field), text, out);
        }
        if let Some(details) = delta.reasoning_details.filter(|details| is_told(details)) {
            self.details(details, reasoned, out)?;
        }
        self.content(delta.content, out);
        if let Some(refusal) = delta.refusal.into_non_empty() {
            self.refused = true;
            self.push_text(refusal, out);
        }
        for call in delta.tool_calls.0.into_iter().filter_map(|call| call.0) {
            let (next_block, current) = (&mut self.next_block, &mut self.current);
            let new_block = || {
                *current = Current::None;
                take_number(next_block)
            };
            self.calls.take(call, new_block, out)?;
        }
        Ok(())
    }

    /// Keeps `reasoning_details` for the replay, and shows their text when no other field had it.
    fn details(
        &mut self,
        details: &RawValue,
        reasoned: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        if !reasoned {
            let text = Reasoning::text_of(details)?;
            if !text.is_empty() {
                self.push_reasoning(None, text, out);
            }
        }
        if self.reasoning.is_empty() {
            // Encrypted reasoning has no text; its block stands where it came.
            self.open_reasoning(None);
        }
        self.reasoning.add_details(details)
    }

    fn content(&mut self, content: Content<'_>, out: &mut Vec<StreamEvent>) {
        let parts = match content {
            Content::Absent => return,
            Content::Text(text) => return self.push_text(text.into_owned(), out),
            Content::Parts(parts) => parts,
        };
        for part in parts.into_iter().filter_map(|part| part.0) {
            match (part.kind.as_str(), part.thinking) {
                ("text", _) => self.push_text(part.text.into_non_empty().unwrap_or_default(), out),
                ("thinking", Content::Text(text)) => {
                    self.push_reasoning(Some("content"), text.into_owned(), out);
                }
                ("thinking", Content::Parts(thoughts)) => {
                    for thought in thoughts.into_iter().filter_map(|thought| thought.0) {
                        let text = thought.text.into_non_empty().unwrap_or_default();
                        self.push_reasoning(Some("content"), text, out);
                    }
                }
                _ => {}
            }
        }
    }

    fn push_text(&mut self, text: String, out: &mut Vec<StreamEvent>) {
        if text.is_empty() {
            return;
        }
        let block = match self.current {
            Current::Text(block) => block,
            _ => take_number(&mut self.next_block),
        };
        self.current = Current::Text(block);
        out.push(StreamEvent::Text { block, text });
    }

    fn push_reasoning(
        &mut self,
        field: Option<&'static str>,
        text: String,
        out: &mut Vec<StreamEvent>,
    ) {
        if text.is_empty() {
            return;
        }
        let block = match self.current {
            Current::Reasoning(block) => {
                self.reasoning.note_field(field);
                block
            }
            _ => self.open_reasoning(field),
        };
        out.push(StreamEvent::Reasoning { block, text });
    }

    fn open_reasoning(&mut self, field: Option<&'static str>) -> u32 {
        let block = take_number(&mut self.next_block);
        self.current = Current::Reasoning(block);
        self.reasoning.open(block, field);
        block
    }

    fn finish(&mut self, end: End, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let raw = self.finish_reason.take();
        if raw.is_none() && (end == End::Closed || self.next_block == 0) {
            return Err(LlmError::UnexpectedEof);
        }
        let reason = self.reason(raw.as_deref())?;
        // In an answer that was cut before the name came, the call would be dropped anyway.
        if self.calls.waits_for_name() && reason == FinishReason::ToolUse {
            return Err(LlmError::Decode("a tool call has no name".to_owned()));
        }
        self.reasoning.finish(out);
        if let Some(usage) = self.usage {
            out.push(StreamEvent::Usage(usage));
        }
        out.push(StreamEvent::Finish { reason, raw });
        self.finished = true;
        Ok(())
    }

    fn reason(&self, raw: Option<&str>) -> Result<FinishReason, LlmError> {
        let called = !self.calls.is_empty();
        let reason = match raw {
            // Whatever else a refusal is called, nothing of it is meant to run.
            Some("stop" | "eos" | "end_turn" | "tool_calls" | "function_call" | "tool_use")
            | None
                if self.refused =>
            {
                FinishReason::Refusal
            }
            // Servers say `stop` after calls, and `tool_calls` without any, which would loop.
            Some("stop" | "eos" | "end_turn" | "tool_calls" | "function_call" | "tool_use")
            | None => {
                if called {
                    FinishReason::ToolUse
                } else {
                    FinishReason::EndTurn
                }
            }
            Some("length" | "max_tokens" | "model_length") => FinishReason::MaxTokens,
            Some("content_filter" | "sensitive" | "refusal") => FinishReason::Refusal,
            Some(error @ ("error" | "insufficient_system_resource" | "network_error")) => {
                return Err(ended_by_error(error));
            }
            Some(other) => FinishReason::Other(other.to_owned()),
        };
        // A gateway may relabel what its upstream said; the upstream knows.
        match (self.native_finish_reason.as_deref(), &reason) {
            (Some(error @ ("error" | "network_error")), _) => Err(ended_by_error(error)),
            (
                Some("length" | "max_tokens" | "max_output_tokens" | "MAX_TOKENS" | "model_length"),
                FinishReason::EndTurn | FinishReason::ToolUse,
            ) => Ok(FinishReason::MaxTokens),
            _ => Ok(reason),
        }
    }
}

/// How the stream ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With the protocol's end mark.
    Marked,
    /// The connection closed.
    Closed,
}

fn ended_by_error(reason: &str) -> LlmError {
    LlmError::Api {
        kind: reason.to_owned(),
        message: format!("the server ended the answer with the reason '{reason}'"),
        status: None,
    }
}

fn take_number(next: &mut u32) -> u32 {
    let number = *next;
    *next += 1;
    number
}

#[cfg(test)]
mod tests;
