//! Which files a tool may touch: roots, protected paths, masks, symlinks. Every native tool goes
//! through here.
//!
//! A name from the model is judged twice: as it is written, and as the file system resolves it. What
//! is opened afterwards is the resolved path, from the descriptor of its root on, with symlinks refused at
//! every place: whoever swaps a folder for a link between the check and the open makes the open fail. Before
//! something is written, each folder on the way is looked at through its own descriptor, so that a git
//! directory that took the place of an ordinary folder meanwhile is not written into, see `way`.
//!
//! What remains of that race: a folder inside a root that is moved as a whole keeps being the folder that was
//! opened, wherever it lies then; a mount placed in between is followed; and a walk that lists names (never
//! contents) may list a folder that was swapped under it.
//!
//! Hard links cannot be told from the file itself. Reading through one is possible; writing never
//! changes the other name, because a file is replaced and not overwritten.

mod error;
pub(crate) mod mask;
pub(crate) mod names;
mod open;
mod protect;
mod replace;
mod root;
mod secrets;
mod spell;
mod walk;
mod way;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::AccessError;
pub use mask::CREDENTIALS;
pub use replace::{Expect, Replaced};
pub use spell::resolve;
pub(crate) use walk::{LeftOut, Route, Walked};

pub(crate) use mask::Masks;
pub(crate) use names::authority;
pub(crate) use protect::led_to_from;

use crate::tool::Grants;
use root::{OpenFor, Root, RootFolder};
use spell::{Nearest, Spelled, join, real_or_given, resolve_nearest, spell_out};

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
    /// The same with further masks, which come last and so outweigh the others.
    #[must_use]
    pub fn masking(mut self, masks: &[String]) -> Self {
        self.masked.extend_from_slice(masks);
        self
    }

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

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
    Read,
    Write,
}

/// A real path, free of symlinks, that may be read.
#[derive(Debug, Clone)]
pub struct ReadPath {
    /// From where it is opened.
    root: Arc<RootFolder>,
    /// The whole path, below that root.
    real: PathBuf,
    named: String,
}

/// A real path, free of symlinks, that may be written. It need not exist.
#[derive(Debug, Clone)]
pub struct WritePath(ReadPath);

impl ReadPath {
    /// The path without symlinks.
    pub fn real(&self) -> &Path {
        &self.real
    }

    fn relative(&self) -> &Path {
        below(&self.real, self.root.real())
    }

    fn stat(&self) -> Result<open::Seen, AccessError> {
        let seen = self.root.folder().and_then(|folder| open::look(&folder, self.relative()));
        seen.map_err(|error| AccessError::io(&self.named, error))
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
        let mut roots = vec![Root::new(rules.workspace, OpenFor::Writing)?];
        let further = rules
            .writable
            .into_iter()
            .map(|dir| (dir, OpenFor::Writing))
            .chain(rules.readable.into_iter().map(|dir| (dir, OpenFor::Reading)));
        roots.extend(further.filter_map(|(dir, open_for)| Root::new(dir, open_for).ok()));
        let mut protected: Vec<PathBuf> =
            rules.protected.iter().map(|path| real_or_given(path)).collect();
        protected.extend(roots.iter().flat_map(|root| led_to_from(&root.real().join(".git"))));
        Ok(Self { roots, protected, masks: Arc::new(Masks::new(&rules.masked)?) })
    }

    /// The workspace, without symlinks.
    pub fn workspace(&self) -> &Path {
        self.roots[0].real()
    }

    /// Judges a path that is to be read. It must exist, and lie in a root or be one that `grants` opens.
    ///
    /// # Errors
    /// A refusal ([`AccessError::is_refusal`]) or what the file system says.
    pub fn for_reading(
        &self,
        cwd: &Path,
        named: &str,
        grants: &Grants,
    ) -> Result<ReadPath, AccessError> {
        let asked = Asked { named, intent: Intent::Read, grants };
        let lexical = self.admitted(cwd, asked)?;
        let real = lexical.canonicalize().map_err(|error| AccessError::io(named, error))?;
        let root = self.admit(&real, asked)?;
        Ok(ReadPath { root, real, named: named.to_owned() })
    }

    /// Judges a path that is to be created or replaced. For one that does not exist yet, its nearest
    /// existing parent is resolved and judged with the rest of the path.
    ///
    /// # Errors
    /// A refusal ([`AccessError::is_refusal`]) or what the file system says.
    pub fn for_writing(
        &self,
        cwd: &Path,
        named: &str,
        grants: &Grants,
    ) -> Result<WritePath, AccessError> {
        let asked = Asked { named, intent: Intent::Write, grants };
        let lexical = self.admitted(cwd, asked)?;
        let real = match resolve_nearest(&lexical).map_err(|error| AccessError::io(named, error))? {
            Nearest::Resolved(real) => real,
            Nearest::Dangling(link) => {
                return Err(AccessError::DanglingLink { path: named.to_owned(), link });
            }
        };
        let root = self.admit(&real, asked)?;
        Ok(WritePath(ReadPath { root, real, named: named.to_owned() }))
    }

    /// Judges a folder in which something is to be searched or started.
    ///
    /// # Errors
    /// As [`FileAccess::for_reading`], and [`AccessError::NotADirectory`].
    pub fn directory(
        &self,
        cwd: &Path,
        named: &str,
        grants: &Grants,
    ) -> Result<ReadPath, AccessError> {
        let path = self.for_reading(cwd, named, grants)?;
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
        Ok(path.stat()?.is_directory())
    }

    /// The size in bytes.
    ///
    /// # Errors
    /// What the file system says.
    pub fn size(&self, path: &ReadPath) -> Result<u64, AccessError> {
        Ok(path.stat()?.size())
    }

    /// Whether there is anything at the path.
    ///
    /// # Errors
    /// What the file system says when it does not say that nothing is there.
    pub fn is_there(&self, path: &ReadPath) -> Result<bool, AccessError> {
        match path.stat() {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file. Never waits: a pipe, a device or a socket is an error.
    ///
    /// # Errors
    /// [`AccessError::IsADirectory`], [`AccessError::NotAFile`], or what the file system says.
    pub fn open(&self, path: &ReadPath) -> Result<File, AccessError> {
        let folder = path.root.folder().map_err(|error| AccessError::io(&path.named, error))?;
        open::regular(&folder, path.relative())
            .map_err(|error| AccessError::from_open(&path.named, error))
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
        let named = &path.0.named;
        let root = path.0.root.folder().map_err(|error| AccessError::io(named, error))?;
        let way = way::Way::new(&root, &self.protected);
        replace::replace(&way, path.0.relative(), content, expect)
            .map_err(|error| AccessError::from_replace(named, error))
    }

    /// What permission rules match for a path: from the workspace on, without dots.
    pub(crate) fn subject(&self, named: &str) -> Option<String> {
        let path = resolve(self.workspace(), named).ok()?;
        let path = path.strip_prefix(self.workspace()).unwrap_or(&path);
        Some(if path.as_os_str().is_empty() { ".".to_owned() } else { path.display().to_string() })
    }

    /// The root that holds a real path.
    pub(crate) fn root_of(&self, real: &Path) -> Option<&Path> {
        Some(self.roots.iter().find(|root| real.starts_with(root.real()))?.real())
    }

    /// The absolute path that a name spells out, after the checks that need no file to exist.
    fn admitted(&self, cwd: &Path, asked: Asked<'_>) -> Result<PathBuf, AccessError> {
        let Spelled { path, popped } = spell_out(cwd, asked.named)?;
        let path = self.by_real_root(path, asked)?;
        self.admit(&path, asked)?;
        let across = |dir: &PathBuf| self.root_of(dir).is_some() && dir.is_symlink();
        if let Some(link) = popped.into_iter().find(across) {
            return Err(AccessError::AcrossLink { path: asked.named.to_owned(), link });
        }
        Ok(path)
    }

    /// Rewrites a path below a root's other name to one below its real path.
    fn by_real_root(&self, path: PathBuf, asked: Asked<'_>) -> Result<PathBuf, AccessError> {
        if self.root_of(&path).is_some() {
            return Ok(path);
        }
        for root in &self.roots {
            if let Ok(rest) = path.strip_prefix(root.given()) {
                return Ok(join(root.real(), rest));
            }
        }
        // Their magic links lead anywhere, this very process's folders included.
        if ["/proc", "/dev", "/sys"].iter().any(|magic| path.starts_with(magic)) {
            return Err(self.outside(asked, None));
        }
        // A link outside the roots may still lead in, as /tmp does to /private/tmp, or to what was granted.
        let real = real_or_given(&path);
        match self.root_of(&real).is_some() || asked.is_granted(&real) {
            true => Ok(real),
            false => Err(self.outside(asked, None)),
        }
    }

    fn outside(&self, asked: Asked<'_>, target: Option<PathBuf>) -> AccessError {
        let workspace = self.workspace().to_owned();
        AccessError::Outside { path: asked.named.to_owned(), target, workspace }
    }

    /// Applies the rules to one absolute path, and says from where it is opened.
    fn admit(&self, path: &Path, asked: Asked<'_>) -> Result<Arc<RootFolder>, AccessError> {
        let named = || asked.named.to_owned();
        let holding = || self.roots.iter().filter(|root| path.starts_with(root.real()));
        let first = holding().next();
        let is_granted = asked.is_granted(path);
        if first.is_none() && !is_granted {
            return Err(self.outside(asked, Some(path.to_owned())));
        }
        // A grant opens a path; it takes no mask and no protection away.
        let top = Path::new("/");
        let mut around = holding().map(Root::real).chain(first.is_none().then_some(top));
        if around.any(|root| self.masks.hide(below(path, root))) {
            return Err(AccessError::Masked { path: named() });
        }
        let folder = match first {
            Some(root) => Arc::clone(root.folder()),
            None => Arc::new(RootFolder::open(top).map_err(|error| AccessError::io("/", error))?),
        };
        if asked.intent == Intent::Read {
            return Ok(folder);
        }
        let is_writable = is_granted || holding().any(|root| root.open_for() == OpenFor::Writing);
        if let Some(root) = first.filter(|_| !is_writable) {
            return Err(AccessError::ReadOnlyRoot { path: named(), root: root.real().to_owned() });
        }
        match protect::reason(path, first.map_or(top, Root::real), &self.protected) {
            Some(because) => Err(AccessError::Protected { path: named(), because }),
            None => Ok(folder),
        }
    }
}

/// What somebody wants with a name.
#[derive(Clone, Copy)]
struct Asked<'a> {
    named: &'a str,
    intent: Intent,
    grants: &'a Grants,
}

impl Asked<'_> {
    /// Whether a person opened this very path for this call. A folder that was opened for reading is opened
    /// with what lies in it. A link is not what it leads to.
    fn is_granted(&self, path: &Path) -> bool {
        self.grants.paths.iter().any(|granted| {
            let (Some(parent), Some(name)) = (granted.path.parent(), granted.path.file_name())
            else {
                return false;
            };
            // What lies above may be known by several names; its last part is what was asked about.
            let real = join(&real_or_given(parent), Path::new(name));
            let is_it = [&granted.path, &real].into_iter().any(|granted| path == granted);
            let is_in_it = self.intent == Intent::Read
                && path.starts_with(&real)
                && !real.is_symlink()
                && real.is_dir();
            (is_it || is_in_it) && (granted.write || self.intent == Intent::Read)
        })
    }
}

fn below<'a>(path: &'a Path, root: &Path) -> &'a Path {
    path.strip_prefix(root).expect("the root was chosen because the path starts with it")
}

#[cfg(test)]
mod race;
#[cfg(test)]
mod tests;
