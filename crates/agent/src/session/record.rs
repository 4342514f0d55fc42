//! What can happen to a session, as records: the lines of its file.
//!
//! A line is one JSON object: `{"v":1,"seq":0,"ts":1764547200000,"type":"message_appended",…}`. `v` is
//! the version of this format, `seq` counts from 0 without a gap, `ts` is in milliseconds since 1970
//! (UTC) and orders nothing. `"critical":true` stands on lines without which the dialogue cannot be
//! rebuilt. Fields that are added later are optional, so that old files load for ever.

mod line;
mod path;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use llm::{ContentBlock, Message};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::line::parse;
pub use self::line::{Envelope, LineError, VERSION, read, write};

use crate::event::TurnOutcome;

/// One thing that happened to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Record {
    /// The first record of every file, and never another one.
    SessionStarted(Meta),
    /// What every request begins with from here on.
    SystemStamped {
        /// The whole system text, as it is sent.
        text: String,
        /// Its SHA-256 in hexadecimal.
        digest: String,
        /// Why it was made.
        reason: StampReason,
        /// What it was made from that a run which goes on compares; not in files of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        basis: Option<Basis>,
    },
    /// A message of its own: a prompt or an answer.
    MessageAppended {
        /// The message.
        message: Arc<Message>,
        /// Ids of the notices that it delivers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<String>,
    },
    /// Blocks that join the last message, which a user said.
    MessageExtended {
        /// Text and images.
        content: Vec<ContentBlock>,
        /// Ids of the notices that they deliver.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<String>,
    },
    /// The finished calls of the last message become the user message that answers them. Their results
    /// are not repeated here: they are those of the calls' `tool_finished`.
    ResultsAppended {
        /// The calls, in their order.
        call_ids: Vec<String>,
        /// Blocks behind the results.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        extra: Vec<ContentBlock>,
        /// Ids of the notices that `extra` delivers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<String>,
    },
    /// What the model is sent of the dialogue changed; what was said stays in the records before.
    ContextReplaced {
        /// The revision of the context that it was made from: another one refuses it.
        revision: u64,
        /// Why.
        reason: ReplaceReason,
        /// What changed.
        change: Change,
        /// Estimated tokens before, where they were known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before_tokens: Option<u64>,
        /// Estimated tokens afterwards.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_tokens: Option<u64>,
    },
    /// Another model answers from here on.
    ModelChanged {
        /// How people write it: `provider:model-id`.
        model: String,
    },
    /// The list of what is to be done changed.
    TodosChanged {
        /// All of it.
        todos: Value,
    },
    /// A call is about to run. On disk before it does.
    ToolStarted {
        /// The call.
        call_id: String,
        /// Its tool.
        tool: String,
        /// What it will do to files, as far as that can be told beforehand.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        intended: Vec<Intended>,
    },
    /// A call has its result, whether it ran or not.
    ToolFinished {
        /// The call.
        call_id: String,
        /// The result for the model, a `tool_result`.
        result: ContentBlock,
        /// How it came to it.
        how: How,
    },
    /// What a request cost.
    Usage {
        /// Which step of its turn, from 1; 0 for a summary that was asked for beside the dialogue.
        step: u32,
        /// The revision of the context that was sent.
        revision: u64,
        /// What the server counted.
        usage: llm::Usage,
        /// US dollars, where the price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// A turn is over.
    TurnFinished {
        /// How.
        outcome: TurnOutcome,
        /// Model requests made.
        steps: u32,
        /// US dollars, where all of it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The state of the workspace was kept. Read, and not written yet.
    CheckpointRecorded {
        /// Its id.
        id: String,
        /// What its maker keeps about it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        data: Value,
    },
}

impl Record {
    /// Whether a reader that does not know it could not rebuild the dialogue.
    fn is_critical(&self) -> bool {
        !matches!(
            self,
            Self::TodosChanged { .. }
                | Self::Usage { .. }
                | Self::TurnFinished { .. }
                | Self::CheckpointRecorded { .. }
        )
    }
}

/// What a session is, told once at its beginning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The session's id.
    pub id: String,
    /// The workspace.
    #[serde(with = "path")]
    pub cwd: PathBuf,
    /// The model that was asked first: `provider:model-id`.
    pub model: String,
    /// The version of the program that began it.
    #[serde(default)]
    pub anvil: String,
    /// How commands were confined, in the words of `--sandbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// How much happened without asking, in the words of `--permission-mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// Where it was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Fork>,
}

/// The session and the place in it that another one was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// The other session.
    pub id: String,
    /// Its last record that was copied.
    pub seq: u64,
}

/// What a system text was made from, as far as another run may not go on with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// A digest of how commands were confined.
    pub sandbox: String,
    /// A digest of the base that the repository was trusted with, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

/// Why a system text was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampReason {
    /// The session began.
    Start,
    /// Another model is asked.
    Model,
    /// Commands are confined in another way.
    Sandbox,
    /// The repository was trusted, or is no longer.
    Trust,
    /// The dialogue was forgotten.
    Cleared,
}

/// Why the context was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplaceReason {
    /// Old results gave way.
    Cleared,
    /// A summary took the place of what was said.
    Compacted,
    /// A digest made without a model took its place.
    Dropped,
    /// A person wanted to begin anew.
    Forgotten,
}

/// What of a context is replaced by what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// The first messages become others.
    Head {
        /// How many.
        upto: usize,
        /// What stands in their place.
        messages: Vec<Arc<Message>>,
        /// What of the first of them stands for a dialogue. Files from before it was kept do not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stand_in: Option<StandIn>,
    },
    /// The content of some results becomes another one.
    Results {
        /// Which, and what.
        cleared: Vec<ClearedResult>,
    },
}

/// What of a message stands for a dialogue, so that nobody has to tell it from its words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandIn {
    /// How many of its blocks do; what a user says later joins the message behind them.
    pub blocks: usize,
    /// Which of those are the user's own, a range of blocks for each message that was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Range<usize>>,
    /// Files that were changed in that dialogue, the last one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// A result that gave way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearedResult {
    /// The call that it answers.
    pub call_id: String,
    /// What the model reads now; pictures are gone.
    pub content: String,
}

/// What a call will make of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intended {
    /// The file, absolute.
    #[serde(with = "path")]
    pub path: PathBuf,
    /// SHA-256 of its content before, in hexadecimal; nothing where there is no file.
    pub before: Option<String>,
    /// The same for what it shall hold.
    pub after: Option<String>,
}

/// How a call came to its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It ran.
    Ran,
    /// It was not allowed.
    Refused,
    /// The turn was cancelled before or while it ran.
    Cancelled,
    /// The program ended before it began.
    NotStarted,
    /// The program ended while it ran, and nobody knows how far it came.
    Unknown,
}
