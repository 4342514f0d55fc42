//! Folders that are swapped for links, and for git directories, while they are read and written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

/// How often each side tries.
const ROUNDS: usize = 2_000;

/// Exchanges two names for as long as `work` runs.
fn while_swapping(one: &Path, other: &Path, work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        work();
        over.store(true, Ordering::Relaxed);
    });
}

struct Place {
    _dir: tempfile::TempDir,
    workspace: PathBuf,
    outside: PathBuf,
    access: FileAccess,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (workspace, outside) = (base.join("W"), base.join("OUT"));
    fs::create_dir_all(workspace.join("d")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(workspace.join("d/f"), "inside").unwrap();
    fs::write(outside.join("f"), "secret").unwrap();
    let access = FileAccess::new(AccessRules::workspace(&workspace)).unwrap();
    Place { _dir: dir, workspace, outside, access }
}

#[test]
fn nothing_outside_is_read_while_a_folder_becomes_a_link_and_back() {
    let place = place();
    symlink(&place.outside, place.workspace.join("l")).unwrap();
    let mut read = 0;
    while_swapping(&place.workspace.join("d"), &place.workspace.join("l"), || {
        for _ in 0..ROUNDS {
            let path = place.access.for_reading(&place.workspace, "d/f", &Grants::default());
            if let Ok(content) = path.and_then(|path| place.access.read(&path, 100)) {
                assert_eq!(content, b"inside");
                read += 1;
            }
        }
    });
    assert!(read > 0, "the folder was never there");
}

#[test]
fn nothing_outside_is_written_while_a_folder_becomes_a_link_and_back() {
    let place = place();
    symlink(&place.outside, place.workspace.join("l")).unwrap();
    let mut written = 0;
    while_swapping(&place.workspace.join("d"), &place.workspace.join("l"), || {
        for round in 0..ROUNDS / 4 {
            let name = format!("d/new-{round}");
            let path = place.access.for_writing(&place.workspace, &name, &Grants::default());
            let done = path.and_then(|path| place.access.replace(&path, b"x", Expect::Absent));
            written += usize::from(done.is_ok());
        }
    });
    assert!(written > 0, "the folder was never there");
    let names: Vec<_> =
        fs::read_dir(&place.outside).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["f"], "something was written outside");
}

#[test]
fn nothing_is_written_into_a_git_directory_that_takes_the_place_of_a_folder() {
    let place = place();
    for folder in ["objects", "refs", "hooks"] {
        fs::create_dir_all(place.workspace.join(".git").join(folder)).unwrap();
    }
    fs::write(place.workspace.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::create_dir_all(place.workspace.join("d/hooks")).unwrap();
    let mut written = 0;
    while_swapping(&place.workspace.join("d"), &place.workspace.join(".git"), || {
        for round in 0..ROUNDS / 4 {
            let name = format!("d/hooks/new-{round}");
            let path = place.access.for_writing(&place.workspace, &name, &Grants::default());
            let done = path.and_then(|path| place.access.replace(&path, b"x", Expect::Absent));
            written += usize::from(done.is_ok());
        }
    });
    assert!(written > 0, "the folder was never there");
    let git = [".git", "d"].map(|name| place.workspace.join(name));
    let git = git.iter().find(|dir| dir.join("HEAD").exists()).unwrap();
    assert_eq!(fs::read_dir(git.join("hooks")).unwrap().count(), 0, "a hook was written");
}
