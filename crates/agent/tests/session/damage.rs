//! Files that were cut, mixed up or meant for another version.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use agent::session::journal::{Journal, JournalError, load};
use agent::session::record::Record;
use agent::session::store::Store;
use llm::Tail;
use proptest::prelude::*;
use serde_json::Value;

use super::{Written, create, says, user, write};

/// The error of loading and of opening, which leave the file as it was.
fn refused(written: &Written) -> (String, Option<u64>) {
    let before = written.bytes();
    let error = load(&written.path).unwrap_err();
    let open = Journal::open(&written.path, Arc::default()).unwrap_err();
    assert_eq!(error.to_string(), open.to_string());
    assert_eq!(written.bytes(), before);
    (error.to_string(), error.line())
}

#[test]
fn a_torn_last_line_is_kept_beside_the_file_and_the_next_record_stands_on_a_line_of_its_own() {
    let written = write();
    let whole = written.bytes();
    let last = whole.len() - written.lines().last().unwrap().len() - 1;
    for cut in last + 1..whole.len() - 1 {
        written.put(&whole[..cut]);
        let (mut journal, loaded) = Journal::open(&written.path, Arc::default()).unwrap();
        assert_eq!(loaded.records, 8, "{cut}");
        let torn = loaded.torn.unwrap();
        assert_eq!((torn.line, &torn.bytes[..]), (9, &whole[last..cut]));
        assert!(fs::read(&torn.kept).unwrap().ends_with(&[&whole[last..cut], b"\n"].concat()));
        journal.append(&says("again")).unwrap();
        let again = load(&written.path).unwrap();
        assert_eq!((again.records, again.torn.is_none()), (9, true));
        llm::validate_transcript(again.state.messages(), Tail::Settled).unwrap();
    }
}

#[test]
fn a_last_record_without_its_line_feed_counts() {
    let written = write();
    let whole = written.bytes();
    written.put(&whole[..whole.len() - 1]);
    let (mut journal, loaded) = Journal::open(&written.path, Arc::default()).unwrap();
    assert_eq!((loaded.records, loaded.torn.is_none()), (9, true));
    journal.append(&user("more")).unwrap();
    assert_eq!(load(&written.path).unwrap().records, 10);
}

#[test]
fn zeros_at_the_very_end_are_a_torn_line() {
    let written = write();
    written.put(&[&written.bytes()[..], &[0; 512]].concat());
    assert_eq!(load(&written.path).unwrap().records, 9);
}

#[test]
fn damage_inside_is_told_with_its_line_and_nothing_is_changed() {
    let written = write();
    let whole = written.lines();
    for (line, text) in [
        (3, "{not json".to_owned()),
        (4, whole[3][..20].to_owned() + &whole[3]),
        (2, "\0\0\0\0".to_owned()),
        (6, whole[6].clone()),
    ] {
        let mut lines = whole.clone();
        lines[line - 1] = text;
        written.put_lines(&lines);
        let (error, told) = refused(&written);
        assert_eq!(told, Some(line as u64), "{error}");
        assert!(error.contains(&format!("line {line}")), "{error}");
    }
}

#[test]
fn a_missing_or_a_double_line_is_told() {
    let written = write();
    let whole = written.lines();
    let mut lines = whole.clone();
    lines.insert(4, whole[3].clone());
    written.put_lines(&lines);
    assert_eq!(refused(&written).1, Some(5));
    lines = whole;
    lines.remove(5);
    written.put_lines(&lines);
    assert_eq!(refused(&written).1, Some(6));
}

#[test]
fn a_second_result_is_refused_by_the_name_of_its_call() {
    let written = write();
    let mut lines = written.lines();
    lines.pop();
    lines.push(lines[7].replace("\"seq\":7", "\"seq\":8"));
    written.put_lines(&lines);
    let (error, _) = refused(&written);
    assert!(error.contains("'c1'"), "{error}");
}

#[test]
fn a_later_version_is_refused_also_as_the_last_line() {
    let written = write();
    let mut lines = written.lines();
    lines[8] = lines[8].replace("\"v\":1", "\"v\":99");
    written.put_lines(&lines);
    assert!(refused(&written).0.contains("version 99"));
    written.put(lines.join("\n").as_bytes());
    assert!(refused(&written).0.contains("version 99"));
}

#[test]
fn an_unknown_record_is_left_out_unless_it_is_critical() {
    let written = write();
    let mut lines = written.lines();
    lines.push(r#"{"v":1,"seq":9,"ts":0,"type":"mood_changed","mood":"fine"}"#.to_owned());
    written.put_lines(&lines);
    let loaded = load(&written.path).unwrap();
    assert_eq!((loaded.records, loaded.left_out), (10, 1));
    assert!(loaded.state == written.state);
    lines[9] = r#"{"v":1,"seq":9,"ts":0,"critical":true,"type":"mood_changed"}"#.to_owned();
    written.put_lines(&lines);
    assert!(refused(&written).0.contains("mood_changed"));
}

#[test]
fn a_file_without_one_whole_record_is_called_empty() {
    let written = write();
    let whole = written.bytes();
    for end in [0, 1, 40] {
        written.put(&whole[..end]);
        assert!(refused(&written).0.contains("is empty"), "{end}");
    }
}

#[test]
fn one_program_writes_and_the_lock_ends_with_it() {
    let written = write();
    let (journal, _) = Journal::open(&written.path, Arc::default()).unwrap();
    let second = Journal::open(&written.path, Arc::default()).unwrap_err();
    assert!(matches!(second, JournalError::InUse { .. }));
    assert!(second.to_string().contains("--fork-session"), "{second}");
    drop(journal);
    Journal::open(&written.path, Arc::default()).unwrap();
}

#[test]
fn a_link_is_never_followed() {
    let written = write();
    let link = written.dir.path().join("link.jsonl");
    std::os::unix::fs::symlink(&written.path, &link).unwrap();
    assert!(load(&link).is_err());
    assert!(Journal::open(&link, Arc::default()).is_err());
}

#[test]
fn a_removed_file_is_told_and_the_records_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = create(dir.path());
    fs::remove_file(journal.path()).unwrap();
    assert!(matches!(journal.append(&user("x")), Err(JournalError::Removed { .. })));
    assert!(matches!(journal.catch_up(), Err(JournalError::Removed { .. })));
}

#[test]
fn files_and_folders_are_their_users_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let folder = store.folder(&super::meta().cwd);
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let (journal, _) = store.create(super::meta(), Arc::default()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(journal.path()), 0o600);
    assert_eq!((mode(&folder), mode(store.root())), (0o700, 0o700));
}

#[test]
fn workspaces_with_like_names_have_folders_of_their_own() {
    let store = Store::new("/data".as_ref());
    let long = format!("/{}/{}", "d".repeat(250), "e".repeat(250));
    let paths = ["/a/b", "/a-b", "/a_b", "/", &long];
    let folders: std::collections::HashSet<_> =
        paths.iter().map(|path| store.folder(path.as_ref())).collect();
    assert_eq!(folders.len(), paths.len());
    assert!(folders.iter().all(|folder| folder.file_name().unwrap().len() < 255));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_file_with_any_bytes_changed_is_refused_or_gives_a_legal_dialogue(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session/version-1.jsonl");
        let mut bytes = fs::read(path).unwrap();
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.jsonl");
        fs::write(&file, &bytes).unwrap();
        if let Ok(loaded) = load(&file) {
            let messages = loaded.state.messages();
            let legal = llm::validate_transcript(messages, llm::Tail::MayBePending);
            prop_assert!(messages.is_empty() || legal.is_ok(), "{legal:?}");
            // Who goes on with it writes where the next one can read.
            let (mut journal, loaded) = Journal::open(&file, Arc::default()).unwrap();
            journal.append(&Record::TodosChanged { todos: Value::Null }).unwrap();
            prop_assert_eq!(load(&file).unwrap().records, loaded.records + 1);
        } else {
            prop_assert!(Journal::open(&file, Arc::default()).is_err());
            prop_assert_eq!(fs::read(&file).unwrap(), bytes, "what is refused stays as it is");
        }
    }
}
