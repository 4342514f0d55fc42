//! The chunks of a Chat Completions stream, as far as they are read; pure.
//!
//! Large parts are boxed: passing them by value through the layers of a deserializer costs more than
//! the allocation.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::usage::Counts;
use crate::providers::loose::{
    Alternative, Count, First, JsonText, List, Object, Text, absent_by_default, skip_object,
};

#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: First<Box<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Object<Box<Counts>>,
    #[serde(default)]
    pub(super) x_groq: Object<Box<Groq>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// Groq repeats the usage in a field of its own.
#[derive(Deserialize)]
pub(super) struct Groq {
    #[serde(default)]
    pub(super) usage: Object<Box<Counts>>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Object<Box<Delta<'a>>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
    /// What the server behind a gateway said.
    #[serde(borrow, default)]
    pub(super) native_finish_reason: Text<'a>,
    /// Kimi tells it here.
    #[serde(default)]
    pub(super) usage: Object<Box<Counts>>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Content<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow, default)]
    pub(super) tool_calls: List<Object<CallDelta<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) function: Object<Function<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    /// A string of JSON text; some servers send the object itself.
    #[serde(borrow, default)]
    pub(super) arguments: JsonText<'a>,
}

/// `delta.content`: a string, or Mistral's list of typed parts.
#[derive(Default)]
pub(super) enum Content<'a> {
    #[default]
    Absent,
    Text(Cow<'a, str>),
    Parts(Vec<Object<Part<'a>>>),
}

#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    /// The parts of a thinking part have nothing but text.
    #[serde(borrow, default)]
    pub(super) thinking: Content<'a>,
}

impl Alternative for Choice<'_> {
    fn number(&self) -> Count {
        self.index
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;
            absent_by_default!(
                Content::Absent;
                visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64)
            );
            skip_object!(Content::Absent);
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = list.next_element()? {
                    parts.push(part);
                }
                Ok(Content::Parts(parts))
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}
