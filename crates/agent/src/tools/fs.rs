//! read_file, write_file and edit_file: what they share.
//!
//! Files are bytes here. Text is what the model is shown and what it sends; nothing that it did not ask
//! to change is ever decoded and written back.

mod context;
mod diff;
mod edit;
mod hints;
mod read;
mod splice;
mod text;
mod window;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::digest::Digest;
use crate::secrets::redact::is_marked;
use crate::session::record::Intended;
use crate::tool::{PathSet, ToolContext, ToolError};
use crate::tools::access::{FileAccess, ReadPath};
use crate::tools::off_runtime::off_runtime;
use crate::tools::tracker::FileTracker;

pub use edit::{EditFile, EditFileArgs};
pub use read::{ReadFile, ReadFileArgs};
pub(super) use text::PROBE_BYTES;
pub use write::{WriteFile, WriteFileArgs};

/// The largest file, in bytes, that is edited or replaced: it lies in memory twice meanwhile.
const MAX_EDITED_BYTES: u64 = 32 * 1024 * 1024;

/// What the file tools of a session share.
#[derive(Debug, Clone)]
pub struct Files {
    /// Which files may be touched.
    pub access: Arc<FileAccess>,
    /// Which contents the model has seen.
    pub tracker: Arc<FileTracker>,
}

impl Files {
    /// File tools over `access`, with nothing seen yet.
    pub fn new(access: Arc<FileAccess>) -> Self {
        Self { access, tracker: Arc::default() }
    }

    /// SHA-256 of the file at `path`, see [`Tool::fingerprint`](crate::tool::Tool::fingerprint).
    async fn fingerprint(&self, path: &Path, ctx: &ToolContext) -> Option<Option<String>> {
        let (files, ctx, path) = (self.clone(), ctx.clone(), path.to_owned());
        let cancel = ctx.cancel.clone();
        let looked = off_runtime(&cancel, move || {
            let path = files.access.for_reading(&ctx.cwd, &path.to_string_lossy(), &ctx.grants)?;
            if !files.access.is_there(&path)? {
                return Ok(None);
            }
            let content = files.access.read(&path, MAX_EDITED_BYTES)?;
            Ok(Some(Digest::of(&content).to_string()))
        });
        looked.await.ok()
    }

    /// A whole file that is to be changed.
    fn read_for_change(&self, path: &ReadPath, named: &str) -> Result<Vec<u8>, ToolError> {
        let content = self.access.read(path, MAX_EDITED_BYTES)?;
        match text::not_text(&content) {
            Some(kind) => Err(ToolError::Failed(format!("`{named}` {kind}"))),
            None => Ok(content),
        }
    }
}

/// What a call will make of one file.
fn intended(path: &Path, before: Option<&[u8]>, after: &[u8]) -> Intended {
    let hash = |content: &[u8]| Digest::of(content).to_string();
    Intended { path: path.to_owned(), before: before.map(hash), after: Some(hash(after)) }
}

fn only(named: &str) -> PathSet {
    PathSet::Paths(vec![PathBuf::from(named)])
}

/// A call that was cancelled before it changed anything.
fn check_cancel(cancel: &CancellationToken) -> Result<(), ToolError> {
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled("cancelled; nothing was changed".to_owned()));
    }
    Ok(())
}

/// A secret stands as a marker in all that the model was shown. Written back, the marker would take the
/// place of the secret.
fn demand_no_marker(new: &str, before: &[u8]) -> Result<(), ToolError> {
    if is_marked(new) && !is_marked(&String::from_utf8_lossy(before)) {
        return Err(ToolError::Failed(
            "the new text holds a marker that stands for a secret which was taken out of what you were \
             shown. Leave the secret where it is: change the text around it with edit_file, and keep the \
             marker out of old_string and new_string."
                .to_owned(),
        ));
    }
    Ok(())
}

/// Contents before and after a change.
type Change = (Vec<u8>, Vec<u8>);

/// A diff of all that a call would do. When it would fail, the reason and all that it asks for: what
/// makes it fail may have changed by the time it runs. Nothing where that is too much to compare; the
/// call's arguments are shown instead then.
fn preview_of(
    named: &str,
    plan: Result<Change, ToolError>,
    asked: impl FnOnce() -> Change,
) -> Option<String> {
    match plan {
        Ok((before, after)) => diff::whole(named, &before, &after),
        Err(error) => {
            let (before, after) = asked();
            let asked = diff::whole(named, &before, &after)?;
            Some(format!("this call would fail: {error}\nwhat it asks for:\n{asked}"))
        }
    }
}

/// The note on hard links, empty for a file with one name.
fn links_note(named: &str, other_links: u64) -> String {
    match other_links {
        0 => String::new(),
        count => {
            format!("\n[`{named}` had {count} other hard link(s); they keep the old content.]")
        }
    }
}

#[cfg(test)]
mod tests;
