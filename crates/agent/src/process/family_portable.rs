//! Which processes a child started, and how they are ended (systems that only have process groups).
//!
//! A process that leaves the group of its leader is not found here, and members of the group cannot be
//! counted: a group that had to be ended counts as one.

use std::ffi::OsString;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// The variable by which a process can tell which call it belongs to.
pub(super) const MARK: &str = "ANVIL_CALL_ID";

/// How often a group is looked at while it ends; its deaths cannot be heard.
const LOOK: Duration = Duration::from_millis(5);

/// What all processes of one family inherit.
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new(_env: &[(OsString, OsString)]) -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    pub(super) fn as_env(&self) -> &str {
        &self.0
    }

    /// Nothing to do: there is no mark but the environment.
    pub(super) fn put_on(&self, _leader: Pid) {}
}

/// A child and its process group.
pub(super) struct Family {
    leader: Pid,
    ended: bool,
}

impl Family {
    pub(super) fn found<E>(
        mark: Mark,
        start: impl FnOnce(&Mark) -> Result<Pid, E>,
    ) -> Result<Self, E> {
        Ok(Self { leader: start(&mark)?, ended: false })
    }

    /// The first member.
    pub(super) fn leader(&self) -> Pid {
        self.leader
    }

    /// The group's number when the group has members after its leader has gone.
    pub(super) fn survivors(&self) -> Vec<Pid> {
        match rustix::process::test_kill_process_group(self.leader) {
            Ok(()) => vec![self.leader],
            Err(_) => Vec::new(),
        }
    }

    /// Nothing to reap: orphans are not ours.
    pub(super) fn reap(&self) {}

    /// Never: a sandbox here has no first process of its own.
    pub(super) fn leave_the_empty_sandbox(&self, _left: &[Pid]) -> bool {
        false
    }

    /// Nothing to note: members cannot be listed.
    pub(super) fn remember(&mut self, _leader_runs: bool) {}

    pub(super) fn signal_group(&mut self, signal: Signal, leader_runs: bool) {
        self.ended |= !leader_runs;
        if let Err(error) = rustix::process::kill_process_group(self.leader, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(%error, "a process group could not be signalled");
        }
    }

    pub(super) fn signal_orphans(&mut self, _signal: Signal) {}

    pub(super) fn signal_inside(&mut self, signal: Signal, leader_runs: bool) {
        self.signal_group(signal, leader_runs);
    }

    pub(super) fn kill_at_once(&mut self, leader_runs: bool) {
        self.signal_group(Signal::KILL, leader_runs);
    }

    pub(super) fn ended(&self) -> usize {
        usize::from(self.ended)
    }
}

/// Stands for the deaths that cannot be heard: wakes at short intervals.
pub(super) struct Deaths(bool);

impl Deaths {
    pub(super) fn listen() -> Self {
        Self(true)
    }

    /// Hears nothing: orphans are not ours.
    pub(super) fn of_orphans() -> Self {
        Self(false)
    }

    pub(super) async fn next(&mut self) {
        if self.0 {
            tokio::time::sleep(LOOK).await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}

/// Nothing to do: orphans go to the first process of the system.
pub(super) fn adopt_orphans() {}

/// Nothing to claim, for the same reason.
pub(super) fn claim_orphans() {}

/// Nothing to reap; see `Family::leave_the_empty_sandbox`.
pub(super) fn reap_the_last() {}
