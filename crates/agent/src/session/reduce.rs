//! What the records of a session amount to: one function, for a running session and for a file.

mod error;
mod replace;

use std::collections::HashSet;
use std::sync::Arc;

use llm::{ContentBlock, IntegrityError, Message, Role, Tail, TranscriptChecker, Usage};
use serde_json::Value;

pub use self::error::ReduceError;
use super::record::{Basis, How, Intended, Meta, Record, StandIn};

/// A session as its records left it.
#[derive(Debug, Clone, Default)]
pub struct State {
    meta: Option<Meta>,
    messages: Vec<Arc<Message>>,
    checker: TranscriptChecker,
    calls: Vec<Call>,
    system: Option<Arc<str>>,
    basis: Option<Basis>,
    model: Option<String>,
    todos: Option<Value>,
    stand_in: Option<StandIn>,
    cleared: HashSet<String>,
    revision: u64,
    delivered: HashSet<String>,
    reported: Option<Reported>,
    cost_usd: Option<f64>,
    turns: u64,
}

/// The counts of the last request, and of which context they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reported {
    /// The revision that was sent.
    pub revision: u64,
    /// How many messages the context had once the answer was in it.
    pub messages: usize,
    /// What the server counted.
    pub usage: Usage,
}

/// A call of the last message that has no result in the dialogue yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its id.
    pub id: String,
    /// How far it came.
    pub state: CallState,
}

/// How far a call came.
#[derive(Debug, Clone, PartialEq)]
pub enum CallState {
    /// The model wants it.
    Decided,
    /// It began.
    Started {
        /// What it was to make of files.
        intended: Vec<Intended>,
    },
    /// It has its result.
    Finished {
        /// The `tool_result`.
        result: ContentBlock,
        /// How it came to it.
        how: How,
    },
}

impl State {
    /// What the session is; nothing before its first record.
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// The dialogue as the model is sent it.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The calls of the last message that have no result in the dialogue, in their order.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The system text as it was stamped.
    pub fn system(&self) -> Option<&Arc<str>> {
        self.system.as_ref()
    }

    /// What the system text was made from, where that was noted.
    pub fn basis(&self) -> Option<&Basis> {
        self.basis.as_ref()
    }

    /// The model that answers: `provider:model-id`.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What is to be done, as its tool keeps it.
    pub fn todos(&self) -> Option<&Value> {
        self.todos.as_ref()
    }

    /// What of the first message stands for a dialogue that was replaced.
    pub fn stand_in(&self) -> Option<&StandIn> {
        self.stand_in.as_ref()
    }

    /// Whether the result of this call gave way to a line.
    pub fn was_cleared(&self, call_id: &str) -> bool {
        self.cleared.contains(call_id)
    }

    /// Rises with everything that changes what a request begins with.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether the notice was delivered to the model.
    pub fn was_delivered(&self, notice: &str) -> bool {
        self.delivered.contains(notice)
    }

    /// The counts of the last request, if a server told any.
    pub fn reported(&self) -> Option<&Reported> {
        self.reported.as_ref()
    }

    /// US dollars so far, as far as they are known; nothing before the first cost.
    pub fn cost_usd(&self) -> Option<f64> {
        self.cost_usd
    }

    /// How many turns ended.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Whether a call has this id.
    pub fn knows_call(&self, id: &str) -> bool {
        self.checker.knows_call(id)
    }

    /// Checks that a request may be made.
    ///
    /// # Errors
    /// `UnansweredCall` while a call waits for its result.
    pub fn settled(&self) -> Result<(), IntegrityError> {
        self.checker.finish(Tail::Settled)
    }

    /// Takes a record in. This is the only way in which a session changes, and an error changes nothing.
    ///
    /// # Errors
    /// Why the record does not fit.
    pub fn apply(&mut self, record: &Record) -> Result<(), ReduceError> {
        if let Record::SessionStarted(meta) = record {
            return self.begin(meta);
        }
        if self.meta.is_none() {
            return Err(ReduceError::Beginning);
        }
        match record {
            Record::SessionStarted(_) => Err(ReduceError::Beginning),
            Record::SystemStamped { text, basis, .. } => {
                self.system = Some(text.as_str().into());
                self.basis.clone_from(basis);
                self.revise();
                Ok(())
            }
            Record::MessageAppended { message, notices } => self.append(message, notices),
            Record::MessageExtended { content, notices } => self.extend(content, notices),
            Record::ResultsAppended { call_ids, extra, notices } => {
                self.answer(call_ids, extra, notices)
            }
            Record::ContextReplaced { revision, reason, change, .. } => {
                self.replace(*revision, *reason, change)
            }
            Record::ModelChanged { model } => {
                self.model = Some(model.clone());
                self.revise();
                Ok(())
            }
            Record::TodosChanged { todos } => {
                self.todos = Some(todos.clone());
                Ok(())
            }
            Record::ToolStarted { call_id, intended, .. } => self.start(call_id, intended),
            Record::ToolFinished { call_id, result, how } => self.finish(call_id, result, *how),
            Record::Usage { step, revision, usage, cost_usd } => {
                let messages = self.messages.len();
                // A summary is asked for beside the dialogue, so its size says nothing about it.
                if *step > 0 {
                    self.reported = Some(Reported { revision: *revision, messages, usage: *usage });
                }
                if let Some(cost) = cost_usd {
                    self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
                }
                Ok(())
            }
            Record::TurnFinished { .. } => {
                self.turns += 1;
                Ok(())
            }
            Record::CheckpointRecorded { .. } => Ok(()),
        }
    }

    fn begin(&mut self, meta: &Meta) -> Result<(), ReduceError> {
        if self.meta.is_some() {
            return Err(ReduceError::Beginning);
        }
        self.model = Some(meta.model.clone());
        self.meta = Some(meta.clone());
        Ok(())
    }

    fn revise(&mut self) {
        self.revision += 1;
    }

    fn append(&mut self, message: &Arc<Message>, notices: &[String]) -> Result<(), ReduceError> {
        // Results come with the calls they finish, never by themselves.
        if let Some(ContentBlock::ToolResult { call_id, .. }) =
            message.content().iter().find(|block| matches!(block, ContentBlock::ToolResult { .. }))
        {
            return Err(ReduceError::NoSuchCall(call_id.clone()));
        }
        self.checker.push(message)?;
        let decided =
            |call: llm::ToolCallRef<'_>| Call { id: call.id.to_owned(), state: CallState::Decided };
        self.calls = message.tool_calls().map(decided).collect();
        self.messages.push(Arc::clone(message));
        self.deliver(notices);
        Ok(())
    }

    fn extend(&mut self, content: &[ContentBlock], notices: &[String]) -> Result<(), ReduceError> {
        if let Some(kind) = kind_no_user_says(content) {
            return Err(ReduceError::NotUserContent(kind));
        }
        let Some(last) = self.messages.last_mut().filter(|last| last.role() == Role::User) else {
            return Err(ReduceError::NothingToExtend);
        };
        // Text and images cannot break a rule that the message already satisfied.
        Arc::make_mut(last).content_mut().extend_from_slice(content);
        self.deliver(notices);
        Ok(())
    }

    fn start(&mut self, id: &str, intended: &[Intended]) -> Result<(), ReduceError> {
        let call = self.waiting(id)?;
        match call.state {
            CallState::Decided => {
                call.state = CallState::Started { intended: intended.to_vec() };
                Ok(())
            }
            CallState::Started { .. } => Err(ReduceError::StartedTwice(id.to_owned())),
            CallState::Finished { .. } => Err(ReduceError::FinishedTwice(id.to_owned())),
        }
    }

    fn finish(&mut self, id: &str, result: &ContentBlock, how: How) -> Result<(), ReduceError> {
        if !matches!(result, ContentBlock::ToolResult { call_id, .. } if call_id == id) {
            return Err(ReduceError::NotItsResult(id.to_owned()));
        }
        let call = self.waiting(id)?;
        match call.state {
            CallState::Finished { .. } => Err(ReduceError::FinishedTwice(id.to_owned())),
            // Whatever ran had begun.
            CallState::Decided if matches!(how, How::Ran | How::Unknown) => {
                Err(ReduceError::Unfinished(id.to_owned()))
            }
            CallState::Decided | CallState::Started { .. } => {
                call.state = CallState::Finished { result: result.clone(), how };
                Ok(())
            }
        }
    }

    fn waiting(&mut self, id: &str) -> Result<&mut Call, ReduceError> {
        let call = self.calls.iter_mut().find(|call| call.id == id);
        call.ok_or_else(|| ReduceError::NoSuchCall(id.to_owned()))
    }

    fn answer(
        &mut self,
        ids: &[String],
        extra: &[ContentBlock],
        notices: &[String],
    ) -> Result<(), ReduceError> {
        if let Some(kind) = kind_no_user_says(extra) {
            return Err(ReduceError::NotUserContent(kind));
        }
        let mut content = Vec::with_capacity(ids.len() + extra.len());
        for id in ids {
            match &self.waiting(id)?.state {
                CallState::Finished { result, .. } => content.push(result.clone()),
                _ => return Err(ReduceError::Unfinished(id.clone())),
            }
        }
        content.extend_from_slice(extra);
        let message = Message::new(Role::User, content);
        self.checker.push(&message)?;
        self.messages.push(Arc::new(message));
        self.calls.clear();
        self.deliver(notices);
        Ok(())
    }

    fn deliver(&mut self, notices: &[String]) {
        self.delivered.extend(notices.iter().cloned());
    }
}

/// The kind of the first block that no user can have said; nothing where all are text and images.
pub(super) fn kind_no_user_says(content: &[ContentBlock]) -> Option<&'static str> {
    let is_said =
        |block: &&ContentBlock| matches!(block, ContentBlock::Text { .. } | ContentBlock::Image(_));
    content.iter().find(|block| !is_said(block)).map(ContentBlock::kind)
}

/// Whether two sessions would go on alike.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.meta == other.meta
            && self.messages == other.messages
            && self.calls == other.calls
            && self.system == other.system
            && self.basis == other.basis
            && self.model == other.model
            && self.todos == other.todos
            && self.stand_in == other.stand_in
            && self.cleared == other.cleared
            && self.revision == other.revision
            && self.delivered == other.delivered
            && self.reported == other.reported
            && self.cost_usd == other.cost_usd
            && self.turns == other.turns
    }
}
