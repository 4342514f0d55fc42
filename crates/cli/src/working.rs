//! What a person types while a turn runs: lines for the model, which wait until it can read them.

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::paste;
use agent::sanitize::one_line;
use agent::steering::{Notice, Queue};
use tokio::time::{Instant, sleep_until, timeout};

use crate::commands;
use crate::keyboard::BURST;
use crate::keyboard::keys::{Key, Keys};
use crate::keyboard::line::Line;
use crate::keyboard::reader::Reader;
use crate::render::{PROMPT_COLUMNS, Typing};

/// What is said of a command.
const AT_THE_PROMPT: &str = "Commands work at the prompt: this one waits for the end of the turn.";

/// Most bytes of a paste.
const MOST_PASTED: usize = 16 << 20;

/// How long nothing may come of a paste for it to have no end.
const STALLED: Duration = Duration::from_secs(1);

/// What is said of a paste that is longer.
const CUT: &str = "That was more than can be pasted at once: the rest of it is missing.";

/// What is said of a line for which there is no room.
const FULL: &str = "So many lines wait already that this one has to stay here.";

/// What a key asks of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// That the screen shows what was typed.
    Show,
    /// That the turn ends.
    EndTurn,
    /// That the program stops until somebody goes on with it.
    Suspend,
    /// Nothing: the terminal cannot be read any more.
    Gone,
}

/// How many pastes a session holds, by which the next one is numbered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pastes(Arc<AtomicUsize>);

impl Pastes {
    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// From now on it is so many.
    pub(crate) fn set(&self, count: usize) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// A text that came to the session, with a chip for each paste in it.
    pub(crate) fn shown(&self, text: &str) -> String {
        let mut count = self.count();
        let shown = paste::chips(text, &mut count).into_owned();
        self.set(count);
        shown
    }
}

/// The line that is being typed, and those that wait.
pub(crate) struct Typist {
    queue: Arc<Queue>,
    /// How many pastes the session holds.
    pastes: Pastes,
    line: Line,
    /// The line is a command and was entered: it waits for the prompt.
    is_entered: bool,
    hint: Option<&'static str>,
}

/// What was typed while a turn ran and does not wait for the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    /// The line, pastes between their marks.
    pub(crate) text: String,
    /// It is a command and was entered.
    pub(crate) is_entered: bool,
}

impl Typist {
    /// A person who has typed `draft` so far.
    pub(crate) fn new(queue: Arc<Queue>, pastes: Pastes, draft: &Draft) -> Self {
        let hint = draft.is_entered.then_some(AT_THE_PROMPT);
        let line = Line::with_pastes(&draft.text);
        Self { queue, pastes, line, is_entered: draft.is_entered, hint }
    }

    /// Does what a key says.
    pub(crate) fn press(&mut self, key: &Key) -> Wish {
        let is_command = std::mem::take(&mut self.is_entered);
        self.hint = None;
        match key {
            Key::Enter => self.enter(),
            Key::Up if self.line.is_empty() => {
                if let Some(text) = self.queue.take_back() {
                    self.line = Line::with_pastes(&text);
                }
            }
            Key::Escape | Key::Interrupt => return Wish::EndTurn,
            Key::Suspend => {
                self.is_entered = is_command;
                return Wish::Suspend;
            }
            Key::Paste(payload) => {
                self.line.paste(payload);
                // A character may be cut in two at the end.
                self.hint = (payload.len() + 3 > MOST_PASTED).then_some(CUT);
            }
            // What only a paste may have.
            Key::Char(paste::MARK) => {}
            other => self.line.apply(other),
        }
        Wish::Show
    }

    fn enter(&mut self) {
        match commands::read(&self.line.text()) {
            commands::Line::Empty => self.line = Line::default(),
            commands::Line::Prompt(text) => match self.queue.push(text) {
                true => self.line = Line::default(),
                false => self.hint = Some(FULL),
            },
            commands::Line::Command(_) | commands::Line::Wrong(_) => {
                self.is_entered = true;
                self.hint = Some(AT_THE_PROMPT);
            }
        }
    }

    /// What of it a screen shows in lines of so many columns.
    pub(crate) fn view(&self, columns: usize) -> Typing {
        let mut pastes = self.pastes.count();
        let queued = self.queue.waiting();
        let mut show = |line: &String| one_line(&paste::chips(line, &mut pastes)).into_owned();
        let queued: Vec<_> = queued.iter().map(&mut show).collect();
        if queued.is_empty() && self.line.is_empty() && self.hint.is_none() {
            return Typing::default();
        }
        let room = columns.saturating_sub(PROMPT_COLUMNS + 1);
        Typing { queued, hint: self.hint, line: Some(self.line.view(room.max(1), pastes)) }
    }

    /// The model has read these. Returns them as a screen shows them.
    pub(crate) fn delivered(&self, notices: &[Notice]) -> Vec<Notice> {
        let ids: Vec<String> = notices.iter().map(|notice| notice.id.clone()).collect();
        self.queue.forget(&ids);
        let show = |one: &Notice| Notice { text: self.pastes.shown(&one.text), ..one.clone() };
        notices.iter().map(show).collect()
    }

    /// The line that did not go to the queue.
    pub(crate) fn draft(&self) -> Draft {
        Draft { text: self.line.text(), is_entered: self.is_entered }
    }
}

/// A person at the keyboard of a terminal, beside a turn that runs.
pub(crate) struct Working {
    pub(crate) typist: Typist,
    keys: Keys,
    /// Until when the rest of a key may come.
    until: Option<Instant>,
    /// When something was typed last.
    typed: Option<Instant>,
    /// Nothing while somebody else has the keyboard.
    reader: Option<Reader>,
}

impl Working {
    /// Nobody is listened to before [`Self::take_up`].
    pub(crate) fn new(typist: Typist) -> Self {
        Self {
            typist,
            keys: Keys::with_pastes(MOST_PASTED),
            until: None,
            typed: None,
            reader: None,
        }
    }

    /// Takes the keyboard, if nobody else has it. Returns whether it was taken just now.
    pub(crate) fn take_up(&mut self) -> bool {
        if self.reader.is_some() {
            return false;
        }
        match Reader::start() {
            Ok(reader) => self.reader = Some(reader),
            Err(error) => tracing::debug!(%error, "nothing can be typed beside the turn"),
        }
        self.reader.is_some()
    }

    /// When the person will have paused for so long, if that is not so yet.
    pub(crate) fn pauses_at(&self, pause: Duration) -> Option<Instant> {
        let at = self.typed? + pause;
        (self.reader.is_some() && at > Instant::now()).then_some(at)
    }

    /// Gives the keyboard back; what was typed so far stays. Returns whether this had it.
    ///
    /// A paste comes to its end first: whoever reads next would take the rest of it for keys, and each of its
    /// lines would be entered.
    pub(crate) async fn put_aside(&mut self) -> bool {
        if self.reader.is_none() {
            return false;
        }
        loop {
            let has_ended = self.end_paste().await;
            let Some(reader) = self.reader.take() else { break };
            // The turn is ending, or whoever takes the keyboard hears such a key himself.
            for key in &self.keys.push(&reader.stop().await) {
                self.typist.press(key);
            }
            let has_begun_anew = has_ended && self.keys.is_pasting();
            if !has_begun_anew || !self.take_up() {
                break;
            }
        }
        self.until = None;
        if let Some(cut) = self.keys.cut_off() {
            self.typist.press(&cut);
        }
        true
    }

    /// Waits for the end of a paste that has begun, as long as something of it comes. Returns whether it ended.
    async fn end_paste(&mut self) -> bool {
        while self.keys.is_pasting() && self.reader.is_some() {
            if timeout(STALLED, self.next()).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Waits for the next keys. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Wish {
        let Some(reader) = &mut self.reader else { return future::pending().await };
        let keys = tokio::select! {
            biased;
            bytes = reader.read() => match bytes {
                Some(bytes) => {
                    self.typed = Some(Instant::now());
                    self.keys.push(&bytes)
                }
                None => {
                    self.reader = None;
                    return Wish::Gone;
                }
            },
            () = sleep_until(self.until.unwrap_or_else(Instant::now)), if self.until.is_some() => {
                self.keys.pause().into_iter().collect()
            }
        };
        // A lone escape is a key once nothing follows it.
        self.until = self.keys.is_waiting().then(|| Instant::now() + BURST);
        let wishes = keys.iter().map(|key| self.typist.press(key));
        // All keys are pressed, whatever the first of them asks for.
        wishes.fold(Wish::Show, |all, wish| if wish == Wish::Show { all } else { wish })
    }
}

#[cfg(test)]
mod tests {
    use agent::steering::Steering as _;

    use super::*;

    fn typist(draft: &str) -> (Typist, Arc<Queue>) {
        let draft = Draft { text: draft.to_owned(), is_entered: false };
        let queue = Arc::new(Queue::default());
        (Typist::new(Arc::clone(&queue), Pastes::default(), &draft), queue)
    }

    fn press(typist: &mut Typist, keys: &str) {
        for key in Keys::default().push(keys.as_bytes()) {
            assert_eq!(typist.press(&key), Wish::Show);
        }
    }

    #[test]
    fn an_entered_line_waits_and_is_taken_back_into_an_empty_line_only() {
        let (mut typist, queue) = typist("");
        press(&mut typist, "one\rtwo\r  \rthree");
        assert_eq!(queue.waiting(), ["one", "two"]);
        press(&mut typist, "\x1b[A");
        assert_eq!((typist.draft().text.as_str(), queue.waiting().len()), ("three", 2));
        press(&mut typist, "\x15\x1b[A!\r");
        assert_eq!(queue.waiting(), ["one", "two!"]);
    }

    #[test]
    fn a_command_stays_in_the_line_and_never_goes_to_the_model() {
        let (mut typist, queue) = typist("");
        for line in ["/clear", "/nonsense"] {
            press(&mut typist, &format!("\x15{line}\r"));
            assert_eq!(typist.draft(), Draft { text: line.to_owned(), is_entered: true });
            assert_eq!(typist.view(80).hint, Some(AT_THE_PROMPT));
        }
        assert_eq!(queue.waiting(), Vec::<String>::new());
        press(&mut typist, "x");
        assert_eq!((typist.view(80).hint, typist.draft().is_entered), (None, false));
    }

    #[test]
    fn a_line_without_room_stays_where_it_is() {
        let (mut typist, queue) = typist("");
        while queue.push("full") {}
        press(&mut typist, "more\r");
        assert_eq!((typist.draft().text.as_str(), typist.view(80).hint), ("more", Some(FULL)));
    }

    #[test]
    fn pastes_are_numbered_through_session_queue_and_line() {
        let (mut typist, queue) = typist("");
        typist.pastes.set(2);
        let long = format!("\x1b[200~{}\x1b[201~", "x\n".repeat(9));
        press(&mut typist, &format!("one {long}\rtwo {long}"));
        let view = typist.view(80);
        assert_eq!(&*view.queued[0], "one [paste #3 · 9 lines]");
        assert_eq!(&*view.line.unwrap().0, "two [paste #4 · 9 lines]");
        let told = typist.delivered(&queue.claim());
        assert_eq!(told[0].text, "one [paste #3 · 9 lines]");
        assert_eq!(&*typist.view(80).line.unwrap().0, "two [paste #4 · 9 lines]");
        press(&mut typist, "\r");
        assert_eq!(paste::expand(&queue.waiting()[0]), format!("two {}", "x\n".repeat(9)));
    }

    #[test]
    fn a_mark_cannot_be_typed() {
        let (mut typist, queue) = typist("");
        press(&mut typist, "a\u{fffc}b\u{fffc}c\r");
        assert_eq!(queue.waiting(), ["abc"]);
    }

    #[test]
    fn nothing_is_shown_where_nothing_was_typed() {
        let (mut typist, _queue) = typist("");
        assert_eq!(typist.view(80), Typing::default());
        press(&mut typist, "a\x1b[2J");
        assert_eq!(&*typist.view(80).line.unwrap().0, "a");
        let (typist, _queue) = self::typist("draft");
        assert_eq!(&*typist.view(80).line.unwrap().0, "draft");
    }

    #[test]
    fn escape_ends_the_turn_and_leaves_the_line() {
        let (mut typist, _queue) = typist("half a li");
        assert_eq!(typist.press(&Key::Escape), Wish::EndTurn);
        assert_eq!(typist.draft(), Draft { text: "half a li".into(), is_entered: false });
    }
}
