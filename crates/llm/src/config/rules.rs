//! Permission rules with the place at which each was written. What they mean is none of this crate's
//! business.

use serde::Deserialize as _;

use super::file::Rule;
use super::key::Key;
use super::layers::{Layer, Place, Setting, Trust};
use super::settings::Settings;
use super::text::Parsed;

/// What a rule does with the calls it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleList {
    /// They run without asking.
    Allow,
    /// They ask.
    Ask,
    /// They never run.
    Deny,
}

impl RuleList {
    /// All lists.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Its name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Its key.
    pub fn key(self) -> Key {
        Key::of(["permissions", self.name()])
    }
}

/// A permission rule with where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedRule {
    /// What it does.
    pub list: RuleList,
    /// The rule.
    pub rule: Rule,
    /// The file and its line, or the option.
    pub place: Place,
    /// Where in the line, counted from 1; 0 where there is none.
    pub column: usize,
    /// Its layer.
    pub layer: Layer,
    /// Whose word it is.
    pub trust: Trust,
}

impl Settings {
    /// The permission rules that hold, with where each stands, in the order of the layers.
    pub fn rules(&self) -> Vec<PlacedRule> {
        let of = |list: RuleList| {
            let deciding = self.layers.deciding(&list.key()).into_iter();
            deciding.flat_map(move |one| placed(list, one))
        };
        RuleList::ALL.into_iter().flat_map(of).collect()
    }
}

/// The permission rules of one file, whether they may count or not.
pub fn rules_in(file: &Parsed) -> Vec<PlacedRule> {
    let of = |list: RuleList| {
        let leaves = file.leaves.iter().filter(move |leaf| leaf.key == list.key());
        leaves.flat_map(move |leaf| {
            placed(
                list,
                &Setting {
                    value: leaf.value.clone(),
                    layer: Layer::Project,
                    place: Place::Line(file.file.clone(), leaf.line),
                    trust: Trust::Untrusted,
                    refused: None,
                    spots: leaf.spots.clone(),
                },
            )
        })
    };
    RuleList::ALL.into_iter().flat_map(of).collect()
}

fn placed(list: RuleList, one: &Setting) -> Vec<PlacedRule> {
    let items = one.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let rules = items.iter().enumerate().filter_map(|(at, item)| {
        let rule = Rule::deserialize(item).ok()?;
        let (place, column) = match (&one.place, one.spots.get(at)) {
            (Place::Line(file, _), Some(spot)) => {
                (Place::Line(file.clone(), spot.line), spot.column)
            }
            (place, _) => (place.clone(), 0),
        };
        Some(PlacedRule { list, rule, place, column, layer: one.layer, trust: one.trust })
    });
    rules.collect()
}
