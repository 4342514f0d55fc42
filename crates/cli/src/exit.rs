//! The table of exit codes, and which one a finished run gets.

use std::process::ExitCode;

use agent::TurnOutcome;

use crate::signals::Stop;

/// How the process ends. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Finished.
    Done,
    /// A network, provider or internal error.
    Failed,
    /// The step limit ended the turn.
    MaxSteps,
    /// The answer was cut off.
    MaxTokens,
    /// The model or a filter refused.
    Refused,
    /// An abnormal provider completion.
    ProtocolStopped,
    /// A required verifier did not confirm the result.
    VerificationFailed,
    /// Cost or wall time ran out.
    BudgetExceeded,
    /// The command line is wrong, or there is no prompt.
    Usage,
    /// What the work needs comes from configuration that is not trusted.
    Untrusted,
    /// A setting is missing or wrong.
    Config,
    /// A signal, or a reader that went away.
    Stopped(Stop),
}

impl Exit {
    /// The exit of a turn. `stop` is what cancelled it, if something did.
    pub(crate) fn of(outcome: TurnOutcome, stop: Option<Stop>) -> Self {
        match outcome {
            TurnOutcome::Done => Self::Done,
            TurnOutcome::Failed => Self::Failed,
            TurnOutcome::MaxSteps => Self::MaxSteps,
            TurnOutcome::MaxTokens => Self::MaxTokens,
            TurnOutcome::Refused => Self::Refused,
            TurnOutcome::ProtocolStopped => Self::ProtocolStopped,
            TurnOutcome::VerificationFailed => Self::VerificationFailed,
            TurnOutcome::BudgetExceeded => Self::BudgetExceeded,
            TurnOutcome::Cancelled => Self::Stopped(stop.unwrap_or(Stop::Interrupted)),
        }
    }

    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::MaxSteps => 2,
            Self::MaxTokens => 3,
            Self::Refused => 4,
            Self::ProtocolStopped => 5,
            Self::VerificationFailed => 6,
            Self::BudgetExceeded => 7,
            Self::Usage => 64,
            Self::Untrusted => 77,
            Self::Config => 78,
            Self::Stopped(stop) => stop.code(),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The part of `--help` that scripts need.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done                    4  refused               64  usage error
    1  failed                  5  protocol_stopped      77  needs trust (anvil trust)
    2  max_steps               6  verification_failed   78  configuration error
    3  max_tokens              7  budget_exceeded      129  terminal is gone (SIGHUP)
                                                       130  interrupted (SIGINT)
                                                       141  standard output was closed
                                                       143  terminated (SIGTERM)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_code_and_only_done_is_zero() {
        let outcomes = [
            (TurnOutcome::Done, 0),
            (TurnOutcome::Failed, 1),
            (TurnOutcome::MaxSteps, 2),
            (TurnOutcome::MaxTokens, 3),
            (TurnOutcome::Refused, 4),
            (TurnOutcome::ProtocolStopped, 5),
            (TurnOutcome::VerificationFailed, 6),
            (TurnOutcome::BudgetExceeded, 7),
            (TurnOutcome::Cancelled, 130),
        ];
        for (outcome, code) in outcomes {
            assert_eq!(Exit::of(outcome, None).code(), code, "{outcome:?}");
        }
    }

    #[test]
    fn a_cancelled_turn_ends_with_the_code_of_what_cancelled_it() {
        let code = |stop| Exit::of(TurnOutcome::Cancelled, Some(stop)).code();
        assert_eq!(code(Stop::Interrupted), 130);
        assert_eq!(code(Stop::Terminated), 143);
        assert_eq!(code(Stop::HungUp), 129);
        assert_eq!(code(Stop::OutputClosed), 141);
    }

    #[test]
    fn the_help_lists_the_code_of_every_end() {
        let outcomes = 0..=7;
        let stops = [Stop::HungUp, Stop::Interrupted, Stop::OutputClosed, Stop::Terminated];
        let others = [Exit::Usage.code(), Exit::Untrusted.code(), Exit::Config.code()];
        for code in outcomes.chain(others).chain(stops.map(Stop::code)) {
            let code = code.to_string();
            assert!(HELP.split_whitespace().any(|word| word == code), "{code} is not in the help");
        }
    }

    #[test]
    fn a_turn_that_finished_in_spite_of_a_late_signal_is_done() {
        assert_eq!(Exit::of(TurnOutcome::Done, Some(Stop::Interrupted)), Exit::Done);
    }
}
