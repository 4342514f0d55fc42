//! Folders that are swapped for links, and for git directories, while they are read and written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

/// How often it is tried, and how often at most until it worked once.
const ROUNDS: usize = 500;
const MOST_ROUNDS: usize = 200_000;

/// Tries with numbers from 0 on, and says how often it worked.
fn try_often(mut works: impl FnMut(usize) -> bool) -> usize {
    let mut worked = 0;
    for round in 0..MOST_ROUNDS {
        worked += usize::from(works(round));
        if round >= ROUNDS && worked > 0 {
            break;
        }
    }
    worked
}

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
        read = try_often(|_| {
            let path = place.access.for_reading(&place.workspace, "d/f", &Grants::default());
            let content = path.and_then(|path| place.access.read(&path, 100));
            content.is_ok_and(|content| {
                assert_eq!(content, b"inside");
                true
            })
        });
    });
    assert!(read > 0, "the folder was never there");
}

#[test]
fn nothing_outside_is_written_while_a_folder_becomes_a_link_and_back() {
    let place = place();
    symlink(&place.outside, place.workspace.join("l")).unwrap();
    let mut written = 0;
    while_swapping(&place.workspace.join("d"), &place.workspace.join("l"), || {
        written = try_often(|round| {
            let name = format!("d/new-{round}");
            let path = place.access.for_writing(&place.workspace, &name, &Grants::default());
            path.and_then(|path| place.access.replace(&path, b"x", Expect::Absent)).is_ok()
        });
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
        written = try_often(|round| {
            let name = format!("d/hooks/new-{round}");
            let path = place.access.for_writing(&place.workspace, &name, &Grants::default());
            path.and_then(|path| place.access.replace(&path, b"x", Expect::Absent)).is_ok()
        });
    });
    assert!(written > 0, "the folder was never there");
    let git = [".git", "d"].map(|name| place.workspace.join(name));
    let git = git.iter().find(|dir| dir.join("HEAD").exists()).unwrap();
    assert_eq!(fs::read_dir(git.join("hooks")).unwrap().count(), 0, "a hook was written");
}
