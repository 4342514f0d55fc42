//! The real binary in a home of its own, talking to a model server of the test's own.
#![allow(dead_code, reason = "each test target uses its part")]
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "only tests use it")]

#[cfg(target_os = "linux")]
pub mod hangup;
pub mod listener;
pub mod model;
pub mod pty;
pub mod survivors;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use model::Model;

/// Longest a run may take before the test calls it hung.
const HUNG: Duration = Duration::from_secs(60);

/// A scratch home and workspace. Both vanish with it.
pub struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "work", "anvil"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    /// The workspace, without symbolic links in its path.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work").canonicalize().unwrap()
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("anvil/data")
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("anvil/config")
    }

    /// `anvil` in the workspace with nothing of the test's own environment but the path.
    pub fn anvil(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anvil"));
        self.confine(&mut command);
        command
    }

    /// The same with `model` as its only server.
    pub fn anvil_with(&self, model: &Model) -> Command {
        let mut command = self.anvil();
        model.point(&mut command);
        command
    }

    /// The same for a user who may do only what the modes of files let them do: of whoever may do
    /// everything it makes another one, who owns this home.
    pub fn anvil_as_user(&self, model: &Model) -> Command {
        use std::os::unix::fs::{PermissionsExt as _, chown};
        use std::os::unix::process::CommandExt as _;

        if !nix::unistd::geteuid().is_root() {
            return self.anvil_with(model);
        }
        const NOBODY: u32 = 65_534;
        // Where programs are built, nobody else may be let in.
        let program = self.dir.path().join("program");
        std::fs::copy(env!("CARGO_BIN_EXE_anvil"), &program).unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.dir.path(), open).unwrap();
        for name in ["home", "work", "anvil", "anvil/data", "anvil/config"] {
            let path = self.dir.path().join(name);
            if path.exists() {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let mut command = Command::new(program);
        self.confine(&mut command);
        model.point(&mut command);
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    /// A shell in the workspace for which `anvil` is a command.
    pub fn shell(&self, script: &str, model: &Model) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        self.confine(&mut command);
        model.point(&mut command);
        let bin = Path::new(env!("CARGO_BIN_EXE_anvil")).parent().unwrap();
        let mut path = bin.as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        command.env("PATH", path);
        command
    }

    fn confine(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .env("ANVIL_HOME", self.dir.path().join("anvil"))
            // Nothing listens there: a run without a key must not find a server of this machine.
            .env("OLLAMA_HOST", "127.0.0.1:1")
            // A dozen processes beside each run, which most tests have no use for.
            .env("ANVIL_ASK_PROGRAMS", "no")
            .current_dir(self.work());
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.work().join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work().join(name)).unwrap()
    }
}

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Ran {
    #[track_caller]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by a signal: {self:?}"))
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Standard output as one JSON value a line.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.out.lines().map(parse).collect()
    }

    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code(), code, "{self:?}");
        self
    }

    #[track_caller]
    pub fn assert_no_panic(&self) -> &Self {
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }
}

/// Runs to the end with nothing on standard input.
pub fn run(command: &mut Command) -> Ran {
    command.stdin(Stdio::null());
    Running::start(command).finish()
}

/// Runs to the end with `input` piped in.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let mut stdin = running.child.stdin.take().unwrap();
    let input = input.to_vec();
    // The program may leave without reading it all, which is its right.
    std::thread::spawn(move || drop(stdin.write_all(&input)));
    running.finish()
}

/// A run whose output is gathered while it lasts.
pub struct Running {
    pub child: Child,
    started: Instant,
    out: Option<mpsc::Receiver<Vec<u8>>>,
    err: Option<mpsc::Receiver<Vec<u8>>>,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::spawn(command, |child| child.stdout.take().map(gather))
    }

    /// Leaves standard output to the test, and standard error as the command has it.
    pub fn start_as_is(command: &mut Command) -> Self {
        Self::spawn(command, |_| None)
    }

    fn spawn(
        command: &mut Command,
        out: impl FnOnce(&mut Child) -> Option<mpsc::Receiver<Vec<u8>>>,
    ) -> Self {
        let started = Instant::now();
        let mut child = command.spawn().unwrap();
        let out = out(&mut child);
        let err = child.stderr.take().map(gather);
        Self { child, started, out, err }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.id().try_into().unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    #[track_caller]
    pub fn finish(mut self) -> Ran {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.started.elapsed() > HUNG {
                self.child.kill().unwrap();
                panic!("hung; stderr: {}", collect(self.err));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let took = self.started.elapsed();
        Ran { status, out: collect(self.out), err: collect(self.err), took }
    }
}

fn gather(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        // The test may have failed and gone.
        drop(sender.send(all));
    });
    receiver
}

fn collect(from: Option<mpsc::Receiver<Vec<u8>>>) -> String {
    let Some(from) = from else { return String::new() };
    // Somebody else may hold the pipe open: a survivor, which is what the tests look for.
    let bytes = from.recv_timeout(Duration::from_secs(10)).expect("output never ended");
    String::from_utf8(bytes).expect("output is UTF-8")
}

/// Waits until `is_so`, or fails after a while with `what`.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(20), "never came to be: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a program of this name can be started.
pub fn has(program: impl AsRef<OsStr>) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}
