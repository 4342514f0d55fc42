//! Asks a person about a call, and takes nothing but a clear yes for a yes.
//!
//! The question is shown by the thread that renders, whole or with its middle collapsed and its length
//! told. Its answer is a line that was typed after the question stood there: keys of before, and what
//! was pasted, enter nothing.

mod dialogue;
mod keep;
mod words;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use agent::permissions::{Effect, KnownTools, Rule, Written};
use agent::{ApprovalDecision, ApprovalRequest, Approver};
use async_trait::async_trait;
use nix::errno::Errno;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::dialogue::Dialogue;
use crate::keyboard::Keyboard;
use crate::render::Render;
use crate::signals::Signals;
use crate::terminal;

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

impl Question {
    /// Waits until nobody wants the answer any more.
    pub(crate) async fn called_off(&self) {
        self.cancel.cancelled().await;
    }
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
    renderer.fit_to(terminal::width());
    let asked = renderer.question(request)?;
    let Ok(keyboard) = Keyboard::for_an_answer() else { return no_answer() };
    renderer.take_keys(true)?;
    let mut dialogue = Dialogue::new(request, keeping, renderer, signals, keyboard);
    dialogue.run(asked).await
}

/// What follows from an end of input: a refusal, unless there is no terminal any more.
fn no_answer() -> io::Result<ApprovalDecision> {
    if terminal::is_gone() { Err(Errno::EIO.into()) } else { Ok(denied(None)) }
}

fn denied(feedback: Option<String>) -> ApprovalDecision {
    ApprovalDecision::Deny { feedback }
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
            repository: "/project/.anvil".into(),
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
