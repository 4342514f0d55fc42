//! Sessions of the real program: kept, gone on with, copied, listed, checked.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use agent::session::journal::Journal;
use agent::session::record::{Change, Record, ReplaceReason, StandIn};
use llm::{ContentBlock, Message, Role};
use serde_json::{Value, json};

use support::model::{Answer, Model};
use support::pty::{Pty, ask as converse};
use support::{Home, Ran, run};

fn ask(home: &Home, model: &Model, args: &[&str]) -> Ran {
    let mut command = home.anvil_with(model);
    run(command.args(args).args(["--no-stdin", "--output-format", "json"]))
}

fn anvil(home: &Home, args: &[&str]) -> Ran {
    let ran = run(home.anvil().args(args));
    ran.assert_no_panic();
    ran
}

/// A home in which one thing was asked, and the id of its session.
fn one() -> (Home, String) {
    let home = Home::new();
    let ran = ask(&home, &Model::new([Answer::text("An answer.")]), &["-p", "A question"]);
    let id = ran.assert_code(0).json()["session_id"].as_str().unwrap().to_owned();
    (home, id)
}

fn file(home: &Home, id: &str) -> PathBuf {
    let folders = fs::read_dir(home.data().join("sessions")).unwrap();
    let files = folders.map(|folder| folder.unwrap().path().join(format!("{id}.jsonl")));
    files.into_iter().find(|file| file.exists()).unwrap()
}

fn texts(request: &Value) -> String {
    request["messages"].to_string()
}

#[test]
fn a_session_goes_on_where_it_ended() {
    let (home, id) = one();
    for args in [vec!["-p", "more", "-c"], vec!["-p", "more", "-r", &id[..6]]] {
        let model = Model::new([Answer::text("More.")]);
        let ran = ask(&home, &model, &args);
        assert_eq!(ran.assert_code(0).json()["session_id"], id.as_str());
        let sent = texts(&model.requests()[0]);
        assert!(sent.contains("A question") && sent.contains("An answer."), "{sent}");
    }
}

#[test]
fn the_system_text_of_a_session_stays_the_same_when_its_sources_change() {
    let home = Home::new();
    home.write("AGENTS.md", "Be kind.\n");
    let system = |model: &Model| model.requests()[0]["system"].to_string();
    let first = Model::new([Answer::text("Yes.")]);
    ask(&home, &first, &["-p", "one"]).assert_code(0);
    home.write("AGENTS.md", "Be short.\n");
    let second = Model::new([Answer::text("Yes.")]);
    ask(&home, &second, &["-p", "two", "-c"]).assert_code(0);
    assert!(system(&first).contains("Be kind."));
    assert_eq!(system(&first), system(&second));
}

#[test]
fn a_copy_goes_on_under_an_id_of_its_own_and_leaves_the_session_alone() {
    let (home, id) = one();
    let before = fs::read(file(&home, &id)).unwrap();
    let model = Model::new([Answer::text("More.")]);
    let ran = ask(&home, &model, &["-p", "more", "-c", "--fork-session"]);
    let copy = ran.assert_code(0).json()["session_id"].as_str().unwrap().to_owned();
    assert_ne!(copy, id);
    assert!(texts(&model.requests()[0]).contains("A question"));
    assert_eq!(fs::read(file(&home, &id)).unwrap(), before);
    assert!(fs::read_to_string(file(&home, &copy)).unwrap().contains(&id));
}

#[test]
fn a_run_without_persistence_leaves_no_file() {
    let home = Home::new();
    let model = Model::new([Answer::text("Yes.")]);
    ask(&home, &model, &["-p", "x", "--ephemeral"]).assert_code(0);
    assert!(!home.data().join("sessions").exists());
}

#[test]
fn the_list_tells_prompt_model_and_cost_and_survives_a_damaged_file() {
    let (home, id) = one();
    let broken = file(&home, &id).with_file_name("broken.jsonl");
    fs::write(&broken, "{\"v\":1,\"se").unwrap();
    let ran = anvil(&home, &["sessions"]);
    ran.assert_code(0);
    for part in [&id[..8], "A question", "anthropic:", "just now"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let listed = anvil(&home, &["sessions", "--output-format", "json"]).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
    // What makes no sense is nothing to continue.
    let model = Model::new([Answer::text("More.")]);
    ask(&home, &model, &["-p", "more", "-c"]).assert_code(0);
}

#[test]
fn a_session_in_which_nothing_was_asked_is_listed_to_programs_only() {
    let (home, id) = one();
    let whole = fs::read_to_string(file(&home, &id)).unwrap();
    let begun: String = whole.split_inclusive('\n').take(2).collect();
    fs::write(file(&home, &id).with_file_name("unused.jsonl"), begun).unwrap();
    let told = anvil(&home, &["sessions"]).out;
    assert!(told.contains("A question") && !told.contains("unused"), "{told}");
    let listed = anvil(&home, &["sessions", "--output-format", "json"]).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
    fs::remove_file(file(&home, &id)).unwrap();
    assert!(anvil(&home, &["sessions"]).out.starts_with("No session was kept"));
}

#[test]
fn a_session_is_shown_replayed_and_exported() {
    let (home, id) = one();
    let shown = anvil(&home, &["sessions", "show", &id[..8]]);
    assert!(shown.out.contains("turns") && shown.out.contains("> A question"), "{}", shown.out);
    let replayed = anvil(&home, &["replay", &id]);
    assert_eq!(replayed.out, "> A question\n\nAn answer.\n\n");
    let document = anvil(&home, &["sessions", "export", &id]).json();
    assert_eq!(document["messages"][1]["content"][0]["text"], "An answer.");
    let markdown = anvil(&home, &["sessions", "export", &id, "--format", "markdown"]);
    assert!(markdown.out.contains("## User\n\nA question\n"), "{}", markdown.out);
}

/// Makes the first `upto` messages of the session others.
fn replace_head(home: &Home, id: &str, reason: ReplaceReason, upto: usize, new: Option<&str>) {
    let (mut journal, loaded) = Journal::open(&file(home, id), Arc::default()).unwrap();
    let message = |text: &str| Arc::new(Message::new(Role::User, vec![ContentBlock::text(text)]));
    let stand_in = new.map(|_| StandIn { blocks: 1, ..StandIn::default() });
    let messages = new.map(message).into_iter().collect();
    let change = Change::Head { upto, messages, stand_in };
    let revision = loaded.state.revision();
    let (before_tokens, after_tokens) = (None, None);
    let record = Record::ContextReplaced { revision, reason, change, before_tokens, after_tokens };
    journal.append(&record).unwrap();
}

#[test]
fn what_no_model_reads_any_more_is_shown_all_the_same() {
    let (home, id) = one();
    replace_head(&home, &id, ReplaceReason::Compacted, 1, Some("They talked."));
    let model = Model::new([Answer::text("More.")]);
    ask(&home, &model, &["-p", "Another question", "-c"]).assert_code(0);
    replace_head(&home, &id, ReplaceReason::Forgotten, 4, None);
    let shown = anvil(&home, &["replay", &id]).out;
    let parts = [
        "> A question",
        "An answer.",
        "  ~ They talked.",
        "> Another question",
        "More.",
        "(the conv",
    ];
    let places: Vec<_> = parts.iter().map(|part| shown.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{shown}");
    assert!(!shown.contains("> They talked."), "{shown}");
    assert!(anvil(&home, &["sessions", "show", &id]).out.ends_with(&shown));
    let markdown = anvil(&home, &["sessions", "export", &id, "--format", "markdown"]).out;
    assert!(markdown.contains("\nA question\n") && markdown.contains("begun anew"), "{markdown}");
}

#[test]
fn a_session_is_one_object_for_programs_however_they_ask() {
    let (home, id) = one();
    let exported = anvil(&home, &["sessions", "export", &id]).json();
    for command in [&["replay", &id][..], &["sessions", "show", &id]] {
        let ran = anvil(&home, &[command, &["--output-format", "json"]].concat());
        assert_eq!(ran.json(), exported);
    }
}

#[test]
fn a_check_mends_a_torn_end_and_names_the_line_of_other_damage() {
    let (home, id) = one();
    let file = file(&home, &id);
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 9]).unwrap();
    let ran = anvil(&home, &["sessions", "fsck"]);
    assert!(ran.out.contains("mended") && ran.out.contains(".torn"), "{}", ran.out);
    assert!(anvil(&home, &["sessions", "fsck", &id]).out.contains("whole,"));
    let lines: Vec<&str> = whole.lines().collect();
    let damaged = [&lines[..2], &["{nonsense"], &lines[3..]].concat().join("\n") + "\n";
    fs::write(&file, &damaged).unwrap();
    let ran = anvil(&home, &["sessions", "fsck"]);
    ran.assert_code(1);
    assert!(ran.err.contains("line 3"), "{}", ran.err);
    assert_eq!(fs::read_to_string(&file).unwrap(), damaged);
    let ran = ask(&home, &Model::new([Answer::text("x")]), &["-p", "x", "-r", &id]);
    assert_eq!(ran.assert_code(1).json()["error"]["kind"], "session");
}

#[test]
fn a_word_that_is_no_command_of_sessions_is_not_taken_for_a_task() {
    let home = Home::new();
    let said = |args: &[&str]| anvil(&home, args).assert_code(64).err.clone();
    assert!(said(&["fix", "it"]).contains("A task is given with -p"));
    assert!(!said(&["sessions", "list"]).contains("A task"));
}

#[test]
fn an_id_that_means_none_or_several_is_a_usage_error() {
    let (home, id) = one();
    let other = file(&home, &id).with_file_name(format!("{}-2.jsonl", &id[..8]));
    fs::copy(file(&home, &id), other).unwrap();
    let ran = anvil(&home, &["replay", &id[..8]]);
    ran.assert_code(64);
    assert!(ran.err.contains("several") && ran.err.contains(&id), "{}", ran.err);
    assert!(anvil(&home, &["replay", "zz"]).assert_code(64).err.contains("anvil sessions"));
    anvil(&home, &["-p", "x", "--fork-session"]).assert_code(64);
    let empty = Home::new();
    let ran = ask(&empty, &Model::new([Answer::text("x")]), &["-p", "x", "-c"]);
    assert_eq!(ran.assert_code(64).json()["error"]["kind"], "usage");
}

#[test]
fn a_session_in_use_is_refused_and_can_be_copied() {
    let (home, id) = one();
    let journal =
        agent::session::journal::Journal::open(&file(&home, &id), std::sync::Arc::default());
    let (_open, _) = journal.unwrap();
    let ran = ask(&home, &Model::new([Answer::text("x")]), &["-p", "x", "-c"]);
    let report = ran.assert_code(1).json();
    assert!(report["error"]["message"].as_str().unwrap().contains("--fork-session"), "{report}");
    ask(&home, &Model::new([Answer::text("x")]), &["-p", "x", "-c", "--fork-session"])
        .assert_code(0);
}

#[test]
fn a_session_whose_folder_cannot_be_written_goes_on_unsaved_and_says_so() {
    let home = Home::new();
    fs::create_dir_all(home.data()).unwrap();
    fs::write(home.data().join("sessions"), "a file where the folder belongs").unwrap();
    let model = Model::new([Answer::bash("echo hi"), Answer::text("Yes.")]);
    let mut command = home.anvil_with(&model);
    let ran =
        run(command.args(["-p", "x", "--yolo", "--no-stdin", "--output-format", "stream-json"]));
    let lines = ran.assert_code(0).lines();
    let told = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!((told("session_trouble"), told("turn_finished")), (1, 1));
    assert_eq!(model.last_results().len(), 1);
}

#[test]
fn a_data_folder_that_takes_nothing_is_told_once_and_the_turn_keeps_its_result() {
    let home = Home::new();
    fs::create_dir_all(home.data()).unwrap();
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o500)).unwrap();
    for format in ["text", "json", "stream-json"] {
        let model = Model::new([Answer::text("It is done.")]);
        let mut command = home.anvil_as_user(&model);
        let ran = run(command.args(["-p", "x", "--no-stdin", "--output-format", format]));
        assert!(ran.assert_code(0).out.contains("It is done."), "{ran:?}");
        let said = ran.out.clone() + &ran.err;
        let told: Vec<&str> = said.lines().filter(|line| line.contains("denied")).collect();
        assert!(told.len() == 1 && told[0].contains("not kept"), "{ran:?}");
        // A stream has an event for it; one object has no place.
        assert_eq!(ran.err.is_empty(), format == "stream-json", "{ran:?}");
    }
    assert!(!home.data().join("sessions").exists());
}

#[test]
fn a_file_that_takes_no_more_runs_no_command_and_the_answer_says_why() {
    let home = Home::new();
    let model = Model::new([Answer::bash("touch ran"), Answer::text("Yes.")]);
    let script =
        "trap '' XFSZ; ulimit -f 1; exec anvil -p x --yolo --no-stdin --output-format json";
    let mut command = home.shell(script, &model);
    // The first records alone are longer than the limit of one block.
    home.write("AGENTS.md", &"Be kind to everyone who reads this.\n".repeat(100));
    let ran = run(&mut command);
    let report = ran.assert_code(1).json();
    assert_eq!(report["error"]["kind"], "session", "{report}");
    assert!(!home.work().join("ran").exists());
}

#[test]
fn a_model_that_is_gone_is_named_with_the_way_on() {
    let (home, id) = one();
    let file = file(&home, &id);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"model\":\"anthropic:", "\"model\":\"old:")).unwrap();
    let ran = ask(&home, &Model::new([Answer::text("x")]), &["-p", "x", "-c"]);
    let report = ran.assert_code(78).json();
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("old:") && message.contains("-m"), "{message}");
}

#[test]
fn a_lost_folder_is_told_and_the_session_goes_on_here() {
    let (home, id) = one();
    let file = file(&home, &id);
    let text = fs::read_to_string(&file).unwrap();
    let work = format!("\"cwd\":\"{}\"", home.work().display());
    fs::write(&file, text.replace(&work, "\"cwd\":\"/nowhere/at/all\"")).unwrap();
    let model = Model::new([Answer::text("Here.")]);
    let mut command = home.anvil_with(&model);
    let ran = run(command.args(["-p", "x", "-r", &id, "--no-stdin"]));
    ran.assert_code(0);
    assert!(ran.err.contains("directory /nowhere/at/all is gone"), "{}", ran.err);
}

#[test]
fn old_sessions_are_deleted_by_a_persons_word_only() {
    let (home, id) = one();
    let file = file(&home, &id);
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    fs::File::options().append(true).open(&file).unwrap().set_modified(long_ago).unwrap();
    let ran = anvil(&home, &["sessions", "prune", "--older-than", "30d"]);
    assert!(ran.out.contains("would delete") && file.exists(), "{}", ran.out);
    anvil(&home, &["sessions", "prune", "--older-than", "30d", "--yes"]).assert_code(0);
    assert!(!file.exists());
}

#[test]
fn sessions_are_their_users_alone() {
    let (home, id) = one();
    let file = file(&home, &id);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("sk-test-0123456789abcdef0123"));
}

#[test]
fn a_session_near_its_limit_is_told_of_and_one_at_it_is_refused_unless_it_is_not_kept() {
    let (home, id) = one();
    fs::create_dir_all(home.config()).unwrap();
    fs::write(home.config().join("config.toml"), "[sessions]\nmax_file_mb = 1\n").unwrap();
    let file = file(&home, &id);
    let grow = |to: usize| {
        let mut text = fs::read_to_string(&file).unwrap();
        let seq = text.lines().count();
        let blank = "x".repeat(to - text.len());
        text += &format!(
            "{{\"v\":1,\"seq\":{seq},\"ts\":0,\"type\":\"todos_changed\",\"todos\":\"{blank}\"}}\n"
        );
        fs::write(&file, text).unwrap();
    };
    grow(850_000);
    let mut command = home.anvil_with(&Model::new([Answer::text("x")]));
    let ran = run(command.args(["-p", "x", "-c", "--no-stdin"]));
    assert!(ran.assert_code(0).err.contains("sessions.max_file_mb"), "{}", ran.err);
    grow(1_100_000);
    let before = fs::read(&file).unwrap();
    let model = Model::new([Answer::text("x")]);
    let report = ask(&home, &model, &["-p", "x", "-c"]).assert_code(1).json();
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("max_file_mb") && message.contains("export"), "{message}");
    assert!(model.requests().is_empty());
    assert_eq!(fs::read(&file).unwrap(), before);
    ask(&home, &model, &["-p", "x", "-c", "--ephemeral"]).assert_code(0);
}

#[test]
fn a_provider_key_that_looks_like_nothing_stays_out_of_a_session_that_goes_on() {
    let (home, id) = one();
    fs::create_dir_all(home.config()).unwrap();
    let provider = "[providers.own]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\n\
                    api_key_env = \"GATE\"\n";
    fs::write(home.config().join("config.toml"), provider).unwrap();
    let mut command = home.anvil_with(&Model::new([Answer::text("It is plain-words-here.")]));
    command.env("GATE", "plain-words-here");
    run(command.args(["-p", "x", "-c", "--no-stdin"])).assert_code(0);
    let text = fs::read_to_string(file(&home, &id)).unwrap();
    assert!(text.contains("It is ") && !text.contains("plain-words-here"), "{text}");
}

#[test]
fn another_model_than_before_is_told() {
    let (home, _) = one();
    let mut command = home.anvil_with(&Model::new([Answer::text("Yes.")]));
    let ran = run(command.args(["-p", "x", "-c", "-m", "anthropic:other", "--no-stdin"]));
    assert!(ran.assert_code(0).err.contains("anthropic:other answers now"), "{}", ran.err);
}

#[test]
fn what_is_no_problem_is_told_to_people_and_leaves_standard_error_of_programs_empty() {
    let (home, id) = one();
    let elsewhere = home.home();
    let go_on = |format: &str| {
        let mut command = home.anvil_with(&Model::new([Answer::text("Yes.")]));
        let args = ["-p", "x", "-r", &id, "-m", "anthropic:other", "--no-stdin"];
        run(command.args(args).args(["--output-format", format]).current_dir(&elsewhere))
    };
    let told = go_on("text");
    for part in ["continues in", "anthropic:other answers now"] {
        assert!(told.assert_code(0).err.contains(part), "{part}: {}", told.err);
    }
    for format in ["json", "stream-json"] {
        // One that was asked last is no other.
        let text = fs::read_to_string(file(&home, &id)).unwrap();
        fs::write(file(&home, &id), text.replace("anthropic:other", "anthropic:older")).unwrap();
        assert_eq!(go_on(format).assert_code(0).err, "", "{format}");
    }
    // What is lost is a problem in any form.
    let file = file(&home, &id);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + "{\"v\":1,\"se").unwrap();
    let ran = ask(&home, &Model::new([Answer::text("Yes.")]), &["-p", "x", "-r", &id]);
    assert!(ran.assert_code(0).err.contains("was never finished"), "{}", ran.err);
}

#[test]
fn a_conversation_tells_once_that_its_file_grows_toward_the_limit() {
    let home = Home::new();
    fs::create_dir_all(home.config()).unwrap();
    fs::write(home.config().join("config.toml"), "[sessions]\nmax_file_mb = 1\n").unwrap();
    let long = json!({"a": 1, "op": "add", "b": 1, "c": "x".repeat(900_000)});
    let model = Model::new([
        Answer::call("calculator", long),
        Answer::text("So much."),
        Answer::text("And more."),
    ]);
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    converse(&mut pty, "go", "So much.");
    converse(&mut pty, "again", "And more.");
    pty.send("\x04");
    assert_eq!(pty.code(), 0);
    assert_eq!(pty.all().matches("sessions.max_file_mb").count(), 1, "{}", pty.all());
}

#[test]
fn a_document_stays_json_whatever_was_said() {
    let home = Home::new();
    let said = "a\u{202e}b\u{9b}2J";
    ask(&home, &Model::new([Answer::text(said)]), &["-p", said]).assert_code(0);
    let id = anvil(&home, &["sessions", "--output-format", "json"]).json();
    let id = id["sessions"][0]["id"].as_str().unwrap().to_owned();
    let ran = anvil(&home, &["sessions", "export", &id]);
    assert_eq!(ran.json()["messages"][1]["content"][0]["text"], said);
    assert!(!ran.out.contains('\u{202e}'), "{}", ran.out);
}
