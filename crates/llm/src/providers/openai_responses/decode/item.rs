//! What is known about one output item of a Responses stream, and what of it is emitted when; pure.

use std::collections::BTreeMap;
use std::mem;

use serde_json::{Map, Value};

use super::event::Item;
use super::{state, take_number};
use crate::providers::call_ids::CallIds;
use crate::providers::loose::{Object, Text};
use crate::stream::StreamEvent;

/// One output item, by its kind.
pub(super) enum State {
    Message(Message),
    Reasoning(Reasoning),
    Call(Call),
    /// Kept verbatim once it is done.
    Opaque(u32),
    Done,
}

impl State {
    pub(super) fn new(kind: &str, block: u32) -> Self {
        match kind {
            "message" => {
                Self::Message(Message { block, parts: BTreeMap::new(), id: None, phase: None })
            }
            "reasoning" => Self::Reasoning(Reasoning { block, shown: None }),
            "function_call" => Self::Call(Call::new(block)),
            _ => Self::Opaque(block),
        }
    }
}

/// Whether a part of a message is what was asked for or why it is not given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    Text,
    Refusal,
}

/// A message: a text block for each part that says something.
pub(super) struct Message {
    /// The block of its first part; the others are numbered as they appear.
    block: u32,
    /// By the wire's own number of the part.
    parts: BTreeMap<u64, (u32, Voice)>,
    id: Option<String>,
    phase: Option<String>,
}

impl Message {
    /// Takes what an event tells about the message; later ones know better.
    pub(super) fn note(&mut self, item: &Item<'_>) {
        note(&mut self.id, &item.id);
        note(&mut self.phase, &item.phase);
    }

    /// The block of a part.
    pub(super) fn part(&mut self, part: u64, voice: Voice, next_block: &mut u32) -> u32 {
        if let Some((block, _)) = self.parts.get(&part) {
            return *block;
        }
        let block = if self.parts.is_empty() { self.block } else { take_number(next_block) };
        self.parts.insert(part, (block, voice));
        block
    }

    /// Emits the text of the finished item where none was streamed, and says whether that was a
    /// refusal.
    pub(super) fn complete(
        &mut self,
        item: &Item<'_>,
        next_block: &mut u32,
        out: &mut Vec<StreamEvent>,
    ) -> bool {
        let mut refused = false;
        if !self.parts.is_empty() {
            return refused;
        }
        for (number, part) in (0..).zip(&item.content.0) {
            let Object(Some(part)) = part else { continue };
            let (voice, text) = match (part.text.non_empty(), part.refusal.non_empty()) {
                (Some(text), _) => (Voice::Text, text),
                (None, Some(text)) => (Voice::Refusal, text),
                (None, None) => continue,
            };
            refused |= voice == Voice::Refusal;
            let block = self.part(number, voice, next_block);
            out.push(StreamEvent::Text { block, text: text.to_owned() });
        }
        refused
    }

    /// Emits the state of every part.
    pub(super) fn close(self, out: &mut Vec<StreamEvent>) {
        for (block, voice) in self.parts.into_values() {
            let told = [
                ("id", self.id.clone().map(Value::from)),
                ("phase", self.phase.clone().map(Value::from)),
                ("refusal", (voice == Voice::Refusal).then_some(Value::Bool(true))),
            ];
            if let Some(data) = object(told) {
                out.push(StreamEvent::TextMeta { block, meta: state(data) });
            }
        }
    }
}

/// What of the reasoning is shown: servers may stream it and sum it up besides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Paragraphs of a summary, and the number of the last one.
    Summary(u64),
    /// The reasoning itself.
    Text,
}

pub(super) struct Reasoning {
    pub(super) block: u32,
    shown: Option<Shown>,
}

impl Reasoning {
    /// Emits a piece, unless the other form of the same reasoning is being shown.
    pub(super) fn show(&mut self, now: Shown, mut text: String, out: &mut Vec<StreamEvent>) {
        match (self.shown, now) {
            (Some(Shown::Text), Shown::Summary(_)) | (Some(Shown::Summary(_)), Shown::Text) => {
                return;
            }
            (Some(Shown::Summary(last)), Shown::Summary(paragraph)) if last != paragraph => {
                text.insert_str(0, "\n\n");
            }
            _ => {}
        }
        self.shown = Some(now);
        out.push(StreamEvent::Reasoning { block: self.block, text });
    }
}

pub(super) struct Call {
    block: u32,
    /// Its number among the calls, once it has started.
    index: Option<u32>,
    id: Option<String>,
    call_id: Option<String>,
    /// Whether any of its arguments came.
    told: bool,
    /// Arguments that came before its name.
    waiting: String,
}

impl Call {
    fn new(block: u32) -> Self {
        let waiting = String::new();
        Self { block, index: None, id: None, call_id: None, told: false, waiting }
    }

    /// Takes what an event tells about the call; later ones know better, but a call that has started
    /// keeps its id.
    pub(super) fn note(&mut self, item: &Item<'_>) {
        note(&mut self.id, &item.id);
        note(&mut self.call_id, &item.call_id);
    }

    pub(super) fn has_started(&self) -> bool {
        self.index.is_some()
    }

    /// Starts the call under its name, once.
    pub(super) fn start(
        &mut self,
        name: &str,
        calls: &mut u32,
        ids: &mut CallIds,
        out: &mut Vec<StreamEvent>,
    ) {
        if self.has_started() {
            return;
        }
        let index = take_number(calls);
        self.index = Some(index);
        let (block, id) = (self.block, ids.claim(self.call_id.as_deref()));
        out.push(StreamEvent::ToolStart { index, block, id, name: name.to_owned() });
        let waiting = mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            out.push(StreamEvent::ToolDelta { index, fragment: waiting });
        }
    }

    /// Emits a piece of the arguments, or keeps it until the call starts.
    pub(super) fn append(&mut self, fragment: String, out: &mut Vec<StreamEvent>) {
        self.told = true;
        match self.index {
            Some(index) => out.push(StreamEvent::ToolDelta { index, fragment }),
            None => self.waiting.push_str(&fragment),
        }
    }

    /// The arguments in one piece, for a server that sends no pieces.
    pub(super) fn append_if_none(&mut self, arguments: String, out: &mut Vec<StreamEvent>) {
        if !self.told && !arguments.is_empty() {
            self.append(arguments, out);
        }
    }

    /// Emits the call's state.
    pub(super) fn close(self, out: &mut Vec<StreamEvent>) {
        if let (Some(index), Some(data)) = (self.index, object([("id", self.id.map(Value::from))]))
        {
            out.push(StreamEvent::ToolMeta { index, meta: state(data) });
        }
    }
}

fn note(known: &mut Option<String>, told: &Text<'_>) {
    if let Some(told) = told.non_empty() {
        *known = Some(told.to_owned());
    }
}

/// The fields that were told, or `None` when none was.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Option<Value> {
    let told = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let told: Map<String, Value> = told.collect();
    (!told.is_empty()).then_some(Value::Object(told))
}
