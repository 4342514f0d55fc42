//! Why the work could not begin.

use std::{fmt, io};

/// Why the work could not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StartError {
    /// The command line is wrong, or there is no prompt.
    #[error("{0}")]
    Usage(String),
    /// A setting is missing or wrong.
    #[error("{0}")]
    Config(String),
    /// What the work needs comes from a repository that nobody trusted with it.
    #[error("{0}; see `anvil trust`")]
    Untrusted(String),
    /// The session to go on with cannot be used.
    #[error("{0}")]
    Session(String),
}

impl StartError {
    /// What was asked for cannot be.
    pub(crate) fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// A session cannot be used.
    pub(crate) fn session(error: impl fmt::Display) -> Self {
        Self::Session(error.to_string())
    }

    /// Something of the machine failed that the work cannot do without.
    pub(super) fn machine(what: &str, error: &io::Error) -> Self {
        Self::Config(format!("{what}: {error}"))
    }
}
