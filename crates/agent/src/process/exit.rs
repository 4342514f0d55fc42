//! Waits for the end of one child and reaps it.

use std::io;

use rustix::process::{Pid, WaitOptions, WaitStatus};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Status;

/// Listens for the end of a child of this process that nobody else reaps.
pub(super) struct Exit {
    deaths: Signal,
}

impl Exit {
    /// Begins to listen; children that start afterwards are certain to be heard.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { deaths: signal(SignalKind::child())? })
    }

    /// Waits for the end. Dropping the future loses nothing; not to be called again after it gave one.
    pub(super) async fn wait(&mut self, leader: Pid) -> Status {
        loop {
            match rustix::process::waitpid(Some(leader), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => return status.into(),
                Ok(None) => {}
                Err(_) => return Status::Unknown,
            }
            if self.deaths.recv().await.is_none() {
                // The runtime is shutting down and polls nobody again.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl From<WaitStatus> for Status {
    fn from(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Signaled(signal),
            (None, None) => Self::Unknown,
        }
    }
}
