//! What takes the place of a dialogue that has become too long.
//!
//! A model is asked for a summary; where it gives none, a digest is made of the dialogue itself. Either way
//! what the user said last stays word for word, and the new context is one message, so that no call is
//! parted from its result.

use std::sync::Arc;

use llm::{ContentBlock, Message, Role};
use serde_json::Value;

use super::budget::{tokens_of, tokens_of_text};
use super::clear::subject;
use crate::truncate;

/// What a model is told to summarise.
const INSTRUCTION: &str = include_str!("../../assets/compact.md");

/// Begins every message that stands for a dialogue. What follows it is never taken for the user's words.
const SUMMARY: &str = "Summary of the conversation so far, which it replaces:\n";

/// The same for a digest that no model made.
const DIGEST: &str = "The conversation so far was too long and is left out. What is known of it:\n";

/// The most tokens of the user's last words.
const USER_WORDS: u64 = 20_000;

/// The most bytes of a result in the second attempt.
const SHORT_RESULT: usize = 400;

/// The most files and calls that are listed.
const LISTED: usize = 40;

/// How much of the dialogue a model is asked to summarise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// All of it.
    Whole,
    /// All of it with shortened results.
    ShortResults,
    /// The later half of it with shortened results.
    LaterHalf,
}

impl Attempt {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Whole, Self::ShortResults, Self::LaterHalf];
}

/// The messages of a request for a summary, with `focus` as what to look at most.
pub fn summary_request(
    messages: &[Arc<Message>],
    attempt: Attempt,
    focus: Option<&str>,
) -> Vec<Arc<Message>> {
    let mut request = match attempt {
        Attempt::Whole => messages.to_vec(),
        Attempt::ShortResults => messages.iter().map(with_short_results).collect(),
        Attempt::LaterHalf => later_half(messages).iter().map(with_short_results).collect(),
    };
    let mut instruction = INSTRUCTION.to_owned();
    if let Some(focus) = focus {
        instruction.push_str("\nWhat matters most: ");
        instruction.push_str(focus);
        instruction.push('\n');
    }
    let instruction = ContentBlock::text(instruction);
    match request.last_mut() {
        Some(last) if last.role() == Role::User => {
            Arc::make_mut(last).content_mut().push(instruction);
        }
        _ => request.push(Arc::new(Message::new(Role::User, vec![instruction]))),
    }
    request
}

fn with_short_results(message: &Arc<Message>) -> Arc<Message> {
    let is_long = |block: &ContentBlock| {
        matches!(block, ContentBlock::ToolResult { content, images, .. }
            if content.len() > SHORT_RESULT || !images.is_empty())
    };
    if !message.content().iter().any(is_long) {
        return Arc::clone(message);
    }
    let mut message = Message::clone(message);
    for block in message.content_mut() {
        if let ContentBlock::ToolResult { content, images, .. } = block {
            *content = truncate::middle(content, SHORT_RESULT).into_owned();
            images.clear();
        }
    }
    Arc::new(message)
}

/// The messages from an answer in the middle on, behind a word that something is missing.
fn later_half(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let half = messages.len() / 2;
    let Some(start) = (half..messages.len()).find(|at| messages[*at].role() == Role::Assistant)
    else {
        return messages.to_vec();
    };
    let missing = Arc::new(Message::user_text("(The beginning of the conversation is left out.)"));
    std::iter::once(missing).chain(messages[start..].iter().cloned()).collect()
}

/// The message that takes the place of `messages`: the summary, and what the summary cannot be trusted
/// with. It takes about `most` tokens at most.
pub fn summarised(
    summary: &str,
    messages: &[Arc<Message>],
    todos: Option<&Value>,
    most: u64,
) -> Arc<Message> {
    let summary = within(summary.trim(), most / 2);
    let left = most.saturating_sub(tokens_of_text(&summary));
    let mut text = format!("{SUMMARY}{summary}\n");
    add_facts(&mut text, messages, todos, left / 3);
    add_words(&mut text, messages, (left / 2).min(USER_WORDS));
    Arc::new(Message::user_text(text))
}

/// The same without a model: what the user said last, what was done to files, the last calls and answer.
pub fn digested(messages: &[Arc<Message>], todos: Option<&Value>, most: u64) -> Arc<Message> {
    let mut text = DIGEST.to_owned();
    add_facts(&mut text, messages, todos, most / 4);
    if let Some(earlier) = earlier_summary(messages) {
        text.push_str(&within(&earlier, most / 5));
        text.push('\n');
    }
    let said = messages.iter().rev().filter(|message| message.role() == Role::Assistant);
    if let Some(last) = said.map(|message| message.text()).find(|text| !text.trim().is_empty()) {
        text.push_str("\nThe last answer was:\n");
        text.push_str(&within(last.trim(), most / 6));
        text.push('\n');
    }
    add_words(&mut text, messages, (most / 4).min(USER_WORDS));
    text.push_str("\nLook at the files before you go on.\n");
    Arc::new(Message::user_text(text))
}

/// Whether the new context is so much smaller that it was worth it: less than seven tenths.
pub fn has_shrunk(before: u64, after: u64) -> bool {
    after.saturating_mul(10) < before.saturating_mul(7)
}

/// Files that were written and calls that were made last, from our own records of them.
fn add_facts(text: &mut String, messages: &[Arc<Message>], todos: Option<&Value>, most: u64) {
    let mut facts = String::new();
    let calls = || messages.iter().rev().flat_map(|message| message.tool_calls());
    let mut files: Vec<&str> = Vec::new();
    for call in calls().filter(|call| matches!(call.name, "write_file" | "edit_file")) {
        let file = call.arguments.get("file_path").and_then(Value::as_str).unwrap_or_default();
        if !file.is_empty() && !files.contains(&file) && files.len() < LISTED {
            files.push(file);
        }
    }
    if !files.is_empty() {
        facts.push_str(&format!(
            "\nFiles that were changed, the last one first: {}\n",
            files.join(", ")
        ));
    }
    let last: Vec<String> = calls()
        .take(LISTED / 4)
        .map(|call| format!("{} {}", call.name, subject(call.arguments)))
        .collect();
    if !last.is_empty() {
        facts.push_str(&format!("\nThe last calls, already made: {}\n", last.join("; ")));
    }
    if let Some(todos) = todos {
        facts.push_str(&format!("\nWhat is to be done: {todos}\n"));
    }
    text.push_str(&within(&facts, most));
}

/// The user's own words, the last ones, in their order and as they were said.
fn add_words(text: &mut String, messages: &[Arc<Message>], most: u64) {
    let (mut left, mut kept) = (most, Vec::new());
    for said in messages.iter().rev().filter_map(words) {
        let whole = tokens_of_text(&said);
        if whole > left {
            // The last thing that was asked is told in part rather than not at all.
            if kept.is_empty() {
                kept.push(within(&said, left));
            }
            break;
        }
        left -= whole;
        kept.push(said);
    }
    if kept.is_empty() {
        return;
    }
    text.push_str("\nThe last words of the user, as they were said:\n");
    for said in kept.iter().rev() {
        text.push_str("---\n");
        text.push_str(said);
        text.push('\n');
    }
}

/// What a user said in a message; nothing for results and for what stands for a dialogue.
fn words(message: &Arc<Message>) -> Option<String> {
    if message.role() != Role::User {
        return None;
    }
    let said = message.text();
    let is_ours = said.starts_with(SUMMARY) || said.starts_with(DIGEST);
    (!is_ours && !said.trim().is_empty()).then_some(said)
}

/// The summary or digest that an earlier compaction left.
fn earlier_summary(messages: &[Arc<Message>]) -> Option<String> {
    let first = messages.first()?.text();
    (first.starts_with(SUMMARY) || first.starts_with(DIGEST)).then_some(first)
}

/// The text with its head and tail, cut to about so many tokens.
fn within(text: &str, tokens: u64) -> String {
    let bytes = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX);
    if text.len() <= bytes {
        return text.to_owned();
    }
    // Characters take up to four bytes, and the note about the cut takes some.
    let widest = text.len() / text.chars().count().max(1) + 1;
    let shortened = truncate::middle(text, (bytes / widest).saturating_sub(60)).into_owned();
    if shortened.len() <= bytes { shortened } else { truncate::head(text, bytes / 4).to_owned() }
}

/// The tokens of one message.
pub fn size(message: &Arc<Message>) -> u64 {
    tokens_of(std::slice::from_ref(message))
}

#[cfg(test)]
mod tests;
