//! Keeps requests inside the model's window: old results are cleared, then the dialogue is summarised, and
//! where no model summarises it a digest takes its place.

use std::sync::Arc;

use llm::builder::Completion;
use llm::{ChatRequest, FinishReason, LlmError, Message, Usage};
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError, Run};
use crate::context::budget::{self, ContextBudget};
use crate::context::clear::clear_old_tool_results;
use crate::context::compact::{self, Attempt};
use crate::event::AgentEvent;
use crate::session::record::{Change, Record, ReplaceReason};
use crate::session::reduce::ReduceError;

/// Steps whose results are never cleared.
const KEPT_STEPS: usize = 3;

/// The fewest tokens that are worth a change of what the server may have cached.
const LEAST_CLEARED: u64 = 20_000;

/// How often in a row a compaction may gain next to nothing.
const MOST_IN_VAIN: u32 = 3;

/// The fewest tokens in which a dialogue can go on.
const LEAST_ROOM: u64 = 400;

/// What a compaction came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Estimated tokens of the next request before.
    pub before_tokens: u64,
    /// The same afterwards.
    pub after_tokens: u64,
}

/// Why the context is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompactError {
    /// There is nothing that could be summarised.
    #[error("there is nothing to compact yet")]
    Nothing,
    /// No attempt gave a summary.
    #[error(
        "the conversation was not compacted and is as it was: {0}; try /compact again, or /clear"
    )]
    Failed(String),
    /// A person stopped it.
    #[error("the conversation was not compacted and is as it was")]
    Cancelled,
    /// Instructions and tools leave no room.
    #[error(
        "instructions and tools alone take about {fixed} of the {window} tokens of the model's context \
         window: choose a model with a larger one, or shorten the instructions"
    )]
    NoRoom {
        /// What they take.
        fixed: u64,
        /// What there is.
        window: u64,
    },
    /// It was tried again and again and gained nothing.
    #[error(
        "the conversation stays about as long as the model's context window of {window} tokens however often \
         it is compacted: begin anew with /clear, or choose a model with a larger window"
    )]
    InVain {
        /// What there is.
        window: u64,
    },
    /// The dialogue changed meanwhile.
    #[error("the conversation was not compacted: {0}")]
    Changed(#[from] ReduceError),
}

impl Agent {
    fn budget(&self) -> ContextBudget {
        let model = &self.model;
        ContextBudget::new(model.context, model.max_tokens, self.config.compact_at)
    }

    fn estimate(&self) -> u64 {
        budget::estimate(self.session.state(), self.fixed_bytes()).tokens()
    }

    /// Makes the next request fit, if it is known how much does. Costs nothing while there is room.
    pub(super) async fn make_room(&mut self, run: &mut Run) -> Result<(), AgentError> {
        let budget = self.budget();
        let tokens = self.estimate();
        if !budget.should_clear(tokens) {
            self.in_vain = 0;
            return Ok(());
        }
        self.clear_results(tokens, run).await;
        let tokens = self.estimate();
        if !budget.should_compact(tokens) {
            return Ok(());
        }
        let window = budget.window.unwrap_or(u64::MAX);
        let room = self.room();
        if room < LEAST_ROOM || self.in_vain >= MOST_IN_VAIN {
            // A summary would gain nothing. What still fits is sent, and what does not is told.
            return match tokens > window {
                false => Ok(()),
                true if room < LEAST_ROOM => Err(self.no_room(window).into()),
                true => Err(CompactError::InVain { window }.into()),
            };
        }
        self.compact_or_drop(tokens, run).await
    }

    /// What may be said beside instructions and tools; about everything where no window is known.
    fn room(&self) -> u64 {
        let limit = self.budget().limit().unwrap_or(200_000);
        limit.saturating_sub(self.fixed_tokens())
    }

    fn fixed_tokens(&self) -> u64 {
        self.fixed_bytes() as u64 / 4
    }

    fn no_room(&self, window: u64) -> CompactError {
        CompactError::NoRoom { fixed: self.fixed_tokens(), window }
    }

    /// After a server said that the request is too long, whatever is known about its window.
    pub(super) async fn shrink_after_overflow(&mut self, run: &mut Run) -> Result<(), AgentError> {
        self.compact_or_drop(self.estimate(), run).await
    }

    async fn clear_results(&mut self, before: u64, run: &Run) {
        let messages = self.session.messages();
        let Some((cleared, freed)) = clear_old_tool_results(messages, KEPT_STEPS, LEAST_CLEARED)
        else {
            return;
        };
        let results = cleared.len();
        let after = before.saturating_sub(freed);
        let record =
            self.replacement(ReplaceReason::Cleared, Change::Results { cleared }, before, after);
        self.record(&record, run).await;
        let (before_tokens, after_tokens) = (before, after);
        self.emit(AgentEvent::ContextCleared { results, before_tokens, after_tokens }, run).await;
    }

    fn replacement(
        &self,
        reason: ReplaceReason,
        change: Change,
        before: u64,
        after: u64,
    ) -> Record {
        let revision = self.session.state().revision();
        let (before_tokens, after_tokens) = (Some(before), Some(after));
        Record::ContextReplaced { revision, reason, change, before_tokens, after_tokens }
    }

    /// The automatic one: a summary, or a digest where no model gives one.
    async fn compact_or_drop(&mut self, before: u64, run: &mut Run) -> Result<(), AgentError> {
        let summary = self.summarise(None, &run.cancel.clone()).await;
        for usage in &summary.usage {
            run.count(usage.as_ref(), self.model.price.as_ref());
        }
        if run.cancel.is_cancelled() {
            return Ok(());
        }
        let (messages, todos) = (self.session.messages(), self.session.state().todos());
        let (message, reason) = match &summary.text {
            Ok(text) => (
                compact::summarised(text, messages, todos, self.room() / 2),
                ReplaceReason::Compacted,
            ),
            Err(why) => {
                tracing::warn!(%why, "no model summarised the conversation");
                (compact::digested(messages, todos, self.room() / 2), ReplaceReason::Dropped)
            }
        };
        let compacted = self.replace_all(message, reason, before, run).await?;
        let Compacted { before_tokens, after_tokens } = compacted;
        let is_summary = reason == ReplaceReason::Compacted;
        self.emit(AgentEvent::Compacted { before_tokens, after_tokens, is_summary }, run).await;
        self.in_vain = match compact::has_shrunk(compacted.before_tokens, compacted.after_tokens) {
            true => 0,
            false => self.in_vain + 1,
        };
        Ok(())
    }

    async fn replace_all(
        &mut self,
        message: Arc<Message>,
        reason: ReplaceReason,
        before: u64,
        run: &Run,
    ) -> Result<Compacted, CompactError> {
        let upto = self.session.messages().len();
        let after = self.fixed_tokens() + compact::size(&message);
        let change = Change::Head { upto, messages: vec![message] };
        let record = self.replacement(reason, change, before, after);
        self.session.commit(&record)?;
        self.tell_trouble(run).await;
        Ok(Compacted { before_tokens: before, after_tokens: after })
    }

    /// Replaces the dialogue by a summary, because a person wants it; `focus` is what it should look at most.
    ///
    /// # Errors
    /// Why the context is as it was.
    pub async fn compact(
        &mut self,
        focus: Option<&str>,
        cancel: CancellationToken,
    ) -> Result<Compacted, CompactError> {
        let run = Run::new(0, &super::Clock::new(None, cancel.child_token()));
        if self.session.messages().is_empty() {
            return Err(CompactError::Nothing);
        }
        self.recover(&run).await.map_err(|error| CompactError::Failed(error.to_string()))?;
        let room = self.room();
        if room < LEAST_ROOM {
            return Err(self.no_room(self.budget().window.unwrap_or(room)));
        }
        let before = self.estimate();
        let summary = self.summarise(focus, &cancel).await;
        if cancel.is_cancelled() {
            return Err(CompactError::Cancelled);
        }
        let text = summary.text.map_err(CompactError::Failed)?;
        let (messages, todos) = (self.session.messages(), self.session.state().todos());
        let message = compact::summarised(&text, messages, todos, room / 2);
        let compacted = self.replace_all(message, ReplaceReason::Compacted, before, &run).await?;
        self.in_vain = 0;
        Ok(compacted)
    }

    /// Asks for a summary, at most once for each way to ask.
    async fn summarise(&mut self, focus: Option<&str>, cancel: &CancellationToken) -> Summary {
        let mut usage = Vec::new();
        let mut why = String::new();
        for attempt in Attempt::ALL {
            let asked = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                asked = self.ask_for_summary(attempt, focus) => asked,
            };
            match asked {
                Ok(completion) => {
                    usage.push(Some(completion.usage));
                    self.note_cost(&completion.usage);
                    match text_of(completion) {
                        Ok(text) => return Summary { text: Ok(text), usage },
                        Err(fault) => why = fault,
                    }
                }
                Err(error) => {
                    usage.push(None);
                    why = error.to_string();
                    // Another way to ask does not help against anything but length.
                    if !error.is_context_overflow() {
                        break;
                    }
                }
            }
        }
        Summary { text: Err(why), usage }
    }

    async fn ask_for_summary(
        &self,
        attempt: Attempt,
        focus: Option<&str>,
    ) -> Result<Completion, LlmError> {
        let request = self.session.request()?;
        let request = ChatRequest {
            messages: compact::summary_request(&request.messages, attempt, focus),
            tools: Vec::new(),
            tool_choice: None,
            ..request.clone()
        };
        llm::collect(self.provider.stream(&request).await?).await
    }

    /// A summary is paid for like everything else; it says nothing about the size of the context.
    fn note_cost(&mut self, usage: &Usage) {
        let cost_usd = self.model.price.as_ref().and_then(|price| price.cost(usage));
        let revision = self.session.state().revision();
        let record = Record::Usage { step: 0, revision, usage: *usage, cost_usd };
        if let Err(error) = self.session.commit(&record) {
            tracing::error!(%error, "a cost did not fit the session");
        }
    }
}

/// What was asked for, and what each request cost, as far as that was told.
struct Summary {
    text: Result<String, String>,
    usage: Vec<Option<Usage>>,
}

/// The summary in an answer, if it is one.
fn text_of(completion: Completion) -> Result<String, String> {
    let finish = completion.finish.clone();
    if !matches!(finish, FinishReason::EndTurn | FinishReason::StopSequence) {
        return Err(format!("the model ended its summary with {finish:?}"));
    }
    let Some(message) = completion.commit() else {
        return Err("the model answered with nothing".to_owned());
    };
    if message.tool_calls().next().is_some() {
        return Err("the model called a tool instead of writing a summary".to_owned());
    }
    match message.text() {
        text if text.trim().is_empty() => Err("the model answered with nothing".to_owned()),
        text => Ok(text),
    }
}
