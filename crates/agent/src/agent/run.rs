//! What one turn gathers on its way, and the clock it runs against.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use llm::Usage;
use llm::models::Price;
use tokio_util::sync::CancellationToken;

use super::AgentError;
use crate::context::prefix::Section;
use crate::event::{Accounting, ErrorInfo, TurnOutcome, TurnSummary, TurnUsage};
use crate::session::record::How;
use crate::turn::{Input, Next, Turn};

/// What one turn gathers on its way.
pub(super) struct Run {
    pub(super) turn: Turn,
    pub(super) cancel: CancellationToken,
    has_run_out: Arc<AtomicBool>,
    started: Instant,
    usage: Usage,
    is_counted: bool,
    /// US dollars so far; `None` once a request was made whose cost is not known.
    pub(super) cost: Option<f64>,
    pub(super) answer: String,
    /// Why the last answer was refused, in the server's words.
    pub(super) explanation: Option<String>,
    pub(super) error: Option<AgentError>,
    /// What of the last request was not as in the one before.
    pub(super) changed: Section,
    /// Whether a request was too long for its server and the dialogue was made shorter for it.
    pub(super) has_overflown: bool,
}

impl Run {
    pub(super) fn new(max_steps: u32, clock: &Clock) -> Self {
        Self {
            turn: Turn::new(max_steps),
            cancel: clock.cancel.clone(),
            has_run_out: Arc::clone(&clock.has_run_out),
            started: Instant::now(),
            usage: Usage::default(),
            is_counted: true,
            cost: Some(0.0),
            answer: String::new(),
            explanation: None,
            error: None,
            changed: Section::Nothing,
            has_overflown: false,
        }
    }

    pub(super) fn fail(&mut self, error: AgentError) -> Next {
        self.error = Some(error);
        self.turn.next(&Input::SampleFailed)
    }

    /// How a call came to its result, which counts as cancelled once the turn is.
    pub(super) fn how(&self, otherwise: How) -> How {
        if self.cancel.is_cancelled() { How::Cancelled } else { otherwise }
    }

    /// What to tell the turn when its token fired.
    pub(super) fn stopped(&self) -> Input {
        match self.has_run_out.load(Ordering::SeqCst) {
            true => Input::OutOfTime,
            false => Input::Cancelled,
        }
    }

    /// Adds what one request cost; a request that told nothing makes the sum a lower bound.
    pub(super) fn count(&mut self, usage: Option<&Usage>, price: Option<&Price>) {
        // Each request by itself: a long one may have a price of its own.
        let cost = usage.zip(price).and_then(|(usage, price)| price.cost(usage));
        self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
        match usage {
            Some(usage) if usage.input.is_some() && usage.output.is_some() => self.usage.add(usage),
            partial => {
                self.is_counted = false;
                self.usage.add(partial.unwrap_or(&Usage::default()));
            }
        }
    }

    pub(super) fn summary(&mut self, outcome: TurnOutcome, model: &str) -> TurnSummary {
        let is_reported = self.is_counted && self.turn.steps() > 0;
        TurnSummary {
            outcome,
            text: std::mem::take(&mut self.answer),
            model: model.to_owned(),
            steps: self.turn.steps(),
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            usage: TurnUsage {
                counts: self.usage,
                accounting: if is_reported { Accounting::Reported } else { Accounting::Unknown },
            },
            cost_usd: self.cost.filter(|_| self.turn.steps() > 0),
            verification: None,
            error: self.error.as_ref().map(AgentError::info).or_else(|| self.refusal(outcome)),
        }
    }

    /// What a server said about its refusal, as the summary's error.
    fn refusal(&self, outcome: TurnOutcome) -> Option<ErrorInfo> {
        let message = self.explanation.clone().filter(|_| outcome == TurnOutcome::Refused)?;
        Some(ErrorInfo { kind: "refused".to_owned(), message })
    }
}

/// The wall-time limit of a turn: cancels its token when the time is over.
pub(super) struct Clock {
    limit: Option<Duration>,
    cancel: CancellationToken,
    has_run_out: Arc<AtomicBool>,
}

impl Clock {
    pub(super) fn new(limit: Option<Duration>, cancel: CancellationToken) -> Self {
        Self { limit, cancel, has_run_out: Arc::default() }
    }

    /// Waits for the work, which ends soon after its token was cancelled.
    pub(super) async fn limit<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let Some(limit) = self.limit else { return work.await };
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(limit) => {}
        }
        // A turn that a person stopped before its time did not run out of it.
        if !self.cancel.is_cancelled() {
            self.has_run_out.store(true, Ordering::SeqCst);
            self.cancel.cancel();
        }
        work.await
    }
}
