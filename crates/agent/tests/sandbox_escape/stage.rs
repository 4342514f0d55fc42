//! A home, a workspace in it, and the real bash tool in both.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::sandbox::{Backend, Layout, Sandbox, SandboxPolicy};
use agent::tool::Grants;
use agent::tools::bash::Bash;
use agent::{Tool, ToolContext, ToolError};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// One scene of its own.
pub(crate) struct Stage {
    dir: PathBuf,
    /// Removes it.
    _own: Option<TempDir>,
    workspace: PathBuf,
    backend: Backend,
    confined: Bash,
}

const CONFINED: SandboxPolicy = SandboxPolicy::WorkspaceWrite { network: false };

impl Stage {
    pub(crate) fn new() -> Self {
        Self::in_folder("project")
    }

    /// With a workspace of this name.
    pub(crate) fn in_folder(name: &str) -> Self {
        require_bubblewrap();
        Self::held_by(Backend::Own, name)
    }

    /// Held by Landlock; where the kernel has none, whether it is or not.
    pub(crate) fn by_landlock() -> Self {
        Self::held_by(Backend::Landlock, "project")
    }

    fn held_by(backend: Backend, name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("home").join(name);
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(dir.path().join("beside")).unwrap();
        let confined = bash_by(backend, dir.path(), &workspace, CONFINED);
        Self { dir: dir.path().to_owned(), _own: Some(dir), workspace, backend, confined }
    }

    /// In a folder where it was set before, whether commands can be confined here or not.
    pub(crate) fn unchecked(dir: &Path) -> Self {
        let workspace = dir.join("home/project");
        let confined = bash(dir, &workspace, CONFINED);
        let backend = Backend::Own;
        Self { dir: dir.to_owned(), _own: None, workspace, backend, confined }
    }

    /// A path beside the home.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.join("beside").join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.workspace.clone()
    }

    pub(crate) fn write_home(&self, name: &str, text: &str) {
        write(&self.home().join(name), text);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        write(&self.workspace().join(name), text);
    }

    /// What a confined command without network gives; the same sandbox every time.
    pub(crate) fn confined(&self, command: &str) -> String {
        self.run(&self.confined, command, Grants::default())
    }

    pub(crate) fn with_network(&self, command: &str) -> String {
        self.under(SandboxPolicy::WorkspaceWrite { network: true }, command)
    }

    fn under(&self, policy: SandboxPolicy, command: &str) -> String {
        let bash = bash_by(self.backend, &self.dir, &self.workspace, policy);
        self.run(&bash, command, Grants::default())
    }

    pub(crate) fn granted_network(&self, command: &str) -> String {
        self.run(&self.confined, command, Grants { network: true, ..Grants::default() })
    }

    pub(crate) fn granted(&self, command: &str, grants: Grants) -> String {
        self.run(&self.confined, command, grants)
    }

    pub(crate) fn read_only(&self, command: &str) -> String {
        self.under(SandboxPolicy::ReadOnly, command)
    }

    /// The control of an attack.
    pub(crate) fn unconfined(&self, command: &str) -> String {
        self.under(SandboxPolicy::FullAccess, command)
    }

    pub(crate) fn run(&self, bash: &Bash, command: &str, grants: Grants) -> String {
        let ctx = ToolContext {
            cwd: self.workspace().canonicalize().unwrap(),
            cancel: CancellationToken::new(),
            session_id: "escape".into(),
            output: None,
            redactor: std::sync::Arc::default(),
            grants,
        };
        // The home is the test's own, whatever the environment says.
        let command = format!("HOME={}; {command}", self.home().display());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match runtime.block_on(bash.call(json!({ "command": command }), &ctx)) {
            Ok(output) => output.text,
            Err(ToolError::Failed(text)) => text,
            Err(error) => panic!("{error}"),
        }
    }

    /// Listens on the loopback outside; gives the port, and who came so far.
    pub(crate) fn listen(&self) -> (u16, impl Fn() -> usize) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let visitors = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&visitors);
        std::thread::spawn(move || {
            for visitor in listener.incoming() {
                if visitor.is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        // Whoever connected has been accepted by the kernel already; the thread takes a moment to count.
        (port, move || {
            std::thread::sleep(Duration::from_millis(50));
            visitors.load(Ordering::SeqCst)
        })
    }

    /// Makes the workspace one of the kinds that sandboxes are known to litter.
    pub(crate) fn make(&self, kind: &str) {
        let workspace = self.workspace();
        let beside = self.dir.join("beside");
        match kind {
            "plain" => self.write("a/b.txt", "text"),
            "repository" => git(&workspace, &["init", "-q"]),
            "worktree" => {
                commit(&beside);
                fs::remove_dir(&workspace).unwrap();
                git(&beside, &["worktree", "add", "-q", workspace.to_str().unwrap()]);
            }
            "submodule" => {
                commit(&beside);
                git(&workspace, &["init", "-q"]);
                let from = beside.to_str().unwrap();
                git(
                    &workspace,
                    &["-c", "protocol.file.allow=always", "submodule", "-q", "add", from, "sub"],
                );
            }
            "linked .git" => {
                git(&beside, &["init", "-q"]);
                std::os::unix::fs::symlink(beside.join(".git"), workspace.join(".git")).unwrap();
            }
            other => panic!("nobody knows how to make {other}"),
        }
    }

    /// Every path of the scene with its kind, mode and size.
    pub(crate) fn listing(&self) -> String {
        let listed =
            Command::new("find").arg(&self.dir).args(["-printf", "%P %y %m %s %l\n"]).output();
        let mut lines: Vec<String> =
            String::from_utf8(listed.unwrap().stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines.join("\n")
    }
}

/// The part of a result that the command printed on standard output.
#[track_caller]
pub(crate) fn output(result: &str) -> &str {
    let after = result.split_once("stdout:\n").map_or("", |(_, after)| after);
    after.split_once("stderr:\n").map_or(after, |(output, _)| output)
}

/// The bash tool for the scene in `dir`.
pub(crate) fn bash(dir: &Path, workspace: &Path, policy: SandboxPolicy) -> Bash {
    bash_by(Backend::Own, dir, workspace, policy)
}

fn bash_by(backend: Backend, dir: &Path, workspace: &Path, policy: SandboxPolicy) -> Bash {
    let home = dir.join("home");
    let layout = Layout { homes: vec![home], ..Layout::workspace(workspace) };
    Bash::new(Arc::new(Sandbox::new(policy, layout).by(backend)))
}

pub(crate) fn git(dir: &Path, args: &[&str]) {
    let identity =
        ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "init.defaultBranch=main"];
    let ran = Command::new("git").arg("-C").arg(dir).args(identity).args(args).output().unwrap();
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

fn commit(dir: &Path) {
    git(dir, &["init", "-q"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "first"]);
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Without bubblewrap these tests would say nothing.
fn require_bubblewrap() {
    if let Some(problem) = agent::sandbox::probe().problem {
        panic!("the sandbox cannot be tested here: {}; {}", problem.what, problem.remedy);
    }
}
