//! Read before write: remembers what the model has seen of each file, by content hash.
//!
//! A hash and not a time stamp: a change within the same second and of the same length is a change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::digest::Digest;
use crate::tool::ToolError;

/// What the model must do before it may change a file it has not seen.
pub const UNREAD: &str = "You must read_file before editing it.";

/// What the model is told when a file is no longer what it has seen.
pub const CHANGED: &str = "File changed on disk since you last read it. Read it again.";

/// What the model has seen of each file. One is shared by all file tools of a session.
#[derive(Debug, Default)]
pub struct FileTracker {
    seen: Mutex<HashMap<PathBuf, Digest>>,
}

impl FileTracker {
    /// Notes that the model now knows `path` with this content, from reading it or writing it.
    ///
    /// `path` is the real path, so that two names of one file are one entry.
    pub fn record_read(&self, path: &Path, content: Digest) {
        self.lock().insert(path.to_owned(), content);
    }

    /// Checks that the model has seen exactly the content that is there now.
    ///
    /// # Errors
    /// [`UNREAD`] or [`CHANGED`], word for word.
    pub fn check_fresh(&self, path: &Path, content: Digest) -> Result<(), ToolError> {
        match self.lock().get(path) {
            None => Err(ToolError::Failed(UNREAD.to_owned())),
            Some(seen) if *seen != content => Err(ToolError::Failed(CHANGED.to_owned())),
            Some(_) => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Digest>> {
        // A map is whole after any panic of another holder: insert and get do not call user code.
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_never_read_is_not_fresh() {
        let error = FileTracker::default().check_fresh(Path::new("/a"), Digest::of(b"x"));
        assert_eq!(error, Err(ToolError::Failed("You must read_file before editing it.".into())));
    }

    #[test]
    fn a_file_with_another_content_than_was_read_is_not_fresh() {
        let tracker = FileTracker::default();
        tracker.record_read(Path::new("/a"), Digest::of(b"x"));
        assert_eq!(tracker.check_fresh(Path::new("/a"), Digest::of(b"x")), Ok(()));
        assert_eq!(
            tracker.check_fresh(Path::new("/a"), Digest::of(b"y")),
            Err(ToolError::Failed(
                "File changed on disk since you last read it. Read it again.".into()
            ))
        );
    }
}
