//! What names mean, and which model is meant where none is named.

use super::{KeyRule, PROBE, Registry};
use crate::capability::preset;
use crate::config::file::ModelEntry;
use crate::config::key::nearest;
use crate::config::{Key, Origin, builtin};
use crate::error::LlmError;
use crate::models;
use crate::providers::openai_chat;

/// What a name means.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The provider.
    pub provider: String,
    /// The id that requests carry.
    pub id: String,
    /// What the configuration says about the model.
    pub entry: ModelEntry,
}

/// An alias and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alias {
    /// What people write.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// The id that requests carry.
    pub id: String,
}

impl Registry {
    /// What `name` means.
    ///
    /// # Errors
    /// `Config` when it means nothing, with the names that mean something.
    pub fn find(&self, name: &str) -> Result<Named, LlmError> {
        let runtime = &self.settings.runtime;
        if let Some(entry) = runtime.models.get(name) {
            return named(name, entry);
        }
        if let Some(alias) = self.settings.instructions.aliases.get(name) {
            let (provider, id) = (alias.provider.clone(), alias.id.clone());
            return Ok(Named { entry: self.entry(&provider, &id), provider, id });
        }
        let (provider, id) = match name.split_once(':') {
            Some((provider, id)) => (provider, Some(id.trim())),
            None => (name, None),
        };
        if !runtime.providers.contains_key(provider) {
            return Err(self.unknown(name));
        }
        let id = match id {
            Some(id) if !id.is_empty() => id.to_owned(),
            Some(_) => {
                return Err(LlmError::Config(format!(
                    "'{name}' names no model: write {provider}:MODEL-ID"
                )));
            }
            None => self.first_model(provider).ok_or_else(|| {
                LlmError::Config(format!(
                    "provider '{provider}' has no model of its own: write {provider}:MODEL-ID"
                ))
            })?,
        };
        let provider = provider.to_owned();
        Ok(Named { entry: self.entry(&provider, &id), provider, id })
    }

    /// The same for a name that may be missing, or may need a look at what a local server has: without
    /// a name the first built-in provider whose key is set, or else the local server's first model.
    ///
    /// # Errors
    /// `Config`: what is missing or wrong, and how to go on.
    pub async fn find_or_default(&self, name: Option<&str>) -> Result<Named, LlmError> {
        let local = builtin::LOCAL;
        match name {
            Some(name) if name == local && !self.is_alias(local) => {
                let id = self.first_local_model().await.map_err(LlmError::Config)?;
                self.find(&format!("{local}:{id}"))
            }
            Some(name) => self.find(name),
            None => match self.first_with_key() {
                Some(provider) => self.find(provider),
                None => match self.first_local_model().await {
                    Ok(id) => self.find(&format!("{local}:{id}")),
                    Err(why) => Err(LlmError::Config(self.no_model(&why))),
                },
            },
        }
    }

    /// All aliases, by name.
    pub fn aliases(&self) -> Vec<Alias> {
        let configured = self.settings.runtime.models.iter().filter_map(|(name, entry)| {
            let named = named(name, entry).ok()?;
            Some(Alias { name: name.clone(), provider: named.provider, id: named.id })
        });
        let wished = self.settings.instructions.aliases.iter().map(|(name, model)| Alias {
            name: name.clone(),
            provider: model.provider.clone(),
            id: model.id.clone(),
        });
        let mut all: Vec<Alias> = configured.chain(wished).collect();
        all.sort();
        all
    }

    /// The names of all providers.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.settings.runtime.providers.keys().map(String::as_str)
    }

    /// What the configuration says of a model that is named by its id: its facts, under whatever
    /// alias they stand. How hard it thinks is said for one alias, not for the model.
    pub(super) fn entry(&self, provider: &str, id: &str) -> ModelEntry {
        let told = self.settings.runtime.models.values().filter(|entry| {
            entry.provider.as_deref() == Some(provider) && entry.id.as_deref() == Some(id)
        });
        told.fold(ModelEntry::default(), |facts, entry| ModelEntry {
            context: facts.context.or(entry.context),
            max_output: facts.max_output.or(entry.max_output),
            price: facts.price.or_else(|| entry.price.clone()),
            ..facts
        })
    }

    /// The model of a provider that is named alone.
    fn first_model(&self, provider: &str) -> Option<String> {
        if let Some(model) = builtin::provider(provider).and_then(|known| known.model) {
            return Some(model.to_owned());
        }
        let mut entries = self.settings.runtime.models.values();
        entries.find(|entry| entry.provider.as_deref() == Some(provider))?.id.clone()
    }

    fn is_alias(&self, name: &str) -> bool {
        self.settings.runtime.models.contains_key(name)
            || self.settings.instructions.aliases.contains_key(name)
    }

    fn first_with_key(&self) -> Option<&'static str> {
        let has_key = |name| self.key_variable(name).is_some_and(|(_, is_set)| is_set);
        let mut known = builtin::PROVIDERS.iter().filter(|known| known.model.is_some());
        known.find(|known| has_key(known.name)).map(|known| known.name)
    }

    async fn first_local_model(&self) -> Result<String, String> {
        let name = builtin::LOCAL;
        if self.is_replay() {
            return Err("a replay asks no server".to_owned());
        }
        let server = self.connection(name, KeyRule::IfSet).map_err(|error| error.to_string())?;
        let shown = Origin::of(&server.base_url)?.to_string();
        let shown = shown.split_once("://").map_or(shown.as_str(), |(_, rest)| rest).to_owned();
        let listed = openai_chat::list_models(server.key, &server.base_url, PROBE).await;
        let models = listed.map_err(|error| format!("{name} at {shown}: {error}"))?;
        models.into_iter().next().ok_or_else(|| format!("{name} at {shown} lists no model"))
    }

    /// What to do where there is nobody to ask.
    fn no_model(&self, why: &str) -> String {
        // Whoever set an address meant that server, and would look for the fault anywhere else.
        let moved = builtin::PROVIDERS.iter().find_map(|known| {
            let (variable, address) = (known.preset().api_key_env?, known.url_variable?);
            (self.variables)(address).is_some().then_some((variable, address))
        });
        match moved {
            Some((variable, address)) => format!(
                "{address} is set but {variable} is not: set it too (to any word, for a server that \
                 wants no key), or name a model with -m"
            ),
            None => builtin::no_model(why),
        }
    }

    fn unknown(&self, name: &str) -> LlmError {
        let aliases: Vec<String> = self.aliases().into_iter().map(|alias| alias.name).collect();
        let providers: Vec<&str> = self.providers().collect();
        let hint = hint(name, &aliases, &providers)
            .map_or("write".to_owned(), |hint| format!("{hint} Otherwise write"));
        LlmError::Config(format!(
            "there is no model '{name}': {hint} one of the aliases {}, or PROVIDER:MODEL-ID, where \
             PROVIDER is one of {}",
            aliases.join(", "),
            providers.join(", ")
        ))
    }
}

/// What a name without a meaning was probably meant to be.
fn hint(name: &str, aliases: &[String], providers: &[&str]) -> Option<String> {
    let (provider, id) = name.split_once(':').map_or((name, None), |(p, id)| (p, Some(id)));
    if let Some(known) = preset(provider) {
        let mut lines = vec![format!("preset = \"{provider}\"")];
        lines.extend(known.api_key_env.map(|variable| format!("api_key_env = \"{variable}\"")));
        lines.extend(known.base_url.is_none().then(|| "base_url = \"https://…\"".to_owned()));
        return Some(format!(
            "add [providers.{}] with {} to your configuration.",
            Key::of([provider]),
            lines.join(", ")
        ));
    }
    let near = match id {
        Some(id) => format!("{}:{id}", nearest(provider, providers.iter().copied())?),
        None => match models::all()
            .iter()
            .find(|row| row.id == name && providers.contains(&row.provider))
        {
            Some(row) => format!("{}:{name}", row.provider),
            None => {
                let known = aliases.iter().map(String::as_str).chain(providers.iter().copied());
                nearest(name, known)?.to_owned()
            }
        },
    };
    Some(format!("did you mean '{near}'?"))
}

fn named(alias: &str, entry: &ModelEntry) -> Result<Named, LlmError> {
    let missing = |what| {
        LlmError::Config(format!("model '{alias}' has no {what}: add it to [models.{alias}]"))
    };
    let provider = entry.provider.clone().ok_or_else(|| missing("provider"))?;
    let id = entry.id.clone().ok_or_else(|| missing("id"))?;
    Ok(Named { provider, id, entry: entry.clone() })
}
