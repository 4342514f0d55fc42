//! Runs child processes and cleans up after them; the only spawner.
//!
//! [`spawn`] starts a child in a session of its own (so a group of its own and no controlling terminal),
//! with a null standard input, no inherited descriptors and exactly the environment it is given. A task
//! then owns the child until nothing of it is left: it drains both pipes into bounded memory, ends
//! everything on a deadline or a cancellation, and returns when the child itself exits, not when the last
//! process that inherited a pipe does. What the child left running is ended as well and counted.
//!
//! Four things are set for the whole process, at the first spawn: it becomes the reaper of orphaned
//! descendants (Linux), so that a daemon which left its session is still found; it and its children write
//! no core files, since its memory holds keys; descriptors it was started with are marked close-on-exec; and
//! the signal that tells of a child's death is let through.

mod capture;
mod exit;
#[cfg_attr(target_os = "linux", path = "process/family.rs")]
#[cfg_attr(not(target_os = "linux"), path = "process/family_portable.rs")]
mod family;
mod owner;
mod restriction;
mod session;
mod start;
#[cfg(target_os = "linux")]
mod vfork;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, Rlimit};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use capture::{Captured, Keep};
use exit::Exit;
use family::{Family, Mark};
use owner::Owner;
pub use restriction::Restriction;
pub use session::of_session;
use start::Pipes;

/// A child process to be: everything it gets, and nothing else.
pub struct Spec {
    /// The program; a name without a slash is looked up in the `PATH` of `env`.
    pub program: PathBuf,
    /// What the program is told its own name is; `program` itself when absent.
    pub arg0: Option<OsString>,
    /// The arguments after the name.
    pub args: Vec<OsString>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Its whole environment, usually from [`child_env`](crate::secrets::child_env).
    pub env: Vec<(OsString, OsString)>,
    /// Further open files, each with the number under which the program finds it, from 3 up.
    pub descriptors: Vec<(OwnedFd, i32)>,
    /// Whether the program puts a process namespace around what it starts, as the wrapper of a sandbox
    /// does. Then its end is the end of all of it, and the first process inside hears only SIGKILL.
    pub confines: bool,
    /// What it is held by from its first instruction on, beside what confines it by a wrapper.
    pub restriction: Option<Restriction>,
    /// How long it may run.
    pub timeout: Duration,
    /// Ends it early.
    pub cancel: CancellationToken,
    /// How much of each of its two streams is kept.
    pub keep: Keep,
    /// Sees every piece of output as it is read, kept or not. Must not block: the drain waits for it.
    pub output: Option<OutputSeen>,
}

/// Sees a piece of a child's output.
pub type OutputSeen = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// One of a child's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A child that did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The folder it was to start in cannot be entered.
    #[error("{}", no_cwd(cwd, source))]
    Cwd {
        /// The folder.
        cwd: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("could not start {}: {source}", program.display())]
    Refused {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn no_cwd(cwd: &Path, source: &io::Error) -> String {
    let cwd = cwd.display();
    match source.kind() {
        io::ErrorKind::NotFound => format!("the working directory {cwd} no longer exists"),
        _ => format!("the working directory {cwd} cannot be entered: {source}"),
    }
}

/// What became of a child, its output and all that it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How the child itself ended.
    pub status: Status,
    /// Why it came to an end.
    pub ended: Ended,
    /// Its standard output, the head and the tail.
    pub stdout: Captured,
    /// Its standard error, the head and the tail.
    pub stderr: Captured,
    /// How many other processes it had started and left running, which were then ended. Where
    /// descendants cannot be listed (other systems than Linux) a group that was ended counts as one.
    pub stragglers: usize,
    /// How many processes still run because they could not be ended, for example another user's.
    pub unended: usize,
    /// Wall time from start to the end of the last process.
    pub duration: Duration,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// Nobody saw it: the kernel holds the process in an uninterruptible wait, or somebody else reaped it.
    Unknown,
}

/// Why a child came to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Completed,
    /// It ran for too long.
    TimedOut,
    /// It was cancelled.
    Cancelled,
}

/// A child that runs. Dropping it ends the child and all that it started, in the background.
#[derive(Debug)]
pub struct Supervised {
    owner: JoinHandle<Finished>,
    stop: DropGuard,
    id: u32,
}

impl Supervised {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits until the child and everything it started is gone. Dropping the future ends them.
    ///
    /// # Errors
    /// When the runtime shuts down meanwhile; the processes are then killed without being waited for.
    pub async fn wait(self) -> io::Result<Finished> {
        let finished = self.owner.await.map_err(io::Error::other)?;
        self.stop.disarm();
        Ok(finished)
    }
}

/// Starts a child under supervision. Must be called on a tokio runtime with I/O and time.
///
/// # Errors
/// When the working directory is missing, or the program is, or the system refuses.
pub fn spawn(spec: Spec) -> Result<Supervised, SpawnError> {
    prepare_this_process();
    let refused = |source| SpawnError::Refused { program: spec.program.clone(), source };
    let pipes = Pipes::new().map_err(refused)?;
    let exit = Exit::listen().map_err(refused)?;
    let mark = Mark::new(&spec.env);
    let family = Family::found(mark, |mark| start::start(&spec, mark, &pipes))?;
    let id = family.leader().as_raw_nonzero().get().unsigned_abs();
    let stop = spec.cancel.child_token();
    let owner = Owner::new(exit, family, pipes.readers, spec, stop.clone());
    Ok(Supervised { owner: tokio::spawn(owner.run()), stop: stop.drop_guard(), id })
}

/// Says that this program starts child processes through this module only.
///
/// Then a child that was not started here is an orphan of one that was, even if it left its session and
/// lost its environment, so every such child is ended with the last call that it can belong to, and reaped.
/// For the `main` of a program; a library must not say this about the program around it. Without effect
/// when the program has children from before, as after an `exec` in a shell with background jobs.
pub fn claim_orphans() {
    family::claim_orphans();
}

/// Reaps what is left of commands that have ended; for the end of a program. Blocks for some milliseconds
/// at most.
pub fn reap_the_last() {
    family::reap_the_last();
}

/// Sets what holds for this whole process; see the head of this file.
fn prepare_this_process() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut core = rustix::process::getrlimit(Resource::Core);
        core.current = Some(0);
        if let Err(error) = rustix::process::setrlimit(Resource::Core, Rlimit { ..core }) {
            tracing::warn!(%error, "core files stay enabled");
        }
        family::adopt_orphans();
    });
    hear_of_deaths();
    // Every time: libraries written in other languages open files without the flag.
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
}

/// Unblocks SIGCHLD, which whoever started this program may have blocked: no end would ever be heard.
///
/// It takes one thread that lets it through, and this one lives as long as anybody waits on it; the
/// spawner, which starts from here, even for ever.
fn hear_of_deaths() {
    if let Err(error) = SigSet::from(Signal::SIGCHLD).thread_unblock() {
        tracing::warn!(%error, "the end of child processes may not be heard");
    }
}
