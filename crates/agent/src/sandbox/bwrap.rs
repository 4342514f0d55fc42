//! The command line of bubblewrap: mounts, namespaces and the environment, handed over in an open file.
//!
//! All but the command itself goes over `--args`, so no list of processes shows the environment, and no
//! limit on command lines is met.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};

use super::command::{Inside, Report, Start};
use super::mounts::Mount;
use super::probe::{Abilities, Tool, UserNamespace};
use super::seccomp;

/// The numbers under which bubblewrap finds its options and the list of refused calls.
const OPTIONS: i32 = 3;
const SECCOMP: i32 = 4;
/// The number under which it writes how it went.
const STATUS: i32 = 5;

/// The beginning of the command line.
pub(super) fn start(tool: &Tool, inside: &Inside<'_>) -> io::Result<Start> {
    let options = options(tool.abilities, inside);
    let report = open_file("anvil-report", &[])?;
    let files = vec![
        (open_file("anvil-sandbox", &options)?, OPTIONS),
        (open_file("anvil-seccomp", &seccomp::program())?, SECCOMP),
        (report.try_clone()?, STATUS),
    ];
    let args = ["--args".into(), OPTIONS.to_string().into(), "--".into()];
    // What it is started with can be read inside, so it is next to nothing.
    let call = inside.env.iter().filter(|(name, _)| name == "ANVIL_CALL_ID").cloned().collect();
    Ok(Start { args: args.into(), env: Some(call), files, report: Report(Some(report)) })
}

/// The options, each ended by a NUL.
fn options(abilities: Abilities, inside: &Inside<'_>) -> Vec<u8> {
    let mut options = Options(Vec::new());
    match abilities.user_namespace {
        UserNamespace::Last => options.add(&["--unshare-user", "--disable-userns"]),
        UserNamespace::Tried => options.add(&["--unshare-user-try"]),
    }
    options.add(&["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
    if !inside.has_network {
        options.add(&["--unshare-net"]);
    }
    // Without this the first user mounts whatever is read-only anew, and writes it.
    options.add(&["--cap-drop", "ALL"]);
    // Nothing types into the terminal that anvil was started from.
    options.add(&["--new-session"]);
    for mount in inside.mounts {
        options.mount(mount, abilities.sizes);
    }
    options.add(&["--clearenv"]);
    for (name, value) in inside.env {
        options.add(&[OsStr::new("--setenv"), name, value]);
    }
    options.add(&[OsStr::new("--chdir"), inside.cwd.as_os_str()]);
    options.add(&["--seccomp", &SECCOMP.to_string(), "--json-status-fd", &STATUS.to_string()]);
    options.0
}

struct Options(Vec<u8>);

impl Options {
    fn add(&mut self, words: &[impl AsRef<OsStr>]) {
        for word in words {
            self.0.extend_from_slice(word.as_ref().as_bytes());
            self.0.push(0);
        }
    }

    fn mount(&mut self, mount: &Mount, sizes: bool) {
        let mut add = |option: &str, paths: &[&Path]| {
            self.add(&[option]);
            self.add(&paths.iter().map(|path| path.as_os_str()).collect::<Vec<_>>());
        };
        match mount {
            Mount::ReadOnly(path) => add("--ro-bind", &[path, path]),
            Mount::ReadWrite(path) => add("--bind", &[path, path]),
            Mount::Devices(path) => add("--dev", &[path]),
            Mount::Processes(path) => add("--proc", &[path]),
            // Mounted without devices, so that opening it is refused and a read does not pass for empty.
            Mount::Unreadable(path) => add("--ro-bind", &[Path::new("/dev/null"), path]),
            Mount::Seal(path) => add("--remount-ro", &[path]),
            Mount::Empty { at, bytes, mode } => {
                if sizes {
                    self.add(&["--size", &bytes.to_string()]);
                }
                self.add(&["--perms", &format!("{mode:04o}"), "--tmpfs"]);
                self.add(&[at.as_os_str()]);
            }
        }
    }
}

/// A file without a name that holds `bytes`, to be read from its start. Each reader needs one of its own,
/// since copies share the place they are at.
fn open_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::Write as _;

    let fd = memfd_create(name, MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}
