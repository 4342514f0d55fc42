//! One row: runs its command through the tool and compares.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent::sandbox::{Layout, Sandbox, SandboxPolicy};
use agent::secrets::Redactor;
use agent::tool::OutputSink;
use agent::tools::bash::Bash;
use agent::{Tool, ToolContext, ToolError, ToolOutput};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::SECRETS;
use crate::memory;
use crate::support::{ensure, fill_in, scratch, typed};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(rename = "id")]
    _id: String,
    command: String,
    timeout_ms: Option<u64>,
    cancel_after_ms: Option<u64>,
    expect: Expect,
    #[serde(rename = "notes")]
    _notes: String,
    #[serde(rename = "topic")]
    _topic: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    result: Option<Outcome>,
    #[serde(default)]
    result_any: Vec<Outcome>,
    exit: Option<i32>,
    within_ms: Option<u128>,
    #[serde(default)]
    stdout_contains: Vec<String>,
    stdout_matches: Option<String>,
    stdout_max_int: Option<i64>,
    #[serde(default)]
    stdout_is_workspace: bool,
    #[serde(default)]
    message_any: Vec<String>,
    message_hint: Option<String>,
    #[serde(default)]
    must_not_contain: Vec<String>,
    #[serde(default)]
    model_text_excludes_hex: Vec<String>,
    /// Nothing reaches a terminal but what the tool hands out.
    #[serde(default)]
    terminal_must_not_contain_hex: Vec<String>,
    /// Compared where the terminal is read.
    #[serde(rename = "terminal_must_not_contain")]
    _terminal_must_not_contain: Option<Vec<String>>,
    max_output_chars: Option<usize>,
    max_rss_growth_mb: Option<u64>,
    #[serde(default)]
    no_survivors: Vec<String>,
    #[serde(default)]
    no_zombies: bool,
    #[serde(default)]
    no_nul: bool,
    #[serde(default)]
    framing_intact: bool,
    /// Holds for every row: a result is a Rust string.
    #[serde(rename = "valid_utf8")]
    _valid_utf8: Option<bool>,
    /// Holds for every row: a panic fails it.
    #[serde(rename = "no_panic")]
    _no_panic: Option<bool>,
    /// Another call in the same place.
    next: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    Error,
    Timeout,
    Cancelled,
}

/// Everything that can be seen of a call.
struct Seen {
    outcome: Outcome,
    text: String,
    /// What was shown while it ran, and what a person sees in the end.
    shown: String,
    took: Duration,
    rss_growth_mb: u64,
}

pub(super) fn run(case: &Value) -> Result<(), String> {
    let dir = scratch();
    let workspace = dir.path().canonicalize().unwrap().join("W");
    std::fs::create_dir(&workspace).unwrap();
    let mut case = case.clone();
    make_sleeps_unique(&mut case);
    fill_in(&mut case, &[("ABS", &workspace)]);
    let row: Row = typed(&case)?;
    let seen = call(&row.command, row.timeout_ms, row.cancel_after_ms, &workspace);
    row.expect.hold(&seen, &row.command, &workspace)?;
    let Some(Value::Object(mut next)) = row.expect.next else { return Ok(()) };
    let command = next.remove("command").ok_or("the next call has no command")?;
    let command = command.as_str().ok_or("the next command is no text")?;
    next.entry("result").or_insert(json!("ok"));
    let seen = call(command, None, None, &workspace);
    typed::<Expect>(&Value::Object(next))?.hold(&seen, command, &workspace)
}

/// Gives the sleeps that must not survive a length that nobody else on this machine uses.
fn make_sleeps_unique(case: &mut Value) {
    let own = format!(".00{}", std::process::id());
    let survivors = case["expect"]["no_survivors"].as_array().cloned().unwrap_or_default();
    for (index, survivor) in survivors.iter().enumerate() {
        let Some(sleep) = survivor.as_str().filter(|text| text.starts_with("sleep ")) else {
            continue;
        };
        let unique = format!("{sleep}{own}");
        case["command"] = json!(case["command"].as_str().unwrap().replace(sleep, &unique));
        case["expect"]["no_survivors"][index] = json!(unique);
    }
}

/// Bounded as the way to a person's screen is: a flood that a test kept whole would be its own growth.
#[derive(Default)]
struct Screen(Mutex<String>);

const SCREEN_BYTES: usize = 1 << 20;

impl OutputSink for Screen {
    fn chunk(&self, text: &str) {
        let mut shown = self.0.lock().unwrap();
        if shown.len() < SCREEN_BYTES {
            shown.push_str(text);
        }
    }
}

fn call(command: &str, timeout: Option<u64>, cancel_after: Option<u64>, workspace: &Path) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let screen = Arc::new(Screen::default());
    let ctx = ToolContext {
        cwd: workspace.to_owned(),
        cancel: CancellationToken::new(),
        session_id: "cases".into(),
        output: Some(screen.clone()),
        grants: agent::tool::Grants::default(),
        redactor: Arc::new(Redactor::new(SECRETS.iter().copied())),
    };
    let mut args = json!({ "command": command });
    if let Some(timeout) = timeout {
        args["timeout_ms"] = timeout.into();
    }
    let rss = memory::reset_peak();
    let started = Instant::now();
    let result = runtime.block_on(async {
        let bash = Bash::new(Arc::new(sandbox(command, workspace)));
        let call = bash.call(args, &ctx);
        let cancel = async {
            match cancel_after {
                Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                None => std::future::pending().await,
            }
            ctx.cancel.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            result = call => result,
            () = cancel => unreachable!(),
        }
    });
    let took = started.elapsed();
    let rss_growth_mb = memory::peak().saturating_sub(rss) / 1024;
    let mut shown = std::mem::take(&mut *screen.0.lock().unwrap());
    let (outcome, text) = match result {
        Ok(ToolOutput { text, display, .. }) => {
            shown.extend(display);
            (Outcome::Ok, text)
        }
        Err(ToolError::Cancelled(text)) => (Outcome::Cancelled, text),
        Err(ToolError::Failed(text)) if text.starts_with("Timed out") => (Outcome::Timeout, text),
        Err(error) => (Outcome::Error, error.to_string()),
    };
    Seen { outcome, text, shown, took, rss_growth_mb }
}

/// Confined where this machine can: what is true of commands has to be true of confined ones.
fn sandbox(command: &str, workspace: &Path) -> Sandbox {
    match agent::sandbox::probe().problem {
        // A confined command cannot remove the folder that it runs in, which this one is about.
        _ if command.starts_with("rm -rf ") || !workspace.exists() => Sandbox::unconfined(),
        None => Sandbox::new(
            SandboxPolicy::WorkspaceWrite { network: false },
            Layout::workspace(workspace),
        ),
        Some(_) => Sandbox::unconfined(),
    }
}

impl Seen {
    /// The part under the label of standard output.
    fn stdout(&self) -> &str {
        let after = self.text.split_once("\nstdout:\n").map_or("", |(_, stdout)| stdout);
        after.split_once("\nstderr:\n").map_or(after, |(stdout, _)| stdout)
    }
}

impl Expect {
    fn hold(&self, seen: &Seen, command: &str, workspace: &Path) -> Result<(), String> {
        let outcomes: Vec<Outcome> = self.result.iter().chain(&self.result_any).copied().collect();
        ensure(
            outcomes.contains(&seen.outcome),
            format_args!("expected {outcomes:?}, got {:?}: {}", seen.outcome, seen.text),
        )?;
        self.text_holds(seen, workspace)?;
        self.bounds_hold(seen)?;
        if self.framing_intact {
            framing_holds(seen, command)?;
        }
        processes_hold(&self.no_survivors, self.no_zombies)
    }

    fn text_holds(&self, seen: &Seen, workspace: &Path) -> Result<(), String> {
        let (text, stdout) = (&seen.text, seen.stdout());
        if let Some(code) = self.exit {
            let first = text.lines().next().unwrap_or_default();
            ensure(first == format!("Exit code: {code}"), format_args!("not {code}: {text}"))?;
        }
        for part in &self.stdout_contains {
            ensure(stdout.contains(part), format_args!("no {part:?} in {stdout:?}"))?;
        }
        if let Some(pattern) = &self.stdout_matches {
            let matches = Regex::new(pattern).unwrap().is_match(stdout);
            ensure(matches, format_args!("{pattern} does not match {stdout:?}"))?;
        }
        if let Some(max) = self.stdout_max_int {
            let number: i64 =
                stdout.trim().parse().map_err(|_| format!("no number: {stdout:?}"))?;
            ensure(number <= max, format_args!("{number} is more than {max}"))?;
        }
        if self.stdout_is_workspace {
            ensure(
                Path::new(stdout.trim_end()) == workspace,
                format_args!("{stdout:?} is elsewhere"),
            )?;
        }
        if !self.message_any.is_empty() {
            let any = self.message_any.iter().any(|message| text.contains(message));
            ensure(any, format_args!("none of {:?} in {text}", self.message_any))?;
        }
        if let Some(hint) = &self.message_hint {
            ensure(text.contains(hint), format_args!("no {hint:?} in {text}"))?;
        }
        ensure(!self.no_nul || !text.contains('\0'), "a NUL in the text")?;
        for secret in &self.must_not_contain {
            let clean = !text.contains(secret) && !seen.shown.contains(secret);
            ensure(clean, format_args!("{secret} is told"))?;
        }
        for hex in &self.model_text_excludes_hex {
            ensure(!contains_hex(text, hex), format_args!("{hex} in the text"))?;
        }
        for hex in &self.terminal_must_not_contain_hex {
            let clean = !contains_hex(text, hex) && !contains_hex(&seen.shown, hex);
            ensure(clean, format_args!("{hex} would reach the terminal"))?;
        }
        Ok(())
    }

    fn bounds_hold(&self, seen: &Seen) -> Result<(), String> {
        if let Some(within) = self.within_ms {
            ensure(seen.took.as_millis() <= within, format_args!("took {:?}", seen.took))?;
        }
        if let Some(max) = self.max_output_chars {
            let chars = seen.text.chars().count();
            ensure(chars <= max, format_args!("{chars} characters"))?;
        }
        if let Some(max) = self.max_rss_growth_mb {
            ensure(seen.rss_growth_mb <= max, format_args!("grew by {} MB", seen.rss_growth_mb))?;
        }
        Ok(())
    }
}

fn contains_hex(text: &str, hex: &str) -> bool {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    text.as_bytes().windows(bytes.len()).any(|window| window == bytes)
}

/// What the command prints is under its label, whole and unchanged, whatever it looks like.
fn framing_holds(seen: &Seen, command: &str) -> Result<(), String> {
    let bare = Command::new("bash").args(["-c", command]).env_remove("BASH_ENV").output().unwrap();
    let bare = String::from_utf8(bare.stdout).unwrap();
    ensure(seen.text == format!("Exit code: 0\nstdout:\n{bare}"), format_args!("{:?}", seen.text))
}

fn processes_hold(no_survivors: &[String], no_zombies: bool) -> Result<(), String> {
    // As a program does at its end: the runtime that reaps empty sandboxes stands still between calls.
    agent::process::reap_the_last();
    let listed = Command::new("ps").args(["-A", "-o", "ppid=,pid=,stat=,args="]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let own = std::process::id().to_string();
    for line in listed.lines() {
        let mut fields = line.split_whitespace();
        let (parent, _pid, state) = (fields.next(), fields.next(), fields.next().unwrap_or("?"));
        let command: Vec<&str> = fields.collect();
        let command = command.join(" ");
        let survives = no_survivors.iter().any(|survivor| command.contains(survivor));
        ensure(!survives, format_args!("still runs: {command}"))?;
        let is_zombie = state.starts_with('Z') && parent == Some(&*own);
        ensure(!no_zombies || !is_zombie, format_args!("a zombie is left: {command}"))?;
    }
    Ok(())
}
