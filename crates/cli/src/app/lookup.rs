//! The commands that ask no model: what is configured, what is trusted, which models there are.

use std::path::Path;
use std::sync::Arc;

use agent::session::store::Store;
use llm::Registry;

use super::config::{self, Configuration, Places};
use super::inquiry::Inquiry;
use super::system::Composed;
use super::trust::TrustStore;
use super::{
    Environment, Equipment, StartError, commands, equipment, policy, system, tell, var, workspace,
};
use crate::args::{Args, Command, ConfigAction, PermissionsAction, TrustAction};
use crate::history::Pasted;
use crate::{catalogue, complain, grants, history, inspect, permits, terminal};

/// What a command that only looks something up, or keeps a grant, has to say.
pub(crate) fn answer(args: &Args, env: &Environment) -> Result<Option<String>, StartError> {
    let cwd = || workspace(args.cwd.as_deref());
    let load = || config::load(args, env, &cwd()?);
    Ok(Some(match args.command.clone() {
        Some(Command::Trust { action }) => {
            trust_command(action.unwrap_or_default(), env, &cwd()?, load)?
        }
        Some(Command::Sessions { action }) => {
            history::sessions(action.as_ref(), &store(env)?, &cwd()?, args.output_format)?
        }
        Some(Command::Replay { id, expand }) => {
            let pasted = Pasted::expanded(expand);
            history::replay(&id, pasted, &store(env)?, &cwd()?, args.output_format)?
        }
        Some(Command::Config { action }) => match action.unwrap_or_default() {
            ConfigAction::Schema => inspect::schema(),
            ConfigAction::Path => inspect::paths(&Places::of(env, &cwd()?)),
            ConfigAction::Show => {
                let configuration = load()?;
                tell(&configuration);
                inspect::show(&configuration.settings.layers, &is_set)
            }
            ConfigAction::Prompt { check } => {
                let (cwd, configuration) = (cwd()?, load()?);
                tell(&configuration);
                prompt_command(check, args, env, &cwd, &configuration)?
            }
            ConfigAction::Explain { key } => {
                inspect::explain(&load()?.settings.layers, &key, &is_set)?
            }
        },
        Some(Command::Permissions { action }) => {
            let (cwd, configuration) = (cwd()?, load()?);
            tell(&configuration);
            permissions_command(action.as_ref(), args, env, &cwd, &configuration)?
        }
        Some(Command::Models { action: None }) => {
            let configuration = load()?;
            tell(&configuration);
            let settings = Arc::new(configuration.settings);
            catalogue::page(&Registry::new(settings, Arc::new(var)), terminal::columns())
        }
        Some(Command::Demo | Command::Doctor { .. } | Command::Models { .. }) | None => {
            return Ok(None);
        }
    }))
}

fn store(env: &Environment) -> Result<Store, StartError> {
    let dir = env.data_dir.as_deref();
    dir.map(Store::new)
        .ok_or_else(|| StartError::Usage("HOME is not set: no session is kept".to_owned()))
}

fn prompt_command(
    is_check: bool,
    args: &Args,
    env: &Environment,
    cwd: &Path,
    configuration: &Configuration,
) -> Result<String, StartError> {
    // Nothing runs, so nothing has to be moved away.
    let Equipment { tools, sandbox, .. } = equipment(configuration, cwd, env, "")?;
    let inquiry = Inquiry::new(args, env, configuration, cwd, sandbox);
    let Composed { prompt, notices, .. } =
        system::prompt(args, configuration, cwd, &tools, &inquiry)?;
    for notice in notices {
        complain(&format!("anvil: {notice}\n"));
    }
    if is_check { system::undeclared(args, configuration) } else { Ok(prompt.text) }
}

fn permissions_command(
    action: Option<&PermissionsAction>,
    args: &Args,
    env: &Environment,
    cwd: &Path,
    configuration: &Configuration,
) -> Result<String, StartError> {
    // Nothing runs, so nothing has to be moved away.
    let sandbox = commands(configuration, cwd, env, "").sandbox;
    let policy = policy::policy(configuration, cwd, env, sandbox)?;
    Ok(match action {
        None => permits::list(&policy, args.output_format),
        Some(PermissionsAction::Test { command }) => {
            let programs = policy::programs(cwd, &configuration.roots);
            permits::test(&policy, command, &*programs, args.output_format)
        }
    })
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
