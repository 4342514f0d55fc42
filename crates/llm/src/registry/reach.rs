//! How the server of a provider is reached: its address, and the key that goes there.

use super::{Named, PROBE, Registry};
use crate::api_key::ApiKey;
use crate::capability::{Dialect, TargetFor, preset};
use crate::config::file::ProviderEntry;
use crate::config::layers::Endpoint;
use crate::config::{Key, Layer, Origin, builtin, shown};
use crate::error::LlmError;
use crate::http::Deadlines;
use crate::providers::{Connection, ollama};
use crate::recording::{Header, Tape};

/// Whether a provider's key has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// It has, unless the server is the user's own.
    Needed,
    /// It is sent if it is set.
    IfSet,
}

impl Registry {
    /// How the server of a provider is reached.
    ///
    /// # Errors
    /// `Config` when it has no address, or needs a key that is not set.
    pub fn connection(&self, provider: &str, rule: KeyRule) -> Result<Connection, LlmError> {
        let entry = self.settings.runtime.providers.get(provider);
        let entry = entry.ok_or_else(|| {
            LlmError::Config(format!(
                "there is no provider '{provider}': it is one of {}, or one that you add as \
                 [providers.{}]",
                self.providers().collect::<Vec<_>>().join(", "),
                Key::of([provider])
            ))
        })?;
        let Endpoint { base_url, api_key_env } = self.settings.layers.endpoint(provider);
        let dialect = dialect(provider, entry)?;
        let base_url = self.checked(provider, self.recorded_address(provider).or(base_url))?;
        let key = match api_key_env.filter(|_| !self.is_replay()) {
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
