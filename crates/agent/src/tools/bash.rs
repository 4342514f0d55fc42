//! bash: schema and text over [`process`].

mod plain;
mod report;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::process::{self, Ended, Keep, OutputSeen, SpawnError, Spec, Stream};
use crate::secrets::child_env;
use crate::tool::{Effects, OnCancel, OutputSink, ToolContext, ToolError, ToolOutput, TypedTool};
use plain::Plain;

/// How long a command may run when the call does not say.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// How long a command may run at most.
const MAX_TIMEOUT_MS: u64 = 600_000;
/// What is kept of each stream: enough for the text that is shown even if every character has four bytes.
const KEEP: Keep = Keep { head: 128 * 1024, tail: 128 * 1024 };

/// Runs a command line in a fresh bash.
#[derive(Debug, Default, Clone)]
pub struct Bash {
    /// Names of further environment variables that a person trusted commands with.
    pub passthrough: Vec<OsString>,
}

/// What a call of [`Bash`] says.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashArgs {
    /// The command line.
    pub command: String,
    /// Milliseconds it may run; default 120000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u64>,
}

#[async_trait]
impl TypedTool for Bash {
    type Args = BashArgs;

    fn name(&self) -> &str {
        "bash"
    }

    fn description(&self) -> &str {
        "Runs a bash command in the workspace and returns its exit code, stdout and stderr. Each call is a \
         fresh shell: cd and variables do not persist, there is no terminal, stdin is empty, and \
         background processes end with the call. To read, find and change files use read_file, grep, glob \
         and edit_file instead of cat, grep, find and sed."
    }

    fn effects(&self, _args: &BashArgs) -> Effects {
        Effects::command()
    }

    fn on_cancel(&self) -> OnCancel {
        OnCancel::MayBePartial
    }

    fn permission_subject(&self, args: &BashArgs) -> Option<String> {
        Some(args.command.clone())
    }

    async fn run(&self, args: BashArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let timeout_ms = checked(&args)?;
        if ctx.cancel.is_cancelled() {
            return Err(ToolError::Cancelled("cancelled before the command was started".into()));
        }
        let child = process::spawn(self.spec(args.command, timeout_ms, ctx)).map_err(refused)?;
        let finished = child.wait().await.map_err(|error| {
            ToolError::Cancelled(format!(
                "the command was ended because anvil is stopping; its effects are uncertain ({error})"
            ))
        })?;
        let text = report::text(&finished, timeout_ms);
        match finished.ended {
            Ended::Completed => Ok(text.into()),
            Ended::TimedOut => Err(ToolError::Failed(text)),
            Ended::Cancelled => Err(ToolError::Cancelled(text)),
        }
    }
}

impl Bash {
    fn spec(&self, command: String, timeout_ms: u64, ctx: &ToolContext) -> Spec {
        let env = child_env(&ctx.session_id, &self.passthrough);
        Spec {
            program: bash_in(&env),
            // The name that its messages begin with.
            arg0: Some("bash".into()),
            // The command may begin with a dash.
            args: vec!["-c".into(), "--".into(), command.into()],
            cwd: ctx.cwd.clone(),
            env,
            timeout: Duration::from_millis(timeout_ms),
            cancel: ctx.cancel.clone(),
            keep: KEEP,
            output: ctx.output.clone().map(live),
        }
    }
}

/// The time limit of a call that can be carried out, in milliseconds.
fn checked(args: &BashArgs) -> Result<u64, ToolError> {
    if args.command.contains('\0') {
        return Err(ToolError::InvalidArgs(
            "command contains a NUL character, which no command line can hold; write it as \\0 where a \
             program understands that"
                .into(),
        ));
    }
    let timeout_ms = args.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
    if (1..=MAX_TIMEOUT_MS).contains(&timeout_ms) {
        return Ok(timeout_ms);
    }
    Err(ToolError::InvalidArgs(format!(
        "timeout_ms is {timeout_ms}, but must be between 1 and {MAX_TIMEOUT_MS}"
    )))
}

fn refused(error: SpawnError) -> ToolError {
    ToolError::Failed(match &error {
        SpawnError::Refused { source, .. } if source.kind() == ErrorKind::ArgumentListTooLong => {
            "the command is longer than the system allows; write it to a file with write_file and run \
             that with bash"
                .into()
        }
        SpawnError::Refused { source, .. } if source.kind() == ErrorKind::NotFound => {
            format!("{error}; install bash or put it on PATH")
        }
        SpawnError::Refused { .. } | SpawnError::NoCwd { .. } => error.to_string(),
    })
}

/// Where bash is. Searched only in absolute folders of `PATH`, since the others are whatever the
/// workspace makes of them.
fn bash_in(env: &[(OsString, OsString)]) -> PathBuf {
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
    std::env::split_paths(path.unwrap_or_default())
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("bash"))
        .find(|file| file.is_file())
        .unwrap_or_else(|| PathBuf::from("/bin/bash"))
}

/// Shows output as it comes, as plain text with whole characters.
fn live(sink: Arc<dyn OutputSink>) -> OutputSeen {
    let (mut stdout, mut stderr) = (Plain::default(), Plain::default());
    let mut text = String::new();
    Box::new(move |stream, bytes| {
        let plain = match stream {
            Stream::Stdout => &mut stdout,
            Stream::Stderr => &mut stderr,
        };
        plain.push(bytes, &mut text);
        if !text.is_empty() {
            sink.chunk(&text);
        }
        text.clear();
    })
}
