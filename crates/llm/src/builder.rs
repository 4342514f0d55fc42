//! Turns stream events into a completion and refuses impossible orders.
//!
//! Everything a model says is provisional until its answer is whole: a [`Completion`] holds what the
//! stream said, [`Completion::commit`] what of it may enter the transcript.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::LlmError;
use crate::stream::{FinishReason, StreamEvent, Usage};
use crate::types::{ContentBlock, Message, ProviderMeta, Role};

/// An answer as the stream told it, calls included whose arguments were cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The content in the order of its block numbers.
    pub blocks: Vec<ContentBlock>,
    /// Why the answer ended.
    pub finish: FinishReason,
    /// The server's own word for that.
    pub raw: Option<String>,
    /// Why the answer was refused, in the server's words, if it told.
    pub explanation: Option<String>,
    /// The last told token counts.
    pub usage: Usage,
}

impl Completion {
    /// The message that may enter the transcript, or `None` when nothing is left of it.
    ///
    /// After any finish but [`FinishReason::ToolUse`] it has no calls: a refused, truncated or
    /// paused answer never meant them to run, however complete they look.
    pub fn commit(self) -> Option<Message> {
        let mut blocks = self.blocks;
        if self.finish != FinishReason::ToolUse {
            blocks.retain(|block| !matches!(block, ContentBlock::ToolCall { .. }));
        }
        if blocks.is_empty() { None } else { Some(Message::new(Role::Assistant, blocks)) }
    }
}

/// The default bound of one answer: far above any model's output limit, far below a machine's memory.
const MAX_BYTES: usize = 64 << 20;

/// What an empty block is counted as, so that their number is bounded too.
const BLOCK_BYTES: usize = 128;

/// Collects the events of one answer.
///
/// After an error the answer is lost: the builder must not be used on.
#[derive(Debug)]
pub struct MessageBuilder {
    slots: Vec<Slot>,
    /// Block number → position in `slots`. A map, because a number says nothing about how many
    /// blocks there are.
    by_block: BTreeMap<u32, usize>,
    /// Call index → position in `slots`.
    by_call: BTreeMap<u32, usize>,
    /// The block of the last event, which most often is the block of the next one.
    last: Option<(u32, usize)>,
    usage: Usage,
    explanation: Option<String>,
    finish: Option<(FinishReason, Option<String>)>,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct Slot {
    block: u32,
    content: Content,
    meta: Option<ProviderMeta>,
}

#[derive(Debug)]
enum Content {
    Text(String),
    Reasoning { text: String, ended: bool },
    Call { id: String, name: String, arguments: String },
    Opaque,
}

impl Content {
    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Reasoning { .. } => "reasoning",
            Self::Call { .. } => "tool call",
            Self::Opaque => "opaque",
        }
    }
}

impl Default for MessageBuilder {
    fn default() -> Self {
        Self::with_limit(MAX_BYTES)
    }
}

impl MessageBuilder {
    /// A builder that refuses an answer of more than `max_bytes` of text, arguments and state.
    pub fn with_limit(max_bytes: usize) -> Self {
        Self {
            slots: Vec::new(),
            by_block: BTreeMap::new(),
            by_call: BTreeMap::new(),
            last: None,
            usage: Usage::default(),
            explanation: None,
            finish: None,
            bytes: 0,
            max_bytes,
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// `Decode` for an order that no answer can have (anything after `Finish`, a delta before its
    /// start, a block that changes its kind, a second start that differs from the first) and for an
    /// answer that outgrew the limit.
    pub fn push(&mut self, event: &StreamEvent) -> Result<(), LlmError> {
        if self.finish.is_some() && !matches!(event, StreamEvent::Phase(_)) {
            return Err(refuse("an event came after the answer had finished"));
        }
        match event {
            StreamEvent::Text { block, text } => self.text(*block, text),
            StreamEvent::Reasoning { block, text } => self.reasoning(*block, text),
            StreamEvent::ReasoningDone { block, meta } => {
                self.reasoning_done(*block, meta.as_ref())
            }
            StreamEvent::ToolStart { index, block, id, name } => {
                self.tool_start(*index, *block, id, name)
            }
            StreamEvent::ToolDelta { index, fragment } => self.tool_delta(*index, fragment),
            StreamEvent::TextMeta { block, meta } => self.text_meta(*block, meta),
            StreamEvent::ToolMeta { index, meta } => self.tool_meta(*index, meta),
            StreamEvent::Opaque { block, meta } => self.opaque(*block, meta),
            StreamEvent::Refusal { explanation } => {
                self.grow(explanation.len())?;
                self.explanation = Some(explanation.clone());
                Ok(())
            }
            StreamEvent::Usage(usage) => {
                self.usage.absorb(usage);
                Ok(())
            }
            StreamEvent::Finish { reason, raw } => {
                self.finish = Some((reason.clone(), raw.clone()));
                Ok(())
            }
            StreamEvent::Phase(_) => Ok(()),
        }
    }

    /// The token counts so far.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The whole answer.
    ///
    /// # Errors
    /// `UnexpectedEof` when no `Finish` came.
    pub fn finish(mut self) -> Result<Completion, LlmError> {
        let (finish, raw) = self.finish.take().ok_or(LlmError::UnexpectedEof)?;
        let (usage, explanation) = (self.usage, self.explanation.take());
        Ok(Completion { blocks: self.into_blocks(), finish, raw, explanation, usage })
    }

    /// What has arrived so far, for showing a broken answer; none of it may be committed.
    pub fn into_blocks(mut self) -> Vec<ContentBlock> {
        // A call that waited for its name starts late, but its block number is from its first sight.
        self.slots.sort_by_key(|slot| slot.block);
        self.slots.into_iter().filter_map(Slot::into_block).collect()
    }

    fn text(&mut self, block: u32, text: &str) -> Result<(), LlmError> {
        self.grow(text.len())?;
        match &mut self.slot(block, || Content::Text(String::new()))?.content {
            Content::Text(known) => {
                known.push_str(text);
                Ok(())
            }
            other => Err(mixed(block, other, "text")),
        }
    }

    fn reasoning(&mut self, block: u32, text: &str) -> Result<(), LlmError> {
        self.grow(text.len())?;
        match &mut self.slot(block, new_reasoning)?.content {
            Content::Reasoning { ended: true, .. } => {
                Err(refuse(format!("reasoning block {block} went on after its end")))
            }
            Content::Reasoning { text: known, .. } => {
                known.push_str(text);
                Ok(())
            }
            other => Err(mixed(block, other, "reasoning")),
        }
    }

    fn reasoning_done(&mut self, block: u32, meta: Option<&ProviderMeta>) -> Result<(), LlmError> {
        self.grow(meta.map_or(0, meta_bytes))?;
        let slot = self.slot(block, new_reasoning)?;
        match &mut slot.content {
            Content::Reasoning { ended: true, .. } => {
                Err(refuse(format!("reasoning block {block} ended twice")))
            }
            Content::Reasoning { ended, .. } => {
                *ended = true;
                slot.meta = meta.cloned();
                Ok(())
            }
            other => Err(mixed(block, other, "reasoning")),
        }
    }

    fn tool_start(&mut self, index: u32, block: u32, id: &str, name: &str) -> Result<(), LlmError> {
        if let Some(&position) = self.by_call.get(&index) {
            return self.slots[position].repeats_start(index, block, id, name);
        }
        if id.is_empty() || name.is_empty() {
            return Err(refuse(format!("tool call {index} started without an id or a name")));
        }
        if let Some(&position) = self.by_block.get(&block) {
            return Err(mixed(block, &self.slots[position].content, "tool call"));
        }
        self.grow(id.len() + name.len())?;
        let call =
            Content::Call { id: id.to_owned(), name: name.to_owned(), arguments: String::new() };
        self.by_call.insert(index, self.slots.len());
        self.slot(block, || call)?;
        Ok(())
    }

    fn tool_delta(&mut self, index: u32, fragment: &str) -> Result<(), LlmError> {
        self.grow(fragment.len())?;
        match self.call(index).map(|slot| &mut slot.content) {
            Some(Content::Call { arguments, .. }) => {
                arguments.push_str(fragment);
                Ok(())
            }
            _ => Err(refuse(format!("arguments for tool call {index} came before its start"))),
        }
    }

    fn text_meta(&mut self, block: u32, meta: &ProviderMeta) -> Result<(), LlmError> {
        self.grow(meta_bytes(meta))?;
        let slot = self.slot(block, || Content::Text(String::new()))?;
        match &slot.content {
            Content::Text(_) => {
                slot.meta = Some(meta.clone());
                Ok(())
            }
            other => Err(mixed(block, other, "text")),
        }
    }

    fn tool_meta(&mut self, index: u32, meta: &ProviderMeta) -> Result<(), LlmError> {
        self.grow(meta_bytes(meta))?;
        match self.call(index) {
            Some(slot) => {
                slot.meta = Some(meta.clone());
                Ok(())
            }
            None => Err(refuse(format!("state of tool call {index} came before its start"))),
        }
    }

    fn opaque(&mut self, block: u32, meta: &ProviderMeta) -> Result<(), LlmError> {
        if let Some(&position) = self.by_block.get(&block) {
            return Err(mixed(block, &self.slots[position].content, "opaque"));
        }
        self.grow(meta_bytes(meta))?;
        self.slot(block, || Content::Opaque)?.meta = Some(meta.clone());
        Ok(())
    }

    /// The slot of `block`, made by `content` on first use.
    fn slot(
        &mut self,
        block: u32,
        content: impl FnOnce() -> Content,
    ) -> Result<&mut Slot, LlmError> {
        let position = match self.last {
            Some((last, position)) if last == block => position,
            _ => match self.by_block.get(&block) {
                Some(&position) => position,
                None => {
                    self.grow(BLOCK_BYTES)?;
                    self.by_block.insert(block, self.slots.len());
                    self.slots.push(Slot { block, content: content(), meta: None });
                    self.slots.len() - 1
                }
            },
        };
        self.last = Some((block, position));
        Ok(&mut self.slots[position])
    }

    fn call(&mut self, index: u32) -> Option<&mut Slot> {
        self.by_call.get(&index).map(|&position| &mut self.slots[position])
    }

    fn grow(&mut self, bytes: usize) -> Result<(), LlmError> {
        self.bytes += bytes;
        if self.bytes > self.max_bytes {
            return Err(refuse(format!("the answer is larger than {} bytes", self.max_bytes)));
        }
        Ok(())
    }
}

impl Slot {
    /// Accepts a start that says the same again.
    fn repeats_start(&self, index: u32, block: u32, id: &str, name: &str) -> Result<(), LlmError> {
        match &self.content {
            Content::Call { id: known_id, name: known_name, .. }
                if self.block == block && known_id == id && known_name == name =>
            {
                Ok(())
            }
            _ => {
                Err(refuse(format!("tool call {index} started twice, the second time as '{name}'")))
            }
        }
    }

    /// The finished block; `None` for text and reasoning that never got any content.
    fn into_block(self) -> Option<ContentBlock> {
        let meta = self.meta;
        match self.content {
            Content::Text(text) => {
                (!text.is_empty() || meta.is_some()).then_some(ContentBlock::Text { text, meta })
            }
            Content::Reasoning { text, .. } => (!text.is_empty() || meta.is_some())
                .then_some(ContentBlock::Reasoning { text, meta }),
            Content::Call { id, name, arguments } => {
                let arguments = parse_arguments(arguments);
                Some(ContentBlock::ToolCall { id, name, arguments, meta })
            }
            Content::Opaque => meta.map(|meta| ContentBlock::Opaque { meta }),
        }
    }
}

/// A JSON object, `{}` for no text at all, or the raw text as a string when it is anything else.
fn parse_arguments(raw: String) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(&raw) {
        Ok(Value::Object(object)) => Value::Object(object),
        Ok(_) | Err(_) => Value::String(raw),
    }
}

fn new_reasoning() -> Content {
    Content::Reasoning { text: String::new(), ended: false }
}

/// Roughly what a piece of state holds in memory.
fn meta_bytes(meta: &ProviderMeta) -> usize {
    meta.provider.len() + value_bytes(&meta.data)
}

fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(value_bytes).sum(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| key.len() + value_bytes(value)).sum()
            }
        }
}

fn mixed(block: u32, known: &Content, new: &str) -> LlmError {
    refuse(format!("block {block} holds {} content and cannot take {new} content", known.kind()))
}

fn refuse(what: impl Into<String>) -> LlmError {
    LlmError::Decode(what.into())
}

#[cfg(test)]
mod tests;
