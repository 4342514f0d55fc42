//! How commands are confined, in a sentence for a model that plans with it.

use std::path::PathBuf;

use crate::sandbox::{Backend, Sandbox, SandboxPolicy};

/// Most folders that are named one by one.
const MAX_FOLDERS: usize = 20;

/// What commands in `sandbox` may do.
pub(super) fn told(sandbox: &Sandbox) -> String {
    let how = How::of(sandbox.backend());
    match sandbox.policy() {
        SandboxPolicy::FullAccess => "run without a sandbox".to_owned(),
        SandboxPolicy::External => "are confined by the surroundings of anvil".to_owned(),
        SandboxPolicy::ReadOnly => how.sentence(false, "nothing but temporary files"),
        SandboxPolicy::WorkspaceWrite { network } => {
            how.sentence(network, &written(sandbox.further_writable()))
        }
    }
}

fn written(writable: &[PathBuf]) -> String {
    let more = writable.iter().take(MAX_FOLDERS).map(|dir| format!("{}, ", dir.display()));
    let more: String = more.collect();
    format!("only the workspace, {more}and temporary files")
}

/// What differs between what holds commands back.
struct How {
    /// Where temporary files are.
    temporary: &'static str,
    /// What becomes of the files of a home. Mounts hide them; a rule about reading leaves their names, which
    /// can be asked about one by one.
    home: &'static str,
}

impl How {
    fn of(backend: Backend) -> Self {
        match backend {
            Backend::Own if cfg!(target_os = "macos") => {
                Self { temporary: "", home: "cannot be read" }
            }
            Backend::Own => Self { temporary: "", home: "is hidden" },
            Backend::Landlock => {
                Self { temporary: " (in $TMPDIR, not in /tmp)", home: "cannot be read" }
            }
        }
    }

    fn sentence(&self, network: bool, written: &str) -> String {
        let Self { temporary, home } = self;
        let network = if network { "the network can be reached" } else { "no network" };
        format!(
            "run in a sandbox: {network}, {written}{temporary} can be written, the rest of the home folder but \
             toolchains {home}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Layout;

    fn of(policy: SandboxPolicy, backend: Backend, writable: &[&str]) -> String {
        let writable = writable.iter().map(PathBuf::from).collect();
        let layout = Layout { writable, ..Layout::workspace("/w") };
        told(&Sandbox::new(policy, layout).by(backend))
    }

    const OFFLINE: SandboxPolicy = SandboxPolicy::WorkspaceWrite { network: false };

    #[test]
    fn what_may_be_written_and_reached_is_told() {
        let told = of(OFFLINE, Backend::Own, &["/more"]);
        assert!(
            told.contains("no network, only the workspace, /more, and temporary files can"),
            "{told}"
        );
        let told = of(SandboxPolicy::WorkspaceWrite { network: true }, Backend::Own, &[]);
        assert!(
            told.contains("the network can be reached, only the workspace, and temporary"),
            "{told}"
        );
        let told = of(SandboxPolicy::ReadOnly, Backend::Own, &["/more"]);
        assert!(told.contains("no network, nothing but temporary files can be written"), "{told}");
        assert_eq!(of(SandboxPolicy::FullAccess, Backend::Landlock, &[]), "run without a sandbox");
        let many: Vec<String> = (0..100).map(|number| format!("/{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(of(OFFLINE, Backend::Own, &many).len() < 400);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_home_is_hidden_by_mounts_and_only_closed_by_rules() {
        let mounted = of(OFFLINE, Backend::Own, &[]);
        assert!(mounted.ends_with("is hidden") && !mounted.contains("TMPDIR"), "{mounted}");
        for policy in [OFFLINE, SandboxPolicy::ReadOnly] {
            let ruled = of(policy, Backend::Landlock, &[]);
            assert!(ruled.ends_with("cannot be read") && ruled.contains("(in $TMPDIR"), "{ruled}");
        }
    }
}
