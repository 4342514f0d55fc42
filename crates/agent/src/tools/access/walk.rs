//! Walks the files below a folder that a tool may see, in several threads.
//!
//! Left out: what `.gitignore`, `.ignore` and the user's own git excludes name, inside and outside of
//! git repositories, `.git`, masked files, and whatever lies behind a symlink. Hidden files are seen.

use std::ffi::OsStr;
use std::fs::FileType;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use super::names::is_git;
use super::root::Root;
use super::spell::join;
use super::{Asked, FileAccess, Intent, Masks, ReadPath, below, open};
use crate::tool::Grants;

/// More threads than this wait for each other more than for the disk.
const MAX_THREADS: usize = 8;

/// Where a walk starts and which part of it is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route<'a> {
    /// The folder.
    pub(crate) start: &'a ReadPath,
    /// Only what lies below this folder, relative to the start. May be empty.
    pub(crate) below: &'a Path,
}

/// What a walk left out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Masked files and folders.
    pub(crate) masked: usize,
    /// Folders that could not be read.
    pub(crate) unreadable: usize,
    /// The start itself is ignored; it was searched because it was named.
    pub(crate) start_is_ignored: bool,
}

/// A file that a walk came by.
#[derive(Debug)]
pub(crate) struct Walked<'w> {
    entry: DirEntry,
    kind: FileType,
    within: Within<'w>,
}

/// The root that a walk goes through.
#[derive(Debug, Clone, Copy)]
struct Within<'w> {
    real: &'w Path,
    folder: &'w OwnedFd,
}

impl Walked<'_> {
    /// Its path, without symlinks except perhaps itself.
    pub(crate) fn real(&self) -> &Path {
        self.entry.path()
    }

    /// Its path from the start of the walk on.
    pub(crate) fn relative_to(&self, start: &Path) -> &Path {
        rest(self.entry.path(), start)
    }

    /// Whether it is a symlink, whatever to.
    pub(crate) fn is_link(&self) -> bool {
        self.kind.is_symlink()
    }

    /// When it was last changed; the oldest time there is where that is unknown.
    pub(crate) fn modified(&self) -> SystemTime {
        let modified = self.entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Opens it. Refuses what is not a regular file any more.
    pub(crate) fn open(&self) -> std::io::Result<std::fs::File> {
        open::walked(self.within.folder, rest(self.entry.path(), self.within.real))
    }
}

impl FileAccess {
    /// Calls a visitor for every file and symlink on the route, in no order. `visitor` is asked for one
    /// visitor per thread. Ends early when cancelled.
    pub(crate) fn walk<V: FnMut(&Walked<'_>) + Send>(
        &self,
        route: Route<'_>,
        cancel: &CancellationToken,
        visitor: impl Fn() -> V + Sync,
    ) -> LeftOut {
        let start = route.start.real();
        let Ok(folder) = route.start.root.folder() else {
            return LeftOut { unreadable: 1, ..LeftOut::default() };
        };
        let within = Within { real: route.start.root.real(), folder: &folder };
        let root = self.root_of(start).unwrap_or(start);
        let target = join(start, route.below);
        // From the root on, so that the ignore files above the start count.
        let in_git = is_in_git(root);
        let mask_roots = self.roots_around_and_in(start);
        let walk = Walk {
            root,
            target: &target,
            start,
            masks: &self.masks,
            mask_roots: &mask_roots,
            in_git,
            within,
        };
        let (left_out, reached) = walk.run(cancel, &visitor);
        if reached || cancel.is_cancelled() {
            return left_out;
        }
        let walk = Walk { root: start, in_git: false, ..walk };
        let (again, _) = walk.run(cancel, &visitor);
        LeftOut { start_is_ignored: true, ..again }
    }

    /// Whether a symlink that a walk came by leads to a file that may be read.
    pub(crate) fn leads_to_readable_file(&self, link: &Walked<'_>) -> bool {
        let grants = Grants::default();
        let asked = Asked { named: "", intent: Intent::Read, grants: &grants };
        link.real().canonicalize().is_ok_and(|real| {
            self.admit(&real, asked).is_ok() && !self.has_git_part(&real) && real.is_file()
        })
    }

    /// The roots whose masks a walk from `start` on can meet, wherever the walk itself begins.
    fn roots_around_and_in(&self, start: &Path) -> Vec<PathBuf> {
        let roots = self.roots.iter().map(Root::real);
        let mut on_the_way: Vec<PathBuf> =
            roots.filter(|root| is_on_the_way(root, start)).map(Path::to_owned).collect();
        if on_the_way.is_empty() {
            // Opened for one call; its path is judged from the top on.
            on_the_way.push(PathBuf::from("/"));
        }
        on_the_way
    }

    /// Whether searches stay out of it because it is git's own.
    pub(crate) fn has_git_part(&self, real: &Path) -> bool {
        let root = self.root_of(real).unwrap_or(Path::new(""));
        below(real, root).components().any(|part| is_git(part.as_os_str()))
    }
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    root: &'a Path,
    target: &'a Path,
    start: &'a Path,
    masks: &'a Arc<Masks>,
    mask_roots: &'a [PathBuf],
    /// Whether the root lies in a git repository. If so, ignore files count as they do for git, from
    /// the repository's top on; if not, those from the root on, and none of a folder above it.
    in_git: bool,
    within: Within<'a>,
}

impl Walk<'_> {
    fn run<V: FnMut(&Walked<'_>) + Send>(
        &self,
        cancel: &CancellationToken,
        visitor: &(impl Fn() -> V + Sync),
    ) -> (LeftOut, bool) {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let filter = Arc::new(Filter::new(self));
        let within = self.within;
        let unreadable = AtomicUsize::new(0);
        let mut builder = WalkBuilder::new(self.root);
        builder
            .hidden(false)
            .require_git(self.in_git)
            .parents(self.in_git)
            .threads(threads.min(MAX_THREADS));
        let admitted = Arc::clone(&filter);
        builder.filter_entry(move |entry| admitted.admits(entry));
        builder.build_parallel().run(|| {
            let mut visit = visitor();
            let unreadable = &unreadable;
            Box::new(move |entry| {
                if cancel.is_cancelled() {
                    return WalkState::Quit;
                }
                match entry {
                    Err(_) => {
                        unreadable.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(entry) => {
                        if let Some(kind) = entry.file_type()
                            && (kind.is_file() || kind.is_symlink())
                        {
                            visit(&Walked { entry, kind, within });
                        }
                    }
                }
                WalkState::Continue
            })
        });
        let left_out = LeftOut {
            masked: filter.masked.load(Ordering::Relaxed),
            unreadable: unreadable.load(Ordering::Relaxed),
            start_is_ignored: false,
        };
        (left_out, filter.reached_start.load(Ordering::Relaxed))
    }
}

/// Decides what is walked into, beyond what ignore files say.
struct Filter {
    /// What masks are relative to: roots of the access, as for a path that is named, and not where
    /// this walk begins.
    mask_roots: Vec<PathBuf>,
    start: PathBuf,
    target: PathBuf,
    masks: Arc<Masks>,
    masked: AtomicUsize,
    reached_start: AtomicBool,
}

impl Filter {
    fn new(walk: &Walk<'_>) -> Self {
        Self {
            mask_roots: walk.mask_roots.to_owned(),
            start: walk.start.to_owned(),
            target: walk.target.to_owned(),
            masks: Arc::clone(walk.masks),
            masked: AtomicUsize::new(0),
            reached_start: AtomicBool::new(walk.start == walk.root),
        }
    }

    fn admits(&self, entry: &DirEntry) -> bool {
        let path = entry.path();
        if is_git(entry.file_name()) || !is_on_the_way(path, &self.target) {
            return false;
        }
        if path == self.start {
            self.reached_start.store(true, Ordering::Relaxed);
        }
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        if self.is_masked(path, is_dir) {
            self.masked.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn is_masked(&self, path: &Path, is_dir: bool) -> bool {
        let mut relative = self.mask_roots.iter().filter_map(|root| rest_in(path, root));
        relative.any(|relative| self.masks.hide_entry(relative, is_dir))
    }
}

/// What follows a folder's path in the path of something in it; the path itself of anything else.
fn rest<'p>(path: &'p Path, folder: &Path) -> &'p Path {
    rest_in(path, folder).unwrap_or(path)
}

/// What follows a folder's path in the path of something in it. Walks join paths in one way only, so
/// the bytes can be cut off without looking at the parts, for which there is a call per file.
fn rest_in<'p>(path: &'p Path, folder: &Path) -> Option<&'p Path> {
    let folder = folder.as_os_str().as_bytes();
    let rest = path.as_os_str().as_bytes().strip_prefix(folder)?;
    // Only the root of the file system ends in a slash itself.
    let rest = if folder.ends_with(b"/") { rest } else { rest.strip_prefix(b"/")? };
    Some(Path::new(OsStr::from_bytes(rest)))
}

/// Whether one path is the other or a folder around it. Compares bytes, once per file of a walk.
fn is_on_the_way(path: &Path, target: &Path) -> bool {
    let (path, target) = (path.as_os_str().as_bytes(), target.as_os_str().as_bytes());
    let (outer, inner) = if path.len() < target.len() { (path, target) } else { (target, path) };
    let ends_at_a_part = inner.get(outer.len()).is_none_or(|&byte| byte == b'/');
    inner.starts_with(outer) && (ends_at_a_part || outer == b"/")
}

fn is_in_git(dir: &Path) -> bool {
    dir.ancestors().any(|dir| dir.join(OsStr::new(".git")).symlink_metadata().is_ok())
}
