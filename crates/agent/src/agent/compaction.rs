//! Keeps requests inside the model's window: old results are cleared, then the dialogue is summarised, and
//! where no model summarises it a digest takes its place.

use tokio_util::sync::CancellationToken;

use super::summary::NoSummary;
use super::{Agent, AgentError, Run};
use crate::context::budget::{ContextBudget, ContextEstimate, tokens_of_fixed};
use crate::context::clear::clear_old_tool_results;
use crate::context::compact::{self, Dialogue, Replacement, Rung};
use crate::event::AgentEvent;
use crate::session::record::{Change, Record, ReplaceReason};
use crate::session::reduce::ReduceError;

/// Steps whose results are never cleared.
const KEPT_STEPS: usize = 3;

/// The fewest tokens that are worth a change of what the server may have cached.
const LEAST_CLEARED: u64 = 20_000;

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
    /// A summary would be no shorter.
    #[error(
        "the conversation was not compacted and is as it was: the summary would take about {after} tokens in \
         the place of {before}, which gains nothing; go on, or start over with /clear"
    )]
    NoGain {
        /// Estimated tokens of the dialogue.
        before: u64,
        /// The same of what would take its place.
        after: u64,
    },
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
         it is compacted: start over with /clear, or choose a model with a larger window"
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

    fn estimate(&mut self) -> ContextEstimate {
        self.sizes.estimate(self.session.state(), self.fixed_bytes())
    }

    /// Makes the next request fit, if it is known how much does. Costs nothing while there is room.
    pub(super) async fn make_room(&mut self, run: &mut Run) -> Result<(), AgentError> {
        let budget = self.budget();
        let estimate = self.estimate();
        if !budget.should_clear(estimate.tokens()) {
            self.gains.has_room();
            self.looks.begin_anew();
            return Ok(());
        }
        if let Some(counted) = estimate.baseline {
            self.gains.counted(counted);
        }
        if budget.should_compact(estimate.tokens()) || self.looks.is_due(estimate.tokens()) {
            self.clear_results(estimate.tokens(), run).await;
        }
        let tokens = self.estimate().tokens();
        if !budget.should_compact(tokens) {
            return Ok(());
        }
        let window = budget.window.unwrap_or(u64::MAX);
        let has_room = self.room() >= LEAST_ROOM;
        let still_fits = tokens <= window.saturating_sub(budget.reserve_output);
        if has_room && self.compact_or_drop(tokens, still_fits, run).await? {
            return Ok(());
        }
        // A summary would gain nothing. What still fits is sent, and what does not is told.
        match tokens > window {
            false => Ok(()),
            true if has_room => Err(CompactError::InVain { window }.into()),
            true => Err(self.no_room(window).into()),
        }
    }

    /// What may be said beside instructions and tools; about everything where no window is known.
    fn room(&self) -> u64 {
        let limit = self.budget().limit().unwrap_or(200_000);
        limit.saturating_sub(self.fixed_tokens())
    }

    fn fixed_tokens(&self) -> u64 {
        tokens_of_fixed(self.fixed_bytes())
    }

    fn no_room(&self, window: u64) -> CompactError {
        CompactError::NoRoom { fixed: self.fixed_tokens(), window }
    }

    /// After a server said that the request is too long, whatever is known about its window. Returns whether
    /// it is shorter now.
    pub(super) async fn shrink_after_overflow(
        &mut self,
        run: &mut Run,
    ) -> Result<bool, AgentError> {
        let before = self.estimate().tokens();
        self.compact_or_drop(before, false, run).await
    }

    async fn clear_results(&mut self, before: u64, run: &Run) {
        let state = self.session.state();
        let was_cleared = |id: &str| state.was_cleared(id);
        let old = clear_old_tool_results(state.messages(), was_cleared, KEPT_STEPS, LEAST_CLEARED);
        let Some((cleared, freed)) = old else {
            return self.looks.found_little(before, LEAST_CLEARED);
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

    /// The automatic one: a summary, or a digest where no model gives one. Returns whether the dialogue is
    /// shorter now. What `still_fits` is not given up because a server cannot be asked at this moment.
    async fn compact_or_drop(
        &mut self,
        before: u64,
        still_fits: bool,
        run: &mut Run,
    ) -> Result<bool, AgentError> {
        // Half of what did not fit fits better, also where the window is not what it is said to be.
        let said = Dialogue::of(self.session.state()).tokens();
        let most = (self.room() / 2).min(said / 2);
        let rung = self.gains.rung();
        if most < compact::LEAST || rung == Rung::None {
            return Ok(false);
        }
        let summary = match rung {
            Rung::Summary => Some(self.summarise(None, run).await),
            Rung::Digest | Rung::None => None,
        };
        if run.cancel.is_cancelled() {
            return Ok(true);
        }
        let dialogue = Dialogue::of(self.session.state());
        let (replacement, reason) = match summary {
            Some(Ok(text)) => {
                (compact::summarised(&text, &dialogue, most), ReplaceReason::Compacted)
            }
            Some(Err(NoSummary { why, is_refused: true })) if still_fits => {
                tracing::warn!(%why, "no summary can be had now, and the conversation still fits");
                return Ok(false);
            }
            Some(Err(NoSummary { why, .. })) => {
                tracing::warn!(%why, "no model summarised the conversation");
                (compact::digested(&dialogue, most), ReplaceReason::Dropped)
            }
            None => {
                tracing::warn!("summaries gain nothing any more");
                let most = (most / 2).max(compact::LEAST);
                (compact::digested(&dialogue, most), ReplaceReason::Dropped)
            }
        };
        let compacted = self.replace_all(replacement, reason, before, run).await?;
        let Compacted { before_tokens, after_tokens } = compacted;
        let is_summary = reason == ReplaceReason::Compacted;
        self.emit(AgentEvent::Compacted { before_tokens, after_tokens, is_summary }, run).await;
        self.gains.compacted(before_tokens, after_tokens);
        Ok(true)
    }

    /// The estimate of the next request with another dialogue.
    fn tokens_with(&self, replacement: &Replacement) -> u64 {
        let added = self.fixed_tokens() + replacement.tokens();
        ContextEstimate { baseline: None, added }.tokens()
    }

    async fn replace_all(
        &mut self,
        replacement: Replacement,
        reason: ReplaceReason,
        before: u64,
        run: &Run,
    ) -> Result<Compacted, CompactError> {
        let upto = self.session.messages().len();
        let after = self.tokens_with(&replacement);
        let Replacement { messages, stand_in } = replacement;
        let change = Change::Head { upto, messages, stand_in: Some(stand_in) };
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
        let mut run = Run::new(0, &super::Clock::new(None, cancel));
        if self.session.messages().is_empty() {
            return Err(CompactError::Nothing);
        }
        self.recover(&run).await.map_err(|error| CompactError::Failed(error.to_string()))?;
        let room = self.room();
        if room < LEAST_ROOM {
            return Err(self.no_room(self.budget().window.unwrap_or(room)));
        }
        let before = self.estimate().tokens();
        let summary = self.summarise(focus, &mut run).await;
        if run.cancel.is_cancelled() {
            return Err(CompactError::Cancelled);
        }
        let text = summary.map_err(|none| CompactError::Failed(none.why))?;
        let dialogue = Dialogue::of(self.session.state());
        let replacement = compact::summarised(&text, &dialogue, room / 2);
        // Estimates of both: what a server counted is not to be compared with an estimate.
        let (said, instead) = (dialogue.tokens(), replacement.tokens());
        if instead >= said {
            return Err(CompactError::NoGain { before: said, after: instead });
        }
        let compacted =
            self.replace_all(replacement, ReplaceReason::Compacted, before, &run).await?;
        self.gains.has_room();
        Ok(compacted)
    }
}
