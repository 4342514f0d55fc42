//! What a turn tells the people and programs that watch it.

use llm::{Phase, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::steering::notice::Notice;

/// One thing that happened in a turn, in order.
///
/// The JSON form is what `--output-format stream-json` prints, one line an event, with `seq` and
/// `session_id` added by the writer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// A session began; the first event of every run.
    SessionStarted {
        /// Version of the event format.
        schema_version: u32,
        /// `provider:model-id`.
        model: String,
        /// The workspace.
        cwd: String,
        /// Names of the tools on offer, in the model's order.
        tools: Vec<String>,
    },
    /// A model request is about to be sent.
    StepStarted {
        /// Counted from 1 in each turn.
        step: u32,
    },
    /// Where the running request stands; a phase that a slow watcher has not seen gives way to the next,
    /// unless it is a new attempt.
    Phase(Phase),
    /// A piece of the answer's text.
    TextDelta {
        /// What to append.
        text: String,
    },
    /// A piece of visible reasoning.
    ReasoningDelta {
        /// What to append.
        text: String,
    },
    /// A committed call begins (before any question about it is asked).
    ToolCallStarted {
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        args: Value,
    },
    /// Live output of a running call; may be dropped when the watcher is slow.
    ToolOutput {
        /// The call's id.
        id: String,
        /// What appeared.
        chunk: String,
    },
    /// A call ended.
    ToolCallFinished {
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
        /// Whether it failed or was refused.
        is_error: bool,
        /// What a person should see: a diff, or the head of the result. Bounded.
        preview: String,
    },
    /// Token counts of the step that just ended.
    Usage {
        /// The counts of this step.
        #[serde(flatten)]
        usage: Usage,
    },
    /// The step failed; nothing of its answer entered the transcript.
    StepFailed {
        /// Which step.
        step: u32,
        /// What went wrong.
        error: ErrorInfo,
    },
    /// Old results of tools gave way in what the model is sent.
    ContextCleared {
        /// How many.
        results: usize,
        /// Estimated tokens of the next request before.
        before_tokens: u64,
        /// The same afterwards.
        after_tokens: u64,
    },
    /// A summary took the place of the dialogue in what the model is sent.
    Compacted {
        /// Estimated tokens of the next request before.
        before_tokens: u64,
        /// The same afterwards.
        after_tokens: u64,
        /// Whether a model wrote it; else it is a digest of the dialogue's last parts.
        is_summary: bool,
    },
    /// The session cannot be saved; told once until it can be again.
    SessionTrouble {
        /// What keeps it from being saved.
        message: String,
    },
    /// What was said while the turn ran is in the dialogue now.
    NoticesDelivered {
        /// In the order in which the model reads them.
        notices: Vec<Notice>,
    },
    /// A required verifier did not confirm the result.
    VerificationFailed {
        /// Which verifier.
        verifier: String,
        /// Why.
        reason: String,
    },
    /// The turn is over; exactly once, last, whatever happened.
    TurnFinished(TurnSummary),
}

/// How a turn ended, with all that a script needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnSummary {
    /// The outcome.
    pub outcome: TurnOutcome,
    /// The committed final answer; empty where there is none.
    pub text: String,
    /// `provider:model-id`.
    pub model: String,
    /// Model requests made.
    pub steps: u32,
    /// Wall time of the turn in milliseconds.
    pub duration_ms: u64,
    /// Token counts of the whole turn.
    pub usage: TurnUsage,
    /// Cost in US dollars; absent where no price is known.
    pub cost_usd: Option<f64>,
    /// What a required verifier said; absent without one.
    pub verification: Option<Value>,
    /// What went wrong; absent when nothing did.
    pub error: Option<ErrorInfo>,
}

/// Token counts and how far they can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnUsage {
    /// The counts; what no server told is null.
    #[serde(flatten)]
    pub counts: Usage,
    /// Where they come from.
    pub accounting: Accounting,
}

/// Where token counts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accounting {
    /// Every request was counted by its server.
    Reported,
    /// At least one count is our own estimate.
    Estimated,
    /// At least one request was not counted.
    Unknown,
}

/// An error in the words of the command-line contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// A short stable name such as `usage`, `config`, `auth`, `network`, `rate_limit`.
    pub kind: String,
    /// The whole error in words, with the way to go on where there is one.
    pub message: String,
}

/// The one way a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The model finished.
    Done,
    /// An error ended it.
    Failed,
    /// The step limit ended it.
    MaxSteps,
    /// The answer was cut off by a token limit; provisional calls were not run.
    MaxTokens,
    /// The model or a filter refused.
    Refused,
    /// The provider ended the answer in a way that allows neither trust nor retry.
    ProtocolStopped,
    /// A required verifier did not confirm the result.
    VerificationFailed,
    /// The cost or time limit ended it.
    BudgetExceeded,
    /// A person or a signal stopped it.
    Cancelled,
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn summary(outcome: TurnOutcome) -> TurnSummary {
        TurnSummary {
            outcome,
            text: String::new(),
            model: "test:m".into(),
            steps: 0,
            duration_ms: 0,
            usage: TurnUsage { counts: Usage::default(), accounting: Accounting::Unknown },
            cost_usd: None,
            verification: None,
            error: None,
        }
    }

    #[test]
    fn events_are_tagged_in_snake_case_and_usage_lies_flat() {
        let usage = Usage { input: Some(3), ..Usage::default() };
        assert_eq!(
            serde_json::to_value(AgentEvent::Usage { usage }).unwrap(),
            json!({
                "type": "usage", "input_tokens": 3, "output_tokens": null,
                "cache_read_tokens": null, "cache_write_tokens": null,
            })
        );
        let finished = AgentEvent::TurnFinished(summary(TurnOutcome::ProtocolStopped));
        let value = serde_json::to_value(finished).unwrap();
        assert_eq!(
            (&value["type"], &value["outcome"]),
            (&json!("turn_finished"), &json!("protocol_stopped"))
        );
        assert_eq!(value["usage"]["accounting"], json!("unknown"));
    }
}
