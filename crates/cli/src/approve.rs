//! Asks a person about a call, and takes nothing but a clear yes for a yes.

use std::fs::File;
use std::io::{self, IsTerminal as _, PipeReader, Read as _};
use std::os::fd::AsFd as _;

use agent::{ApprovalDecision, ApprovalRequest, Approver};
use async_trait::async_trait;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::render::Render;
use crate::signals::Signals;
use crate::terminal;

const CHOICES: &str = "Allow? [y]es, [a]lways this one, [n]o (or say what to do instead): ";
const INSTEAD: &str = "What should be done instead? (empty: nothing) ";

/// Longest answer that is read.
const MAX_ANSWER: usize = 64 * 1024;

/// A question on its way to whoever owns the terminal.
pub(crate) struct Question {
    request: ApprovalRequest,
    reply: oneshot::Sender<ApprovalDecision>,
    cancel: CancellationToken,
}

/// Asks through the thread that renders, so that a question never mixes with other output.
pub(crate) struct Interactive {
    questions: mpsc::Sender<Question>,
}

impl Interactive {
    /// An approver, and where its questions arrive.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Question>) {
        let (questions, inbox) = mpsc::channel(1);
        (Self { questions }, inbox)
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
        let question = Question { request, reply, cancel: cancel.clone() };
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
    let Question { request, reply, cancel } = question;
    let decision = match renderer.question(&request) {
        Err(error) => Err(error),
        Ok(()) => tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(denied(None)),
            decision = ask(renderer) => decision,
        },
    };
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

async fn ask(renderer: &mut dyn Render) -> io::Result<ApprovalDecision> {
    // Keys that were pressed before the question stood there are no answer to it.
    let Ok(terminal) = Terminal::open() else { return no_answer() };
    loop {
        renderer.prompt(CHOICES)?;
        let Some(line) = terminal.line().await else { return no_answer() };
        renderer.answered();
        match interpret(&line) {
            Answer::Allow => return Ok(ApprovalDecision::Allow),
            Answer::Always => return Ok(ApprovalDecision::AllowForSession),
            Answer::Instead(words) => return Ok(denied(Some(words))),
            Answer::Deny => {
                renderer.prompt(INSTEAD)?;
                let Some(words) = terminal.line().await else { return no_answer() };
                renderer.answered();
                let words = words.trim();
                return Ok(denied((!words.is_empty()).then(|| words.to_owned())));
            }
            Answer::Nothing => {}
        }
    }
}

/// What follows from an end of input: a refusal, unless there is no terminal any more.
fn no_answer() -> io::Result<ApprovalDecision> {
    if terminal::is_gone() { Err(Errno::EIO.into()) } else { Ok(denied(None)) }
}

fn denied(feedback: Option<String>) -> ApprovalDecision {
    ApprovalDecision::Deny { feedback }
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Allow,
    Always,
    Deny,
    /// A no with the person's own words.
    Instead(String),
    /// An empty line: asked again.
    Nothing,
}

/// What a line means. Whatever is not exactly a yes is a no.
fn interpret(line: &str) -> Answer {
    let text = line.trim();
    match text.to_ascii_lowercase().as_str() {
        "" => Answer::Nothing,
        "y" | "yes" => Answer::Allow,
        "a" | "always" => Answer::Always,
        "n" | "no" => Answer::Deny,
        _ => Answer::Instead(without_no(text).to_owned()),
    }
}

/// The words after a leading "n", "no" or "no," of an answer such as `n use rg`.
fn without_no(text: &str) -> &str {
    match text.split_once(|c: char| c.is_whitespace() || c == ',') {
        Some((no, rest)) if ["n", "no"].contains(&no.to_ascii_lowercase().as_str()) => {
            rest.trim_start_matches([' ', ','])
        }
        _ => text,
    }
}

/// Lines from the terminal on standard input, each read on a thread that can be called off.
struct Terminal;

impl Terminal {
    /// Throws away what was typed before.
    fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        tcflush(&stdin, FlushArg::TCIFLUSH)?;
        Ok(Self)
    }

    /// The next line; `None` when the terminal is gone or says that there is none (Ctrl-D).
    async fn line(&self) -> Option<String> {
        let (called_off, alive) = io::pipe().ok()?;
        let line = tokio::task::spawn_blocking(move || read_line(&called_off)).await;
        // Held until here: dropping this future closes it, which wakes the thread.
        drop(alive);
        line.ok()?
    }
}

/// Reads a line, unless `called_off` says before its end that nobody wants it any more.
fn read_line(called_off: &PipeReader) -> Option<String> {
    let stdin = io::stdin();
    // The library's own buffer is left out: it would keep what comes after the line.
    let mut input = File::from(stdin.as_fd().try_clone_to_owned().ok()?);
    let mut line = Vec::new();
    while line.len() < MAX_ANSWER {
        let mut watched = [
            PollFd::new(called_off.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut watched, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(_) => return None,
            Ok(_) if watched[0].any() != Some(false) => return None,
            Ok(_) => {}
        }
        let mut piece = [0; 4096];
        let read = input.read(&mut piece).ok().filter(|read| *read > 0)?;
        line.extend_from_slice(&piece[..read]);
        if line.ends_with(b"\n") {
            return Some(String::from_utf8_lossy(&line).into_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> ApprovalRequest {
        ApprovalRequest {
            call_id: "1".into(),
            tool: "bash".into(),
            args: json!({"command": "ls"}),
            reason: "bash would run a command".into(),
            preview: None,
        }
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        assert_eq!(interpret("y\n"), Answer::Allow);
        assert_eq!(interpret(" YES "), Answer::Allow);
        assert_eq!(interpret("a"), Answer::Always);
        assert_eq!(interpret("n"), Answer::Deny);
        assert_eq!(interpret("\n"), Answer::Nothing);
        for words in ["yep", "y?", "sure", "allow", "ya", "yn"] {
            assert_eq!(interpret(words), Answer::Instead(words.into()));
        }
    }

    #[test]
    fn a_no_keeps_the_words_that_follow_it() {
        assert_eq!(interpret("n use rg"), Answer::Instead("use rg".into()));
        assert_eq!(interpret("no, use rg"), Answer::Instead("use rg".into()));
        assert_eq!(interpret("use rg"), Answer::Instead("use rg".into()));
        assert_eq!(interpret("not now"), Answer::Instead("not now".into()));
    }

    #[tokio::test]
    async fn a_terminal_that_is_gone_denies() {
        let (approver, questions) = Interactive::new();
        drop(questions);
        let decision = approver.approve(request(), &CancellationToken::new()).await;
        assert_eq!(decision, denied(None));
    }

    #[tokio::test]
    async fn a_question_that_is_dropped_unanswered_denies() {
        let (approver, mut questions) = Interactive::new();
        let cancel = CancellationToken::new();
        let (decision, ()) = tokio::join!(approver.approve(request(), &cancel), async {
            drop(questions.recv().await);
        });
        assert_eq!(decision, denied(None));
    }

    #[tokio::test]
    async fn a_cancelled_question_denies_at_once() {
        let (approver, _questions) = Interactive::new();
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert_eq!(approver.approve(request(), &cancel).await, denied(None));
    }
}
