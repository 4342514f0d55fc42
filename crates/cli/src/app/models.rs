//! Which model answers: what is named on the command line or configured, if it may be asked.

use std::sync::Arc;

use agent::agent::ModelRef;
use llm::capability::{Effort, Efforts};
use llm::config::{Key, Layer, Settings};
use llm::recording::Tape;
use llm::registry::Named;
use llm::{LlmError, Provider, Registry, ResolvedModel};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as WordError, StrDeserializer};

use super::StartError;
use super::room::Room;

/// A model ready to be asked.
pub(crate) struct Resolved {
    /// Who is asked.
    pub(crate) provider: Arc<dyn Provider>,
    /// For what.
    pub(crate) model: ModelRef,
    /// What a person has to know about the choice.
    pub(crate) notice: Option<String>,
    /// How much of a request the server takes in.
    pub(crate) room: Room,
}

/// A model that is to be tried.
pub(crate) struct Trial {
    /// Where it comes from.
    pub(crate) models: Registry,
    /// What its name means.
    pub(crate) named: Named,
    /// Who is asked.
    pub(crate) provider: Arc<dyn Provider>,
    /// The id that requests carry.
    pub(crate) id: String,
    /// How people write it.
    pub(crate) label: String,
}

/// Whether somebody sees what a repository was refused and can decide about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Witness {
    /// A person in front of the terminal.
    Person,
    /// Nobody: what is not trusted ends the run.
    Nobody,
}

/// The models that can be named.
pub(crate) struct Models {
    registry: Registry,
    effort: Option<String>,
    /// The model to begin with whatever is configured.
    recorded: Option<String>,
}

impl Models {
    /// The models of a configuration; `effort` is what the command line asks for.
    pub(crate) fn new(settings: Settings, effort: Option<String>) -> Self {
        let variables = Arc::new(|name: &str| super::var(name));
        Self { registry: Registry::new(Arc::new(settings), variables), effort, recorded: None }
    }

    /// The same with requests that go past `tape`, and the model to begin with that it names.
    pub(crate) fn past(mut self, tape: Option<Tape>, recorded: Option<String>) -> Self {
        self.registry = self.registry.with_tape(tape);
        self.recorded = recorded;
        self
    }

    /// The address of the server behind a model called `provider:model-id`, as a recording keeps it.
    pub(crate) fn shown_address(&self, label: &str) -> Option<String> {
        self.registry.shown_address(label.split(':').next()?)
    }

    /// What the requests go past.
    pub(crate) fn tape(&self) -> Option<&Tape> {
        self.registry.tape()
    }

    /// The model that a run begins with.
    ///
    /// # Errors
    /// What is missing, wrong or not trusted, and how to go on.
    pub(crate) async fn first(&self, witness: Witness) -> Result<Resolved, StartError> {
        if self.recorded.is_some() {
            return self.asked_for(self.recorded.as_deref(), witness).await;
        }
        let settings = self.registry.settings();
        let Some((name, is_wish)) = settings.default_model() else {
            return self.asked_for(None, witness).await;
        };
        let wanted = self.asked_for(Some(name), witness).await;
        match wanted {
            Err(StartError::Untrusted(why)) if witness == Witness::Nobody => {
                Err(StartError::Untrusted(why))
            }
            // A repository's wish that cannot be met stops nobody.
            Err(StartError::Untrusted(why) | StartError::Config(why)) if is_wish => {
                let resolved = self.asked_for(settings.users_default_model(), witness).await?;
                let notice = format!("the repository's default_model '{name}' is not used: {why}");
                Ok(Resolved { notice: Some(notice), ..resolved })
            }
            Err(StartError::Config(why)) if self.registry.find(name).is_err() => {
                Err(StartError::Config(self.where_named() + &why))
            }
            other => other,
        }
    }

    /// Where the model was named that a run begins with, to stand before what is wrong with the name;
    /// nothing where that was on the command line, which the person has just written.
    fn where_named(&self) -> String {
        let key = Key::of(["default_model"]);
        match self.registry.settings().layers.deciding(&key).first() {
            Some(one) if one.layer != Layer::Flag => format!("{}: ", one.place),
            _ => String::new(),
        }
    }

    /// The model called `name` in the middle of a conversation.
    ///
    /// # Errors
    /// What is missing, wrong or not trusted, and how to go on.
    pub(crate) async fn switch(&self, name: &str) -> Result<Resolved, StartError> {
        let named = self.find(Some(name)).await?;
        let mut resolved = self.connect(&named)?;
        if let Ok(Some(effort)) = self.effort(&resolved) {
            resolved.effort = Some(effort);
        }
        Ok(self.ready(resolved, named))
    }

    /// The model called `name`, to be tried, which nobody watches.
    ///
    /// # Errors
    /// What is missing, wrong or not trusted, and how to go on.
    pub(crate) async fn trial(&self, name: &str) -> Result<Trial, StartError> {
        let named = self.allowed(Some(name), Witness::Nobody).await?;
        let ResolvedModel { provider, id, label, .. } = self.connect(&named)?;
        Ok(Trial { models: self.registry.clone(), named, provider, id, label })
    }

    async fn asked_for(
        &self,
        name: Option<&str>,
        witness: Witness,
    ) -> Result<Resolved, StartError> {
        let named = self.allowed(name, witness).await?;
        let mut resolved = self.connect(&named)?;
        if let Some(effort) = self.effort(&resolved)? {
            resolved.effort = Some(effort);
        }
        Ok(self.ready(resolved, named))
    }

    /// What a name means, if it may be asked.
    async fn allowed(&self, name: Option<&str>, witness: Witness) -> Result<Named, StartError> {
        let named = self.find(name).await?;
        match self.registry.settings().needs_grant(&named.provider) {
            Some(why) if witness == Witness::Nobody => Err(StartError::Untrusted(why)),
            _ => Ok(named),
        }
    }

    async fn find(&self, name: Option<&str>) -> Result<Named, StartError> {
        if let Some(why) = name.and_then(|name| self.registry.settings().needs_grant_for(name)) {
            return Err(StartError::Untrusted(why));
        }
        self.registry.find_or_default(name).await.map_err(wrong)
    }

    fn ready(&self, model: ResolvedModel, named: Named) -> Resolved {
        let ResolvedModel { provider, label, id, max_tokens, effort, thinking_budget, .. } = model;
        let (price, context) = (model.price, model.context);
        let model = ModelRef { label, id, max_tokens, effort, thinking_budget, price, context };
        let room = Room::new(self.registry.clone(), named);
        Resolved { provider, model, notice: None, room }
    }

    fn connect(&self, named: &Named) -> Result<ResolvedModel, StartError> {
        self.registry.connect(named).map_err(wrong)
    }

    /// The effort that the command line asks for, if the model knows it.
    fn effort(&self, model: &ResolvedModel) -> Result<Option<Effort>, StartError> {
        let Some(word) = self.effort.as_deref() else { return Ok(None) };
        let known = model.target.efforts;
        let deserializer: StrDeserializer<'_, WordError> = word.into_deserializer();
        match Effort::deserialize(deserializer) {
            Ok(effort) if known.contains(effort) => Ok(Some(effort)),
            _ => Err(StartError::Usage(match listed(known) {
                Some(list) => format!("{} takes no --effort {word}: it takes {list}", model.label),
                None => format!("{} takes no --effort", model.label),
            })),
        }
    }
}

fn wrong(error: LlmError) -> StartError {
    StartError::Config(error.to_string())
}

/// The words for a set of efforts.
fn listed(efforts: Efforts) -> Option<String> {
    let words = serde_json::to_value(efforts).ok()?;
    let words: Vec<&str> = words.as_array()?.iter().filter_map(|word| word.as_str()).collect();
    (!words.is_empty()).then(|| words.join(", "))
}
