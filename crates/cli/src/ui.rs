//! The one thread that writes to the terminal, so that a slow reader never stops the runtime.
//!
//! While a turn of a conversation runs it also takes what the person types, since both share the screen.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::AgentEvent;
use agent::channel::EventReceiver;
use agent::steering::Queue;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use crate::approve::{self, Question};
use crate::render::{Render, Typing};
use crate::signals::{Signals, Stop};
use crate::terminal;
use crate::working::{Draft, Pastes, Typist, Wish, Working};

/// How often a display that changes with time is drawn anew.
const TICK: Duration = Duration::from_secs(1);

/// How long a person who types has to pause before a question takes the keyboard.
const PAUSE: Duration = Duration::from_secs(1);

/// The thread as others see it.
pub(crate) struct Ui {
    ended: oneshot::Receiver<io::Result<()>>,
    turns: watch::Receiver<Shown>,
    keyboard: mpsc::Sender<Keys>,
}

/// What has been shown.
#[derive(Debug, Default)]
struct Shown {
    /// Turns.
    turns: u64,
    /// What was typed during the last of them and is not for the model.
    draft: Draft,
}

/// What becomes of the keyboard.
enum Keys {
    /// It is listened to from now on.
    Listen(Listen),
    /// What was typed is wanted, and nothing more of it.
    Leave(oneshot::Sender<Draft>),
}

/// Work begins, during which a person may type.
struct Listen {
    queue: Arc<Queue>,
    pastes: Pastes,
    /// What was typed already.
    draft: Draft,
    /// Told when the keyboard is listened to.
    done: oneshot::Sender<()>,
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
        let (shown, turns) = watch::channel(Shown::default());
        let (keyboard, wanted) = mpsc::channel(1);
        let runtime = Handle::current();
        let screen =
            Screen { renderer, signals, failure: None, working: None, is_stale: false, shown };
        std::thread::Builder::new().name("screen".into()).spawn(move || {
            let result = runtime.block_on(screen.run(events, questions, wanted));
            if end.send(result).is_err() {
                tracing::debug!("nobody waits for the screen any more");
            }
        })?;
        Ok(Self { ended, turns, keyboard })
    }

    /// Takes lines for `queue` from the keyboard, where that is a terminal, until the end of the turn that
    /// begins now or until [`leave`](Self::leave); `draft` was typed already.
    pub(crate) async fn listen(&self, queue: Arc<Queue>, pastes: Pastes, draft: Draft) {
        let (done, listening) = oneshot::channel();
        let listen = Keys::Listen(Listen { queue, pastes, draft, done });
        if self.keyboard.send(listen).await.is_err() || listening.await.is_err() {
            tracing::debug!("the screen ended before the turn began");
        }
    }

    /// Leaves the keyboard alone after work that was no turn. Returns what was typed meanwhile and is not for
    /// the model.
    pub(crate) async fn leave(&self) -> Draft {
        let (typed, draft) = oneshot::channel();
        match self.keyboard.send(Keys::Leave(typed)).await {
            Ok(()) => draft.await.unwrap_or_default(),
            Err(_) => Draft::default(),
        }
    }

    /// Waits until the end of the `count`th turn has been shown, or the thread has ended. Returns what
    /// was typed meanwhile and is not for the model.
    pub(crate) async fn shown(&mut self, count: u64) -> Draft {
        match self.turns.wait_for(|shown| shown.turns >= count).await {
            Ok(shown) => shown.draft.clone(),
            Err(_) => {
                tracing::debug!("the screen ended before the turn's end was shown");
                Draft::default()
            }
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
    /// The person at the keyboard, while a turn of a conversation runs.
    working: Option<Working>,
    /// Whether what is typed has to be shown anew.
    is_stale: bool,
    shown: watch::Sender<Shown>,
}

impl Screen {
    async fn run(
        mut self,
        mut events: EventReceiver,
        mut questions: mpsc::Receiver<Question>,
        mut wanted: mpsc::Receiver<Keys>,
    ) -> io::Result<()> {
        loop {
            // Keys first: a flood of events must not make the person wait. Events before a question: it
            // comes after all that led to it.
            tokio::select! {
                biased;
                wish = next_wish(&mut self.working) => self.obey(wish).await,
                event = events.recv() => match event {
                    Some(event) => self.show(&event).await,
                    None => break,
                },
                Some(question) = questions.recv() => self.ask(question).await,
                Some(keys) = wanted.recv() => match keys {
                    Keys::Listen(listen) => self.listen(listen),
                    Keys::Leave(typed) => {
                        let draft = self.stop_listening().await;
                        if typed.send(draft).is_err() {
                            tracing::debug!("nobody wants what was typed any more");
                        }
                    }
                },
                () = tokio::time::sleep(TICK), if self.is_waiting() && !self.is_stale => {
                    self.measure();
                    let result = self.renderer.tick();
                    self.check(result);
                    self.take_up();
                    self.is_stale = self.working.is_some();
                }
                // Once nothing else is to be done.
                () = std::future::ready(()), if self.is_stale => self.show_typing(),
            }
        }
        self.failure.map_or(Ok(()), Err)
    }

    /// Takes note of the screen's width before something is written over what was typed.
    fn measure(&mut self) {
        if self.working.is_some()
            && let Some(columns) = terminal::columns()
        {
            self.renderer.resized(columns);
        }
    }

    fn is_waiting(&self) -> bool {
        self.failure.is_none() && self.renderer.is_waiting()
    }

    async fn show(&mut self, event: &AgentEvent) {
        let told = match (event, &self.working) {
            (AgentEvent::NoticesDelivered { notices }, Some(working)) => {
                let notices = working.typist.delivered(notices);
                Some(AgentEvent::NoticesDelivered { notices })
            }
            _ => None,
        };
        let is_end = matches!(event, AgentEvent::TurnFinished(_));
        let draft = if is_end { self.stop_listening().await } else { Draft::default() };
        if self.failure.is_none() {
            // Windows change their width; a look at it once a step is enough.
            if matches!(event, AgentEvent::StepStarted { .. }) {
                self.renderer.fit_to(terminal::width());
            }
            self.measure();
            let result = self.renderer.event(told.as_ref().unwrap_or(event));
            self.check(result);
            self.is_stale = self.working.is_some();
        }
        if is_end {
            self.shown.send_modify(|shown| {
                shown.turns += 1;
                shown.draft = draft;
            });
        }
    }

    /// What was typed gives way to the question and comes back after it.
    async fn ask(&mut self, question: Question) {
        self.let_finish(&question).await;
        self.measure();
        if let Some(working) = &mut self.working
            && working.put_aside().await
        {
            let result = self.renderer.take_keys(false);
            self.check(result);
        }
        let result = approve::answer(question, self.renderer.as_mut(), &self.signals).await;
        self.check(result);
        self.take_up();
    }

    /// Lets the person finish what is being typed: the end of a word is no answer to a question.
    async fn let_finish(&mut self, question: &Question) {
        while let Some(at) = self.working.as_ref().and_then(|working| working.pauses_at(PAUSE)) {
            if self.is_stale {
                self.show_typing();
            }
            tokio::select! {
                biased;
                () = question.called_off() => return,
                wish = next_wish(&mut self.working) => self.obey(wish).await,
                () = tokio::time::sleep_until(at) => {}
            }
        }
    }

    fn listen(&mut self, Listen { queue, pastes, draft, done }: Listen) {
        if self.renderer.can_show_typing() && self.failure.is_none() {
            self.working = Some(Working::new(Typist::new(queue, pastes, &draft)));
            self.take_up();
        }
        if done.send(()).is_err() {
            tracing::debug!("nobody waits for the turn that was to begin");
        }
    }

    /// Listens to the keyboard, if somebody types and nobody else has it.
    fn take_up(&mut self) {
        if let Some(working) = &mut self.working
            && self.failure.is_none()
            && working.take_up()
        {
            let result = self.renderer.take_keys(true);
            self.check(result);
            self.is_stale = true;
        }
    }

    /// The work is over. Returns what was typed and is not for the model.
    async fn stop_listening(&mut self) -> Draft {
        let Some(mut working) = self.working.take() else { return Draft::default() };
        let had_it = working.put_aside().await;
        if self.failure.is_none() {
            let gone = self.renderer.typing(&Typing::default(), terminal::extent());
            let result = if had_it { gone.and(self.renderer.take_keys(false)) } else { gone };
            self.check(result);
        }
        self.is_stale = false;
        working.typist.draft()
    }

    async fn obey(&mut self, wish: Wish) {
        self.is_stale = true;
        match wish {
            Wish::Show => {}
            Wish::EndTurn => self.signals.cancel_turn(),
            Wish::Suspend => self.suspend().await,
            Wish::Gone if terminal::is_gone() => self.signals.raise(Stop::HungUp),
            Wish::Gone => {}
        }
    }

    /// Stops the program, with the terminal as it was, until somebody goes on with it.
    async fn suspend(&mut self) {
        let Some(working) = &mut self.working else { return };
        working.put_aside().await;
        let gone = self.renderer.typing(&Typing::default(), terminal::extent());
        let result = gone.and(self.renderer.take_keys(false));
        self.check(result);
        terminal::suspend();
        self.renderer.came_back();
        self.take_up();
    }

    fn show_typing(&mut self) {
        self.is_stale = false;
        let (Some(working), None) = (&self.working, &self.failure) else { return };
        let screen = terminal::extent();
        let result = self.renderer.typing(&working.typist.view(screen.columns), screen);
        self.check(result);
    }

    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::warn!(%error, "standard output takes no more");
            self.signals.raise(terminal::stop_for(&error));
            self.failure = Some(error);
        }
    }
}

/// What the person at the keyboard wants next, if one is listened to.
async fn next_wish(working: &mut Option<Working>) -> Wish {
    match working {
        Some(working) => working.next().await,
        None => std::future::pending().await,
    }
}
