//! The line editor, on a thread of its own: it blocks, and the runtime must not.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use agent::paste;
use agent::sanitize::printable;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, Config, Event, EventHandler, Helper};
use tokio::sync::{mpsc, oneshot};

use super::chips::Chips;
use crate::logs::private_dir;
use crate::{redaction, say, terminal};

const PROMPT: &str = "> ";

/// Most lines that are remembered.
const MAX_HISTORY: usize = 2000;

/// The longest line that is remembered, in bytes: all of them are read at each start.
const MAX_REMEMBERED: usize = 16 << 10;

/// What the person did at the prompt.
#[derive(Debug)]
pub(crate) enum Input {
    /// Entered this; what was pasted and is long stands between marks.
    Line(String),
    /// Cleared the line with Ctrl-C.
    Cleared,
    /// Ended the input with Ctrl-D.
    End,
    /// Closed the terminal.
    Gone,
    /// The terminal failed.
    Failed(String),
}

/// What is wanted of the thread.
enum Request {
    /// A line.
    Read {
        /// What is said before the prompt.
        say: String,
        /// What stands in the line already, pastes between their marks.
        draft: String,
        /// How many pastes the session holds.
        pastes: usize,
        reply: oneshot::Sender<Input>,
    },
    /// That lines are remembered which were not entered here.
    Remember { lines: Vec<String>, done: oneshot::Sender<()> },
}

/// The thread as others see it. It ends when this is dropped, after a line it waits for.
pub(crate) struct Editor {
    requests: mpsc::Sender<Request>,
}

impl Editor {
    /// Starts the thread. `history` is the file in which lines are kept.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(history: Option<PathBuf>) -> io::Result<Self> {
        let (requests, mut inbox) = mpsc::channel::<Request>(1);
        std::thread::Builder::new().name("editor".into()).spawn(move || {
            terminal::take_suspension();
            let mut lines = Lines::open(history);
            while let Some(request) = inbox.blocking_recv() {
                let is_wanted = match request {
                    Request::Read { say, draft, pastes, reply } => {
                        reply.send(lines.read(&say, &draft, pastes)).is_ok()
                    }
                    Request::Remember { lines: entered, done } => {
                        entered.iter().for_each(|line| lines.remember(&paste::expand(line)));
                        done.send(()).is_ok()
                    }
                };
                if !is_wanted {
                    // The program is ending.
                    return;
                }
            }
        })?;
        Ok(Self { requests })
    }

    /// Says something and reads the next line, in which `draft` stands already.
    /// `pastes` is how many pastes the session holds.
    pub(crate) async fn read(&mut self, say: String, draft: String, pastes: usize) -> Input {
        let (reply, answer) = oneshot::channel();
        if self.requests.send(Request::Read { say, draft, pastes, reply }).await.is_err() {
            return Input::Failed("the editor thread ended".to_owned());
        }
        answer.await.unwrap_or_else(|_| Input::Failed("the editor thread panicked".to_owned()))
    }

    /// Puts lines into the history that were entered elsewhere. Only while no line is being read.
    pub(crate) async fn remember(&mut self, lines: Vec<String>) {
        let (done, answer) = oneshot::channel();
        if self.requests.send(Request::Remember { lines, done }).await.is_err()
            || answer.await.is_err()
        {
            tracing::debug!("the editor thread ended before it remembered the last lines");
        }
    }
}

type LineEditor = rustyline::Editor<Harmless, FileHistory>;

/// Keeps from the terminal what a pasted text or a line of the history would do to it. The editor
/// takes such characters to be without a width, so they are left out and not made visible.
struct Harmless;

impl Helper for Harmless {}
impl Completer for Harmless {
    type Candidate = String;
}
impl Hinter for Harmless {
    type Hint = String;
}
impl Validator for Harmless {}
impl Highlighter for Harmless {
    fn highlight<'l>(&self, line: &'l str, _pos: usize) -> Cow<'l, str> {
        printable(line).into_cow()
    }
}

struct Lines {
    editor: rustyline::Result<LineEditor>,
    chips: Chips,
    history: Option<PathBuf>,
}

impl Lines {
    fn open(history: Option<PathBuf>) -> Self {
        let chips = Chips::default();
        let mut lines = Self { editor: editor(chips.clone()), chips, history };
        if let (Ok(editor), Some(file)) = (&mut lines.editor, &lines.history)
            && file.exists()
            && let Err(error) = editor.load_history(file)
        {
            tracing::warn!(%error, file = %file.display(), "the history cannot be read");
        }
        lines
    }

    fn read(&mut self, say: &str, draft: &str, pastes: usize) -> Input {
        if let Err(error) = say::say(say) {
            return Input::Failed(error.to_string());
        }
        let editor = match &mut self.editor {
            Ok(editor) => editor,
            Err(error) => return Input::Failed(error.to_string()),
        };
        let draft = self.chips.begin(draft, pastes);
        match editor.readline_with_initial(PROMPT, (&draft, "")) {
            Ok(line) => {
                let said = self.chips.said(&line);
                // A chip would mean nothing to a later line.
                self.remember(&paste::expand(&said));
                Input::Line(said)
            }
            // A terminal that was taken away may look like an end of input.
            Err(_) if terminal::is_gone() => Input::Gone,
            Err(ReadlineError::Interrupted) => Input::Cleared,
            Err(ReadlineError::Eof) => Input::End,
            Err(error) => Input::Failed(error.to_string()),
        }
    }

    fn remember(&mut self, line: &str) {
        let (Ok(editor), Some(file)) = (&mut self.editor, &self.history) else { return };
        if line.trim().is_empty() || line.len() > MAX_REMEMBERED {
            return;
        }
        if let Err(error) = keep(editor, &redaction::clean(line), file) {
            tracing::warn!(%error, file = %file.display(), "the history cannot be written");
        }
    }
}

fn editor(chips: Chips) -> rustyline::Result<LineEditor> {
    let config = Config::builder()
        .max_history_size(MAX_HISTORY)?
        .history_ignore_dups(true)?
        .auto_add_history(false)
        .bracketed_paste(true)
        // Not for colours: without them the editor writes lines as they are.
        .color_mode(ColorMode::Forced)
        .build();
    let mut editor = LineEditor::with_config(config)?;
    editor.set_helper(Some(Harmless));
    editor.bind_sequence(Event::Any, EventHandler::Conditional(Box::new(chips)));
    Ok(editor)
}

fn keep(editor: &mut LineEditor, line: &str, file: &Path) -> rustyline::Result<()> {
    if !editor.add_history_entry(line)? {
        return Ok(());
    }
    if let Some(dir) = file.parent() {
        private_dir(dir)?;
    }
    // The editor creates the file for its user alone.
    editor.append_history(file)
}
