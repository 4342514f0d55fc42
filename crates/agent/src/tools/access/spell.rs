//! What a name means: by its spelling alone, and as the file system resolves it.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::AccessError;

/// Makes a path absolute and takes out `.` and `..`, by its spelling alone.
///
/// # Errors
/// Names that can be no path: empty, with a NUL, a URL, or with a `~`, which nothing here expands.
pub fn resolve(cwd: &Path, named: &str) -> Result<PathBuf, AccessError> {
    Ok(spell_out(cwd, named)?.path)
}

/// A path by its spelling.
pub(super) struct Spelled {
    pub(super) path: PathBuf,
    /// The folders that a `..` took back. One that is a symlink makes the spelling ambiguous.
    pub(super) popped: Vec<PathBuf>,
}

pub(super) fn spell_out(cwd: &Path, named: &str) -> Result<Spelled, AccessError> {
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

/// A path as far as it exists.
pub(super) enum Nearest {
    /// The nearest existing parent without symlinks, and the missing rest after it.
    Resolved(PathBuf),
    /// The first missing part is a symlink to nothing.
    Dangling(PathBuf),
}

/// Resolves what exists of a path.
pub(super) fn resolve_nearest(path: &Path) -> io::Result<Nearest> {
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

/// The path without symlinks, or as it is where that cannot be told.
pub(super) fn real_or_given(path: &Path) -> PathBuf {
    match resolve_nearest(path) {
        Ok(Nearest::Resolved(real)) => real,
        Ok(Nearest::Dangling(_)) | Err(_) => path.to_owned(),
    }
}

/// Like [`Path::join`], which adds a slash for an empty rest.
pub(super) fn join(root: &Path, rest: &Path) -> PathBuf {
    let mut path = root.to_owned();
    path.extend(rest.components());
    path
}
