//! Finds the output item that an event of a Responses stream is about; pure.
//!
//! The number is what counts. Ids do not tell: gateways give one item another id with every event.
//! Only where a server sends no numbers (llama.cpp) do its ids have to do, or else the order.

use std::collections::BTreeMap;
use std::mem;

use super::event::{Event, Item};
use super::item::State;

/// The output items of one answer.
#[derive(Default)]
pub(super) struct Items {
    slots: Vec<Slot>,
    /// The wire's number → the item it means now.
    by_index: BTreeMap<u64, usize>,
}

struct Slot {
    /// The item's id and its call id, as far as they were told.
    names: [Option<String>; 2],
    state: State,
}

/// What an event says about its item.
#[derive(Clone, Copy)]
pub(super) struct Address<'a> {
    index: Option<u64>,
    names: [Option<&'a str>; 2],
}

impl<'a> Address<'a> {
    /// Of a delta.
    pub(super) fn of(event: &'a Event<'_>) -> Self {
        Self { index: event.output_index.0, names: [event.item_id.non_empty(), None] }
    }

    /// Of an item that is told whole.
    pub(super) fn of_item(event: &Event<'_>, item: &'a Item<'_>) -> Self {
        let names = [item.id.non_empty(), item.call_id.non_empty()];
        Self { index: event.output_index.0, names }
    }

    /// Whether it tells nothing: then it can only be the item that came last.
    pub(super) fn is_anonymous(&self) -> bool {
        self.index.is_none() && self.names.iter().all(Option::is_none)
    }

    /// How many bytes a slot keeps of it.
    pub(super) fn len(&self) -> usize {
        self.names.iter().flatten().map(|name| name.len()).sum()
    }
}

impl Items {
    /// The item an event means, if it is known.
    pub(super) fn find(&self, address: Address<'_>) -> Option<usize> {
        match address.index {
            Some(index) => self.by_index.get(&index).copied(),
            None if address.is_anonymous() => {
                self.slots.len().checked_sub(1).filter(|last| !self.is_done(*last))
            }
            None => self.slots.iter().rposition(|slot| slot.shares_name(address)),
        }
    }

    /// Adds an item, which its number means from now on.
    pub(super) fn add(&mut self, address: Address<'_>, state: State) -> usize {
        let position = self.slots.len();
        if let Some(index) = address.index {
            self.by_index.insert(index, position);
        }
        self.slots.push(Slot { names: address.names.map(|name| name.map(str::to_owned)), state });
        position
    }

    /// Whether an item that comes again under its number is the one that is known: it has nothing by
    /// which it could be told apart.
    pub(super) fn is_same(&self, position: usize, address: Address<'_>) -> bool {
        let slot = &self.slots[position];
        let nameless =
            slot.names.iter().all(Option::is_none) || address.names.iter().all(Option::is_none);
        nameless || slot.shares_name(address)
    }

    pub(super) fn state(&mut self, position: usize) -> &mut State {
        &mut self.slots[position].state
    }

    pub(super) fn is_done(&self, position: usize) -> bool {
        matches!(self.slots[position].state, State::Done)
    }

    /// Ends an item and gives what was known about it.
    pub(super) fn finish(&mut self, position: usize) -> State {
        mem::replace(&mut self.slots[position].state, State::Done)
    }

    /// What is known about the items whose end never came, in the order they appeared.
    pub(super) fn unfinished(&mut self) -> impl Iterator<Item = State> {
        let slots = mem::take(&mut self.slots).into_iter();
        slots.map(|slot| slot.state).filter(|state| !matches!(state, State::Done))
    }
}

impl Slot {
    fn shares_name(&self, address: Address<'_>) -> bool {
        let known = |name: &str| self.names.iter().flatten().any(|known| known == name);
        address.names.into_iter().flatten().any(known)
    }
}
