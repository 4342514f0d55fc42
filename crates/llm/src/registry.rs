//! From the name of a model to a provider that can be asked for it.
//!
//! A name is an alias, `PROVIDER:MODEL-ID` (the first colon splits, since ids hold colons too), or a
//! provider alone. [`Registry::find`] says what a name means and [`Registry::connect`] makes it
//! ready, so that in between somebody can decide whether it may be asked at all.

use std::sync::Arc;
use std::time::Duration;

use crate::capability::{Dialect, Effort, PRESETS, Target, TargetFor};
use crate::config::{Origin, Settings};
use crate::error::LlmError;
use crate::models::{self, Limits, ModelRow, Price};
use crate::provider::Provider;
use crate::providers::connect;
use crate::recording::Tape;
use crate::retry::{Retry, RetryPolicy};

pub use facts::{Facts, Listed};
pub use names::{Alias, Named};
pub use reach::KeyRule;

mod facts;
mod names;
mod reach;

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
    /// Most tokens of a request and its answer together, if that is known.
    pub context: Option<u64>,
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

/// How long a local server may take to tell something about itself.
const PROBE: Duration = Duration::from_secs(1);

impl Registry {
    /// The models of `settings`, with keys from `variables`.
    pub fn new(settings: Arc<Settings>, variables: Variables) -> Self {
        Self { settings, variables, tape: None }
    }

    /// The same with requests that go past `tape`. A replay names an address that its writer chose:
    /// it has no key and asks no server.
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

    /// Makes a model ready to be asked. Nothing is sent yet.
    ///
    /// # Errors
    /// `Config` when its provider has no address or its key is not set.
    pub fn connect(&self, model: &Named) -> Result<ResolvedModel, LlmError> {
        let connection = self.connection(&model.provider, KeyRule::Needed)?;
        Ok(self.resolved(model, connection.target, connect(connection)?))
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
            context: entry.context.or_else(|| row?.context),
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
}

#[cfg(test)]
mod tests;
