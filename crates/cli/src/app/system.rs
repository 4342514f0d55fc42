//! The system prompt of a run: which base, and what the layers above it are made of.

use std::path::Path;

use agent::context::prompt::{BASE, Prompt, PromptBuilder, VARIABLES};
use agent::context::template::{Template, TemplateError};
use agent::registry::ToolRegistry;
use agent::session::SystemText;
use agent::session::record::{Basis, StampReason};
use agent::session::reduce::State;
use llm::config::digest_of;

use super::config::{self, Configuration, PROJECT_SYSTEM};
use super::inquiry::Inquiry;
use super::{StartError, instructions, surroundings};
use crate::args::Args;

/// What the user's own base is called, beside the configuration file.
const OWN: &str = "SYSTEM.md";

/// A prompt with what there is to say about it.
pub(super) struct Composed {
    /// What is sent.
    pub(super) prompt: Prompt,
    /// What a person has to know, one line each.
    pub(super) notices: Vec<String>,
    /// What it was made from.
    basis: Basis,
    /// The line in it that tells how commands are confined.
    confinement: String,
}

impl Composed {
    /// Why a session that was left in `state` does not go on with its own text, if there is a reason, when
    /// `model` answers.
    pub(super) fn reason_to_stamp(&self, state: &State, model: &str) -> Option<StampReason> {
        let earlier = state.system()?;
        let (sandbox, repository) = match state.basis() {
            Some(Basis { sandbox, repository }) => {
                (*sandbox == self.basis.sandbox, *repository == self.basis.repository)
            }
            // Of an earlier version, which left only the words.
            None => (earlier.lines().any(|line| line == self.confinement.trim_end()), true),
        };
        // Whoever takes trust back means all of what it let in.
        if !repository {
            Some(StampReason::Trust)
        } else if !sandbox {
            // A model that plans with another confinement runs into one that it knows nothing of.
            Some(StampReason::Sandbox)
        } else {
            state.model().filter(|before| *before != model).map(|_| StampReason::Model)
        }
    }

    /// What a person is told where the session goes on with another text because of trust.
    pub(super) fn trust_changed(&self) -> String {
        let how = match self.basis.repository {
            Some(_) => "is trusted as it is now",
            None => "is no longer trusted",
        };
        format!("{PROJECT_SYSTEM} {how}: the session continues with another system prompt")
    }

    /// The text with what it was made from, as it is kept.
    pub(super) fn into_text(self) -> SystemText {
        SystemText { text: self.prompt.text, basis: Some(self.basis) }
    }
}

/// The prompt that a run with these options sends, and what a person has to know about it.
///
/// # Errors
/// When a file of the base cannot be read or is not a template that can be filled in.
pub(super) fn prompt(
    args: &Args,
    configuration: &Configuration,
    cwd: &Path,
    tools: &ToolRegistry,
    inquiry: &Inquiry,
) -> Result<Composed, StartError> {
    let places = &configuration.inputs.places;
    let masks = &configuration.settings.instructions.mask;
    let (own, repository) = instructions::gather(places, cwd, masks)?;
    let mut notices = own.notices;
    notices.extend(repository.notices);
    let facts = surroundings::facts(cwd, inquiry);
    // A recording is to be replayed on any day.
    let is_compared = args.record.is_some() || args.replay.is_some();
    let facts = if is_compared { facts.lasting() } else { facts };
    let builder = PromptBuilder {
        base: base(args, configuration)?,
        workspace: cwd.display().to_string(),
        tools: tools.specs(),
        skills: Vec::new(),
        user: own.instructions,
        repository: repository.instructions,
        environment: facts.told(),
        appended: args.append_system_prompt.clone(),
    };
    let prompt = builder.build().map_err(wrong)?;
    let repository = configuration.project_system().map(|text| digest_of(text.as_bytes()));
    let basis = Basis { sandbox: inquiry.sandbox().terms(), repository };
    Ok(Composed { prompt, notices, basis, confinement: facts.confinement_line() })
}

/// The names that the base takes and nothing fills in, one to a line with its place.
///
/// # Errors
/// As for [`prompt`].
pub(super) fn undeclared(args: &Args, configuration: &Configuration) -> Result<String, StartError> {
    let found = base(args, configuration)?.undeclared(&VARIABLES);
    Ok(found.iter().map(|one| format!("{one}\n")).collect())
}

/// The first layer: named for this run, else the repository's where it is trusted with that, else the
/// user's, else anvil's.
fn base(args: &Args, configuration: &Configuration) -> Result<Template, StartError> {
    let unreadable = |what: &str, path: &Path, error: std::io::Error| {
        StartError::Config(format!("{what}{}: {error}", path.display()))
    };
    let (name, text) = if let Some(file) = &args.system_file {
        let text = config::read_text(file);
        let text = text.map_err(|error| unreadable("--system-file ", file, error))?;
        (file.display().to_string(), text)
    } else if let Some(text) = configuration.project_system() {
        (PROJECT_SYSTEM.to_owned(), text.to_owned())
    } else {
        let places = &configuration.inputs.places;
        let own = places.user_file.as_ref().map(|file| file.with_file_name(OWN));
        let text = match &own {
            Some(file) => {
                config::read_if_there(file).map_err(|error| unreadable("", file, error))?
            }
            None => None,
        };
        match own.zip(text) {
            Some((file, text)) => (file.display().to_string(), text),
            None => ("base.md".to_owned(), BASE.to_owned()),
        }
    };
    // Editors of some systems begin a file with a mark that is no part of it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n");
    Template::parse(&name, &text).map_err(wrong)
}

fn wrong(error: TemplateError) -> StartError {
    StartError::Config(error.to_string())
}
