//! By what a sandbox is known to be the same as an earlier one.

use std::path::PathBuf;

use super::{Backend, Sandbox, SandboxPolicy};
use crate::digest::Hasher;

impl Sandbox {
    /// A digest of what a model plans with: what commands may write and reach, and what holds them.
    pub fn terms(&self) -> String {
        let writable = match self.policy {
            SandboxPolicy::WorkspaceWrite { .. } => self.layout.writable.as_slice(),
            SandboxPolicy::ReadOnly | SandboxPolicy::FullAccess | SandboxPolicy::External => &[],
        };
        self.digest(&[writable])
    }

    /// A digest of what decides which programs a command finds on this machine, and what they can do. The
    /// workspace is not part of it: no program is taken from there.
    pub fn view(&self) -> String {
        let layout = &self.layout;
        match self.confines() {
            true => self.digest(&[&layout.homes, &layout.readable, &layout.hidden]),
            false => self.digest(&[]),
        }
    }

    fn digest(&self, paths: &[&[PathBuf]]) -> String {
        let policy = match self.policy {
            SandboxPolicy::ReadOnly => "read-only",
            SandboxPolicy::WorkspaceWrite { network: false } => "workspace-write",
            SandboxPolicy::WorkspaceWrite { network: true } => "workspace-write, network",
            SandboxPolicy::FullAccess => "full-access",
            SandboxPolicy::External => "external",
        };
        let backend = match self.backend {
            _ if !self.confines() => "none",
            Backend::Own => "own",
            Backend::Landlock => "landlock",
        };
        let mut hasher = Hasher::default();
        hasher.part(policy.as_bytes());
        hasher.part(backend.as_bytes());
        for list in paths {
            hasher.part(&list.len().to_le_bytes());
            list.iter().for_each(|path| hasher.part(path.as_os_str().as_encoded_bytes()));
        }
        hasher.finish().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::*;

    #[test]
    fn what_a_model_plans_with_has_a_digest_of_its_own() {
        let of = |policy, backend, writable: &[&str]| {
            let writable = writable.iter().map(PathBuf::from).collect();
            let layout = Layout { writable, ..Layout::workspace("/w") };
            Sandbox::new(policy, layout).by(backend).terms()
        };
        let offline = SandboxPolicy::WorkspaceWrite { network: false };
        let online = SandboxPolicy::WorkspaceWrite { network: true };
        let all = [
            of(offline, Backend::Own, &[]),
            of(online, Backend::Own, &[]),
            of(offline, Backend::Landlock, &[]),
            of(offline, Backend::Own, &["/a"]),
            of(offline, Backend::Own, &["/a", "/b"]),
            of(SandboxPolicy::ReadOnly, Backend::Own, &[]),
            of(SandboxPolicy::FullAccess, Backend::Own, &[]),
            of(SandboxPolicy::External, Backend::Own, &[]),
        ];
        let mut different = all.to_vec();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[0], of(offline, Backend::Own, &[]));
        // What cannot make a difference to commands makes none.
        let external = of(SandboxPolicy::External, Backend::Landlock, &["/a"]);
        assert_eq!(external, all[7]);
    }

    #[test]
    fn the_view_depends_on_what_is_shown_and_not_on_the_workspace() {
        let offline = SandboxPolicy::WorkspaceWrite { network: false };
        let of = |workspace: &str, readable: &[&str]| {
            let readable = readable.iter().map(PathBuf::from).collect();
            let layout = Layout { readable, ..Layout::workspace(workspace) };
            Sandbox::new(offline, layout).view()
        };
        assert_eq!(of("/a", &[]), of("/b", &[]));
        assert_ne!(of("/a", &[]), of("/a", &["/home/me/bin"]));
    }
}
