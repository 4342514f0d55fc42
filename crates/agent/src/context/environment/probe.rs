//! Asks programs for their versions, each in the sandbox that commands run in.
//!
//! Run where they are found by commands and nowhere else: one that lies where tools can write is not started,
//! and neither is one that a program of the list would find there. They start in the root folder, since some
//! run what the folder they are in names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::report::{Answer, INVENTORY, LOOKED_AT, Report, Tool, version_in};
use crate::digest::Hasher;
use crate::permissions::{Place, Programs as _};
use crate::process::{self, Ended, Keep, Spec, Status};
use crate::programs::PathPrograms;
use crate::sandbox::{Sandbox, SandboxError};
use crate::secrets::child_env;
use crate::tool::Grants;

/// How long one program may take.
const TIME: Duration = Duration::from_millis(300);

/// How many are asked at once: they run beside a turn, which needs the processors too.
const AT_ONCE: usize = 3;

/// Variables that say nothing about programs and may differ from terminal to terminal.
const PASSING: [&str; 3] = ["ANVIL_CALL_ID", "ANVIL_SESSION_ID", "TMPDIR"];

/// Asks the programs of [`INVENTORY`].
#[derive(Debug, Clone)]
pub struct Probe {
    /// What confines commands.
    pub sandbox: Arc<Sandbox>,
    /// What the names of programs mean.
    pub programs: Arc<PathPrograms>,
}

impl Probe {
    /// By what it is known that a report still holds: the start of the machine, as `boot` names it, the path
    /// and the other variables that programs see, and what the sandbox shows of the machine.
    pub fn key(&self, boot: &str) -> String {
        let mut env = self.env();
        env.retain(|(name, _)| PASSING.iter().all(|passing| name != passing));
        env.sort();
        let mut hasher = Hasher::default();
        hasher.part(boot.as_bytes());
        hasher.part(std::env!("CARGO_PKG_VERSION").as_bytes());
        hasher.part(self.sandbox.view().as_bytes());
        // Which of its folders count depends on where the workspace is; the whole one on the user alone.
        env.iter().for_each(|(name, value)| {
            hasher.part(name.as_encoded_bytes());
            hasher.part(value.as_encoded_bytes());
        });
        hasher.finish().to_string()
    }

    /// Asks all of them. Dropping the future ends those that run, in the background.
    ///
    /// # Errors
    /// When no command can run here at all.
    pub async fn ask(&self, cancel: &CancellationToken) -> Result<Report, SandboxError> {
        let answers = futures::stream::iter(INVENTORY)
            .map(|tool| async move { Ok((tool.name, self.answer(tool, cancel).await?)) })
            .buffered(AT_ONCE);
        let answers: Vec<Result<_, SandboxError>> = answers.collect().await;
        Ok(Report::new(answers.into_iter().collect::<Result<Vec<_>, _>>()?))
    }

    async fn answer(&self, tool: Tool, cancel: &CancellationToken) -> Result<Answer, SandboxError> {
        if cancel.is_cancelled() {
            return Ok(Answer::Slow);
        }
        let probe = self.clone();
        let started = tokio::task::spawn_blocking(move || probe.start(tool));
        let (spec, aftermath) = match started.await {
            Ok(Ok(Start::Runs(spec, aftermath))) => (*spec, aftermath),
            Ok(Ok(Start::Is(answer))) => return Ok(answer),
            Ok(Err(error)) => return Err(error),
            Err(error) => return Err(std::io::Error::other(error).into()),
        };
        let spec = Spec { cancel: cancel.clone(), ..spec };
        let Ok(child) = process::spawn(spec) else { return Ok(Answer::Broken) };
        let finished = child.wait().await?;
        // What a version leaves behind is nothing; what else is in the workspace is none of its business.
        drop(aftermath);
        Ok(match (finished.ended, finished.status) {
            (Ended::Completed, Status::Exited(0)) => {
                let printed = String::from_utf8_lossy(&finished.stdout.head).into_owned();
                version_in(&printed).map_or(Answer::Broken, Answer::Version)
            }
            (Ended::Completed, _) => Answer::Broken,
            (Ended::TimedOut | Ended::Cancelled, _) => Answer::Slow,
        })
    }

    /// What there is to start for a program, or why nothing is. Does blocking file work.
    fn start(&self, Tool { name, asks }: Tool) -> Result<Start, SandboxError> {
        let path = match self.programs.place(name) {
            Place::Trusted(path) => path,
            Place::Untrusted(_) => return Ok(Start::Is(Answer::Unasked)),
            Place::NotFound => return Ok(Start::Is(Answer::Missing)),
        };
        if self.sandbox.hides(&path) {
            return Ok(Start::Is(Answer::Missing));
        }
        let cwd = Path::new("/");
        let args = vec![OsString::from(asks)];
        let wrapped = self.sandbox.wrap(&path, args, cwd, self.env(), &Grants::default())?;
        let spec = Spec {
            program: wrapped.program,
            arg0: wrapped.arg0,
            args: wrapped.args,
            cwd: PathBuf::from(cwd),
            env: wrapped.env,
            descriptors: wrapped.descriptors,
            confines: wrapped.confines,
            restriction: wrapped.restriction,
            timeout: TIME,
            cancel: CancellationToken::new(),
            keep: Keep { head: LOOKED_AT, tail: 0 },
            output: None,
        };
        Ok(Start::Runs(Box::new(spec), wrapped.aftermath))
    }

    /// What a program gets to see: what commands see, without what a person trusted those with, and with the
    /// trusted folders of the path alone.
    fn env(&self) -> Vec<(OsString, OsString)> {
        let mut env = child_env("", &[]);
        for (_, path) in env.iter_mut().filter(|(name, _)| name == "PATH") {
            *path = self.programs.trusted_path();
        }
        env
    }
}

/// What asking a program begins with.
enum Start {
    Runs(Box<Spec>, crate::sandbox::Aftermath),
    /// The answer is known without it.
    Is(Answer),
}
