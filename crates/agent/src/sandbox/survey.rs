//! Looks at the machine for what the mounts of a sandbox are made from. Opens nothing of the workspace but
//! the small files by which git leads to another folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::mounts::Ground;
use super::{Layout, SandboxError};
use crate::tools::access::{Masks, authority, led_to_from};

/// Where toolchains lie in a home, and the settings that they need; whole or not at all. Credentials that
/// lie beside them are not on this list.
const TOOLCHAINS: &[&str] = &[
    ".bun",
    ".cache/ms-playwright",
    ".cache/pip",
    ".cache/uv",
    ".cache/go-build",
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".config/git/ignore",
    ".deno/bin",
    ".fnm",
    ".ghcup",
    ".gradle/wrapper",
    ".gradle/caches",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2/repository",
    ".npm/_cacache",
    ".nuget/packages",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".stack",
    ".volta",
    "go",
    "miniconda3",
];

/// Folders that hold homes, and one for the first user's own.
const HOMES: &[&str] = &["/home", "/root"];

/// Programs for everybody that some systems keep in a home or in a folder for temporary state.
const SHARED_PROGRAMS: &[&str] = &["/home/linuxbrew", "/run/current-system", "/run/opengl-driver"];

/// What the first user may read and nobody should: passwords and keys of the machine.
const MACHINE_SECRETS: &[&str] = &[
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/sudoers",
];
const MACHINE_SECRET_DIRS: &[&str] = &[
    "/etc/NetworkManager/system-connections",
    "/etc/ssl/private",
    "/etc/sudoers.d",
    "/etc/wireguard",
];

/// Where daemons listen, outside the usual folder, that do as the first user whatever they are told.
const POWERFUL_SOCKETS: &[&str] = &["/var/lib/incus", "/var/lib/lxd", "/var/snap/lxd/common/lxd"];

/// What changes the machine, or tells of its other users; proc(5).
const KERNEL: &[&str] = &[
    "/proc/acpi",
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Where programs leave temporary files and sockets for each other.
const TEMPORARY: &[&str] = &["/run", "/tmp", "/var/run", "/var/tmp"];

/// Most nested repositories and masked files that get a mount of their own.
const MOST_FOUND: usize = 200;

/// Most entries of a writable folder that are looked at: about a second's worth.
const MOST_ENTRIES: usize = 300_000;

/// Folders that hold what builds and package managers made, too many files to look at.
const FILLED_BY_BUILDS: &[&str] = &[
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".tox",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
    "venv",
];

/// Most bytes of a file of git that is read: it names a folder, or holds the settings of a submodule.
const MOST_GITFILE: u64 = 8 * 1024;

/// What lies where, with what has to be said about it.
pub(super) struct Survey {
    /// What lies where.
    pub(super) ground: Ground,
    /// Links that bear a name of authority. No mount can hold a link; what it leads to is protected.
    pub(super) links: Vec<PathBuf>,
    /// What is less protected than it should be, one line each.
    pub(super) notices: Vec<String>,
}

/// Looks at everything once. Takes as long as a walk through the workspace without ignored folders.
pub(super) fn survey(layout: &Layout) -> Result<Survey, SandboxError> {
    let homes = real_dirs(&layout.homes);
    let workspace = workspace(&layout.workspace, &homes)?;
    let mut writable = vec![workspace];
    writable.extend(real_dirs(&layout.writable));
    let mut notices = Vec::new();
    let mut protected = Vec::new();
    for path in &layout.protected {
        protected.extend(path.canonicalize());
    }
    let mut hidden_files = present(MACHINE_SECRETS);
    let mut hidden_dirs = present(MACHINE_SECRET_DIRS);
    hidden_dirs.extend(present(POWERFUL_SOCKETS));
    let mut links = Vec::new();
    let mut repositories = Vec::new();
    for root in &writable {
        let found = Found::below(root, &layout.masked)?;
        protected.extend(found.authority);
        repositories.extend(found.repositories);
        hidden_files.extend(found.masked_files);
        hidden_dirs.extend(found.masked_dirs);
        links.extend(found.links);
        if found.is_cut {
            notices.push(format!(
                "{} holds more than {MOST_FOUND} nested repositories or credential files; those beyond are \
                 not protected from commands",
                root.display()
            ));
        }
    }
    let mut readable =
        real_paths(homes.iter().flat_map(|home| TOOLCHAINS.iter().map(|name| home.join(name))));
    readable.extend(present(SHARED_PROGRAMS));
    readable.extend(real_paths(layout.readable.iter().cloned()));
    readable.extend(resolver());
    readable.extend(repositories);
    hidden_dirs.extend(homes);
    hidden_dirs.extend(present(HOMES));
    for path in real_paths(layout.hidden.iter().cloned()) {
        let list = if path.is_dir() { &mut hidden_dirs } else { &mut hidden_files };
        list.push(path);
    }
    let ground = Ground {
        hidden_dirs,
        hidden_files,
        readable,
        writable,
        protected,
        granted: Vec::new(),
        kernel: present(KERNEL),
        temporary: present(TEMPORARY),
    };
    Ok(Survey { ground, links, notices })
}

/// The workspace without links, if commands may be let loose in it.
fn workspace(dir: &Path, homes: &[PathBuf]) -> Result<PathBuf, SandboxError> {
    let real = dir
        .canonicalize()
        .map_err(|source| SandboxError::Workspace { dir: dir.to_owned(), source })?;
    let is_too_wide = real.parent().is_none() || homes.contains(&real);
    if is_too_wide { Err(SandboxError::TooWide { dir: real }) } else { Ok(real) }
}

/// Whether this is root in a folder of another user. Without capabilities root is anybody to it.
pub(super) fn is_foreign(dir: &Path) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    is_root && dir.metadata().is_ok_and(|meta| meta.uid() != 0)
}

/// Where names of hosts are looked up, if that file leads into a folder that is hidden. Without the network
/// it is of no use, and it holds no secret.
fn resolver() -> Option<PathBuf> {
    let real = Path::new("/etc/resolv.conf").canonicalize().ok()?;
    real.starts_with("/run").then_some(real)
}

fn real_dirs(dirs: &[PathBuf]) -> Vec<PathBuf> {
    real_paths(dirs.iter().cloned()).into_iter().filter(|dir| dir.is_dir()).collect()
}

/// Those that exist, without links.
fn real_paths(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}

/// Those that exist and are no links: a link leads to something that is judged by its own name.
fn present(paths: &[&str]) -> Vec<PathBuf> {
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink());
    paths.iter().map(PathBuf::from).filter(is_there).collect()
}

/// What a walk through a writable folder found.
#[derive(Default)]
struct Found {
    /// `.git` and `.anvil` at any depth, and the folders that they lead to.
    authority: Vec<PathBuf>,
    /// Folders of git, maybe elsewhere, that know a work tree in here as theirs. Without them git is of no use.
    repositories: Vec<PathBuf>,
    /// Links of those names.
    links: Vec<PathBuf>,
    /// Files that hold credentials.
    masked_files: Vec<PathBuf>,
    /// Folders of such files.
    masked_dirs: Vec<PathBuf>,
    /// Whether there was more.
    is_cut: bool,
}

impl Found {
    /// Walks through all folders but those that builds and package managers fill, ignored ones included:
    /// credentials and further work trees are what people do not commit.
    fn below(root: &Path, masked: &[String]) -> Result<Self, SandboxError> {
        let masks = Masks::new(masked).map_err(|error| SandboxError::BadMask(error.to_string()))?;
        let mut found = Self::default();
        let mut dirs = vec![root.to_owned()];
        let mut seen = 0;
        while let Some(dir) = dirs.pop() {
            // What cannot be listed cannot be read by a command either.
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MOST_ENTRIES || found.is_full() {
                    found.is_cut = true;
                    return Ok(found);
                }
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                let relative = path.strip_prefix(root).unwrap_or(&path);
                let is_masked = || masks.hide_entry(relative, kind.is_dir());
                if authority(&entry.file_name()).is_some() {
                    found.add_authority(&path);
                    found.links.extend(kind.is_symlink().then_some(path));
                } else if kind.is_symlink() {
                    // Leads to something that is judged by its own name.
                } else if is_masked() {
                    let list = if kind.is_dir() {
                        &mut found.masked_dirs
                    } else {
                        &mut found.masked_files
                    };
                    list.push(path);
                } else if kind.is_dir()
                    && !FILLED_BY_BUILDS.iter().any(|name| entry.file_name() == *name)
                {
                    dirs.push(path);
                }
            }
        }
        Ok(found)
    }

    fn is_full(&self) -> bool {
        self.authority.len() + self.masked_files.len() + self.masked_dirs.len() > MOST_FOUND
    }

    /// Notes a name of authority and all that it leads to.
    fn add_authority(&mut self, path: &Path) {
        let real = path.canonicalize();
        if let Ok(real) = &real
            && real.is_file()
        {
            let dirs = real_paths(led_to_from(real).into_iter());
            self.repositories.extend(known_to(real, &dirs));
            self.authority.extend(dirs);
        }
        self.authority.extend(real);
    }
}

/// Those of the folders a `.git` file leads to that lead back to it, as git has it for a linked work tree and
/// for a submodule. Any other file may name any folder, and a repository cannot write into one elsewhere.
fn known_to(file: &Path, dirs: &[PathBuf]) -> Vec<PathBuf> {
    let Some((own, shared)) = dirs.split_first() else { return Vec::new() };
    let is_real = |named: &str, want: Option<&Path>| {
        own.join(named).canonicalize().is_ok_and(|real| Some(real.as_path()) == want)
    };
    let is_linked =
        small_file(&own.join("gitdir")).is_ok_and(|named| is_real(named.trim(), Some(file)));
    let is_submodule = || {
        let settings = small_file(&own.join("config")).unwrap_or_default();
        let mut named = settings.lines().filter_map(|line| {
            line.trim().strip_prefix("worktree")?.trim_start().strip_prefix('=').map(str::trim)
        });
        named.any(|named| is_real(named, file.parent()))
    };
    if !is_linked && !is_submodule() {
        return Vec::new();
    }
    // That it is shared by this one is written in a file which the workspace may hold.
    let shared = shared.iter().filter(|shared| own.starts_with(shared.join("worktrees")));
    std::iter::once(own).chain(shared).cloned().collect()
}

fn small_file(path: &Path) -> io::Result<String> {
    let meta = path.symlink_metadata()?;
    if !meta.is_file() || meta.len() > MOST_GITFILE {
        return Err(io::Error::other("not a small file"));
    }
    fs::read_to_string(path)
}
