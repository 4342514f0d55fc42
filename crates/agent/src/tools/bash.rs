//! bash: schema and text over [`process`].

mod plain;
mod report;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::process::{self, Ended, Keep, OutputSeen, SpawnError, Spec, Status, Stream};
use crate::sandbox::{Aftermath, Sandbox, Wrapped};
use crate::secrets::{RedactStream, Redactor, child_env};
use crate::tool::{
    Effects, OnCancel, OutputSink, SubjectKind, ToolContext, ToolError, ToolOutput, TypedTool,
};
use crate::tools::off_runtime::{finish_off_runtime, off_runtime};
use plain::Plain;

/// How long a command may run when the call does not say.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// How long a command may run at most.
const MAX_TIMEOUT_MS: u64 = 600_000;
/// What is kept of each stream: enough for the text that is shown even if every character has four bytes.
const KEEP: Keep = Keep { head: 128 * 1024, tail: 128 * 1024 };

/// How much of the end of a standard error is looked through for what the sandbox held back.
const DENIAL_BYTES: usize = 8 * 1024;

/// Runs a command line in a fresh bash.
#[derive(Debug, Clone)]
pub struct Bash {
    /// Names of further environment variables that a person trusted commands with.
    pub passthrough: Vec<OsString>,
    /// What confines the commands.
    pub sandbox: Arc<Sandbox>,
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

    fn subject_kind(&self) -> Option<SubjectKind> {
        Some(SubjectKind::Command)
    }

    async fn run(&self, args: BashArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let timeout_ms = checked(&args)?;
        if ctx.cancel.is_cancelled() {
            return Err(ToolError::Cancelled("cancelled before the command was started".into()));
        }
        let joins = joins_errors(&args.command);
        let wrapped = self.wrapped(args.command, ctx).await?;
        let (spec, aftermath) = spec(wrapped, timeout_ms, ctx);
        let child = process::spawn(spec).map_err(refused)?;
        let finished = match child.wait().await {
            Ok(finished) => finished,
            Err(error) => {
                // No thread takes work any more.
                let _told_to_nobody = aftermath.settle(&[]);
                return Err(ToolError::Cancelled(format!(
                    "the command was ended because anvil is stopping; its effects are uncertain ({error})"
                )));
            }
        };
        let errors = finished.stderr.tail_of(DENIAL_BYTES);
        if finished.status == Status::Exited(1)
            && finished.stdout.is_empty()
            && let Some(error) = aftermath.refusal(&errors)
        {
            return Err(ToolError::Failed(error.to_string()));
        }
        let errors = match joins {
            true => [finished.stdout.tail_of(DENIAL_BYTES), errors].concat(),
            false => errors,
        };
        let notes = finish_off_runtime(move || Ok(aftermath.settle(&errors))).await?;
        let about = report::About { timeout_ms, redactor: &ctx.redactor, notes: &notes };
        let text = report::text(&finished, about);
        match finished.ended {
            Ended::Completed => Ok(text.into()),
            Ended::TimedOut => Err(ToolError::Failed(text)),
            Ended::Cancelled => Err(ToolError::Cancelled(text)),
        }
    }
}

impl Bash {
    /// Commands in `sandbox`, with no further variables.
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        Self { passthrough: Vec::new(), sandbox }
    }

    /// Commands that nothing confines, for embedding where something else does, and for tests.
    pub fn unconfined() -> Self {
        Self::new(Arc::new(Sandbox::unconfined()))
    }

    /// The command as the sandbox runs it.
    async fn wrapped(&self, command: String, ctx: &ToolContext) -> Result<Wrapped, ToolError> {
        let env = child_env(&ctx.session_id, &self.passthrough);
        let (sandbox, cwd, grants) =
            (Arc::clone(&self.sandbox), ctx.cwd.clone(), ctx.grants.clone());
        off_runtime(&ctx.cancel, move || {
            let bash = bash_in(&env, |path| {
                sandbox.may_hold(path) || path.starts_with(&cwd) || sandbox.hides(path)
            });
            // The command may begin with a dash. Last the name that messages begin with.
            let args = vec!["-c".into(), "--".into(), command.into(), "bash".into()];
            let wrapped = sandbox.wrap(&bash, args, &cwd, env, &grants);
            wrapped.map_err(|error| ToolError::Failed(error.to_string()))
        })
        .await
    }
}

/// Whether the command prints its errors among what it prints, as far as its text tells.
fn joins_errors(command: &str) -> bool {
    ["2>&1", "&>", "|&"].iter().any(|sign| command.contains(sign))
}

fn spec(wrapped: Wrapped, timeout_ms: u64, ctx: &ToolContext) -> (Spec, Aftermath) {
    let Wrapped { program, arg0, args, env, descriptors, confines, restriction, aftermath } =
        wrapped;
    let spec = Spec {
        program,
        arg0,
        args,
        cwd: ctx.cwd.clone(),
        env,
        descriptors,
        confines,
        restriction,
        timeout: Duration::from_millis(timeout_ms),
        cancel: ctx.cancel.clone(),
        keep: KEEP,
        output: ctx.output.clone().map(|sink| live(sink, &ctx.redactor)),
    };
    (spec, aftermath)
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
        SpawnError::Refused { .. } | SpawnError::Cwd { .. } => error.to_string(),
    })
}

/// Where bash is. Searched only in absolute folders of `PATH` that the workspace makes nothing of and the
/// sandbox shows.
fn bash_in(env: &[(OsString, OsString)], is_no_place: impl Fn(&Path) -> bool) -> PathBuf {
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
    std::env::split_paths(path.unwrap_or_default())
        .filter(|folder| folder.is_absolute() && !is_no_place(folder))
        .map(|folder| folder.join("bash"))
        .find(|file| file.is_file() && !is_no_place(file))
        .unwrap_or_else(|| PathBuf::from("/bin/bash"))
}

/// Shows output as it comes, as plain text with whole characters. Each stream by itself is kept from
/// showing secrets, since between them they could be mixed in parts.
fn live(sink: Arc<dyn OutputSink>, redactor: &Arc<Redactor>) -> OutputSeen {
    let shown =
        || Shown { plain: Plain::default(), redacted: redactor.stream(), sink: Arc::clone(&sink) };
    let (mut stdout, mut stderr) = (shown(), shown());
    Box::new(move |stream, bytes| match stream {
        Stream::Stdout => stdout.push(bytes),
        Stream::Stderr => stderr.push(bytes),
    })
}

/// One stream on its way to a person.
struct Shown {
    plain: Plain,
    redacted: RedactStream,
    sink: Arc<dyn OutputSink>,
}

impl Shown {
    fn push(&mut self, bytes: &[u8]) {
        let mut text = String::new();
        self.plain.push(bytes, &mut text);
        self.show(|redacted| redacted.push_str(&text));
    }

    fn show(&mut self, step: impl FnOnce(&mut RedactStream) -> String) {
        let text = step(&mut self.redacted);
        if !text.is_empty() {
            self.sink.chunk(&text);
        }
    }
}

impl Drop for Shown {
    /// The stream has ended: what was kept back begins no secret.
    fn drop(&mut self) {
        self.show(RedactStream::finish_str);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::{Value, json};

    use super::*;
    use crate::tool::Tool;

    #[derive(Default)]
    struct Screen(Mutex<Vec<String>>);

    impl OutputSink for Screen {
        fn chunk(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    fn context() -> ToolContext {
        ToolContext {
            cwd: std::env::temp_dir(),
            cancel: tokio_util::sync::CancellationToken::new(),
            session_id: "session".into(),
            output: None,
            grants: crate::tool::Grants::default(),
            redactor: std::sync::Arc::default(),
        }
    }

    async fn call(args: Value) -> Result<String, ToolError> {
        Bash::unconfined().call(args, &context()).await.map(|output| output.text)
    }

    #[track_caller]
    fn refusal(result: Result<String, ToolError>) -> String {
        match result {
            Err(ToolError::InvalidArgs(text) | ToolError::Failed(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_time_limit_outside_its_range_is_refused_with_the_range() {
        for timeout in [0_u64, 600_001, 99_999_999_999] {
            let text = refusal(call(json!({"command": "true", "timeout_ms": timeout})).await);
            assert_eq!(text, format!("timeout_ms is {timeout}, but must be between 1 and 600000"));
        }
        assert!(call(json!({"command": "true", "timeout_ms": null})).await.is_ok());
    }

    #[tokio::test]
    async fn a_command_may_look_like_an_option() {
        let text = call(json!({"command": "-x; echo after"})).await.unwrap();
        assert!(
            text.starts_with("Exit code: 0\nstdout:\nafter\nstderr:\nbash: line 1: -x:"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_command_that_is_too_long_gets_advice() {
        let text = refusal(call(json!({"command": "x".repeat(4 << 20)})).await);
        assert!(text.contains("write it to a file"), "{text}");
    }

    #[tokio::test]
    async fn ten_megabytes_do_not_block_and_are_cut_with_their_count() {
        let text = call(json!({"command": "yes | head -c 10000000"})).await.unwrap();
        assert!(text.starts_with("Exit code: 0\nstdout:\ny\ny\n"), "{text}");
        assert!(text.contains("\n[... 9970000 bytes cut here:"), "{text}");
        assert!(text.chars().count() < 31_000);
    }

    #[tokio::test]
    async fn live_output_is_plain_text_in_whole_characters() {
        let screen = Arc::new(Screen::default());
        let ctx = ToolContext { output: Some(screen.clone()), ..context() };
        let command = "printf '\\033[31m\\xe6'; sleep 0.05; printf '\\xbc\\xa2\\0\\033]0;t\\007!'; echo e >&2";
        Bash::unconfined().call(json!({ "command": command }), &ctx).await.unwrap();
        let mut shown = screen.0.lock().unwrap().clone();
        shown.sort();
        assert_eq!(shown.concat(), "e\n漢!");
    }

    /// The secret in parts that only together are one, on the screen and in the result.
    #[tokio::test]
    async fn a_secret_is_shown_neither_live_nor_in_the_result_however_it_is_printed() {
        let screen = Arc::new(Screen::default());
        let redactor = Arc::new(Redactor::new([("MY_KEY", "sk-test-0123456789abcdef0123")]));
        let ctx = ToolContext { output: Some(screen.clone()), redactor, ..context() };
        let command = "printf 'a sk-test-0123'; sleep 0.05; printf ! >&2; sleep 0.05; \
             printf '456789\\033[0mabcdef0123 b'";
        let said = Bash::unconfined().call(json!({ "command": command }), &ctx).await.unwrap().text;
        assert_eq!(said, "Exit code: 0\nstdout:\na «redacted:MY_KEY» b\nstderr:\n!");
        let shown = screen.0.lock().unwrap().concat();
        assert_eq!(shown, "a !«redacted:MY_KEY» b");
    }

    #[tokio::test]
    async fn a_call_that_is_cancelled_beforehand_starts_nothing() {
        let ctx = context();
        ctx.cancel.cancel();
        let file = ctx.cwd.join(format!("anvil-bash-{}", std::process::id()));
        let command = format!("touch {}", file.display());
        let result = Bash::unconfined().call(json!({ "command": command }), &ctx).await;
        assert_eq!(
            result,
            Err(ToolError::Cancelled("cancelled before the command was started".into()))
        );
        assert!(!file.exists());
    }

    #[tokio::test]
    async fn a_trusted_variable_reaches_the_command_and_the_session_is_told() {
        let bash = Bash { passthrough: vec!["CARGO_MANIFEST_DIR".into()], ..Bash::unconfined() };
        let command = "echo $CARGO_MANIFEST_DIR $ANVIL_SESSION_ID $AI_AGENT";
        let said = bash.call(json!({ "command": command }), &context()).await.unwrap().text;
        let here = env!("CARGO_MANIFEST_DIR");
        assert_eq!(said, format!("Exit code: 0\nstdout:\n{here} session anvil\n"));
        let said = call(json!({ "command": command })).await.unwrap();
        assert_eq!(said, "Exit code: 0\nstdout:\nsession anvil\n");
    }
}
