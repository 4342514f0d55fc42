//! The way from a root to the folder in which something is written, looked at step by step.
//!
//! A path that was judged can mean another folder by the time it is opened. So each folder on the way is
//! opened in the one before, without following a link, and judged by what it is: a git directory, or one of
//! the protected folders, under whatever name.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, Stat, fstat, mkdirat, statat, unlinkat};
use rustix::io::Errno;

use super::open::{self, OpenError};

/// Ways that begin at one root.
pub(super) struct Way<'a> {
    root: &'a OwnedFd,
    /// Device and number of what must not be entered.
    protected: Vec<(u64, u64)>,
}

/// A folder was made on the way, and is taken away again unless the file in it comes to be.
struct Made {
    parent: OwnedFd,
    name: PathBuf,
}

/// The folder at the end of a way.
pub(super) struct Reached {
    folder: OwnedFd,
    made: Vec<Made>,
}

impl<'a> Way<'a> {
    /// From `root` on, and into none of `protected` as they lie now.
    pub(super) fn new(root: &'a OwnedFd, protected: &[PathBuf]) -> Self {
        let identity = |path: &PathBuf| rustix::fs::stat(path).ok().map(|stat| identity(&stat));
        Self { root, protected: protected.iter().filter_map(identity).collect() }
    }

    /// Goes to an existing folder.
    pub(super) fn reach(&self, relative: &Path) -> Result<Reached, OpenError> {
        self.go(relative, false)
    }

    /// Goes to a folder, making what is missing.
    pub(super) fn make(&self, relative: &Path) -> Result<Reached, OpenError> {
        self.go(relative, true)
    }

    fn go(&self, relative: &Path, makes: bool) -> Result<Reached, OpenError> {
        let folder = self.root.as_fd().try_clone_to_owned()?;
        let mut reached = Reached { folder, made: Vec::new() };
        self.judge(&reached.folder)?;
        for part in relative.components() {
            let name = Path::new(part.as_os_str());
            let next = match open::subfolder(&reached.folder, name) {
                Err(error) if makes && error.kind() == io::ErrorKind::NotFound => {
                    reached.add(name)?
                }
                next => next?,
            };
            self.judge(&next)?;
            reached.folder = next;
        }
        Ok(reached)
    }

    /// Whether the folder behind a descriptor may be written into, by what it is.
    fn judge(&self, folder: &OwnedFd) -> Result<(), OpenError> {
        let is_protected = self.protected.contains(&identity(&fstat(folder)?));
        if is_protected || is_git_directory(folder) {
            return Err(OpenError::Authority);
        }
        Ok(())
    }
}

impl Reached {
    /// The folder.
    pub(super) fn folder(&self) -> &OwnedFd {
        &self.folder
    }

    /// Leaves the folders that were made.
    pub(super) fn keep(mut self) {
        self.made.clear();
    }

    fn add(&mut self, name: &Path) -> io::Result<OwnedFd> {
        match mkdirat(&self.folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {
                let parent = self.folder.try_clone()?;
                self.made.push(Made { parent, name: name.to_owned() });
            }
            // Somebody was quicker.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        open::subfolder(&self.folder, name)
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        for Made { parent, name } in self.made.iter().rev() {
            // Fails for a folder that somebody has put something into meanwhile, which then stays.
            if let Err(error) = unlinkat(parent, name, AtFlags::REMOVEDIR) {
                tracing::debug!(folder = %name.display(), %error, "a new folder stays");
            }
        }
    }
}

/// Whether git would take the folder for a repository or for one worktree's part of it.
fn is_git_directory(folder: &OwnedFd) -> bool {
    let is = |name: &str, kind: FileType| {
        statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == kind)
    };
    is("HEAD", FileType::RegularFile)
        && (is("commondir", FileType::RegularFile)
            || (is("objects", FileType::Directory) && is("refs", FileType::Directory)))
}

fn identity(stat: &Stat) -> (u64, u64) {
    #[expect(clippy::unnecessary_cast, reason = "the types differ between systems")]
    (stat.st_dev as u64, stat.st_ino as u64)
}
