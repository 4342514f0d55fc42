//! The system prompt of a run: which base, and what the layers above it are made of.

use std::path::Path;

use agent::context::prompt::{BASE, Prompt, PromptBuilder, VARIABLES};
use agent::context::template::{Template, TemplateError};
use agent::registry::ToolRegistry;
use agent::sandbox::SandboxPolicy;

use super::config::{self, Configuration, PROJECT_SYSTEM};
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
    /// The line in it that tells how commands are confined.
    confinement: String,
}

impl Composed {
    /// Whether `earlier`, the text of a session that goes on, tells the model something else about how
    /// commands are confined.
    pub(super) fn confines_otherwise(&self, earlier: &str) -> bool {
        !earlier.lines().any(|line| line == self.confinement.trim_end())
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
    policy: SandboxPolicy,
) -> Result<Composed, StartError> {
    let places = &configuration.inputs.places;
    let masks = &configuration.settings.instructions.mask;
    let (own, repository) = instructions::gather(places, cwd, masks)?;
    let mut notices = own.notices;
    notices.extend(repository.notices);
    let facts = surroundings::facts(cwd, policy, &configuration.roots);
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
    Ok(Composed { prompt, notices, confinement: facts.confinement_line() })
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
