//! The conversation in a terminal: read, run, repeat.

mod chips;
mod editor;

use std::path::PathBuf;
use std::sync::Arc;

use agent::agent::compaction::Compacted;
use agent::channel::EventSender;
use agent::steering::Queue;
use agent::{Agent, TurnOutcome, paste, sanitize};
use llm::{ContentBlock, Role};

use self::editor::{Editor, Input};
use crate::app::{Growth, Models, Room};
use crate::commands::{self, Command, Line, Permissions};
use crate::exit::Exit;
use crate::headless::output_failed;
use crate::permits;
use crate::render::style::wrap;
use crate::signals::{Signals, Stop};
use crate::ui::Ui;
use crate::working::{Draft, Pastes};
use crate::{say, terminal};

/// What a conversation needs.
pub(crate) struct Repl {
    /// Who is talked to.
    pub(crate) agent: Agent,
    /// A sender that keeps the screen open between turns.
    pub(crate) events: EventSender,
    /// The screen.
    pub(crate) ui: Ui,
    /// The process's signals.
    pub(crate) signals: Signals,
    /// How much of a request the server takes in.
    pub(crate) room: Room,
    /// How large sessions have become.
    pub(crate) growth: Growth,
    /// Where models come from, for `/model`.
    pub(crate) models: Models,
    /// Where the lines that were typed are kept; nowhere without a data folder.
    pub(crate) history: Option<PathBuf>,
    /// The end of what was said before, for a session that goes on.
    pub(crate) tail: Option<String>,
    /// The lines that are entered while a turn runs, which the agent takes from there.
    pub(crate) queue: Arc<Queue>,
    /// How many pastes the session holds.
    pub(crate) pastes: Pastes,
    /// Lines that were entered and that no model has read when the program had to end.
    pub(crate) unread: Vec<String>,
}

/// Whether the conversation goes on, and what the person reads before the next prompt.
enum Then {
    Say(String),
    /// Say the first; the second was entered already, too late for the turn before.
    Next(String, String),
    Leave(Exit),
}

/// What was typed while a turn ran and no model has read.
#[derive(Debug, Default, PartialEq, Eq)]
struct LeftOver {
    /// Lines for the model that were entered.
    entered: Vec<String>,
    /// The line behind them.
    draft: Draft,
}

impl LeftOver {
    /// What becomes of it after a turn that ended well, or did not: what is done next, and what stands in
    /// the line then. After any other end nothing is done that the person does not enter again.
    fn after(self, is_well: bool) -> (Option<String>, Draft) {
        let Self { entered, draft } = self;
        match (entered.is_empty(), is_well) {
            (false, true) => (Some(entered.join("\n")), draft),
            (true, true) if draft.is_entered => (Some(draft.text), Draft::default()),
            (true, _) => (None, Draft { is_entered: false, ..draft }),
            (false, false) => {
                let lines = entered.into_iter().chain(Some(draft.text));
                let text = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
                (None, Draft { text, is_entered: false })
            }
        }
    }
}

impl Repl {
    /// Talks until the person leaves.
    pub(crate) async fn run(mut self) -> Exit {
        let mut editor = match Editor::start(self.history.take()) {
            Ok(editor) => editor,
            Err(error) => {
                crate::complain(&format!("anvil: the terminal cannot be used: {error}\n"));
                return Exit::Failed;
            }
        };
        self.count_pastes();
        let opening = self.tail.take().unwrap_or_default() + &self.greeting();
        let mut say = fitted(&opening, terminal::width()) + &self.warning().await;
        let (mut turns, mut draft) = (0, Draft::default());
        let exit = loop {
            let input = tokio::select! {
                input = editor.read(say, std::mem::take(&mut draft).text, self.pastes.count()) => input,
                stop = self.signals.stopped() => break Exit::Stopped(stop),
            };
            let mut then = match input {
                Input::Line(line) => self.act(&line, &mut turns, &mut draft).await,
                Input::Cleared => Then::Say(String::new()),
                Input::End => Then::Leave(Exit::Done),
                Input::Gone => Then::Leave(Exit::Stopped(Stop::HungUp)),
                Input::Failed(error) => {
                    crate::complain(&format!("anvil: the terminal cannot be read: {error}\n"));
                    Then::Leave(Exit::Failed)
                }
            };
            while let Then::Next(text, line) = then {
                let mut pastes = self.pastes.count();
                let shown = format!("{text}> {}", paste::chips(&line, &mut pastes));
                then = match say::say(&fitted(&shown, terminal::width())) {
                    Ok(()) => self.act(&line, &mut turns, &mut draft).await,
                    Err(error) => Then::Leave(output_failed(&error)),
                };
            }
            match then {
                Then::Say(text) => say = fitted(&text, terminal::width()),
                Then::Next(..) => unreachable!("it was done above"),
                Then::Leave(exit) => break exit,
            }
        };
        // Only a turn leaves such lines, and during one nobody reads from the editor.
        let unread = std::mem::take(&mut self.unread);
        if !unread.is_empty() {
            editor.remember(unread).await;
        }
        self.leave(exit).await
    }

    /// Numbers the next paste after those of the dialogue.
    fn count_pastes(&self) {
        let texts = self.agent.transcript().iter().filter(|message| message.role() == Role::User);
        let texts = texts.flat_map(|message| message.content());
        let count = |block: &ContentBlock| match block {
            ContentBlock::Text { text, .. } => paste::count(text),
            _ => 0,
        };
        self.pastes.set(texts.map(count).sum());
    }

    fn greeting(&self) -> String {
        format!(
            "anvil {} · {} · /help lists the commands\n",
            env!("CARGO_PKG_VERSION"),
            self.agent.model().label
        )
    }

    /// Does what was entered; what is typed meanwhile and is not for the model is in `draft` afterwards.
    async fn act(&mut self, line: &str, turns: &mut u64, draft: &mut Draft) -> Then {
        match commands::read(line) {
            Line::Empty => Then::Say(String::new()),
            Line::Wrong(text) => Then::Say(format!("{text}\n")),
            Line::Prompt(text) => self.turn(text, turns, draft).await,
            Line::Command(Command::Help) => Then::Say(commands::help(terminal::width())),
            Line::Command(Command::Exit) => Then::Leave(Exit::Done),
            Line::Command(Command::Clear) => {
                self.agent.clear();
                self.count_pastes();
                Then::Say("The conversation starts anew.\n".to_owned())
            }
            Line::Command(Command::Compact(focus)) => self.compact(focus.as_deref(), draft).await,
            Line::Command(Command::Model(None)) => {
                Then::Say(format!("{}\n", self.agent.model().label))
            }
            Line::Command(Command::Model(Some(name))) => Then::Say(self.switch(&name).await),
            Line::Command(Command::Permissions(what)) => {
                let policy = self.agent.policy_mut();
                Then::Say(match what {
                    Permissions::Show => permits::in_session(policy),
                    Permissions::Forget(number) => permits::forget(policy, number),
                    Permissions::Mode(name) => permits::change_mode(policy, &name),
                })
            }
        }
    }

    async fn turn(&mut self, prompt: String, turns: &mut u64, draft: &mut Draft) -> Then {
        *turns += 1;
        let cancel = self.signals.begin_turn();
        self.pastes.set(self.pastes.count() + paste::count(&prompt));
        let (queue, pastes) = (Arc::clone(&self.queue), self.pastes.clone());
        self.ui.listen(queue, pastes, std::mem::take(draft)).await;
        let result = self.agent.run_turn(vec![ContentBlock::text(prompt)], cancel).await;
        // The screen tells outcome and error; they are in the turn's last event.
        let typed = self.ui.shown(*turns).await;
        let is_well = matches!(result, Ok(TurnOutcome::Done));
        tracing::debug!(outcome = ?result.ok(), "turn over");
        self.go_on(is_well, typed, String::new(), draft).await
    }

    /// What comes after work beside which a person could type: `say`, and what was typed and not read.
    async fn go_on(&mut self, is_well: bool, typed: Draft, say: String, draft: &mut Draft) -> Then {
        self.signals.end_turn();
        let state = self.agent.state();
        let entered = self.queue.left_over(|id| state.was_delivered(id));
        if let Some(stop) = self.signals.stop() {
            self.unread = entered;
            return Then::Leave(Exit::of(TurnOutcome::Cancelled, Some(stop)));
        }
        let (next, rest) = LeftOver { entered, draft: typed }.after(is_well);
        *draft = rest;
        let say = say + &self.warning().await;
        match next {
            Some(line) => Then::Next(say, line),
            None => Then::Say(say),
        }
    }

    async fn compact(&mut self, focus: Option<&str>, draft: &mut Draft) -> Then {
        if !self.agent.transcript().is_empty()
            && let Err(error) = say::say("The model writes a summary; Ctrl-C stops it.\n")
        {
            return Then::Leave(output_failed(&error));
        }
        let cancel = self.signals.begin_turn();
        let (queue, pastes) = (Arc::clone(&self.queue), self.pastes.clone());
        self.ui.listen(queue, pastes, std::mem::take(draft)).await;
        let compacted = self.agent.compact(focus, cancel).await;
        let typed = self.ui.leave().await;
        let is_well = compacted.is_ok();
        let say = match compacted {
            Ok(Compacted { before_tokens, after_tokens }) => format!(
                "The conversation is a summary now: about {before_tokens} → {after_tokens} tokens.\n"
            ),
            Err(error) => format!("{error}\n"),
        };
        self.go_on(is_well, typed, say, draft).await
    }

    async fn switch(&mut self, name: &str) -> String {
        match self.models.switch(name).await {
            Ok(model) => {
                let calls_told = self.agent.switch_model(model.provider, model.model);
                self.room = model.room;
                switched(&self.agent.model().label, calls_told) + &self.warning().await
            }
            Err(error) => format!("{error}\n"),
        }
    }

    /// What has to be known before the next prompt about the server's room and the size of sessions, as
    /// lines.
    async fn warning(&mut self) -> String {
        let room = self.room.warning(self.agent.fixed_bytes()).await;
        let sizes = self.growth.news(self.agent.kept_bytes());
        room.into_iter().chain(sizes).map(|warning| format!("{warning}\n")).collect()
    }

    async fn leave(self, exit: Exit) -> Exit {
        drop((self.agent, self.events));
        match (self.ui.join().await, self.signals.stop()) {
            (Ok(()), _) => exit,
            (Err(_), Some(stop)) => Exit::Stopped(stop),
            (Err(error), None) => output_failed(&error),
        }
    }
}

/// The lines of a text, broken between words where they are wider than the screen.
fn fitted(text: &str, width: usize) -> String {
    let mut fitted = String::new();
    for line in sanitize::visible(text).lines() {
        let line = sanitize::one_line(line);
        fitted.extend(wrap(&line, width).into_iter().map(|piece| piece.into_string() + "\n"));
    }
    fitted
}

/// What the person reads about a switch to the model `label`, which is told so many calls of the one
/// before it in words.
fn switched(label: &str, calls_told: usize) -> String {
    let calls = match calls_told {
        0 => return format!("Now {label}, with the conversation so far.\n"),
        1 => "the last call is told in words".to_owned(),
        _ => format!("the last {calls_told} calls are told in words"),
    };
    format!(
        "Now {label}, with the conversation so far; {calls}, since this model does not go on with \
         calls of another one.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_breaks_between_words() {
        assert_eq!(fitted("there is no model\n", 12), "there is no\nmodel\n");
        assert_eq!(fitted("", 12), "");
    }

    #[test]
    fn what_came_too_late_is_done_after_a_good_end_and_else_stands_in_the_line() {
        let draft = |text: &str, is_entered| Draft { text: text.to_owned(), is_entered };
        let left = |entered: &[&str], draft| LeftOver {
            entered: entered.iter().map(|&line| line.to_owned()).collect(),
            draft,
        };
        let text = |text: &str| Some(text.to_owned());
        let half = || draft("half", false);
        assert_eq!(left(&[], half()).after(true), (None, half()));
        assert_eq!(left(&["a", "b"], half()).after(true), (text("a\nb"), half()));
        assert_eq!(left(&["a", "b"], half()).after(false), (None, draft("a\nb\nhalf", false)));
        assert_eq!(left(&["a"], draft("", false)).after(false), (None, draft("a", false)));
        let exit = || draft("/exit", true);
        assert_eq!(left(&[], exit()).after(true), (text("/exit"), draft("", false)));
        assert_eq!(left(&["a"], exit()).after(true), (text("a"), exit()));
        assert_eq!(left(&[], exit()).after(false), (None, draft("/exit", false)));
    }

    #[test]
    fn a_switch_says_when_calls_are_told_in_words() {
        assert_eq!(switched("p:m", 0), "Now p:m, with the conversation so far.\n");
        let [one, two] = [1, 2].map(|calls| switched("p:m", calls));
        assert!(one.contains("so far; the last call is told in words, since"), "{one}");
        assert!(two.contains("so far; the last 2 calls are told in words, since"), "{two}");
        assert_eq!(one.lines().count(), 1);
    }
}
