//! What the records of a session amount to: one function, for a running session and for a file.

use std::collections::HashSet;
use std::sync::Arc;

use llm::{ContentBlock, IntegrityError, Message, Role, Tail, TranscriptChecker, Usage};
use serde_json::Value;

use super::record::{Basis, Change, How, Intended, Meta, Record, ReplaceReason, StandIn};

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

/// Why a record does not fit the session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReduceError {
    /// The dialogue would break a rule.
    #[error(transparent)]
    Transcript(#[from] IntegrityError),
    /// A file does not begin with `session_started`, or has it twice.
    #[error("session_started stands first and once")]
    Beginning,
    /// There is no such call waiting.
    #[error("no call '{0}' waits for this")]
    NoSuchCall(String),
    /// The call has its result already.
    #[error("the call '{0}' has its result already")]
    FinishedTwice(String),
    /// The call began already.
    #[error("the call '{0}' began already")]
    StartedTwice(String),
    /// The call has no result yet.
    #[error("the call '{0}' has no result yet")]
    Unfinished(String),
    /// The result is that of another call, or no result at all.
    #[error("what finished the call '{0}' is not its result")]
    NotItsResult(String),
    /// Blocks joined a message that no user said.
    #[error("there is no user message to extend")]
    NothingToExtend,
    /// Only text and images join a user message.
    #[error("a {0} block cannot join a user message")]
    NotUserContent(&'static str),
    /// The context changed since the replacement was made.
    #[error("the context is at revision {now}, and this was made from {made_from}")]
    Stale {
        /// The revision it was made from.
        made_from: u64,
        /// The present one.
        now: u64,
    },
    /// More messages are replaced than there are.
    #[error("{upto} messages are replaced and there are {messages}")]
    TooMany {
        /// How many are to be replaced.
        upto: usize,
        /// How many there are.
        messages: usize,
    },
    /// A call is running or waits for its results.
    #[error("the context is not replaced while calls wait for their results")]
    CallsPending,
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
        if let Some(block) = content
            .iter()
            .find(|block| !matches!(block, ContentBlock::Text { .. } | ContentBlock::Image(_)))
        {
            return Err(ReduceError::NotUserContent(block.kind()));
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
        if let Some(block) = extra
            .iter()
            .find(|block| !matches!(block, ContentBlock::Text { .. } | ContentBlock::Image(_)))
        {
            return Err(ReduceError::NotUserContent(block.kind()));
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

    fn replace(
        &mut self,
        made_from: u64,
        reason: ReplaceReason,
        change: &Change,
    ) -> Result<(), ReduceError> {
        if made_from != self.revision {
            return Err(ReduceError::Stale { made_from, now: self.revision });
        }
        if !self.calls.is_empty() && !is_whole(change, self.messages.len()) {
            return Err(ReduceError::CallsPending);
        }
        match change {
            Change::Head { upto, messages, stand_in } => {
                self.replace_head(*upto, messages)?;
                self.stand_in = stand_in.clone().or_else(|| whole_stand_in(reason, messages));
                self.cleared.retain(|id| self.checker.knows_call(id));
            }
            Change::Results { cleared } => {
                let mut left: Vec<(&str, &str)> =
                    cleared.iter().map(|one| (&*one.call_id, &*one.content)).collect();
                let mut changed = self.messages.clone();
                for message in &mut changed {
                    if left.is_empty() {
                        break;
                    }
                    clear_results(message, &mut left);
                }
                if let Some((id, _)) = left.first() {
                    return Err(ReduceError::NoSuchCall((*id).to_owned()));
                }
                self.messages = changed;
                self.cleared.extend(cleared.iter().map(|one| one.call_id.clone()));
            }
        }
        self.revise();
        Ok(())
    }

    fn replace_head(&mut self, upto: usize, head: &[Arc<Message>]) -> Result<(), ReduceError> {
        let Some(tail) = self.messages.get(upto..) else {
            return Err(ReduceError::TooMany { upto, messages: self.messages.len() });
        };
        let messages: Vec<Arc<Message>> = head.iter().chain(tail).cloned().collect();
        let mut checker = TranscriptChecker::default();
        for message in &messages {
            checker.push(message)?;
        }
        checker.finish(Tail::Settled)?;
        self.messages = messages;
        self.checker = checker;
        self.calls.clear();
        Ok(())
    }

    fn deliver(&mut self, notices: &[String]) {
        self.delivered.extend(notices.iter().cloned());
    }
}

/// What stands for a dialogue where a file from before that was kept does not tell: all of the message.
fn whole_stand_in(reason: ReplaceReason, head: &[Arc<Message>]) -> Option<StandIn> {
    let is_made = matches!(reason, ReplaceReason::Compacted | ReplaceReason::Dropped);
    let blocks = head.first().filter(|_| is_made)?.content().len();
    Some(StandIn { blocks, ..StandIn::default() })
}

/// Whether nothing of the dialogue stays.
fn is_whole(change: &Change, messages: usize) -> bool {
    matches!(change, Change::Head { upto, messages: new, .. } if *upto == messages && new.is_empty())
}

/// Gives the results of `left` that stand in the message their new content, and takes them from `left`.
fn clear_results(message: &mut Arc<Message>, left: &mut Vec<(&str, &str)>) {
    let is_meant = |block: &ContentBlock| {
        matches!(block, ContentBlock::ToolResult { call_id, .. }
            if left.iter().any(|(id, _)| id == call_id))
    };
    if !message.content().iter().any(is_meant) {
        return;
    }
    for block in Arc::make_mut(message).content_mut() {
        let ContentBlock::ToolResult { call_id, content, images, .. } = block else { continue };
        let Some(at) = left.iter().position(|(id, _)| id == call_id) else { continue };
        let (_, new) = left.swap_remove(at);
        new.clone_into(content);
        images.clear();
    }
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
