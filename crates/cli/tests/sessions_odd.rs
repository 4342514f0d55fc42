//! Sessions of the real program where something is odd: names, other programs, other hands.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use agent::session::journal::Journal;

use support::model::{Answer, Model};
use support::{Home, run};

/// A home in which one thing was asked, and the file of its session.
fn one() -> (Home, PathBuf) {
    let home = Home::new();
    let mut command = home.anvil_with(&Model::new([Answer::text("An answer.")]));
    run(command.args(["-p", "A question", "--no-stdin"])).assert_code(0);
    let folder = fs::read_dir(home.data().join("sessions")).unwrap().next().unwrap();
    let file = fs::read_dir(folder.unwrap().path()).unwrap().next().unwrap();
    (home, file.unwrap().path())
}

// Other systems take no name that is no text.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_whose_name_is_no_text_keeps_its_sessions() {
    let home = Home::new();
    let odd = home.work().join(OsString::from_vec(b"w\xff\xfe".to_vec()));
    fs::create_dir(&odd).unwrap();
    for args in [&["-p", "A question"][..], &["-p", "more", "-c"]] {
        let mut command = home.anvil_with(&Model::new([Answer::text("An answer.")]));
        let ran = run(command.current_dir(&odd).args(args).arg("--no-stdin"));
        ran.assert_code(0);
        assert!(!ran.err.contains("not kept"), "{}", ran.err);
    }
    let ran = run(home.anvil().current_dir(&odd).args(["sessions", "--output-format", "json"]));
    let listed = ran.assert_code(0).json();
    assert_eq!(listed["sessions"][0]["first_prompt"], "A question");
    assert!(listed["cwd"].as_str().unwrap().contains('\u{fffd}'), "{listed}");
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    let ran = run(home.anvil().current_dir(&odd).args(["sessions", "export", id]));
    assert_eq!(ran.assert_code(0).json()["messages"].as_array().unwrap().len(), 4);
}

#[test]
fn a_check_calls_a_session_that_is_being_written_whole_so_far() {
    let (home, file) = one();
    let _open = Journal::open(&file, Arc::default()).unwrap();
    let ran = run(home.anvil().args(["sessions", "fsck"]));
    assert!(
        ran.assert_code(0).out.contains("whole so far") && ran.out.contains("in use"),
        "{ran:?}"
    );
}

#[test]
fn what_is_in_use_or_cannot_be_deleted_is_not_counted_as_deleted() {
    let (home, file) = one();
    let old = file.with_file_name("old.jsonl");
    fs::copy(&file, &old).unwrap();
    // It stands where the torn end would, and no file can be removed there.
    fs::create_dir(file.with_file_name("stuck.jsonl.torn")).unwrap();
    let stuck = file.with_file_name("stuck.jsonl");
    fs::copy(&file, &stuck).unwrap();
    for path in [&file, &old, &stuck] {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    let _open = Journal::open(&file, Arc::default()).unwrap();
    let ran = run(home.anvil().args(["sessions", "prune", "--older-than", "1d", "--yes"]));
    ran.assert_code(1);
    for part in ["kept, in use: ", "NOT deleted: ", "\n1 sessions, "] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert!(file.exists() && !old.exists());
}

#[test]
fn a_list_is_not_moved_by_what_a_prompt_holds() {
    let home = Home::new();
    let prompt = "x\u{1b}[2J\r\nID  spoofed\u{202e}\u{7}";
    let mut command = home.anvil_with(&Model::new([Answer::text("Yes.")]));
    run(command.args(["-p", prompt, "--no-stdin"])).assert_code(0);
    let ran = run(home.anvil().arg("sessions"));
    assert!(!ran.out.contains(['\u{1b}', '\r', '\u{202e}', '\u{7}']), "{:?}", ran.out);
    assert_eq!(ran.out.lines().filter(|line| line.contains("spoofed")).count(), 1);
    assert!(ran.out.lines().next().unwrap().contains("spoofed"), "{}", ran.out);
}

#[test]
fn an_id_is_never_a_path() {
    let (home, file) = one();
    let outside = home.work().join("outside.jsonl");
    fs::copy(&file, &outside).unwrap();
    let path = outside.with_extension("");
    let back = format!("../../../../work/{}", "outside");
    for id in [path.to_str().unwrap(), &back, "..", ".", "*", "\u{1b}[31mred\n"] {
        for args in [&["sessions", "show", id][..], &["sessions", "export", id], &["replay", id]] {
            let ran = run(home.anvil().args(args));
            ran.assert_code(64).assert_no_panic();
            assert!(ran.out.is_empty() && !ran.err.contains('\u{1b}'), "{ran:?}");
        }
        let mut command = home.anvil_with(&Model::new([Answer::text("no")]));
        run(command.args(["-p", "x", "--no-stdin"]).arg(format!("--resume={id}"))).assert_code(64);
    }
}

#[test]
fn a_link_in_the_place_of_a_session_is_none() {
    let (home, file) = one();
    let target = home.work().join("target.jsonl");
    fs::rename(&file, &target).unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    let before = fs::read(&target).unwrap();
    let mut command = home.anvil_with(&Model::new([Answer::text("no")]));
    run(command.args(["-p", "x", "-c", "--no-stdin"])).assert_code(64);
    assert_eq!(fs::read(&target).unwrap(), before);
}

#[test]
fn what_cannot_be_written_is_not_called_damaged_and_goes_on_without_being_kept() {
    let (home, file) = one();
    let whole = fs::read(&file).unwrap();
    // The line feed that is missing cannot be added.
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let model = Model::new([Answer::text("More.")]);
    let ran = run(&mut home.shell("trap '' XFSZ; ulimit -f 0; exec anvil sessions fsck", &model));
    assert!(ran.assert_code(0).out.contains("whole, "), "{ran:?}");
    let go_on = "trap '' XFSZ; ulimit -f 0; exec anvil -c -p more --no-stdin";
    let ran = run(&mut home.shell(go_on, &model));
    assert!(ran.assert_code(1).err.contains("--no-session-persistence"), "{ran:?}");
    assert!(model.requests().is_empty());
    let ran = run(&mut home.shell(&format!("{go_on} --no-session-persistence"), &model));
    assert_eq!(ran.assert_code(0).out, "More.\n");
    assert_eq!(fs::read(&file).unwrap(), whole[..whole.len() - 1]);
}

#[test]
fn only_damage_is_advised_to_be_cut_off() {
    let (home, file) = one();
    let text = fs::read_to_string(&file).unwrap();
    let check = |text: &str, part: &str, is_advised: bool| {
        fs::write(&file, text).unwrap();
        let ran = run(home.anvil().args(["sessions", "fsck"]));
        assert!(ran.assert_code(1).err.contains(part), "{}", ran.err);
        assert_eq!(ran.err.contains("cut it there"), is_advised, "{}", ran.err);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    };
    check(&text.replacen("\n{\"v\":1", "\n{\"v\":99", 1), "use a newer anvil", false);
    check("", "is empty", false);
    check(&text.replacen("\"seq\":1", "\"seq\":7", 1), "lines are missing", true);
}
