//! What a repository's own file may say, and what of it needs a person's word first.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::digest::Request;
use super::file::{Network, SandboxMode};
use super::key::Key;
use super::origin::CredentialOrigin;
use super::text::Parsed;

/// How much authority lies in a key, whatever its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A wish among what the user has.
    Wish,
    /// A limit that a repository may lower.
    Limit,
    /// Rules that only take away.
    TakeAway,
    /// Files that nobody gets to see. A repository may hide more, and makes nothing visible.
    Hiding,
    /// The name of a model: a new alias for one that the user could name too.
    AliasName,
    /// A confinement that a repository may narrow.
    Confinement,
    /// Commands, endpoints, credentials, permissions: nothing without a grant.
    Authority,
}

impl Class {
    /// The class of a key. What is not known to be harmless is not.
    pub fn of(key: &Key) -> Self {
        match key.names()[..] {
            ["default_model"] => Self::Wish,
            // Whether programs start on their own is the user's.
            ["agent", "ask_programs"] => Self::Authority,
            ["agent" | "retry", ..] => Self::Limit,
            ["permissions", "deny" | "ask"] => Self::TakeAway,
            ["permissions", "mask"] => Self::Hiding,
            ["models", _, "provider" | "id"] => Self::AliasName,
            // None of them is the narrower one.
            ["sandbox", "backend"] => Self::Authority,
            ["sandbox", ..] => Self::Confinement,
            _ => Self::Authority,
        }
    }

    /// Whether a grant covers it, so that it is part of the digest.
    pub fn needs_grant(self) -> bool {
        matches!(self, Self::AliasName | Self::Confinement | Self::Authority)
    }
}

/// A person's word about one folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// Of what was granted.
    pub digest: String,
    /// What was granted, to show what changed since.
    pub request: Request,
    /// Keys that may go to further servers, decided one by one.
    #[serde(default)]
    pub credential_origins: Vec<CredentialOrigin>,
}

/// Whether what a repository asks for was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It asks for nothing.
    NotNeeded,
    /// It was, as it is now.
    Granted,
    /// Something else was.
    Changed,
    /// Nothing was.
    Never,
}

/// A repository's file with what was decided about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    parsed: Parsed,
    standing: Standing,
    credential_origins: Vec<CredentialOrigin>,
}

impl Project {
    /// The file `parsed`, which asks for `request`, under `grant`. Only an equal digest counts.
    pub fn new(parsed: Parsed, request: &Request, grant: Option<&Grant>) -> Self {
        let standing = match grant {
            _ if request.is_empty() => Standing::NotNeeded,
            Some(grant) if grant.digest == request.digest() => Standing::Granted,
            Some(_) => Standing::Changed,
            None => Standing::Never,
        };
        let approved = grant.filter(|_| standing == Standing::Granted);
        let credential_origins = approved.map(|grant| grant.credential_origins.clone());
        Self { parsed, standing, credential_origins: credential_origins.unwrap_or_default() }
    }

    /// The file.
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// Whether its authority was granted.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    pub(super) fn may_send(&self, pair: &CredentialOrigin) -> bool {
        self.credential_origins.contains(pair)
    }

    /// Why this value of the file does not apply, if it does not. `below` is the value that holds
    /// without it, `is_users` says whether the user's own layers know a key.
    pub(super) fn refusal(
        &self,
        key: &Key,
        value: &Value,
        below: Option<&Value>,
        is_users: &dyn Fn(&Key) -> bool,
    ) -> Option<String> {
        let is_free = match Class::of(key) {
            Class::Wish | Class::TakeAway => true,
            Class::Hiding if !shows_again(value) => true,
            // Whatever was granted, what the user hides stays hidden.
            Class::Hiding => return Some("a repository can only hide more".to_owned()),
            Class::Limit if is_at_most(value, below) => true,
            // No grant makes a limit of the user's looser: it is not part of what is granted.
            Class::Limit => return Some("a repository can only lower it".to_owned()),
            Class::AliasName => self.is_new_name(key, is_users),
            Class::Confinement => is_narrower(key, value, below),
            Class::Authority => false,
        };
        match self.standing {
            _ if is_free => None,
            Standing::NotNeeded | Standing::Granted => None,
            Standing::Changed => Some("it changed since this folder was trusted".to_owned()),
            Standing::Never => Some("this folder is not trusted".to_owned()),
        }
    }

    /// Whether the key is part of an alias that means nothing to the user yet, neither as an alias
    /// nor as a provider with or without a model, and leads to a provider of the user's.
    fn is_new_name(&self, key: &Key, is_users: &dyn Fn(&Key) -> bool) -> bool {
        let ["models", alias, _] = key.names()[..] else { return false };
        let entry = Key::of(["models", alias]);
        let leaves = &self.parsed.leaves;
        let provider_key = entry.child("provider");
        let at = leaves.binary_search_by(|leaf| leaf.key.cmp(&provider_key));
        let provider = at.ok().and_then(|at| leaves[at].value.as_str()).unwrap_or_default();
        let is_provider = |name: &str| is_users(&Key::of(["providers", name]));
        let meant = alias.split_once(':').map_or(alias, |(provider, _)| provider);
        !is_users(&entry) && !is_provider(meant) && is_provider(provider)
    }
}

fn is_at_most(value: &Value, below: Option<&Value>) -> bool {
    match (value.as_f64(), below.and_then(Value::as_f64)) {
        (Some(value), Some(below)) => value <= below,
        _ => false,
    }
}

/// Whether a list of masks has a line that makes something visible again.
fn shows_again(masks: &Value) -> bool {
    let mut lines = masks.as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.any(|line| line.trim_start().starts_with('!'))
}

/// Whether a value of the sandbox lets commands do nothing that the one below does not.
fn is_narrower(key: &Key, value: &Value, below: Option<&Value>) -> bool {
    fn read<T: for<'de> Deserialize<'de>>(value: &Value) -> Option<T> {
        T::deserialize(value).ok()
    }
    match key.names()[..] {
        ["sandbox", "mode"] => {
            let mode = |value| read::<SandboxMode>(value);
            matches!((mode(value), below.and_then(mode)), (Some(own), Some(below)) if own <= below)
        }
        ["sandbox", "network"] => {
            let network = |value| read::<Network>(value);
            let both = network(value).zip(below.and_then(network));
            both.is_some_and(|(own, below)| own.is_within(&below))
        }
        ["sandbox", "env_passthrough"] => {
            let names = |value| read::<Vec<String>>(value).unwrap_or_default();
            let below = below.map(names).unwrap_or_default();
            names(value).iter().all(|name| below.contains(name))
        }
        _ => false,
    }
}
