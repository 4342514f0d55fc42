//! Puts the tool call deltas of a Chat Completions stream into calls; pure.
//!
//! Servers number their calls by `index`, by `id`, or not at all; they send the name late, again, or
//! with every delta. What none of them gets to do is to mix two calls into one that then runs.

use std::collections::{BTreeMap, HashMap};

use super::chunk::{CallDelta, Function};
use crate::error::LlmError;
use crate::providers::call_ids::CallIds;
use crate::providers::held::{self, Held};
use crate::stream::IdSource;
use crate::stream::StreamEvent;

/// The calls of one answer.
pub(super) struct Calls {
    ids: CallIds,
    calls: Vec<Call>,
    /// The wire's index → the call it means now.
    by_index: BTreeMap<u64, usize>,
    /// The wire's id → the call it means.
    by_id: HashMap<String, usize>,
    /// Calls whose name has not come yet.
    unnamed: usize,
    held: Held,
}

struct Call {
    block: u32,
    /// The server's id, once it told one.
    id: Option<String>,
    stage: Stage,
}

enum Stage {
    /// Waits for its name with these arguments.
    Unnamed(String),
    Started,
}

impl Calls {
    pub(super) fn new(ids: IdSource) -> Self {
        Self {
            ids: CallIds::new(ids),
            calls: Vec::new(),
            by_index: BTreeMap::new(),
            by_id: HashMap::new(),
            unnamed: 0,
            held: Held::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether a call is still without its name.
    pub(super) fn waits_for_name(&self) -> bool {
        self.unnamed > 0
    }

    /// Takes one delta; `new_block` numbers the block when it opens a call.
    pub(super) fn take(
        &mut self,
        delta: CallDelta<'_>,
        new_block: impl FnOnce() -> u32,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let CallDelta { index, id, function } = delta;
        let Function { name, arguments } = function.0.unwrap_or_default();
        let (id, name) = (id.non_empty(), name.non_empty());
        let position = match self.find(index.0, id, name) {
            Some(position) => position,
            None => {
                self.held.add(held::ENTRY)?;
                self.open(index.0, new_block())
            }
        };
        if let Some(id) = id {
            self.note_id(position, id)?;
        }
        let call = u32::try_from(position)
            .map_err(|_| LlmError::Decode("the answer has too many tool calls".to_owned()))?;
        let known = &mut self.calls[position];
        match (&mut known.stage, name) {
            (Stage::Unnamed(held), None) => {
                self.held.add(arguments.as_str().len())?;
                held.push_str(arguments.as_str());
            }
            (Stage::Unnamed(held), Some(name)) => {
                let held = std::mem::take(held);
                known.stage = Stage::Started;
                self.unnamed -= 1;
                out.push(StreamEvent::ToolStart {
                    index: call,
                    block: known.block,
                    id: self.ids.claim(known.id.as_deref()),
                    name: name.to_owned(),
                });
                push_arguments(call, held, out);
                push_arguments(call, arguments.into_string(), out);
            }
            (Stage::Started, _) => push_arguments(call, arguments.into_string(), out),
        }
        Ok(())
    }

    /// The call that a delta belongs to, or `None` when it opens a new one.
    fn find(&self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let by_id = id.and_then(|id| self.by_id.get(id).copied());
        let Some(index) = index else {
            // Without a number: the id says which; a new id or a name says "another one".
            return by_id.or_else(|| match (id, name) {
                (None, None) => self.calls.len().checked_sub(1),
                _ => None,
            });
        };
        let known = *self.by_index.get(&index)?;
        let other_id = matches!((id, &self.calls[known].id), (Some(id), Some(own)) if id != own);
        // Some servers number every call 0: another id together with a name is another call.
        if other_id && name.is_some() { by_id } else { Some(known) }
    }

    fn open(&mut self, index: Option<u64>, block: u32) -> usize {
        let position = self.calls.len();
        self.calls.push(Call { block, id: None, stage: Stage::Unnamed(String::new()) });
        self.unnamed += 1;
        if let Some(index) = index {
            self.by_index.insert(index, position);
        }
        position
    }

    /// The first id of a call counts; later ones change nothing.
    fn note_id(&mut self, position: usize, id: &str) -> Result<(), LlmError> {
        if self.calls[position].id.is_none() {
            self.held.add(2 * id.len())?;
            self.calls[position].id = Some(id.to_owned());
            self.by_id.entry(id.to_owned()).or_insert(position);
        }
        Ok(())
    }
}

fn push_arguments(index: u32, fragment: String, out: &mut Vec<StreamEvent>) {
    if !fragment.is_empty() {
        out.push(StreamEvent::ToolDelta { index, fragment });
    }
}
