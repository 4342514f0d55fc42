//! Collects the reasoning of a Chat Completions stream and what is needed to send it back; pure.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::DIALECT;
use crate::error::LlmError;
use crate::providers::held::Held;
use crate::providers::loose::{Count, List, Object, Text, read_part};
use crate::stream::StreamEvent;
use crate::types::ProviderMeta;

/// The reasoning blocks of one answer, in order.
#[derive(Default)]
pub(super) struct Reasoning {
    blocks: Vec<Block>,
    details: Vec<Detail>,
    /// Where the entry that a further piece belongs to stands in `details`.
    by_key: HashMap<Key, usize>,
    held: Held,
}

struct Block {
    number: u32,
    /// The field its text came in; none when only `reasoning_details` had any.
    field: Option<&'static str>,
}

/// One entry of `reasoning_details`, its pieces joined.
struct Detail {
    /// Position of its block in `blocks`.
    owner: usize,
    fields: Map<String, Value>,
}

/// What makes two pieces parts of one entry.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    index: Option<u64>,
    /// Entries without an index never go on in another block.
    owner: Option<usize>,
    joined: Joined,
}

/// The kinds whose pieces are joined; encrypted and unknown entries come whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Joined {
    Text,
    Summary,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    summary: Text<'a>,
}

impl Reasoning {
    /// A further block with this number.
    pub(super) fn open(&mut self, number: u32, field: Option<&'static str>) {
        self.blocks.push(Block { number, field });
    }

    /// Names the field of the last block, unless it is known.
    pub(super) fn note_field(&mut self, field: Option<&'static str>) {
        if let Some(block) = self.blocks.last_mut() {
            block.field = block.field.or(field);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The text of `reasoning_details`, for servers that put it nowhere else.
    pub(super) fn text_of(raw: &RawValue) -> Result<String, LlmError> {
        let pieces: List<Object<Piece<'_>>> = read_part(raw)?;
        let text = |piece: &Piece<'_>| {
            piece.text.non_empty().or(piece.summary.non_empty()).map(str::to_owned)
        };
        Ok(pieces.0.iter().filter_map(|piece| piece.0.as_ref().and_then(text)).collect())
    }

    /// Files the entries of `reasoning_details` under the last block, which must exist.
    ///
    /// Pieces of one entry have the same index and type: their text is joined, their other fields
    /// (a signature comes in the last piece) are taken over.
    pub(super) fn add_details(&mut self, raw: &RawValue) -> Result<(), LlmError> {
        let entries: List<&RawValue> = read_part(raw)?;
        let owner = self.blocks.len().saturating_sub(1);
        for entry in entries.0 {
            self.held.add(entry.get().len())?;
            let Object(Some(piece)) = read_part::<Object<Piece<'_>>>(entry)? else { continue };
            let fields: Map<String, Value> = read_part(entry)?;
            let joined = match piece.kind.as_str() {
                "reasoning.text" => Joined::Text,
                "reasoning.summary" => Joined::Summary,
                _ => {
                    self.details.push(Detail { owner, fields });
                    continue;
                }
            };
            let index = piece.index.0;
            let key = Key { index, owner: index.is_none().then_some(owner), joined };
            match self.by_key.get(&key) {
                Some(&position) => join(&mut self.details[position].fields, fields, joined),
                None => {
                    self.by_key.insert(key, self.details.len());
                    self.details.push(Detail { owner, fields });
                }
            }
        }
        Ok(())
    }

    /// Ends every block with its state.
    pub(super) fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        let mut details: Vec<Vec<Value>> = self.blocks.iter().map(|_| Vec::new()).collect();
        for detail in std::mem::take(&mut self.details) {
            if let Some(own) = details.get_mut(detail.owner) {
                own.push(Value::Object(detail.fields));
            }
        }
        for (block, details) in self.blocks.iter().zip(details) {
            let mut data = Map::new();
            if let Some(field) = block.field {
                data.insert("field".to_owned(), field.into());
            }
            if !details.is_empty() {
                data.insert("reasoning_details".to_owned(), Value::Array(details));
            }
            let meta = ProviderMeta { provider: DIALECT.to_owned(), data: Value::Object(data) };
            out.push(StreamEvent::ReasoningDone { block: block.number, meta: Some(meta) });
        }
    }
}

/// Adds a piece to its entry.
fn join(entry: &mut Map<String, Value>, piece: Map<String, Value>, joined: Joined) {
    let appended = match joined {
        Joined::Text => "text",
        Joined::Summary => "summary",
    };
    for (name, value) in piece {
        match (entry.get_mut(&name), value) {
            (Some(Value::String(known)), Value::String(more)) if name == appended => {
                known.push_str(&more);
            }
            (Some(_), Value::Null) => {}
            (_, value) => {
                entry.insert(name, value);
            }
        }
    }
}
