//! A record as a line of its file: read, refused with the reason, written.

use serde::{Deserialize, Serialize};

use super::Record;
use crate::truncate;

/// The version of the format that is written. Lower ones are read, higher ones refused.
pub const VERSION: u32 = 1;

/// The names of all records, as they stand in `type`.
const KNOWN: [&str; 13] = [
    "session_started",
    "system_stamped",
    "message_appended",
    "message_extended",
    "results_appended",
    "context_replaced",
    "model_changed",
    "todos_changed",
    "tool_started",
    "tool_finished",
    "usage",
    "turn_finished",
    "checkpoint_recorded",
];

/// A line as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Its number, from 0.
    pub seq: u64,
    /// When it was written, in milliseconds since 1970 (UTC).
    pub ts: u64,
    /// What happened; nothing for a type that a later version added and that can be left out.
    pub record: Option<Record>,
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is not a record.
    #[error("it is not a record: {}", shortened(.0))]
    NotARecord(#[from] serde_json::Error),
    /// A later program wrote it.
    #[error(
        "it has version {0} of the format, and this program reads up to {VERSION}: use a newer anvil"
    )]
    Version(u32),
    /// A later program wrote it, and nothing can be made of the session without it.
    #[error(
        "it is a '{0}' record, which this version does not know and cannot leave out: use a newer anvil"
    )]
    UnknownType(String),
}

/// The longest text of a fault that is told, in characters.
const MAX_FAULT: usize = 200;

/// What is wrong with JSON, also where the reader repeats what it found.
fn shortened(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match truncate::head(&text, MAX_FAULT) {
        head if head.len() < text.len() => format!("{head}…"),
        _ => text,
    }
}

/// What is read of a line before it is known what it is.
#[derive(Deserialize)]
struct Head<'a> {
    v: u32,
    seq: u64,
    #[serde(default)]
    ts: u64,
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(default)]
    critical: bool,
}

/// A line as it is written.
#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    seq: u64,
    ts: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    critical: bool,
    #[serde(flatten)]
    record: &'a Record,
}

/// Reads one line, without its line feed.
///
/// # Errors
/// What is wrong with it.
pub fn read(line: &[u8]) -> Result<Envelope, LineError> {
    let head: Head<'_> = parse(line)?;
    if head.v > VERSION {
        return Err(LineError::Version(head.v));
    }
    let record = if KNOWN.contains(&&*head.kind) {
        Some(parse(line)?)
    } else if head.critical {
        return Err(LineError::UnknownType(head.kind.into_owned()));
    } else {
        None
    };
    Ok(Envelope { seq: head.seq, ts: head.ts, record })
}

/// The deepest nesting that is read without a question.
const USUAL: usize = 127;

/// The deepest nesting that is read at all: whatever was taken from a model or a server, none of which is
/// deeper than usual, with what a record puts around it.
const DEEPEST: usize = USUAL + 32;

/// Reads what was written, also where it is nested deeper than what may come from outside.
///
/// # Errors
/// When it is no JSON, not what is wanted, or nested without reason.
pub(crate) fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, serde_json::Error> {
    match serde_json::from_slice(line) {
        Err(error) if error.is_syntax() && (USUAL..=DEEPEST).contains(&nesting(line)) => {
            let mut reader = serde_json::Deserializer::from_slice(line);
            reader.disable_recursion_limit();
            let value = T::deserialize(&mut reader)?;
            reader.end()?;
            Ok(value)
        }
        read => read,
    }
}

/// How deep arrays and objects stand in each other.
fn nesting(line: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in line {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Appends the line of a record to `out`, with its line feed.
///
/// # Errors
/// When something in the record has no JSON form, which is nothing that this program makes.
pub fn write(
    out: &mut Vec<u8>,
    seq: u64,
    ts: u64,
    record: &Record,
) -> Result<(), serde_json::Error> {
    let critical = record.is_critical();
    serde_json::to_writer(&mut *out, &Line { v: VERSION, seq, ts, critical, record })?;
    out.push(b'\n');
    Ok(())
}
