//! Secrets that the program knows leave it by no way: a key of the environment, and a password that lies in
//! a masked file of the workspace.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

mod support;

use serde_json::json;

use support::model::{Answer, Model};
use support::pty::Pty;
use support::{Home, Ran, run};

/// What every test's environment holds as the key of its server.
const KEY: &str = "sk-test-0123456789abcdef0123";
/// What `.env` holds. No shape betrays it.
const PASSWORD: &str = "hunter2-Hunter2!";

fn project() -> Home {
    let home = Home::new();
    home.write(".env", &format!("APP=demo\nDB_PASSWORD='{PASSWORD}'\n"));
    home.write("notes.txt", &format!("connect with {PASSWORD} or {KEY}\n"));
    home
}

/// Prints both secrets as they are, in pieces that only together are one, and as other programs write them.
const TELL: &str = "cat notes.txt; cut -c1-40 notes.txt | tr -d '\\n'; cut -c41- notes.txt; \
     base64 notes.txt >&2; rev notes.txt; od -An -tx1 notes.txt | tr -d ' \\n'";

/// A model that repeats what it should not know, in its words and in `calls`.
fn model_with(calls: &[(&'static str, serde_json::Value)]) -> Model {
    Model::new([
        Answer::Calls(
            format!("I look at {PASSWORD} first."),
            [
                ("bash", json!({ "command": TELL })),
                ("read_file", json!({"file_path": "notes.txt"})),
                ("grep", json!({"pattern": "connect", "mode": "content"})),
                (
                    "edit_file",
                    json!({"file_path": "notes.txt", "old_string": "connect", "new_string": "go"}),
                ),
            ]
            .into_iter()
            .chain(calls.iter().cloned())
            .collect(),
        ),
        Answer::Text(format!("The key is {KEY}, the password {PASSWORD}.")),
    ])
}

fn model() -> Model {
    model_with(&[])
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    let joined = text.replace('\n', "").replace("\\n", "");
    let hex: String = PASSWORD.bytes().map(|byte| format!("{byte:02x}")).collect();
    // In base64 at the place where it lies in the notes, and backwards.
    let encoded =
        ["1bnRlcjItSHVudGVyMi", "c2stdGVzdC0wMTIz", "!2retnuH-2retnuh", "fedcba9876543210"];
    for secret in ["0123456789abcdef", "unter2-Hunter2", &hex].into_iter().chain(encoded) {
        assert!(!joined.contains(secret), "{what} holds {secret}: {text}");
        assert!(!text.contains(secret), "{what} holds {secret}: {text}");
    }
}

#[track_caller]
fn assert_marked(what: &str, text: &str) {
    for name in ["ANTHROPIC_API_KEY", "DB_PASSWORD"] {
        assert!(text.contains(&format!("«redacted:{name}»")), "{what} tells no {name}: {text}");
    }
}

fn told(home: &Home, model: &Model, words: &[&str]) -> Ran {
    run(home
        .anvil_with(model)
        .args(["-p", "go", "--yolo", "--sandbox", "full-access"])
        .args(words)
        .env("ANVIL_LOG", "trace"))
}

#[test]
fn no_form_of_output_shows_a_secret_and_the_model_gets_none() {
    for format in ["text", "json", "stream-json"] {
        let echo = json!({ "command": format!("printf '%s ' {KEY} '{PASSWORD}'") });
        let absent = json!({"file_path": format!("no/{PASSWORD}")});
        let model = model_with(&[("bash", echo), ("read_file", absent)]);
        let home = project();
        let ran = told(&home, &model, &["--verbose", "--output-format", format]);
        ran.assert_code(0);
        assert_clean(&format!("{format} on standard output"), &ran.out);
        assert_clean(&format!("{format} on standard error"), &ran.err);
        assert_marked(format, &ran.out);
        for (result, _) in model.results_in(1) {
            assert_clean("a result", &result);
            assert!(result.contains("«redacted:"), "{result}");
        }
        assert_eq!(home.read("notes.txt"), format!("go with {PASSWORD} or {KEY}\n"));
    }
}

#[test]
fn neither_the_log_nor_a_recording_holds_a_secret_and_the_recording_replays() {
    let (home, model) = (project(), model());
    let file = home.home().join("run.jsonl");
    let path = file.to_str().unwrap();
    told(&home, &model, &["--output-format", "json", "--record", path]).assert_code(0);
    let recording = std::fs::read_to_string(&file).unwrap();
    assert_clean("the recording", &recording);
    assert_marked("the recording", &recording);
    if let Ok(log) = std::fs::read_to_string(home.data().join("logs/anvil.log")) {
        assert_clean("the log", &log);
    }
    let copy = project();
    let mut again = copy.anvil();
    again.args(["-p", "go", "--yolo", "--sandbox", "full-access", "--output-format", "json"]);
    let report = run(again.args(["--replay", path]).env("ANTHROPIC_API_KEY", KEY));
    let text = report.assert_code(0).json()["text"].to_string();
    assert!(text.contains("«redacted:DB_PASSWORD»"), "{text}");
    assert_clean("the replay", &text);
}

#[test]
fn what_a_server_says_about_an_error_shows_no_secret() {
    for format in ["text", "json", "stream-json"] {
        let body = json!({"type": "error", "error": {
            "type": "invalid_request_error", "message": format!("no {KEY} and no {PASSWORD}"),
        }});
        let (home, model) = (project(), Model::new([Answer::Status(400, body.to_string())]));
        let ran = told(&home, &model, &["--output-format", format]);
        assert_ne!(ran.code(), 0);
        let said = ran.out + &ran.err;
        assert_clean(format, &said);
        assert!(said.contains("«redacted:DB_PASSWORD»"), "{said}");
    }
}

#[test]
fn a_complaint_before_anything_began_shows_no_secret() {
    let home = project();
    let mut command = home.anvil_with(&Model::new([]));
    let ran = run(command.args(["-p", "go", "-C", &format!("/no/{KEY}")]));
    assert_clean("a complaint", &ran.err);
    assert!(ran.err.contains("/no/«redacted:ANTHROPIC_API_KEY»"), "{}", ran.err);
}

#[test]
fn what_a_person_is_asked_shows_no_secret() {
    let home = project();
    let command = format!("curl -H 'Authorization: {KEY}' http://localhost/{PASSWORD}");
    let model = Model::new([Answer::bash(&command), Answer::text("never mind")]);
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("redacted:ANTHROPIC_API_KEY");
    pty.expect("redacted:DB_PASSWORD");
    pty.send("\u{3}");
    pty.expect_prompt();
    assert_clean("the screen", &pty.all());
}
