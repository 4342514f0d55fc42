//! The step whose results the model has not read: it stays as it is, its results shortened where they do
//! not fit.

use std::sync::Arc;

use llm::{ContentBlock, ImageData, Message, Role};

use super::super::budget::{tokens_of, tokens_of_block, tokens_of_text};
use super::{left_out, shares, within};

/// The fewest tokens of a result that is worth keeping beside its call.
const LEAST_RESULT: u64 = 24;

/// An answer with calls, and the results of all of them.
#[derive(Debug)]
pub(super) struct Step {
    /// The answer, unchanged: servers check what they signed in it.
    pub(super) called: Arc<Message>,
    /// The results, in their order.
    pub(super) results: Vec<ContentBlock>,
}

impl Step {
    /// The estimate of its tokens.
    pub(super) fn tokens(&self) -> u64 {
        let called = tokens_of(std::slice::from_ref(&self.called));
        called + self.results.iter().map(tokens_of_block).sum::<u64>()
    }
}

/// The last answer and the message that answers its calls, where a dialogue ends with such a message.
pub(super) fn last(messages: &[Arc<Message>]) -> Option<(&Arc<Message>, &Arc<Message>)> {
    let [.., called, answers] = messages else { return None };
    let has_results = answers.role() == Role::User && answers.content().iter().any(is_result);
    has_results.then_some((called, answers))
}

/// The same in `most` tokens; nothing where the calls alone take more.
pub(super) fn kept(messages: &[Arc<Message>], most: u64) -> Option<Step> {
    let (called, answers) = last(messages)?;
    let left = most.checked_sub(tokens_of(std::slice::from_ref(called)))?;
    let results: Vec<&ContentBlock> =
        answers.content().iter().filter(|block| is_result(block)).collect();
    let sizes: Vec<u64> = results.iter().map(|result| tokens_of_block(result)).collect();
    let least: u64 = sizes.iter().map(|size| LEAST_RESULT.min(*size)).sum();
    if least > left {
        return None;
    }
    // Each gets its least first, so that one long result does not starve many short ones.
    let more: Vec<u64> = sizes.iter().map(|size| size.saturating_sub(LEAST_RESULT)).collect();
    let more = shares(&more, left - least);
    let given = sizes.iter().zip(more).map(|(size, more)| LEAST_RESULT.min(*size) + more);
    let results = results.into_iter().zip(given).map(|(result, given)| shortened(result, given));
    Some(Step { called: Arc::clone(called), results: results.collect() })
}

fn is_result(block: &ContentBlock) -> bool {
    matches!(block, ContentBlock::ToolResult { .. })
}

/// A result in so many tokens. Pictures stay where half of them is enough.
fn shortened(result: &ContentBlock, most: u64) -> ContentBlock {
    let ContentBlock::ToolResult { call_id, content, is_error, images } = result else {
        return result.clone();
    };
    if tokens_of_block(result) <= most {
        return result.clone();
    }
    let with = |content: String, images: Vec<ImageData>| ContentBlock::ToolResult {
        call_id: call_id.clone(),
        content,
        is_error: *is_error,
        images,
    };
    let mut kept = images.clone();
    while !kept.is_empty() && tokens_of_block(&with(String::new(), kept.clone())) > most / 2 {
        kept.pop();
    }
    let missing = images.len() - kept.len();
    let note = match missing {
        0 => String::new(),
        missing => format!("\n{}", left_out(missing, "of this result")),
    };
    let left = most.saturating_sub(tokens_of_block(&with(String::new(), kept.clone())));
    let content = match left.checked_sub(tokens_of_text(&note)) {
        Some(left) => within(content, left) + &note,
        None => within(content, left),
    };
    with(content, kept)
}
