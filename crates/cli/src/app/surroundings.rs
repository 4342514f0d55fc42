//! What a prompt tells about the surroundings, found out without starting anything: what takes a process is
//! taken from an earlier run.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use agent::context::environment::{Facts, branch_of};

use super::inquiry::Inquiry;
use super::{config, var};

/// Most bytes that are read of a file of git's.
const MAX_FILE: u64 = 4096;

/// The facts for work in `cwd`, with what `inquiry` knows of programs.
pub(super) fn facts(cwd: &Path, inquiry: &Inquiry) -> Facts {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Facts {
        shell: var("SHELL"),
        branch: branch(cwd),
        programs: inquiry.known(),
        ..Facts::new(cwd, now, inquiry.sandbox())
    }
}

/// The branch or commit of the work tree around `cwd`, out of git's own files.
fn branch(cwd: &Path) -> Option<String> {
    let top = config::repository_root(cwd);
    let git = top.join(".git");
    let dir = match git.is_dir() {
        true => git,
        // A further work tree of a repository says where its own folder is.
        false => top.join(read(&git)?.strip_prefix("gitdir: ")?.trim_end()),
    };
    branch_of(&read(&dir.join("HEAD"))?)
}

fn read(path: &Path) -> Option<String> {
    // A pipe would make the start wait.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_of_a_further_work_tree_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("main/.git/HEAD", "ref: refs/heads/main\n");
        write("main/.git/worktrees/tree/HEAD", "ref: refs/heads/other\n");
        write("main/a/file", "");
        write("tree/.git", "gitdir: ../main/.git/worktrees/tree\n");
        let of = |name: &str| branch(&dir.path().join(name));
        assert_eq!(of("main/a").as_deref(), Some("branch main"));
        assert_eq!(of("tree").as_deref(), Some("branch other"));
        write("tree/.git", "gitdir: nowhere\n");
        assert_eq!(of("tree"), None);
    }
}
