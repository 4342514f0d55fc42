//! Kind `sandbox`: one command under a policy, and what can be seen of it from outside afterwards.
//!
//! The rows run in a process of their own, whose environment is full of secrets and has the workspace first
//! on `PATH`. Each runs twice, in a repository and in a folder that is none, unless it is about one of them.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

use agent::sandbox::{Layout, Sandbox, SandboxPolicy};
use agent::tools::bash::Bash;
use agent::{Tool, ToolContext, ToolError};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{ensure, rows, run_all, scratch, typed};

/// Set in the process that has the environment, to the folder of all its scenes.
const STAGE: &str = "ANVIL_TEST_STAGE";

/// What the environment of a person holds.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "sk-test-0123456789abcdef0123"),
    ("GITHUB_TOKEN", "sk-test-0123456789abcdef0123"),
    ("MY_SECRET", "sk-test-0123456789abcdef0123"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/0/bus"),
    ("SSH_AUTH_SOCK", "/run/user/0/agent"),
    ("XDG_RUNTIME_DIR", "/run/user/0"),
    ("DISPLAY", ":0"),
    ("WAYLAND_DISPLAY", "wayland-0"),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    policy: Policy,
    setup: [Value; 0],
    command: String,
    expect: Expect,
    #[serde(rename = "notes")]
    _notes: String,
    #[serde(rename = "topic")]
    _topic: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    WorkspaceWriteNoNet,
    ReadOnly,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    exit: Option<i32>,
    #[serde(default)]
    host_absent: Vec<String>,
    #[serde(default)]
    host_unchanged: Vec<PathBuf>,
    #[serde(default)]
    workspace_absent: Vec<String>,
    #[serde(default)]
    file_unchanged: Vec<String>,
    stdout_only: Option<Vec<String>>,
    #[serde(default)]
    stdout_contains: Vec<String>,
    #[serde(default)]
    stdout_excludes: Vec<String>,
    stdout_matches: Option<String>,
    #[serde(default)]
    listener_untouched: bool,
    /// A program in the workspace that would leave a mark.
    must_not_run: Option<String>,
    /// Nothing but no panic and no hang, which every row has to hold.
    #[serde(rename = "any")]
    _any: Option<bool>,
    #[serde(rename = "no_panic")]
    _no_panic: Option<bool>,
}

#[test]
fn every_sandbox_case_holds() {
    let cases = rows("sandbox", "escapes.jsonl");
    if std::env::var_os(STAGE).is_some() {
        return run_all("sandbox", &cases, &[], |case| {
            let row: Row = typed(case)?;
            let [] = row.setup;
            let needs_repository = matches!(row.id.as_str(), "sbx-git-ok" | "sbx-git-config");
            run(&row, true)?;
            if needs_repository { Ok(()) } else { run(&row, false) }
        });
    }
    if let Some(problem) = agent::sandbox::probe().problem {
        assert!(std::env::var_os("CI").is_none(), "{}; {}", problem.what, problem.remedy);
        eprintln!("cases: sandbox: NOT TESTED, {}; {}", problem.what, problem.remedy);
        return;
    }
    let stage = scratch();
    let workspace = stage.path().canonicalize().unwrap().join("home/W");
    let path = std::env::var("PATH").unwrap();
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::every_sandbox_case_holds", "--nocapture"])
        .env(STAGE, stage.path())
        .env("HOME", stage.path().join("home"))
        .env("PATH", format!("{}:{path}", workspace.display()))
        .envs(ENVIRONMENT.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stderr);
    eprintln!("{said}");
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
}

/// What is there around a command.
struct Scene {
    home: PathBuf,
    workspace: PathBuf,
    tcp: TcpListener,
    udp: UdpSocket,
    /// Kept open.
    _sockets: [UnixListener; 2],
    bystander: Child,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.bystander.kill().unwrap();
        self.bystander.wait().unwrap();
    }
}

impl Scene {
    fn set(is_repository: bool) -> Self {
        let home =
            PathBuf::from(std::env::var_os(STAGE).unwrap()).canonicalize().unwrap().join("home");
        if home.exists() {
            fs::remove_dir_all(&home).unwrap();
        }
        let workspace = home.join("W");
        for (name, text) in [
            (".ssh/id_rsa", "PRIVATE"),
            (".aws/credentials", "PRIVATE"),
            (".netrc", "PRIVATE"),
            ("W/bwrap", "#!/bin/sh\ntouch \"$(dirname \"$0\")/PWNED\"\n"),
        ] {
            let path = home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::set_permissions(workspace.join("bwrap"), fs::Permissions::from_mode(0o755)).unwrap();
        if is_repository {
            let made = Command::new("git").args(["init", "-q"]).current_dir(&workspace).status();
            assert!(made.unwrap().success());
        }
        let (tcp, udp) = listen();
        let in_workspace = UnixListener::bind(workspace.join("socket")).unwrap();
        let name = SocketAddr::from_abstract_name(abstract_name()).unwrap();
        let in_namespace = UnixListener::bind_addr(&name).unwrap();
        let bystander = Command::new("sleep").arg("1000").spawn().unwrap();
        Self { home, workspace, tcp, udp, _sockets: [in_workspace, in_namespace], bystander }
    }

    fn fill_in(&self, text: &str) -> String {
        let port = self.tcp.local_addr().unwrap().port().to_string();
        let socket = self.workspace.join("socket");
        let text = text
            .replace("{LISTENER}", &port)
            .replace("{WS_SOCK}", socket.to_str().unwrap())
            .replace("{ABSTRACT}", &abstract_name())
            .replace("{HOST_PID}", &self.bystander.id().to_string());
        let mut text = Value::String(text);
        crate::support::fill_in(&mut text, &[]);
        text.as_str().unwrap().to_owned()
    }

    fn outside(&self, name: &str) -> PathBuf {
        match name.strip_prefix("~/") {
            Some(name) => self.home.join(name),
            None => PathBuf::from(name),
        }
    }
}

/// A port that nobody else listens on, for connections and for datagrams.
fn listen() -> (TcpListener, UdpSocket) {
    for _ in 0..100 {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
            tcp.set_nonblocking(true).unwrap();
            udp.set_nonblocking(true).unwrap();
            return (tcp, udp);
        }
    }
    panic!("no port is free for both");
}

fn abstract_name() -> String {
    format!("anvil-test-{}", std::process::id())
}

fn run(row: &Row, is_repository: bool) -> Result<(), String> {
    let scene = Scene::set(is_repository);
    let before = |path: &Path| fs::read(path).ok();
    let watched: Vec<PathBuf> = (row.expect.host_unchanged.iter().cloned())
        .chain(row.expect.file_unchanged.iter().map(|name| scene.workspace.join(name)))
        .collect();
    let contents: Vec<_> = watched.iter().map(|path| before(path)).collect();
    let text = call(row, &scene)?;
    for (path, content) in watched.iter().zip(contents) {
        ensure(before(path) == content, format_args!("{} changed", path.display()))?;
    }
    row.expect
        .hold(&text, &scene)
        .map_err(|why| format!("{why} (repository: {is_repository})\n{text}"))
}

fn call(row: &Row, scene: &Scene) -> Result<String, String> {
    let policy = match row.policy {
        Policy::WorkspaceWriteNoNet => SandboxPolicy::WorkspaceWrite { network: false },
        Policy::ReadOnly => SandboxPolicy::ReadOnly,
    };
    let layout = Layout { homes: vec![scene.home.clone()], ..Layout::workspace(&scene.workspace) };
    let bash = Bash::new(Arc::new(Sandbox::new(policy, layout)));
    let ctx = ToolContext {
        cwd: scene.workspace.clone(),
        cancel: CancellationToken::new(),
        session_id: "cases".into(),
        output: None,
        redactor: Arc::default(),
        grants: agent::tool::Grants::default(),
    };
    let args = json!({ "command": scene.fill_in(&row.command), "timeout_ms": 60_000 });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(bash.call(args, &ctx)) {
        Ok(output) => Ok(output.text),
        Err(ToolError::Failed(text)) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}

impl Expect {
    fn hold(&self, text: &str, scene: &Scene) -> Result<(), String> {
        ensure(text.starts_with("Exit code: "), "the command did not run")?;
        if let Some(code) = self.exit {
            ensure(text.starts_with(&format!("Exit code: {code}\n")), format_args!("not {code}"))?;
        }
        for name in &self.host_absent {
            ensure(!scene.outside(name).exists(), format_args!("{name} is there"))?;
        }
        for name in &self.workspace_absent {
            let is_there = scene.workspace.join(name).symlink_metadata().is_ok();
            ensure(!is_there, format_args!("{name} is there"))?;
        }
        if self.must_not_run.is_some() {
            ensure(!scene.workspace.join("PWNED").exists(), "the one in the workspace ran")?;
        }
        if self.listener_untouched {
            let nobody = |result: std::io::Error| result.kind() == ErrorKind::WouldBlock;
            ensure(scene.tcp.accept().is_err_and(nobody), "somebody connected")?;
            ensure(scene.udp.recv(&mut [0; 16]).is_err_and(nobody), "a datagram came")?;
        }
        self.output_holds(text)
    }

    fn output_holds(&self, text: &str) -> Result<(), String> {
        let after = text.split_once("stdout:\n").map_or("", |(_, after)| after);
        let stdout = after.split_once("stderr:\n").map_or(after, |(stdout, _)| stdout);
        if let Some(only) = &self.stdout_only {
            ensure(stdout.lines().eq(only.iter().map(String::as_str)), "more was printed")?;
        }
        for part in &self.stdout_contains {
            ensure(stdout.contains(part), format_args!("no {part:?}"))?;
        }
        for part in &self.stdout_excludes {
            ensure(!stdout.contains(part), format_args!("{part:?} was printed"))?;
        }
        if let Some(pattern) = &self.stdout_matches {
            ensure(Regex::new(pattern).unwrap().is_match(stdout), format_args!("not {pattern}"))?;
        }
        Ok(())
    }
}
