//! A running session: its state, the request it becomes, and the file it is kept in.
//!
//! Every change is a [`Record`]: applied to the [`State`] by the one reducer, then appended to the
//! [`Journal`]. What would break a rule of the dialogue is refused before anything happens.

pub mod journal;
pub mod record;
pub mod recover;
pub mod reduce;
pub mod store;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use llm::handoff::{self, Reader};
use llm::{
    CacheHint, ChatRequest, ContentBlock, IntegrityError, Message, Provider, Role, ToolSpec,
};

use self::journal::{Journal, JournalError};
use self::record::{Basis, Change, Meta, Record, ReplaceReason, StampReason};
use self::reduce::{ReduceError, State};
use crate::agent::ModelRef;
use crate::context::prefix::{Prefix, Section};
use crate::digest::Digest;

/// What a session begins with: nothing, or what its file holds.
#[derive(Debug)]
pub struct Opening {
    /// Its records so far, the first one at least.
    pub state: State,
    /// Where further ones go; nowhere for a session that is not kept.
    pub journal: Option<Journal>,
    /// Why it is not kept although it should be; told with the first turn.
    pub trouble: Option<String>,
}

impl Opening {
    /// A new session that is not kept.
    pub fn unsaved(meta: Meta) -> Self {
        let mut state = State::default();
        state
            .apply(&Record::SessionStarted(meta))
            .expect("a session that has no record takes its first one");
        Self { state, journal: None, trouble: None }
    }
}

impl Default for Opening {
    fn default() -> Self {
        Self::unsaved(Meta::default())
    }
}

/// What every request of a session begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemText {
    /// The text as it is sent.
    pub text: String,
    /// What it was made from.
    pub basis: Option<Basis>,
}

impl From<&str> for SystemText {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), basis: None }
    }
}

/// A conversation, held as the request it becomes, so that a step sends what is already there.
#[derive(Debug)]
pub struct Session {
    /// What is said, whoever is asked.
    state: State,
    /// The request for the model that is asked now. Its messages are those of the state but for what
    /// only another model can read.
    request: ChatRequest,
    /// What it begins with, to tell what changed of it.
    prefix: Prefix,
    /// Who reads it, where that makes a difference.
    reader: Option<Reader>,
    /// What that model's messages are marked with.
    author: Option<String>,
    /// The next suffix for a call id that a server gave again.
    renamed: HashMap<String, u32>,
    journal: Option<Journal>,
    trouble: Trouble,
    /// Whether the disk takes records and did not confirm the last ones.
    is_unconfirmed: bool,
}

/// What a person has to know about the file, once.
#[derive(Debug, Default)]
enum Trouble {
    #[default]
    None,
    New(String),
    Told,
}

impl Session {
    /// A session over what is there already, with the tools of every request.
    pub fn new(opening: Opening, tools: Vec<ToolSpec>) -> Self {
        let Opening { state, journal, trouble } = opening;
        let request = ChatRequest {
            system: state.system().map(ToString::to_string),
            messages: state.messages().to_vec(),
            tools,
            ..ChatRequest::default()
        };
        let mut prefix = Prefix::default();
        prefix.set_tools(&request.tools);
        prefix.set_system(request.system.as_deref());
        Self {
            state,
            request,
            prefix,
            reader: None,
            author: None,
            renamed: HashMap::new(),
            journal,
            trouble: trouble.map_or(Trouble::None, Trouble::New),
            is_unconfirmed: false,
        }
    }

    /// The records so far, as what they amount to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The bytes of the file it is kept in; nothing where it is not kept.
    pub fn kept_bytes(&self) -> Option<u64> {
        self.journal.as_ref().map(Journal::bytes)
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Arc<Message>] {
        self.state.messages()
    }

    /// The request for the next sample.
    ///
    /// # Errors
    /// When the transcript is not in a state that may be sent.
    pub fn request(&self) -> Result<&ChatRequest, IntegrityError> {
        self.state.settled()?;
        Ok(&self.request)
    }

    /// Notes that [`Self::request`] is sent now, and says what of it is not as it was in the request before.
    /// Costs what was added since.
    pub fn note_sent(&mut self) -> Section {
        let changed = self.prefix.send(&self.request.messages);
        tracing::debug!(prefix_hash = self.prefix.digest(), %changed, "a request is sent");
        changed
    }

    /// Takes a record in and keeps it. Where it cannot be kept the session goes on, and a person is told
    /// ([`Self::take_trouble`]).
    ///
    /// # Errors
    /// When it does not fit; nothing happened then.
    pub fn commit(&mut self, record: &Record) -> Result<(), ReduceError> {
        let shares_last = match (self.state.messages().last(), self.request.messages.last()) {
            (Some(said), Some(sent)) => Arc::ptr_eq(said, sent),
            _ => false,
        };
        self.state.apply(record)?;
        self.follow(record, shares_last);
        if let Some(journal) = &mut self.journal {
            let kept = journal.append(record);
            // A record that is taken ends no trouble with what confirms it.
            if kept.is_err() || !self.is_unconfirmed {
                self.note(kept.err());
            }
        }
        Ok(())
    }

    /// Makes all that was committed survive a loss of power.
    ///
    /// # Errors
    /// When a record is not in the file, or nobody knows whether it would survive.
    pub async fn make_durable(&mut self) -> Result<(), JournalError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let done = match journal.catch_up() {
            Ok(()) => match tokio::task::spawn_blocking(journal.sync()).await {
                Ok(done) => done,
                Err(error) => Err(journal.fault(std::io::Error::other(error))),
            },
            Err(error) => Err(error),
        };
        match &done {
            Err(error) => {
                self.is_unconfirmed = true;
                self.note(Some(error));
            }
            Ok(()) if std::mem::take(&mut self.is_unconfirmed) => self.note(None::<JournalError>),
            Ok(()) => {}
        }
        done
    }

    /// What keeps the session from being saved; told once until it can be saved again.
    pub fn take_trouble(&mut self) -> Option<String> {
        match std::mem::replace(&mut self.trouble, Trouble::Told) {
            Trouble::New(message) => Some(message),
            before => {
                self.trouble = before;
                None
            }
        }
    }

    fn note(&mut self, error: Option<impl std::fmt::Display>) {
        match (error, &self.trouble) {
            (None, _) => self.trouble = Trouble::None,
            (Some(error), Trouble::None) => self.trouble = Trouble::New(error.to_string()),
            (Some(_), Trouble::New(_) | Trouble::Told) => {}
        }
    }

    /// Brings the request up to the state, at no more cost than what changed.
    fn follow(&mut self, record: &Record, shares_last: bool) {
        let last = || self.state.messages().last().map(Arc::clone);
        match record {
            Record::MessageAppended { .. } | Record::ResultsAppended { .. } => {
                self.request.messages.extend(last());
            }
            Record::MessageExtended { content, .. } => {
                self.prefix.extended(self.request.messages.len());
                let Some(sent) = self.request.messages.last_mut() else { return };
                match self.state.messages().last() {
                    Some(said) if shares_last => *sent = Arc::clone(said),
                    _ => Arc::make_mut(sent).content_mut().extend_from_slice(content),
                }
            }
            Record::ContextReplaced { .. } => {
                self.renew();
            }
            Record::SystemStamped { text, .. } => {
                self.prefix.set_system(Some(text));
                self.request.system = Some(text.clone());
            }
            Record::SessionStarted(_)
            | Record::ModelChanged { .. }
            | Record::TodosChanged { .. }
            | Record::ToolStarted { .. }
            | Record::ToolFinished { .. }
            | Record::Usage { .. }
            | Record::TurnFinished { .. }
            | Record::CheckpointRecorded { .. } => {}
        }
    }

    /// Makes the request's messages anew. Returns how many calls are told in words.
    fn renew(&mut self) -> usize {
        self.prefix.renewed();
        self.request.messages = self.state.messages().to_vec();
        let Some(reader) = &self.reader else { return 0 };
        let handoff = handoff::prepare(&self.request, reader);
        self.request.messages = handoff.messages;
        handoff.calls_told
    }

    /// Sends later requests to this model of `provider`, with what it is asked for. Returns how many
    /// calls of another model it is told in words, because it would not go on with them.
    ///
    /// What was said stays as it is; only what is sent is fitted ([`handoff`]).
    pub fn set_model(&mut self, model: &ModelRef, provider: &dyn Provider) -> usize {
        self.request.model = model.id.clone();
        self.request.max_tokens = model.max_tokens;
        self.request.effort = model.effort;
        self.request.thinking_budget = model.thinking_budget;
        let author = format!("{}:{}", provider.name(), model.id);
        self.author = Some(author.clone());
        self.prefix.set_model(&(&author, format!("{:?}", model.effort), model.thinking_budget));
        self.reader = provider.target().map(|target| {
            let (dialect, target) = (target.dialect(), target.of(&model.id));
            Reader { author, dialect, target }
        });
        if self.state.model() != Some(&model.label) {
            let changed = Record::ModelChanged { model: model.label.clone() };
            self.commit(&changed).expect("a session that has begun takes any model");
        }
        self.renew()
    }

    /// What every request begins with from here on.
    pub fn stamp(&mut self, system: &SystemText, reason: StampReason) {
        let SystemText { text, basis } = system.clone();
        let digest = Digest::of(text.as_bytes()).to_string();
        let record = Record::SystemStamped { text, digest, reason, basis };
        self.commit(&record).expect("a session that has begun takes any system text");
    }

    /// Says in later requests that they begin alike; `key` is the same for all of them and tells
    /// nothing about the user.
    pub fn set_cache_key(&mut self, key: &str) {
        let key = key.chars().take(CacheHint::LONGEST_KEY).collect();
        self.request.cache = Some(CacheHint { key });
        self.prefix.set_marks(self.request.cache.as_ref());
    }

    /// Forgets the dialogue; model, system text and tools stay.
    pub fn clear(&mut self) {
        let record = Record::ContextReplaced {
            revision: self.state.revision(),
            reason: ReplaceReason::Forgotten,
            change: Change::Head {
                upto: self.state.messages().len(),
                messages: Vec::new(),
                stand_in: None,
            },
            before_tokens: None,
            after_tokens: None,
        };
        self.commit(&record).expect("all of a dialogue may be forgotten at any time");
        self.renamed.clear();
    }

    /// Adds what the user says. After a turn that ended early it joins the waiting user message, so
    /// that roles keep alternating.
    ///
    /// # Errors
    /// `NotUserContent` when a block is not text or an image; nothing is added then.
    pub fn add_user(&mut self, content: Vec<ContentBlock>) -> Result<(), AddUserError> {
        self.add_user_with(content, Vec::new())
    }

    /// The same for content that delivers notices.
    ///
    /// # Errors
    /// As for [`Self::add_user`].
    pub fn add_user_with(
        &mut self,
        content: Vec<ContentBlock>,
        notices: Vec<String>,
    ) -> Result<(), AddUserError> {
        if let Some(kind) = reduce::kind_no_user_says(&content) {
            return Err(AddUserError::NotUserContent { kind });
        }
        if content.is_empty() {
            return Err(AddUserError::Empty);
        }
        let is_waiting = self.messages().last().is_some_and(|last| last.role() == Role::User);
        let record = if is_waiting {
            Record::MessageExtended { content, notices }
        } else {
            let message = Arc::new(Message::new(Role::User, content));
            Record::MessageAppended { message, notices }
        };
        Ok(self.commit(&record)?)
    }

    /// Commits an assistant message. Call ids that the transcript already holds are renamed first:
    /// some servers number their calls anew in every response.
    ///
    /// # Errors
    /// When the message breaks a rule; it is not added then.
    pub fn commit_assistant(&mut self, mut message: Message) -> Result<Arc<Message>, ReduceError> {
        self.rename_known_ids(&mut message);
        let message = match &self.author {
            Some(author) => message.by(author),
            None => message,
        };
        let message = Arc::new(message);
        let record = Record::MessageAppended { message: Arc::clone(&message), notices: Vec::new() };
        self.commit(&record)?;
        Ok(message)
    }

    /// Commits the results of the last message's calls, which all have finished, with what is said
    /// behind them.
    ///
    /// # Errors
    /// When a call has none; nothing is added then.
    pub fn commit_results(
        &mut self,
        extra: Vec<ContentBlock>,
        notices: Vec<String>,
    ) -> Result<(), ReduceError> {
        let call_ids = self.state.calls().iter().map(|call| call.id.clone()).collect();
        self.commit(&Record::ResultsAppended { call_ids, extra, notices })
    }

    fn rename_known_ids(&mut self, message: &mut Message) {
        let mut own = HashSet::new();
        let is_fresh = |id: &str, own: &mut HashSet<String>| {
            !self.state.knows_call(id) && own.insert(id.to_owned())
        };
        if message.tool_calls().all(|call| is_fresh(call.id, &mut own)) {
            return;
        }
        own.clear();
        for block in message.content_mut() {
            let ContentBlock::ToolCall { id, .. } = block else { continue };
            if is_fresh(id, &mut own) {
                continue;
            }
            // The number goes on where it stopped, so that a thousandth repetition costs no more.
            let next = self.renamed.entry(id.clone()).or_insert(2);
            loop {
                let candidate = format!("{id}-{next}");
                *next += 1;
                if is_fresh(&candidate, &mut own) {
                    *id = candidate;
                    break;
                }
            }
        }
    }
}

/// Why the user's input was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddUserError {
    /// There is nothing to add.
    #[error("the prompt is empty")]
    Empty,
    /// Only text and images come from a user.
    #[error("a prompt consists of text and images, not of a {kind} block")]
    NotUserContent {
        /// The block's kind.
        kind: &'static str,
    },
    /// The transcript is not in a state that takes input.
    #[error(transparent)]
    Transcript(#[from] ReduceError),
}
