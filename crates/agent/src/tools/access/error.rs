//! Why a file could not be had: a refusal by the rules, or a plain failure.

use std::io;
use std::path::PathBuf;

use super::open::OpenError;
use super::replace::ReplaceError;
use crate::tool::ToolError;
use crate::tools::tracker::CHANGED;

/// Why a file could not be had. `path` is always the name the model gave.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The path leads out of every root, by itself or through a symlink.
    #[error("`{path}` lies outside the workspace {}{}; only files inside can be used", workspace.display(), through(target.as_ref()))]
    Outside {
        /// The name.
        path: String,
        /// Where it leads, when that is not its own spelling.
        target: Option<PathBuf>,
        /// Where it would have to lie.
        workspace: PathBuf,
    },
    /// The path must not be changed.
    #[error("`{path}` is protected and cannot be changed: {because}; ask the user to do it")]
    Protected {
        /// The name.
        path: String,
        /// What protects it.
        because: String,
    },
    /// The path matches a mask.
    #[error(
        "`{path}` is masked: files that may hold credentials are neither read nor written; ask the user"
    )]
    Masked {
        /// The name.
        path: String,
    },
    /// The path lies in a root that is open for reading only.
    #[error("`{path}` lies in {}, which may be read but not changed", root.display())]
    ReadOnlyRoot {
        /// The name.
        path: String,
        /// That root.
        root: PathBuf,
    },
    /// The path starts with a tilde, which nothing expands.
    #[error("`{path}`: ~ is not expanded; give a path relative to the workspace")]
    Tilde {
        /// The name.
        path: String,
    },
    /// A `..` follows a symlink, so that the path means one thing spelled and another resolved.
    #[error("`{path}` goes through the symlink {} and back with ..; name the file without ..", link.display())]
    AcrossLink {
        /// The name.
        path: String,
        /// The link.
        link: PathBuf,
    },
    /// The path is a symlink to nothing; writing would create a file at a place nobody named.
    #[error("`{path}`: {} is a symlink to a file that does not exist; name that file itself", link.display())]
    DanglingLink {
        /// The name.
        path: String,
        /// The link.
        link: PathBuf,
    },
    /// The path is empty.
    #[error("the path is empty; give one relative to the workspace")]
    Empty,
    /// The path holds a NUL.
    #[error("the path holds a NUL character")]
    Nul,
    /// The path is a URL.
    #[error("`{path}` is a URL; give a path relative to the workspace")]
    Url {
        /// The name.
        path: String,
    },
    /// A folder where a file is needed.
    #[error("`{path}` is a directory; use glob with path to list what is in it")]
    IsADirectory {
        /// The name.
        path: String,
    },
    /// A file where a folder is needed.
    #[error("`{path}` is not a directory; give the folder to search in")]
    NotADirectory {
        /// The name.
        path: String,
    },
    /// Neither a file nor a folder.
    #[error("`{path}` is a {kind}, not a regular file")]
    NotAFile {
        /// The name.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// More bytes than the tool takes.
    #[error(
        "`{path}` has {size} bytes, more than the {limit} this tool takes; work on it with bash"
    )]
    TooLarge {
        /// The name.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The most that is taken, in bytes.
        limit: u64,
    },
    /// The file changed between reading and replacing it.
    #[error("{CHANGED}")]
    Changed {
        /// The name.
        path: String,
    },
    /// Something appeared where a new file was to be made.
    #[error("`{path}` has appeared meanwhile; read it first")]
    Exists {
        /// The name.
        path: String,
    },
    /// The file system says no.
    #[error("`{path}`: {}", explain(source))]
    Io {
        /// The name.
        path: String,
        /// What it says.
        source: io::Error,
    },
    /// A mask that is no pattern.
    #[error("bad mask: {0}")]
    BadMask(String),
}

impl AccessError {
    /// Whether the rules refused it, whatever the file system would say.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Outside { .. }
            | Self::Protected { .. }
            | Self::Masked { .. }
            | Self::ReadOnlyRoot { .. }
            | Self::Tilde { .. }
            | Self::AcrossLink { .. }
            | Self::DanglingLink { .. } => true,
            Self::Empty
            | Self::Nul
            | Self::Url { .. }
            | Self::IsADirectory { .. }
            | Self::NotADirectory { .. }
            | Self::NotAFile { .. }
            | Self::TooLarge { .. }
            | Self::Changed { .. }
            | Self::Exists { .. }
            | Self::Io { .. }
            | Self::BadMask(_) => false,
        }
    }

    /// Whether nothing is there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn io(path: &str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(super) fn from_open(path: &str, error: OpenError) -> Self {
        let path = path.to_owned();
        match error {
            OpenError::Directory => Self::IsADirectory { path },
            OpenError::Special(kind) => Self::NotAFile { path, kind },
            OpenError::Authority => Self::Protected {
                path,
                because: "what git or anvil obey lies on the way".to_owned(),
            },
            OpenError::Io(source) => Self::Io { path, source },
        }
    }

    pub(super) fn from_replace(path: &str, error: ReplaceError) -> Self {
        match error {
            ReplaceError::Changed => Self::Changed { path: path.to_owned() },
            ReplaceError::Exists => Self::Exists { path: path.to_owned() },
            ReplaceError::Open(error) => Self::from_open(path, error),
        }
    }
}

impl From<AccessError> for ToolError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Empty | AccessError::Nul | AccessError::Url { .. } => {
                Self::InvalidArgs(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

fn through(target: Option<&PathBuf>) -> String {
    target.map_or_else(String::new, |target| format!(": it leads to {}", target.display()))
}

fn explain(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => "no such file or directory; use glob to find it".to_owned(),
        io::ErrorKind::StorageFull => format!("{source}; nothing was changed"),
        _ => source.to_string(),
    }
}
