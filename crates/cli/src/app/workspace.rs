//! Which folder a run works in.

use std::path::{Path, PathBuf};
use std::{env, fmt};

use super::StartError;

/// The folder to work in, absolute and without symbolic links.
pub(super) fn workspace(dir: Option<&Path>) -> Result<PathBuf, StartError> {
    let Some(dir) = dir else {
        return env::current_dir().and_then(|dir| dir.canonicalize()).map_err(|error| {
            StartError::Config(format!(
                "the current folder cannot be used ({error}): change to one that exists, or name one with -C"
            ))
        });
    };
    let wrong =
        |error: &dyn fmt::Display| StartError::Usage(format!("-C {}: {error}", dir.display()));
    let path = dir.canonicalize().map_err(|error| wrong(&error))?;
    if path.is_dir() { Ok(path) } else { Err(wrong(&"not a folder")) }
}
