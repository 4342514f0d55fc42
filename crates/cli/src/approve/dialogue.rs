//! The lines that a person types while a question stands on the screen, and what follows from each.

use std::collections::VecDeque;
use std::io;

use agent::approval::offered_first;
use agent::{ApprovalDecision, ApprovalRequest, Scope};

use super::keep::keep;
use super::words::{Answer, answer as answer_of, chosen, scope as scope_of};
use super::{Keeping, denied, no_answer};
use crate::keyboard::keys::{Key, Keys};
use crate::keyboard::line::{self, Line};
use crate::keyboard::{BURST, Heard, Keyboard, Settled};
use crate::render::{Asked, Render};
use crate::signals::{Signals, Stop};
use crate::terminal;

const INSTEAD: &str = "What should be done instead? (Enter: nothing) ";

/// What is said of a line that came with more behind it, faster than anybody types.
const TOO_FAST: &str = "That came all at once and was not taken for an answer.";

/// A question that stands on the screen.
pub(super) struct Dialogue<'a> {
    request: &'a ApprovalRequest,
    keeping: &'a Keeping,
    renderer: &'a mut dyn Render,
    signals: &'a Signals,
    keyboard: Keyboard,
    keys: Keys,
    waiting: VecDeque<Key>,
}

/// How a line ended.
enum Typed {
    /// With Enter; whether something in it was pasted.
    Line(String, Pasted),
    /// With Escape: back to where one came from.
    Back,
    /// With Ctrl-D in an empty line, or with the end of the terminal.
    End,
    /// With Ctrl-C.
    Interrupted,
}

/// Whether a line holds something that was pasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pasted {
    Yes,
    No,
}

impl<'a> Dialogue<'a> {
    pub(super) fn new(
        request: &'a ApprovalRequest,
        keeping: &'a Keeping,
        renderer: &'a mut dyn Render,
        signals: &'a Signals,
        keyboard: Keyboard,
    ) -> Self {
        let (keys, waiting) = (Keys::default(), VecDeque::new());
        Self { request, keeping, renderer, signals, keyboard, keys, waiting }
    }

    /// Waits for the answer; `asked` says how much of the question stands there.
    ///
    /// # Errors
    /// When the terminal failed or is gone.
    pub(super) async fn run(&mut self, asked: Asked) -> io::Result<ApprovalDecision> {
        match self.keyboard.settled().await {
            Settled::Quiet => {}
            Settled::Interrupted => return Ok(self.interrupted()),
            Settled::Gone => return no_answer(),
        }
        let can_keep = !self.request.proposals.is_empty();
        let prompt = if can_keep { "Allow? [y/a/n]: " } else { "Allow? [y/n]: " };
        self.renderer.keys(asked, can_keep)?;
        loop {
            let (line, pasted) = match self.line(prompt, "").await? {
                Typed::Line(line, pasted) => (line, pasted),
                Typed::Back => continue,
                Typed::End => return no_answer(),
                Typed::Interrupted => return Ok(self.interrupted()),
            };
            match answer_of(&line) {
                Answer::Allow | Answer::Always if pasted == Pasted::Yes => {
                    self.renderer.note("A yes is typed, not pasted.")?;
                }
                Answer::Allow => return Ok(ApprovalDecision::Allow),
                Answer::Instead(words) => return Ok(denied(Some(words))),
                Answer::Deny => return self.instead().await,
                Answer::Whole => self.renderer.whole(self.request)?,
                Answer::Always if !can_keep => {
                    self.renderer.note("No rule can allow this; y allows it once.")?;
                }
                Answer::Always => {
                    if let Some(decision) = self.always().await? {
                        return Ok(decision);
                    }
                    self.renderer.keys(asked, can_keep)?;
                }
                Answer::Nothing => {}
            }
        }
    }

    async fn instead(&mut self) -> io::Result<ApprovalDecision> {
        match self.line(INSTEAD, "").await? {
            Typed::Line(words, _) => {
                let words = words.trim();
                Ok(denied((!words.is_empty()).then(|| words.to_owned())))
            }
            Typed::Back => Ok(denied(None)),
            Typed::End => no_answer(),
            Typed::Interrupted => Ok(self.interrupted()),
        }
    }

    /// Which rule, and for how long; nothing when the person went back.
    async fn always(&mut self) -> io::Result<Option<ApprovalDecision>> {
        let proposals = &self.request.proposals;
        self.renderer.choices(proposals)?;
        let prompt = match proposals.len() {
            1 => "Rule (Enter for 1): ".to_owned(),
            most => format!("Rule (1-{most}, Enter for {}): ", offered_first(proposals) + 1),
        };
        loop {
            let line = match self.line(&prompt, "").await? {
                Typed::Line(line, _) => line,
                Typed::Back => return Ok(None),
                Typed::End => return no_answer().map(Some),
                Typed::Interrupted => return Ok(Some(self.interrupted())),
            };
            match chosen(&line, proposals) {
                Some(rule) => return self.edited(rule).await,
                None => self.renderer.note("There is no rule of that number.")?,
            }
        }
    }

    /// The rule as the person leaves it.
    async fn edited(&mut self, mut rule: String) -> io::Result<Option<ApprovalDecision>> {
        loop {
            match self.line("Rule: ", &rule).await? {
                Typed::Line(line, _) => line.trim().clone_into(&mut rule),
                Typed::Back => return Ok(None),
                Typed::End => return no_answer().map(Some),
                Typed::Interrupted => return Ok(Some(self.interrupted())),
            }
            if rule.is_empty() {
                return Ok(None);
            }
            match self.keeping.check(&rule) {
                Ok(()) => break,
                Err(fault) => self.renderer.note(&fault)?,
            }
        }
        self.scope(rule).await
    }

    async fn scope(&mut self, rule: String) -> io::Result<Option<ApprovalDecision>> {
        let Some(file) = &self.keeping.user_file else {
            return Ok(Some(ApprovalDecision::Always { rule, scope: Scope::Session }));
        };
        self.renderer.note(&format!("s this session (Enter) · u always, in {}", file.display()))?;
        loop {
            let line = match self.line("For how long? [s/u]: ", "").await? {
                Typed::Line(line, _) => line,
                Typed::Back => return Ok(None),
                Typed::End => return no_answer().map(Some),
                Typed::Interrupted => return Ok(Some(self.interrupted())),
            };
            let Some(scope) = scope_of(&line) else { continue };
            if scope == Scope::User
                && let Err(error) = keep(file, &self.keeping.repository, &rule)
            {
                self.renderer.note(&error.to_string())?;
                continue;
            }
            return Ok(Some(ApprovalDecision::Always { rule, scope }));
        }
    }

    /// Ctrl-C: the turn is over.
    fn interrupted(&mut self) -> ApprovalDecision {
        self.signals.raise(Stop::Interrupted);
        denied(None)
    }

    /// A line that the person types behind `prompt`, with `text` in it to begin with.
    async fn line(&mut self, prompt: &str, text: &str) -> io::Result<Typed> {
        let (mut line, mut pasted) = (Line::with(text), Pasted::No);
        loop {
            self.draw(prompt, &line)?;
            let Some(key) = self.key().await else { return Ok(Typed::End) };
            match key {
                Key::Enter if self.is_burst().await => {
                    self.renderer.answered()?;
                    self.renderer.note(TOO_FAST)?;
                    (line, pasted) = (Line::with(text), Pasted::No);
                }
                Key::Enter => {
                    self.renderer.answered()?;
                    return Ok(Typed::Line(line.text(), pasted));
                }
                Key::Escape => {
                    self.renderer.answered()?;
                    return Ok(Typed::Back);
                }
                Key::Close if line.is_empty() => {
                    self.renderer.answered()?;
                    return Ok(Typed::End);
                }
                Key::Interrupt => {
                    self.renderer.answered()?;
                    return Ok(Typed::Interrupted);
                }
                Key::Suspend => self.suspend()?,
                other => {
                    if matches!(other, Key::Paste(_)) {
                        pasted = Pasted::Yes;
                    }
                    line.apply(&other);
                }
            }
        }
    }

    fn draw(&mut self, prompt: &str, line: &Line) -> io::Result<()> {
        self.renderer.fit_to(terminal::width());
        let room = self.renderer.columns().saturating_sub(line::width_of(prompt) + 1);
        let (shown, cursor) = line.view(room.max(1), 0);
        self.renderer.draw(prompt, &shown, cursor)
    }

    /// The next key; nothing when the terminal is gone.
    async fn key(&mut self) -> Option<Key> {
        loop {
            if let Some(key) = self.waiting.pop_front() {
                return Some(key);
            }
            // A lone escape is a key once nothing follows it.
            match self.keyboard.read(self.keys.is_waiting().then_some(BURST)).await {
                Heard::Bytes(bytes) => self.waiting.extend(self.keys.push(&bytes)),
                Heard::Nothing => self.waiting.extend(self.keys.pause()),
                Heard::Gone => return None,
            }
        }
    }

    /// Whether more comes right behind the line that was just entered: the end of a paste that began
    /// before the question, or a program that types. All of it is thrown away.
    async fn is_burst(&mut self) -> bool {
        let is_burst = !self.waiting.is_empty()
            || self.keys.is_waiting()
            || self.keys.is_pasting()
            || self.keyboard.read(Some(BURST)).await != Heard::Nothing;
        if is_burst {
            self.waiting.clear();
            self.keys = Keys::default();
            while let Heard::Bytes(_) = self.keyboard.read(Some(BURST)).await {}
            self.keyboard.flush();
        }
        is_burst
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.renderer.answered()?;
        self.renderer.take_keys(false)?;
        self.keyboard.away(terminal::suspend)?;
        self.renderer.take_keys(true)
    }
}
