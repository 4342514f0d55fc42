//! Starts a child without copying this process's page tables (Linux).
//!
//! A fork costs about a tenth of a millisecond for every megabyte this process holds, and again as much
//! afterwards, when each page is written for the first time. posix_spawn borrows the memory until the new
//! program runs and costs the same at any size. It can make a session but not change the working
//! directory, so one thread that has a working directory of its own goes there first.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::Mode;
use rustix::process::Pid;

use super::family::{MARK, Mark, put_limit};
use super::start::{Pipes, on_a_thread, out_of_the_way};
use super::{Restriction, SpawnError, Spec};

/// Where programs are when the child's environment does not say.
const DEFAULT_PATH: &str = "/usr/bin:/bin";

/// Starts the child; `None` where the thread cannot have a working directory of its own, as in containers
/// that forbid `unshare`.
pub(super) fn start(spec: &Spec, mark: &Mark, pipes: &Pipes) -> Option<Result<Pid, SpawnError>> {
    let spawner = spawner()?;
    let refused =
        |errno: Errno| SpawnError::Refused { program: spec.program.clone(), source: errno.into() };
    let (answer, answered) = sync_channel(1);
    let order = match Order::new(spec, mark, pipes, answer) {
        Ok(order) => order,
        Err(errno) => return Some(Err(refused(errno))),
    };
    spawner.send(order).ok()?;
    let started = answered.recv().ok()?;
    Some(started.map_err(|fault| fault.of(spec)))
}

/// Starts the child from a thread of its own that is restricted; `None` where a thread cannot have a working
/// directory of its own. The child has no limit for a mark yet.
pub(super) fn start_restricted(
    restriction: &Restriction,
    spec: &Spec,
    mark: &Mark,
    pipes: &Pipes,
) -> Option<Result<Pid, SpawnError>> {
    let refused = |source| SpawnError::Refused { program: spec.program.clone(), source };
    // Nobody waits for an answer but the caller.
    let (answer, _) = sync_channel(1);
    let order = match Order::new(spec, mark, pipes, answer) {
        Ok(order) => order,
        Err(errno) => return Some(Err(refused(errno.into()))),
    };
    let restriction = restriction.clone();
    let work = move || {
        unshare(CloneFlags::CLONE_FS).ok()?;
        let start = || {
            rustix::process::chdir(&order.cwd).map_err(Fault::Cwd)?;
            restriction.apply().map_err(Fault::Restriction)?;
            order.start().map_err(Fault::Program)
        };
        Some(start())
    };
    let started = match on_a_thread(work) {
        Ok(started) => started?,
        Err(error) => return Some(Err(refused(error))),
    };
    Some(started.map_err(|fault| fault.of(spec)))
}

/// The thread that starts children, from the first one until this process ends.
fn spawner() -> Option<&'static SyncSender<Order>> {
    static SPAWNER: OnceLock<Option<SyncSender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        // No queue: whoever gives an order waits for the answer anyway.
        let (orders, to_do) = sync_channel::<Order>(0);
        let (ready, is_ready) = sync_channel(1);
        let run = move || {
            let own_cwd = unshare(CloneFlags::CLONE_FS);
            // Whoever asked waits for the answer.
            if ready.send(own_cwd).is_err() || own_cwd.is_err() {
                return;
            }
            for order in to_do {
                let asker = order.answer.send(order.carry_out());
                asker.expect("who gives an order waits for its answer");
            }
        };
        thread::Builder::new().name("spawner".into()).spawn(run).ok()?;
        is_ready.recv().ok()?.ok()?;
        Some(orders)
    });
    spawner.as_ref()
}

/// A child to start, in the words of the system.
struct Order {
    cwd: PathBuf,
    /// Tried in turn, until one is there.
    programs: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    /// What becomes standard output and standard error; the asker keeps them open meanwhile.
    outputs: [i32; 2],
    /// What becomes further descriptors, and their numbers.
    further: Vec<(OwnedFd, i32)>,
    limit: u64,
    answer: SyncSender<Result<Pid, Fault>>,
}

/// Why a child did not start.
enum Fault {
    Cwd(rustix::io::Errno),
    Restriction(io::Error),
    Program(Errno),
}

impl Fault {
    fn of(self, spec: &Spec) -> SpawnError {
        let refused = |source| SpawnError::Refused { program: spec.program.clone(), source };
        match self {
            Self::Cwd(errno) => SpawnError::Cwd { cwd: spec.cwd.clone(), source: errno.into() },
            Self::Restriction(error) => refused(error),
            Self::Program(errno) => refused(errno.into()),
        }
    }
}

impl Order {
    fn new(
        spec: &Spec,
        mark: &Mark,
        pipes: &Pipes,
        answer: SyncSender<Result<Pid, Fault>>,
    ) -> Result<Self, Errno> {
        let own_name = spec.arg0.as_deref().unwrap_or(spec.program.as_os_str());
        let arguments = std::iter::once(own_name).chain(spec.args.iter().map(OsString::as_os_str));
        let environment = spec.env.iter().filter(|(name, _)| name != MARK);
        let environment =
            environment.map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'='));
        let mark_entry = format!("{MARK}={}", mark.as_env()).into_bytes();
        Ok(Self {
            cwd: spec.cwd.clone(),
            programs: candidates(&spec.program, &spec.env)
                .map(|program| c_string(program.as_os_str().as_bytes()))
                .collect::<Result<_, _>>()?,
            arguments: arguments.map(|one| c_string(one.as_bytes())).collect::<Result<_, _>>()?,
            environment: environment
                .chain([mark_entry])
                .map(|entry| c_string(&entry))
                .collect::<Result<_, _>>()?,
            outputs: pipes.writers.each_ref().map(AsRawFd::as_raw_fd),
            further: out_of_the_way(spec).map_err(|error| Errno::from_raw(error.raw_os_error()))?,
            limit: mark.limit(),
            answer,
        })
    }

    fn carry_out(&self) -> Result<Pid, Fault> {
        rustix::process::chdir(&self.cwd).map_err(Fault::Cwd)?;
        let started = self.start().map_err(Fault::Program);
        if let Ok(leader) = started {
            put_limit(leader, self.limit);
        }
        // A folder that a thread stands in cannot be unmounted.
        if let Err(error) = rustix::process::chdir("/") {
            tracing::debug!(%error, "the spawner stays where it was");
        }
        started
    }

    fn start(&self) -> Result<Pid, Errno> {
        let actions = self.actions()?;
        let attributes = attributes()?;
        let mut refusal = Errno::ENOENT;
        for program in &self.programs {
            let started = posix_spawn(
                program.as_c_str(),
                &actions,
                &attributes,
                &self.arguments,
                &self.environment,
            );
            match started {
                Ok(leader) => return Pid::from_raw(leader.as_raw()).ok_or(Errno::ESRCH),
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(Errno::EACCES) => refusal = Errno::EACCES,
                Err(errno) => return Err(errno),
            }
        }
        Err(refusal)
    }

    fn actions(&self) -> Result<PosixSpawnFileActions, Errno> {
        let mut actions = PosixSpawnFileActions::init()?;
        actions.add_open(libc::STDIN_FILENO, "/dev/null", OFlag::O_RDONLY, Mode::empty())?;
        let [stdout, stderr] = self.outputs;
        actions.add_dup2(stdout, libc::STDOUT_FILENO)?;
        actions.add_dup2(stderr, libc::STDERR_FILENO)?;
        for (from, to) in &self.further {
            actions.add_dup2(from.as_raw_fd(), *to)?;
        }
        Ok(actions)
    }
}

/// A session of its own, no signal blocked, and none ignored that a shell needs to end.
fn attributes() -> Result<PosixSpawnAttr, Errno> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::from_bits_retain(libc::POSIX_SPAWN_SETSID.into())
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    )?;
    attributes.set_sigmask(&SigSet::empty())?;
    // Rust ignores the first; a shell that put this program into the background the next two. SIGHUP is
    // left as it is: nohup ignores it on purpose, for all that it starts, and nothing here ends by it.
    let signals = [Signal::SIGPIPE, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
    attributes.set_sigdefault(&signals.into_iter().collect())?;
    Ok(attributes)
}

/// Where `program` may be: itself, or its name in each folder of `PATH` but those relative to somewhere.
fn candidates(program: &Path, env: &[(OsString, OsString)]) -> impl Iterator<Item = PathBuf> {
    let is_name = !program.as_os_str().as_bytes().contains(&b'/');
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str());
    let path = if is_name { path.unwrap_or(OsStr::new(DEFAULT_PATH)) } else { OsStr::new("") };
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let found: Vec<PathBuf> = folders.map(|folder| folder.join(program)).collect();
    found.into_iter().chain((!is_name).then(|| program.to_owned()))
}

fn c_string(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}
