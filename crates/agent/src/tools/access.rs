//! Which files a tool may touch: roots, protected paths, masks, symlinks. Every native tool goes
//! through here.
//!
//! A name from the model is judged twice: as it is written, and as the file system resolves it. What
//! is opened afterwards is the resolved path, with symlinks refused at every place,
//! so that swapping a directory for a link between the check and the open makes the open fail
//! instead of leaving the root. What remains of that race: a directory moved as a whole keeps being
//! the directory that was checked, a mount placed in between is followed, and a walk that lists
//! names (never contents) may list a directory that was swapped under it.
//!
//! Hard links cannot be told from the file itself. Reading through one is possible; writing never
//! changes the other name, because a file is replaced and not overwritten.

mod error;
mod mask;
pub(crate) mod names;
mod open;
mod replace;
mod secrets;
mod walk;

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub use error::AccessError;
pub use mask::CREDENTIALS;
pub use names::asks_before_writing;
pub use replace::{Expect, Replaced};
pub(crate) use walk::{LeftOut, Route, Walked};

pub(crate) use mask::Masks;
pub(crate) use names::authority;
use names::lies_under;

/// What a [`FileAccess`] is made from. Roots come from the harness, never from the model.
#[derive(Debug, Clone)]
pub struct AccessRules {
    /// Where relative paths start; readable and writable.
    pub workspace: PathBuf,
    /// Further folders that may be read.
    pub readable: Vec<PathBuf>,
    /// Further folders that may be read and written.
    pub writable: Vec<PathBuf>,
    /// Folders and files that are never written even inside a writable root, such as anvil's own
    /// configuration and data. `.git` and `.anvil` are protected at any depth without being listed.
    pub protected: Vec<PathBuf>,
    /// What can neither be read, searched nor written: lines as in `.gitignore`, relative to each
    /// root, without regard to letter case.
    pub masked: Vec<String>,
}

impl AccessRules {
    /// The workspace alone, with the usual credential files masked.
    pub fn workspace(dir: impl Into<PathBuf>) -> Self {
        Self {
            workspace: dir.into(),
            readable: Vec::new(),
            writable: Vec::new(),
            protected: Vec::new(),
            masked: CREDENTIALS.iter().map(|&line| line.to_owned()).collect(),
        }
    }
}

/// The one door between tools and files.
///
/// All methods do blocking file work; call them from a blocking thread.
#[derive(Debug)]
pub struct FileAccess {
    roots: Vec<Root>,
    protected: Vec<PathBuf>,
    masks: Arc<Masks>,
}

#[derive(Debug)]
struct Root {
    /// Without symlinks.
    real: PathBuf,
    /// As it was given, which is how a model may name it.
    given: PathBuf,
    grants: Grants,
}

/// What a root is open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grants {
    Read,
    ReadWrite,
}

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
    Read,
    Write,
}

/// A real path, free of symlinks, that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPath {
    real: PathBuf,
    named: String,
}

/// A real path, free of symlinks, that may be written. It need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritePath(ReadPath);

impl ReadPath {
    /// The path without symlinks.
    pub fn real(&self) -> &Path {
        &self.real
    }

    fn metadata(&self) -> Result<Metadata, AccessError> {
        self.real.symlink_metadata().map_err(|error| AccessError::io(&self.named, error))
    }
}

impl WritePath {
    /// The path without symlinks.
    pub fn real(&self) -> &Path {
        self.0.real()
    }

    /// The same path for reading: what may be written may be read.
    pub fn as_read(&self) -> &ReadPath {
        &self.0
    }
}

impl FileAccess {
    /// Resolves the roots once. The workspace must exist; other roots that do not are left out.
    ///
    /// # Errors
    /// [`AccessError::Io`] when the workspace cannot be resolved, [`AccessError::BadMask`] for a mask
    /// that is no pattern.
    pub fn new(rules: AccessRules) -> Result<Self, AccessError> {
        let mut roots = vec![Root::new(rules.workspace, Grants::ReadWrite)?];
        let further = rules
            .writable
            .into_iter()
            .map(|dir| (dir, Grants::ReadWrite))
            .chain(rules.readable.into_iter().map(|dir| (dir, Grants::Read)));
        roots.extend(further.filter_map(|(dir, grants)| Root::new(dir, grants).ok()));
        let protected = rules.protected.into_iter().map(|path| real_or_given(&path)).collect();
        Ok(Self { roots, protected, masks: Arc::new(Masks::new(&rules.masked)?) })
    }

    /// The workspace, without symlinks.
    pub fn workspace(&self) -> &Path {
        &self.roots[0].real
    }

    /// Judges a path that is to be read. It must exist.
    ///
    /// # Errors
    /// A refusal ([`AccessError::is_refusal`]) or what the file system says.
    pub fn for_reading(&self, cwd: &Path, named: &str) -> Result<ReadPath, AccessError> {
        let lexical = self.admitted(cwd, named, Intent::Read)?;
        let real = lexical.canonicalize().map_err(|error| AccessError::io(named, error))?;
        self.admit(&real, named, Intent::Read)?;
        Ok(ReadPath { real, named: named.to_owned() })
    }

    /// Judges a path that is to be created or replaced. For one that does not exist yet, its nearest
    /// existing parent is resolved and judged with the rest of the path.
    ///
    /// # Errors
    /// A refusal ([`AccessError::is_refusal`]) or what the file system says.
    pub fn for_writing(&self, cwd: &Path, named: &str) -> Result<WritePath, AccessError> {
        let lexical = self.admitted(cwd, named, Intent::Write)?;
        let real = match resolve_nearest(&lexical).map_err(|error| AccessError::io(named, error))? {
            Nearest::Resolved(real) => real,
            Nearest::Dangling(link) => {
                return Err(AccessError::DanglingLink { path: named.to_owned(), link });
            }
        };
        self.admit(&real, named, Intent::Write)?;
        Ok(WritePath(ReadPath { real, named: named.to_owned() }))
    }

    /// Judges a folder in which something is to be searched or started.
    ///
    /// # Errors
    /// As [`FileAccess::for_reading`], and [`AccessError::NotADirectory`].
    pub fn directory(&self, cwd: &Path, named: &str) -> Result<ReadPath, AccessError> {
        let path = self.for_reading(cwd, named)?;
        if self.is_directory(&path)? {
            Ok(path)
        } else {
            Err(AccessError::NotADirectory { path: named.to_owned() })
        }
    }

    /// Whether the path is a folder.
    ///
    /// # Errors
    /// What the file system says.
    pub fn is_directory(&self, path: &ReadPath) -> Result<bool, AccessError> {
        Ok(path.metadata()?.is_dir())
    }

    /// The size in bytes.
    ///
    /// # Errors
    /// What the file system says.
    pub fn size(&self, path: &ReadPath) -> Result<u64, AccessError> {
        Ok(path.metadata()?.len())
    }

    /// Whether there is anything at the path.
    ///
    /// # Errors
    /// What the file system says when it does not say that nothing is there.
    pub fn is_there(&self, path: &ReadPath) -> Result<bool, AccessError> {
        match path.real.symlink_metadata() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(AccessError::io(&path.named, error)),
        }
    }

    /// Opens a regular file. Never waits: a pipe, a device or a socket is an error.
    ///
    /// # Errors
    /// [`AccessError::IsADirectory`], [`AccessError::NotAFile`], or what the file system says.
    pub fn open(&self, path: &ReadPath) -> Result<File, AccessError> {
        open::regular(&path.real).map_err(|error| AccessError::from_open(&path.named, error))
    }

    /// Reads a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`FileAccess::open`], and [`AccessError::TooLarge`].
    pub fn read(&self, path: &ReadPath, limit: u64) -> Result<Vec<u8>, AccessError> {
        let file = self.open(path)?;
        let io = |error| AccessError::io(&path.named, error);
        let size = file.metadata().map_err(io)?.len();
        let expected = usize::try_from(size.min(limit)).unwrap_or_default();
        let mut content = Vec::with_capacity(expected + 1);
        // The length may lie, or grow while we read.
        file.take(limit + 1).read_to_end(&mut content).map_err(io)?;
        if content.len() as u64 > limit {
            let size = size.max(content.len() as u64);
            return Err(AccessError::TooLarge { path: path.named.clone(), size, limit });
        }
        Ok(content)
    }

    /// Puts `content` in the place of what is there, wholly or not at all.
    ///
    /// The new file is complete and on the disk before it takes the name, keeps the permission bits
    /// of the old one, and leaves nothing behind when it fails. Missing folders are made.
    ///
    /// # Errors
    /// [`AccessError::Changed`] when the file is not what `expect` says, [`AccessError::Exists`] when
    /// something appeared there, or what the file system says.
    pub fn replace(
        &self,
        path: &WritePath,
        content: &[u8],
        expect: Expect,
    ) -> Result<Replaced, AccessError> {
        replace::replace(path.real(), content, expect)
            .map_err(|error| AccessError::from_replace(&path.0.named, error))
    }

    /// What permission rules match for a path: from the workspace on, without dots.
    pub(crate) fn subject(&self, named: &str) -> Option<String> {
        let path = resolve(self.workspace(), named).ok()?;
        let path = path.strip_prefix(self.workspace()).unwrap_or(&path);
        Some(if path.as_os_str().is_empty() { ".".to_owned() } else { path.display().to_string() })
    }

    /// The root that holds a real path.
    pub(crate) fn root_of(&self, real: &Path) -> Option<&Path> {
        let root = self.roots.iter().find(|root| real.starts_with(&root.real))?;
        Some(&root.real)
    }

    /// The absolute path that `named` spells out, after the checks that need no file to exist.
    fn admitted(&self, cwd: &Path, named: &str, intent: Intent) -> Result<PathBuf, AccessError> {
        let Spelled { path, popped } = spell_out(cwd, named)?;
        let path = self.by_real_root(path, named)?;
        self.admit(&path, named, intent)?;
        let across = |dir: &PathBuf| self.root_of(dir).is_some() && dir.is_symlink();
        if let Some(link) = popped.into_iter().find(across) {
            return Err(AccessError::AcrossLink { path: named.to_owned(), link });
        }
        Ok(path)
    }

    /// Rewrites a path below a root's other name to one below its real path.
    fn by_real_root(&self, path: PathBuf, named: &str) -> Result<PathBuf, AccessError> {
        if self.root_of(&path).is_some() {
            return Ok(path);
        }
        for root in &self.roots {
            if let Ok(rest) = path.strip_prefix(&root.given) {
                return Ok(join(&root.real, rest));
            }
        }
        let outside = || AccessError::Outside {
            path: named.to_owned(),
            target: None,
            workspace: self.workspace().to_owned(),
        };
        // Their magic links lead anywhere, this very process's folders included.
        if ["/proc", "/dev", "/sys"].iter().any(|magic| path.starts_with(magic)) {
            return Err(outside());
        }
        // A link outside the roots may still lead in, as /tmp does to /private/tmp.
        match resolve_nearest(&path) {
            Ok(Nearest::Resolved(real)) if self.root_of(&real).is_some() => Ok(real),
            _ => Err(outside()),
        }
    }

    /// Applies the rules to one absolute path.
    fn admit(&self, path: &Path, named: &str, intent: Intent) -> Result<(), AccessError> {
        let holding = || self.roots.iter().filter(|root| path.starts_with(&root.real));
        let Some(root) = holding().next() else {
            return Err(AccessError::Outside {
                path: named.to_owned(),
                target: Some(path.to_owned()),
                workspace: self.workspace().to_owned(),
            });
        };
        for root in holding() {
            if self.masks.hide(below(path, &root.real)) {
                return Err(AccessError::Masked { path: named.to_owned() });
            }
        }
        if intent == Intent::Read {
            return Ok(());
        }
        if !holding().any(|root| root.grants == Grants::ReadWrite) {
            return Err(AccessError::ReadOnlyRoot {
                path: named.to_owned(),
                root: root.real.clone(),
            });
        }
        match self.protection(path, below(path, &root.real), &root.real) {
            Some(because) => Err(AccessError::Protected { path: named.to_owned(), because }),
            None => Ok(()),
        }
    }

    /// Why `path` must not be changed, if there is a reason.
    fn protection(&self, path: &Path, relative: &Path, root: &Path) -> Option<String> {
        if let Some(name) = relative.components().find_map(|part| authority(part.as_os_str())) {
            return Some(format!("{name} holds what git or anvil execute or obey"));
        }
        if let Some(held) = self.protected.iter().find(|held| lies_under(path, held)) {
            return Some(format!("{} is anvil's own", held.display()));
        }
        let config = root.join(".anvil");
        if config.is_symlink() && lies_under(path, &real_or_given(&config)) {
            return Some(".anvil leads there".to_owned());
        }
        // Below the file itself, its folders up to the root: a separate or bare git directory is
        // obeyed by git like a `.git`.
        let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
        let git = folders.find(|folder| is_git_directory(folder))?;
        Some(format!("{} is a git directory", git.display()))
    }
}

impl Root {
    fn new(given: PathBuf, grants: Grants) -> Result<Self, AccessError> {
        let real = given
            .canonicalize()
            .map_err(|error| AccessError::io(&given.display().to_string(), error))?;
        Ok(Self { real, given, grants })
    }
}

/// Makes a path absolute and takes out `.` and `..`, by its spelling alone.
///
/// # Errors
/// Names that can be no path: empty, with a NUL, a URL, or with a `~`, which nothing here expands.
pub fn resolve(cwd: &Path, named: &str) -> Result<PathBuf, AccessError> {
    Ok(spell_out(cwd, named)?.path)
}

struct Spelled {
    path: PathBuf,
    /// The folders that a `..` took back. One that is a symlink makes the spelling ambiguous.
    popped: Vec<PathBuf>,
}

fn spell_out(cwd: &Path, named: &str) -> Result<Spelled, AccessError> {
    if named.is_empty() {
        return Err(AccessError::Empty);
    }
    if named.contains('\0') {
        return Err(AccessError::Nul);
    }
    if named == "~" || named.starts_with("~/") {
        return Err(AccessError::Tilde { path: named.to_owned() });
    }
    if named.contains("://") {
        return Err(AccessError::Url { path: named.to_owned() });
    }
    let mut path = PathBuf::new();
    let mut popped = Vec::new();
    for part in cwd.components().chain(Path::new(named).components()) {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                popped.push(path.clone());
                path.pop();
            }
            // An absolute part starts over.
            other => path.push(other),
        }
    }
    Ok(Spelled { path, popped })
}

enum Nearest {
    /// The nearest existing parent without symlinks, and the missing rest after it.
    Resolved(PathBuf),
    /// The first missing part is a symlink to nothing.
    Dangling(PathBuf),
}

fn resolve_nearest(path: &Path) -> io::Result<Nearest> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(mut real) => {
                missing.reverse();
                if let Some(first) = missing.first().map(|name| real.join(name))
                    && first.is_symlink()
                {
                    return Ok(Nearest::Dangling(first));
                }
                real.extend(missing);
                return Ok(Nearest::Resolved(real));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
                    return Err(error);
                };
                missing.push(name.to_owned());
                existing = parent;
            }
            Err(error) => return Err(error),
        }
    }
}

fn real_or_given(path: &Path) -> PathBuf {
    match resolve_nearest(path) {
        Ok(Nearest::Resolved(real)) => real,
        Ok(Nearest::Dangling(_)) | Err(_) => path.to_owned(),
    }
}

/// Whether git would take `dir` for a repository or for one worktree's part of it.
fn is_git_directory(dir: &Path) -> bool {
    dir.join("HEAD").is_file()
        && (dir.join("commondir").is_file()
            || (dir.join("objects").is_dir() && dir.join("refs").is_dir()))
}

fn below<'a>(path: &'a Path, root: &Path) -> &'a Path {
    path.strip_prefix(root).expect("the root was chosen because the path starts with it")
}

/// Like [`Path::join`], which adds a slash for an empty rest.
fn join(root: &Path, rest: &Path) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(rest.components());
    path
}

#[cfg(test)]
mod tests;
