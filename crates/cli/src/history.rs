//! `anvil sessions` and `anvil replay`: what was said, what it cost, and whether a file is whole.

mod list;
mod said;
mod transcript;
mod upkeep;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use agent::expand;
use agent::sanitize;
use agent::session::journal::load_each;
use agent::session::reduce::State;
use agent::session::store::{Entry, Store};
use llm::Message;
use serde_json::json;

use crate::app::StartError;
use crate::args::{ExportFormat, OutputFormat, SessionsAction};
use crate::redaction;
use said::Said;
pub(crate) use transcript::Pasted;

/// The most lines of a session that are shown before it goes on.
const TAIL: usize = 12;

/// What `anvil sessions` has to say about the sessions of `cwd`.
///
/// # Errors
/// When a session is not there, damaged, or cannot be read or written.
pub(crate) fn sessions(
    action: Option<&SessionsAction>,
    store: &Store,
    cwd: &Path,
    format: OutputFormat,
) -> Result<String, StartError> {
    match action {
        None => {
            let entries = store.list(cwd).map_err(StartError::session)?;
            Ok(list::list(&entries, cwd, format))
        }
        Some(SessionsAction::Show { id, expand }) => {
            let entry = store.find(cwd, id).map_err(StartError::usage)?;
            let (said, state) = whole(&entry)?;
            if format != OutputFormat::Text {
                return Ok(export(&state, Pasted::expanded(*expand)));
            }
            let text = transcript::text(&said.parts, &state, Pasted::expanded(*expand));
            Ok(facts(&entry, &state) + "\n" + &clean(&text))
        }
        Some(SessionsAction::Export { id, format, expand }) => {
            let entry = store.find(cwd, id).map_err(StartError::usage)?;
            let (said, state) = whole(&entry)?;
            match format {
                ExportFormat::Markdown => {
                    let text = transcript::markdown(&said.parts, &state);
                    Ok(redaction::clean(&text).into_owned())
                }
                ExportFormat::Json => Ok(export(&state, Pasted::expanded(*expand))),
            }
        }
        Some(SessionsAction::Fsck { id, all }) => {
            let entries = match (id, all) {
                (Some(id), _) => vec![store.find(cwd, id).map_err(StartError::usage)?],
                (None, true) => store.list_all().map_err(StartError::session)?,
                (None, false) => store.list(cwd).map_err(StartError::session)?,
            };
            upkeep::fsck(&entries)
        }
        Some(SessionsAction::Prune { older_than, yes }) => {
            let entries = store.list_all().map_err(StartError::session)?;
            upkeep::prune(&entries, *older_than, *yes)
        }
    }
}

/// What `anvil replay` prints.
///
/// # Errors
/// When there is no such session, or it cannot be read.
pub(crate) fn replay(
    id: &str,
    pasted: Pasted,
    store: &Store,
    cwd: &Path,
    format: OutputFormat,
) -> Result<String, StartError> {
    let entry = store.find(cwd, id).map_err(StartError::usage)?;
    let (said, state) = whole(&entry)?;
    match format {
        OutputFormat::Text => Ok(clean(&transcript::text(&said.parts, &state, pasted))),
        OutputFormat::Json | OutputFormat::StreamJson => Ok(export(&state, pasted)),
    }
}

/// All that was said in a session, and what it amounts to.
fn whole(entry: &Entry) -> Result<(Said, State), StartError> {
    let mut said = Said::default();
    let loaded = load_each(&entry.path, |record| said.take(record)).map_err(StartError::session)?;
    Ok((said, loaded.state))
}

/// The end of what was said in a session that goes on; nothing of one that begins.
pub(crate) fn tail(state: &State) -> Option<String> {
    let said = Said::in_context(state);
    let text = clean(&transcript::text(&said.parts, state, Pasted::Chips));
    let lines: Vec<&str> = text.trim_end().lines().collect();
    if lines.is_empty() {
        return None;
    }
    let more = match lines.len().saturating_sub(TAIL) {
        0 => String::new(),
        more => format!(
            "({more} lines before: `anvil replay {}` shows them)\n",
            short(&state.meta()?.id)
        ),
    };
    Some(format!("{more}{}\n\n", lines[lines.len().saturating_sub(TAIL)..].join("\n")))
}

/// Without secrets, and without what would do something to a terminal.
fn clean(text: &str) -> String {
    sanitize::visible(&redaction::clean(text)).into_string()
}

fn one_line(text: &str) -> String {
    sanitize::one_line(&sanitize::visible(&redaction::clean(text))).into_string()
}

fn facts(entry: &Entry, state: &State) -> String {
    let mut text = String::new();
    let meta = state.meta().cloned().unwrap_or_default();
    line(&mut text, &format!("session  {}", entry.id));
    line(
        &mut text,
        &format!("file     {} ({} bytes)", one_line(&entry.path.to_string_lossy()), entry.size),
    );
    line(&mut text, &format!("folder   {}", one_line(&meta.cwd.to_string_lossy())));
    line(&mut text, &format!("model    {}", one_line(state.model().unwrap_or("n/a"))));
    let cost = dollars(state.cost_usd());
    line(
        &mut text,
        &format!("so far   {} turns, {} messages, {cost}", state.turns(), state.messages().len()),
    );
    if let Some(fork) = meta.forked_from {
        line(&mut text, &format!("copy of  {} up to record {}", one_line(&fork.id), fork.seq));
    }
    text
}

/// The whole session as one document.
fn export(state: &State, pasted: Pasted) -> String {
    let messages: Vec<Cow<'_, Message>> = match pasted {
        Pasted::Chips => state.messages().iter().map(|message| Cow::Borrowed(&**message)).collect(),
        Pasted::Whole => state
            .messages()
            .iter()
            .map(|message| Cow::Owned(expand::without_marks(message)))
            .collect(),
    };
    let document = json!({
        "schema_version": 1,
        "session": state.meta(),
        "model": state.model(),
        "system": state.system(),
        "messages": messages,
        "todos": state.todos(),
        "turns": state.turns(),
        "cost_usd": state.cost_usd(),
    });
    sanitize::json(&format!("{document:#}\n")).into_string()
}

/// The beginning of an id, which is enough to name a session.
fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

/// An amount in US dollars, as far as it is known.
fn dollars(amount: Option<f64>) -> String {
    amount.map_or_else(|| "n/a".to_owned(), |amount| format!("${amount:.4}"))
}

fn line(text: &mut String, says: &str) {
    writeln!(text, "{}", says.trim_end()).expect("a text takes everything");
}
