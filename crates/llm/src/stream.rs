//! The one vocabulary in which every provider's answer arrives.
//!
//! Whatever belongs together in one answer has the same `block` number, counted up with each piece that
//! begins: text, reasoning and calls may alternate, and what only the server can read stays where it
//! came.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::types::ProviderMeta;

/// One thing a model's server said, in canonical form; and, between those, where the request stands.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// Visible text; opens its block on first use.
    Text {
        /// The block it belongs to.
        block: u32,
        /// What to append.
        text: String,
    },
    /// Visible reasoning or its summary.
    Reasoning {
        /// The block it belongs to.
        block: u32,
        /// What to append.
        text: String,
    },
    /// A reasoning block ended, or its state arrived without any text.
    ReasoningDone {
        /// The block, possibly never opened (redacted or encrypted reasoning).
        block: u32,
        /// State for the replay.
        meta: Option<ProviderMeta>,
    },
    /// First sight of a call; never twice for one index.
    ToolStart {
        /// The call's number in this response.
        index: u32,
        /// The block it stands in.
        block: u32,
        /// The call's id, never empty.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// A piece of the arguments' JSON text.
    ToolDelta {
        /// The call's number.
        index: u32,
        /// What to append.
        fragment: String,
    },
    /// State of a text block.
    TextMeta {
        /// The block, possibly without text.
        block: u32,
        /// State for the replay.
        meta: ProviderMeta,
    },
    /// State that belongs to a call.
    ToolMeta {
        /// The call's number, already started.
        index: u32,
        /// State for the replay.
        meta: ProviderMeta,
    },
    /// A server-side block, kept verbatim.
    Opaque {
        /// The block.
        block: u32,
        /// Its content.
        meta: ProviderMeta,
    },
    /// Why the answer is refused, in the server's words; no part of the answer.
    Refusal {
        /// What a person should read, bounded.
        explanation: String,
    },
    /// Token counts so far: each is a running total.
    Usage(Usage),
    /// The answer is complete; exactly once, last.
    Finish {
        /// Why it ended.
        reason: FinishReason,
        /// The server's own word.
        raw: Option<String>,
    },
    /// Where the request stands. Never content: it is shown while it holds and then forgotten.
    Phase(Phase),
}

/// Where a request stands, for a person who waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// The request is on its way; nothing was heard.
    Connecting,
    /// The server accepted the request and has not begun to answer.
    Waiting,
    /// The answer arrives, seen or unseen.
    Streaming,
    /// An attempt failed for a reason that may pass; the next one comes after a delay.
    Retrying {
        /// The attempt that comes next, from 2.
        attempt: u32,
        /// The most attempts there will be.
        of: u32,
        /// The time until then.
        #[serde(rename = "delay_ms", with = "milliseconds")]
        delay: Duration,
        /// What went wrong, in a word or two.
        reason: String,
    },
}

/// A time as a whole number of milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

/// Makes the ids of calls that a server left unnamed. Handed in, so that decoders stay pure.
pub type IdSource = Box<dyn FnMut() -> String + Send>;

/// Token counts of one request. `None` means "not told", which is not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that no cache served.
    #[serde(rename = "input_tokens")]
    pub input: Option<u64>,
    /// Output tokens, reasoning included.
    #[serde(rename = "output_tokens")]
    pub output: Option<u64>,
    /// Input tokens read from a cache.
    #[serde(rename = "cache_read_tokens")]
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache.
    #[serde(rename = "cache_write_tokens")]
    pub cache_write: Option<u64>,
}

impl Usage {
    /// Takes every value that `later` tells; what it does not tell stays.
    ///
    /// A later event of the same response corrects an earlier one, also down to zero.
    pub fn absorb(&mut self, later: &Self) {
        self.input = later.input.or(self.input);
        self.output = later.output.or(self.output);
        self.cache_read = later.cache_read.or(self.cache_read);
        self.cache_write = later.cache_write.or(self.cache_write);
    }

    /// The tokens of the whole request, those included that were read from a cache or written to one. Unknown
    /// without the input; a cache that nobody told of was not used.
    pub fn sent(&self) -> Option<u64> {
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        Some(self.input?.saturating_add(cached))
    }

    /// Adds the counts of another request; a count is known if either side told it.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.input = sum(self.input, other.input);
        self.output = sum(self.output, other.output);
        self.cache_read = sum(self.cache_read, other.cache_read);
        self.cache_write = sum(self.cache_write, other.cache_write);
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done.
    EndTurn,
    /// The model waits for its calls to be run. The only reason that runs tools.
    ToolUse,
    /// The token limit cut the answer.
    MaxTokens,
    /// A stop sequence was met.
    StopSequence,
    /// The model or a filter refused.
    Refusal,
    /// The server paused: send the same conversation again with this message at its end.
    PauseTurn,
    /// The model's context window is full.
    ContextWindow,
    /// A reason this version does not know.
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absorb_keeps_input_when_a_later_event_tells_only_output() {
        let mut usage = Usage { input: Some(7), ..Usage::default() };
        usage.absorb(&Usage { output: Some(3), ..Usage::default() });
        assert_eq!(usage, Usage { input: Some(7), output: Some(3), ..Usage::default() });
    }

    #[test]
    fn a_phase_is_told_with_its_delay_in_milliseconds() {
        let phase = Phase::Retrying {
            attempt: 2,
            of: 5,
            delay: Duration::from_millis(1_500),
            reason: "overloaded".to_owned(),
        };
        let told = serde_json::to_string(&phase).unwrap();
        let want =
            r#"{"phase":"retrying","attempt":2,"of":5,"delay_ms":1500,"reason":"overloaded"}"#;
        assert_eq!(told, want);
        assert_eq!(serde_json::from_str::<Phase>(&told).unwrap(), phase);
    }

    #[test]
    fn a_later_zero_corrects_an_earlier_count() {
        let mut usage = Usage { input: Some(7), ..Usage::default() };
        usage.absorb(&Usage { input: Some(0), ..Usage::default() });
        assert_eq!(usage.input, Some(0));
    }

    #[test]
    fn adding_two_untold_counts_stays_untold() {
        let mut usage = Usage::default();
        usage.add(&Usage { output: Some(2), ..Usage::default() });
        assert_eq!(usage, Usage { output: Some(2), ..Usage::default() });
    }
}
