//! Which programs commands find: known from an earlier run, or found out beside this one for later ones.
//!
//! No start waits for it, and what comes of it changes nothing that this run sends.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent::context::environment::probe::Probe;
use agent::context::environment::report::Report;
use agent::sandbox::{Sandbox, SandboxError};
use llm::config::digest_of;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::config::Configuration;
use super::reports::{Kept, Reports};
use super::{Environment, policy};
use crate::args::Args;

/// How often the gaps of a report are tried to be filled before the machine starts again.
const MAX_TRIES: u32 = 3;

/// How long the end of a run waits for programs that were told to end; then they are killed.
const GRACE: Duration = Duration::from_millis(100);

/// What is known about programs, and what it takes to find out.
pub(super) struct Inquiry {
    probe: Probe,
    /// Where reports are; nowhere where nobody wants to know.
    reports: Option<Reports>,
    /// Whether a new one may be kept.
    may_keep: bool,
    key: String,
    folders: String,
    known: Option<Kept>,
}

impl Inquiry {
    /// What an earlier run found out for commands in `sandbox`.
    pub(super) fn new(
        args: &Args,
        env: &Environment,
        configuration: &Configuration,
        cwd: &Path,
        sandbox: Arc<Sandbox>,
    ) -> Self {
        // What is recorded has to be the same on another day, and with other programs.
        let is_compared = args.record.is_some() || args.replay.is_some();
        let is_wanted = configuration.asks_programs() && !is_compared;
        let programs = policy::programs(cwd, &configuration.roots);
        let probe = Probe { sandbox, programs };
        let key = probe.key(&boot());
        let reports = env.data_dir.as_deref().filter(|_| is_wanted).map(Reports::new);
        let known = reports.as_ref().and_then(|reports| reports.find(&key));
        Self {
            reports,
            may_keep: !args.no_session_persistence,
            folders: folders(&probe),
            key,
            probe,
            known,
        }
    }

    /// What is known; nothing where nobody found out yet.
    pub(super) fn known(&self) -> Report {
        self.known.as_ref().map(|kept| kept.programs.clone()).unwrap_or_default()
    }

    /// What confines the commands that it is about.
    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.probe.sandbox
    }

    /// Finds out in the background, if there is something to find out and a place for it.
    pub(super) fn begin(self) -> Asking {
        let is_due = self.may_keep && self.reports.is_some() && !self.is_answered();
        let cancel = CancellationToken::new();
        let task = is_due.then(|| {
            let cancel = cancel.clone();
            tokio::spawn(async move {
                match self.ask(&cancel).await {
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "no program can be asked"),
                }
            })
        });
        Asking { task, cancel }
    }

    /// Finds out now, for whoever wants to know. Nothing where nobody does.
    ///
    /// # Errors
    /// When no command can run.
    pub(super) async fn now(self) -> Result<Report, SandboxError> {
        match self.reports {
            Some(_) => self.ask(&CancellationToken::new()).await,
            None => Ok(Report::default()),
        }
    }

    /// Whether what is known is as good as what could be found out.
    fn is_answered(&self) -> bool {
        self.known.as_ref().is_some_and(|kept| {
            let is_whole = !kept.programs.has_gaps() || kept.tries >= MAX_TRIES;
            kept.folders == self.folders && is_whole
        })
    }

    async fn ask(self, cancel: &CancellationToken) -> Result<Report, SandboxError> {
        let Self { probe, reports, may_keep, key, folders, known } = self;
        let mut programs = probe.ask(cancel).await?;
        let mut tries = 1;
        if let Some(earlier) = known.filter(|earlier| earlier.folders == folders) {
            programs = programs.or(&earlier.programs);
            tries += earlier.tries;
        }
        let told = programs.clone();
        // Half a report is none.
        if let (Some(reports), true, false) = (reports, may_keep, cancel.is_cancelled()) {
            let kept = Kept { key, folders, tries, programs };
            match tokio::task::spawn_blocking(move || reports.keep(kept)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the report on programs is not kept"),
                Err(error) => tracing::debug!(%error, "the report on programs is not kept"),
            }
        }
        Ok(told)
    }
}

/// Programs that are being asked.
pub(super) struct Asking {
    task: Option<JoinHandle<()>>,
    cancel: CancellationToken,
}

impl Asking {
    /// Ends the programs that still run, and reaps them. Whatever does not end at once is killed with the
    /// runtime.
    pub(super) async fn stop(self) {
        self.cancel.cancel();
        if let Some(task) = self.task
            && tokio::time::timeout(GRACE, task).await.is_err()
        {
            tracing::debug!("a program that was asked for its version has to be killed");
        }
    }
}

/// What is different after each start of the machine; where that is not told, each day.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("day {}", now.as_secs() / 86_400)
    })
}

/// What is different once a program was added to a folder of the path, or taken out of it.
fn folders(probe: &Probe) -> String {
    let mut text = String::new();
    for changed in probe.programs.changes() {
        let since = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
        text.push_str(&format!("{}.{:09} ", since.as_secs(), since.subsec_nanos()));
    }
    digest_of(text.as_bytes())
}
