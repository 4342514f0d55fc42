//! Whether a repository's own settings name programs, told from its files without starting git.
//!
//! For decisions that are made before a command runs. Read more strictly than git reads: a line that only
//! looks like such a setting counts as one, and so does a file that cannot be read.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::git::is_program;

/// Most that is read of a file of settings; ordinary ones hold a few hundred bytes.
const MAX_BYTES: u64 = 1 << 20;
/// How deep modules inside modules are looked into.
const MAX_DEPTH: usize = 8;

/// Whether git would start a program by the settings of the repository that `folder` is in. One without
/// a work tree counts as a repository wherever it lies.
pub(crate) fn name_programs(folder: &Path) -> bool {
    folder.ancestors().find_map(repository).is_some_and(|dir| is_set(&dir, MAX_DEPTH))
}

/// Where the settings of a repository lie whose top is `folder`.
fn repository(folder: &Path) -> Option<PathBuf> {
    let inner = folder.join(".git");
    if inner.is_dir() {
        return Some(inner);
    }
    if inner.is_file() {
        let text = read(&inner).unwrap_or_default();
        return Some(folder.join(text.strip_prefix("gitdir:").unwrap_or_default().trim()));
    }
    (folder.join("HEAD").exists() && folder.join("objects").is_dir()).then(|| folder.to_owned())
}

fn is_set(dir: &Path, depth: usize) -> bool {
    let common = read(&dir.join("commondir")).map(|text| dir.join(text.trim()));
    let mut files = vec![dir.join("config"), dir.join("config.worktree")];
    files.extend(common.map(|common| common.join("config")));
    files.iter().filter(|file| file.symlink_metadata().is_ok()).any(|file| is_set_in(file))
        || modules(&dir.join("modules"), depth)
}

/// A status asks the repositories inside the repository, too.
fn modules(dir: &Path, depth: usize) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let mut folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.any(|path| depth == 0 || is_set(&path, depth - 1) || modules(&path, depth - 1))
}

fn is_set_in(file: &Path) -> bool {
    let Some(text) = read(file) else { return true };
    let mut section = String::new();
    text.lines().any(|line| {
        let mut rest = line.trim_start();
        if let Some((header, after)) = rest.strip_prefix('[').and_then(|line| line.rsplit_once(']'))
        {
            section = header.replace(['"', ' ', '\t'], ".").replace("..", ".");
            rest = after.trim_start();
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        // What another file says is not looked up.
        let is_elsewhere = section.to_lowercase().starts_with("include");
        let key = format!("{}.{}", section.trim_matches('.'), &rest[..end]);
        end > 0 && (is_elsewhere || is_program(&key))
    })
}

fn read(file: &Path) -> Option<String> {
    if !file.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(file).ok()?.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_BYTES);
    is_whole.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], folder: &str, names: bool) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::create_dir_all(dir.path().join(folder)).unwrap();
        assert_eq!(name_programs(&dir.path().join(folder)), names, "{files:?} in {folder:?}");
    }

    #[test]
    fn settings_that_name_programs_are_found_however_they_are_written() {
        let plain = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n\tfetch = y\n";
        check(&[(".git/config", plain)], "", false);
        check(&[(".git/config", plain)], "a/b", false);
        for line in [
            "[core]\n\tfsmonitor = ./x",
            "[CORE] FSMonitor=./x",
            "[diff \"a.b\"]\ntextconv = ./x",
            "[diff.a]\n  command = ./x",
            "[filter \"a]b\"]\n clean = ./x",
            "[gpg]\nprogram=./x",
            "[include]\npath = ./x",
            "[includeIf \"gitdir:/\"]\npath = ./x",
            "[alias]\nst = !./x",
        ] {
            check(&[(".git/config", line)], "a", true);
        }
        check(&[(".git/config", plain), (".git/config.worktree", "[core]\npager = x")], "", true);
        check(&[(".git/config", plain), (".git/modules/m/config", "[core]\npager = x")], "", true);
    }

    #[test]
    fn a_repository_is_found_wherever_its_settings_lie() {
        let evil = "[core]\nfsmonitor = ./x\n";
        let bare = [("b/HEAD", "ref: x"), ("b/objects/x", ""), ("b/config", evil)];
        check(&bare, "b", true);
        check(&bare, "", false);
        check(&[("w/.git", "gitdir: ../g/worktrees/w"), ("g/worktrees/w/config", evil)], "w", true);
        let linked = [
            ("w/.git", "gitdir: ../g/worktrees/w\n"),
            ("g/worktrees/w/commondir", "../..\n"),
            ("g/config", evil),
        ];
        check(&linked, "w", true);
    }
}
