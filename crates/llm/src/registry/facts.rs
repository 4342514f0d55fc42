//! What is known about models without asking anybody: from the configuration, else from the table.

use super::{Named, Registry};
use crate::models::{self, Price};

/// What is known about one model. What nobody told is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Most tokens of a request and its answer together.
    pub context: Option<u64>,
    /// Most tokens of one answer.
    pub max_output: Option<u32>,
    /// What it costs.
    pub price: Option<Price>,
}

/// A model that can be named.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The short name, if it has one.
    pub alias: Option<String>,
    /// The provider.
    pub provider: String,
    /// The id that requests carry.
    pub id: String,
    /// What is known about it.
    pub facts: Facts,
}

impl Registry {
    /// What is known about `model`.
    pub fn facts(&self, model: &Named) -> Facts {
        let row = self.row(&model.provider, &model.id);
        let entry = &model.entry;
        Facts {
            context: entry.context.or_else(|| row?.context),
            max_output: entry.max_output.map(u32::from).or_else(|| row?.max_output),
            price: entry.price.clone().or_else(|| Some(row?.price.clone())),
        }
    }

    /// The models that are known by a name of their own, then those of the table whose provider is
    /// configured. Every other id of a provider can be named as well.
    pub fn catalogue(&self) -> Vec<Listed> {
        let aliased = self.aliases().into_iter().filter_map(|alias| {
            let named = self.find(&alias.name).ok()?;
            let facts = self.facts(&named);
            Some(Listed { alias: Some(alias.name), provider: named.provider, id: named.id, facts })
        });
        let mut all: Vec<Listed> = aliased.collect();
        let aliases = all.len();
        for provider in self.providers() {
            for row in models::all().iter().filter(|row| row.provider == provider) {
                let is_it = |one: &Listed| one.provider == provider && one.id == row.id;
                if all[..aliases].iter().any(is_it) {
                    continue;
                }
                let (provider, id) = (provider.to_owned(), row.id.to_owned());
                let named = Named { entry: self.entry(&provider, &id), provider, id };
                let facts = self.facts(&named);
                all.push(Listed { alias: None, provider: named.provider, id: named.id, facts });
            }
        }
        all
    }
}
