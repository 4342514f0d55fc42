//! The user's own words and pictures, as they were said: the last ones, in their order.

use llm::{ContentBlock, Role};

use super::super::budget::{tokens_of_block, tokens_of_text};
use super::{Dialogue, left_out, shares, within};
use crate::paste;

/// Stands before them.
pub(super) const OPENING: &str = "\nThe last words of the user, as they were said:\n";

/// What [`OPENING`] begins with, as a model may write it too.
const HEADING: &str = "the last words of the user";

/// Stands between two messages of them.
pub(super) const BETWEEN: &str = "\n---\n";

/// The most tokens of them.
const MOST: u64 = 20_000;

/// The fewest tokens in which a message is worth keeping in part.
const LEAST: u64 = 24;

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The messages of the user, the oldest first.
    pub(super) earlier: Vec<Vec<ContentBlock>>,
    /// What was said behind the results of the last step, where that is kept.
    pub(super) behind: Vec<ContentBlock>,
}

/// The words in `left` tokens, the newest ones first: what was asked last is told in part rather than not
/// at all.
pub(super) fn kept(dialogue: &Dialogue<'_>, is_step_kept: bool, left: u64) -> Words {
    let mut left = left.min(MOST);
    let mut words = Words::default();
    let mut messages = said(dialogue);
    if is_step_kept && !messages.is_empty() {
        words.behind = fitted(&messages.remove(0), &mut left, 0);
    }
    let [opening, between] =
        [OPENING, BETWEEN].map(|text| tokens_of_block(&ContentBlock::text(text)));
    for message in messages.iter().filter(|message| !message.is_empty()) {
        let around = if words.earlier.is_empty() { opening } else { between };
        if left < around + LEAST {
            break;
        }
        let blocks = fitted(message, &mut left, around);
        if !blocks.is_empty() {
            words.earlier.push(blocks);
        }
    }
    words.earlier.reverse();
    words
}

/// A text that a model wrote, in which no line passes for the heading of the user's own words.
pub(super) fn of_others(text: &str) -> String {
    let is_heading = |line: &str| {
        let word = line.trim_start_matches(|c: char| !c.is_alphanumeric());
        word.get(..HEADING.len()).is_some_and(|start| start.eq_ignore_ascii_case(HEADING))
    };
    let lines = text.split_inclusive('\n');
    lines.map(|line| if is_heading(line) { format!("> {line}") } else { line.to_owned() }).collect()
}

/// What the user said in each message, the newest first, without the results of calls and without what
/// stands for a dialogue.
fn said<'a>(dialogue: &Dialogue<'a>) -> Vec<Vec<&'a ContentBlock>> {
    let mut messages = Vec::new();
    let users = dialogue.messages.iter().enumerate().rev();
    for (at, message) in users.filter(|(_, message)| message.role() == Role::User) {
        let content = message.content();
        let stand_in = dialogue.stand_in.filter(|_| at == 0);
        let ours = stand_in.map_or(0, |stand_in| stand_in.blocks).min(content.len());
        messages.push(by_user(&content[ours..]));
        for range in stand_in.into_iter().flat_map(|stand_in| stand_in.said.iter().rev()) {
            messages.push(by_user(content.get(range.clone()).unwrap_or_default()));
        }
    }
    messages
}

fn by_user(content: &[ContentBlock]) -> Vec<&ContentBlock> {
    let is_said = |block: &&ContentBlock| match block {
        ContentBlock::Text { text, .. } => !text.trim().is_empty(),
        ContentBlock::Image(_) => true,
        _ => false,
    };
    content.iter().filter(is_said).collect()
}

/// The blocks, whole where they fit beside `around`. Where they do not they get half of what is left: older
/// messages, in which rules are mostly given, need room too.
fn fitted(blocks: &[&ContentBlock], left: &mut u64, around: u64) -> Vec<ContentBlock> {
    let Some(room) = left.checked_sub(around) else { return Vec::new() };
    let whole: u64 = blocks.iter().map(|block| tokens_of_block(block)).sum();
    let fitted: Vec<ContentBlock> = match whole <= room {
        true => blocks.iter().map(|block| (*block).clone()).collect(),
        false => shortened(blocks, room / 2),
    };
    if !fitted.is_empty() {
        *left -= around + fitted.iter().map(tokens_of_block).sum::<u64>();
    }
    fitted
}

/// The blocks in `most` tokens. Pictures that do not fit in half of them are named.
fn shortened(blocks: &[&ContentBlock], most: u64) -> Vec<ContentBlock> {
    let mut left = most;
    let mut kept: Vec<Option<ContentBlock>> = vec![None; blocks.len()];
    let mut missing = 0;
    let pictures =
        blocks.iter().enumerate().filter(|(_, block)| matches!(block, ContentBlock::Image(_)));
    for (at, picture) in pictures {
        let size = tokens_of_block(picture);
        if most - left + size <= most / 2 {
            left -= size;
            kept[at] = Some((*picture).clone());
        } else {
            missing += 1;
        }
    }
    let note =
        (missing > 0).then(|| ContentBlock::text(left_out(missing, "that the user showed here")));
    let note = note.filter(|note| tokens_of_block(note) <= left);
    left -= note.as_ref().map_or(0, tokens_of_block);
    let texts: Vec<(usize, &str)> = blocks
        .iter()
        .enumerate()
        .filter_map(|(at, block)| match block {
            ContentBlock::Text { text, .. } => Some((at, text.as_str())),
            _ => None,
        })
        .collect();
    let around = tokens_of_block(&ContentBlock::text(""));
    let sizes: Vec<u64> = texts.iter().map(|(_, text)| around + tokens_of_text(text)).collect();
    for ((at, text), share) in texts.iter().zip(shares(&sizes, left)) {
        kept[*at] = cut(text, share.saturating_sub(around));
    }
    kept.into_iter().flatten().chain(note).collect()
}

/// A text in so many tokens. Half a paste has no mark that would close it, so a cut one has none at all.
fn cut(text: &str, most: u64) -> Option<ContentBlock> {
    if tokens_of_text(text) <= most {
        return Some(ContentBlock::text(text));
    }
    let cut = within(&paste::expand(text), most);
    (!cut.trim().is_empty()).then(|| ContentBlock::text(cut))
}
