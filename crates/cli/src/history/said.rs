//! All that was said in a session, in its order: also what no model reads any more.

use std::collections::HashMap;
use std::sync::Arc;

use agent::session::record::{Change, Record, ReplaceReason, StandIn};
use agent::session::reduce::State;
use llm::{ContentBlock, Message, Role};

/// One thing that happened.
#[derive(Debug)]
pub(super) enum Part {
    /// Somebody said this, or a tool gave it.
    Message(Arc<Message>),
    /// What stands before is not what a model reads from here on.
    Replaced {
        /// Why.
        reason: ReplaceReason,
        /// What it reads instead, where it is a summary.
        summary: String,
    },
}

/// What was said so far.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) parts: Vec<Part>,
    /// Results that did not come to the dialogue yet, by the ids of their calls.
    results: HashMap<String, ContentBlock>,
}

impl Said {
    /// Takes the next record in.
    pub(super) fn take(&mut self, record: &Record) {
        match record {
            Record::MessageAppended { message, .. } => {
                self.parts.push(Part::Message(Arc::clone(message)));
            }
            Record::MessageExtended { content, .. } => self.user(content.clone()),
            Record::ToolFinished { call_id, result, .. } => {
                self.results.insert(call_id.clone(), result.clone());
            }
            Record::ResultsAppended { call_ids, extra, .. } => {
                let results = call_ids.iter().filter_map(|id| self.results.remove(id));
                let content = results.chain(extra.iter().cloned()).collect();
                self.user(content);
            }
            Record::ContextReplaced { reason, change, .. } => {
                let summary = match change {
                    Change::Head { messages, stand_in, .. } => {
                        messages.first().map(|first| summary(first, stand_in.as_ref()).0)
                    }
                    Change::Results { .. } => None,
                };
                let (reason, summary) = (*reason, summary.unwrap_or_default());
                self.parts.push(Part::Replaced { reason, summary });
            }
            Record::SessionStarted(_)
            | Record::SystemStamped { .. }
            | Record::ModelChanged { .. }
            | Record::TodosChanged { .. }
            | Record::ToolStarted { .. }
            | Record::Usage { .. }
            | Record::TurnFinished { .. }
            | Record::CheckpointRecorded { .. } => {}
        }
    }

    /// What a model reads of the session.
    pub(super) fn in_context(state: &State) -> Self {
        let mut said = Self::default();
        let mut messages = state.messages().iter();
        if let Some(stand_in) = state.stand_in()
            && let Some(first) = messages.next()
        {
            let (summary, later) = summary(first, Some(stand_in));
            said.parts.push(Part::Replaced { reason: ReplaceReason::Compacted, summary });
            said.user(later.to_vec());
        }
        said.parts.extend(messages.cloned().map(Part::Message));
        said
    }

    fn user(&mut self, content: Vec<ContentBlock>) {
        if !content.is_empty() {
            self.parts.push(Part::Message(Arc::new(Message::new(Role::User, content))));
        }
    }
}

/// What of a message was written in the place of a dialogue, without what the user had said in it, and
/// what came to the message later.
fn summary<'a>(first: &'a Message, stand_in: Option<&StandIn>) -> (String, &'a [ContentBlock]) {
    // Files from before it was kept do not tell: all of the message then.
    let blocks = stand_in.map_or(first.content().len(), |one| one.blocks);
    let (made, later) = first.content().split_at(blocks.min(first.content().len()));
    let is_said = |at: usize| stand_in.is_some_and(|one| one.said.iter().any(|r| r.contains(&at)));
    let texts = made.iter().enumerate().filter_map(|(at, block)| match block {
        ContentBlock::Text { text, .. } if !is_said(at) => Some(text.as_str()),
        _ => None,
    });
    (texts.collect(), later)
}
