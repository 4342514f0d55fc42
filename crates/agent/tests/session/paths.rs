//! Folders and files of any name, and files that are none of ours.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use agent::session::journal::{Journal, load};
use agent::session::record::{Intended, Record};
use agent::session::store::Store;

use super::{calls, meta, user};

/// A path that is no text.
fn odd() -> PathBuf {
    OsString::from_vec(b"/w/\xff\xfe x".to_vec()).into()
}

#[test]
fn a_folder_and_a_file_whose_names_are_no_text_are_kept_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let meta = agent::session::record::Meta { cwd: odd(), ..meta() };
    let (mut journal, mut state) = Journal::create(&path, meta, Arc::default()).unwrap();
    let intended = vec![Intended { path: odd(), before: None, after: Some("a".into()) }];
    let started = Record::ToolStarted { call_id: "c".into(), tool: "write_file".into(), intended };
    for record in [user("q"), calls(&["c".to_owned()]), started] {
        state.apply(&record).unwrap();
        journal.append(&record).unwrap();
    }
    let loaded = load(&path).unwrap().state;
    assert_eq!(loaded.meta().unwrap().cwd, odd());
    assert!(loaded == state);
    assert!(fs::read_to_string(&path).is_ok(), "every line is text");
}

#[test]
fn a_name_that_is_no_id_is_nobodys_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let (journal, _) = store.create(meta(), Arc::default()).unwrap();
    let folder = journal.path().parent().unwrap().to_owned();
    for name in ["-rf", ".hidden", "a\nb", "a\u{1b}[31m", "..", "a b"] {
        fs::copy(journal.path(), folder.join(format!("{name}.jsonl"))).unwrap();
    }
    let ids: Vec<String> =
        store.list(&meta().cwd).unwrap().into_iter().map(|entry| entry.id).collect();
    assert_eq!(ids, ["s"]);
    for id in ["-rf", "..", "../s", "/", ""] {
        assert!(store.find(&meta().cwd, id).is_err(), "{id}");
    }
}

#[test]
fn a_link_to_a_folder_of_sessions_counts_none_of_them_twice() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let (journal, _) = store.create(meta(), Arc::default()).unwrap();
    let (folder, bytes) = (journal.path().parent().unwrap(), store.total_bytes());
    symlink(folder, store.root().join("again")).unwrap();
    assert_eq!(store.list_all().unwrap().len(), 1);
    assert_eq!((store.total_bytes(), bytes), (journal.bytes(), journal.bytes()));
}

#[test]
fn a_copy_is_found_once_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let (mut journal, mut state) = store.create(meta(), Arc::default()).unwrap();
    state.apply(&user("q")).unwrap();
    journal.append(&user("q")).unwrap();
    // As a program leaves it that is killed while it copies.
    let half = journal.path().with_file_name("half.part");
    fs::copy(journal.path(), &half).unwrap();
    let cwd = &meta().cwd;
    let (mut copy, copied) = store.fork(journal.path(), "copy", cwd, Arc::default()).unwrap();
    assert_eq!(copied.messages(), state.messages());
    copy.append(&super::says("a")).unwrap();
    let mut ids: Vec<String> = store.list(cwd).unwrap().into_iter().map(|one| one.id).collect();
    ids.sort();
    assert_eq!(ids, ["copy", "s"]);
    assert_eq!(load(copy.path()).unwrap().records, 3);
    assert_eq!(load(journal.path()).unwrap().records, 2);
    assert_eq!(fs::read_dir(half.parent().unwrap()).unwrap().count(), 3);
}

#[test]
fn a_list_shows_how_a_prompt_begins_however_long_it_is_and_a_paste_as_a_chip() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let long = "\"long\"\n\u{1} ".repeat(100_000);
    let pasted = agent::paste::embed(&"line\n".repeat(50));
    let pasted_long = agent::paste::embed(&"line\n".repeat(100_000));
    for (id, prompt, shown) in [
        ("short", "a \"b\"".to_owned(), "a \"b\"".to_owned()),
        ("long", long.clone(), long.chars().take(50).collect()),
        ("pasted", format!("see {pasted}"), "see [paste #1 · ".to_owned()),
        ("pasted-long", format!("see {pasted_long}"), "see [paste]".to_owned()),
    ] {
        let meta = agent::session::record::Meta { id: id.into(), ..meta() };
        let (mut journal, _) = store.create(meta, Arc::default()).unwrap();
        journal.append(&user(&prompt)).unwrap();
        let found = store.find(&super::meta().cwd, id).unwrap().first_prompt.unwrap();
        assert!(found.starts_with(&shown), "{id}: {found:?}");
    }
}

#[test]
fn the_session_that_was_written_last_is_found_among_those_that_were_asked_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    for (id, seconds, prompt) in [("old", 10, true), ("last", 20, true), ("silent", 30, false)] {
        let meta = agent::session::record::Meta { id: id.into(), ..meta() };
        let (mut journal, _) = store.create(meta, Arc::default()).unwrap();
        if prompt {
            journal.append(&user("q")).unwrap();
        }
        let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let file = fs::File::options().append(true).open(journal.path()).unwrap();
        file.set_modified(at).unwrap();
    }
    let ids: Vec<String> =
        store.list(&meta().cwd).unwrap().into_iter().map(|entry| entry.id).collect();
    assert_eq!(ids, ["silent", "last", "old"]);
    assert_eq!(store.latest(&meta().cwd).unwrap().unwrap().id, "last");
}

#[test]
fn a_session_whose_beginning_is_damaged_or_not_read_is_still_the_last_one() {
    let system = "s".repeat(300_000);
    let stamped = format!(r#"{{"v":1,"seq":1,"ts":1,"type":"note","text":"{system}"}}"#);
    for (what, second) in [
        ("no text", &b"\xff\xfe{}\n"[..]),
        ("a gap", &b"\n"[..]),
        ("a later version", br#"{"v":99,"seq":1,"ts":1,"type":"x"}"#),
        ("a long record", stamped.as_bytes()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let of = |id: &str| agent::session::record::Meta { id: id.into(), ..meta() };
        let (mut journal, _) = store.create(of("old"), Arc::default()).unwrap();
        journal.append(&user("q")).unwrap();
        let (journal, _) = store.create(of("last"), Arc::default()).unwrap();
        let mut bytes = fs::read(journal.path()).unwrap();
        bytes.extend_from_slice(second);
        bytes.extend_from_slice(b"\n{}\n");
        fs::write(journal.path(), bytes).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(9);
        fs::File::options().append(true).open(journal.path()).unwrap().set_modified(later).unwrap();
        let found = store.latest(&meta().cwd).unwrap().unwrap();
        assert_eq!((found.id.as_str(), found.first_prompt), ("last", None), "{what}");
    }
}

#[test]
fn a_fault_is_told_in_a_line_however_much_of_the_file_it_repeats() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let (journal, _) = store.create(meta(), Arc::default()).unwrap();
    let how = "x".repeat(1 << 20);
    let line = format!(
        r#"{{"v":1,"seq":1,"ts":1,"type":"turn_finished","outcome":"{how}","steps":1,"cost_usd":null}}"#
    );
    let mut bytes = fs::read(journal.path()).unwrap();
    bytes.extend_from_slice(format!("{line}\n").as_bytes());
    fs::write(journal.path(), bytes).unwrap();
    let told = load(journal.path()).unwrap_err().to_string();
    assert!(
        told.contains("line 2: it is not a record: unknown variant") && told.len() < 600,
        "{}",
        told.len()
    );
}
