//! Asks a person about a call, and takes nothing but a clear yes for a yes.
//!
//! The question is shown by the thread that renders, whole or with its middle collapsed and its length
//! told. Its answer is a line that was typed after the question stood there: keys of before, and what
//! was pasted, enter nothing.

mod input;
mod keep;
mod keys;
mod line;
mod words;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use agent::permissions::{Effect, KnownTools, Rule, Written};
use agent::{ApprovalDecision, ApprovalRequest, Approver, Scope};
use async_trait::async_trait;
use nix::errno::Errno;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::input::{BURST, Heard, Keyboard, Settled};
use self::keep::keep;
use self::keys::{Key, Keys};
use self::line::Line;
use self::words::{Answer, answer as answer_of, chosen, first, scope as scope_of};
use crate::render::{Asked, Render};
use crate::signals::{Signals, Stop};
use crate::terminal;

const INSTEAD: &str = "What should be done instead? (Enter: nothing) ";

/// What is said of a line that came with more behind it, faster than anybody types.
const TOO_FAST: &str = "That came all at once and was not taken for an answer.";

/// What an answer may do beyond this one call.
pub(crate) struct Keeping {
    /// The user's own file; nowhere without a home folder.
    pub(crate) user_file: Option<PathBuf>,
    /// The folder of the repository's file, in which nothing is kept.
    pub(crate) repository: PathBuf,
    /// The tools there are, against which a rule is read.
    pub(crate) tools: KnownTools<'static>,
}

impl Keeping {
    /// Says what is wrong with a rule, as for one in a file.
    fn check(&self, rule: &str) -> Result<(), String> {
        let written = Written { text: rule.to_owned(), ..Written::default() };
        match Rule::new(Effect::Allow, written, self.tools) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("column {}: {error}", rule[..error.at].chars().count() + 1)),
        }
    }
}

/// A question on its way to whoever owns the terminal.
pub(crate) struct Question {
    request: ApprovalRequest,
    reply: oneshot::Sender<ApprovalDecision>,
    cancel: CancellationToken,
    keeping: Arc<Keeping>,
}

/// Asks through the thread that renders, so that a question never mixes with other output.
pub(crate) struct Interactive {
    questions: mpsc::Sender<Question>,
    keeping: Arc<Keeping>,
}

impl Interactive {
    /// An approver, and where its questions arrive.
    pub(crate) fn new(keeping: Keeping) -> (Self, mpsc::Receiver<Question>) {
        let (questions, inbox) = mpsc::channel(1);
        (Self { questions, keeping: Arc::new(keeping) }, inbox)
    }
}

#[async_trait]
impl Approver for Interactive {
    async fn approve(
        &self,
        request: ApprovalRequest,
        cancel: &CancellationToken,
    ) -> ApprovalDecision {
        let (reply, answer) = oneshot::channel();
        let keeping = Arc::clone(&self.keeping);
        let question = Question { request, reply, cancel: cancel.clone(), keeping };
        let asked = async {
            self.questions.send(question).await.ok()?;
            answer.await.ok()
        };
        // A terminal that is gone and a turn that was cancelled have not agreed.
        tokio::select! {
            biased;
            () = cancel.cancelled() => denied(None),
            decision = asked => decision.unwrap_or_else(|| denied(None)),
        }
    }
}

/// Shows the question and waits for its answer.
///
/// # Errors
/// When the terminal failed; the turn is cancelled then, before the call is refused.
pub(crate) async fn answer(
    question: Question,
    renderer: &mut dyn Render,
    signals: &Signals,
) -> io::Result<()> {
    let Question { request, reply, cancel, keeping } = question;
    let decision = tokio::select! {
        biased;
        () = cancel.cancelled() => Ok(denied(None)),
        decision = ask(&request, &keeping, renderer, signals) => decision,
    };
    // Also after a question that was called off in the middle of a line.
    let decision = renderer.take_keys(false).and(decision);
    match decision {
        // Nobody waits for the answer of a cancelled question.
        Ok(decision) => reply.send(decision).or(Ok(())),
        Err(error) => {
            // First, so that the model is not asked what to do about a refusal that nobody made.
            signals.raise(terminal::stop_for(&error));
            drop(reply);
            Err(error)
        }
    }
}

async fn ask(
    request: &ApprovalRequest,
    keeping: &Keeping,
    renderer: &mut dyn Render,
    signals: &Signals,
) -> io::Result<ApprovalDecision> {
    let asked = renderer.question(request)?;
    let Ok(keyboard) = Keyboard::open() else { return no_answer() };
    let mut dialogue = Dialogue {
        request,
        keeping,
        renderer,
        signals,
        keyboard,
        keys: Keys::default(),
        waiting: VecDeque::new(),
    };
    dialogue.renderer.take_keys(true)?;
    match dialogue.keyboard.settled().await {
        Settled::Quiet => dialogue.run(asked).await,
        Settled::Interrupted => Ok(dialogue.interrupted()),
        Settled::Gone => no_answer(),
    }
}

/// What follows from an end of input: a refusal, unless there is no terminal any more.
fn no_answer() -> io::Result<ApprovalDecision> {
    if terminal::is_gone() { Err(Errno::EIO.into()) } else { Ok(denied(None)) }
}

fn denied(feedback: Option<String>) -> ApprovalDecision {
    ApprovalDecision::Deny { feedback }
}

/// A question that stands on the screen.
struct Dialogue<'a> {
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

impl Dialogue<'_> {
    async fn run(&mut self, asked: Asked) -> io::Result<ApprovalDecision> {
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
            most => format!("Rule (1-{most}, Enter for {}): ", first(proposals) + 1),
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
        let room = self.renderer.columns().saturating_sub(line::width_of(prompt) + 1);
        let (shown, cursor) = line.view(room.max(1));
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use agent::approval::{Binding, Bound};
    use agent::permissions::Because;
    use agent::{Effects, Grants};
    use serde_json::json;

    use super::*;

    fn keeping() -> Keeping {
        Keeping {
            user_file: None,
            repository: "/work/.anvil".into(),
            tools: agent::tools::SUBJECTS,
        }
    }

    #[test]
    fn a_rule_is_read_as_one_in_a_file_is() {
        keeping().check("bash(cargo test:*)").unwrap();
        for (rule, why) in [
            ("bash(*)", "every command"),
            ("bash(cargo test", "')'"),
            ("bush(ls)", "did you mean 'bash'"),
            ("", "empty"),
        ] {
            let fault = keeping().check(rule).unwrap_err();
            assert!(fault.contains(why) && fault.starts_with("column "), "{fault}");
        }
    }

    fn request() -> ApprovalRequest {
        ApprovalRequest {
            call_id: "1".into(),
            tool: "bash".into(),
            args: json!({"command": "ls"}),
            because: Because::of("bash would run a command"),
            grants: Grants::default(),
            preview: None,
            proposals: Vec::new(),
            shown: Binding::of(&Bound {
                call_id: "1",
                tool: "bash",
                args: &json!({}),
                cwd: Path::new("/"),
                effects: &Effects::command(),
                grants: &Grants::default(),
                revision: 0,
                preview: None,
            }),
        }
    }

    #[tokio::test]
    async fn a_terminal_that_is_gone_denies() {
        let (approver, questions) = Interactive::new(keeping());
        drop(questions);
        let decision = approver.approve(request(), &CancellationToken::new()).await;
        assert_eq!(decision, denied(None));
    }

    #[tokio::test]
    async fn a_question_that_is_dropped_unanswered_denies() {
        let (approver, mut questions) = Interactive::new(keeping());
        let cancel = CancellationToken::new();
        let (decision, ()) = tokio::join!(approver.approve(request(), &cancel), async {
            drop(questions.recv().await);
        });
        assert_eq!(decision, denied(None));
    }

    #[tokio::test]
    async fn a_cancelled_question_denies_at_once() {
        let (approver, _questions) = Interactive::new(keeping());
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert_eq!(approver.approve(request(), &cancel).await, denied(None));
    }
}
