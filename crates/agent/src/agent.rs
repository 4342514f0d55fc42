//! Carries out what [`turn`](crate::turn) decides: the only place where a decision meets the world.

mod batch;
pub mod compaction;
mod permit;
mod recover;
mod run;
mod sample;
mod steer;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use llm::models::Price;
use llm::{ContentBlock, Effort, LlmError, Message, Provider};
use tokio_util::sync::CancellationToken;

use self::compaction::CompactError;
use self::run::{Clock, Run};
use crate::approval::Approver;
use crate::channel::EventSender;
use crate::context::budget::Sizes;
use crate::context::clear::Looks;
use crate::context::compact::Gains;
use crate::context::prefix::reads::CacheReads;
use crate::event::{AgentEvent, ErrorInfo, TurnOutcome};
use crate::expand::ExpandPastes;
use crate::permissions::{Policy, Programs};
use crate::registry::ToolRegistry;
use crate::session::journal::JournalError;
use crate::session::record::{Record, StampReason};
use crate::session::reduce::{ReduceError, State};
use crate::session::{AddUserError, Opening, Session, SystemText};
use crate::steering::Steering;
use crate::turn::{Input, Next};

/// Version of the event format, told in `session_started`.
pub const SCHEMA_VERSION: u32 = 1;

/// Which model is asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelRef {
    /// How people write it: `provider:model-id`.
    pub label: String,
    /// The provider's own id, sent in each request.
    pub id: String,
    /// The most tokens one answer may have; 0 leaves it to the server where that is possible.
    pub max_tokens: u32,
    /// How hard it is to think; its own default where nothing is told.
    pub effort: Option<Effort>,
    /// The most tokens it may think with, for models that count them.
    pub thinking_budget: Option<u32>,
    /// What it costs, if that is known.
    pub price: Option<Price>,
    /// Most tokens of a request and its answer together, if that is known.
    pub context: Option<u64>,
}

/// Limits and texts of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentConfig {
    /// Most model requests in one turn.
    pub max_steps: u32,
    /// Longest wall time of one turn.
    pub max_wall_time: Option<Duration>,
    /// System text of a new session; one that goes on keeps its own.
    pub system: Option<SystemText>,
    /// The share of the model's context window, up to 1, from which on the dialogue is summarised.
    pub compact_at: f64,
}

impl AgentConfig {
    /// The usual share of the window.
    pub const COMPACT_AT: f64 = 0.8;
}

/// What an [`Agent`] is made of.
pub struct AgentParts {
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// Which of its models.
    pub model: ModelRef,
    /// The tools on offer.
    pub tools: ToolRegistry,
    /// What runs without asking.
    pub policy: Policy,
    /// What the name of a program means on this machine.
    pub programs: Arc<dyn Programs>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// Who watches.
    pub events: EventSender,
    /// The workspace.
    pub cwd: PathBuf,
    /// The session's id. It tells nothing about the user, since servers get to see it as the key of the
    /// cached beginning.
    pub session_id: String,
    /// Limits and texts.
    pub config: AgentConfig,
    /// What was said before, and where it is kept.
    pub opening: Opening,
    /// Who says something while a turn runs.
    pub steering: Arc<dyn Steering>,
}

/// A conversation with a model that can act.
pub struct Agent {
    provider: Arc<dyn Provider>,
    model: ModelRef,
    tools: ToolRegistry,
    policy: Policy,
    programs: Arc<dyn Programs>,
    approver: Arc<dyn Approver>,
    events: EventSender,
    cwd: PathBuf,
    session_id: String,
    config: AgentConfig,
    steering: Arc<dyn Steering>,
    session: Session,
    /// Bytes of the tools in every request.
    tool_bytes: usize,
    /// What the server reads from its cache.
    cache_reads: CacheReads,
    /// What the messages take of the window.
    sizes: Sizes,
    /// Whether compacting still helps.
    gains: Gains,
    /// When results are worth looking for that could be cleared.
    looks: Looks,
}

/// Why a turn failed. The same words are in its `turn_finished` event.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The input cannot be sent.
    #[error(transparent)]
    Input(#[from] AddUserError),
    /// The model could not be asked, or its answer could not be used.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// An answer or a batch of results would have made the transcript illegal.
    #[error("the answer does not fit the conversation: {0}")]
    Transcript(#[from] ReduceError),
    /// A call was not run, because what it is about to do could not be put on disk first.
    #[error("nothing was run, since it could not be noted first: {0}")]
    Commit(#[from] JournalError),
    /// The conversation is too long for the model.
    #[error(transparent)]
    Context(#[from] CompactError),
}

impl AgentError {
    /// The error as events and JSON output show it.
    pub fn info(&self) -> ErrorInfo {
        let kind = match self {
            Self::Input(_) => "usage",
            Self::Model(error) => error.kind(),
            Self::Transcript(_) => "transcript",
            Self::Commit(_) => "session",
            Self::Context(_) => "context_overflow",
        };
        let advice = match self {
            Self::Model(error) => error.advice(),
            Self::Commit(_) => Some("--no-session-persistence continues without a session file"),
            Self::Input(_) | Self::Transcript(_) | Self::Context(_) => None,
        };
        let message = match advice {
            Some(advice) => format!("{self}; {advice}"),
            None => self.to_string(),
        };
        ErrorInfo { kind: kind.to_owned(), message }
    }
}

impl Agent {
    /// An agent that goes on from where [`AgentParts::opening`] leaves off.
    pub fn new(parts: AgentParts) -> Self {
        let specs = parts.tools.specs();
        let tool_bytes = serde_json::to_vec(&specs).map_or(0, |specs| specs.len());
        let mut session = Session::new(parts.opening, specs);
        if let (None, Some(system)) = (session.state().system(), &parts.config.system) {
            session.stamp(system, StampReason::Start);
        }
        session.set_model(&parts.model, &*parts.provider);
        session.set_cache_key(&parts.session_id);
        Self {
            provider: Arc::new(ExpandPastes::new(parts.provider)),
            model: parts.model,
            tools: parts.tools,
            policy: parts.policy,
            programs: parts.programs,
            approver: parts.approver,
            events: parts.events,
            cwd: parts.cwd,
            session_id: parts.session_id,
            config: parts.config,
            steering: parts.steering,
            session,
            tool_bytes,
            cache_reads: CacheReads::default(),
            sizes: Sizes::default(),
            gains: Gains::default(),
            looks: Looks::default(),
        }
    }

    /// The event that opens a run.
    pub fn session_started(&self) -> AgentEvent {
        AgentEvent::SessionStarted {
            schema_version: SCHEMA_VERSION,
            model: self.model.label.clone(),
            cwd: self.cwd.display().to_string(),
            tools: self.tools.names().map(str::to_owned).collect(),
        }
    }

    /// The dialogue so far; always legal.
    pub fn transcript(&self) -> &[Arc<Message>] {
        self.session.messages()
    }

    /// The session as its records left it.
    pub fn state(&self) -> &State {
        self.session.state()
    }

    /// The model that answers.
    pub fn model(&self) -> &ModelRef {
        &self.model
    }

    /// What runs, asks and is refused.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The same, for a person who changes it between turns.
    pub fn policy_mut(&mut self) -> &mut Policy {
        &mut self.policy
    }

    /// The bytes of the file that the session is kept in; nothing where it is not kept.
    pub fn kept_bytes(&self) -> Option<u64> {
        self.session.kept_bytes()
    }

    /// The size in bytes of what every request holds whatever was said: instructions and tools.
    pub fn fixed_bytes(&self) -> usize {
        let system = self.session.state().system().map_or(0, |system| system.len());
        system + self.tool_bytes
    }

    /// Forgets the dialogue.
    pub fn clear(&mut self) {
        self.session.clear();
        self.restamp(StampReason::Cleared);
    }

    /// Begins later requests with the system text of this run, where a session that goes on has another
    /// one so far. Servers then read all of the dialogue anew, so there has to be a reason.
    pub fn restamp(&mut self, reason: StampReason) {
        let Some(system) = &self.config.system else { return };
        let state = self.session.state();
        let has_text = state.system().is_some_and(|earlier| **earlier == *system.text);
        // One that was noted and differs would be found to differ by every later run.
        if !has_text || state.basis().is_some_and(|earlier| Some(earlier) != system.basis.as_ref())
        {
            self.session.stamp(system, reason);
        }
    }

    /// Continues the dialogue with another model. State that only the old one understands stays in
    /// the transcript and is left out of what the new one is sent. Returns how many calls of the old
    /// one the new one is told in words, because it would not go on with them.
    pub fn switch_model(&mut self, provider: Arc<dyn Provider>, model: ModelRef) -> usize {
        let calls_told = self.session.set_model(&model, &*provider);
        self.provider = Arc::new(ExpandPastes::new(provider));
        self.model = model;
        self.restamp(StampReason::Model);
        calls_told
    }

    /// Runs one turn to its end and reports everything on the way, `turn_finished` last.
    ///
    /// Cancelling `cancel` ends it within the time its tools need to clean up. The transcript is legal
    /// afterwards whatever happened. Dropping the future stops the tools but sends no
    /// `turn_finished`, and leaves the transcript waiting for results: cancel instead.
    ///
    /// # Errors
    /// What made the outcome [`TurnOutcome::Failed`].
    pub async fn run_turn(
        &mut self,
        input: Vec<ContentBlock>,
        cancel: CancellationToken,
    ) -> Result<TurnOutcome, AgentError> {
        let clock = Clock::new(self.config.max_wall_time, cancel.child_token());
        let mut run = Run::new(self.config.max_steps, &clock);
        let outcome = clock.limit(self.drive(input, &mut run)).await;
        self.close_turn(outcome, &run).await;
        self.events.send_now(AgentEvent::TurnFinished(run.summary(outcome, &self.model.label)));
        match run.error {
            Some(error) => Err(error),
            None => Ok(outcome),
        }
    }

    async fn drive(&mut self, input: Vec<ContentBlock>, run: &mut Run) -> TurnOutcome {
        let input = self.sealed(input);
        let begun = match self.recover(run).await {
            Ok(()) => self.session.add_user(input).map_err(AgentError::from),
            Err(error) => Err(error),
        };
        self.tell_trouble(run).await;
        let mut next = match begun {
            Ok(()) => run.turn.next(&Input::Prompt),
            Err(error) => run.fail(error),
        };
        loop {
            next = match next {
                Next::Sample { step } => self.sample(step, run).await,
                Next::RunBatch => self.run_batch(run).await,
                Next::Deliver => self.deliver(run).await,
                Next::Finish(outcome) => return outcome,
            };
        }
    }

    /// Notes how the turn ended, and makes all of it durable.
    async fn close_turn(&mut self, outcome: TurnOutcome, run: &Run) {
        let steps = run.turn.steps();
        let cost_usd = run.cost.filter(|_| steps > 0);
        self.record(&Record::TurnFinished { outcome, steps, cost_usd }, run).await;
        if let Err(error) = self.session.make_durable().await {
            tracing::warn!(%error, "the session may not survive a loss of power");
        }
        self.tell_trouble(run).await;
    }

    /// Keeps something that fits any session which has begun.
    async fn record(&mut self, record: &Record, run: &Run) {
        if let Err(error) = self.session.commit(record) {
            tracing::error!(%error, ?record, "a record did not fit the session");
        }
        self.tell_trouble(run).await;
    }

    /// Tells once what keeps the session from being saved.
    async fn tell_trouble(&mut self, run: &Run) {
        if let Some(message) = self.session.take_trouble() {
            self.emit(AgentEvent::SessionTrouble { message }, run).await;
        }
    }

    /// Queues an event, but never lets a stuck watcher hold up a cancelled turn.
    async fn emit(&self, event: AgentEvent, run: &Run) {
        if run.cancel.is_cancelled() {
            self.events.send_now(event);
            return;
        }
        tokio::select! {
            () = self.events.send(event.clone()) => {}
            () = run.cancel.cancelled() => self.events.send_now(event),
        }
    }
}
