//! Looks at what `anvil doctor` tells.

use std::env;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;

use agent::git::{Git, GitError};
use agent::permissions::{Place, Programs as _};
use agent::sandbox::{self, Landlock};
use llm::Registry;
use llm::config::Settings;

use super::config::{self, Configuration};
use super::inquiry::Inquiry;
use super::system::Composed;
use super::{
    Environment, Equipment, StartError, commands, equipment, policy, surroundings, system, var,
};
use crate::args::Args;
use crate::doctor::Check;
use crate::terminal;

/// Most settings of a repository that are named one by one.
const MAX_NAMED: usize = 5;

/// Everything that is looked at for work in `cwd`.
pub(super) async fn examine(args: &Args, env: &Environment, cwd: &Path) -> Vec<Check> {
    let mut checks = vec![
        Check::ok(
            "anvil",
            format!("{} on {} {}", env!("CARGO_PKG_VERSION"), env::consts::OS, env::consts::ARCH),
        ),
        confinement(),
        screen(env),
    ];
    checks.extend(git(cwd).await);
    let loaded = config::load(args, env, cwd);
    checks.extend(configuration(&loaded));
    if let Ok(loaded) = loaded {
        checks.extend(prompt(args, env, cwd, &loaded));
        checks.extend(told_to_models(args, env, cwd, &loaded).await);
        checks.push(keys(loaded.settings));
    }
    checks.push(data(env));
    checks
}

fn confinement() -> Check {
    let probe = sandbox::probe();
    let landlock = match sandbox::probe_landlock() {
        _ if !cfg!(target_os = "linux") => String::new(),
        Landlock { version: Some(version), .. } => {
            format!("; Landlock (version {version}) would work too")
        }
        Landlock { problem, .. } => {
            problem.map(|problem| format!("; {}", problem.what)).unwrap_or_default()
        }
    };
    match (probe.problem, probe.backend) {
        (Some(problem), _) => {
            Check::problem("sandbox", format!("{}{landlock}", problem.what), problem.remedy)
        }
        (None, backend) => {
            let path = probe.path.map(|path| format!(" ({})", path.display())).unwrap_or_default();
            let version = probe.version.map(|version| format!(" {version}")).unwrap_or_default();
            Check::ok(
                "sandbox",
                format!("{}{version}{path}{landlock}", backend.unwrap_or("none is needed")),
            )
        }
    }
}

/// Whether the system prompt can be made, and what about it is not as somebody may believe.
fn prompt(args: &Args, env: &Environment, cwd: &Path, loaded: &Configuration) -> Vec<Check> {
    let made = || {
        // Nothing runs, so nothing has to be moved away.
        let Equipment { tools, sandbox, .. } = equipment(loaded, cwd, env, "")?;
        let inquiry = Inquiry::new(args, env, loaded, cwd, sandbox);
        let Composed { notices, .. } = system::prompt(args, loaded, cwd, &tools, &inquiry)?;
        Ok::<_, StartError>((notices, system::undeclared(args, loaded)?))
    };
    let (notices, undeclared) = match made() {
        Ok(made) => made,
        Err(error) => {
            let remedy = "mend the file; until then no run begins".to_owned();
            return vec![Check::problem("prompt", error.to_string(), remedy)];
        }
    };
    if notices.is_empty() && undeclared.is_empty() {
        return vec![Check::ok("prompt", "`anvil config prompt` prints it")];
    }
    let undeclared = (!undeclared.is_empty()).then(|| undeclared.trim_end().to_owned());
    let told = notices.into_iter().chain(undeclared);
    told.map(|text| Check::note("prompt", text, None)).collect()
}

/// What a prompt tells about the surroundings, a line each, with the programs as they are now.
async fn told_to_models(
    args: &Args,
    env: &Environment,
    cwd: &Path,
    loaded: &Configuration,
) -> Vec<Check> {
    // Nothing runs, so nothing has to be moved away.
    let sandbox = commands(loaded, cwd, env, "").sandbox;
    let inquiry = Inquiry::new(args, env, loaded, cwd, sandbox);
    let mut facts = surroundings::facts(cwd, &inquiry);
    let mut missing = None;
    match inquiry.now().await {
        Ok(programs) => facts.programs = programs,
        Err(error) => {
            let text = format!("which programs there are cannot be asked: {error}");
            missing = Some(Check::note("to the model", text, None));
        }
    }
    let told = facts.told();
    told.lines().map(|line| Check::ok("to the model", line)).chain(missing).collect()
}

fn screen(env: &Environment) -> Check {
    if !io::stdout().is_terminal() {
        return Check::ok("terminal", "standard output is none: plain text");
    }
    let term = var("TERM").unwrap_or_else(|| "not set".to_owned());
    let colours = if env.is_plain { "no colours" } else { "colours" };
    match terminal::columns() {
        Some(columns) if columns < 40 => Check::note(
            "terminal",
            format!("TERM {term}, {columns} columns, {colours}"),
            "40 columns or more show whole questions".to_owned(),
        ),
        Some(columns) => {
            Check::ok("terminal", format!("TERM {term}, {columns} columns, {colours}"))
        }
        None => Check::ok("terminal", format!("TERM {term}, {colours}")),
    }
}

async fn git(cwd: &Path) -> Vec<Check> {
    let Place::Trusted(program) = policy::programs(cwd, &[]).place("git") else {
        let remedy = "install git, or put it on PATH outside this folder".to_owned();
        return vec![Check::note("git", "is not there", remedy)];
    };
    let version = match Git::version(&program).await {
        Ok(version) => version,
        Err(error) => return vec![Check::problem("git", error.to_string(), None)],
    };
    let found = format!("{version} ({})", program.display());
    match Git::open(&program, cwd).await {
        Ok(git) => {
            let mut checks = vec![Check::ok("git", found)];
            checks.extend(repository(&git).await);
            checks
        }
        Err(GitError::NoRepository { .. }) => vec![Check::note(
            "git",
            format!("{found}; this folder is in no repository"),
            "git init, if you want to see and undo changes with git".to_owned(),
        )],
        Err(error) => {
            let said = error.to_string();
            let remedy = said.contains("dubious ownership").then(|| {
                "start anvil as the owner of this folder; commands could not write in it either"
                    .to_owned()
            });
            vec![Check::problem("git", said, remedy)]
        }
    }
}

async fn repository(git: &Git) -> Vec<Check> {
    let mut checks = vec![match git.changes().await {
        Ok(changes) => Check::ok(
            "repository",
            format!(
                "changed files: {}, files git does not know: {}",
                changes.changed, changes.untracked
            ),
        ),
        Err(error) => Check::problem("repository", error.to_string(), None),
    }];
    if let Some((first, rest)) = git.starts().split_first() {
        let mut named = first.clone();
        rest.iter().take(MAX_NAMED - 1).for_each(|key| named.push_str(&format!(", {key}")));
        if rest.len() >= MAX_NAMED {
            named.push_str(&format!(" and {} more", rest.len() + 1 - MAX_NAMED));
        }
        checks.push(Check::note(
            "repository",
            format!("its .git/config names programs: {named}"),
            "anvil's own git calls start none of them; yours do, so look before you run git here"
                .to_owned(),
        ));
    }
    checks
}

fn configuration(loaded: &Result<Configuration, StartError>) -> Vec<Check> {
    match loaded {
        Err(error) => vec![Check::problem(
            "configuration",
            error.to_string(),
            "mend the place that is named; `anvil config path` tells where the files are"
                .to_owned(),
        )],
        Ok(configuration) if configuration.notices.is_empty() => {
            vec![Check::ok("configuration", "nothing to say")]
        }
        Ok(configuration) => {
            let notes = configuration.notices.iter();
            notes.map(|notice| Check::note("configuration", notice, None)).collect()
        }
    }
}

/// Which providers could be asked. Whether a key is set is told, never the key.
fn keys(settings: Settings) -> Check {
    let registry = Registry::new(Arc::new(settings), Arc::new(var));
    let mut set = Vec::new();
    let mut unset = Vec::new();
    for name in registry.providers() {
        match registry.key_variable(name) {
            Some((variable, true)) => set.push(variable),
            Some((variable, false)) => unset.push(variable),
            None => {}
        }
    }
    for list in [&mut set, &mut unset] {
        list.sort();
        list.dedup();
    }
    match set.is_empty() {
        false => Check::ok("keys", format!("{} set", set.join(", "))),
        true => Check::note(
            "keys",
            "no key is set",
            format!(
                "set one of {}, or use a local server; `anvil demo` needs none",
                unset.join(", ")
            ),
        ),
    }
}

fn data(env: &Environment) -> Check {
    let Some(dir) = &env.data_dir else {
        let remedy = "set HOME or ANVIL_HOME".to_owned();
        return Check::note("data", "HOME is not set: logs and history are not kept", remedy);
    };
    let nearest = dir.ancestors().find(|dir| dir.exists());
    match nearest.map(|dir| rustix::fs::access(dir, rustix::fs::Access::WRITE_OK)) {
        Some(Ok(())) => Check::ok("data", dir.display().to_string()),
        Some(Err(error)) => Check::problem(
            "data",
            format!("{} cannot be written: {error}", dir.display()),
            "give yourself the right to it, or set ANVIL_HOME to another folder".to_owned(),
        ),
        None => Check::problem("data", format!("{} cannot be made", dir.display()), None),
    }
}
