//! The layers of the configuration, merged key by key, each value with where it comes from.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::builtin::{self, FromVariable};
use super::key::Key;
use super::origin::{CredentialOrigin, Origin};
use super::project::{Class, Project, Standing};
use super::text::{Parsed, Spot};
use crate::capability;

/// Where a value comes from. A later one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The program itself.
    BuiltIn,
    /// The user's own file.
    User,
    /// The repository's file.
    Project,
    /// The user's environment.
    Environment,
    /// A file named on the command line.
    ConfigFlag,
    /// The command line.
    Flag,
}

impl Layer {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::User => "user",
            Self::Project => "project",
            Self::Environment => "environment",
            Self::ConfigFlag => "--config",
            Self::Flag => "flag",
        }
    }
}

/// Whose word a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The program's.
    BuiltIn,
    /// The user's.
    User,
    /// A repository's, granted by the user.
    Granted,
    /// A repository's.
    Untrusted,
}

impl Trust {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::User => "yours",
            Self::Granted => "granted",
            Self::Untrusted => "untrusted",
        }
    }
}

/// The place where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the program.
    Program,
    /// In a file.
    Line(String, usize),
    /// In an environment variable.
    Variable(&'static str),
    /// On the command line.
    Flag(&'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => f.write_str("in anvil"),
            Self::Line(file, line) => write!(f, "{file}:{line}"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One value of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// Its layer.
    pub layer: Layer,
    /// Where it stands.
    pub place: Place,
    /// Whose word it is.
    pub trust: Trust,
    /// Why it does not apply, if it is refused.
    pub refused: Option<String>,
    /// Where the rules in it stand, in their order; empty for all other values.
    pub spots: Vec<Spot>,
}

impl Setting {
    fn new(value: Value, layer: Layer, place: Place, trust: Trust) -> Self {
        Self { value, layer, place, trust, refused: None, spots: Vec::new() }
    }
}

/// What goes into a configuration.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// The user's file.
    pub user: Option<&'a Parsed>,
    /// The repository's file and what was decided about it.
    pub project: Option<&'a Project>,
    /// What the environment sets.
    pub environment: Vec<FromVariable>,
    /// The file named on the command line.
    pub config_flag: Option<&'a Parsed>,
    /// What single options set.
    pub flags: Vec<(Key, &'static str, Value)>,
}

/// Where a provider is, and what opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address; none where nobody told it.
    pub base_url: Option<String>,
    /// The variable that holds the key; none where no key is sent.
    pub api_key_env: Option<String>,
}

/// The merged configuration: for each key every value, the lowest layer first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layers {
    chains: BTreeMap<Key, Vec<Setting>>,
    origins_to_approve: Vec<CredentialOrigin>,
}

impl Layers {
    /// Merges the sources.
    pub fn merge(sources: Sources<'_>) -> Self {
        let mut own = Self::default();
        own.add_users(&sources);
        let Some(project) = sources.project else { return own };
        let mut merged = own.clone();
        merged.add_project(project, &own);
        merged.bind_keys(project, &own);
        merged
    }

    fn add_users(&mut self, sources: &Sources<'_>) {
        for (key, value) in builtin::settings() {
            self.push(key, value, Layer::BuiltIn, Place::Program, Trust::BuiltIn);
        }
        self.add_file(sources.user, Layer::User);
        for one in &sources.environment {
            let place = Place::Variable(one.variable);
            self.push(one.key.clone(), one.value.clone(), Layer::Environment, place, Trust::User);
        }
        self.add_file(sources.config_flag, Layer::ConfigFlag);
        for (key, flag, value) in &sources.flags {
            let place = Place::Flag(flag);
            self.push(key.clone(), value.clone(), Layer::Flag, place, Trust::User);
        }
    }

    fn add_file(&mut self, file: Option<&Parsed>, layer: Layer) {
        let Some(file) = file else { return };
        for leaf in &file.leaves {
            let place = Place::Line(file.file.clone(), leaf.line);
            let key = leaf.key.clone();
            let mut setting = Setting::new(leaf.value.clone(), layer, place, Trust::User);
            setting.spots.clone_from(&leaf.spots);
            self.chains.entry(key).or_default().push(setting);
        }
    }

    fn push(&mut self, key: Key, value: Value, layer: Layer, place: Place, trust: Trust) {
        self.chains.entry(key).or_default().push(Setting::new(value, layer, place, trust));
    }

    /// Puts the repository's values between the user's file and the environment, and says of each
    /// that does not apply why.
    fn add_project(&mut self, project: &Project, own: &Self) {
        let is_users = |key: &Key| own.chains.keys().any(|known| key.contains(known));
        for leaf in &project.parsed().leaves {
            let chain = self.chains.entry(leaf.key.clone()).or_default();
            let at = chain.iter().position(|one| one.layer > Layer::Project).unwrap_or(chain.len());
            let below = chain[..at].last().map(|one| &one.value);
            let refused = project.refusal(&leaf.key, &leaf.value, below, &is_users);
            let is_granted = project.standing() == Standing::Granted;
            let is_covered = is_granted && Class::of(&leaf.key).needs_grant();
            let trust = if is_covered { Trust::Granted } else { Trust::Untrusted };
            let place = Place::Line(project.parsed().file.clone(), leaf.line);
            let value = leaf.value.clone();
            let mut setting = Setting::new(value, Layer::Project, place, trust);
            setting.refused = refused;
            setting.spots.clone_from(&leaf.spots);
            chain.insert(at, setting);
        }
    }

    /// Lets a key go only to servers it belongs to: where the user has it sent, or where a
    /// decision of its own lets it go. Trust in the folder alone does not.
    fn bind_keys(&mut self, project: &Project, own: &Self) {
        let belongs: Vec<CredentialOrigin> =
            own.provider_names().iter().filter_map(|name| own.credential_origin(name)).collect();
        for name in self.provider_names() {
            let Some(pair) = self.credential_origin(&name) else { continue };
            if own.credential_origin(&name).as_ref() == Some(&pair)
                || belongs.contains(&pair)
                || project.may_send(&pair)
            {
                continue;
            }
            let why = format!("credential origin: {pair} needs a decision of its own");
            for field in ["kind", "base_url", "api_key_env", "preset"] {
                let key = Key::of(["providers", &name, field]);
                for setting in self.chains.get_mut(&key).into_iter().flatten() {
                    if setting.layer == Layer::Project && setting.refused.is_none() {
                        setting.refused = Some(why.clone());
                    }
                }
            }
            self.origins_to_approve.push(pair);
        }
    }

    /// The key of a provider and where it would go; none where no key is sent.
    fn credential_origin(&self, provider: &str) -> Option<CredentialOrigin> {
        let endpoint = self.endpoint(provider);
        // An address that is none reaches nobody.
        let origin = Origin::of(&endpoint.base_url?).ok()?;
        Some(CredentialOrigin { variable: endpoint.api_key_env?, origin })
    }

    /// Where a provider is and which variable holds its key. A preset says both where the address
    /// is left to it; to an address that somebody told, only a key that somebody told is sent.
    pub fn endpoint(&self, provider: &str) -> Endpoint {
        let text = |field| self.text(&Key::of(["providers", provider, field]));
        let told = text("base_url");
        let preset = text("preset").filter(|_| told.is_none());
        let preset = preset.and_then(|name| capability::preset(&name));
        let of_preset = |value: Option<&'static str>| value.map(str::to_owned);
        Endpoint {
            api_key_env: text("api_key_env")
                .or_else(|| of_preset(preset.and_then(|preset| preset.api_key_env))),
            base_url: told.or_else(|| of_preset(preset.and_then(|preset| preset.base_url))),
        }
    }

    /// The providers of all layers.
    pub fn provider_names(&self) -> Vec<String> {
        self.names_below("providers")
    }

    /// The names of the tables in a table of the top level.
    pub fn names_below(&self, table: &str) -> Vec<String> {
        let mut names: Vec<String> = (self.chains.keys())
            .filter_map(|key| match key.names()[..] {
                [first, name, ..] if first == table => Some(name.to_owned()),
                _ => None,
            })
            .collect();
        names.dedup();
        names
    }

    /// Every key with its values, the lowest layer first.
    pub fn chains(&self) -> impl Iterator<Item = (&Key, &[Setting])> {
        self.chains.iter().map(|(key, chain)| (key, chain.as_slice()))
    }

    /// The values of one key, the lowest layer first.
    pub fn chain(&self, key: &Key) -> &[Setting] {
        self.chains.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The settings that make up the value of a key: the highest one, or all where lists add up.
    pub fn deciding(&self, key: &Key) -> Vec<&Setting> {
        let mut applies = self.chain(key).iter().filter(|one| one.refused.is_none());
        match adds_up(key) {
            true => applies.collect(),
            false => applies.next_back().into_iter().collect(),
        }
    }

    /// The value that holds.
    pub fn value(&self, key: &Key) -> Option<Value> {
        let deciding = self.deciding(key);
        if !adds_up(key) {
            return deciding.first().map(|one| one.value.clone());
        }
        let items = deciding.iter().filter_map(|one| one.value.as_array()).flatten();
        (!deciding.is_empty()).then(|| Value::Array(items.cloned().collect()))
    }

    /// The text that holds.
    pub fn text(&self, key: &Key) -> Option<String> {
        self.value(key)?.as_str().map(str::to_owned)
    }

    /// What a repository asks for and does not get.
    pub fn refused(&self) -> impl Iterator<Item = (&Key, &Setting)> {
        self.chains.iter().filter_map(|(key, chain)| {
            chain.iter().find(|one| one.refused.is_some()).map(|one| (key, one))
        })
    }

    /// The part of it that would hold if it were granted, because nothing above replaces it.
    pub fn missed(&self) -> impl Iterator<Item = (&Key, &Setting)> {
        self.refused().filter(|(key, one)| {
            adds_up(key) || self.chain(key).last().is_some_and(|last| last == *one)
        })
    }

    /// Keys that would go to servers they do not belong to.
    pub fn origins_to_approve(&self) -> &[CredentialOrigin] {
        &self.origins_to_approve
    }
}

/// Lists to which each layer adds: nobody's rule or hook makes another's disappear.
fn adds_up(key: &Key) -> bool {
    matches!(key.names()[..], ["permissions", "allow" | "ask" | "deny" | "mask"] | ["hooks", _])
}
