//! The events of a Responses stream, as far as they are read; pure.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::providers::counts::uncached;
use crate::providers::loose::{Count, JsonText, List, Object, Text};
use crate::stream::Usage;

/// One event, with the fields of all kinds. Reading them in one pass borrows the text; an enum
/// tagged by `type` would buffer every event first.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) output_index: Count,
    #[serde(borrow, default)]
    pub(super) item_id: Text<'a>,
    #[serde(default)]
    pub(super) content_index: Count,
    #[serde(default)]
    pub(super) summary_index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Text<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: JsonText<'a>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The known fields of an output item.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: JsonText<'a>,
    #[serde(borrow, default)]
    pub(super) phase: Text<'a>,
    #[serde(borrow, default)]
    pub(super) content: List<Object<Part<'a>>>,
}

/// A part of a message.
#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
}

/// The `response` of the last event.
#[derive(Default, Deserialize)]
pub(super) struct Ending<'a> {
    #[serde(borrow, default)]
    pub(super) status: Text<'a>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Object<Incomplete<'a>>,
    #[serde(default)]
    pub(super) usage: Object<Counts>,
}

#[derive(Deserialize)]
pub(super) struct Incomplete<'a> {
    #[serde(borrow, default)]
    pub(super) reason: Text<'a>,
}

/// Token counts; the input includes what caches served.
#[derive(Deserialize)]
pub(super) struct Counts {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    input_tokens_details: Object<InputDetails>,
}

#[derive(Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Count,
    /// Told since mid-2026.
    #[serde(default)]
    cache_write_tokens: Count,
}

impl From<Counts> for Usage {
    fn from(counts: Counts) -> Self {
        let details = counts.input_tokens_details.0.unwrap_or_default();
        let (cache_read, cache_write) = (details.cached_tokens.0, details.cache_write_tokens.0);
        Self {
            input: counts.input_tokens.0.map(|input| uncached(input, cache_read, cache_write)),
            output: counts.output_tokens.0,
            cache_read,
            cache_write,
        }
    }
}
