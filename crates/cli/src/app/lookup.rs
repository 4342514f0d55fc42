//! The commands that ask no model: what is configured, what is trusted, which models there are.

use std::path::Path;
use std::sync::Arc;

use llm::Registry;

use super::config::{self, Configuration, Places};
use super::trust::TrustStore;
use super::{Environment, StartError, tell, var, workspace};
use crate::args::{Args, Command, ConfigAction, TrustAction};
use crate::{catalogue, grants, inspect, terminal};

/// What a command that only looks something up, or keeps a grant, has to say.
pub(crate) fn answer(args: &Args, env: &Environment) -> Result<Option<String>, StartError> {
    let cwd = || workspace(args.cwd.as_deref());
    let load = || config::load(args, env, &cwd()?);
    Ok(Some(match args.command.clone() {
        Some(Command::Trust { action }) => {
            trust_command(action.unwrap_or_default(), env, &cwd()?, load)?
        }
        Some(Command::Config { action }) => match action.unwrap_or_default() {
            ConfigAction::Schema => inspect::schema(),
            ConfigAction::Path => inspect::paths(&Places::of(env, &cwd()?)),
            ConfigAction::Show => {
                let configuration = load()?;
                tell(&configuration);
                inspect::show(&configuration.settings.layers, &is_set)
            }
            ConfigAction::Explain { key } => {
                inspect::explain(&load()?.settings.layers, &key, &is_set)?
            }
        },
        Some(Command::Models { action: None }) => {
            let configuration = load()?;
            tell(&configuration);
            let settings = Arc::new(configuration.settings);
            catalogue::page(&Registry::new(settings, Arc::new(var)), terminal::columns())
        }
        Some(Command::Demo | Command::Models { .. }) | None => return Ok(None),
    }))
}

fn is_set(variable: &str) -> bool {
    var(variable).is_some()
}

fn trust_command(
    action: TrustAction,
    env: &Environment,
    cwd: &Path,
    load: impl Fn() -> Result<Configuration, StartError>,
) -> Result<String, StartError> {
    let mut store = TrustStore::read(env.data_dir.as_deref())
        .map_err(|error| StartError::Config(error.to_string()))?;
    match action {
        TrustAction::Show => grants::show(&load()?),
        TrustAction::Grant { yes, credential_origin } => {
            grants::grant(&load()?, yes, &credential_origin, &mut store)
        }
        TrustAction::Revoke => grants::revoke(&Places::of(env, cwd).root, &mut store),
    }
}
