//! From the name of a model to a provider that can be asked for it.
//!
//! A name is an alias, `PROVIDER:MODEL-ID` (the first colon splits, since ids hold colons too), or a
//! provider alone. [`Registry::find`] says what a name means and [`Registry::connect`] makes it
//! ready, so that in between somebody can decide whether it may be asked at all.

use std::sync::Arc;
use std::time::Duration;

use crate::api_key::ApiKey;
use crate::capability::{Dialect, Effort, PRESETS, Target, TargetFor, preset};
use crate::config::file::{ModelEntry, ProviderEntry};
use crate::config::layers::Endpoint;
use crate::config::{Key, Layer, Origin, Settings, builtin, shown};
use crate::error::LlmError;
use crate::http::Deadlines;
use crate::models::{self, Limits, ModelRow, Price};
use crate::provider::Provider;
use crate::providers::{Connection, connect, ollama, openai_chat};
use crate::recording::{Header, Tape};
use crate::retry::{Retry, RetryPolicy};

pub use facts::{Facts, Listed};

mod facts;

/// How long a local server may take to list its models when none was asked for by name.
const PROBE: Duration = Duration::from_secs(1);

/// Most tokens of one answer that are asked for unless more are configured, where the protocol
/// demands a number: a longer answer is a plan gone wrong more often than a need.
const USUAL_OUTPUT: u32 = 32_000;

/// The value of an environment variable that is set and not empty.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The models that can be named under one configuration.
#[derive(Clone)]
pub struct Registry {
    settings: Arc<Settings>,
    variables: Variables,
    tape: Option<Tape>,
}

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

/// A model ready to be asked.
#[derive(Clone)]
pub struct ResolvedModel {
    /// Who is asked; failures that may pass are tried again.
    pub provider: Arc<dyn Provider>,
    /// How people write it: `provider:model-id`.
    pub label: String,
    /// The id that requests carry.
    pub id: String,
    /// How much it takes and gives.
    pub limits: Limits,
    /// The most tokens of one answer to ask for; 0 leaves it to the server.
    pub max_tokens: u32,
    /// What it costs, if that is known.
    pub price: Option<Price>,
    /// What requests to it may hold.
    pub target: Target,
    /// How hard it is to think, if that is configured.
    pub effort: Option<Effort>,
    /// How many tokens it may think, if that is configured.
    pub thinking_budget: Option<u32>,
}

impl std::fmt::Debug for ResolvedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResolvedModel").field("label", &self.label).finish_non_exhaustive()
    }
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
    /// The models of `settings`, with keys from `variables`.
    pub fn new(settings: Arc<Settings>, variables: Variables) -> Self {
        Self { settings, variables, tape: None }
    }

    /// The same with requests that go past `tape`. For a replay no key is needed.
    #[must_use]
    pub fn with_tape(mut self, tape: Option<Tape>) -> Self {
        self.tape = tape;
        self
    }

    /// What the requests go past.
    pub fn tape(&self) -> Option<&Tape> {
        self.tape.as_ref()
    }

    fn is_replay(&self) -> bool {
        matches!(self.tape, Some(Tape::Replay(_)))
    }

    /// The configuration.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The model called `name`, ready to be asked. Nothing is sent yet.
    ///
    /// # Errors
    /// `Config`: what is missing or wrong, and how to go on.
    pub fn resolve(&self, name: &str) -> Result<ResolvedModel, LlmError> {
        self.connect(&self.find(name)?)
    }

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

    /// Makes a model ready to be asked. Nothing is sent yet.
    ///
    /// # Errors
    /// `Config` when its provider has no address or its key is not set.
    pub fn connect(&self, model: &Named) -> Result<ResolvedModel, LlmError> {
        let rule = if self.is_replay() { KeyRule::IfSet } else { KeyRule::Needed };
        let connection = self.connection(&model.provider, rule)?;
        Ok(self.resolved(model, connection.target, connect(connection)?))
    }

    /// How the server of a provider is reached.
    ///
    /// # Errors
    /// `Config` when it has no address, or needs a key that is not set.
    pub fn connection(&self, provider: &str, rule: KeyRule) -> Result<Connection, LlmError> {
        let entry = self.settings.runtime.providers.get(provider);
        let entry = entry.ok_or_else(|| self.unknown(provider))?;
        let Endpoint { base_url, api_key_env } = self.settings.layers.endpoint(provider);
        let dialect = dialect(provider, entry)?;
        let base_url = self.checked(provider, self.recorded_address(provider).or(base_url))?;
        let key = match api_key_env {
            Some(variable) => self.key(provider, &variable, dialect, rule)?,
            None => None,
        };
        let is_local = provider == builtin::LOCAL;
        let known = entry.preset.as_deref().or(is_local.then_some(provider));
        let target = TargetFor::new(dialect, known, &base_url).with(&entry.overrides);
        let name = provider.to_owned();
        let (deadlines, tape) = (Deadlines::default(), self.tape.clone());
        Ok(Connection { name, base_url, key, target, deadlines, tape })
    }

    /// The address that was asked when the run was recorded: what a request holds depends on it.
    fn recorded_address(&self, provider: &str) -> Option<String> {
        let Some(Tape::Replay(player)) = &self.tape else { return None };
        let Header { model, base_url, .. } = player.header();
        let (recorded, _) = model.as_deref()?.split_once(':')?;
        base_url.clone().filter(|_| recorded == provider)
    }

    /// The address of a provider as a recording keeps it: without what may be secret in it.
    pub fn shown_address(&self, provider: &str) -> Option<String> {
        let connection = self.connection(provider, KeyRule::IfSet).ok()?;
        Some(shown(&connection.base_url))
    }

    /// The address of a provider, if it is one.
    fn checked(&self, provider: &str, base_url: Option<String>) -> Result<String, LlmError> {
        let base_url = base_url.ok_or_else(|| {
            LlmError::Config(format!(
                "provider '{provider}' has no address: add base_url to [providers.{provider}]"
            ))
        })?;
        match Origin::of(&base_url) {
            Ok(_) => Ok(base_url),
            Err(why) => {
                let place = self.place_of_address(provider);
                Err(LlmError::Config(format!("{place}: {why}")))
            }
        }
    }

    /// How many tokens of context the local server has loaded a model with; `None` where no server
    /// tells that, while the model is not loaded, and in a replay.
    pub async fn loaded_context(&self, model: &Named) -> Option<u64> {
        let entry = self.settings.runtime.providers.get(&model.provider)?;
        let is_local = [Some(model.provider.as_str()), entry.preset.as_deref()]
            .contains(&Some(builtin::LOCAL));
        if !is_local || self.is_replay() {
            return None;
        }
        let base_url = self.settings.layers.endpoint(&model.provider).base_url?;
        match ollama::loaded_context(&base_url, &model.id, PROBE).await {
            Ok(context) => context,
            Err(error) => {
                tracing::debug!(%error, "the local server does not tell its context");
                None
            }
        }
    }

    /// A model behind `provider`, with failures that may pass tried again as configured.
    pub fn resolved(
        &self,
        model: &Named,
        target: TargetFor,
        provider: Arc<dyn Provider>,
    ) -> ResolvedModel {
        let Named { provider: name, id, entry } = model;
        let row = self.row(name, id);
        let known = row.map_or(Limits::CAUTIOUS, ModelRow::limits);
        let configured = entry.max_output.map(u32::from);
        let limits = Limits {
            context: entry.context.unwrap_or(known.context),
            max_output: configured.unwrap_or(known.max_output),
        };
        let demands_number = target.dialect() == Dialect::Anthropic;
        let usual = if demands_number { limits.max_output.min(USUAL_OUTPUT) } else { 0 };
        let retry = Retry::new(provider, self.retry_policy());
        // What is replayed need not be waited for.
        let retry = if self.is_replay() { retry.without_delays() } else { retry };
        ResolvedModel {
            provider: Arc::new(retry),
            label: format!("{name}:{id}"),
            id: id.clone(),
            limits,
            max_tokens: configured.unwrap_or(usual),
            price: entry.price.clone().or_else(|| row.map(|row| row.price.clone())),
            target: target.of(id),
            effort: entry.effort,
            thinking_budget: entry.thinking_budget,
        }
    }

    /// The built-in row of a model: by the provider's name, its preset, or the service at its
    /// address.
    fn row(&self, provider: &str, id: &str) -> Option<&'static ModelRow> {
        let entry = self.settings.runtime.providers.get(provider);
        let preset = entry.and_then(|entry| entry.preset.as_deref());
        let origin = |address: &str| Origin::of(address).ok();
        let own = self.settings.layers.endpoint(provider).base_url.as_deref().and_then(origin);
        let services = PRESETS
            .iter()
            .filter(|service| own.is_some() && service.base_url.and_then(origin) == own);
        let mut names =
            [Some(provider), preset].into_iter().flatten().chain(services.map(|one| one.name));
        names.find_map(|name| models::builtin(name, id))
    }

    /// How often failed requests are repeated.
    pub fn retry_policy(&self) -> RetryPolicy {
        let (told, usual) = (&self.settings.instructions.retry, RetryPolicy::default());
        RetryPolicy {
            max_attempts: told.max_attempts.map_or(usual.max_attempts, u32::from),
            deadline: told.deadline_s.map_or(usual.deadline, Duration::from_secs),
            ..usual
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

    /// The variable that holds the key of a provider, and whether it is set; nothing where no key is
    /// sent.
    pub fn key_variable(&self, provider: &str) -> Option<(String, bool)> {
        let variable = self.settings.layers.endpoint(provider).api_key_env?;
        let is_set = (self.variables)(&variable).is_some();
        Some((variable, is_set))
    }

    fn key(
        &self,
        provider: &str,
        variable: &str,
        dialect: Dialect,
        rule: KeyRule,
    ) -> Result<Option<ApiKey>, LlmError> {
        match (self.variables)(variable) {
            Some(text) => ApiKey::new(&text)
                .map(Some)
                .map_err(|error| LlmError::Config(format!("{variable}: {error}"))),
            None if rule == KeyRule::IfSet || self.is_own_server(provider, dialect) => Ok(None),
            None => Err(LlmError::Config(format!(
                "{variable} is not set (needed by provider '{provider}')"
            ))),
        }
    }

    /// Whether the user put a compatible server of his own in the place of a built-in service, whose
    /// key it then may not need.
    fn is_own_server(&self, provider: &str, dialect: Dialect) -> bool {
        let layer = |field| {
            let key = Key::of(["providers", provider, field]);
            self.settings.layers.deciding(&key).first().map(|one| one.layer)
        };
        matches!(dialect, Dialect::OpenaiChat | Dialect::OpenaiResponses)
            && layer("api_key_env") == Some(Layer::BuiltIn)
            && layer("base_url") != Some(Layer::BuiltIn)
    }

    /// Where the address of a provider was written.
    fn place_of_address(&self, provider: &str) -> String {
        let key = Key::of(["providers", provider, "base_url"]);
        let deciding = self.settings.layers.deciding(&key);
        deciding.first().map_or_else(|| key.to_string(), |one| one.place.to_string())
    }

    /// What the configuration says of a model that is named by its id: its facts, under whatever
    /// alias they stand. How hard it thinks is said for one alias, not for the model.
    fn entry(&self, provider: &str, id: &str) -> ModelEntry {
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
        LlmError::Config(format!(
            "there is no model '{name}': write one of the aliases {}, or PROVIDER:MODEL-ID, where \
             PROVIDER is one of {}",
            aliases.join(", "),
            providers.join(", ")
        ))
    }
}

/// Whether a provider's key has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// It has, unless the server is the user's own.
    Needed,
    /// It is sent if it is set.
    IfSet,
}

/// The dialect of a provider: its own, or else its preset's.
fn dialect(provider: &str, entry: &ProviderEntry) -> Result<Dialect, LlmError> {
    let of_preset = || Some(preset(entry.preset.as_deref()?)?.dialect);
    entry.kind.or_else(of_preset).ok_or_else(|| {
        let kinds = Dialect::ALL.map(Dialect::name).join(", ");
        LlmError::Config(format!(
            "provider '{provider}' has no kind: add kind, one of {kinds}, to [providers.{provider}]"
        ))
    })
}

fn named(alias: &str, entry: &ModelEntry) -> Result<Named, LlmError> {
    let missing = |what| {
        LlmError::Config(format!("model '{alias}' has no {what}: add it to [models.{alias}]"))
    };
    let provider = entry.provider.clone().ok_or_else(|| missing("provider"))?;
    let id = entry.id.clone().ok_or_else(|| missing("id"))?;
    Ok(Named { provider, id, entry: entry.clone() })
}

#[cfg(test)]
mod tests;
