//! The chunks of a generateContent stream, as far as they are read; pure.
//!
//! Large parts are boxed: passing them by value through the layers of a deserializer costs more than
//! the allocation.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::usage::Counts;
use crate::providers::loose::{Alternative, Count, First, List, Object, Text};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) candidates: First<Box<Candidate<'a>>>,
    #[serde(default)]
    pub(super) usage_metadata: Object<Box<Counts>>,
    #[serde(borrow, default)]
    pub(super) prompt_feedback: Object<PromptFeedback<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// Names the event in the Interactions API, a protocol of its own at the same host.
    #[serde(borrow, default, rename = "event_type")]
    pub(super) event_type: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) content: Object<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) finish_message: Text<'a>,
}

impl Alternative for Candidate<'_> {
    fn number(&self) -> Count {
        self.index
    }
}

#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, default)]
    pub(super) parts: List<Object<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow, default)]
    pub(super) block_reason: Text<'a>,
}

/// One part. What is not read is kept, because a part that only the server understands goes back
/// whole.
#[derive(Default)]
pub(super) struct Part<'a> {
    pub(super) text: Text<'a>,
    pub(super) thought: bool,
    pub(super) signature: Text<'a>,
    pub(super) call: Object<Box<Call<'a>>>,
    pub(super) other: Vec<(Cow<'a, str>, &'a RawValue)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Call<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    /// An object; absent when there are no arguments.
    #[serde(borrow, default)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) partial_args: List<Object<PartialArg<'a>>>,
    #[serde(default)]
    pub(super) will_continue: Flag,
}

/// A piece of the arguments and where it belongs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialArg<'a> {
    #[serde(borrow, default)]
    pub(super) json_path: Text<'a>,
    #[serde(borrow, default)]
    pub(super) string_value: Text<'a>,
    #[serde(borrow, default)]
    pub(super) number_value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) bool_value: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) null_value: Present,
    #[serde(default)]
    pub(super) will_continue: Flag,
}

/// Whether a field is `true`; everything else is false.
#[derive(Default, Clone, Copy)]
pub(super) struct Flag(pub(super) bool);

/// Whether a field is there at all: JSON writes this one as `null`.
#[derive(Default, Clone, Copy)]
pub(super) struct Present(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &'de RawValue = Deserialize::deserialize(deserializer)?;
        Ok(Self(raw.get() == "true"))
    }
}

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;
        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
                let mut part = Part::default();
                while let Some(name) = fields.next_key::<Text<'de>>()? {
                    match name.as_str() {
                        "text" => part.text = fields.next_value()?,
                        "thought" => part.thought = fields.next_value::<Flag>()?.0,
                        "thoughtSignature" => part.signature = fields.next_value()?,
                        "functionCall" => part.call = fields.next_value()?,
                        _ => {
                            let name = name.0.unwrap_or_default();
                            part.other.push((name, fields.next_value()?));
                        }
                    }
                }
                Ok(part)
            }
        }
        deserializer.deserialize_map(PartVisitor)
    }
}
