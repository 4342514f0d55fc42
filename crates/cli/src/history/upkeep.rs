//! Files of sessions looked through, mended and deleted.

use std::time::{Duration, SystemTime};

use agent::session::journal::{Journal, JournalError, LoadError, load, remove};
use agent::session::record::LineError;
use agent::session::store::Entry;

use super::{line, one_line};
use crate::app::StartError;
use crate::redaction;

/// Looks every file through, mends a torn end, and says what else is wrong.
///
/// # Errors
/// When one is not whole; the others are looked through all the same.
pub(super) fn fsck(entries: &[Entry]) -> Result<String, StartError> {
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

/// Lists the sessions that nobody wrote for longer than `older_than`, and deletes them with `yes`.
///
/// # Errors
/// When one could not be deleted; the others are.
pub(super) fn prune(
    entries: &[Entry],
    older_than: Duration,
    yes: bool,
) -> Result<String, StartError> {
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
