//! What takes the place of a dialogue that has become too long.
//!
//! A model is asked for a summary; where it gives none, a digest is made of the dialogue itself. Either way
//! what the user said last stays word for word, with its pictures, and so does the step that the model has
//! not read the results of. What of the new context is ours is told beside it, never read from its words.

mod facts;
mod gains;
mod step;
mod words;

use std::sync::Arc;

use llm::{ContentBlock, Message, Role};
use serde_json::Value;

use super::budget::{bytes_of, tokens_of, tokens_of_block};
use crate::session::record::StandIn;
use crate::session::reduce::State;
use crate::truncate;

pub use gains::{Gains, Rung};

/// What a model is told to summarise.
const INSTRUCTION: &str = include_str!("../../assets/compact.md");

/// Begins a summary.
const SUMMARY: &str = "Summary of the conversation so far, which it replaces:\n";

/// Begins a digest that no model made.
const DIGEST: &str = "The conversation so far was too long and is left out. Look at the files before you go \
                      on. What is known of it:\n";

/// The fewest tokens in which anything of a dialogue can be told.
pub const LEAST: u64 = 120;

/// The most bytes of a result in the second attempt.
const SHORT_RESULT: usize = 400;

/// A dialogue that is to become shorter, and what its session knows about it.
#[derive(Debug, Clone, Copy)]
pub struct Dialogue<'a> {
    /// All of it.
    pub messages: &'a [Arc<Message>],
    /// What of the first message stands for an earlier dialogue.
    pub stand_in: Option<&'a StandIn>,
    /// What is to be done.
    pub todos: Option<&'a Value>,
}

impl<'a> Dialogue<'a> {
    /// That of a session.
    pub fn of(state: &'a State) -> Self {
        let (messages, stand_in, todos) = (state.messages(), state.stand_in(), state.todos());
        Self { messages, stand_in, todos }
    }

    /// The estimate of its tokens.
    pub fn tokens(&self) -> u64 {
        tokens_of(self.messages)
    }

    /// The summary or digest that an earlier compaction left, without what begins it.
    fn earlier(&self) -> Option<&'a str> {
        self.stand_in.filter(|stand_in| stand_in.blocks > 0)?;
        let ContentBlock::Text { text, .. } = self.messages.first()?.content().first()? else {
            return None;
        };
        let begun = text.strip_prefix(SUMMARY).or_else(|| text.strip_prefix(DIGEST));
        Some(begun.unwrap_or(text).trim())
    }
}

/// A new context.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// Its messages.
    pub messages: Vec<Arc<Message>>,
    /// What of the first one stands for the dialogue.
    pub stand_in: StandIn,
}

impl Replacement {
    /// The estimate of its tokens.
    pub fn tokens(&self) -> u64 {
        tokens_of(&self.messages)
    }
}

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

/// The messages of a request for a summary of `messages`, with `focus` as what to look at most.
/// `is_replaced` says that the first of them stands for an earlier dialogue.
pub fn summary_request(
    messages: &[Arc<Message>],
    is_replaced: bool,
    attempt: Attempt,
    focus: Option<&str>,
) -> Vec<Arc<Message>> {
    let mut request = match attempt {
        Attempt::Whole => messages.to_vec(),
        Attempt::ShortResults => messages.iter().map(with_short_results).collect(),
        Attempt::LaterHalf => {
            later_half(messages, is_replaced).iter().map(with_short_results).collect()
        }
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

/// The messages from an answer in the middle on, behind what an earlier compaction left, or behind a word
/// that something is missing.
fn later_half(messages: &[Arc<Message>], is_replaced: bool) -> Vec<Arc<Message>> {
    let half = messages.len() / 2;
    let Some(start) = (half..messages.len()).find(|at| messages[*at].role() == Role::Assistant)
    else {
        return messages.to_vec();
    };
    let before = match messages.first() {
        Some(first) if is_replaced => Arc::clone(first),
        _ => Arc::new(Message::user_text("(The beginning of the conversation is left out.)")),
    };
    std::iter::once(before).chain(messages[start..].iter().cloned()).collect()
}

/// What takes the place of a dialogue: the summary, and what the summary cannot be trusted with. It takes
/// `most` tokens at most, which are [`LEAST`] or more.
pub fn summarised(summary: &str, dialogue: &Dialogue<'_>, most: u64) -> Replacement {
    let opening = format!("{SUMMARY}{}\n", within(&words::of_others(summary.trim()), most * 2 / 5));
    compose(opening, dialogue, most)
}

/// The same without a model: what was known before, the last answer, and the same facts and words.
pub fn digested(dialogue: &Dialogue<'_>, most: u64) -> Replacement {
    let mut opening = DIGEST.to_owned();
    if let Some(earlier) = dialogue.earlier() {
        opening.push_str(&within(earlier, most / 5));
        opening.push('\n');
    }
    if let Some(last) = last_answer(dialogue.messages) {
        opening.push_str("\nThe last answer was:\n");
        opening.push_str(&within(&words::of_others(last.trim()), most / 6));
        opening.push('\n');
    }
    compose(opening, dialogue, most)
}

/// The last thing the model said, but for the step that is kept by itself.
fn last_answer(messages: &[Arc<Message>]) -> Option<String> {
    let before = match step::last(messages) {
        Some(_) => &messages[..messages.len() - 2],
        None => messages,
    };
    let said = before.iter().rev().filter(|message| message.role() == Role::Assistant);
    said.map(|message| message.text()).find(|text| !text.trim().is_empty())
}

fn compose(opening: String, dialogue: &Dialogue<'_>, most: u64) -> Replacement {
    let mut content = vec![ContentBlock::text(opening)];
    let mut left = most.saturating_sub(tokens_of_block(&content[0]));
    let step = step::kept(dialogue.messages, left / 2);
    left -= step.as_ref().map_or(0, step::Step::tokens);
    let files = facts::files(dialogue);
    let told = facts::told(dialogue, &files, step.is_some(), left / 3);
    left -= told.as_ref().map_or(0, tokens_of_block);
    content.extend(told);
    let words = words::kept(dialogue, step.is_some(), left);
    let mut said = Vec::new();
    if !words.earlier.is_empty() {
        content.push(ContentBlock::text(words::OPENING));
    }
    for (at, blocks) in words.earlier.into_iter().enumerate() {
        if at > 0 {
            content.push(ContentBlock::text(words::BETWEEN));
        }
        let start = content.len();
        content.extend(blocks);
        said.push(start..content.len());
    }
    let stand_in = StandIn { blocks: content.len(), said, files };
    let mut messages = vec![Arc::new(Message::new(Role::User, content))];
    if let Some(step::Step { called, mut results }) = step {
        results.extend(words.behind);
        messages.push(called);
        messages.push(Arc::new(Message::new(Role::User, results)));
    }
    Replacement { messages, stand_in }
}

/// The text with its head and tail, cut to so many tokens as they are estimated.
fn within(text: &str, tokens: u64) -> String {
    let bytes = bytes_of(tokens);
    if text.len() <= bytes {
        return text.to_owned();
    }
    // Characters take up to four bytes, and the note about the cut takes some.
    let widest = text.len() / text.chars().count().max(1) + 1;
    let shortened = truncate::middle(text, (bytes / widest).saturating_sub(60)).into_owned();
    if shortened.len() <= bytes && bytes > 240 {
        return shortened;
    }
    truncate::head(text, bytes / 4).to_owned()
}

/// How many of `left` each of several things gets: what it takes where that fits, and an equal share of the
/// rest where it does not.
fn shares(sizes: &[u64], mut left: u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|at| sizes[*at]);
    let mut shares = vec![0; sizes.len()];
    for (done, at) in order.into_iter().enumerate() {
        shares[at] = sizes[at].min(left / (sizes.len() - done) as u64);
        left -= shares[at];
    }
    shares
}

/// What stands for pictures that were left out.
fn left_out(pictures: usize, whose: &str) -> String {
    let (noun, verb) = if pictures == 1 { ("picture", "is") } else { ("pictures", "are") };
    format!("({pictures} {noun} {whose} {verb} left out, for lack of room.)")
}

#[cfg(test)]
mod tests;
