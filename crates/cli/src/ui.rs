//! The one thread that writes to the terminal, so that a slow reader never stops the runtime.

use std::io;
use std::time::Duration;

use agent::AgentEvent;
use agent::channel::EventReceiver;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use crate::approve::{self, Question};
use crate::render::Render;
use crate::signals::Signals;
use crate::terminal;

/// How often a display that changes with time is drawn anew.
const TICK: Duration = Duration::from_secs(1);

/// The thread as others see it.
pub(crate) struct Ui {
    ended: oneshot::Receiver<io::Result<()>>,
    turns: watch::Receiver<u64>,
}

impl Ui {
    /// Starts the thread. It ends when every sender of `events` is gone.
    ///
    /// When standard output takes no more, the turn is cancelled through `signals`, and events are
    /// taken without being shown, so that nobody waits for room.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        renderer: Box<dyn Render>,
        events: EventReceiver,
        questions: mpsc::Receiver<Question>,
        signals: Signals,
    ) -> io::Result<Self> {
        let (end, ended) = oneshot::channel();
        let (shown, turns) = watch::channel(0);
        let runtime = Handle::current();
        let screen = Screen { renderer, signals, failure: None };
        std::thread::Builder::new().name("screen".into()).spawn(move || {
            let result = runtime.block_on(screen.run(events, questions, &shown));
            if end.send(result).is_err() {
                tracing::debug!("nobody waits for the screen any more");
            }
        })?;
        Ok(Self { ended, turns })
    }

    /// Waits until the end of the `count`th turn has been shown, or the thread has ended.
    pub(crate) async fn shown(&mut self, count: u64) {
        if self.turns.wait_for(|shown| *shown >= count).await.is_err() {
            tracing::debug!("the screen ended before the turn's end was shown");
        }
    }

    /// Waits for the thread's end, when all is written and flushed.
    ///
    /// # Errors
    /// What kept standard output from taking it all.
    pub(crate) async fn join(self) -> io::Result<()> {
        self.ended.await.unwrap_or_else(|_| Err(io::Error::other("the screen thread panicked")))
    }
}

struct Screen {
    renderer: Box<dyn Render>,
    signals: Signals,
    failure: Option<io::Error>,
}

impl Screen {
    async fn run(
        mut self,
        mut events: EventReceiver,
        mut questions: mpsc::Receiver<Question>,
        shown: &watch::Sender<u64>,
    ) -> io::Result<()> {
        loop {
            // Events first: a question comes after all that led to it.
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(event) => self.show(&event, shown),
                    None => break,
                },
                Some(question) = questions.recv() => {
                    let renderer = self.renderer.as_mut();
                    let result = approve::answer(question, renderer, &self.signals).await;
                    self.check(result);
                }
                () = tokio::time::sleep(TICK), if self.is_waiting() => {
                    let result = self.renderer.tick();
                    self.check(result);
                }
            }
        }
        self.failure.map_or(Ok(()), Err)
    }

    fn is_waiting(&self) -> bool {
        self.failure.is_none() && self.renderer.is_waiting()
    }

    fn show(&mut self, event: &AgentEvent, shown: &watch::Sender<u64>) {
        if self.failure.is_none() {
            // Windows change their width; a look at it once a step is enough.
            if matches!(event, AgentEvent::StepStarted { .. }) {
                self.renderer.fit_to(terminal::width());
            }
            let result = self.renderer.event(event);
            self.check(result);
        }
        if matches!(event, AgentEvent::TurnFinished(_)) {
            shown.send_modify(|count| *count += 1);
        }
    }

    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::warn!(%error, "standard output takes no more");
            self.signals.raise(terminal::stop_for(&error));
            self.failure = Some(error);
        }
    }
}
