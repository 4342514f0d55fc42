//! What the name of a program means on this machine, and where a path leads.
//!
//! A program is trusted when it lies in a folder of `PATH` that no tool can write: not in the
//! workspace, not in a folder for temporary files, and not behind another process's view of the files.
//! Looked-up names are kept for as long as none of the folders of `PATH` changes, so that a program is
//! found that was put in front of another one. The folders are looked at once for all the commands of a
//! call.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::permissions::{Place, Programs};

/// Folders for temporary files, which anybody may write.
pub const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// How long the folders count as unchanged: longer than it takes to judge a call, and shorter than it
/// takes to run one.
const FRESH: Duration = Duration::from_millis(5);

/// Looks programs up on a `PATH`.
#[derive(Debug)]
pub struct PathPrograms {
    workspace: PathBuf,
    folders: Vec<Folder>,
    untrusted: Vec<PathBuf>,
    fresh: Duration,
    known: Mutex<Known>,
}

/// A folder of `PATH`.
#[derive(Debug)]
struct Folder {
    dir: PathBuf,
    is_trusted: bool,
}

/// What was found, and how the folders looked then.
#[derive(Debug, Default)]
struct Known {
    looked: Option<Instant>,
    changed: Vec<Option<SystemTime>>,
    places: HashMap<String, Place>,
}

impl PathPrograms {
    /// Programs of `path`, a list as in the variable `PATH`, for commands that run in `workspace`, an
    /// absolute path. `shared` are further folders whose content tools or anybody else may change, such
    /// as [`TEMPORARY`].
    pub fn new(path: &str, workspace: PathBuf, shared: &[PathBuf]) -> Self {
        let written = shared.iter().chain(std::iter::once(&workspace));
        let mut untrusted: Vec<PathBuf> =
            written.flat_map(|dir| [dir.clone(), real(dir)]).collect();
        untrusted.sort();
        untrusted.dedup();
        let mut programs = Self {
            workspace,
            folders: Vec::new(),
            untrusted,
            fresh: FRESH,
            known: Mutex::default(),
        };
        // An empty part means the folder that a command runs in.
        let dirs = path.split(':').map(|part| programs.workspace.join(part));
        let folders = dirs.map(|dir| {
            let is_absolute = path.split(':').any(|part| Path::new(part) == dir);
            let is_trusted = is_absolute && programs.is_out_of_reach(&dir);
            Folder { dir, is_trusted }
        });
        programs.folders = folders.collect();
        programs
    }

    /// The path with the folders in which no tool can write, as in the variable `PATH`.
    pub fn trusted_path(&self) -> OsString {
        let folders = self.folders.iter().filter(|folder| folder.is_trusted);
        // They were joined by the same sign.
        std::env::join_paths(folders.map(|folder| &folder.dir)).unwrap_or_default()
    }

    /// When the folders of the path changed last, those that are there: not by what, only that.
    pub fn changes(&self) -> Vec<SystemTime> {
        self.folders.iter().filter_map(|folder| modified(&folder.dir)).collect()
    }

    /// Whether the path lies where no tool can write, as it is written and as it is resolved.
    fn is_out_of_reach(&self, path: &Path) -> bool {
        [path.to_owned(), real(path)].iter().all(|path| {
            let is_below = |dir: &PathBuf| path.starts_with(dir);
            // Below /proc the same files have other names, one for each process.
            !path.starts_with("/proc") && !self.untrusted.iter().any(is_below)
        })
    }

    fn look_up(&self, name: &str) -> Place {
        for Folder { dir, is_trusted } in &self.folders {
            let file = dir.join(name);
            if !is_program(&file) {
                continue;
            }
            // What is linked to from a trusted folder may lie in another one.
            return match *is_trusted && self.is_out_of_reach(&file) {
                true => Place::Trusted(file),
                false => Place::Untrusted(file),
            };
        }
        Place::NotFound
    }

    /// A program that is named by a path: trusted where its name alone would lead to it too.
    fn named(&self, name: &str) -> Place {
        let file = self.workspace.join(name);
        let base = file.file_name().map(|base| base.to_string_lossy().into_owned());
        match base.map(|base| self.look_up(&base)) {
            Some(Place::Trusted(own))
                if self.is_out_of_reach(&file) && real(&own) == real(&file) =>
            {
                Place::Trusted(file)
            }
            _ => Place::Untrusted(file),
        }
    }
}

impl Programs for PathPrograms {
    fn place(&self, name: &str) -> Place {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.looked.is_none_or(|at| at.elapsed() >= self.fresh) {
            let changed: Vec<Option<SystemTime>> =
                self.folders.iter().map(|folder| modified(&folder.dir)).collect();
            if known.changed != changed {
                *known = Known { changed, ..Known::default() };
            }
            known.looked = Some(Instant::now());
        }
        if let Some(place) = known.places.get(name) {
            return place.clone();
        }
        if name.contains('/') {
            // Not kept: the folders of PATH do not tell whether this file changed.
            return self.named(name);
        }
        let place = self.look_up(name);
        known.places.insert(name.to_owned(), place.clone());
        place
    }

    fn is_set_to_start(&self, program: &str, folder: &Path) -> bool {
        program == "git" && crate::sandbox::repository::name_programs(&real(folder))
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        real(path)
    }
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return match path.strip_prefix(above) {
                Ok(rest) if !rest.as_os_str().is_empty() => found.join(rest),
                _ => found,
            };
        }
    }
    path.to_owned()
}

fn modified(dir: &Path) -> Option<SystemTime> {
    fs::metadata(dir).and_then(|meta| meta.modified()).ok()
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A folder with a workspace, two folders for programs, and nothing that is shared.
    struct Machine {
        _dir: tempfile::TempDir,
        root: PathBuf,
    }

    impl Machine {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            for name in ["work/bin", "bin", "usr"] {
                fs::create_dir_all(root.join(name)).unwrap();
            }
            Self { _dir: dir, root }
        }

        fn program(&self, name: &str) -> PathBuf {
            let file = self.root.join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            file
        }

        fn on(&self, path: &[&str]) -> PathPrograms {
            let dirs: Vec<String> = path
                .iter()
                .map(|part| match part.is_empty() {
                    true => String::new(),
                    false => self.root.join(part).display().to_string(),
                })
                .collect();
            PathPrograms::new(&dirs.join(":"), self.root.join("work"), &[])
        }
    }

    #[test]
    fn the_first_folder_of_the_path_says_which_program_a_name_is() {
        let machine = Machine::new();
        let tool = machine.program("usr/tool");
        let own = machine.program("work/bin/tool");
        assert_eq!(
            machine.on(&["bin", "usr", "work/bin"]).place("tool"),
            Place::Trusted(tool.clone())
        );
        assert_eq!(machine.on(&["work/bin", "usr"]).place("tool"), Place::Untrusted(own));
        assert_eq!(machine.on(&["usr"]).place("missing"), Place::NotFound);
        let here = machine.program("work/tool");
        assert_eq!(machine.on(&["", "usr"]).place("tool"), Place::Untrusted(here));
    }

    #[test]
    fn a_path_is_trusted_only_where_its_name_alone_leads_to_the_same_program() {
        let machine = Machine::new();
        let tool = machine.program("usr/tool");
        let own = machine.program("work/tool");
        let programs = machine.on(&["usr"]);
        let spelled = tool.display().to_string();
        assert_eq!(programs.place(&spelled), Place::Trusted(tool.clone()));
        assert_eq!(programs.place("./tool"), Place::Untrusted(machine.root.join("work/./tool")));
        assert_eq!(programs.place(&own.display().to_string()), Place::Untrusted(own));
        let other = format!("/proc/self/root{spelled}");
        assert!(matches!(programs.place(&other), Place::Untrusted(_)), "{other}");
        let detour = format!("{}/../work/tool", machine.root.join("usr").display());
        assert!(matches!(programs.place(&detour), Place::Untrusted(_)), "{detour}");
    }

    #[test]
    fn a_link_out_of_a_trusted_folder_is_as_trusted_as_where_it_leads() {
        let machine = Machine::new();
        let own = machine.program("work/tool");
        symlink(own, machine.root.join("usr/tool")).unwrap();
        assert!(matches!(machine.on(&["usr"]).place("tool"), Place::Untrusted(_)));
        symlink(machine.root.join("work/bin"), machine.root.join("linked")).unwrap();
        machine.program("work/bin/other");
        assert!(matches!(machine.on(&["linked"]).place("other"), Place::Untrusted(_)));
    }

    #[test]
    fn a_program_that_appears_in_front_of_a_known_one_is_seen() {
        let machine = Machine::new();
        let tool = machine.program("usr/tool");
        let programs = PathPrograms { fresh: Duration::ZERO, ..machine.on(&["bin", "usr"]) };
        assert_eq!(programs.place("tool"), Place::Trusted(tool));
        let before = machine.program("bin/tool");
        // A file system may keep times no finer than a tick of the clock.
        let later = SystemTime::now() + std::time::Duration::from_secs(1);
        fs::File::open(machine.root.join("bin")).unwrap().set_modified(later).unwrap();
        assert_eq!(programs.place("tool"), Place::Trusted(before));
    }
}
