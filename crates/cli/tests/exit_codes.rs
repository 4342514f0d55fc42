//! Which exit code a run ends with, and what scripts find on standard output.

mod support;

use serde_json::json;

use support::model::{Answer, Model};
use support::{Home, run, run_with_input};

#[test]
fn a_finished_turn_ends_with_zero_and_says_done() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::call("calculator", json!({"a": 2, "op": "add", "b": 2})),
            Answer::text("4"),
        ]),
    );
    let ran = run(home.anvil_with(&model).args(["-p", "2+2", "--output-format", "json"]));
    let report = ran.assert_code(0).json();
    assert_eq!(report["outcome"], "done");
    assert_eq!(report["text"], "4");
    assert_eq!(report["steps"], 2);
    assert_eq!(report["model"], "anthropic:claude-sonnet-5");
    assert_eq!(report["error"], json!(null));
    assert_eq!(ran.err, "", "a run without problems says nothing on standard error");
    assert_eq!(model.last_results(), [("4".to_owned(), false)]);
}

#[test]
fn the_step_limit_ends_with_two() {
    let (home, model) = (Home::new(), Model::new([Answer::call("glob", json!({"pattern": "*"}))]));
    let ran = run(home.anvil_with(&model).args([
        "-p",
        "x",
        "--max-steps",
        "1",
        "--output-format",
        "json",
    ]));
    assert_eq!(ran.assert_code(2).json()["outcome"], "max_steps");
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn an_answer_cut_off_ends_with_three_and_runs_no_tool() {
    let write = || vec![("write_file", json!({"file_path": "made", "content": "x"}))];
    for (answer, code, is_made) in [
        (Answer::StoppedCalls(write(), "max_tokens"), 3, false),
        (Answer::StoppedCalls(write(), "tool_use"), 0, true),
    ] {
        let (home, model) = (Home::new(), Model::new([answer, Answer::text("done")]));
        let ran =
            run(home.anvil_with(&model).args(["-p", "x", "--yolo", "--output-format", "json"]));
        let outcome = if is_made { "done" } else { "max_tokens" };
        assert_eq!(ran.assert_code(code).json()["outcome"], outcome);
        assert_eq!(home.work().join("made").exists(), is_made, "{outcome}");
        assert_eq!(model.requests().len(), if is_made { 2 } else { 1 }, "{outcome}");
    }
}

#[test]
fn a_refusal_ends_with_four() {
    let (home, model) =
        (Home::new(), Model::new([Answer::Stopped("I will not.".into(), "refusal")]));
    let ran = run(home.anvil_with(&model).args(["-p", "x", "--output-format", "json"]));
    assert_eq!(ran.assert_code(4).json()["outcome"], "refused");
}

#[test]
fn an_abnormal_completion_ends_with_five() {
    let (home, model) =
        (Home::new(), Model::new([Answer::Stopped("hm".into(), "some_reason_of_tomorrow")]));
    let ran = run(home.anvil_with(&model).args(["-p", "x", "--output-format", "json"]));
    assert_eq!(ran.assert_code(5).json()["outcome"], "protocol_stopped");
}

#[test]
fn the_wall_time_limit_ends_with_seven() {
    let (home, model) = (Home::new(), Model::new([Answer::Stall("thinking".into())]));
    let ran = run(home.anvil_with(&model).args([
        "-p",
        "x",
        "--max-wall-time",
        "1s",
        "--output-format",
        "json",
    ]));
    assert_eq!(ran.assert_code(7).json()["outcome"], "budget_exceeded");
}

#[test]
fn a_server_that_fails_ends_with_one_and_the_reason() {
    let body =
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"no such model"}}"#;
    let (home, model) = (Home::new(), Model::new([Answer::Status(404, body.into())]));
    let ran = run(home.anvil_with(&model).args(["-p", "x", "--output-format", "json"]));
    let report = ran.assert_code(1).json();
    assert_eq!(report["outcome"], "failed");
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("404") && message.contains("no such model"), "{message}");
    assert!(!ran.out.contains("sk-test-0123456789abcdef0123"), "the key is never shown");
}

#[test]
fn an_answer_that_breaks_off_cannot_be_mistaken_for_one() {
    let (home, model) = (Home::new(), Model::new([Answer::Cut("All tests pa".into())]));
    let ran = run(home.anvil_with(&model).args(["-p", "x"]));
    ran.assert_code(1);
    assert_eq!(ran.out, "", "what was not committed is no answer");
    assert!(ran.err.contains("error:"), "{ran:?}");
}

#[test]
fn every_outcome_but_done_leaves_a_word_on_standard_error_in_text_mode() {
    for (answer, code) in [
        (Answer::Stopped("half".into(), "max_tokens"), 3),
        (Answer::Stopped("no".into(), "refusal"), 4),
        (Answer::Stopped("hm".into(), "some_reason_of_tomorrow"), 5),
    ] {
        let (home, model) = (Home::new(), Model::new([answer]));
        let ran = run(home.anvil_with(&model).args(["-p", "x"]));
        ran.assert_code(code);
        assert!(ran.err.lines().count() >= 2, "a reason and a usage line: {ran:?}");
    }
}

#[test]
fn a_wrong_command_line_ends_with_64_and_an_empty_standard_output() {
    let home = Home::new();
    for words in [
        &["--nope"][..],
        &["-p", "x", "--output-format", "yaml"],
        &["-p", "x", "--max-steps", "0"],
        &["-p", "x", "-C", "nope"],
        &["-p", ""],
        &[],
        &["--no-stdin"],
        &["--verbose", "demo"],
        &["demo", "-p", "x"],
    ] {
        let ran = run(home.anvil().args(words));
        ran.assert_code(64);
        assert_eq!(ran.out, "", "{words:?}");
        assert!(!ran.err.is_empty(), "{words:?}");
    }
    assert!(run(home.anvil().args(["-p", "x", "-C", "nope"])).err.contains("nope"));
}

#[test]
fn errors_before_the_turn_are_told_in_the_form_that_was_asked_for() {
    let home = Home::new();
    for (words, code, kind) in [
        (&["-p", "x", "--nope"][..], 64, "usage"),
        (&["-p", ""], 64, "usage"),
        (&["-p", "x", "-m", "nobody:x"], 78, "config"),
        (&["-p", "x"], 78, "config"),
    ] {
        for format in ["json", "stream-json"] {
            let ran = run(home.anvil().args(words).args(["--output-format", format]));
            let lines = ran.assert_code(code).lines();
            assert_eq!(lines.len(), 1, "{ran:?}");
            assert_eq!(lines[0]["outcome"], "failed");
            assert_eq!(lines[0]["error"]["kind"], kind);
            assert_eq!(ran.err, "");
            if format == "stream-json" {
                assert_eq!(
                    (&lines[0]["type"], &lines[0]["seq"]),
                    (&json!("turn_finished"), &json!(0))
                );
            }
        }
    }
}

#[test]
fn without_any_model_the_error_names_the_ways_to_go_on() {
    let ran = run(Home::new().anvil().args(["-p", "x"]));
    ran.assert_code(78);
    for way in ["ANTHROPIC_API_KEY", "Ollama", "-m", "anvil demo"] {
        assert!(ran.err.contains(way), "{ran:?}");
    }
}

#[test]
fn a_base_address_that_is_none_ends_with_78_and_names_its_variable() {
    let mut command = Home::new().anvil();
    command.env("ANTHROPIC_API_KEY", "k").env("ANTHROPIC_BASE_URL", "localhost:99");
    let home = Home::new();
    let ran = run(command.current_dir(home.work()).args(["-p", "x"]));
    ran.assert_code(78);
    assert!(ran.err.contains("ANTHROPIC_BASE_URL"), "{ran:?}");
}

#[test]
fn a_local_server_answers_when_no_key_is_set() {
    let (home, model) = (Home::new(), Model::new([Answer::text("hello from here")]));
    let mut command = home.anvil();
    command.env("OLLAMA_HOST", model.address().to_string());
    let ran = run(command.args(["-p", "x", "--output-format", "json"]));
    let report = ran.assert_code(0).json();
    assert_eq!(report["model"], "ollama:tiny:1b");
    assert_eq!(report["text"], "hello from here");
    assert_eq!(report["usage"]["input_tokens"], 10);
}

#[test]
fn a_context_too_small_for_the_tools_is_told_once_and_beside_the_answer() {
    for (tokens, is_told) in [(4_096, true), (32_768, false)] {
        let model =
            Model::new([Answer::text("first"), Answer::text("second")]).with_context(tokens);
        for round in 1..=2 {
            let home = Home::new();
            let mut command = home.anvil();
            command.env("OLLAMA_HOST", model.address().to_string());
            let ran = run(command.args(["-p", "x", "-m", "ollama:tiny:1b"]));
            ran.assert_code(0);
            // The server tells it while the model is loaded: after the answer, then before it.
            let told = ran.err.matches("a context of 4096 tokens").count();
            assert_eq!(told, usize::from(is_told), "round {round}: {ran:?}");
            assert!(!ran.out.contains("4096"), "{ran:?}");
        }
    }
}

#[test]
fn a_named_model_of_a_compatible_server_needs_no_key() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::call("calculator", json!({"a": 6, "op": "mul", "b": 7})),
            Answer::text("42"),
        ]),
    );
    let mut command = home.anvil();
    command
        .env("OPENAI_BASE_URL", format!("http://{}/v1", model.address()))
        .env("ANVIL_MODEL", "openai-chat:local");
    let ran = run(command.args(["-p", "6*7"]));
    ran.assert_code(0);
    assert_eq!(ran.out, "42\n");
    assert_eq!(model.requests()[1]["model"], "local");
}

#[test]
fn version_and_help_go_to_standard_output_and_end_with_zero() {
    let home = Home::new();
    let version = run(home.anvil().arg("--version"));
    assert_eq!(version.assert_code(0).out, format!("anvil {}\n", env!("CARGO_PKG_VERSION")));
    let help = run(home.anvil().arg("--help"));
    assert!(help.assert_code(0).out.contains("--max-steps") && help.out.contains("141"));
}

#[test]
fn edits_and_commands_are_refused_without_a_person_and_the_model_is_told_how_to_go_on() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::bash("touch made"),
            Answer::call("write_file", json!({"file_path": "made", "content": "x"})),
            Answer::text("I may not."),
        ]),
    );
    let ran = run(home.anvil_with(&model).args(["-p", "x"]));
    ran.assert_code(0);
    let (text, is_error) = model.last_results().remove(0);
    assert!(is_error);
    assert!(
        text.contains(
            "This action requires approval, which isn't available in headless mode. \
             Re-run with --permission-mode accept-edits or add an allow rule."
        ),
        "{text}"
    );
    assert!(!home.work().join("made").exists());
}

#[test]
fn accept_edits_lets_edits_through_and_bypass_commands_too() {
    let answers = || {
        [
            Answer::call("write_file", json!({"file_path": "written", "content": "x"})),
            Answer::bash("touch touched"),
            Answer::text("done"),
        ]
    };
    for (mode, touched) in [("accept-edits", false), ("bypass", true), ("plan", false)] {
        let (home, model) = (Home::new(), Model::new(answers()));
        run(home.anvil_with(&model).args(["-p", "x", "--permission-mode", mode])).assert_code(0);
        assert_eq!(home.work().join("written").exists(), mode != "plan", "{mode}");
        assert_eq!(home.work().join("touched").exists(), touched, "{mode}");
    }
}

#[test]
fn the_first_request_is_small() {
    let (home, model) = (Home::new(), Model::new([Answer::text("hi")]));
    run_with_input(home.anvil_with(&model).args(["-p", "hi"]), b"").assert_code(0);
    let size = model.requests()[0].to_string().len();
    assert!(size <= 8 * 1024, "the first request has {size} bytes");
}

#[test]
fn a_task_without_its_option_is_told_where_tasks_go() {
    let home = Home::new();
    let ran = run(home.anvil().arg("fix the parser"));
    ran.assert_code(64);
    assert!(ran.err.contains("anvil -p \"what to do\""), "{ran:?}");
}

/// A server that is too busy once, and wants a short while.
fn busy_once() -> Model {
    let busy = r#"{"error":{"type":"overloaded_error","message":"busy, try again in 20ms"}}"#;
    Model::new([Answer::Status(529, busy.to_owned()), Answer::text("4")])
}

#[test]
fn a_failed_attempt_is_one_line_for_a_person_and_one_event_for_a_program() {
    let (home, model) = (Home::new(), busy_once());
    let ran = run(home.anvil_with(&model).args(["-p", "2+2"]));
    assert_eq!(ran.assert_code(0).out, "4\n");
    let retries: Vec<_> = ran.err.lines().filter(|line| line.contains("retry")).collect();
    assert_eq!(retries, ["retry 2/5 in 1 s: overloaded"]);

    let (home, model) = (Home::new(), busy_once());
    let ran = run(home.anvil_with(&model).args(["-p", "2+2", "--output-format", "stream-json"]));
    let lines = ran.assert_code(0).lines();
    let phases: Vec<_> = lines.iter().filter(|line| line["type"] == "phase").collect();
    let [phase] = phases[..] else { panic!("{ran:?}") };
    assert_eq!(
        (&phase["phase"], &phase["attempt"], &phase["of"], &phase["delay_ms"], &phase["reason"]),
        (&json!("retrying"), &json!(2), &json!(5), &json!(20), &json!("overloaded"))
    );
    let numbers: Vec<_> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..lines.len() as u64).collect::<Vec<_>>());
    assert_eq!(ran.err, "");

    let (home, model) = (Home::new(), busy_once());
    let ran = run(home.anvil_with(&model).args(["-p", "2+2", "--output-format", "json"]));
    let report = ran.assert_code(0).json();
    assert_eq!((&report["steps"], &report["text"]), (&json!(1), &json!("4")));
    assert_eq!(ran.err, "");
}

#[test]
fn a_wait_beyond_the_deadline_fails_at_once_and_names_both_times() {
    let busy = r#"{"error":{"message":"slow down: try again in 2h0m0s"}}"#;
    let (home, model) = (Home::new(), Model::new([Answer::Status(429, busy.to_owned())]));
    let ran = run(home.anvil_with(&model).args(["-p", "x", "--output-format", "json"]));
    let report = ran.assert_code(1).json();
    assert_eq!(report["error"]["kind"], "rate_limit");
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("asks to wait 7200 s, and only 300 s are left"), "{message}");
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn the_configuration_says_how_often_to_ask_again() {
    let busy = r#"{"error":{"message":"busy, try again in 20ms"}}"#;
    let (home, model) = (Home::new(), Model::new([Answer::Status(529, busy.to_owned())]));
    home.write("three.toml", "[retry]\nmax_attempts = 3\n");
    let mut command = home.anvil_with(&model);
    let ran = run(command.args(["-p", "x", "--config", "three.toml", "--output-format", "json"]));
    let message = ran.assert_code(1).json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("no answer after 3 attempts: HTTP 529"), "{message}");
    assert_eq!(model.requests().len(), 3);
}
