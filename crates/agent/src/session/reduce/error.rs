//! Why a record does not fit a session.

use llm::IntegrityError;

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
