//! `--record` and `--replay`: the same run again, without a server and without a key.

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::json;

use support::model::{Answer, Model};
use support::{Home, Ran, run};

const PROMPT: &str = "Put the number of lines of notes.txt into count.txt";
const ANSWER: &str = "There are three lines.";

fn model() -> Model {
    Model::new([
        Answer::call("read_file", json!({"file_path": "notes.txt"})),
        Answer::Calls(
            "I count them.".to_owned(),
            vec![
                ("bash", json!({"command": "wc -l < notes.txt; pwd"})),
                ("calculator", json!({"a": 1, "op": "add", "b": 2})),
            ],
        ),
        Answer::call("write_file", json!({"file_path": "count.txt", "content": "3\n"})),
        Answer::text(ANSWER),
    ])
}

fn project() -> Home {
    let home = Home::new();
    home.write("notes.txt", "one\ntwo\nthree\n");
    home
}

fn ask<'a>(command: &'a mut Command, prompt: &str) -> &'a mut Command {
    command.args(["-p", prompt, "--yolo", "--output-format", "json"])
}

/// A run that was recorded, with the place of its recording.
fn recorded() -> (Home, String) {
    let (home, model) = (project(), model());
    let file = home.home().join("run.jsonl");
    let mut command = home.anvil_with(&model);
    let ran = run(ask(&mut command, PROMPT).arg("--record").arg(&file));
    let report = ran.assert_code(0).json();
    assert_eq!((&report["text"], &report["steps"]), (&json!(ANSWER), &json!(4)));
    assert_eq!(ran.err, "");
    (home, file.into_os_string().into_string().expect("a path of a test is text"))
}

fn replayed(home: &Home, file: &str, prompt: &str) -> Ran {
    let mut command = home.anvil();
    run(ask(&mut command, prompt).args(["--replay", file]))
}

#[test]
fn a_recorded_run_is_the_same_in_a_copy_of_its_folder_without_server_and_key() {
    let (_recorded, file) = recorded();
    let copy = project();
    let ran = replayed(&copy, &file, PROMPT);
    let report = ran.assert_code(0).json();
    assert_eq!((&report["text"], &report["steps"]), (&json!(ANSWER), &json!(4)));
    assert_eq!(report["model"], "anthropic:claude-sonnet-5");
    assert_eq!(copy.read("count.txt"), "3\n", "the tools are real");
    assert_eq!(ran.err, "");
}

#[test]
fn a_replay_needs_no_word_about_the_server_that_was_recorded() {
    let (home, model) = (project(), model());
    let mut command = home.anvil();
    command
        .env("OPENAI_API_KEY", "sk-test-0123456789abcdef0123")
        .env("OPENAI_BASE_URL", format!("http://me:hunter2@{}/v1", model.address()));
    let ask_chat =
        |command: &mut Command| run(ask(command, PROMPT).args(["-m", "openai-chat:gpt-5.5"]));
    let ran = ask_chat(command.args(["--record", "../run.jsonl"]));
    assert_eq!(ran.assert_code(0).json()["text"], ANSWER);
    let text = std::fs::read_to_string(home.work().join("../run.jsonl")).unwrap();
    assert!(!text.contains("hunter2"));

    let copy = project();
    let file = home.work().join("../run.jsonl");
    let mut command = copy.anvil();
    let ran = ask_chat(command.arg("--replay").arg(file));
    assert_eq!(ran.assert_code(0).json()["text"], ANSWER);
}

#[test]
fn a_changed_prompt_is_named_as_the_difference_in_the_first_request() {
    let (_recorded, file) = recorded();
    let ran = replayed(&project(), &file, &PROMPT.replace("lines", "words"));
    let report = ran.assert_code(1).json();
    assert_eq!(
        (&report["outcome"], &report["error"]["kind"]),
        (&json!("failed"), &json!("recording"))
    );
    let message = report["error"]["message"].as_str().unwrap();
    for part in ["request 1 is not the recorded one", "messages[0]", "of lines of", "of words of"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(report["steps"], 1, "nothing is tried again");
}

#[test]
fn a_changed_file_is_named_in_the_request_that_tells_of_it() {
    let (_recorded, file) = recorded();
    let copy = project();
    copy.write("notes.txt", "one\ntwo\nthree and a half\n");
    let ran = replayed(&copy, &file, PROMPT);
    let message = ran.assert_code(1).json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("request 2 is not the recorded one"), "{message}");
    assert!(message.contains("three and a half"), "{message}");
    assert!(!copy.work().join("count.txt").exists());
}

#[test]
fn a_recording_is_private_and_holds_no_key_and_is_never_written_over() {
    let (home, file) = recorded();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("sk-test-0123456789abcdef0123"));
    assert!(text.contains("claude-sonnet-5"));
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut command = home.anvil_with(&model());
    let ran = run(ask(&mut command, PROMPT).args(["--record", &file]));
    let message = ran.assert_code(64).json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("exists"), "{message}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn what_is_no_recording_or_of_another_version_is_refused_before_the_turn() {
    let home = project();
    for (text, why) in [
        ("hello\n", "does not begin with the line of a recording"),
        ("{\"type\":\"recording\",\"version\":7}\n", "format version 7"),
    ] {
        home.write("other.jsonl", text);
        let ran = replayed(&home, "other.jsonl", PROMPT);
        let message = ran.assert_code(64).json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            message.starts_with("--replay other.jsonl: ") && message.contains(why),
            "{message}"
        );
    }
    let ran = replayed(&home, "nowhere.jsonl", PROMPT);
    assert!(ran.assert_code(64).json()["error"]["message"].as_str().unwrap().contains("nowhere"));
}

#[test]
fn a_recording_cut_by_a_kill_is_replayed_as_far_as_it_goes() {
    let (_recorded, file) = recorded();
    let text = std::fs::read_to_string(&file).unwrap();
    let third = text.find("\"type\":\"request\",\"request\":3").unwrap();
    let copy = project();
    copy.write("cut.jsonl", &text[..third + 100]);
    let ran = replayed(&copy, "cut.jsonl", PROMPT);
    let message = ran.assert_code(1).json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("the recording ends after 2 requests"), "{message}");
}

#[test]
fn a_run_that_cannot_begin_leaves_no_recording() {
    let home = project();
    let mut command = home.anvil();
    run(ask(&mut command, PROMPT).args(["--record", "run.jsonl"])).assert_code(78);
    assert!(!home.work().join("run.jsonl").exists());
    let mut command = home.anvil_with(&model());
    let ran = run(ask(&mut command, PROMPT).args(["--record", "nowhere/run.jsonl"]));
    let message = ran.assert_code(64).json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("--record nowhere/run.jsonl: "), "{message}");
}

#[test]
fn recording_and_replaying_at_once_is_a_usage_error() {
    let home = project();
    run(home.anvil().args(["-p", "x", "--record", "a", "--replay", "b"])).assert_code(64);
    assert!(!home.work().join("a").exists());
}
