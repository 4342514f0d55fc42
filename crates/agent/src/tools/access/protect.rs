//! What must not be changed even inside a writable root, told by paths.

use std::path::{Path, PathBuf};

use super::names::{authority, lies_under};
use super::spell::{join, real_or_given};

/// Largest file that says where a git directory is, in bytes: a path.
const MAX_POINTER: u64 = 4096;

/// Why `path` must not be changed, if there is a reason. `root` is the root that holds it; `protected` are
/// paths without symlinks.
pub(super) fn reason(path: &Path, root: &Path, protected: &[PathBuf]) -> Option<String> {
    let relative = super::below(path, root);
    if let Some(name) = relative.components().find_map(|part| authority(part.as_os_str())) {
        return Some(format!("{name} holds what git or anvil execute or obey"));
    }
    if let Some(held) = protected.iter().find(|held| lies_under(path, held)) {
        return Some(format!("{} is git's or anvil's own", held.display()));
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

/// The folders that a `.git` leads to where it is a file: the git directory of a worktree or a submodule,
/// and the one that it shares with others.
pub(crate) fn led_to_from(git: &Path) -> Vec<PathBuf> {
    let pointed = |file: &Path, prefix: &str| {
        let text = small_file(file)?;
        let named = text.strip_prefix(prefix)?.trim();
        Some(real_or_given(&join(file.parent()?, Path::new(named))))
    };
    let own = pointed(git, "gitdir:");
    let common = own.as_ref().and_then(|own| pointed(&own.join("commondir"), ""));
    own.into_iter().chain(common).collect()
}

fn small_file(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    (metadata.is_file() && metadata.len() <= MAX_POINTER)
        .then(|| std::fs::read_to_string(path).ok())
        .flatten()
}

/// Whether git would take `dir` for a repository or for one worktree's part of it.
fn is_git_directory(dir: &Path) -> bool {
    dir.join("HEAD").is_file()
        && (dir.join("commondir").is_file()
            || (dir.join("objects").is_dir() && dir.join("refs").is_dir()))
}
