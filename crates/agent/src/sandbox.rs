//! Confines commands: what they may write, whom they may reach, what they get to see.
//!
//! A [`Sandbox`] is made once per session from a [`SandboxPolicy`] and a [`Layout`]. [`Sandbox::wrap`] turns a
//! command into the one that runs it confined, by bubblewrap: an own view of the file system (`mounts`), own
//! processes, no network, and a list of refused system calls (`seccomp`). Where that does not work nothing
//! runs; only a person lets commands run unconfined. A person can also choose [`Backend::Landlock`], which
//! needs no namespaces and holds back less.

mod audit;
#[cfg(target_os = "linux")]
mod bwrap;
mod command;
mod denial;
mod environment;
mod identity;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(not(target_os = "linux"))]
#[path = "sandbox/landlock_elsewhere.rs"]
mod landlock;
mod mounts;
mod probe;
pub(crate) mod repository;
#[cfg_attr(
    not(target_os = "macos"),
    expect(dead_code, reason = "its text is tested everywhere, and used on one system")
)]
mod seatbelt;
#[cfg(target_os = "linux")]
mod seccomp;
mod survey;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::permissions::Confinement;
use crate::process::Restriction;
use crate::tool::Grants;
use audit::Watched;
#[cfg(target_os = "linux")]
use bwrap as backend;
use command::{Inside, Report, Start};
use mounts::{Ground, Mount, plan_mounts};
pub use probe::{Landlock, Probe, Problem, probe, probe_landlock};
#[cfg(not(target_os = "linux"))]
use seatbelt as backend;
use survey::Survey;

/// How commands are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxPolicy {
    /// They write nothing but temporary files, which are gone afterwards, and reach nobody.
    ReadOnly,
    /// They write the workspace and what else is writable.
    WorkspaceWrite {
        /// Whether they reach the network.
        network: bool,
    },
    /// Not at all. For a person to choose, never for a repository or a model.
    FullAccess,
    /// Not by anvil: what it runs in already does.
    External,
}

/// What holds commands back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// What is best on this system: bubblewrap on Linux, Seatbelt on macOS.
    #[default]
    Own,
    /// Landlock, which needs no namespaces and holds back less. For a person to choose, since nothing falls
    /// back to it.
    Landlock,
}

/// What a sandbox is made from. Everything comes from the harness, never from the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where commands run.
    pub workspace: PathBuf,
    /// Further folders that may be written.
    pub writable: Vec<PathBuf>,
    /// Further folders that may be read although they lie in a hidden place.
    pub readable: Vec<PathBuf>,
    /// What is never written even inside a writable folder. `.git` and `.anvil` at any depth, with all that
    /// they lead to, need not be listed.
    pub protected: Vec<PathBuf>,
    /// Files below the writable folders that cannot be read: lines as in `.gitignore`.
    pub masked: Vec<String>,
    /// Further single files that cannot be read.
    pub hidden: Vec<PathBuf>,
    /// Where things are moved that commands made and must not have; beside where they were without it.
    pub quarantine: Option<PathBuf>,
    /// The user's home folders, of which only toolchains are shown.
    pub homes: Vec<PathBuf>,
}

impl Layout {
    /// The workspace alone, with the usual credential files masked.
    pub fn workspace(dir: impl Into<PathBuf>) -> Self {
        let masked =
            crate::tools::access::CREDENTIALS.iter().map(|&line| line.to_owned()).collect();
        Self { workspace: dir.into(), masked, ..Self::default() }
    }
}

/// Why a command cannot run confined.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The machine cannot confine commands.
    #[error("{}", unsupported(.0))]
    Unsupported(Problem),
    /// The workspace cannot be found.
    #[error("the workspace {} cannot be used: {source}", dir.display())]
    Workspace {
        /// The workspace.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The workspace is so wide that confining commands to it means nothing.
    #[error(
        "{} is too wide a workspace for commands to be let loose in: the user has to start anvil in the folder of \
         a project, or with --sandbox read-only",
        dir.display()
    )]
    TooWide {
        /// The workspace.
        dir: PathBuf,
    },
    /// A mask is no pattern.
    #[error("{0}")]
    BadMask(String),
    /// The options could not be handed over.
    #[error("the sandbox cannot be set up: {0}")]
    Io(#[from] io::Error),
}

fn unsupported(problem: &Problem) -> String {
    let Problem { what, remedy } = problem;
    format!(
        "no command can run, since none can be confined: {what}. This is for the user to mend, not for you: {remedy}. \
         Only the user can also choose to run commands unconfined, by starting anvil with --sandbox full-access. Go \
         on without commands, or say what you need"
    )
}

/// A command as it is started.
#[derive(Debug)]
pub struct Wrapped {
    /// The program.
    pub program: PathBuf,
    /// What it is told its own name is; `program` itself when absent.
    pub arg0: Option<OsString>,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment.
    pub env: Vec<(OsString, OsString)>,
    /// Open files that it is given, with their numbers.
    pub descriptors: Vec<(OwnedFd, i32)>,
    /// Whether it is the wrapper around a process namespace.
    pub confines: bool,
    /// What the thread does to itself that starts it.
    pub restriction: Option<Restriction>,
    /// What is left to do when it has ended.
    pub aftermath: Aftermath,
}

/// Confines the commands of one session.
#[derive(Debug)]
pub struct Sandbox {
    policy: SandboxPolicy,
    backend: Backend,
    layout: Layout,
    plan: Mutex<Option<Arc<Plan>>>,
}

/// What was found out about the machine and the workspace.
#[derive(Debug)]
struct Plan {
    ground: Ground,
    watched: Watched,
    /// Whether root works in a folder of another user.
    is_foreign: bool,
    /// Of a call to which nothing was granted.
    mounts: Vec<Mount>,
}

impl Sandbox {
    /// A sandbox for `layout`. Looks at nothing yet.
    pub fn new(policy: SandboxPolicy, layout: Layout) -> Self {
        Self { policy, backend: Backend::default(), layout, plan: Mutex::default() }
    }

    /// The same, held by `backend`.
    #[must_use]
    pub fn by(self, backend: Backend) -> Self {
        Self { backend, ..self }
    }

    /// None: commands do what the user could.
    pub fn unconfined() -> Self {
        Self::new(SandboxPolicy::FullAccess, Layout::default())
    }

    /// Whether `path` lies, or leads, where commands can write, so that they or whoever made the workspace
    /// can have put it there.
    pub fn may_hold(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut roots = std::iter::once(&self.layout.workspace).chain(&self.layout.writable);
        roots.any(|root| {
            !root.as_os_str().is_empty() && (path.starts_with(root) || real.starts_with(root))
        })
    }

    /// Whether a program at `path` is not there for a confined command. Does blocking file work; the first call
    /// walks through the workspace.
    pub fn hides(&self, path: &Path) -> bool {
        let may_write = match self.policy {
            SandboxPolicy::ReadOnly => false,
            SandboxPolicy::WorkspaceWrite { .. } => true,
            SandboxPolicy::FullAccess | SandboxPolicy::External => return false,
        };
        self.plan(may_write).is_ok_and(|plan| !plan.ground.shows(path))
    }

    /// What holds commands back, where anything does.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Further folders that commands write beside the workspace.
    pub fn further_writable(&self) -> &[PathBuf] {
        &self.layout.writable
    }

    /// How commands are confined.
    pub fn policy(&self) -> SandboxPolicy {
        self.policy
    }

    /// What commands are certain to be held back by, for whoever decides what may run unasked. Tries the
    /// sandbox out when nobody did yet.
    pub fn confinement(&self) -> Confinement {
        if self.backend == Backend::Landlock && self.confines() {
            // Modes of files elsewhere are not held, so a command that nobody looked at can do harm.
            return landlock::version().map_or(Confinement::None, |_| Confinement::Partial);
        }
        let works = || probe::tool().is_ok();
        match self.policy {
            SandboxPolicy::ReadOnly if works() => Confinement::ReadOnly,
            SandboxPolicy::WorkspaceWrite { .. } if works() => Confinement::Workspace,
            SandboxPolicy::External => Confinement::External,
            SandboxPolicy::ReadOnly
            | SandboxPolicy::WorkspaceWrite { .. }
            | SandboxPolicy::FullAccess => Confinement::None,
        }
    }

    fn confines(&self) -> bool {
        matches!(self.policy, SandboxPolicy::ReadOnly | SandboxPolicy::WorkspaceWrite { .. })
    }

    /// What a person has to know beforehand who relies on it: how it holds back less than it should, or
    /// that it holds nothing. Tries it out when nobody did yet.
    pub fn promise(&self) -> Option<String> {
        let is_less = self.backend == Backend::Landlock && self.confines();
        is_less.then(|| match landlock::version() {
            Ok(version) => landlock::promise(version),
            Err(Problem { what, remedy }) => format!("no command can run: {what}; {remedy}"),
        })
    }

    /// The command that runs `program` with `args` confined, in `cwd`, with `env`; `grants` opens for this
    /// one what a person said yes to. Does blocking file work; the first call walks through the workspace.
    ///
    /// # Errors
    /// When the command cannot be confined as the policy says. Then it must not run.
    pub fn wrap(
        &self,
        program: &Path,
        args: Vec<OsString>,
        cwd: &Path,
        env: Vec<(OsString, OsString)>,
        grants: &Grants,
    ) -> Result<Wrapped, SandboxError> {
        let (may_write, network) = match self.policy {
            SandboxPolicy::ReadOnly => (false, false),
            SandboxPolicy::WorkspaceWrite { network } => (true, network),
            SandboxPolicy::FullAccess | SandboxPolicy::External => {
                return Ok(Wrapped {
                    program: program.to_owned(),
                    arg0: program.file_name().map(OsStr::to_owned),
                    args,
                    env: environment::with_plain_path(env),
                    descriptors: Vec::new(),
                    confines: false,
                    restriction: None,
                    aftermath: Aftermath::default(),
                });
            }
        };
        if self.backend == Backend::Landlock {
            return self.restricted(program, args, env, grants, (may_write, network));
        }
        let tool = probe::tool().map_err(SandboxError::Unsupported)?;
        let plan = self.plan(may_write)?;
        let has_network = network || grants.network;
        let inner = environment::inside(env, Path::new("/tmp"), &plan.ground.readable, has_network);
        let (ground, mounts) = match grants.paths.is_empty() {
            true => (Cow::Borrowed(&plan.ground), Cow::Borrowed(&plan.mounts)),
            false => {
                let ground = opened(&plan.ground, grants);
                let mounts = plan_mounts(&ground, may_write);
                (Cow::Owned(ground), Cow::Owned(mounts))
            }
        };
        let inside =
            Inside { ground: &ground, may_write, mounts: &mounts, has_network, cwd, env: &inner };
        let Start { args: mut all, env: own, files, report } = backend::start(&tool, &inside)?;
        all.push(program.as_os_str().to_owned());
        all.extend(args);
        Ok(Wrapped {
            program: tool.path,
            arg0: None,
            args: all,
            env: own.unwrap_or(inner),
            descriptors: files,
            confines: cfg!(target_os = "linux"),
            restriction: None,
            aftermath: Aftermath(Some(Held {
                plan,
                may_write,
                has_network,
                closed: closed(grants),
                report,
                temporary: None,
            })),
        })
    }

    /// The same by Landlock: the command as it is, started by a thread that is held.
    fn restricted(
        &self,
        program: &Path,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        grants: &Grants,
        (may_write, network): (bool, bool),
    ) -> Result<Wrapped, SandboxError> {
        landlock::version().map_err(SandboxError::Unsupported)?;
        let plan = self.plan(may_write)?;
        let has_network = network || grants.network;
        let temporary = landlock::Temporary::new()?;
        let restriction = landlock::restriction(&landlock::Held {
            ground: &opened(&plan.ground, grants),
            may_write,
            has_network,
            temporary: temporary.path(),
        })?;
        let env = environment::inside(env, temporary.path(), &plan.ground.readable, has_network);
        Ok(Wrapped {
            program: program.to_owned(),
            arg0: program.file_name().map(OsStr::to_owned),
            args,
            env,
            descriptors: Vec::new(),
            confines: false,
            restriction: Some(restriction),
            aftermath: Aftermath(Some(Held {
                plan,
                may_write,
                has_network,
                report: Report(None),
                temporary: Some(temporary),
                closed: closed(grants),
            })),
        })
    }

    fn plan(&self, may_write: bool) -> Result<Arc<Plan>, SandboxError> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plan.as_ref().filter(|plan| plan.still_holds()) {
            return Ok(Arc::clone(plan));
        }
        let Survey { ground, links, notices } = survey::survey(&self.layout)?;
        for notice in notices {
            tracing::warn!("{notice}");
        }
        let watched = match may_write {
            true => Watched::new(&ground.writable, &links, self.layout.quarantine.as_deref()),
            false => Watched::default(),
        };
        let is_foreign = survey::is_foreign(&ground.writable[0]);
        let mounts = plan_mounts(&ground, may_write);
        let made = Arc::new(Plan { mounts, ground, watched, is_foreign });
        *plan = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl Plan {
    /// Whether everything is still there that is mounted, and nothing that would have to be.
    fn still_holds(&self) -> bool {
        let ground = &self.ground;
        let mounted =
            [&ground.protected, &ground.hidden_files, &ground.hidden_dirs, &ground.readable];
        mounted.into_iter().flatten().all(|path| path.symlink_metadata().is_ok())
            && self.watched.is_unchanged()
    }
}

/// What is left to do when a command has ended.
#[derive(Debug, Default)]
pub struct Aftermath(Option<Held>);

/// How a command was held.
#[derive(Debug)]
struct Held {
    plan: Arc<Plan>,
    may_write: bool,
    has_network: bool,
    /// What a person opened and could not be, since it was not there.
    closed: Vec<PathBuf>,
    report: Report,
    /// Its folder for temporary files, gone with this; without one the sandbox had its own.
    temporary: Option<landlock::Temporary>,
}

impl Aftermath {
    /// Why the command never ran, if the errors are the wrapper's own words.
    pub fn refusal(&self, errors: &[u8]) -> Option<SandboxError> {
        let held = self.0.as_ref()?;
        let said = String::from_utf8_lossy(errors);
        let is_refusal = said.starts_with("bwrap: ") && !held.report.tells_of_a_command();
        is_refusal.then(|| SandboxError::Unsupported(probe::explain(&said)))
    }

    /// Moves away what the command made and must not have, and looks in what it `printed` of errors for
    /// what was held back. Says what there is to know, one line each. Does blocking file work; to be called
    /// once nothing of the command runs any more.
    #[must_use]
    pub fn settle(&self, printed: &[u8]) -> Vec<String> {
        let Some(Held { plan, may_write, has_network, closed, temporary, .. }) = &self.0 else {
            return Vec::new();
        };
        let mut said = plan.watched.settle();
        said.extend(closed.iter().map(|path| {
            format!(
                "{} was not there, and only what is there can be opened for one command: the user opens the folder \
                 with --add-dir.",
                path.display()
            )
        }));
        let ground = &plan.ground;
        let writable = ground.writable.iter().filter(|_| *may_write).map(PathBuf::as_path);
        let readable = ground.readable.iter().map(PathBuf::as_path);
        let hidden = ground.hidden_files.iter().chain(&ground.hidden_dirs).map(PathBuf::as_path);
        said.extend(denial::denial(
            &String::from_utf8_lossy(printed),
            &denial::Held {
                writable: &writable.collect::<Vec<_>>(),
                readable: &readable.collect::<Vec<_>>(),
                hidden: &hidden.collect::<Vec<_>>(),
                has_network: *has_network,
                is_foreign: plan.is_foreign,
                by_landlock: temporary.is_some(),
            },
        ));
        said
    }
}

/// What `grants` would open if it were there.
fn closed(grants: &Grants) -> Vec<PathBuf> {
    let missing = grants.paths.iter().filter(|granted| granted.path.canonicalize().is_err());
    missing.map(|granted| granted.path.clone()).collect()
}

/// The ground with what a person opened. A path that does not exist stays closed: nothing can be mounted on it.
fn opened(ground: &Ground, grants: &Grants) -> Ground {
    let mut ground = ground.clone();
    for granted in &grants.paths {
        if let Ok(real) = granted.path.canonicalize() {
            ground.granted.push((real, granted.write));
        }
    }
    ground
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_a_person_what_to_do_and_invites_nobody_else() {
        let problem = Problem { what: "it is not installed".into(), remedy: "install it".into() };
        let said = SandboxError::Unsupported(problem).to_string();
        assert!(said.contains("it is not installed") && said.contains("install it"), "{said}");
        assert!(said.contains("for the user to mend, not for you"), "{said}");
        assert!(said.contains("Only the user can also choose"), "{said}");
    }

    #[test]
    fn a_workspace_that_is_everything_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir(home.join("p")).unwrap();
        for (dir, is_refused) in [("/".into(), true), (home.clone(), true), (home.join("p"), false)]
        {
            let layout = Layout { homes: vec![home.clone()], ..Layout::workspace(&dir) };
            let result = survey::survey(&layout);
            assert_eq!(matches!(result, Err(SandboxError::TooWide { .. })), is_refused, "{dir:?}");
        }
    }
}
