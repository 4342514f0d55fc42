//! How much of a model's window a request takes, from what its server counted and what was added since.
//!
//! A count holds for the context that was sent and for no other: after a change of its beginning all of it
//! is estimated anew. What nobody told is unknown, which is not zero; neither is what cannot be true.

use std::sync::Arc;

use llm::{ContentBlock, ImageData, Message, Usage};
use serde_json::Value;

use crate::session::reduce::State;

/// Bytes of text or JSON that make one token, as a rule of thumb.
const BYTES_A_TOKEN: u64 = 4;

/// Tokens of a picture: what the usual services take for one of about a megapixel.
const IMAGE: u64 = 1_600;

/// What a block costs beside its text: names, ids and punctuation of the wire.
const AROUND: u64 = 8;

/// Percent that are added to what is estimated.
const MARGIN: u64 = 10;

/// The most tokens that a server reads beside what it is sent: instructions of its own, the frame of tools.
const BESIDE: u64 = 32 << 10;

/// The most tokens of an answer, with all that was thought and is not told.
const MOST_WRITTEN: u64 = 256 << 10;

/// How much fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContextBudget {
    /// Most tokens of a request and its answer together, where that is known.
    pub window: Option<u64>,
    /// Tokens to leave for the answer.
    pub reserve_output: u64,
    /// The share of the window, up to 1, from which on the context is summarised.
    pub compact_at: f64,
}

/// The share of the window from which on old results are cleared, below `compact_at`.
const CLEAR_AT: f64 = 0.6;

impl ContextBudget {
    /// The budget of a model; of a long answer a quarter of the window is kept free at most.
    pub fn new(window: Option<u64>, max_tokens: u32, compact_at: f64) -> Self {
        let wanted = if max_tokens == 0 { 4_096 } else { u64::from(max_tokens) };
        let reserve_output = window.map_or(wanted, |window| wanted.min(window / 4));
        Self { window, reserve_output, compact_at }
    }

    /// The most tokens of a request before the context is summarised; nothing where no window is known.
    pub fn limit(&self) -> Option<u64> {
        let window = self.window?;
        Some(share(window, self.compact_at).min(window.saturating_sub(self.reserve_output)))
    }

    /// Whether a request of so many tokens is to be made smaller by a summary.
    pub fn should_compact(&self, tokens: u64) -> bool {
        self.limit().is_some_and(|limit| tokens > limit)
    }

    /// Whether it is worth to clear old results of a request of so many tokens.
    pub fn should_clear(&self, tokens: u64) -> bool {
        let Some((window, limit)) = self.window.zip(self.limit()) else { return false };
        tokens > share(window, CLEAR_AT).min(limit)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share of a window, which has far fewer than 2^52 tokens"
)]
fn share(window: u64, share: f64) -> u64 {
    (window as f64 * share.clamp(0.0, 1.0)) as u64
}

/// What the next request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextEstimate {
    /// What the server counted of the beginning, where that is still sent.
    pub baseline: Option<u64>,
    /// What is estimated of the rest, without a margin.
    pub added: u64,
}

impl ContextEstimate {
    /// All of it, with the margin on what is estimated.
    pub fn tokens(&self) -> u64 {
        let margin = self.added * MARGIN / 100;
        self.baseline.unwrap_or(0).saturating_add(self.added + margin)
    }
}

/// The estimates of the messages of one session, each made once.
#[derive(Debug, Clone, Default)]
pub struct Sizes {
    revision: u64,
    /// The sum of the first messages, for each number of them from 0.
    sums: Vec<u64>,
}

impl Sizes {
    /// The estimate for the next request of a session; `fixed_bytes` is the size of instructions and tools.
    ///
    /// Costs what was said since the last time, however long the dialogue is: the dialogue grows only at
    /// its end while the revision stays.
    pub fn estimate(&mut self, state: &State, fixed_bytes: usize) -> ContextEstimate {
        self.measure(state);
        let fixed = tokens_of_fixed(fixed_bytes);
        let counted = state.reported().filter(|last| last.revision == state.revision());
        let counted = counted.and_then(|last| {
            let before = self.sums.get(last.messages).copied().unwrap_or(self.total());
            let is_meant = is_possible(&last.usage, fixed + before);
            Some((tokens_of_request(&last.usage).filter(|_| is_meant)?, before))
        });
        match counted {
            Some((baseline, before)) => {
                ContextEstimate { baseline: Some(baseline), added: self.total() - before }
            }
            None => ContextEstimate { baseline: None, added: fixed + self.total() },
        }
    }

    fn total(&self) -> u64 {
        self.sums.last().copied().unwrap_or(0)
    }

    /// Brings the sums up to the dialogue. Returns how many messages were measured for it.
    fn measure(&mut self, state: &State) -> usize {
        let messages = state.messages();
        if self.revision != state.revision() || self.sums.len() > messages.len() + 1 {
            self.sums.clear();
            self.revision = state.revision();
        }
        if self.sums.is_empty() {
            self.sums.push(0);
        }
        // What is said may have joined the last message.
        if self.sums.len() > 1 {
            self.sums.pop();
        }
        let new = &messages[self.sums.len() - 1..];
        for message in new {
            self.sums.push(self.total() + tokens_of(std::slice::from_ref(message)));
        }
        new.len()
    }
}

/// What a server counted for a request and its answer. Unknown without the input or the output.
fn tokens_of_request(usage: &Usage) -> Option<u64> {
    Some(usage.sent()?.saturating_add(usage.output?))
}

/// Whether a server can mean these counts for a request that is estimated at so many tokens. A token has a
/// byte at least, and every request some of them: a dialogue is not given up for a number that is nonsense.
fn is_possible(usage: &Usage, estimated: u64) -> bool {
    let most = estimated.saturating_mul(BYTES_A_TOKEN).saturating_add(BESIDE);
    usage.sent().is_some_and(|sent| (1..=most).contains(&sent))
        && usage.output.unwrap_or(0) <= MOST_WRITTEN
}

/// The estimate for messages.
pub fn tokens_of(messages: &[Arc<Message>]) -> u64 {
    messages.iter().flat_map(|message| message.content()).map(tokens_of_block).sum()
}

/// The estimate for one block.
pub(super) fn tokens_of_block(block: &ContentBlock) -> u64 {
    let pictures = |images: &[ImageData]| images.len() as u64 * IMAGE;
    AROUND
        + match block {
            ContentBlock::Text { text, .. } => tokens_of_text(text),
            ContentBlock::Image(_) => IMAGE,
            ContentBlock::Reasoning { text, meta } => {
                tokens_of_text(text) + meta.as_ref().map_or(0, |meta| tokens_of_json(&meta.data))
            }
            ContentBlock::ToolCall { name, arguments, .. } => {
                tokens_of_text(name) + tokens_of_json(arguments)
            }
            ContentBlock::ToolResult { content, images, .. } => {
                tokens_of_text(content) + pictures(images)
            }
            ContentBlock::Opaque { meta } => tokens_of_json(&meta.data),
        }
}

/// The estimate for instructions and tools of so many bytes.
pub fn tokens_of_fixed(bytes: usize) -> u64 {
    bytes as u64 / BYTES_A_TOKEN
}

/// The estimate for a text, rounded up.
pub(super) fn tokens_of_text(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_A_TOKEN)
}

/// The most bytes of a text that is estimated at no more than so many tokens.
pub(super) fn bytes_of(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(BYTES_A_TOKEN)).unwrap_or(usize::MAX)
}

fn tokens_of_json(value: &Value) -> u64 {
    bytes_of_json(value).div_ceil(BYTES_A_TOKEN)
}

fn bytes_of_json(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 6,
        Value::String(text) => text.len() as u64 + 3,
        Value::Array(items) => items.iter().map(bytes_of_json).sum::<u64>() + 2,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, field)| name.len() as u64 + 4 + bytes_of_json(field))
                .sum::<u64>()
                + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::record::{Change, Meta, Record, ReplaceReason};

    fn estimate(state: &State, fixed_bytes: usize) -> ContextEstimate {
        Sizes::default().estimate(state, fixed_bytes)
    }

    fn state(records: &[Record]) -> State {
        let mut state = State::default();
        state.apply(&Record::SessionStarted(Meta::default())).unwrap();
        records.iter().for_each(|record| state.apply(record).unwrap());
        state
    }

    fn user(text: &str) -> Record {
        let message = Arc::new(Message::user_text(text));
        Record::MessageAppended { message, notices: Vec::new() }
    }

    fn answer(text: &str) -> Record {
        let message = Arc::new(Message::assistant_text(text));
        Record::MessageAppended { message, notices: Vec::new() }
    }

    fn usage(usage: Usage) -> Record {
        Record::Usage { step: 1, revision: 0, usage, cost_usd: None }
    }

    fn counted(input: Option<u64>, output: Option<u64>) -> Usage {
        Usage { input, output, cache_read: Some(30), ..Usage::default() }
    }

    #[test]
    fn only_what_was_added_after_a_count_is_estimated() {
        let state = state(&[
            user(&"x".repeat(4_000)),
            answer("a"),
            usage(counted(Some(100), Some(20))),
            user(&"y".repeat(400)),
        ]);
        let estimate = estimate(&state, 1 << 20);
        assert_eq!(estimate, ContextEstimate { baseline: Some(150), added: 108 });
        assert_eq!(estimate.tokens(), 150 + 108 + 10);
    }

    #[test]
    fn an_unknown_count_is_not_a_count_of_zero() {
        let of = |input, output| {
            let state = state(&[user("12345678"), answer("a"), usage(counted(input, output))]);
            estimate(&state, 400)
        };
        assert_eq!(of(None, Some(1)).baseline, None);
        assert_eq!(of(Some(1), None).baseline, None);
        assert_eq!(of(Some(0), Some(0)).baseline, Some(30));
        assert_eq!(of(None, None).added, 100 + 10 + 9);
    }

    #[test]
    fn a_count_that_no_request_can_have_is_unknown() {
        let of = |input, output| {
            let usage = Usage { input: Some(input), output: Some(output), ..Usage::default() };
            let state = state(&[user("12345678"), answer("a"), self::usage(usage)]);
            estimate(&state, 400)
        };
        let unknown = ContextEstimate { baseline: None, added: 100 + 10 + 9 };
        for (input, output) in [(0, 0), (0, 9), (u64::MAX, 1), (1 << 40, 1), (9, u64::MAX)] {
            assert_eq!(of(input, output), unknown, "{input} {output}");
        }
        // Much that is not seen: what the server puts before a request, and what a model thinks.
        assert_eq!(of(30_000, 100_000).baseline, Some(130_000));
    }

    #[test]
    fn another_model_and_a_changed_beginning_end_the_baseline() {
        let before = [user("q"), answer("a"), usage(counted(Some(9), Some(9)))];
        let replaced = Record::ContextReplaced {
            revision: 0,
            reason: ReplaceReason::Cleared,
            change: Change::Results { cleared: Vec::new() },
            before_tokens: None,
            after_tokens: None,
        };
        for change in [replaced, Record::ModelChanged { model: "other:m".into() }] {
            let mut state = state(&before);
            assert!(estimate(&state, 0).baseline.is_some());
            state.apply(&change).unwrap();
            assert_eq!(estimate(&state, 0).baseline, None, "{change:?}");
        }
    }

    #[test]
    fn a_message_is_measured_once_however_long_the_dialogue_is() {
        let mut state = state(&[]);
        let mut sizes = Sizes::default();
        for step in 0..500 {
            state.apply(&user(&"q".repeat(step))).unwrap();
            let content = vec![ContentBlock::text("more")];
            let extended = Record::MessageExtended { content, notices: Vec::new() };
            state.apply(&answer("a")).unwrap();
            assert!(sizes.measure(&state) <= 3);
            state.apply(&user("and")).unwrap();
            sizes.measure(&state);
            state.apply(&extended).unwrap();
            assert_eq!(sizes.measure(&state), 1);
            state.apply(&answer("a")).unwrap();
            sizes.measure(&state);
            assert_eq!(sizes.total(), tokens_of(state.messages()));
        }
        state.apply(&Record::ModelChanged { model: "other:m".into() }).unwrap();
        assert_eq!(sizes.measure(&state), 2_000);
        assert_eq!(sizes.total(), tokens_of(state.messages()));
    }

    #[test]
    fn room_is_left_for_the_answer_and_an_unknown_window_limits_nothing() {
        let budget = ContextBudget::new(Some(10_000), 1_000, 0.8);
        assert_eq!(budget.limit(), Some(8_000));
        assert!(budget.should_compact(8_001) && !budget.should_compact(8_000));
        assert!(budget.should_clear(6_001) && !budget.should_clear(6_000));
        assert_eq!(ContextBudget::new(Some(10_000), 9_000, 0.95).limit(), Some(7_500));
        let unknown = ContextBudget::new(None, 0, 0.8);
        assert!(!unknown.should_compact(u64::MAX) && !unknown.should_clear(u64::MAX));
    }
}
