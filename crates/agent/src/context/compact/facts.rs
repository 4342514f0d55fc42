//! What is known of a dialogue from our own records of it: what is to be done, which files were changed,
//! which calls were made last.

use std::collections::HashSet;

use llm::{ContentBlock, ToolCallRef};
use serde_json::Value;

use super::super::budget::{tokens_of_block, tokens_of_text};
use super::super::clear::subject;
use super::{Dialogue, shares, step, within};
use crate::sanitize::one_line;
use crate::session::record::StandIn;

/// The most files that are remembered.
const FILES: usize = 40;

/// The most calls that are listed.
const CALLS: usize = 10;

/// The fewest tokens that are worth a block of facts.
const LEAST: u64 = 24;

/// Files that were changed, in the dialogue or before it, the last one first.
pub(super) fn files(dialogue: &Dialogue<'_>) -> Vec<String> {
    let failed: HashSet<&str> = dialogue
        .messages
        .iter()
        .flat_map(|message| message.content())
        .filter_map(|block| match block {
            ContentBlock::ToolResult { call_id, is_error: true, .. } => Some(call_id.as_str()),
            _ => None,
        })
        .collect();
    let changed = last_first(dialogue)
        .filter(|call| matches!(call.name, "write_file" | "edit_file"))
        .filter(|call| !failed.contains(call.id))
        .filter_map(|call| call.arguments.get("file_path")?.as_str());
    let earlier = dialogue.stand_in.map(|StandIn { files, .. }| files.as_slice());
    let earlier = earlier.unwrap_or_default().iter().map(String::as_str);
    let mut files: Vec<String> = Vec::new();
    for file in changed.chain(earlier) {
        if files.len() < FILES && !file.is_empty() && !files.iter().any(|known| known == file) {
            files.push(file.to_owned());
        }
    }
    files
}

/// The facts as a model reads them, in `most` tokens; nothing where there are none or no room.
pub(super) fn told(
    dialogue: &Dialogue<'_>,
    files: &[String],
    is_step_kept: bool,
    most: u64,
) -> Option<ContentBlock> {
    let around = tokens_of_block(&ContentBlock::text(""));
    let left = most.checked_sub(around).filter(|left| *left >= LEAST)?;
    let mut parts = Vec::new();
    if let Some(todos) = dialogue.todos {
        parts.push(format!("\nWhat is to be done: {todos}\n"));
    }
    if !files.is_empty() {
        let files =
            files.iter().map(|file| one_line(file).into_string()).collect::<Vec<_>>().join(", ");
        parts.push(format!("\nFiles that were changed, the last one first: {files}\n"));
    }
    if let Some(results) = results(dialogue).filter(|_| !is_step_kept) {
        parts.push(results);
    }
    let calls = calls(dialogue);
    if !calls.is_empty() {
        parts.push(format!("\nThe last calls, already made: {}\n", calls.join("; ")));
    }
    // The bytes of all parts are joined before they are counted, so each loses a token to rounding.
    let sizes: Vec<u64> = parts.iter().map(|part| tokens_of_text(part)).collect();
    let shares = shares(&sizes, left);
    let cut = parts.iter().zip(shares).map(|(part, share)| within(part, share));
    let text: String = cut.collect();
    (!text.trim().is_empty()).then(|| ContentBlock::text(text))
}

fn calls(dialogue: &Dialogue<'_>) -> Vec<String> {
    last_first(dialogue).take(CALLS).map(|call| named(call.name, call.arguments)).collect()
}

/// All calls, the last one first.
fn last_first<'a>(dialogue: &Dialogue<'a>) -> impl Iterator<Item = ToolCallRef<'a>> {
    dialogue.messages.iter().rev().flat_map(|message| {
        let calls: Vec<_> = message.tool_calls().collect();
        calls.into_iter().rev()
    })
}

fn named(tool: &str, arguments: &Value) -> String {
    one_line(format!("{tool} {}", subject(arguments)).trim_end()).into_string()
}

/// A text that a tool returned, with each line marked as such: beside the words of the user it must not pass
/// for some of them.
fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}\n")).collect()
}

/// What the last calls returned, where they cannot stay calls.
fn results(dialogue: &Dialogue<'_>) -> Option<String> {
    let (called, answers) = step::last(dialogue.messages)?;
    let mut text = "\nWhat the last calls returned:\n".to_owned();
    for block in answers.content() {
        let ContentBlock::ToolResult { call_id, content, .. } = block else { continue };
        let call = called.tool_calls().find(|call| call.id == call_id);
        let name = call.map(|call| named(call.name, call.arguments)).unwrap_or_default();
        text.push_str(&format!("{name}:\n{}", quoted(content.trim_end())));
    }
    Some(text)
}
