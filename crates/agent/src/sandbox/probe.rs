//! Finds what confines commands, and finds out what it can do on this machine, once per process.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use super::backend;
use super::command::{Files, Inside, Start};
use super::landlock;
use super::mounts::{Ground, plan_mounts};
use crate::process::{self, Captured, Keep, Spec, Status};

/// Where it is looked for: folders of the system, never `PATH`, which a repository may be on.
#[cfg(not(target_os = "macos"))]
const PLACES: &[&str] =
    &["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];
#[cfg(target_os = "macos")]
const PLACES: &[&str] = &["/usr/bin/sandbox-exec"];

/// What is found there.
#[cfg(not(target_os = "macos"))]
const BACKEND: &str = "bubblewrap";
#[cfg(target_os = "macos")]
const BACKEND: &str = "seatbelt";

/// A program that does nothing.
#[cfg(not(target_os = "macos"))]
const TRUE: &str = "/bin/true";
#[cfg(target_os = "macos")]
const TRUE: &str = "/usr/bin/true";

/// How long one try may take.
const TRY_TIME: Duration = Duration::from_secs(10);

/// What the sandbox of this machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What confines commands: `bubblewrap`, `seatbelt` on macOS, or nothing.
    pub backend: Option<&'static str>,
    /// Where it is.
    pub path: Option<PathBuf>,
    /// Its version, as it says.
    pub version: Option<String>,
    /// Why commands cannot be confined, if they cannot.
    pub problem: Option<Problem>,
}

/// Why commands cannot be confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// What a person can do about it.
    pub remedy: String,
}

/// A bubblewrap that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) path: PathBuf,
    pub(super) version: String,
    pub(super) abilities: Abilities,
}

/// What a bubblewrap on this machine can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Whether it makes a user namespace, and forbids further ones in it (from 0.8, not when setuid).
    pub(super) user_namespace: UserNamespace,
    /// Whether folders in memory can have a size (from 0.7).
    pub(super) sizes: bool,
}

/// How the user namespace is asked for.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has them"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserNamespace {
    /// Made, with no further one inside.
    Last,
    /// Made where possible.
    Tried,
}

/// What the sandbox of this machine is. Tries it the first time, which takes some 20 milliseconds.
pub fn probe() -> Probe {
    match tool() {
        Ok(tool) => Probe {
            backend: Some(BACKEND),
            path: Some(tool.path),
            version: Some(tool.version),
            problem: None,
        },
        Err(problem) => Probe { backend: None, path: None, version: None, problem: Some(problem) },
    }
}

/// What Landlock can do here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landlock {
    /// The version of its interface (the kernel's word is ABI), if it holds what commands are promised.
    pub version: Option<u32>,
    /// Why it does not, otherwise.
    pub problem: Option<Problem>,
}

/// Whether Landlock could confine commands here. Tries it the first time, on a thread of its own.
pub fn probe_landlock() -> Landlock {
    match landlock::version() {
        Ok(version) => Landlock { version: Some(version), problem: None },
        Err(problem) => Landlock { version: None, problem: Some(problem) },
    }
}

/// By what a found program is known to be the same: where it is, its size, and its last change.
type Key = Option<(PathBuf, u64, SystemTime)>;

/// The bubblewrap of this machine.
pub(super) fn tool() -> Result<Tool, Problem> {
    static LAST: Mutex<Option<(Key, Result<Tool, Problem>)>> = Mutex::new(None);
    let found = find();
    let key = found.as_ref().ok().and_then(|path| {
        let meta = path.metadata().ok()?;
        Some((path.clone(), meta.size(), meta.modified().ok()?))
    });
    // Held during the try, so that two callers do not both make one.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, result)) = &*last
        && *known == key
    {
        return result.clone();
    }
    let result = found.and_then(|path| try_out(&path));
    *last = Some((key, result.clone()));
    result
}

fn find() -> Result<PathBuf, Problem> {
    if !cfg!(any(target_os = "linux", target_os = "macos")) {
        return Err(Problem {
            what: "commands cannot be confined on this system yet".to_owned(),
            remedy: "start anvil in a container or a virtual machine, with --sandbox external"
                .to_owned(),
        });
    }
    let found = PLACES.iter().map(Path::new).find(|path| path.exists());
    let Some(path) = found else {
        return Err(Problem {
            what: format!("{BACKEND} is not installed"),
            remedy: install().to_owned(),
        });
    };
    if cfg!(target_os = "linux") && !sees_root() {
        return Err(Problem {
            what: "anvil runs inside another sandbox, in which root does not exist".to_owned(),
            remedy: "rely on that one, with --sandbox external".to_owned(),
        });
    }
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if !is_the_systems(&real) {
        return Err(Problem {
            what: format!(
                "{} can be changed by somebody else than root, so it is not used",
                real.display()
            ),
            remedy: install().to_owned(),
        });
    }
    Ok(real)
}

/// Whether the first user is known here at all: in a user namespace without one nobody can tell what is root's.
/// user_namespaces(7) has the format: a first id inside, one outside, how many.
fn sees_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| line.split_whitespace().next() == Some("0"))
}

/// Whether only root can change the program, or put another one in its place.
fn is_the_systems(path: &Path) -> bool {
    path.ancestors().all(|part| {
        part.metadata().is_ok_and(|meta| meta.uid() == 0 && meta.permissions().mode() & 0o022 == 0)
    })
}

/// How bubblewrap is installed here.
fn install() -> &'static str {
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let is = |names: &[&str]| {
        os.lines()
            .filter(|line| line.starts_with("ID=") || line.starts_with("ID_LIKE="))
            .any(|line| names.iter().any(|name| line.contains(name)))
    };
    if is(&["debian", "ubuntu"]) {
        "install it with `apt-get install bubblewrap`"
    } else if is(&["fedora", "rhel", "centos"]) {
        "install it with `dnf install bubblewrap`"
    } else if is(&["arch"]) {
        "install it with `pacman -S bubblewrap`"
    } else if is(&["alpine"]) {
        "install it with `apk add bubblewrap`"
    } else if is(&["suse"]) {
        "install it with `zypper install bubblewrap`"
    } else {
        "install the package `bubblewrap` of your system"
    }
}

#[cfg(not(target_os = "linux"))]
fn try_out(path: &Path) -> Result<Tool, Problem> {
    let abilities = Abilities { user_namespace: UserNamespace::Tried, sizes: false };
    let tool = Tool { path: path.to_owned(), version: String::new(), abilities };
    match try_with(&tool)? {
        (true, _) => Ok(tool),
        (false, said) => Err(explain(&said)),
    }
}

#[cfg(target_os = "linux")]
fn try_out(path: &Path) -> Result<Tool, Problem> {
    let (_, said) = run(path, vec!["--version".into()], Vec::new())?;
    let version = said.rsplit(' ').next().unwrap_or_default().trim().to_owned();
    let (major, minor) = numbers(&version).unwrap_or_default();
    let is_setuid = path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o4000 != 0);
    let from = |number| (major, minor) >= (0, number);
    let mut ways = vec![UserNamespace::Tried];
    if from(8) && !is_setuid {
        ways.insert(0, UserNamespace::Last);
    }
    let mut refusal = String::new();
    for user_namespace in ways {
        let abilities = Abilities { user_namespace, sizes: from(7) };
        let tool = Tool { path: path.to_owned(), version: version.clone(), abilities };
        let (works, said) = try_with(&tool)?;
        if works {
            return Ok(tool);
        }
        refusal = said;
    }
    Err(explain(&refusal))
}

/// Runs `true` in the narrowest sandbox there is.
fn try_with(tool: &Tool) -> Result<(bool, String), Problem> {
    let ground = Ground {
        temporary: vec!["/tmp".into()],
        kernel: vec!["/proc/sys".into()],
        ..Ground::default()
    };
    let mounts = plan_mounts(&ground, false);
    let inside = Inside {
        ground: &ground,
        may_write: false,
        mounts: &mounts,
        has_network: false,
        cwd: Path::new("/"),
        env: &[],
    };
    let start = backend::start(tool, &inside).map_err(|error| explain(&error.to_string()))?;
    let Start { mut args, files, .. } = start;
    args.push(TRUE.into());
    run(&tool.path, args, files)
}

/// Runs the program and gives whether it succeeded, and what it said. On a thread and a runtime of its own:
/// whoever asks may be on one already.
fn run(path: &Path, args: Vec<OsString>, descriptors: Files) -> Result<(bool, String), Problem> {
    let spec = Spec {
        program: path.to_owned(),
        arg0: None,
        args,
        cwd: "/".into(),
        env: Vec::new(),
        descriptors,
        confines: cfg!(target_os = "linux"),
        restriction: None,
        timeout: TRY_TIME,
        cancel: CancellationToken::new(),
        keep: Keep { head: 4096, tail: 4096 },
        output: None,
    };
    let work = move || -> Result<_, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| error.to_string())?.block_on(async {
            let child = process::spawn(spec).map_err(|error| error.to_string())?;
            child.wait().await.map_err(|error| error.to_string())
        })
    };
    let finished =
        std::thread::spawn(work).join().unwrap_or_else(|_| Err("it cannot be started".to_owned()));
    let finished = finished.map_err(|error| explain(&error))?;
    let said = [text(&finished.stdout), text(&finished.stderr)].concat();
    Ok((finished.status == Status::Exited(0), said))
}

fn text(captured: &Captured) -> String {
    String::from_utf8_lossy(&captured.head).trim().to_owned()
}

#[cfg(any(target_os = "linux", test))]
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What is behind a refusal, as far as its words are known.
pub(super) fn explain(said: &str) -> Problem {
    let said = said.lines().next().unwrap_or_default();
    let is_apparmor = fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
        .is_ok_and(|text| text.trim() == "1");
    Problem {
        what: format!("{BACKEND} cannot make a sandbox here ({said})"),
        remedy: remedy(said, is_apparmor).to_owned(),
    }
}

fn remedy(said: &str, is_apparmor: bool) -> &'static str {
    let has = |words: &str| said.contains(words);
    if is_apparmor && (has("uid map") || has("RTM_NEWADDR") || has("Permission denied")) {
        "AppArmor keeps it from making namespaces: let it, with a profile for /usr/bin/bwrap that has the line \
         `userns,` (see `man apparmor.d`)"
    } else if has("uid map") || has("RTM_NEWADDR") {
        "a security module keeps it from making namespaces: let /usr/bin/bwrap make user namespaces"
    } else if has("create new namespace")
        || has("creating new namespace")
        || has("Creating new namespace")
    {
        "this looks like a container or another sandbox without namespaces: let it have them (with Docker: \
         `--security-opt seccomp=unconfined`), or rely on the container with --sandbox external"
    } else if has("mount proc") {
        "this looks like a container that hides parts of /proc: start it with `--security-opt \
         systempaths=unconfined`, or rely on the container with --sandbox external"
    } else if has("setuid") {
        "reinstall bubblewrap with the package manager, which knows whether it has to be setuid here"
    } else {
        "find out with `bwrap --unshare-all --ro-bind / / true`, or rely on a container around anvil with \
         --sandbox external"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, is_apparmor: bool, hint: &str) {
        assert!(remedy(said, is_apparmor).contains(hint), "{said}");
    }

    #[test]
    fn known_refusals_name_their_own_way_out() {
        check("bwrap: setting up uid map: Permission denied", true, "userns,");
        check("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", true, "userns,");
        check("bwrap: setting up uid map: Permission denied", false, "security module");
        check("bwrap: No permissions to create new namespace, likely because", false, "external");
        check("bwrap: Creating new namespace failed: Operation not permitted", false, "external");
        check(
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            false,
            "systempaths",
        );
        check("bwrap: something new", false, "find out");
    }

    #[test]
    fn only_a_program_that_nobody_but_root_can_change_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let fake = dir.path().join("bwrap");
        fs::write(&fake, "#!/bin/sh\n").unwrap();
        assert!(!is_the_systems(&fake));
        assert!(is_the_systems(Path::new("/usr/bin/env")));
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("0.11.0") > numbers("0.8.0"));
        assert_eq!(numbers("garbage"), None);
    }
}
