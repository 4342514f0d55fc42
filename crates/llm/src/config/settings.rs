//! The merged configuration as types: what instructs, and what bears authority.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::file::{
    AgentSection, ConfigFile, HooksSection, McpEntry, Mode, ModelEntry, ProviderEntry, Purpose,
    RetrySection, Rule, SandboxSection, SessionsSection,
};
use super::key::Key;
use super::layers::{Layer, Layers, Setting, Trust};
use super::project::{Class, Standing};
use crate::capability::TargetOverrides;

/// What anybody may say, a repository included: it chooses among what the user has, or takes away.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstructionConfig {
    /// The model to ask.
    pub default_model: Option<String>,
    /// Limits of a turn.
    pub agent: AgentSection,
    /// How failed requests are repeated.
    pub retry: RetrySection,
    /// Further names for models of the user's providers.
    pub aliases: BTreeMap<String, ModelName>,
    /// Calls that ask.
    pub ask: Vec<Rule>,
    /// Calls that never run.
    pub deny: Vec<Rule>,
    /// Files that nobody gets to see, as lines of a `.gitignore`.
    pub mask: Vec<String>,
}

/// A model by the names of its provider and its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelName {
    /// The provider.
    pub provider: String,
    /// The id that requests carry.
    pub id: String,
}

/// What only the program, the user, and a repository under a grant may say. The one exception takes
/// away: a repository's narrower confinement is part of [`Self::sandbox`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrustedRuntimeConfig {
    /// Model servers by name.
    pub providers: BTreeMap<String, ProviderEntry>,
    /// Models by alias.
    pub models: BTreeMap<String, ModelEntry>,
    /// How much happens without asking.
    pub mode: Option<Mode>,
    /// Calls that run without asking.
    pub allow: Vec<Rule>,
    /// How commands are confined.
    pub sandbox: SandboxSection,
    /// How much is kept of sessions and of the log.
    pub sessions: SessionsSection,
    /// Tool servers by name.
    pub mcp: BTreeMap<String, McpEntry>,
    /// Commands that run at fixed points of a session.
    pub hooks: HooksSection,
}

/// The merged configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Every value of every layer.
    pub layers: Layers,
    /// Whether what the repository asks for was granted; none without such a file.
    pub standing: Option<Standing>,
    /// What instructs.
    pub instructions: InstructionConfig,
    /// What bears authority.
    pub runtime: TrustedRuntimeConfig,
}

impl Settings {
    /// The variables that hold the keys of all providers.
    pub fn key_variables(&self) -> Vec<String> {
        let providers = self.runtime.providers.keys();
        providers.filter_map(|provider| self.layers.endpoint(provider).api_key_env).collect()
    }

    /// Reads the layers as types.
    ///
    /// # Errors
    /// A value of a type its key does not take, which only variables and options can hold here.
    pub fn new(layers: Layers, standing: Option<Standing>) -> Result<Self, String> {
        let says = |one: &Setting, key: &Key| match Class::of(key) {
            Class::Authority | Class::AliasName => one.trust != Trust::Untrusted,
            _ => true,
        };
        let trusted = typed(&layers, says)?;
        let aliases = typed(&layers, |one, key| {
            Class::of(key) == Class::AliasName && one.trust == Trust::Untrusted
        })?;
        let instructions = InstructionConfig {
            default_model: trusted.default_model,
            agent: trusted.agent,
            retry: trusted.retry,
            aliases: aliases.models.into_iter().filter_map(named).collect(),
            ask: trusted.permissions.ask,
            deny: trusted.permissions.deny,
            mask: trusted.permissions.mask,
        };
        let mut providers = trusted.providers;
        for (name, entry) in &mut providers {
            entry.overrides = overrides(&layers, name)?;
        }
        let runtime = TrustedRuntimeConfig {
            providers,
            models: trusted.models,
            mode: trusted.permissions.mode,
            allow: trusted.permissions.allow,
            sandbox: trusted.sandbox,
            sessions: trusted.sessions,
            mcp: trusted.mcp,
            hooks: trusted.hooks,
        };
        Ok(Self { layers, standing, instructions, runtime })
    }

    /// What the repository asks for and does not get, as sections and keys.
    pub fn asked(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.layers.refused().map(|(key, _)| asked_name(key)).collect();
        let origins = self.layers.origins_to_approve().iter();
        names.extend(origins.map(|pair| format!("credential origin {pair}")));
        names.dedup();
        names
    }

    /// What would come from the repository in place of something a run cannot do without, so that
    /// nobody who is not asked may go on without it: the endpoint of `provider`, the sandbox, a
    /// required verifier.
    pub fn needs_grant(&self, provider: &str) -> Option<String> {
        let refused = self.layers.missed().find(|(key, one)| match key.names()[..] {
            ["sandbox", ..] => true,
            ["hooks", "stop"] => is_required(&one.value),
            ["providers", name, "kind" | "base_url" | "api_key_env" | "preset"] => name == provider,
            _ => false,
        });
        refused.map(|(key, one)| {
            let what = match key.names()[..] {
                ["sandbox", ..] => "the sandbox".to_owned(),
                ["hooks", ..] => "a required verifier".to_owned(),
                _ => format!("the endpoint of provider '{provider}'"),
            };
            let why = one.refused.as_deref().unwrap_or_default();
            format!(
                "{what} comes from configuration that is not trusted ({}: {key}: {why})",
                one.place
            )
        })
    }

    /// Why the model `name` cannot be asked, if what it needs is in the repository's file and refused.
    pub fn needs_grant_for(&self, name: &str) -> Option<String> {
        let provider = name.split_once(':').map_or(name, |(provider, _)| provider);
        let of = [Key::of(["models", name]), Key::of(["providers", provider])];
        let is_known = of.iter().any(|table| {
            self.layers
                .chains()
                .any(|(key, _)| table.contains(key) && self.layers.value(key).is_some())
        });
        if is_known {
            return None;
        }
        let (key, one) =
            self.layers.refused().find(|(key, _)| of.iter().any(|of| of.contains(key)))?;
        let why = one.refused.as_deref().unwrap_or_default();
        Some(format!(
            "the model '{name}' comes from configuration that is not trusted ({}: {key}: {why})",
            one.place
        ))
    }

    /// The model to ask, and whether that is no more than a repository's wish.
    pub fn default_model(&self) -> Option<(&str, bool)> {
        let name = self.instructions.default_model.as_deref()?;
        let deciding = self.layers.deciding(&Key::of(["default_model"]));
        Some((name, deciding.iter().any(|one| one.layer == Layer::Project)))
    }

    /// The model to ask where a repository's wish cannot be met.
    pub fn users_default_model(&self) -> Option<&str> {
        let chain = self.layers.chain(&Key::of(["default_model"]));
        chain.iter().rfind(|one| one.layer != Layer::Project)?.value.as_str()
    }

    /// Keys that are set, would count, and are not acted on by this version.
    pub fn not_enforced(&self) -> Vec<String> {
        let is_later = |key: &Key| matches!(key.names()[..], ["mcp" | "hooks", ..]);
        let mut all: Vec<String> = (self.layers.chains())
            .filter(|(key, _)| is_later(key))
            .flat_map(|(key, _)| self.layers.deciding(key).into_iter().map(move |one| (key, one)))
            .filter(|(_, one)| one.layer > Layer::BuiltIn && one.value != json!([]))
            .map(|(key, one)| format!("{} ({})", asked_name(key), one.place))
            .collect();
        all.dedup_by(|a, b| a.split(" (").next() == b.split(" (").next());
        all
    }
}

/// A section or a key as a person calls it: a hook is one thing, not a list of tables.
fn asked_name(key: &Key) -> String {
    match key.names()[..] {
        ["hooks", event] => format!("hook {event}"),
        ["mcp", name, ..] => format!("mcp {name}"),
        _ => key.to_string(),
    }
}

fn is_required(hooks: &Value) -> bool {
    let required = |hook: &Value| {
        Purpose::deserialize(&hook["purpose"]).is_ok_and(|purpose| purpose == Purpose::Required)
    };
    hooks.as_array().is_some_and(|hooks| hooks.iter().any(required))
}

/// The single peculiarities that are told of a provider.
fn overrides(layers: &Layers, provider: &str) -> Result<TargetOverrides, String> {
    let mut told = Map::new();
    for field in TargetOverrides::FIELDS {
        if let Some(value) = layers.value(&Key::of(["providers", provider, field])) {
            told.insert((*field).to_owned(), value);
        }
    }
    TargetOverrides::deserialize(&Value::Object(told)).map_err(|error| error.to_string())
}

fn named((alias, entry): (String, ModelEntry)) -> Option<(String, ModelName)> {
    Some((alias, ModelName { provider: entry.provider?, id: entry.id? }))
}

/// The settings that hold and that `counts` lets through, as one file's types.
fn typed(layers: &Layers, counts: impl Fn(&Setting, &Key) -> bool) -> Result<ConfigFile, String> {
    let mut root = Map::new();
    for (key, _) in layers.chains() {
        let deciding = layers.deciding(key);
        if deciding.is_empty() || !deciding.iter().all(|one| counts(one, key)) {
            continue;
        }
        if let Some(value) = layers.value(key) {
            insert(&mut root, &key.names(), value);
        }
    }
    ConfigFile::deserialize(&Value::Object(root)).map_err(|error| error.to_string())
}

fn insert(table: &mut Map<String, Value>, names: &[&str], value: Value) {
    match names {
        [] => {}
        [name] => {
            table.insert((*name).to_owned(), value);
        }
        [name, rest @ ..] => {
            let inner = table.entry(*name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}
