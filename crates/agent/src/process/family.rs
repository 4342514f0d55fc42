//! Which processes a child started, wherever they went, and how they are ended (Linux).
//!
//! This process is the reaper of its orphaned descendants, so whatever a dead child left behind is now a
//! child of ours: there is nothing to search, one small file lists it. Only our own children are ever
//! signalled, and their ids cannot be reused before we reap them, so no foreign process can be hit. A
//! process further down becomes our child when the one above it ends. The exception is what runs in the
//! process namespace of a sandbox, see [`Family::signal_inside`].
//!
//! What remains is to tell whose orphan it is, or whether it is one at all and not something that the
//! program around us has started. Session, group and environment tell, and a limit that is inherited.
//! A program that starts children through this module only can say so ([`claim_orphans`]); then nothing is
//! left to doubt.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open,
    pidfd_send_signal,
};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::exit::Exit;

/// The variable by which a process is known to belong to a call.
pub(super) const MARK: &str = "ANVIL_CALL_ID";

/// How long, and how often, to look again at a process in the middle of an exec, which takes about 0.3 ms.
const EXEC_LOOK: Duration = Duration::from_micros(100);
const EXEC_LOOKS: u32 = 200;

/// How many lists to make of a family whose members fork and end while they are listed.
const MOST_LISTS: usize = 100;

/// What all processes of one family inherit.
///
/// Twice, because either can be lost: the environment by `env -i`, which a dead process has no longer
/// either, and the limit when a child forks before it is set. The limit is the one on file locks, which
/// Linux has kept and ignored since 2.4.25: any number does, and even a zombie still shows it.
pub(super) struct Mark {
    env: String,
    id: String,
    limit: u64,
}

impl Mark {
    /// A mark of its own. The environment `env` may hold the mark of an outer anvil, in whose command this
    /// one runs; it stays a part of ours, or the outer one would lose sight of what we start.
    pub(super) fn new(env: &[(OsString, OsString)]) -> Self {
        let id = uuid::Uuid::new_v4();
        let (limit, _) = id.as_u64_pair();
        let id = id.simple().to_string();
        let outer = env.iter().find(|(name, _)| name == MARK).and_then(|(_, mark)| mark.to_str());
        let env = outer.map_or_else(|| id.clone(), |outer| format!("{outer}.{id}"));
        Self { env, id, limit }
    }

    /// The value of [`MARK`] for a child.
    pub(super) fn as_env(&self) -> &str {
        &self.env
    }

    /// Marks a child that was just started, as soon as possible.
    pub(super) fn put_on(&self, leader: Pid) {
        put_limit(leader, self.limit);
    }

    /// What `put_on` does, for a thread that has no mark but its number.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }
}

/// Gives a process the limit by which it is known.
pub(super) fn put_limit(leader: Pid, limit: u64) {
    let limit = Rlimit { current: Some(limit), maximum: None };
    // Without it the environment still tells; see `Mark`.
    if let Err(error) = rustix::process::prlimit(Some(leader), Resource::Locks, limit) {
        tracing::debug!(%error, "a child process is marked in its environment only");
    }
}

/// A child and all that it started.
pub(super) struct Family {
    leader: Pid,
    mark: Mark,
    /// Members known by descent, or signalled once.
    members: HashSet<Pid>,
    /// Members that were asked to end already.
    asked: HashSet<Pid>,
}

impl Family {
    /// Starts a child with `mark` on it. Nobody takes it for an orphan before it is known as a leader.
    pub(super) fn found<E>(
        mark: Mark,
        start: impl FnOnce(&Mark) -> Result<Pid, E>,
    ) -> Result<Self, E> {
        let mut leaders = leaders();
        let leader = start(&mark)?;
        leaders.push(leader);
        Ok(Self { leader, mark, members: HashSet::new(), asked: HashSet::new() })
    }

    /// The first member.
    pub(super) fn leader(&self) -> Pid {
        self.leader
    }

    /// The members that run and whose parent is dead, except the leader. Reaps the dead ones.
    pub(super) fn survivors(&self) -> Vec<Pid> {
        self.survivors_beside(&leaders())
    }

    /// The same. As long as the lock on `leaders` is held no other family reaps them, and their ids stay
    /// theirs.
    fn survivors_beside(&self, leaders: &[Pid]) -> Vec<Pid> {
        let mut dead = HashSet::new();
        let leaving = leaving();
        for _ in 0..MOST_LISTS {
            let orphans = own_children().unwrap_or_default();
            let is_waited_for = |pid: &Pid| leaders.contains(pid) || leaving.contains(pid);
            let orphans: Vec<Pid> = orphans.into_iter().filter(|pid| !is_waited_for(pid)).collect();
            if orphans.is_empty() {
                return orphans;
            }
            let (ours, others) = self.divide(orphans, leaders.len() <= 1);
            let (alive, ended): (Vec<Pid>, Vec<Pid>) = ours.into_iter().partition(|pid| runs(*pid));
            let ended = ended.into_iter().chain(others.into_iter().filter(|pid| has_ended(*pid)));
            // One that ended after it was listed may have left children that the list does not have.
            let is_complete = ended.filter(|pid| dead.insert(*pid)).count() == 0;
            if is_complete || !alive.is_empty() {
                return alive;
            }
        }
        // It runs away faster than it can be followed.
        Vec::new()
    }

    /// Tells the members from those of others; `is_only` says that there is no other family.
    fn divide(&self, orphans: Vec<Pid>, is_only: bool) -> (Vec<Pid>, Vec<Pid>) {
        let (mut ours, mut others): (Vec<Pid>, Vec<Pid>) =
            orphans.into_iter().partition(|pid| self.knows(*pid));
        // Whoever is in a session with a member descends from its leader, who is a member then.
        let sessions: HashSet<_> = ours.iter().filter_map(|pid| session_of(*pid)).collect();
        let claimed = CLAIMED.load(Ordering::Relaxed);
        ours.extend(others.extract_if(.., |pid| {
            // Whatever has ended is reaped whoever's it was.
            session_of(*pid).is_some_and(|id| sessions.contains(&id))
                || (claimed && (is_only || has_ended(*pid)))
        }));
        (ours, others)
    }

    /// Reaps what has died since [`Deaths::of_orphans`] was heard, which would stay a zombie for as long as
    /// the leader runs.
    pub(super) fn reap(&self) {
        self.survivors();
    }

    /// Whether nothing is left but the first process of a sandbox on its way out, of `left`, the survivors
    /// of a confined leader. That one is given to a task that reaps it.
    ///
    /// The kernel takes a sandbox apart before it reports its first process dead, which takes longer than
    /// most commands and changes nothing any more. That process is the only child we get from in there, and
    /// once it has no children itself nobody is inside.
    pub(super) fn leave_the_empty_sandbox(&self, left: &[Pid]) -> bool {
        let &[first] = left else { return false };
        if children_of(first).is_ok_and(|children| !children.is_empty()) {
            return false;
        }
        let Ok(mut exit) = Exit::listen() else { return false };
        leaving().push(first);
        tokio::spawn(async move {
            exit.wait(first).await;
            leaving().retain(|pid| *pid != first);
        });
        true
    }

    /// Notes everything that descends from the leader, or from survivors once it is gone.
    pub(super) fn remember(&mut self, leader_runs: bool) {
        let mut above = self.survivors();
        self.members.extend(&above);
        if leader_runs {
            above.push(self.leader);
        }
        while let Some(pid) = above.pop() {
            // A process that has just gone has no children.
            for child in children_of(pid).unwrap_or_default() {
                if self.members.insert(child) {
                    above.push(child);
                }
            }
        }
    }

    /// Signals the group that the leader made, as long as its number is certain to be ours.
    pub(super) fn signal_group(&self, signal: Signal, leader_runs: bool) {
        let leaders = leaders();
        let in_group = |pid: &Pid| group_of(*pid) == Some(self.leader);
        if leader_runs || self.survivors_beside(&leaders).iter().any(in_group) {
            report(rustix::process::kill_process_group(self.leader, signal));
        }
    }

    /// Signals survivors outside the group, each once with the same signal unless it is SIGKILL.
    pub(super) fn signal_orphans(&mut self, signal: Signal) {
        let leaders = leaders();
        for pid in self.survivors_beside(&leaders) {
            self.members.insert(pid);
            // What an orphan has started will be an orphan itself in a moment.
            self.members.extend(children_of(pid).unwrap_or_default());
            let first = self.asked.insert(pid);
            let in_group = group_of(pid) == Some(self.leader);
            if signal == Signal::KILL || (first && !in_group) {
                report(rustix::process::kill_process(pid, signal));
            }
        }
    }

    /// Signals, once each, what runs in the process namespace that the leader made, but its first process.
    ///
    /// These are not children of ours, and their numbers may be used anew at any moment. So each is held
    /// fast first, and signalled only if the process with its number is still a child of its parent then:
    /// whatever else was held has ended.
    pub(super) fn signal_inside(&mut self, signal: Signal, leader_runs: bool) {
        let mut above = self.survivors();
        if leader_runs {
            above.extend(children_of(self.leader).unwrap_or_default());
        }
        while let Some(parent) = above.pop() {
            for child in children_of(parent).unwrap_or_default() {
                above.push(child);
                if !self.asked.insert(child) {
                    continue;
                }
                // One that has gone, or a kernel before 5.3: then SIGKILL is the first it hears.
                let Ok(held) = pidfd_open(child, PidfdFlags::empty()) else { continue };
                if children_of(parent).is_ok_and(|children| children.contains(&child)) {
                    self.members.insert(child);
                    report(pidfd_send_signal(held, signal));
                }
            }
        }
    }

    /// Kills everything without waiting, for when nothing can be awaited any more.
    pub(super) fn kill_at_once(&mut self, leader_runs: bool) {
        self.remember(leader_runs);
        self.signal_group(Signal::KILL, leader_runs);
        for pid in &self.members {
            report(rustix::process::kill_process(*pid, Signal::KILL));
        }
    }

    /// How many members besides the leader had to be ended.
    pub(super) fn ended(&self) -> usize {
        self.members.len()
    }

    /// Whether there is evidence that a process belongs here.
    fn knows(&self, pid: Pid) -> bool {
        self.members.contains(&pid)
            || session_of(pid) == Some(self.leader)
            || group_of(pid) == Some(self.leader)
            || lock_limit(pid) == Some(self.mark.limit)
            || environment_names(pid, &self.mark.id)
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        leaders().retain(|pid| *pid != self.leader);
    }
}

/// See [`claim_orphans`].
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// Declares every child that was not started here an orphan of one that was, unless there are children
/// already: a shell can become this program with its background jobs.
pub(super) fn claim_orphans() {
    let is_childless = own_children().is_ok_and(|children| children.is_empty());
    CLAIMED.store(is_childless, Ordering::Relaxed);
}

/// The children that some [`Family`] waits for.
fn leaders() -> MutexGuard<'static, Vec<Pid>> {
    static LEADERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
    // A list of numbers is whole after any panic.
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reaps the sandboxes that are still being taken apart, so that nobody else finds them dead. Blocks for
/// as long as the kernel takes for it, some milliseconds.
pub(super) fn reap_the_last() {
    for pid in std::mem::take(&mut *leaving()) {
        if let Err(error) = rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            tracing::debug!(%error, "a sandbox was reaped already");
        }
    }
}

/// The first processes of sandboxes that hold nothing else any more.
fn leaving() -> MutexGuard<'static, Vec<Pid>> {
    static LEAVING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
    LEAVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a child of ours runs; one that does not is reaped.
fn runs(pid: Pid) -> bool {
    matches!(rustix::process::waitpid(Some(pid), WaitOptions::NOHANG), Ok(None))
}

/// The deaths of our children, ours by birth or by adoption.
pub(super) struct Deaths(Option<SignalStream>);

impl Deaths {
    /// Starts listening: deaths from now on are heard.
    pub(super) fn listen() -> Self {
        Self(signal(SignalKind::child()).ok())
    }

    /// Listens while the leader runs, when no dead child is needed as evidence: where orphans are not
    /// claimed the dead one that made a session tells whose the others in it are.
    pub(super) fn of_orphans() -> Self {
        if CLAIMED.load(Ordering::Relaxed) { Self::listen() } else { Self(None) }
    }

    /// Waits for the next death or deaths.
    pub(super) async fn next(&mut self) {
        let heard = match &mut self.0 {
            Some(stream) => stream.recv().await,
            None => None,
        };
        if heard.is_none() {
            std::future::pending().await
        }
    }
}

/// Makes this process the parent of its descendants whose parent died.
pub(super) fn adopt_orphans() {
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "processes that leave their session will not be found");
    }
}

/// The children that this process adopted, among others.
///
/// A list can lack a child when one before it is reaped while the list is made, proc_pid_task_children(5),
/// and other threads do reap. So only a list that comes out the same twice is taken.
fn own_children() -> io::Result<Vec<Pid>> {
    let mut list = listed_children()?;
    for _ in 0..MOST_LISTS {
        let again = listed_children()?;
        if again == list {
            break;
        }
        list = again;
    }
    Ok(list)
}

/// The kernel gives orphans to the first thread that lives, which is the main one.
fn listed_children() -> io::Result<Vec<Pid>> {
    let own = rustix::process::getpid().as_raw_nonzero();
    match fs::read_to_string(format!("/proc/{own}/task/{own}/children")) {
        Ok(list) => Ok(parse_pids(&list)),
        // A kernel built without CONFIG_PROC_CHILDREN.
        Err(error) if error.kind() == io::ErrorKind::NotFound => children_by_search(own.get()),
        Err(error) => Err(error),
    }
}

fn children_of(pid: Pid) -> io::Result<Vec<Pid>> {
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let mut children = Vec::new();
    for task in fs::read_dir(tasks)? {
        children.extend(parse_pids(&fs::read_to_string(task?.path().join("children"))?));
    }
    Ok(children)
}

/// The session of a process; `None` when it has gone or its session was made outside of our PID namespace.
fn session_of(pid: Pid) -> Option<Pid> {
    inside(nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(pid.as_raw_pid()))))
}

/// The group of a process, likewise.
fn group_of(pid: Pid) -> Option<Pid> {
    inside(nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid.as_raw_pid()))))
}

/// The kernel says 0 for what has no number in our namespace, and rustix takes that to be impossible.
fn inside(id: nix::Result<nix::unistd::Pid>) -> Option<Pid> {
    Pid::from_raw(id.ok()?.as_raw())
}

fn parse_pids(list: &str) -> Vec<Pid> {
    list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// The processes whose parent is `parent`, found by looking at each one.
fn children_by_search(parent: i32) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        // Whatever has gone meanwhile is nobody's child.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        if parent_in(&stat) == Some(parent) {
            children.extend(Pid::from_raw(pid));
        }
    }
    Ok(children)
}

/// The fourth field of a stat line, proc_pid_stat(5); the second, a name, may hold spaces and brackets.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&stat[after_name..]).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The soft limit on file locks in proc_pid_limits(5); `None` when there is none or the process has gone.
fn lock_limit(pid: Pid) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
    let row = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    row.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether the environment that a process was started with holds the mark `id`.
fn environment_names(pid: Pid, id: &str) -> bool {
    let environment = environment(pid);
    environment.split(|byte| *byte == 0).any(|entry| {
        entry
            .strip_prefix(MARK.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(|ids| ids.split(|byte| *byte == b'.').any(|one| one == id.as_bytes()))
    })
}

/// The environment that a child of ours was started with; empty when it cannot be told.
fn environment(pid: Pid) -> Vec<u8> {
    // Another user's process does not show it, nor could we end it.
    let read =
        |what| fs::read(format!("/proc/{}/{what}", pid.as_raw_nonzero())).unwrap_or_default();
    for _ in 0..EXEC_LOOKS {
        let environment = read("environ");
        if !environment.is_empty() {
            return environment;
        }
        // Its arguments are set before its environment, so one that has any has the other by now.
        if !read("cmdline").is_empty() || has_ended(pid) {
            return read("environ");
        }
        // In the middle of an exec it has neither.
        std::thread::sleep(EXEC_LOOK);
    }
    Vec::new()
}

/// Whether a child of ours has ended; it stays a zombie.
fn has_ended(pid: Pid) -> bool {
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::Pid(pid), peek), Ok(None))
}

fn report(sent: rustix::io::Result<()>) {
    match sent {
        // Gone already: that is what was asked.
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => tracing::warn!(%error, "a process could not be signalled"),
    }
}
