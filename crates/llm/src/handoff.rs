//! What another model is sent of a dialogue that it did not begin.
//!
//! State that a model made for itself stays with it: sealed reasoning of another organisation or
//! model is refused at best and misread at worst. Without it a dialogue is legal almost everywhere.
//! The exception are models that refuse to go on with calls which they did not think about; the calls
//! of the step that waits for an answer are told them in words. Older calls stay calls, because a
//! model that reads its own calls as words begins to write words. Nothing that is stored changes.

use std::sync::Arc;

use crate::capability::{Dialect, Target, ThinkingStyle};
use crate::providers::thinking;
use crate::types::{ChatRequest, ContentBlock, Message, Role};

/// The model that is to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// What its own messages are marked with ([`Message::by`]).
    pub author: String,
    /// The dialect that it is spoken to in.
    pub dialect: Dialect,
    /// What its requests may hold.
    pub target: Target,
}

/// A dialogue as one model is sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct Handoff {
    /// The messages, as legal as they were. Those that need no change are shared.
    pub messages: Vec<Arc<Message>>,
    /// How many calls are told in words; with none the dialogue is replayed as it is.
    pub calls_told: usize,
}

/// Stands where the message of another model held nothing but calls.
const CALLED: &str = "(The model before you called tools here.)";

/// The messages of `req` for `reader`, who may ask for the depth of thought in `req`.
pub fn prepare(req: &ChatRequest, reader: &Reader) -> Handoff {
    let refuses = refuses_foreign_calls(req, reader.target);
    let open = if refuses { open_chain(&req.messages) } else { req.messages.len() };
    let mut messages = Vec::with_capacity(req.messages.len());
    let mut calls_told = 0;
    let mut told: Vec<Called<'_>> = Vec::new();
    for (at, message) in req.messages.iter().enumerate() {
        messages.push(match message.role() {
            Role::Assistant if is_own(message, reader) => {
                told.clear();
                Arc::clone(message)
            }
            Role::Assistant if at >= open && message.tool_calls().next().is_some() => {
                told = called(message);
                calls_told += told.len();
                Arc::new(words_of(message))
            }
            Role::Assistant => {
                told.clear();
                without_state(message)
            }
            Role::User if told.is_empty() => Arc::clone(message),
            Role::User => Arc::new(answers(message, &told)),
        });
    }
    Handoff { messages, calls_told }
}

/// Whether a call of another model would make this one refuse the request.
fn refuses_foreign_calls(req: &ChatRequest, target: Target) -> bool {
    let thinks = || thinking::depth(req, target).is_some_and(|depth| !depth.off);
    // Models with a budget mind only while they think.
    !target.foreign_calls && (target.thinking != ThinkingStyle::Budget || thinks())
}

/// Where the steps begin that the next answer belongs to: behind the last prompt that answers no
/// call. At the end when there is none.
fn open_chain(messages: &[Arc<Message>]) -> usize {
    let has_results = |message: &Message| {
        message.content().iter().any(|block| matches!(block, ContentBlock::ToolResult { .. }))
    };
    if messages.last().is_none_or(|last| !has_results(last)) {
        return messages.len();
    }
    let is_prompt = |message: &Arc<Message>| message.role() == Role::User && !has_results(message);
    messages.iter().rposition(is_prompt).map_or(0, |at| at + 1)
}

/// Whether the reader said it. A message without an author, from before there were any, is judged by
/// the dialect of the state in it.
fn is_own(message: &Message, reader: &Reader) -> bool {
    match message.author() {
        Some(author) => author == reader.author,
        None => message.content().iter().all(|block| match block {
            ContentBlock::Text { meta, .. }
            | ContentBlock::Reasoning { meta, .. }
            | ContentBlock::ToolCall { meta, .. } => {
                meta.as_ref().is_none_or(|meta| meta.provider == reader.dialect.name())
            }
            ContentBlock::Opaque { meta } => meta.provider == reader.dialect.name(),
            ContentBlock::Image(_) | ContentBlock::ToolResult { .. } => true,
        }),
    }
}

/// The message of another model without what only that one can read.
fn without_state(message: &Arc<Message>) -> Arc<Message> {
    let has_state = |block: &ContentBlock| match block {
        ContentBlock::Text { meta, .. } | ContentBlock::ToolCall { meta, .. } => meta.is_some(),
        ContentBlock::Reasoning { .. } | ContentBlock::Opaque { .. } => true,
        ContentBlock::Image(_) | ContentBlock::ToolResult { .. } => false,
    };
    if !message.content().iter().any(has_state) {
        return Arc::clone(message);
    }
    let rest = message.content().iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } => Some(ContentBlock::text(text)),
        ContentBlock::ToolCall { id, name, arguments, .. } => Some(ContentBlock::ToolCall {
            id: id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
            meta: None,
        }),
        ContentBlock::Reasoning { .. } | ContentBlock::Opaque { .. } => None,
        ContentBlock::Image(_) | ContentBlock::ToolResult { .. } => Some(block.clone()),
    });
    Arc::new(Message::new(message.role(), rest.collect()))
}

/// A call whose answer will be told.
struct Called<'a> {
    id: &'a str,
    name: &'a str,
    arguments: String,
}

fn called(message: &Message) -> Vec<Called<'_>> {
    let calls = message.tool_calls();
    calls
        .map(|call| Called { id: call.id, name: call.name, arguments: call.arguments.to_string() })
        .collect()
}

/// What the other model said in words. Its calls are told with their results, in the user's turn:
/// words that look like calls in the model's own would be taken for the way to call.
fn words_of(message: &Message) -> Message {
    let said = message.text();
    let said = if said.trim().is_empty() { CALLED } else { &said };
    Message::assistant_text(said)
}

/// The results of the calls that are told, with these calls, and what else the user said.
fn answers(message: &Message, told: &[Called<'_>]) -> Message {
    let mut blocks = Vec::new();
    for block in message.content() {
        match block {
            ContentBlock::ToolResult { call_id, content, is_error, images } => {
                let call = told.iter().find(|call| call.id == call_id);
                blocks.extend(call.map(|call| call.told(content, *is_error)));
                blocks.extend(images.iter().cloned().map(ContentBlock::Image));
            }
            other => blocks.push(other.clone()),
        }
    }
    Message::new(Role::User, blocks)
}

impl Called<'_> {
    fn told(&self, content: &str, is_error: bool) -> ContentBlock {
        let Self { name, arguments, .. } = self;
        let what = if is_error { "It failed with" } else { "It answered" };
        ContentBlock::text(format!(
            "[The model before you called the tool {name} with {arguments}. {what}:]\n{content}\n\
             [That was all of it.]"
        ))
    }
}

#[cfg(test)]
mod tests;
