//! The rules on real files in scratch folders.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::digest::Digest;
use crate::tool::GrantedPath;

/// A workspace `W` with a folder `OUT` beside it.
struct Scratch {
    _dir: tempfile::TempDir,
    base: PathBuf,
    workspace: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let workspace = base.join("W");
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(base.join("OUT")).unwrap();
        fs::write(base.join("OUT/secret"), "secret").unwrap();
        Self { _dir: dir, base, workspace }
    }

    fn file(&self, path: &str) -> &Self {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
        self
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) -> &Self {
        symlink(target, self.workspace.join(path)).unwrap();
        self
    }

    fn rules(&self) -> AccessRules {
        AccessRules::workspace(&self.workspace)
    }

    fn access(&self) -> FileAccess {
        FileAccess::new(self.rules()).unwrap()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, AccessError> {
        let access = self.access();
        access.read(&access.for_reading(&self.workspace, path, &Grants::default())?, 1000)
    }

    fn write(&self, path: &str) -> Result<Replaced, AccessError> {
        let access = self.access();
        access.replace(
            &access.for_writing(&self.workspace, path, &Grants::default())?,
            b"new",
            Expect::Absent,
        )
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, AccessError>) -> String {
    let error = result.unwrap_err();
    assert!(error.is_refusal(), "{error:?}");
    error.to_string()
}

#[track_caller]
fn failed<T: std::fmt::Debug>(result: Result<T, AccessError>) -> String {
    let error = result.unwrap_err();
    assert!(!error.is_refusal(), "{error:?}");
    error.to_string()
}

#[test]
fn paths_are_made_absolute_and_dots_are_taken_out() {
    let cwd = Path::new("/w/sub");
    for (named, want) in [
        ("a", "/w/sub/a"),
        ("./a//b/.", "/w/sub/a/b"),
        ("../a", "/w/a"),
        ("nope/../../a", "/w/a"),
        ("/etc/./x/../y", "/etc/y"),
        ("../../../../..", "/"),
        ("..\\x", "/w/sub/..\\x"),
    ] {
        assert_eq!(resolve(cwd, named).unwrap(), Path::new(want), "{named}");
    }
}

#[test]
fn a_workspace_symlink_pointing_outside_cannot_be_written_through() {
    let scratch = Scratch::new();
    scratch.link("file", "../OUT/secret").link("folder", "../OUT").link("absent", "../OUT/new");
    let error = refused(scratch.write("file"));
    assert!(error.contains("OUT/secret"), "names the target: {error}");
    refused(scratch.write("folder/new"));
    refused(scratch.write("folder/x/y/new"));
    refused(scratch.write("absent"));
    refused(scratch.read("file"));
    assert_eq!(fs::read_dir(scratch.base.join("OUT")).unwrap().count(), 1);
}

#[test]
fn a_folder_swapped_for_a_link_after_the_check_is_not_followed() {
    let scratch = Scratch::new();
    scratch.file("d/secret");
    let access = scratch.access();
    let read = access.for_reading(&scratch.workspace, "d/secret", &Grants::default()).unwrap();
    let write = access.for_writing(&scratch.workspace, "d/secret", &Grants::default()).unwrap();
    let new = access.for_writing(&scratch.workspace, "d/new/file", &Grants::default()).unwrap();
    fs::rename(scratch.workspace.join("d"), scratch.workspace.join("e")).unwrap();
    scratch.link("d", "../OUT");
    access.read(&read, 1000).unwrap_err();
    let digest = Digest::of(b"secret");
    access.replace(&write, b"ours", Expect::Content(digest)).unwrap_err();
    access.replace(&new, b"ours", Expect::Absent).unwrap_err();
    assert_eq!(fs::read(scratch.base.join("OUT/secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(scratch.base.join("OUT")).unwrap().count(), 1);
}

#[test]
fn a_new_file_validates_its_existing_parent_chain() {
    let scratch = Scratch::new();
    scratch.write("a/b/c/new").unwrap();
    assert_eq!(fs::read(scratch.workspace.join("a/b/c/new")).unwrap(), b"new");
    scratch.file("plain");
    failed(scratch.write("plain/below-a-file"));
    scratch.link("a/out", "../../OUT");
    refused(scratch.write("a/out/x/new"));
}

#[test]
fn symlinks_that_stay_inside_are_usable_relative_or_absolute() {
    let scratch = Scratch::new();
    scratch.file("real/x").link("rel", "real").link("abs", scratch.workspace.join("real"));
    assert_eq!(scratch.read("rel/x").unwrap(), b"x");
    assert_eq!(scratch.read("abs/x").unwrap(), b"x");
    scratch.write("abs/new").unwrap();
    assert!(scratch.workspace.join("real/new").exists());
}

#[test]
fn a_sibling_whose_name_starts_like_the_root_is_outside() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.base.join("W-evil")).unwrap();
    fs::write(scratch.base.join("W-evil/x"), "x").unwrap();
    refused(scratch.read("../W-evil/x"));
    refused(scratch.read(scratch.base.join("W-evil/x").to_str().unwrap()));
    refused(scratch.write(scratch.base.join("W-evil/new").to_str().unwrap()));
}

#[test]
fn kernel_folders_are_outside_even_where_their_links_lead_inside() {
    let scratch = Scratch::new();
    scratch.file("x");
    let fd = fs::File::open(&scratch.workspace).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&fd);
    refused(scratch.read(&format!("/proc/self/fd/{number}/x")));
    refused(scratch.read("/dev/zero"));
    refused(scratch.write("/dev/shm/x"));
}

#[test]
fn another_name_of_the_workspace_is_the_workspace() {
    let scratch = Scratch::new();
    scratch.file("x");
    let alias = scratch.base.join("alias");
    symlink("W", &alias).unwrap();
    let through_alias = alias.join("x");
    assert_eq!(scratch.read(through_alias.to_str().unwrap()).unwrap(), b"x");
    let access = FileAccess::new(AccessRules::workspace(&alias)).unwrap();
    assert_eq!(access.workspace(), scratch.workspace);
    let path = access.for_writing(&alias, "new", &Grants::default()).unwrap();
    assert_eq!(path.real(), scratch.workspace.join("new"));
}

#[test]
fn names_that_can_be_no_path_say_what_is_wrong() {
    let scratch = Scratch::new();
    assert!(failed(scratch.read("")).contains("empty"));
    assert!(failed(scratch.read("a\0/../../etc/passwd")).contains("NUL"));
    assert!(failed(scratch.read("file:///etc/passwd")).contains("URL"));
    assert!(refused(scratch.read("~/.ssh/id_rsa")).contains("not expanded"));
    scratch.file("~/x");
    assert_eq!(scratch.read("./~/x").unwrap(), b"x", "a folder of that name can be reached");
}

#[test]
fn going_back_over_a_symlink_is_refused_because_it_means_two_things() {
    let scratch = Scratch::new();
    scratch.file("real/sub/x").file("x").link("link", "real/sub");
    assert!(refused(scratch.read("link/../x")).contains("without .."));
    assert_eq!(scratch.read("real/../x").unwrap(), b"x");
}

#[test]
fn git_and_anvil_folders_cannot_be_mutated_at_any_depth_or_letter_case() {
    let scratch = Scratch::new();
    scratch.file(".git/config").file("sub/.git/hooks/x").link("alias", ".git");
    for path in [
        ".git/hooks/pre-commit",
        ".GIT/hooks/pre-commit",
        ".git/./hooks//post-checkout",
        "sub/.git/config",
        "alias/config",
        ".anvil/config.toml",
        ".Anvil/Config.toml",
    ] {
        assert!(refused(scratch.write(path)).contains("ask the user"), "{path}");
    }
    assert_eq!(scratch.read(".git/config").unwrap(), b"x", "reading is allowed");
    scratch.write(".gitignore").unwrap();
    scratch.write(".github/workflows/ci.yml").unwrap();
}

#[test]
fn the_pointer_file_of_a_worktree_and_what_it_points_to_are_protected() {
    let scratch = Scratch::new();
    fs::write(scratch.workspace.join(".git"), "gitdir: gd\n").unwrap();
    scratch.file("gd/HEAD").file("gd/objects/x").file("gd/refs/x");
    refused(scratch.write(".git"));
    assert!(refused(scratch.write("gd/hooks/pre-commit")).contains("git's"));
    scratch.file("wt/HEAD").file("wt/commondir");
    refused(scratch.write("wt/config.worktree"));
    scratch.write("x/HEAD").unwrap();
}

#[test]
fn the_target_of_a_symlinked_configuration_is_protected() {
    let scratch = Scratch::new();
    scratch.file("settings/config.toml").link(".anvil", "settings");
    refused(scratch.write("settings/new.toml"));
    scratch.write("other/new.toml").unwrap();
}

#[test]
fn anvils_own_folders_are_protected_inside_a_writable_root() {
    let scratch = Scratch::new();
    let mut rules = scratch.rules();
    rules.protected = vec![scratch.workspace.join(".config/anvil")];
    let access = FileAccess::new(rules).unwrap();
    let write = |path| access.for_writing(&scratch.workspace, path, &Grants::default());
    refused(write(".config/anvil/config.toml"));
    refused(write(".Config/Anvil/config.toml"));
    write(".config/anvil-notes.md").unwrap();
}

#[test]
fn masked_files_are_refused_by_name_through_links_and_for_writing() {
    let scratch = Scratch::new();
    scratch.file("secrets/k").link("a", "secrets/k");
    let mut rules = scratch.rules();
    rules.masked = vec!["secrets/**".to_owned()];
    let access = FileAccess::new(rules).unwrap();
    for path in ["secrets/k", "a", "SECRETS/k", "secrets/missing"] {
        refused(access.for_reading(&scratch.workspace, path, &Grants::default()));
    }
    refused(access.for_writing(&scratch.workspace, "secrets/new", &Grants::default()));
}

#[test]
fn credential_files_are_masked_without_being_asked_for() {
    let scratch = Scratch::new();
    scratch.file(".env").file(".env.example");
    refused(scratch.read(".env"));
    assert_eq!(scratch.read(".env.example").unwrap(), b"x");
}

#[test]
fn a_readable_root_is_not_writable() {
    let scratch = Scratch::new();
    let mut rules = scratch.rules();
    rules.readable = vec![scratch.base.join("OUT"), scratch.base.join("does-not-exist")];
    let access = FileAccess::new(rules).unwrap();
    access.for_reading(&scratch.workspace, "../OUT/secret", &Grants::default()).unwrap();
    assert!(
        refused(access.for_writing(&scratch.workspace, "../OUT/new", &Grants::default()))
            .contains("not changed")
    );
}

#[test]
fn a_writable_root_beside_the_workspace_is_as_protected_as_the_workspace() {
    let scratch = Scratch::new();
    let mut rules = scratch.rules();
    rules.writable = vec![scratch.base.join("OUT")];
    let access = FileAccess::new(rules).unwrap();
    access.for_writing(&scratch.workspace, "../OUT/new", &Grants::default()).unwrap();
    refused(access.for_writing(&scratch.workspace, "../OUT/.git/config", &Grants::default()));
    refused(access.for_reading(&scratch.workspace, "../OUT/.env", &Grants::default()));
}

#[test]
fn what_is_not_a_file_is_an_error_at_once_and_never_waits() {
    let scratch = Scratch::new();
    scratch.file("d/x").link("loop-a", "loop-b").link("loop-b", "loop-a");
    let pipe = scratch.workspace.join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scratch.workspace.join("s")).unwrap();
    assert!(failed(scratch.read("pipe")).contains("named pipe"));
    assert!(failed(scratch.read("s")).contains("socket"));
    assert!(failed(scratch.read("d")).contains("glob"));
    failed(scratch.read("loop-a"));
    assert!(failed(scratch.read("none")).contains("glob"));
    failed(scratch.write("."));
}

#[test]
fn a_file_larger_than_the_limit_is_not_read() {
    let scratch = Scratch::new();
    fs::write(scratch.workspace.join("big"), vec![b'x'; 1001]).unwrap();
    assert!(failed(scratch.read("big")).contains("1001 bytes"));
}

#[test]
fn a_workspace_that_was_deleted_and_made_again_is_usable() {
    let scratch = Scratch::new();
    let access = scratch.access();
    fs::remove_dir(&scratch.workspace).unwrap();
    failed(access.for_reading(&scratch.workspace, "x", &Grants::default()));
    scratch.file("x");
    access.for_reading(&scratch.workspace, "x", &Grants::default()).unwrap();
}

#[test]
fn a_folder_to_search_must_be_one_and_lie_inside() {
    let scratch = Scratch::new();
    scratch.file("d/x");
    let access = scratch.access();
    let directory = |path| access.directory(&scratch.workspace, path, &Grants::default());
    assert_eq!(directory("d").unwrap().real(), scratch.workspace.join("d"));
    failed(directory("d/x"));
    refused(directory("../OUT"));
}

/// What a person opened, below the folder beside the workspace.
fn opened(scratch: &Scratch, paths: &[(&str, bool)]) -> Grants {
    let granted = |&(path, write): &(&str, bool)| GrantedPath {
        path: scratch.base.join("OUT").join(path),
        write,
    };
    Grants { paths: paths.iter().map(granted).collect(), ..Grants::default() }
}

#[test]
fn a_granted_path_is_open_for_what_it_was_granted_for_and_nothing_beside_it_is() {
    let scratch = Scratch::new();
    fs::write(scratch.base.join("OUT/other"), "x").unwrap();
    let access = scratch.access();
    let read = |path: &str, grants: &Grants| {
        access.read(&access.for_reading(&scratch.workspace, path, grants)?, 100)
    };
    let write = |path: &str, grants: &Grants| {
        let path = access.for_writing(&scratch.workspace, path, grants)?;
        access.replace(&path, b"new", Expect::Absent)
    };
    let grants = opened(&scratch, &[("secret", false), ("sub/new", true)]);
    assert_eq!(read("../OUT/secret", &grants).unwrap(), b"secret");
    let absolute = scratch.base.join("OUT/secret").display().to_string();
    assert_eq!(read(&absolute, &grants).unwrap(), b"secret");
    for path in ["../OUT/other", "../OUT", "../OUT/secret2", "/etc/passwd"] {
        refused(read(path, &grants));
    }
    refused(write("../OUT/secret", &grants));
    refused(write("../OUT/sub/new2", &grants));
    write("../OUT/sub/new", &grants).unwrap();
    assert_eq!(fs::read(scratch.base.join("OUT/sub/new")).unwrap(), b"new");
    refused(read("../OUT/secret", &Grants::default()));
}

#[test]
fn a_grant_takes_no_mask_and_no_protection_away_and_does_not_follow_links() {
    let scratch = Scratch::new();
    let out = scratch.base.join("OUT");
    fs::create_dir_all(out.join(".git/hooks")).unwrap();
    fs::write(out.join(".env"), "x").unwrap();
    symlink("secret", out.join("link")).unwrap();
    let access = scratch.access();
    let all: Vec<(&str, bool)> =
        [".env", "link", ".git/hooks/x", ".anvil/config.toml"].map(|path| (path, true)).into();
    let grants = opened(&scratch, &all);
    let cwd = &scratch.workspace;
    refused(access.for_reading(cwd, "../OUT/.env", &grants));
    refused(access.for_reading(cwd, "../OUT/link", &grants));
    refused(access.for_writing(cwd, "../OUT/link", &grants));
    refused(access.for_writing(cwd, "../OUT/.git/hooks/x", &grants));
    refused(access.for_writing(cwd, "../OUT/.anvil/config.toml", &grants));
}

#[test]
fn a_folder_that_was_granted_can_be_searched_and_not_written_into() {
    let scratch = Scratch::new();
    let access = scratch.access();
    let grants = Grants {
        paths: vec![GrantedPath { path: scratch.base.join("OUT"), write: true }],
        ..Grants::default()
    };
    access.directory(&scratch.workspace, "../OUT", &grants).unwrap();
    access.for_reading(&scratch.workspace, "../OUT/secret", &grants).unwrap();
    refused(access.for_writing(&scratch.workspace, "../OUT/secret", &grants));
}
