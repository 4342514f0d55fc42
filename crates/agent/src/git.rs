//! Asks git about a repository without letting the repository answer with a program.
//!
//! What lies in `.git/config` names programs that git starts on its own: to watch files, to filter and
//! compare them, to check signatures, to page output. Cloning brings none of it along, an archive that is
//! unpacked does. So every call here sets the keys of that kind to nothing through the environment, which
//! outweighs every file and takes keys of any spelling. Those whose names the repository chooses
//! (`filter.NAME.clean`) are listed first, which starts nothing.

mod keys;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::process::{self, Ended, Finished, Keep, SpawnError, Spec, Status};
use crate::secrets::child_env;
pub(crate) use keys::is_program;
use keys::pin;

/// How long one question may take. A status of a very large tree takes seconds.
const TIME: Duration = Duration::from_secs(30);

/// Most of an answer that is kept. A status of more files is counted no further.
const KEEP: Keep = Keep { head: 4 << 20, tail: 4096 };

/// Settings that name a program or a place of programs, and what stands in their place.
const PINS: &[(&str, &str)] = &[
    ("core.alternateRefsCommand", ""),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("diff.external", ""),
    ("log.showSignature", "false"),
    ("submodule.recurse", "false"),
];

/// A git that starts no program but itself in one repository.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    folder: PathBuf,
    pins: Vec<(String, String)>,
    starts: Vec<String>,
}

/// What differs between the work tree, the index and the last commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files that git knows and that are not as in the last commit.
    pub changed: usize,
    /// Files that git does not know and does not ignore; a folder of them counts once.
    pub untracked: usize,
}

/// Why git did not answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The folder belongs to no repository.
    #[error("{} is in no git repository", folder.display())]
    NoRepository {
        /// The folder.
        folder: PathBuf,
    },
    /// It said no.
    #[error("git {command}: {said}")]
    Refused {
        /// What it was asked.
        command: String,
        /// What it said.
        said: String,
    },
    /// It did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The runtime ended meanwhile.
    #[error(transparent)]
    Stopped(#[from] io::Error),
}

impl Git {
    /// The git at `program`, which has to be one that the repository cannot have put there, for the
    /// repository that `folder` is in.
    ///
    /// # Errors
    /// [`GitError::NoRepository`], and what git says about its configuration.
    pub async fn open(program: &Path, folder: &Path) -> Result<Self, GitError> {
        let mut git = Self::at(program, folder);
        let asked = async {
            git.ask(&["rev-parse", "--git-dir"]).await?;
            git.ask(&["config", "--list", "--show-scope", "--name-only", "-z"]).await
        };
        let listed = asked.await.map_err(|error| match error.is_outside() {
            true => GitError::NoRepository { folder: folder.to_owned() },
            false => error,
        })?;
        let mut fields = listed.split('\0');
        while let (Some(scope), Some(key)) = (fields.next(), fields.next()) {
            // What the user or the machine is set to is the user's word.
            if matches!(scope, "local" | "worktree") && is_program(key) {
                git.pins.extend(pin(key));
                git.starts.push(key.to_owned());
            }
        }
        git.starts.sort();
        git.starts.dedup();
        Ok(git)
    }

    /// The version of git as it says, without asking about any repository.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn version(program: &Path) -> Result<String, GitError> {
        let said = Self::at(program, Path::new("/")).ask(&["--version"]).await?;
        Ok(said.trim().trim_start_matches("git version ").to_owned())
    }

    fn at(program: &Path, folder: &Path) -> Self {
        Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            pins: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Settings of the repository's own that would start a program if git were asked in the usual way.
    pub fn starts(&self) -> &[String] {
        &self.starts
    }

    /// The top of the work tree.
    ///
    /// # Errors
    /// In a repository without one, and when git fails.
    pub async fn top(&self) -> Result<PathBuf, GitError> {
        let said = self.ask(&["rev-parse", "--show-toplevel"]).await?;
        Ok(PathBuf::from(said.trim_end_matches('\n')))
    }

    /// What differs from the last commit. Submodules are not looked into: each has settings of its own.
    ///
    /// # Errors
    /// When git fails.
    pub async fn changes(&self) -> Result<Changes, GitError> {
        let said = self
            .ask(&["status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"])
            .await?;
        let mut changes = Changes::default();
        for entry in said.split('\0').filter(|entry| !entry.is_empty()) {
            match entry.starts_with("??") {
                true => changes.untracked += 1,
                false => changes.changed += 1,
            }
        }
        Ok(changes)
    }

    async fn ask(&self, words: &[&str]) -> Result<String, GitError> {
        let finished = process::spawn(self.spec(words))?.wait().await?;
        let text = |kept: &process::Captured| String::from_utf8_lossy(&kept.head).into_owned();
        match (finished.ended, finished.status) {
            (Ended::Completed, Status::Exited(0)) => Ok(text(&finished.stdout)),
            _ => Err(GitError::Refused { command: words.join(" "), said: said(&finished) }),
        }
    }

    fn spec(&self, words: &[&str]) -> Spec {
        let options = ["--no-pager", "--no-optional-locks", "--literal-pathspecs"];
        let args = options.iter().chain(words).map(OsString::from).collect();
        let mut env = child_env("", &[]);
        let fixed = PINS.iter().map(|(key, value)| (*key, *value));
        let found = self.pins.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let pins: Vec<(&str, &str)> = fixed.chain(found).collect();
        env.push(("GIT_CONFIG_COUNT".into(), pins.len().to_string().into()));
        for (number, (key, value)) in pins.into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
            env.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
        }
        env.push(("GIT_CONFIG_NOSYSTEM".into(), "1".into()));
        env.push(("LC_ALL".into(), "C".into()));
        Spec {
            program: self.program.clone(),
            arg0: None,
            args,
            cwd: self.folder.clone(),
            env,
            timeout: TIME,
            cancel: CancellationToken::new(),
            keep: KEEP,
            output: None,
            descriptors: Vec::new(),
            confines: false,
            restriction: None,
        }
    }
}

impl GitError {
    fn is_outside(&self) -> bool {
        matches!(self, Self::Refused { said, .. } if said.contains("not a git repository"))
    }
}

fn said(finished: &Finished) -> String {
    let text = String::from_utf8_lossy(&finished.stderr.head);
    match (finished.ended, text.trim()) {
        (Ended::TimedOut, _) => format!("no answer within {} s", TIME.as_secs()),
        (_, "") => format!("{:?}", finished.status),
        (_, text) => text.lines().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    fn git() -> PathBuf {
        let path = std::env::var_os("PATH").expect("these tests need git on PATH");
        let found =
            std::env::split_paths(&path).map(|dir| dir.join("git")).find(|file| file.is_file());
        found.expect("these tests need git on PATH")
    }

    /// A repository whose every setting that names a program names one that leaves a mark.
    fn hostile() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            let set = [("user.name", "a"), ("user.email", "a@b.c")];
            for (key, value) in set {
                command.args(["-c", &format!("{key}={value}")]);
            }
            assert!(command.current_dir(root).args(words).output().unwrap().status.success());
        };
        git(&["init", "-q", "."]);
        let script = "#!/bin/sh\ntouch MARK\ncat\n";
        fs::write(root.join("x"), script).unwrap();
        fs::set_permissions(root.join("x"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("file"), "a\n").unwrap();
        fs::write(root.join(".gitignore"), "MARK\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "-qm", "first"]);
        fs::write(root.join(".git/info/attributes"), "* filter=a=b diff=d\n").unwrap();
        let config = "[core]\nfsmonitor = ./x\nhooksPath = .\npager = ./x\n[filter \"a=b\"]\nclean = ./x\n\
                      process = ./x\nrequired = true\n[diff]\nexternal = ./x\n[diff \"d\"]\ntextconv = ./x\n\
                      [log]\nshowSignature = true\n[gpg]\nprogram = ./x\n";
        let file = root.join(".git/config");
        let old = fs::read_to_string(&file).unwrap();
        fs::write(&file, old + config).unwrap();
        fs::write(root.join("file"), "b\n").unwrap();
        dir
    }

    #[tokio::test]
    async fn a_repository_that_names_programs_is_asked_without_starting_one() {
        let dir = hostile();
        let mark = dir.path().join("MARK");
        let git = Git::open(&git(), dir.path()).await.unwrap();
        assert_eq!(git.changes().await.unwrap(), Changes { changed: 1, untracked: 0 });
        assert_eq!(git.top().await.unwrap(), dir.path().canonicalize().unwrap());
        assert!(!mark.exists(), "a program of the repository ran");
        assert_eq!(
            git.starts(),
            [
                "core.fsmonitor",
                "core.hookspath",
                "core.pager",
                "diff.d.textconv",
                "diff.external",
                "filter.a=b.clean",
                "filter.a=b.process",
                "gpg.program"
            ]
        );
        // The same question in the usual way, so that this test could fail.
        let status = Command::new("git").current_dir(dir.path()).arg("status").output().unwrap();
        assert!(mark.exists(), "{status:?}");
    }

    #[tokio::test]
    async fn a_folder_outside_every_repository_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Git::open(&git(), dir.path()).await.unwrap_err();
        assert!(matches!(error, GitError::NoRepository { folder } if folder == dir.path()));
    }
}
