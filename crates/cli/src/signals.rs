//! Turns Ctrl-C, SIGTERM, SIGHUP and a reader that went away into cancelled turns and exit codes.
//!
//! One listener serves the whole process; each turn borrows it through its own token. The first
//! signal asks the turn to stop and lets it put things in order; a second one does not wait.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a stopped turn may take to end its children and tell its outcome.
const GRACE: Duration = Duration::from_secs(15);

/// What ended the work from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// SIGINT, usually Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP: the terminal is gone.
    HungUp,
    /// Nobody reads standard output any more.
    OutputClosed,
}

impl Stop {
    /// The exit code: 128 and the signal's number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::OutputClosed => 141,
            Self::Terminated => 143,
        }
    }
}

/// What Ctrl-C means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// It ends the program.
    EndProgram,
    /// It ends the turn; between turns it means nothing here.
    EndTurn,
}

/// The process's signals. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Signals {
    shared: Arc<Shared>,
}

struct Shared {
    on_interrupt: OnInterrupt,
    turn: Mutex<Option<CancellationToken>>,
    stop: watch::Sender<Option<Stop>>,
    forced: watch::Sender<Option<Stop>>,
    runtime: Handle,
}

impl Signals {
    /// Starts to listen. Must be called on the runtime that lives as long as the process.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub(crate) fn listen(on_interrupt: OnInterrupt) -> io::Result<Self> {
        let shared = Shared {
            on_interrupt,
            turn: Mutex::new(None),
            stop: watch::Sender::new(None),
            forced: watch::Sender::new(None),
            runtime: Handle::current(),
        };
        let signals = Self { shared: Arc::new(shared) };
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let listener = signals.clone();
        // Lives as long as the runtime, which is as long as the process.
        tokio::spawn(async move {
            loop {
                let stop = tokio::select! {
                    _ = interrupt.recv() => Stop::Interrupted,
                    _ = terminate.recv() => Stop::Terminated,
                    _ = hangup.recv() => Stop::HungUp,
                };
                listener.raise(stop);
            }
        });
        Ok(signals)
    }

    /// Acts on `stop` as if its signal had arrived.
    pub(crate) fn raise(&self, stop: Stop) {
        let turn = self.turn().clone();
        let turn_only =
            stop == Stop::Interrupted && self.shared.on_interrupt == OnInterrupt::EndTurn;
        if turn_only {
            match turn {
                Some(token) if token.is_cancelled() => self.force(stop),
                Some(token) => token.cancel(),
                None => {}
            }
            return;
        }
        let first = self.shared.stop.send_if_modified(|known| {
            let first = known.is_none();
            *known = known.or(Some(stop));
            first
        });
        if first {
            self.force_after_grace(stop);
            if let Some(token) = turn {
                token.cancel();
            }
        } else if matches!(stop, Stop::Interrupted | Stop::Terminated) {
            // Only somebody who asks twice is in a hurry; a terminal that goes away is seen twice,
            // by its signal and by whoever reads or writes it.
            self.force(stop);
        }
    }

    /// A token for the turn that begins now; cancelled already when the process has to end.
    pub(crate) fn begin_turn(&self) -> CancellationToken {
        let token = CancellationToken::new();
        *self.turn() = Some(token.clone());
        if self.stop().is_some() {
            token.cancel();
        }
        token
    }

    /// The turn is over.
    pub(crate) fn end_turn(&self) {
        *self.turn() = None;
    }

    /// Asks the running turn to stop, however often.
    pub(crate) fn cancel_turn(&self) {
        if let Some(token) = &*self.turn() {
            token.cancel();
        }
    }

    /// What ended the work, if something did.
    pub(crate) fn stop(&self) -> Option<Stop> {
        *self.shared.stop.borrow()
    }

    /// Resolves when the process has to end.
    pub(crate) async fn stopped(&self) -> Stop {
        told(&self.shared.stop).await
    }

    /// Resolves when the process has to end at once: after a second signal, or when a stopped turn
    /// does not come to its end.
    pub(crate) async fn forced(&self) -> Stop {
        told(&self.shared.forced).await
    }

    fn force(&self, stop: Stop) {
        self.shared.forced.send_replace(Some(stop));
    }

    fn force_after_grace(&self, stop: Stop) {
        let signals = self.clone();
        self.shared.runtime.spawn(async move {
            tokio::time::sleep(GRACE).await;
            signals.force(stop);
        });
    }

    fn turn(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn told(sender: &watch::Sender<Option<Stop>>) -> Stop {
    let mut receiver = sender.subscribe();
    let stop = receiver.wait_for(Option::is_some).await;
    stop.expect("the sender outlives the wait").expect("waited for Some")
}

/// Raises [`Stop::OutputClosed`] when nobody can read standard output any more, also while nothing
/// is being written. A thread waits for that; it ends with the process.
pub(crate) fn watch_output(signals: Signals) {
    let thread = std::thread::Builder::new().name("output".into()).spawn(move || {
        // No event is asked for: a reader that goes away is reported all the same.
        let stdout = io::stdout();
        let mut watched = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        loop {
            match poll(&mut watched, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Err(_) => return,
                Ok(_) => return signals.raise(Stop::OutputClosed),
            }
        }
    });
    if let Err(error) = thread {
        // A write will find out, only later.
        tracing::warn!(%error, "standard output is not watched");
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[track_caller]
    fn check_forced(signals: &Signals, want: Option<Stop>) {
        assert_eq!(signals.forced().now_or_never(), want);
    }

    #[tokio::test]
    async fn in_the_repl_an_interrupt_ends_the_turn_and_not_the_program() {
        let signals = Signals::listen(OnInterrupt::EndTurn).unwrap();
        signals.raise(Stop::Interrupted);
        let turn = signals.begin_turn();
        assert!(!turn.is_cancelled(), "an interrupt between turns must not reach the next one");
        signals.raise(Stop::Interrupted);
        assert!(turn.is_cancelled());
        assert_eq!(signals.stop(), None);
        signals.end_turn();
        assert!(!signals.begin_turn().is_cancelled());
        check_forced(&signals, None);
    }

    #[tokio::test]
    async fn a_second_interrupt_of_the_same_turn_does_not_wait() {
        let signals = Signals::listen(OnInterrupt::EndTurn).unwrap();
        let _turn = signals.begin_turn();
        signals.raise(Stop::Interrupted);
        check_forced(&signals, None);
        signals.raise(Stop::Interrupted);
        check_forced(&signals, Some(Stop::Interrupted));
    }

    #[tokio::test]
    async fn a_turn_that_is_asked_to_stop_twice_by_its_own_key_has_its_time() {
        let signals = Signals::listen(OnInterrupt::EndTurn).unwrap();
        let turn = signals.begin_turn();
        signals.cancel_turn();
        signals.cancel_turn();
        assert!(turn.is_cancelled());
        check_forced(&signals, None);
    }

    #[tokio::test]
    async fn a_termination_ends_the_turn_and_the_program() {
        let signals = Signals::listen(OnInterrupt::EndTurn).unwrap();
        let turn = signals.begin_turn();
        signals.raise(Stop::Terminated);
        assert!(turn.is_cancelled());
        assert_eq!(signals.stopped().await, Stop::Terminated);
        assert!(signals.begin_turn().is_cancelled(), "no turn begins after it");
        check_forced(&signals, None);
        signals.raise(Stop::Terminated);
        check_forced(&signals, Some(Stop::Terminated));
    }

    #[tokio::test]
    async fn the_first_cause_is_the_one_that_counts() {
        let signals = Signals::listen(OnInterrupt::EndProgram).unwrap();
        signals.raise(Stop::Interrupted);
        signals.raise(Stop::OutputClosed);
        signals.raise(Stop::HungUp);
        assert_eq!(signals.stop(), Some(Stop::Interrupted));
        // Neither is a second request.
        check_forced(&signals, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_end_is_not_waited_for_for_ever() {
        let signals = Signals::listen(OnInterrupt::EndProgram).unwrap();
        signals.raise(Stop::Terminated);
        assert_eq!(signals.forced().await, Stop::Terminated);
    }
}
