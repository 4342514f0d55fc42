//! The tools on offer, and what decides about and confines their calls.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use agent::permissions::Policy;
use agent::registry::ToolRegistry;
use agent::sandbox::{Layout, Sandbox};
use agent::tools;
use agent::tools::access::{AccessError, AccessRules, FileAccess};
use agent::tools::bash::Bash;

use super::config::Configuration;
use super::{Environment, StartError, policy, sandbox};
use crate::redaction;

/// What calls go through.
pub(super) struct Equipment {
    pub(super) tools: ToolRegistry,
    pub(super) policy: Policy,
    pub(super) sandbox: Arc<Sandbox>,
}

/// Tools, policy and confinement of a run in `cwd`.
pub(super) fn equipment(
    configuration: &Configuration,
    cwd: &Path,
    env: &Environment,
    session_id: &str,
) -> Result<Equipment, StartError> {
    let commands = commands(configuration, cwd, env, session_id);
    let sandbox = Arc::clone(&commands.sandbox);
    let policy = policy::policy(configuration, cwd, env, Arc::clone(&sandbox))?;
    let masks = &configuration.settings.instructions.mask;
    let mut files = AccessRules::workspace(cwd).masking(masks);
    files.protected.extend_from_slice(&env.own_dirs);
    files.writable.extend_from_slice(&configuration.roots);
    // What may not be read is not found by a search either.
    files.masked.extend(policy.parts().rules.masks());
    Ok(Equipment { tools: builtin_tools(files, commands)?, policy, sandbox })
}

/// The tools on offer, with the files that `rules` open to them.
pub(crate) fn builtin_tools(
    rules: AccessRules,
    commands: Bash,
) -> Result<ToolRegistry, StartError> {
    let access = FileAccess::new(rules).map_err(|error| match error {
        AccessError::BadMask(why) => StartError::Config(format!("permissions.mask: {why}")),
        other => StartError::Config(other.to_string()),
    })?;
    let mut tools = ToolRegistry::default();
    for tool in tools::builtin(access, commands) {
        tools.register(tool).expect("the built-in tools have good names of their own");
    }
    Ok(tools.redacting(redaction::current()))
}

/// Commands as configured: confined, and with the variables that a person trusted them with.
pub(super) fn commands(
    configuration: &Configuration,
    cwd: &Path,
    env: &Environment,
    session_id: &str,
) -> Bash {
    let settings = &configuration.settings;
    let passthrough = settings.runtime.sandbox.env_passthrough.iter().flatten();
    let layout = Layout {
        writable: configuration.roots.clone(),
        quarantine: env.data_dir.as_ref().map(|dir| dir.join("quarantine").join(session_id)),
        ..sandbox::layout(cwd, &env.own_dirs)
    };
    Bash {
        passthrough: passthrough.map(OsString::from).collect(),
        sandbox: sandbox::sandbox(settings, layout),
    }
}

/// Commands of the demo, in a folder that is thrown away, and what has to be said about how they are confined.
pub(crate) fn demo_commands(cwd: &Path) -> (Bash, Option<String>) {
    let landlock = || agent::sandbox::probe_landlock().problem;
    let (policy, backend, note) = sandbox::in_own_folder(agent::sandbox::probe().problem, landlock);
    let sandbox = Sandbox::new(policy, sandbox::layout(cwd, &[])).by(backend);
    let note = sandbox.promise().into_iter().chain(note).reduce(|promise, why| {
        format!("In this demo {promise}. The usual sandbox does not work here: {why}")
    });
    (Bash::new(Arc::new(sandbox)), note)
}
