//! What can go wrong with a recording.

use super::difference::Difference;

/// Why a recording cannot be written, read, or answered from.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file is something else.
    #[error("it does not begin with the line of a recording")]
    NotARecording,
    /// The file is a recording in a format that this program does not know.
    #[error("it is a recording of format version {found}, and this program reads version {known}")]
    Version {
        /// The version of the file.
        found: u64,
        /// The version of this program.
        known: u32,
    },
    /// A line cannot be understood.
    #[error("line {line}: {message}")]
    Line {
        /// Which one, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A request goes elsewhere than the recorded one.
    #[error("request {request} was recorded as {recorded}, and now it is {asked}")]
    Elsewhere {
        /// Which one, from 1.
        request: u64,
        /// Dialect, method and path as recorded.
        recorded: String,
        /// The same as they are now.
        asked: String,
    },
    /// A request is not the recorded one.
    #[error("request {request} is not the recorded one: {difference}")]
    Differs {
        /// Which one, from 1.
        request: u64,
        /// Where they part.
        difference: Difference,
    },
    /// A request comes after the last one of the recording.
    #[error("the recording ends after {requests} requests, and one more was made")]
    Over {
        /// How many it holds.
        requests: u64,
    },
    /// The recorded request got no answer.
    #[error("as recorded: {message}")]
    Failed {
        /// How it failed.
        message: String,
        /// Whether trying again could have helped.
        is_retryable: bool,
    },
    /// The file takes nothing more, for this reason.
    #[error("the recording cannot be written: {0}")]
    Write(String),
}

impl RecordingError {
    /// Whether the same request may succeed when it is sent again.
    pub(crate) fn is_retryable(&self) -> bool {
        matches!(self, Self::Failed { is_retryable: true, .. })
    }

    /// What a person can do about it.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::NotARecording | Self::Version { .. } | Self::Line { .. } => {
                "record the run again with this program"
            }
            Self::Elsewhere { .. } => "replay with the model that was recorded",
            Self::Differs { .. } | Self::Over { .. } => {
                "a replay needs the prompt, the options and the files of the recorded run; after a change, record it again"
            }
            Self::Failed { .. } => "this failure is part of the recording",
            Self::Write(_) => "make room for it, or run without recording",
        }
    }
}
