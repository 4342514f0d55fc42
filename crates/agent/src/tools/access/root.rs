//! A folder that is open to tools, held by a descriptor.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::{AccessError, open};

/// What a root is open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenFor {
    Reading,
    /// And reading.
    Writing,
}

/// A root as it was given and as it lies.
#[derive(Debug)]
pub(super) struct Root {
    /// As it was given, which is how a model may name it.
    given: PathBuf,
    folder: Arc<RootFolder>,
    open_for: OpenFor,
}

impl Root {
    pub(super) fn new(given: PathBuf, open_for: OpenFor) -> Result<Self, AccessError> {
        let folder = given.canonicalize().and_then(|real| RootFolder::open(&real));
        let folder =
            folder.map_err(|error| AccessError::io(&given.display().to_string(), error))?;
        Ok(Self { given, folder: Arc::new(folder), open_for })
    }

    /// Its path without symlinks.
    pub(super) fn real(&self) -> &Path {
        self.folder.real()
    }

    pub(super) fn given(&self) -> &Path {
        &self.given
    }

    pub(super) fn folder(&self) -> &Arc<RootFolder> {
        &self.folder
    }

    pub(super) fn open_for(&self) -> OpenFor {
        self.open_for
    }
}

/// The folder itself, opened once: whatever takes its name later is another one.
#[derive(Debug)]
pub(super) struct RootFolder {
    real: PathBuf,
    folder: RwLock<Arc<OwnedFd>>,
}

impl RootFolder {
    /// Opens a folder by its real path.
    pub(super) fn open(real: &Path) -> io::Result<Self> {
        let folder = RwLock::new(Arc::new(open::root(real)?));
        Ok(Self { real: real.to_owned(), folder })
    }

    pub(super) fn real(&self) -> &Path {
        &self.real
    }

    /// Its descriptor. A folder that was deleted and made again, as builds and checkouts do, is opened
    /// again: nothing can be in the deleted one any more.
    pub(super) fn folder(&self) -> io::Result<Arc<OwnedFd>> {
        let folder = Arc::clone(&self.folder.read().unwrap_or_else(PoisonError::into_inner));
        if rustix::fs::fstat(&*folder)?.st_nlink > 0 {
            return Ok(folder);
        }
        let again = Arc::new(open::root(&self.real)?);
        *self.folder.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&again);
        Ok(again)
    }
}
