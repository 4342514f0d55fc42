//! From the configuration and the environment to what confines commands.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::sandbox::{Backend, Layout, Problem, Sandbox, SandboxPolicy};
use llm::config::Settings;
use llm::config::file::{Mode, Network, SandboxBackend, SandboxMode};
use nix::unistd::{User, getuid};

/// Variables that name a folder of a toolchain, which commands get to see wherever it is.
const TOOLCHAINS: &[&str] = &[
    "ANDROID_HOME",
    "CONDA_PREFIX",
    "DOTNET_ROOT",
    "GEM_HOME",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// What of the folder in `CARGO_HOME` commands get to see; credentials lie beside it.
const CARGO: &[&str] = &["bin", "config.toml", "env", "git", "registry"];

/// Variables that name a file or a folder with secrets, which commands do not get to see.
const SECRETS: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "DOCKER_CONFIG",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "PGPASSFILE",
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
];

/// What confines the commands of a session, as configured.
pub(super) fn sandbox(settings: &Settings, mut layout: Layout) -> Arc<Sandbox> {
    layout.masked.extend_from_slice(&settings.instructions.mask);
    Arc::new(Sandbox::new(policy(settings), layout).by(backend(settings)))
}

fn backend(settings: &Settings) -> Backend {
    match settings.runtime.sandbox.backend {
        Some(SandboxBackend::Landlock) => Backend::Landlock,
        Some(SandboxBackend::Bubblewrap) | None => Backend::Own,
    }
}

/// How commands of the demo are confined, in a folder that is thrown away, where the usual sandbox or
/// Landlock is lacking as told: by the best that works here. They are part of the program, so where nothing
/// works they are no risk either.
pub(super) fn in_own_folder(
    own: Option<Problem>,
    landlock: impl FnOnce() -> Option<Problem>,
) -> (SandboxPolicy, Backend, Option<String>) {
    let confined = SandboxPolicy::WorkspaceWrite { network: false };
    let Some(Problem { what, remedy }) = own else { return (confined, Backend::Own, None) };
    let why = format!("{what}: {remedy}");
    match landlock() {
        None => (confined, Backend::Landlock, Some(why)),
        Some(_) => (
            SandboxPolicy::FullAccess,
            Backend::Own,
            Some(format!("Commands run without a sandbox: {why}")),
        ),
    }
}

/// How commands are confined, as configured.
fn policy(settings: &Settings) -> SandboxPolicy {
    let sandbox = &settings.runtime.sandbox;
    match sandbox.mode {
        Some(SandboxMode::ReadOnly) => SandboxPolicy::ReadOnly,
        Some(SandboxMode::External) => SandboxPolicy::External,
        Some(SandboxMode::FullAccess) => SandboxPolicy::FullAccess,
        // Planning changes nothing, and what is known of programs may be wrong about one of them.
        Some(SandboxMode::WorkspaceWrite) | None if settings.runtime.mode == Some(Mode::Plan) => {
            SandboxPolicy::ReadOnly
        }
        Some(SandboxMode::WorkspaceWrite) | None => {
            SandboxPolicy::WorkspaceWrite { network: sandbox.network == Some(Network::All(true)) }
        }
    }
}

/// What a person has to know about the sandbox beforehand.
pub(super) fn notices(settings: &Settings) -> Vec<String> {
    let sandbox = Sandbox::new(policy(settings), Layout::default()).by(backend(settings));
    sandbox.promise().into_iter().chain(hosts(settings)).collect()
}

fn hosts(settings: &Settings) -> Option<String> {
    match &settings.runtime.sandbox.network {
        Some(Network::Hosts(hosts)) if !hosts.is_empty() => Some(
            "sandbox.network lists hosts, which this version cannot tell apart: commands reach nothing".to_owned(),
        ),
        _ => None,
    }
}

/// Where things are that a sandbox hides or shows.
pub(super) fn layout(cwd: &Path, own: &[PathBuf]) -> Layout {
    let named = |names: &[&str]| -> Vec<PathBuf> {
        let values = names.iter().filter_map(env::var_os);
        values.map(PathBuf::from).filter(|path| path.is_absolute()).collect()
    };
    let homes = homes();
    let mut readable = named(TOOLCHAINS);
    let mut hidden = named(SECRETS);
    for cargo in named(&["CARGO_HOME"]) {
        readable.extend(CARGO.iter().map(|name| cargo.join(name)));
        hidden.extend(["credentials", "credentials.toml"].map(|name| cargo.join(name)));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    // What programs are looked for in is made to be seen; a whole home or what lies around it is not.
    readable.extend(
        env::split_paths(&path).filter(|dir| homes.iter().any(|home| dir.starts_with(home))),
    );
    readable.retain(|path| !homes.iter().any(|home| home.starts_with(path)));
    hidden.extend_from_slice(own);
    Layout { readable, protected: own.to_vec(), hidden, homes, ..Layout::workspace(cwd) }
}

/// The home of the environment and that of the user database, which some programs prefer.
fn homes() -> Vec<PathBuf> {
    let own = User::from_uid(getuid()).ok().flatten().map(|user| user.dir);
    let mut homes: Vec<PathBuf> =
        env::var_os("HOME").map(PathBuf::from).into_iter().chain(own).collect();
    // A user without a home has the root folder or one that does not exist.
    homes.retain(|home| home.is_absolute() && home.parent().is_some());
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_confined_by_the_best_that_works_and_says_so_where_nothing_does() {
        let problem = |what: &str| Problem { what: what.into(), remedy: "mend it".into() };
        let confined = SandboxPolicy::WorkspaceWrite { network: false };
        let unasked = || panic!("there is no need to look for another one");
        assert_eq!(in_own_folder(None, unasked), (confined, Backend::Own, None));
        let (policy, backend, said) = in_own_folder(Some(problem("none")), || None);
        assert_eq!((policy, backend), (confined, Backend::Landlock));
        assert_eq!(said.unwrap(), "none: mend it");
        let (policy, _, said) = in_own_folder(Some(problem("none")), || Some(problem("old")));
        assert_eq!(policy, SandboxPolicy::FullAccess);
        assert_eq!(said.unwrap(), "Commands run without a sandbox: none: mend it");
    }
}
