//! Confines commands by Landlock and a list of refused system calls, where no namespaces can be made.
//!
//! Landlock only ever allows, and a folder with all that is below it. So a folder that holds something which
//! may not be read, or not be written, is not allowed itself: what lies in it is, name by name, and nothing
//! can be made, removed or renamed in it. What it cannot hold at all, `seccomp` takes away as far as that
//! goes; the rest is said in [`promise`]. Used only where a person chose it, or where anvil made the folder.

use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    PathBeneath, RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, open, openat};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::mounts::Ground;
use super::probe::Problem;
use super::seccomp::{self, Kept};
use crate::process::Restriction;

/// What commands are promised to be held by: files, and TCP. Less is refused.
const NEEDED: ABI = ABI::V4;
/// From here on signals and abstract sockets are held as well.
const SCOPED: u32 = 6;

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
/// Devices are not among what can be made.
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    WriteFile | Truncate | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym | Refer
});

/// Folders of the system that programs are made of, and the settings that they read.
const SYSTEM: &[&str] = &[
    "/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/proc",
    "/sbin", "/snap", "/sys", "/usr",
];
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];
/// Disks, memory and the files of daemons, which are never read beyond what is named above.
const OF_THE_MACHINE: [&str; 2] = ["/dev", "/run"];
/// What switches the machine, which the first user may write without any capability.
const OF_THE_KERNEL: [&str; 2] = ["/proc", "/sys"];

/// The version of Landlock here, if it holds what is promised. Tries it the first time.
pub(super) fn version() -> Result<u32, Problem> {
    static VERSION: OnceLock<Result<u32, Problem>> = OnceLock::new();
    VERSION.get_or_init(|| found(try_out())).clone()
}

/// Restricts a thread that does nothing else, as far as possible.
fn try_out() -> Result<(LandlockStatus, bool), String> {
    let work = || {
        let ruleset = handling(CompatLevel::BestEffort).and_then(Ruleset::create);
        let status = ruleset.and_then(RulesetCreated::restrict_self).map_err(|e| e.to_string())?;
        let calls = seccomp::instructions(Kept::AmongOthers { network: false });
        seccompiler::apply_filter(&calls).map_err(|error| format!("seccomp: {error}"))?;
        Ok((status.landlock, is_held(&status)))
    };
    thread::spawn(work).join().unwrap_or_else(|_| Err("it cannot be tried".to_owned()))
}

fn is_held(status: &RestrictionStatus) -> bool {
    status.ruleset != RulesetStatus::NotEnforced && status.no_new_privs
}

/// What a try says: what Landlock there is, and whether it held.
fn found(tried: Result<(LandlockStatus, bool), String>) -> Result<u32, Problem> {
    let missing = |what: String| {
        Problem {
        what,
        remedy: "use bubblewrap (leave out `[sandbox] backend`), or rely on a container around anvil with \
                 --sandbox external"
            .to_owned(),
    }
    };
    let (landlock, is_held) =
        tried.map_err(|error| missing(format!("Landlock does not work here ({error})")))?;
    let version = match landlock {
        LandlockStatus::NotEnabled => {
            return Err(missing(
                "Landlock is switched off in this kernel (see its option lsm=)".to_owned(),
            ));
        }
        LandlockStatus::NotImplemented => {
            return Err(missing("this kernel has no Landlock".to_owned()));
        }
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            kernel_abi.and_then(|abi| u32::try_from(abi).ok()).unwrap_or(effective_abi as u32)
        }
    };
    let needed = NEEDED as u32;
    if version < needed {
        return Err(missing(format!(
            "this kernel has version {version} of Landlock, which does not hold the network back: it takes version \
             {needed}, of Linux 6.7"
        )));
    }
    if !is_held {
        return Err(missing("Landlock is there and restricts nothing".to_owned()));
    }
    Ok(version)
}

/// What a person has to know who relies on it.
pub(super) fn promise(version: u32) -> String {
    let signals = if version < SCOPED { " signals to other processes," } else { "" };
    format!(
        "commands are confined by Landlock (version {version}), which holds back less than bubblewrap. Held: \
         what is written outside the workspace, what is read outside it and the system, every socket but those \
         of the internet where the network is open. Not held:{signals} modes and times of files that the user \
         owns, the names of files, the list of processes. In a folder that holds .git, .anvil or credentials \
         nothing can be made, removed or renamed, in its subfolders it can"
    )
}

/// A folder for the temporary files of one command, which goes with this.
#[derive(Debug)]
pub(super) struct Temporary(tempfile::TempDir);

impl Temporary {
    pub(super) fn new() -> io::Result<Self> {
        tempfile::Builder::new().prefix("anvil-command-").tempdir().map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// What a command is held by.
pub(super) struct Held<'a> {
    pub(super) ground: &'a Ground,
    pub(super) may_write: bool,
    pub(super) has_network: bool,
    /// An empty folder for its temporary files.
    pub(super) temporary: &'a Path,
}

/// What the thread does to itself that starts the command.
pub(super) fn restriction(held: &Held<'_>) -> io::Result<Restriction> {
    let rules = Rules::of(held)?.0;
    let ruleset = ruleset(rules, held.has_network).map_err(io::Error::other)?;
    let calls = seccomp::instructions(Kept::AmongOthers { network: held.has_network });
    Ok(Restriction::new(move || {
        // With them the first user reads the memory of other processes past Landlock, and does whatever else
        // no list names. What the thread may not gain its commands do not gain either.
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets)?;
        let status = ruleset.try_clone()?.restrict_self().map_err(io::Error::other)?;
        if !is_held(&status) {
            return Err(io::Error::other("Landlock restricts nothing"));
        }
        seccompiler::apply_filter(&calls).map_err(io::Error::other)
    }))
}

/// Rules for files and for signals; what is promised is required at `level`.
fn handling(level: CompatLevel) -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .set_compatibility(level)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)
}

fn ruleset(rules: Vec<Rule>, has_network: bool) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset =
        handling(CompatLevel::HardRequirement)?.set_compatibility(CompatLevel::HardRequirement);
    if !has_network {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEEDED))?;
    }
    let mut ruleset = ruleset.create()?.set_compatibility(CompatLevel::HardRequirement);
    for (at, access) in rules {
        ruleset = ruleset.add_rule(PathBeneath::new(at, access))?;
    }
    Ok(ruleset)
}

/// What is allowed at a place, and below it if it is a folder.
type Rule = (OwnedFd, BitFlags<AccessFs>);

/// The rules for files.
struct Rules(Vec<Rule>);

impl Rules {
    fn of(held: &Held<'_>) -> io::Result<Self> {
        let Held { ground, may_write, temporary, .. } = *held;
        // The fixed ones count where a folder is opened so far up that they lie in it.
        let hidden = ground.hidden_files.iter().chain(&ground.hidden_dirs).cloned();
        let hidden: BTreeSet<PathBuf> = hidden.chain(OF_THE_MACHINE.map(PathBuf::from)).collect();
        let kept = ground.protected.iter().cloned().chain(OF_THE_KERNEL.map(PathBuf::from));
        let kept: BTreeSet<PathBuf> = kept.chain(hidden.iter().cloned()).collect();
        let nothing = BTreeSet::new();
        let mut rules = Self(Vec::new());
        for path in SYSTEM.iter().map(Path::new).chain(ground.readable.iter().map(PathBuf::as_path))
        {
            rules.allow(path, READ, &hidden)?;
        }
        for device in DEVICES {
            rules.allow(Path::new(device), READ | WRITE, &nothing)?;
        }
        for root in &ground.writable {
            rules.allow(root, READ, &hidden)?;
            if may_write {
                rules.allow(root, WRITE, &kept)?;
            }
        }
        for (path, write) in &ground.granted {
            // What a person named is open whatever it is; what lies in it is judged as elsewhere.
            let below = |closed: &BTreeSet<PathBuf>| {
                closed.iter().filter(|one| one.starts_with(path) && *one != path).cloned().collect()
            };
            rules.allow(path, READ, &below(&hidden))?;
            if *write {
                rules.allow(path, WRITE, &below(&kept))?;
            }
        }
        rules.allow(temporary, READ | WRITE, &nothing)?;
        Ok(rules)
    }

    /// Allows `access` at `path`, which may be missing, and below it but for what is `closed`.
    fn allow(
        &mut self,
        path: &Path,
        access: BitFlags<AccessFs>,
        closed: &BTreeSet<PathBuf>,
    ) -> io::Result<()> {
        // A link of the system leads to something that has a rule of its own.
        match open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(at) => self.allow_at(at, path, access, closed),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn allow_at(
        &mut self,
        at: OwnedFd,
        path: &Path,
        access: BitFlags<AccessFs>,
        closed: &BTreeSet<PathBuf>,
    ) -> io::Result<()> {
        if closed.contains(path) {
            return Ok(());
        }
        match FileType::from_raw_mode(fstat(&at)?.st_mode) {
            FileType::Symlink => return Ok(()),
            FileType::Directory => {}
            _ => {
                self.add(at, access & AccessFs::from_file(NEEDED));
                return Ok(());
            }
        }
        // Paths are in order by their parts, so what lies below comes next.
        let mut after = closed.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        if !after.next().is_some_and(|next| next.starts_with(path)) {
            self.add(at, access);
            return Ok(());
        }
        for name in names(&at)? {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // By its folder, so that nothing can be put in the way meanwhile.
            if let Ok(child) = openat(&at, &*name, flags, Mode::empty()) {
                self.allow_at(child, &path.join(name), access, closed)?;
            }
        }
        // Only to be listed. That goes for what is closed below as well: its names can be seen.
        self.add(at, access & AccessFs::ReadDir);
        Ok(())
    }

    fn add(&mut self, at: OwnedFd, access: BitFlags<AccessFs>) {
        if !access.is_empty() {
            self.0.push((at, access));
        }
    }
}

/// The names in a folder; none where it cannot be listed.
fn names(at: impl AsFd) -> io::Result<Vec<std::ffi::OsString>> {
    use std::os::unix::ffi::OsStringExt as _;

    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(list) = openat(at, ".", flags, Mode::empty()) else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in Dir::new(list)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(std::ffi::OsString::from_vec(name));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(landlock: LandlockStatus, is_held: bool, want: Result<u32, &str>) {
        match (found(Ok((landlock, is_held))), want) {
            (Ok(version), Ok(want)) => assert_eq!(version, want),
            (Err(problem), Err(want)) => assert!(problem.what.contains(want), "{problem:?}"),
            (found, want) => panic!("{found:?} instead of {want:?}"),
        }
    }

    #[test]
    fn a_landlock_that_holds_too_little_is_refused_with_what_is_missing() {
        let version = |effective_abi| LandlockStatus::Available { effective_abi, kernel_abi: None };
        check(LandlockStatus::NotImplemented, false, Err("no Landlock"));
        check(LandlockStatus::NotEnabled, false, Err("switched off"));
        check(version(ABI::V3), true, Err("takes version 4"));
        check(version(ABI::V4), true, Ok(4));
        check(version(ABI::V7), false, Err("restricts nothing"));
        let newer = LandlockStatus::Available { effective_abi: ABI::V10, kernel_abi: Some(12) };
        check(newer, true, Ok(12));
        let problem = found(Err("seccomp: no".into())).unwrap_err();
        assert!(
            problem.what.contains("seccomp: no") && problem.remedy.contains("--sandbox external")
        );
    }

    #[test]
    fn signals_are_promised_only_where_they_are_held() {
        assert!(promise(SCOPED - 1).contains("Not held: signals to other processes"));
        assert!(!promise(SCOPED).contains("signals"));
    }

    /// The paths of the rules that allow any of `access`, as the system names them.
    fn allowed(rules: &Rules, access: BitFlags<AccessFs>) -> Vec<String> {
        let open = rules.0.iter().filter(|(_, allowed)| allowed.intersects(access));
        let path = |at: &OwnedFd| {
            use std::os::fd::AsRawFd as _;
            let path = std::fs::read_link(format!("/proc/self/fd/{}", at.as_raw_fd())).unwrap();
            path.file_name().unwrap().to_str().unwrap().to_owned()
        };
        let mut names: Vec<_> = open.map(|(at, _)| path(at)).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_with_something_closed_in_it_is_opened_name_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("w");
        std::fs::create_dir_all(root.join("a/.git")).unwrap();
        for name in ["a/file", "b/file", "file"] {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        let mut rules = Rules(Vec::new());
        let closed = BTreeSet::from([root.join("a/.git")]);
        rules.allow(&root, READ | WRITE, &closed).unwrap();
        assert_eq!(allowed(&rules, WRITE), ["b", "file", "file"]);
        assert_eq!(allowed(&rules, AccessFs::MakeReg.into()), ["b"]);
        assert_eq!(allowed(&rules, AccessFs::ReadDir.into()), ["a", "b", "w"]);
        let mut rules = Rules(Vec::new());
        rules.allow(&root, READ | WRITE, &BTreeSet::from([dir.path().join("wider")])).unwrap();
        assert_eq!(allowed(&rules, WRITE), ["w"]);
        rules.allow(&root.join("missing"), READ, &closed).unwrap();
        rules.allow(&root.join("link"), READ, &closed).unwrap();
        assert_eq!(allowed(&rules, READ), ["w"]);
    }
}
