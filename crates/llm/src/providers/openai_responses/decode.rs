//! Server-sent events of the Responses protocol to stream events; pure.
//!
//! What travels as [`ProviderMeta`] with provider [`DIALECT`]:
//! - a reasoning block: the whole item as it must be sent back;
//! - a text block: `{"id": …, "phase": …, "refusal": true}`, each only where it was told. Blocks of
//!   one message have one id;
//! - a call: `{"id": …}`, the item's id, which is not the id of the call;
//! - an opaque block: the whole item as it must be sent back.

mod event;
mod item;
mod items;

use std::mem;

use serde_json::Value;
use serde_json::value::RawValue;

use self::event::{Ending, Event, Item};
use self::item::{Reasoning, Shown, State, Voice};
use self::items::{Address, Items};
use crate::capability::Dialect;
use crate::error::LlmError;
use crate::providers::call_ids::CallIds;
use crate::providers::fault;
use crate::providers::held::Held;
use crate::providers::loose::{Object, is_told, read_event, read_part};
use crate::sse::SseFrame;
use crate::stream::IdSource;
use crate::stream::{FinishReason, StreamEvent};
use crate::types::ProviderMeta;

/// The name of this wire dialect in [`ProviderMeta::provider`].
pub const DIALECT: &str = Dialect::OpenaiResponses.name();

/// Decodes one answer.
pub struct ResponsesStreamState {
    ids: CallIds,
    items: Items,
    next_block: u32,
    calls: u32,
    refused: bool,
    finished: bool,
    held: Held,
}

impl ResponsesStreamState {
    /// A state for a new answer; `ids` names calls that the server left unnamed.
    pub fn new(ids: IdSource) -> Self {
        Self {
            ids: CallIds::new(ids),
            items: Items::default(),
            next_block: 0,
            calls: 0,
            refused: false,
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
        let (mut event, json) = read_event::<Event<'_>>(data, &mut mended)?;
        let kind = mem::take(&mut event.kind);
        self.apply(kind.non_empty().or(frame.event).unwrap_or_default(), event, json, out)
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream broke off: the protocol's last event did not come.
    pub fn on_end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if self.finished { Ok(()) } else { Err(LlmError::UnexpectedEof) }
    }

    fn apply(
        &mut self,
        kind: &str,
        event: Event<'_>,
        json: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        match kind {
            "response.output_text.delta" => self.say(event, Voice::Text, out),
            "response.refusal.delta" => self.say(event, Voice::Refusal, out),
            "response.reasoning_summary_text.delta" => {
                let paragraph = event.summary_index.0.unwrap_or(0);
                self.reason(event, Shown::Summary(paragraph), out)
            }
            "response.reasoning_text.delta" => self.reason(event, Shown::Text, out),
            "response.function_call_arguments.delta" => self.arguments(event, out),
            "response.function_call_arguments.done" => {
                self.whole_arguments(event, out);
                Ok(())
            }
            "response.output_item.added" => self.added(&event, out),
            "response.output_item.done" => self.done(&event, out),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => self.end(kind, event.response, out),
            "error" => Err(fault::from_json(json)),
            // A gateway's error need not say what kind of event it is.
            "" if event.error.is_some_and(is_told) => Err(fault::from_json(json)),
            _ => Ok(()),
        }
    }

    fn say(
        &mut self,
        mut event: Event<'_>,
        voice: Voice,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let Some((text, position)) = self.take_delta(&mut event, "message")? else {
            return Ok(());
        };
        let State::Message(message) = self.items.state(position) else {
            return Err(misplaced("text"));
        };
        let part = event.content_index.0.unwrap_or(0);
        let block = message.part(part, voice, &mut self.next_block);
        self.refused |= voice == Voice::Refusal;
        out.push(StreamEvent::Text { block, text });
        Ok(())
    }

    fn reason(
        &mut self,
        mut event: Event<'_>,
        now: Shown,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let Some((text, position)) = self.take_delta(&mut event, "reasoning")? else {
            return Ok(());
        };
        let State::Reasoning(reasoning) = self.items.state(position) else {
            return Err(misplaced("reasoning"));
        };
        reasoning.show(now, text, out);
        Ok(())
    }

    fn arguments(
        &mut self,
        mut event: Event<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let Some((fragment, position)) = self.take_delta(&mut event, "function_call")? else {
            return Ok(());
        };
        let State::Call(call) = self.items.state(position) else {
            return Err(misplaced("arguments"));
        };
        if !call.has_started() {
            self.held.add(fragment.len())?;
        }
        call.append(fragment, out);
        Ok(())
    }

    /// Some servers send the arguments in one piece, and only here and with the finished item.
    fn whole_arguments(&mut self, event: Event<'_>, out: &mut Vec<StreamEvent>) {
        if let Some(position) = self.items.find(Address::of(&event))
            && let State::Call(call) = self.items.state(position)
            && call.has_started()
        {
            call.append_if_none(event.arguments.into_string(), out);
        }
    }

    fn added(&mut self, event: &Event<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let Some(raw) = event.item else { return Ok(()) };
        let Object(Some(item)) = read_part::<Object<Item<'_>>>(raw)? else { return Ok(()) };
        let address = Address::of_item(event, &item);
        let kind = item.kind.as_str();
        let position = match self.items.find(address) {
            // A number may be used again once its item is done.
            Some(position) if !self.items.is_done(position) && !address.is_anonymous() => position,
            _ => self.open(address, kind)?,
        };
        self.held.add(address.len() + item.phase.as_str().len())?;
        match (self.items.state(position), kind) {
            (State::Message(message), "message") => message.note(&item),
            (State::Call(call), "function_call") => {
                call.note(&item);
                if let Some(name) = item.name.non_empty() {
                    call.start(name, &mut self.calls, &mut self.ids, out);
                }
            }
            (State::Reasoning(_), "reasoning") => {}
            (State::Opaque(_), kind) if !is_read(kind) => {}
            (_, kind) => return Err(misplaced(kind)),
        }
        Ok(())
    }

    fn done(&mut self, event: &Event<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let Some(raw) = event.item else { return Ok(()) };
        let Object(Some(item)) = read_part::<Object<Item<'_>>>(raw)? else { return Ok(()) };
        let address = Address::of_item(event, &item);
        let kind = item.kind.as_str();
        let position = match self.items.find(address) {
            Some(position) if !self.items.is_done(position) => position,
            Some(position) if self.items.is_same(position, address) => return Ok(()),
            _ => self.open(address, kind)?,
        };
        match (self.items.finish(position), kind) {
            (State::Message(mut message), "message") => {
                message.note(&item);
                self.refused |= message.complete(&item, &mut self.next_block, out);
                message.close(out);
            }
            (State::Reasoning(reasoning), "reasoning") => {
                let meta = Some(state(read_part(raw)?));
                out.push(StreamEvent::ReasoningDone { block: reasoning.block, meta });
            }
            (State::Call(mut call), "function_call") => {
                call.note(&item);
                let name = item.name.non_empty();
                if let Some(name) = name.filter(|_| !call.has_started()) {
                    call.start(name, &mut self.calls, &mut self.ids, out);
                }
                if !call.has_started() {
                    return Err(nameless());
                }
                call.append_if_none(item.arguments.into_string(), out);
                call.close(out);
            }
            (State::Opaque(block), kind) if !is_read(kind) => {
                out.push(StreamEvent::Opaque { block, meta: state(read_part(raw)?) });
            }
            (_, kind) => return Err(misplaced(kind)),
        }
        Ok(())
    }

    /// What an event adds, and the item it adds to, which may not have been announced.
    fn take_delta(
        &mut self,
        event: &mut Event<'_>,
        kind: &str,
    ) -> Result<Option<(String, usize)>, LlmError> {
        let Some(text) = mem::take(&mut event.delta).into_non_empty() else { return Ok(None) };
        let address = Address::of(event);
        let position = match self.items.find(address) {
            Some(position) => position,
            None => self.open(address, kind)?,
        };
        Ok(Some((text, position)))
    }

    fn open(&mut self, address: Address<'_>, kind: &str) -> Result<usize, LlmError> {
        self.held.add(address.len())?;
        let block = take_number(&mut self.next_block);
        Ok(self.items.add(address, State::new(kind, block)))
    }

    fn end(
        &mut self,
        kind: &str,
        response: Option<&RawValue>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let ending: Option<Object<Ending<'_>>> = response.map(read_part).transpose()?;
        let ending = ending.and_then(|ending| ending.0).unwrap_or_default();
        if let Some(counts) = ending.usage.0 {
            out.push(StreamEvent::Usage(counts.into()));
        }
        let told = ending.error.is_some_and(is_told);
        let outcome = match ending.status.as_str() {
            status @ ("incomplete" | "failed" | "cancelled") => status,
            _ => kind.strip_prefix("response.").unwrap_or(kind),
        };
        if told || outcome == "failed" {
            return Err(match response.filter(|_| told) {
                Some(response) => fault::from_json(response.get()),
                None => failed_silently(),
            });
        }
        let details = ending.incomplete_details.0;
        let cause = details.and_then(|details| details.reason.into_non_empty());
        match (outcome, cause) {
            ("completed", _) => self.finish(self.completed(), outcome, out),
            ("incomplete", Some(cause)) => self.finish(incomplete(&cause), &cause, out),
            _ => self.finish(FinishReason::Other(outcome.to_owned()), outcome, out),
        }
    }

    fn completed(&self) -> FinishReason {
        match (self.calls > 0, self.refused) {
            (true, _) => FinishReason::ToolUse,
            (false, true) => FinishReason::Refusal,
            (false, false) => FinishReason::EndTurn,
        }
    }

    fn finish(
        &mut self,
        reason: FinishReason,
        raw: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        for state in self.items.unfinished() {
            match state {
                State::Message(message) => message.close(out),
                // Reasoning that was cut off cannot go back.
                State::Reasoning(Reasoning { block, .. }) => {
                    out.push(StreamEvent::ReasoningDone { block, meta: None });
                }
                State::Call(call) if call.has_started() => call.close(out),
                // In an answer that was cut before the name came, the call would be dropped anyway.
                State::Call(_) if reason == FinishReason::ToolUse => return Err(nameless()),
                State::Call(_) | State::Opaque(_) | State::Done => {}
            }
        }
        out.push(StreamEvent::Finish { reason, raw: Some(raw.to_owned()) });
        self.finished = true;
        Ok(())
    }
}

fn incomplete(cause: &str) -> FinishReason {
    match cause {
        "max_output_tokens" | "max_tokens" | "length" => FinishReason::MaxTokens,
        "content_filter" => FinishReason::Refusal,
        other => FinishReason::Other(other.to_owned()),
    }
}

/// Whether items of this kind are read; all others are kept as they are.
fn is_read(kind: &str) -> bool {
    matches!(kind, "message" | "reasoning" | "function_call")
}

fn state(data: Value) -> ProviderMeta {
    ProviderMeta { provider: DIALECT.to_owned(), data }
}

fn take_number(next: &mut u32) -> u32 {
    let number = *next;
    *next += 1;
    number
}

fn misplaced(what: &str) -> LlmError {
    LlmError::Decode(format!("an output item of another kind, or one that is done, got {what}"))
}

fn nameless() -> LlmError {
    LlmError::Decode("a tool call has no name".to_owned())
}

fn failed_silently() -> LlmError {
    LlmError::Api {
        kind: "failed".to_owned(),
        message: "the server ended the answer and gave no reason".to_owned(),
        status: None,
    }
}

#[cfg(test)]
mod tests;
