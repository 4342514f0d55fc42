//! What can go wrong with the file of a session.

use std::io;
use std::path::{Path, PathBuf};

use crate::session::record::LineError;
use crate::session::reduce::ReduceError;

/// Why a record was not kept, or a file not opened.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The machine refused.
    #[error("the session cannot be saved in {}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// Another program has it open.
    #[error(
        "the session in {} is in use by another anvil; --fork-session continues a copy",
        .path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file was deleted while it was written.
    #[error("the session is not kept: {} was removed while it was written", .path.display())]
    Removed {
        /// Where it was.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl JournalError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}

/// Why a session cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The machine refused.
    #[error("the session in {} cannot be read: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// There is not one whole record in it.
    #[error("the session in {} is empty: its first record was never finished", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line is not a record.
    #[error("{}, line {line}: {error}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        error: LineError,
    },
    /// The numbers of the records do not go on.
    #[error(
        "{}, line {line}: it is record {found}, where record {expected} has to be: lines are missing or \
         double",
        .path.display()
    )]
    Sequence {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// The number that is there.
        found: u64,
        /// The number that has to be there.
        expected: u64,
    },
    /// A record does not fit what comes before it.
    #[error("{}, line {line}: {error}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// Why not.
        error: ReduceError,
    },
}

impl LoadError {
    /// The line that is wrong, counted from 1, if one is.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Io { .. } | Self::Empty { .. } => None,
            Self::Line { line, .. } | Self::Sequence { line, .. } | Self::Record { line, .. } => {
                Some(*line)
            }
        }
    }
}
