//! Where a path leads: inside the roots, out of them, or to what no tool may write. [pure]
//!
//! A path is judged as it is written and as the file system resolves it, because a link is written
//! like any other name.

use std::path::{Component, Path, PathBuf};

use super::Programs;
use crate::tools::access::mask::Masks;
use crate::tools::access::names::{authority, is_acted_upon, lies_under};

/// Folders that every sandbox gives a command as its own, so that writing there changes nothing.
const SCRATCH: [&str; 3] = ["/tmp", "/var/tmp", "/dev"];

/// The folders of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Territory {
    /// Where relative paths start.
    pub(super) workspace: PathBuf,
    /// Further folders that may be read and written.
    pub(super) roots: Vec<PathBuf>,
    /// What no tool may write.
    pub(super) protected: Vec<PathBuf>,
    /// What `~` means in rules.
    pub(super) home: Option<PathBuf>,
    /// What nobody gets to see.
    pub(super) masks: Option<Masks>,
}

/// A path of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// Absolute, without `.` and `..`, as it is written.
    pub(super) written: PathBuf,
    /// Where it leads.
    pub(super) real: PathBuf,
    /// Where it leads for the system, which goes through a link before it goes up from there.
    detour: Option<PathBuf>,
}

impl Territory {
    /// The path that a call names.
    pub(super) fn named(&self, path: &Path, machine: &dyn Programs) -> Named {
        let joined = self.workspace.join(path);
        let written = without_detours(&joined);
        let real = machine.real_path(&written);
        let goes_up = joined.components().any(|part| part == Component::ParentDir);
        let detour = goes_up.then(|| without_detours(&machine.real_path(&joined)));
        Named { written, real, detour }
    }

    /// Whether the path is masked any way.
    pub(super) fn hides(&self, named: &Named) -> bool {
        let Some(masks) = &self.masks else { return false };
        named.ways().any(|path| {
            let roots = std::iter::once(&self.workspace).chain(&self.roots);
            let mut below = roots.filter_map(|root| path.strip_prefix(root).ok());
            below.any(|relative| masks.hide(relative))
        })
    }

    /// Whether the path lies in a root every way.
    pub(super) fn holds(&self, named: &Named) -> bool {
        named.ways().all(|path| self.is_inside(path))
    }

    fn is_inside(&self, path: &Path) -> bool {
        path.starts_with(&self.workspace) || self.roots.iter().any(|root| path.starts_with(root))
    }

    /// What the path may not be written for, if it is protected either way.
    pub(super) fn protection(&self, named: &Named) -> Option<String> {
        named.ways().find_map(|path| {
            let inner = path.components().find_map(|part| authority(part.as_os_str()));
            let own = || self.protected.iter().find(|held| lies_under(path, held));
            match inner {
                Some(name) => Some(format!("{name} decides what runs on this machine")),
                None => own().map(|held| format!("{} belongs to anvil", held.display())),
            }
        })
    }

    /// Whether other programs act on what the file says.
    pub(super) fn is_acted_upon(&self, named: &Named) -> bool {
        named.ways().any(is_acted_upon)
    }

    /// Whether a confined command that writes there changes nothing that is left behind. A workspace may
    /// lie in such a folder.
    pub(super) fn is_scratch(&self, named: &Named) -> bool {
        !named.ways().any(|path| self.is_inside(path))
            && SCRATCH.iter().any(|dir| named.written.starts_with(dir))
    }
}

impl Named {
    /// As it is written, and where it may lead.
    pub(super) fn ways(&self) -> impl Iterator<Item = &Path> {
        let real = (self.real != self.written).then_some(self.real.as_path());
        let others = [real, self.detour.as_deref()].into_iter().flatten();
        std::iter::once(self.written.as_path()).chain(others)
    }
}

/// The path without `.` and `..`, by its names alone.
pub(super) fn without_detours(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                straight.pop();
            }
            part => straight.push(part),
        }
    }
    straight
}
