//! Decides what a turn does next: a state machine that never acts.
//!
//! The driver in [`agent`](crate::agent) performs each [`Next`] and reports what came of it as the
//! following [`Input`]. Whatever happens in between, a turn ends in exactly one outcome.

use llm::FinishReason;

use crate::event::TurnOutcome;

/// What came of the last action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The user's prompt is in the transcript.
    Prompt,
    /// A completion was committed.
    Sampled {
        /// Why the provider ended it.
        finish: FinishReason,
        /// How many calls the committed message holds.
        calls: usize,
        /// How many notices wait for the model.
        notices: usize,
    },
    /// The notices that waited are in the transcript, in a user message.
    Delivered,
    /// Nothing waited any more when it was to be delivered.
    Withdrawn,
    /// No completion came.
    SampleFailed,
    /// Every call of the batch has its result in the transcript.
    Ran,
    /// A person, a signal or a closed output stopped the turn.
    Cancelled,
    /// The time limit passed.
    OutOfTime,
}

/// What the driver should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Ask the model.
    Sample {
        /// The step's number, from 1.
        step: u32,
    },
    /// Run the calls of the message just committed.
    RunBatch,
    /// Put the notices that wait into the transcript, and go on.
    Deliver,
    /// Stop with this outcome.
    Finish(TurnOutcome),
}

/// One turn: from a prompt to its outcome.
#[derive(Debug, Clone)]
pub struct Turn {
    max_steps: u32,
    steps: u32,
    continuations: u32,
    outcome: Option<TurnOutcome>,
}

/// How often notices keep a turn going that the model would end. What comes later waits for the next.
pub const MAX_CONTINUATIONS: u32 = 20;

impl Turn {
    /// A turn of at most `max_steps` model requests.
    pub fn new(max_steps: u32) -> Self {
        Self { max_steps, steps: 0, continuations: 0, outcome: None }
    }

    /// Model requests made so far.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Whether another request may be made.
    pub fn has_room(&self) -> bool {
        self.steps < self.max_steps
    }

    /// Takes what happened and says what follows. After the end it repeats the outcome.
    pub fn next(&mut self, input: &Input) -> Next {
        if let Some(outcome) = self.outcome {
            return Next::Finish(outcome);
        }
        match input {
            Input::Prompt | Input::Ran | Input::Delivered if self.has_room() => {
                self.steps += 1;
                Next::Sample { step: self.steps }
            }
            Input::Prompt | Input::Ran | Input::Delivered => self.finish(TurnOutcome::MaxSteps),
            Input::Sampled { finish: FinishReason::ToolUse, calls: 1.., .. } => Next::RunBatch,
            Input::Sampled { finish, calls: 0, notices: 1.. } if self.may_continue(finish) => {
                self.continuations += 1;
                Next::Deliver
            }
            Input::Sampled { finish, .. } => self.finish(outcome_of(finish)),
            // Only a turn that would end well delivers.
            Input::Withdrawn => self.finish(TurnOutcome::Done),
            Input::SampleFailed => self.finish(TurnOutcome::Failed),
            Input::Cancelled => self.finish(TurnOutcome::Cancelled),
            Input::OutOfTime => self.finish(TurnOutcome::BudgetExceeded),
        }
    }

    /// Whether the turn would end well and has room for another request.
    fn may_continue(&self, finish: &FinishReason) -> bool {
        outcome_of(finish) == TurnOutcome::Done
            && self.has_room()
            && self.continuations < MAX_CONTINUATIONS
    }

    fn finish(&mut self, outcome: TurnOutcome) -> Next {
        self.outcome = Some(outcome);
        Next::Finish(outcome)
    }
}

/// The outcome of a turn whose last completion ended for this reason, without calls to run.
fn outcome_of(finish: &FinishReason) -> TurnOutcome {
    match finish {
        FinishReason::EndTurn | FinishReason::StopSequence => TurnOutcome::Done,
        FinishReason::MaxTokens | FinishReason::ContextWindow => TurnOutcome::MaxTokens,
        FinishReason::Refusal => TurnOutcome::Refused,
        // "Waiting for tools" without a call, a pause of server-side tools that were never offered,
        // or a reason nobody knows: none of them says that the task is done.
        FinishReason::ToolUse | FinishReason::PauseTurn | FinishReason::Other(_) => {
            TurnOutcome::ProtocolStopped
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(finish: FinishReason, calls: usize) -> Input {
        Input::Sampled { finish, calls, notices: 0 }
    }

    fn done_with(notices: usize) -> Input {
        Input::Sampled { finish: FinishReason::EndTurn, calls: 0, notices }
    }

    #[test]
    fn a_notice_keeps_a_turn_going_that_the_model_would_end() {
        let mut turn = Turn::new(10);
        turn.next(&Input::Prompt);
        assert_eq!(turn.next(&done_with(1)), Next::Deliver);
        assert_eq!(turn.next(&Input::Delivered), Next::Sample { step: 2 });
        assert_eq!(turn.next(&done_with(0)), Next::Finish(TurnOutcome::Done));
    }

    #[test]
    fn a_notice_that_is_taken_back_at_the_last_moment_lets_the_turn_end_well() {
        let mut turn = Turn::new(10);
        turn.next(&Input::Prompt);
        assert_eq!(turn.next(&done_with(1)), Next::Deliver);
        assert_eq!(turn.next(&Input::Withdrawn), Next::Finish(TurnOutcome::Done));
    }

    #[test]
    fn notices_keep_a_turn_going_only_so_often_and_never_past_the_step_limit() {
        let mut turn = Turn::new(1000);
        turn.next(&Input::Prompt);
        for _ in 0..MAX_CONTINUATIONS {
            assert_eq!(turn.next(&done_with(1)), Next::Deliver);
            turn.next(&Input::Delivered);
        }
        assert_eq!(turn.next(&done_with(1)), Next::Finish(TurnOutcome::Done));
        let mut turn = Turn::new(1);
        turn.next(&Input::Prompt);
        assert_eq!(turn.next(&done_with(1)), Next::Finish(TurnOutcome::Done));
    }

    #[test]
    fn a_notice_changes_nothing_about_an_abnormal_end() {
        let mut turn = Turn::new(10);
        turn.next(&Input::Prompt);
        let refused = Input::Sampled { finish: FinishReason::Refusal, calls: 0, notices: 1 };
        assert_eq!(turn.next(&refused), Next::Finish(TurnOutcome::Refused));
    }

    #[test]
    fn a_prompt_is_sampled_run_and_sampled_again_until_the_model_is_done() {
        let mut turn = Turn::new(10);
        assert_eq!(turn.next(&Input::Prompt), Next::Sample { step: 1 });
        assert_eq!(turn.next(&sampled(FinishReason::ToolUse, 2)), Next::RunBatch);
        assert_eq!(turn.next(&Input::Ran), Next::Sample { step: 2 });
        assert_eq!(turn.next(&sampled(FinishReason::EndTurn, 0)), Next::Finish(TurnOutcome::Done));
        assert_eq!(turn.steps(), 2);
    }

    #[test]
    fn the_step_limit_counts_model_requests() {
        let mut turn = Turn::new(1);
        assert_eq!(turn.next(&Input::Prompt), Next::Sample { step: 1 });
        assert_eq!(turn.next(&sampled(FinishReason::ToolUse, 1)), Next::RunBatch);
        assert_eq!(turn.next(&Input::Ran), Next::Finish(TurnOutcome::MaxSteps));
        assert_eq!(turn.steps(), 1);
    }

    #[test]
    fn an_abnormal_finish_runs_no_batch() {
        for (finish, want) in [
            (FinishReason::MaxTokens, TurnOutcome::MaxTokens),
            (FinishReason::ContextWindow, TurnOutcome::MaxTokens),
            (FinishReason::Refusal, TurnOutcome::Refused),
            (FinishReason::PauseTurn, TurnOutcome::ProtocolStopped),
            (FinishReason::Other("odd".into()), TurnOutcome::ProtocolStopped),
            (FinishReason::EndTurn, TurnOutcome::Done),
            (FinishReason::StopSequence, TurnOutcome::Done),
        ] {
            let mut turn = Turn::new(10);
            turn.next(&Input::Prompt);
            assert_eq!(turn.next(&sampled(finish.clone(), 3)), Next::Finish(want), "{finish:?}");
        }
    }

    #[test]
    fn waiting_for_tools_without_a_call_is_not_done() {
        let mut turn = Turn::new(10);
        turn.next(&Input::Prompt);
        assert_eq!(
            turn.next(&sampled(FinishReason::ToolUse, 0)),
            Next::Finish(TurnOutcome::ProtocolStopped)
        );
    }

    #[test]
    fn a_turn_ends_once_whatever_is_reported_afterwards() {
        let mut turn = Turn::new(10);
        turn.next(&Input::Prompt);
        assert_eq!(turn.next(&Input::Cancelled), Next::Finish(TurnOutcome::Cancelled));
        assert_eq!(turn.next(&Input::Ran), Next::Finish(TurnOutcome::Cancelled));
        assert_eq!(
            turn.next(&sampled(FinishReason::EndTurn, 0)),
            Next::Finish(TurnOutcome::Cancelled)
        );
    }

    #[test]
    fn a_failed_sample_and_a_passed_deadline_have_outcomes_of_their_own() {
        let mut turn = Turn::new(10);
        turn.next(&Input::Prompt);
        assert_eq!(turn.next(&Input::SampleFailed), Next::Finish(TurnOutcome::Failed));
        let mut turn = Turn::new(10);
        turn.next(&Input::Prompt);
        assert_eq!(turn.next(&Input::OutOfTime), Next::Finish(TurnOutcome::BudgetExceeded));
    }
}
