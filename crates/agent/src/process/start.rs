//! Starts a child: its pipes, and the quickest way this system has.

use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::thread;

use command_fds::{CommandFdExt as _, FdMapping};
use process_wrap::std::{CommandWrap, CommandWrapper as _, ProcessSession};
use rustix::process::Pid;
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};

use super::family::{MARK, Mark};
use super::{Restriction, SpawnError, Spec};

/// The pipes for standard output and standard error, in this order.
pub(super) struct Pipes {
    pub(super) readers: [Receiver; 2],
    pub(super) writers: [PipeWriter; 2],
}

impl Pipes {
    pub(super) fn new() -> io::Result<Self> {
        let (stdout, to_stdout) = io::pipe()?;
        let (stderr, to_stderr) = io::pipe()?;
        let readers =
            [Receiver::from_owned_fd(stdout.into())?, Receiver::from_owned_fd(stderr.into())?];
        Ok(Self { readers, writers: [to_stdout, to_stderr] })
    }
}

/// Starts the child that `spec` describes, in a session of its own, with `mark` on it.
pub(super) fn start(spec: &Spec, mark: &Mark, pipes: &Pipes) -> Result<Pid, SpawnError> {
    if let Some(restriction) = &spec.restriction {
        return restricted(restriction, spec, mark, pipes);
    }
    #[cfg(target_os = "linux")]
    if let Some(started) = super::vfork::start(spec, mark, pipes) {
        return started;
    }
    fork(spec, mark, pipes)
        .inspect(|leader| mark.put_on(*leader))
        .map_err(|source| fault(spec, source))
}

/// The same from a thread of its own, which is restricted and can start nothing else afterwards.
fn restricted(
    restriction: &Restriction,
    spec: &Spec,
    mark: &Mark,
    pipes: &Pipes,
) -> Result<Pid, SpawnError> {
    let started = start_restricted(restriction, spec, mark, pipes);
    // Not by that thread, which may be kept from setting limits of others.
    started.inspect(|leader| mark.put_on(*leader))
}

fn start_restricted(
    restriction: &Restriction,
    spec: &Spec,
    mark: &Mark,
    pipes: &Pipes,
) -> Result<Pid, SpawnError> {
    #[cfg(target_os = "linux")]
    if let Some(started) = super::vfork::start_restricted(restriction, spec, mark, pipes) {
        return started;
    }
    fork_restricted(restriction, spec, mark, pipes)
}

/// The way that works where no thread can have a working directory of its own, as in many containers.
fn fork_restricted(
    restriction: &Restriction,
    spec: &Spec,
    mark: &Mark,
    pipes: &Pipes,
) -> Result<Pid, SpawnError> {
    let refused = |source| SpawnError::Refused { program: spec.program.clone(), source };
    let mut command = command(spec, mark, pipes).map_err(refused)?;
    let restriction = restriction.clone();
    let started = on_a_thread(move || {
        restriction.apply().map(|()| command.spawn().map(|child| Pid::from_child(&child)))
    });
    started
        .and_then(|restricted| restricted)
        .map_err(refused)?
        .map_err(|source| fault(spec, source))
}

/// What `work` gives on a thread that does nothing else.
pub(super) fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let thread = thread::Builder::new().name("restricted".into()).spawn(work)?;
    thread.join().map_err(|_| io::Error::other("its thread ended early"))
}

/// A fork does not say which of the two was at fault.
fn fault(spec: &Spec, source: io::Error) -> SpawnError {
    match spec.cwd.is_dir() {
        true => SpawnError::Refused { program: spec.program.clone(), source },
        false => SpawnError::Cwd { cwd: spec.cwd.clone(), source },
    }
}

/// The way that works everywhere. Its cost grows with the memory of this process.
fn fork(spec: &Spec, mark: &Mark, pipes: &Pipes) -> io::Result<Pid> {
    Ok(Pid::from_child(&command(spec, mark, pipes)?.spawn()?))
}

/// The child, for a fork from whichever thread spawns it.
fn command(spec: &Spec, mark: &Mark, pipes: &Pipes) -> io::Result<Command> {
    // Needs the runtime, which that thread may not be on.
    handle_ignored_signals_once();
    let [stdout, stderr] = &pipes.writers;
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .current_dir(&spec.cwd)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env(MARK, mark.as_env())
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    if let Some(arg0) = &spec.arg0 {
        std::os::unix::process::CommandExt::arg0(&mut command, arg0);
    }
    let further = out_of_the_way(spec)?.into_iter();
    let further = further.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
    command.fd_mappings(further.collect()).map_err(io::Error::other)?;
    // Only the wrapper's way to start is used; the child it would give back waits for the whole group.
    ProcessSession.pre_spawn(&mut command, &CommandWrap::with_new("", |_| {}))?;
    Ok(command)
}

/// Copies of the further descriptors of a child, above all the numbers that they will have: giving one its
/// number must not close another.
pub(super) fn out_of_the_way(spec: &Spec) -> rustix::io::Result<Vec<(OwnedFd, i32)>> {
    let above = spec.descriptors.iter().map(|(_, number)| number + 1).max().unwrap_or_default();
    let copy =
        |(fd, number): &(OwnedFd, i32)| Ok((rustix::io::fcntl_dupfd_cloexec(fd, above)?, *number));
    spec.descriptors.iter().map(copy).collect()
}

/// Keeps a forked child from inheriting that a signal which a shell needs to end is ignored; `vfork` resets
/// the same ones. An exec resets what has a handler, and to this program one that nobody listens to is as
/// good as none.
fn handle_ignored_signals_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(handle_ignored_signals);
}

fn handle_ignored_signals() {
    for kind in [SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()] {
        if is_ignored(kind)
            && let Err(error) = signal(kind)
        {
            tracing::debug!(%error, ?kind, "child processes go on ignoring a signal");
        }
    }
}

/// The signals that this process ignores are a set of bits in proc_pid_status(5). Other systems do not tell
/// a program without unsafe code: there a child goes on ignoring what its parent ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & (1 << (kind.as_raw_value() - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Read as _;
    use std::time::Duration;

    use rustix::process::WaitOptions;
    use tokio_util::sync::CancellationToken;

    use super::super::Keep;
    use super::*;

    fn spec(program: &str, command: &str) -> Spec {
        Spec {
            program: program.into(),
            arg0: Some("own-name".into()),
            args: vec!["-c".into(), command.into()],
            cwd: "/usr".into(),
            env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            timeout: Duration::from_secs(10),
            cancel: CancellationToken::new(),
            keep: Keep { head: 0, tail: 0 },
            output: None,
            descriptors: Vec::new(),
            confines: false,
            restriction: None,
        }
    }

    /// What a child prints, which one of the two ways has started.
    fn printed(by_fork: bool, spec: &Spec) -> String {
        let mark = Mark::new(&spec.env);
        let pipes = Pipes::new().unwrap();
        let leader = match (&spec.restriction, by_fork) {
            (None, true) => fork(spec, &mark, &pipes).map_err(|error| fault(spec, error)),
            (Some(restriction), true) => fork_restricted(restriction, spec, &mark, &pipes),
            (_, false) => start(spec, &mark, &pipes),
        };
        let leader = leader.unwrap();
        mark.put_on(leader);
        let [reader, _] = pipes.readers;
        drop(pipes.writers);
        let mut said = String::new();
        let mut reader = io::PipeReader::from(reader.into_blocking_fd().unwrap());
        reader.read_to_string(&mut said).unwrap();
        rustix::process::waitpid(Some(leader), WaitOptions::empty()).unwrap();
        // The 31 classic ones: the C library keeps two others for itself.
        if let Some((before, set)) = said.split_once("SigIgn:\t") {
            let set = u64::from_str_radix(set.trim(), 16).unwrap() & 0x7fff_ffff;
            said = format!("{before}ignored: {set:#x}\n");
        }
        said.replace(&leader.as_raw_nonzero().to_string(), "LEADER").replace(mark.as_env(), "MARK")
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_child_inherits_what_a_thread_of_its_own_did_to_itself_and_nobody_else_does() {
        let restrict = || Ok(rustix::thread::set_no_new_privs(true)?);
        let command = "grep NoNewPrivs /proc/self/status; pwd; echo $0";
        let restricted =
            Spec { restriction: Some(Restriction::new(restrict)), ..spec("/bin/bash", command) };
        let said = printed(false, &restricted);
        assert_eq!(said, "NoNewPrivs:\t1\n/usr\nown-name\n");
        assert_eq!(printed(true, &restricted), said);
        assert!(printed(false, &spec("/bin/bash", command)).starts_with("NoNewPrivs:\t0\n"));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_child_whose_thread_cannot_be_restricted_is_not_started() {
        let restrict = || Err(io::Error::other("no such thing here"));
        let spec =
            Spec { restriction: Some(Restriction::new(restrict)), ..spec("/bin/bash", "true") };
        let (mark, pipes) = (Mark::new(&spec.env), Pipes::new().unwrap());
        let restriction = spec.restriction.as_ref().unwrap();
        for started in
            [start(&spec, &mark, &pipes), fork_restricted(restriction, &spec, &mark, &pipes)]
        {
            let error = started.unwrap_err().to_string();
            assert_eq!(error, "could not start /bin/bash: no such thing here");
        }
    }

    #[tokio::test]
    async fn both_ways_to_start_a_child_give_it_the_same() {
        let command = "echo $0 $PWD $$; env | grep -v ^_=; cut -d' ' -f5-7 /proc/$$/stat; \
                       ls /proc/self/fd; readlink /proc/$$/fd/0; \
                       exec grep -E 'Sig(Blk|Ign)' /proc/self/status";
        let mut spec = spec("bash", command);
        spec.env.push((OsString::from("X"), OsString::from("a=b c\n")));
        let forked = printed(true, &spec);
        assert_eq!(printed(false, &spec), forked);
        assert!(forked.starts_with("own-name /usr LEADER\n"), "{forked}");
        println!("{forked}");
        #[cfg(target_os = "linux")]
        assert!(
            forked.contains("\nLEADER LEADER 0\n"),
            "own group and session, no terminal: {forked}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn both_ways_give_it_the_same_also_when_signals_are_ignored() {
        let same = "process::start::tests::both_ways_to_start_a_child_give_it_the_same";
        let again = Command::new("env")
            .args(["--default-signal", "--ignore-signal=HUP,INT,QUIT,TERM"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", same, "--show-output"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains("1 passed"), "{said}");
        // Only the first signal, which nohup ignores.
        assert!(said.contains("\nignored: 0x1\n"), "{said}");
    }

    #[tokio::test]
    async fn both_ways_name_what_is_missing() {
        let mut missing = spec("no-such-program", "");
        let pipes = Pipes::new().unwrap();
        let mark = Mark::new(&[]);
        let kind = |error: SpawnError| match error {
            SpawnError::Refused { source, .. } => source.kind(),
            SpawnError::Cwd { .. } => panic!("the folder is there"),
        };
        assert_eq!(kind(start(&missing, &mark, &pipes).unwrap_err()), io::ErrorKind::NotFound);
        assert_eq!(fork(&missing, &mark, &pipes).unwrap_err().kind(), io::ErrorKind::NotFound);
        missing.args.push("x".repeat(4 << 20).into());
        missing.program = "bash".into();
        let kinds = [
            kind(start(&missing, &mark, &pipes).unwrap_err()),
            fork(&missing, &mark, &pipes).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [io::ErrorKind::ArgumentListTooLong; 2]);
    }
}
