//! `anvil sessions` and `anvil replay`: what was said, what it cost, and whether a file is whole.

mod said;
mod transcript;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use agent::sanitize;
use agent::session::journal::{Journal, JournalError, LoadError, load, load_each};
use agent::session::record::LineError;
use agent::session::reduce::State;
use agent::session::store::{Entry, Store};
use agent::{expand, paste};
use llm::Message;
use serde_json::{Value, json};

use crate::app::StartError;
use crate::args::{ExportFormat, OutputFormat, SessionsAction};
use crate::render::style::fit;
use crate::{redaction, terminal};
use said::Said;
pub(crate) use transcript::Pasted;

/// The largest file that is read for its cost in a list, in bytes.
const READ_FOR_COST: u64 = 8 << 20;

/// The most sessions in a list that is read by a person.
const LISTED: usize = 20;

/// The most lines of a session that are shown before it goes on.
const TAIL: usize = 12;

/// The most characters of a first prompt in a list.
const EXCERPT: usize = 60;

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
            let entries = store.list(cwd).map_err(wrong)?;
            Ok(list(&entries, cwd, format))
        }
        Some(SessionsAction::Show { id, expand }) => {
            let entry = store.find(cwd, id).map_err(usage)?;
            let (said, state) = whole(&entry)?;
            if format != OutputFormat::Text {
                return Ok(export(&state, Pasted::expanded(*expand)));
            }
            let text = transcript::text(&said.parts, &state, Pasted::expanded(*expand));
            Ok(facts(&entry, &state) + "\n" + &clean(&text))
        }
        Some(SessionsAction::Export { id, format, expand }) => {
            let entry = store.find(cwd, id).map_err(usage)?;
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
                (Some(id), _) => vec![store.find(cwd, id).map_err(usage)?],
                (None, true) => store.list_all().map_err(wrong)?,
                (None, false) => store.list(cwd).map_err(wrong)?,
            };
            fsck(&entries)
        }
        Some(SessionsAction::Prune { older_than, yes }) => {
            let entries = store.list_all().map_err(wrong)?;
            prune(&entries, *older_than, *yes)
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
    let entry = store.find(cwd, id).map_err(usage)?;
    let (said, state) = whole(&entry)?;
    match format {
        OutputFormat::Text => Ok(clean(&transcript::text(&said.parts, &state, pasted))),
        OutputFormat::Json | OutputFormat::StreamJson => Ok(export(&state, pasted)),
    }
}

/// All that was said in a session, and what it amounts to.
fn whole(entry: &Entry) -> Result<(Said, State), StartError> {
    let mut said = Said::default();
    let loaded = load_each(&entry.path, |record| said.take(record)).map_err(wrong)?;
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

fn usage(error: impl std::fmt::Display) -> StartError {
    StartError::Usage(error.to_string())
}

fn wrong(error: impl std::fmt::Display) -> StartError {
    StartError::Session(error.to_string())
}

/// Without secrets, and without what would do something to a terminal.
fn clean(text: &str) -> String {
    sanitize::visible(&redaction::clean(text)).into_string()
}

fn one_line(text: &str) -> String {
    sanitize::one_line(&sanitize::visible(&redaction::clean(text))).into_string()
}

fn list(entries: &[Entry], cwd: &Path, format: OutputFormat) -> String {
    if format != OutputFormat::Text {
        let all: Vec<Value> = entries.iter().map(object).collect();
        let document = json!({ "cwd": cwd.to_string_lossy(), "sessions": all });
        return sanitize::json(&format!("{document}\n")).into_string();
    }
    if entries.is_empty() {
        return format!("No session was kept in {} yet.\n", one_line(&cwd.to_string_lossy()));
    }
    let columns = terminal::columns().unwrap_or(usize::MAX);
    let mut text = String::new();
    for entry in entries.iter().take(LISTED) {
        let short = short(&entry.id);
        let cost = cost(entry).map_or_else(|| "n/a".to_owned(), |cost| format!("${cost:.4}"));
        let model = one_line(entry.model.as_deref().unwrap_or("n/a"));
        let prompt = match &entry.first_prompt {
            // Of a long paste the beginning is known, and not its end.
            Some(prompt) => {
                let prompt = paste::chips(prompt, &mut 0).replace(paste::MARK, "");
                one_line(&prompt.chars().take(EXCERPT).collect::<String>())
            }
            None => "(nothing was asked, or it cannot be read)".to_owned(),
        };
        let row = format!("{short}  {:>8}  {cost:>9}  {model}  {prompt}", age(entry.modified));
        line(&mut text, &fit(&sanitize::one_line(&row), columns));
    }
    if entries.len() > LISTED {
        line(
            &mut text,
            &format!("and {} more: --output-format json lists all", entries.len() - LISTED),
        );
    }
    line(
        &mut text,
        "\nGo on with one: anvil -r ID (its beginning is enough), or with the last: anvil -c",
    );
    text
}

/// The beginning of an id, which is enough to name a session.
fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

fn object(entry: &Entry) -> Value {
    let seconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    };
    json!({
        "id": entry.id,
        "first_prompt": entry.first_prompt.as_deref().map(first_prompt),
        "model": entry.model,
        "modified": seconds(entry.modified),
        "size": entry.size,
        "cost_usd": cost(entry),
        // Not every path is a text; the id finds the session all the same.
        "path": entry.path.to_string_lossy(),
    })
}

fn first_prompt(kept: &str) -> String {
    redaction::clean(&kept.replace(paste::MARK, "")).into_owned()
}

fn cost(entry: &Entry) -> Option<f64> {
    if entry.size > READ_FOR_COST {
        return None;
    }
    load(&entry.path).ok()?.state.cost_usd()
}

/// How long ago, in one unit. A time that has not come yet is now.
fn age(modified: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(modified).unwrap_or_default().as_secs();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
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
    let cost = state.cost_usd().map_or_else(|| "n/a".to_owned(), |cost| format!("${cost:.4}"));
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
        Pasted::Whole => state.messages().iter().map(|message| sent(message)).collect(),
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

/// A message as a model reads it.
fn sent(message: &Message) -> Cow<'_, Message> {
    Cow::Owned(expand::without_marks(message))
}

/// Looks every file through, mends a torn end, and says what else is wrong.
fn fsck(entries: &[Entry]) -> Result<String, StartError> {
    let (mut text, mut damaged) = (String::new(), 0);
    for entry in entries {
        let told = examined(entry).unwrap_or_else(|error| {
            damaged += 1;
            format!("NOT WHOLE, left as it is: {error}{}", rescue(&error))
        });
        line(&mut text, &format!("{}  {}", entry.id, one_line(&told)));
    }
    match damaged {
        0 if entries.is_empty() => Ok("There is no session to look at.\n".to_owned()),
        0 => Ok(text),
        _ => Err(StartError::Session(format!(
            "{damaged} of {} sessions are not whole\n{}",
            entries.len(),
            text.trim_end()
        ))),
    }
}

/// What a person can do about damage: only where lines before it are worth keeping.
fn rescue(error: &JournalError) -> &'static str {
    match error {
        JournalError::Load(
            LoadError::Line { error: LineError::NotARecord(_), .. }
            | LoadError::Sequence { .. }
            | LoadError::Record { .. },
        ) => ". The lines before can be kept by hand: copy the file and cut it there",
        JournalError::Load(_)
        | JournalError::Io { .. }
        | JournalError::InUse { .. }
        | JournalError::Removed { .. } => "",
    }
}

/// What there is to say about a file that is whole now.
fn examined(entry: &Entry) -> Result<String, JournalError> {
    let loaded = match Journal::open(&entry.path, redaction::current()) {
        Ok((_, loaded)) => loaded,
        // Whoever writes it is in the middle of its last line, and mends what is torn by itself.
        Err(JournalError::InUse { .. }) => {
            let records = load(&entry.path)?.records;
            return Ok(format!("whole so far, {records} records; in use by another anvil"));
        }
        // It is not to be written, which says nothing about what is in it.
        Err(error @ JournalError::Io { .. }) => {
            let loaded = load(&entry.path)?;
            return match loaded.torn {
                None => Ok(format!("whole, {} records", loaded.records)),
                Some(_) => Err(error),
            };
        }
        Err(error) => return Err(error),
    };
    Ok(match loaded.torn {
        None => format!("whole, {} records", loaded.records),
        Some(torn) => format!(
            "mended: line {} was never finished; it is kept in {}",
            torn.line,
            torn.kept.display()
        ),
    })
}

fn prune(entries: &[Entry], older_than: Duration, yes: bool) -> Result<String, StartError> {
    let now = SystemTime::now();
    let is_old =
        |entry: &&Entry| now.duration_since(entry.modified).is_ok_and(|age| age > older_than);
    let (mut text, mut count, mut bytes, mut failed) = (String::new(), 0, 0, 0);
    for entry in entries.iter().filter(is_old) {
        let path = one_line(&entry.path.to_string_lossy());
        if yes {
            // Whoever writes it keeps it.
            match Journal::open(&entry.path, redaction::current()) {
                Err(JournalError::InUse { .. }) => {
                    line(&mut text, &format!("kept, in use: {path}"));
                    continue;
                }
                _ => {
                    if let Err(error) = remove(&entry.path) {
                        failed += 1;
                        line(&mut text, &format!("NOT deleted: {path}: {error}"));
                        continue;
                    }
                }
            }
        }
        (count, bytes) = (count + 1, bytes + entry.size);
        line(&mut text, &format!("{} {path}", if yes { "deleted" } else { "would delete" }));
    }
    let way = if yes || count == 0 { "" } else { "; --yes deletes them" };
    line(&mut text, &format!("{count} sessions, {bytes} bytes{way}"));
    match failed {
        0 => Ok(text),
        _ => Err(StartError::Session(format!(
            "{failed} sessions could not be deleted\n{}",
            text.trim_end()
        ))),
    }
}

/// Removes a session's file, and the torn end that was kept beside it.
fn remove(path: &Path) -> io::Result<()> {
    let mut torn = path.to_owned().into_os_string();
    torn.push(".torn");
    for path in [path.as_os_str(), &torn] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn line(text: &mut String, says: &str) {
    writeln!(text, "{}", says.trim_end()).expect("a text takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_never_negative() {
        let ago = |seconds| age(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!(
            [ago(0), ago(120), ago(7_300), ago(200_000)],
            ["just now", "2 min", "2 h", "2 days"]
        );
        assert_eq!(age(SystemTime::now() + Duration::from_secs(9_999)), "just now");
    }
}
