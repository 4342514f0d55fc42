//! What a confined command finds in the file system, as a list of mounts in their order. [pure]
//!
//! Later mounts lie over earlier ones. First the whole machine, read-only, with what is opened of it so far
//! up that it would cover what follows; then devices, processes and empty temporary folders; then, by
//! depth, what is hidden, what is shown again, what may be written, and
//! what of that may not. The order by depth is what makes a workspace inside a hidden home visible, and a
//! protected folder inside that workspace read-only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How much an empty folder in memory may hold, in bytes. Builds and linkers use `/tmp`; the rest is small.
const TMP_BYTES: u64 = 2 << 30;
const SHM_BYTES: u64 = 512 << 20;
const SMALL_BYTES: u64 = 64 << 20;

/// What lies where on this machine. Every path exists, is absolute and free of symbolic links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ground {
    /// Folders whose files are nobody's business: homes, and the folders that homes lie in.
    pub(super) hidden_dirs: Vec<PathBuf>,
    /// Files that hold secrets.
    pub(super) hidden_files: Vec<PathBuf>,
    /// What is shown although it lies in a hidden folder: toolchains, further readable folders.
    pub(super) readable: Vec<PathBuf>,
    /// Folders that may be written under a policy that lets anything be written; the workspace first.
    pub(super) writable: Vec<PathBuf>,
    /// What may not be written even inside those.
    pub(super) protected: Vec<PathBuf>,
    /// What a person opened for this one command, and whether it may be written.
    pub(super) granted: Vec<(PathBuf, bool)>,
    /// Files of the kernel below `/proc` that change the machine.
    pub(super) kernel: Vec<PathBuf>,
    /// Folders for temporary files and sockets that get an empty one in their place.
    pub(super) temporary: Vec<PathBuf>,
}

impl Ground {
    /// Whether a confined command finds at `path` what lies there outside. Granted paths count for nothing.
    pub(super) fn shows(&self, path: &Path) -> bool {
        let nearest = |dirs: &[PathBuf]| {
            let above = dirs.iter().filter(|dir| path.starts_with(dir));
            above.map(|dir| dir.components().count()).max()
        };
        let hidden = nearest(&self.hidden_dirs).max(nearest(&self.temporary));
        hidden <= nearest(&self.readable).max(nearest(&self.writable))
            && !self.hidden_files.iter().any(|file| file == path)
    }
}

/// One step of building what a command sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mount {
    /// The path as it is, read-only.
    ReadOnly(PathBuf),
    /// The path as it is, writable.
    ReadWrite(PathBuf),
    /// A few harmless devices.
    Devices(PathBuf),
    /// The processes of the sandbox.
    Processes(PathBuf),
    /// An empty folder in memory of limited size.
    Empty {
        /// Where.
        at: PathBuf,
        /// How much it holds.
        bytes: u64,
        /// Who may do what in it.
        mode: u32,
    },
    /// A device that nobody can open, in place of a file.
    Unreadable(PathBuf),
    /// What was mounted here before becomes read-only.
    Seal(PathBuf),
}

impl Mount {
    /// Where it lies.
    fn at(&self) -> &Path {
        match self {
            Self::ReadOnly(at)
            | Self::ReadWrite(at)
            | Self::Devices(at)
            | Self::Processes(at)
            | Self::Empty { at, .. }
            | Self::Unreadable(at)
            | Self::Seal(at) => at,
        }
    }
}

/// What becomes of one path beneath the fixed part. Where two are wanted for the same path the later wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Hidden,
    Readable,
    Writable,
    /// A folder on the way to a protected path: mounted on itself, which nothing can rename or remove,
    /// so that no fresh one can be put in its place.
    Pinned,
    Protected,
    HiddenInside,
    Unreadable,
    Granted,
    GrantedWritable,
}

/// The mounts for a command that may write what `ground` says, or nothing where `may_write` is false.
pub(super) fn plan_mounts(ground: &Ground, may_write: bool) -> Vec<Mount> {
    let fixed = fixed(ground);
    let places = places(ground, may_write);
    let mut by_depth: Vec<(&PathBuf, &Place)> = places.iter().collect();
    by_depth.sort_by_key(|(path, place)| (path.components().count(), **place));
    // A mount brings along all that is mounted below it outside: the machine's processes and sockets.
    let (beneath, above): (Vec<_>, Vec<_>) = by_depth.into_iter().partition(|(path, _)| {
        fixed.iter().any(|mount| mount.at() != *path && mount.at().starts_with(path))
    });
    // Programs, libraries and settings of the machine are read as they are.
    let mut mounts = vec![Mount::ReadOnly("/".into())];
    let mut sealed = Vec::new();
    let mut mount = |(path, place): (&PathBuf, &Place)| {
        match place {
            Place::Hidden | Place::HiddenInside => {
                // Until all is mounted that shows something again, whose mount point has to be made in it.
                sealed.push(Mount::Seal(path.clone()));
                Mount::Empty { at: path.clone(), bytes: SMALL_BYTES, mode: 0o755 }
            }
            Place::Readable | Place::Protected | Place::Granted => Mount::ReadOnly(path.clone()),
            Place::Writable | Place::Pinned | Place::GrantedWritable => {
                Mount::ReadWrite(path.clone())
            }
            Place::Unreadable => Mount::Unreadable(path.clone()),
        }
    };
    mounts.extend(beneath.into_iter().map(&mut mount));
    mounts.extend(fixed);
    mounts.extend(above.into_iter().map(&mut mount));
    mounts.extend(sealed);
    mounts
}

/// What is the same in every place, over the machine's own files.
fn fixed(ground: &Ground) -> Vec<Mount> {
    let mut mounts = vec![
        // The machine's own devices are out of reach: disks, memory, other people's terminals.
        Mount::Devices("/dev".into()),
        // Processes outside are out of sight, and so are their environments and their memory.
        Mount::Processes("/proc".into()),
    ];
    // The first user may write these without any capability, and they switch the whole machine.
    mounts.extend(ground.kernel.iter().cloned().map(Mount::ReadOnly));
    mounts.push(Mount::Empty { at: "/dev/shm".into(), bytes: SHM_BYTES, mode: 0o1777 });
    // A folder in memory without limit, were it writable.
    mounts.push(Mount::Seal("/dev".into()));
    // Files and sockets of other programs: agents, buses, daemons that do what they are told.
    mounts.extend(ground.temporary.iter().map(|at| {
        let is_run = at.ends_with("run");
        let (bytes, mode) = if is_run { (SMALL_BYTES, 0o755) } else { (TMP_BYTES, 0o1777) };
        Mount::Empty { at: at.clone(), bytes, mode }
    }));
    mounts
}

/// What becomes of each path.
fn places(ground: &Ground, may_write: bool) -> BTreeMap<PathBuf, Place> {
    let mut places = BTreeMap::new();
    let mut put = |path: &Path, place: Place| {
        let now = places.entry(path.to_owned()).or_insert(place);
        *now = place.max(*now);
    };
    let roots = &ground.writable;
    let root_of = |path: &Path| {
        roots
            .iter()
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.components().count())
    };
    for dir in &ground.hidden_dirs {
        put(dir, if root_of(dir).is_some() { Place::HiddenInside } else { Place::Hidden });
    }
    // A toolchain inside the workspace is a part of it, and one below another is shown with it. Each mount
    // costs every command a little.
    let is_shown = |path: &PathBuf| {
        ground.readable.iter().any(|above| {
            let hides =
                |dir: &PathBuf| path.starts_with(dir) && dir.starts_with(above) && dir != above;
            above != path && path.starts_with(above) && !ground.hidden_dirs.iter().any(hides)
        })
    };
    let elsewhere =
        ground.readable.iter().filter(|path| root_of(path).is_none() && !is_shown(path));
    elsewhere.for_each(|path| put(path, Place::Readable));
    let open = if may_write { Place::Writable } else { Place::Readable };
    roots.iter().for_each(|path| put(path, open));
    for path in &ground.protected {
        // Whatever lies elsewhere is read-only already.
        if !may_write || root_of(path).is_none() {
            continue;
        }
        put(path, Place::Protected);
        // Up to the outermost folder that may be written: one may lie in another.
        let above = path.ancestors().skip(1).filter(|above| root_of(above).is_some());
        above.for_each(|above| put(above, Place::Pinned));
    }
    ground.hidden_files.iter().for_each(|path| put(path, Place::Unreadable));
    for (path, write) in &ground.granted {
        put(path, if *write { Place::GrantedWritable } else { Place::Granted });
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mounts after the fixed part, a line each, in their order.
    fn planned(ground: &Ground, may_write: bool) -> String {
        let fixed = 1 + fixed(ground).len();
        let lines =
            plan_mounts(ground, may_write).into_iter().skip(fixed).map(|mount| match mount {
                Mount::ReadOnly(path) => format!("read-only   {}", path.display()),
                Mount::ReadWrite(path) => format!("read-write  {}", path.display()),
                Mount::Empty { at, .. } => format!("empty       {}", at.display()),
                Mount::Unreadable(path) => format!("unreadable  {}", path.display()),
                Mount::Seal(path) => format!("seal        {}", path.display()),
                Mount::Devices(path) | Mount::Processes(path) => panic!("{} again", path.display()),
            });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    fn ground() -> Ground {
        Ground {
            hidden_dirs: paths(&["/home/me", "/home", "/home/me/p/.ssh"]),
            hidden_files: paths(&["/etc/shadow", "/home/me/p/web/.env"]),
            readable: paths(&[
                "/home/me/.cargo/bin",
                "/home/me/.cargo/bin/more",
                "/home/me/p/tools",
            ]),
            writable: paths(&["/home/me/p", "/data/out"]),
            protected: paths(&["/home/me/p/.git", "/home/me/p/a/b/.git", "/home/me/.config/anvil"]),
            ..Ground::default()
        }
    }

    #[test]
    fn what_is_shown_lies_over_what_is_hidden_and_what_is_protected_over_both() {
        insta::assert_snapshot!(planned(&ground(), true), @r"
        empty       /home
        empty       /home/me
        read-write  /data/out
        unreadable  /etc/shadow
        read-write  /home/me/p
        read-only   /home/me/.cargo/bin
        read-write  /home/me/p/a
        read-only   /home/me/p/.git
        empty       /home/me/p/.ssh
        read-write  /home/me/p/a/b
        unreadable  /home/me/p/web/.env
        read-only   /home/me/p/a/b/.git
        seal        /home
        seal        /home/me
        seal        /home/me/p/.ssh
        ");
    }

    #[test]
    fn what_is_found_inside_is_what_no_hidden_folder_lies_above() {
        let ground = Ground { temporary: paths(&["/tmp"]), ..ground() };
        for shown in ["/usr/bin/bash", "/home/me/.cargo/bin/x", "/home/me/p/a", "/data/out/x"] {
            assert!(ground.shows(Path::new(shown)), "{shown}");
        }
        for hidden in ["/home/me/bin/bash", "/home/me/p/.ssh/x", "/tmp/x", "/etc/shadow"] {
            assert!(!ground.shows(Path::new(hidden)), "{hidden}");
        }
    }

    #[test]
    fn without_the_right_to_write_everything_is_read_only() {
        insta::assert_snapshot!(planned(&ground(), false), @r"
        empty       /home
        empty       /home/me
        read-only   /data/out
        unreadable  /etc/shadow
        read-only   /home/me/p
        read-only   /home/me/.cargo/bin
        empty       /home/me/p/.ssh
        unreadable  /home/me/p/web/.env
        seal        /home
        seal        /home/me
        seal        /home/me/p/.ssh
        ");
    }

    #[test]
    fn the_fixed_part_comes_first_and_is_the_same_for_everybody() {
        let ground = Ground {
            kernel: paths(&["/proc/sys"]),
            temporary: paths(&["/run", "/tmp"]),
            ..Ground::default()
        };
        let planned = plan_mounts(&ground, true);
        let lines: Vec<String> = planned.iter().map(|mount| format!("{mount:?}")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        ReadOnly("/")
        Devices("/dev")
        Processes("/proc")
        ReadOnly("/proc/sys")
        Empty { at: "/dev/shm", bytes: 536870912, mode: 1023 }
        Seal("/dev")
        Empty { at: "/run", bytes: 67108864, mode: 493 }
        Empty { at: "/tmp", bytes: 2147483648, mode: 1023 }
        "#);
    }

    #[test]
    fn what_was_granted_for_one_command_is_open_for_it_even_if_it_is_hidden_otherwise() {
        let ground = Ground { granted: vec![("/home/me/.ssh/config".into(), false)], ..ground() };
        let planned = planned(&ground, true);
        let at =
            |line: &str| planned.find(line).unwrap_or_else(|| panic!("no {line} in {planned}"));
        assert!(at("empty       /home/me\n") < at("read-only   /home/me/.ssh/config"));
        assert!(at("read-only   /home/me/.ssh/config") < at("seal        /home/me"));
    }

    #[test]
    fn what_is_opened_far_up_lies_beneath_the_fixed_part() {
        let ground = Ground {
            writable: paths(&["/p", "/var"]),
            granted: vec![("/".into(), true)],
            temporary: paths(&["/run", "/var/tmp"]),
            kernel: paths(&["/proc/sys"]),
            ..Ground::default()
        };
        let planned = plan_mounts(&ground, true);
        let at = |path: &str| planned.iter().rposition(|mount| mount.at() == Path::new(path));
        assert_eq!(planned[..2], [Mount::ReadOnly("/".into()), Mount::ReadWrite("/".into())]);
        for covered in ["/proc", "/proc/sys", "/dev", "/run", "/var/tmp"] {
            assert!(at("/") < at(covered) && at("/var") < at(covered), "{covered}: {planned:#?}");
        }
        assert!(at("/p") > at("/var/tmp"), "{planned:#?}");
    }

    #[test]
    fn nothing_on_the_way_to_a_protected_path_can_be_renamed_in_a_folder_around_the_workspace() {
        let ground = Ground {
            writable: paths(&["/d/sub/w", "/d"]),
            protected: paths(&["/d/sub/w/.git"]),
            ..Ground::default()
        };
        insta::assert_snapshot!(planned(&ground, true), @r"
        read-write  /d
        read-write  /d/sub
        read-write  /d/sub/w
        read-only   /d/sub/w/.git
        ");
    }

    #[test]
    fn a_workspace_inside_what_is_protected_can_still_be_written() {
        let ground = Ground {
            writable: paths(&["/d", "/d/data/worktrees/w"]),
            protected: paths(&["/d/data"]),
            ..Ground::default()
        };
        insta::assert_snapshot!(planned(&ground, true), @r"
        read-write  /d
        read-only   /d/data
        read-write  /d/data/worktrees/w
        ");
    }
}
