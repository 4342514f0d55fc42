//! Watches the names of authority that no mount can hold: those that do not exist, and links.
//!
//! A mount point for a name that does not exist would have to be made in the user's own tree. So such a name
//! is looked at before a command and again after it, and what a command has put there is moved away: with
//! a `.git` in an outer folder, or a `.anvil`, the user's next command would run what it names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::tools::access::authority;

/// What makes a folder a repository without any `.git`: git takes it for a bare one.
const BARE: [&str; 3] = ["HEAD", "objects", "refs"];

/// The state of one watched name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Missing,
    /// A link, and where it leads.
    Link(PathBuf),
    /// Something else.
    There,
}

/// What is watched in one sandbox.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched {
    /// Names that were missing, or links, when the mounts were planned.
    names: Vec<(PathBuf, State)>,
    /// Folders that were no bare repository.
    not_bare: Vec<PathBuf>,
    /// Where things are moved to; beside where they are without it.
    quarantine: Option<PathBuf>,
}

impl Watched {
    /// What is to be watched in the writable folders `roots`, where `links` bear a name of authority.
    pub(super) fn new(roots: &[PathBuf], links: &[PathBuf], quarantine: Option<&Path>) -> Self {
        let in_roots = roots.iter().flat_map(|root| [".git", ".anvil"].map(|name| root.join(name)));
        let names = in_roots.chain(links.iter().cloned()).map(|path| (state(&path), path));
        let names =
            names.filter(|(state, _)| *state != State::There).map(|(state, path)| (path, state));
        let mut names: Vec<_> = names.collect();
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        names.dedup_by(|(a, _), (b, _)| a == b);
        let not_bare = roots.iter().filter(|root| !is_bare(root)).cloned().collect();
        Self { names, not_bare, quarantine: quarantine.map(Path::to_owned) }
    }

    /// Whether all is as it was when the mounts were planned. If not, somebody outside changed it, and the
    /// mounts have to be planned anew.
    pub(super) fn is_unchanged(&self) -> bool {
        self.names.iter().all(|(path, known)| state(path) == *known)
            && self.not_bare.iter().all(|root| !is_bare(root))
    }

    /// Moves away what has appeared since, and says what that was, one line each.
    pub(super) fn settle(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (path, known) in &self.names {
            let now = state(path);
            if now == *known {
                continue;
            }
            if now != State::Missing {
                said.push(self.move_away(path));
            }
            if let State::Link(target) = known {
                let restored = std::os::unix::fs::symlink(target, path);
                said.push(match restored {
                    Ok(()) => format!("{} is the link again that it was.", path.display()),
                    Err(error) => format!("The link {} is gone: {error}.", path.display()),
                });
            }
        }
        for root in self.not_bare.iter().filter(|root| is_bare(root)) {
            // Without it the folder is no repository.
            said.push(self.move_away(&root.join(BARE[0])));
        }
        said
    }

    fn move_away(&self, path: &Path) -> String {
        let name = path.display();
        match self.moved(path) {
            Ok(kept) => format!(
                "The command made or changed {name}, which only the user may. It was moved to {} and is not in effect.",
                kept.display()
            ),
            Err(error) => format!(
                "The command made or changed {name}, which only the user may, and it could not be moved away ({error}): \
                 say so to the user."
            ),
        }
    }

    /// Renames, so that nothing is lost and nothing is followed. Where the place for it is on another file
    /// system, a name beside it without authority has to do.
    fn moved(&self, path: &Path) -> io::Result<PathBuf> {
        let name = path.file_name().unwrap_or_default();
        if let Some(dir) = &self.quarantine {
            let kept = free(dir, &name.to_string_lossy());
            let tried = fs::create_dir_all(dir).and_then(|()| fs::rename(path, &kept));
            if tried.is_ok() {
                return Ok(kept);
            }
        }
        let dir = path.parent().unwrap_or(path);
        let kept = free(dir, &format!("quarantined{}", name.to_string_lossy()));
        debug_assert!(kept.file_name().is_some_and(|name| authority(name).is_none()));
        fs::rename(path, &kept)?;
        Ok(kept)
    }
}

/// A path in `dir` that begins with `name` and does not exist.
fn free(dir: &Path, name: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("{name}-{}-{number}", std::process::id()));
        if path.symlink_metadata().is_err() {
            return path;
        }
    }
}

fn state(path: &Path) -> State {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_symlink() => State::Link(fs::read_link(path).unwrap_or_default()),
        Ok(_) => State::There,
        Err(_) => State::Missing,
    }
}

fn is_bare(dir: &Path) -> bool {
    BARE.iter().all(|name| dir.join(name).symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(root: &Path, quarantine: Option<&Path>) -> Watched {
        Watched::new(&[root.to_owned()], &[], quarantine)
    }

    #[test]
    fn what_appears_is_moved_and_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (root, away) = (dir.path().join("w"), dir.path().join("away"));
        fs::create_dir(&root).unwrap();
        let watched = watched(&root, Some(&away));
        assert!(watched.is_unchanged() && watched.settle().is_empty());
        fs::create_dir(root.join(".anvil")).unwrap();
        fs::write(root.join(".anvil/config.toml"), "x").unwrap();
        assert!(!watched.is_unchanged());
        let said = watched.settle();
        assert!(said.len() == 1 && said[0].contains("/away/.anvil-"), "{said:?}");
        assert!(watched.is_unchanged());
        let kept = fs::read_dir(&away).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::read_to_string(kept.join("config.toml")).unwrap(), "x");
    }

    #[test]
    fn without_a_place_for_it_the_name_loses_its_authority() {
        let dir = tempfile::tempdir().unwrap();
        let watched = watched(dir.path(), None);
        std::os::unix::fs::symlink("/nowhere", dir.path().join(".git")).unwrap();
        assert_eq!(watched.settle().len(), 1);
        let names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.len() == 1 && names[0].starts_with("quarantined.git-"), "{names:?}");
    }

    #[test]
    fn a_link_that_was_replaced_leads_again_where_it_led() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join(".git");
        std::os::unix::fs::symlink("/elsewhere", &link).unwrap();
        let watched = watched(dir.path(), None);
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        let said = watched.settle();
        assert!(said[1].ends_with("is the link again that it was."), "{said:?}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("/elsewhere"));
    }

    #[test]
    fn a_folder_does_not_become_a_bare_repository() {
        let dir = tempfile::tempdir().unwrap();
        let watched = watched(dir.path(), None);
        fs::write(dir.path().join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert!(watched.settle().is_empty(), "a file of that name alone is nothing");
        for name in ["objects", "refs"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(watched.settle().len(), 1);
        assert!(watched.is_unchanged());
    }
}
