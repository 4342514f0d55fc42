//! From the configuration and the options to what decides: rules, roots and mode, compiled once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::permissions::{Confined, Effect, PolicyParts, RuleError, Rules, Written};
use agent::programs::{PathPrograms, TEMPORARY};
use agent::sandbox::{Sandbox, SandboxPolicy};
use agent::tools::SUBJECTS;
use agent::{PermissionMode, Policy};
use llm::config::file::{Mode, Rule};
use llm::config::{Fault, Key, Parsed, Place, PlacedRule, RuleList, rules_in};
use serde_json::{Value, json};

use super::config::{self, Configuration};
use super::{Environment, StartError, var};
use crate::args::Args;

/// Finds the first permission rule of a file that makes no sense.
pub(super) fn check(file: &Parsed) -> Result<(), Fault> {
    compile(&rules_in(file)).map(drop)
}

/// What single options add to the rules. A `!` at the end of a rule says that it is wide on purpose.
pub(super) fn flags(args: &Args) -> Vec<(Key, &'static str, Value)> {
    let given = [
        (RuleList::Allow, "--allow", &args.allow),
        (RuleList::Ask, "--ask", &args.ask),
        (RuleList::Deny, "--deny", &args.deny),
    ];
    let rule = |text: &String| match text.strip_suffix('!') {
        Some(text) => json!({"rule": text, "unsafe": true}),
        None => json!(text),
    };
    let lists = given.into_iter().filter(|(_, _, rules)| !rules.is_empty());
    lists.map(|(list, flag, rules)| (list.key(), flag, rules.iter().map(rule).collect())).collect()
}

/// Further folders that may be read and written, absolute and without links.
pub(super) fn further_roots(args: &Args) -> Result<Vec<PathBuf>, StartError> {
    let root = |dir: &PathBuf| {
        let wrong = |why: &dyn std::fmt::Display| {
            StartError::Usage(format!("--add-dir {}: {why}", dir.display()))
        };
        let path = dir.canonicalize().map_err(|error| wrong(&error))?;
        if path.is_dir() { Ok(path) } else { Err(wrong(&"not a folder")) }
    };
    args.add_dir.iter().map(root).collect()
}

/// What runs, asks or is refused in `cwd`.
pub(super) fn policy(
    configuration: &Configuration,
    cwd: &Path,
    env: &Environment,
    sandbox: Arc<Sandbox>,
) -> Result<Policy, StartError> {
    let rules = compile(&configuration.settings.rules())
        .map_err(|fault| StartError::Config(fault.to_string()))?;
    Ok(Policy::new(PolicyParts {
        mode: mode(configuration.settings.runtime.mode),
        rules,
        doubt: configuration.doubt.clone(),
        network: sandbox.policy() == SandboxPolicy::WorkspaceWrite { network: true },
        confinement: Confined::when_needed(move || sandbox.confinement()),
        workspace: cwd.to_owned(),
        roots: configuration.roots.clone(),
        protected: env.own_dirs.clone(),
        home: var("HOME").map(PathBuf::from),
        masked: configuration.settings.instructions.mask.clone(),
    }))
}

/// What the names of programs mean to commands in `cwd`. Those of the repository around it are not trusted
/// either, though no tool can write them: who wrote them is not known.
pub(super) fn programs(cwd: &Path, roots: &[PathBuf]) -> Arc<PathPrograms> {
    let temporary = TEMPORARY.iter().map(PathBuf::from).chain(var("TMPDIR").map(PathBuf::from));
    let repository = std::iter::once(config::repository_root(cwd));
    let shared: Vec<PathBuf> = temporary.chain(repository).chain(roots.iter().cloned()).collect();
    Arc::new(PathPrograms::new(&var("PATH").unwrap_or_default(), cwd.to_owned(), &shared))
}

fn mode(mode: Option<Mode>) -> PermissionMode {
    match mode {
        Some(Mode::AcceptEdits) => PermissionMode::AcceptEdits,
        Some(Mode::Auto) => PermissionMode::Auto,
        Some(Mode::Plan) => PermissionMode::Plan,
        Some(Mode::Bypass) => PermissionMode::Bypass,
        Some(Mode::Default) | None => PermissionMode::Default,
    }
}

fn compile(placed: &[PlacedRule]) -> Result<Rules, Fault> {
    let mut rules = Rules::default();
    for one in placed {
        let effect = match one.list {
            RuleList::Allow => Effect::Allow,
            RuleList::Ask => Effect::Ask,
            RuleList::Deny => Effect::Deny,
        };
        let written = written(one);
        let text = written.text.clone();
        rules.add(effect, written, SUBJECTS).map_err(|error| fault(one, &text, &error))?;
    }
    Ok(rules)
}

fn written(placed: &PlacedRule) -> Written {
    let origin = placed.place.to_string();
    match &placed.rule {
        Rule::Text(text) => Written { text: text.clone(), origin, ..Written::default() },
        Rule::Detailed(rule) => Written {
            text: rule.rule.clone(),
            is_unsafe: rule.r#unsafe,
            matches: rule.r#match.clone(),
            not_matches: rule.not_match.clone(),
            origin,
        },
    }
}

/// What is wrong with a rule, at its place.
fn fault(placed: &PlacedRule, text: &str, error: &RuleError) -> Fault {
    let message = format!("permission rule '{text}': {error}");
    let before = text.get(..error.at).map_or(0, |before| before.chars().count());
    match &placed.place {
        Place::Line(file, line) if placed.column > 0 => {
            Fault { file: file.clone(), line: *line, column: placed.column + before, message }
        }
        place => Fault::unreadable(&place.to_string(), message),
    }
}
