//! Conversations on a real terminal: prompts, answers, keys that stop things, and the ways out.

mod support;

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use support::model::{Answer, Model};
use support::pty::{Pty, Setup, ask, prompts};
use support::{Home, survivors, wait_until};

#[test]
fn a_question_is_answered_with_two_calls_of_the_calculator() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::call("calculator", json!({"a": 17.5, "op": "mul", "b": 4})),
            Answer::call("calculator", json!({"a": 70, "op": "sub", "b": 3})),
            Answer::text("67"),
        ]),
    );
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("what is 17.5 × 4 − 3?\r");
    pty.expect("⏺ calculator(a=17.5, op=mul, b=4)");
    pty.expect("⎿ ");
    pty.expect("70");
    pty.expect("⏺ calculator(a=70, op=sub, b=3)");
    pty.expect("67");
    pty.expect("3 steps");
    pty.expect_prompt();
    assert_eq!(prompts(&model)[0], "what is 17.5 × 4 − 3?");
}

#[test]
fn ctrl_c_in_the_middle_of_an_answer_stops_it_and_the_next_prompt_works() {
    let (home, model) = (
        Home::new(),
        Model::new([Answer::Stall("streaming along".into()), Answer::text("second answer")]),
    );
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("streaming along");
    pty.send("\x03");
    pty.expect("cancelled");
    pty.expect_prompt();
    ask(&mut pty, "again", "second answer");
    let roles: Vec<Value> = model.requests()[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].clone())
        .collect();
    assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
    assert!(prompts(&model)[1].contains("again"));
    pty.send("\x04");
    assert_eq!(pty.code(), 0);
}

#[test]
fn ctrl_c_in_the_middle_of_a_command_ends_the_command_and_not_the_program() {
    let marker = survivors::marker();
    let (home, model) =
        (Home::new(), Model::new([Answer::bash(&format!("sleep {marker}")), Answer::text("fine")]));
    let mut pty = Pty::start_with(&home, &model, Setup::default().with_args(&["--yolo"]));
    pty.expect_prompt();
    pty.send("go\r");
    wait_until("the command runs", || !survivors::with(&marker).is_empty());
    pty.send("\x03");
    pty.expect("cancelled");
    pty.expect_prompt();
    survivors::assert_none(&marker);
    ask(&mut pty, "and now?", "fine");
}

#[test]
fn ctrl_c_twice_in_the_middle_of_a_command_ends_the_program() {
    let marker = survivors::marker();
    let script = format!("trap '' TERM; while :; do sleep {marker}; done");
    let (home, model) = (Home::new(), Model::new([Answer::bash(&script), Answer::text("fine")]));
    let mut pty = Pty::start_with(&home, &model, Setup::default().with_args(&["--yolo"]));
    pty.expect_prompt();
    pty.send("go\r");
    wait_until("the command runs", || !survivors::with(&marker).is_empty());
    pty.send("\x03");
    std::thread::sleep(std::time::Duration::from_millis(100));
    pty.send("\x03");
    assert_eq!(pty.code(), 130);
    survivors::assert_none(&marker);
}

#[test]
fn ctrl_c_at_the_prompt_clears_the_line() {
    let (home, model) = (Home::new(), Model::new([Answer::text("hello")]));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("abc");
    pty.expect("abc");
    pty.send("\x03");
    pty.expect_prompt();
    ask(&mut pty, "hi", "hello");
    assert_eq!(prompts(&model), ["hi"]);
}

/// A conversation that a shell with job control started.
fn in_a_shell(answers: impl IntoIterator<Item = Answer>) -> (Home, Model, Pty) {
    let (home, model) = (Home::new(), Model::new(answers));
    let setup = Setup { program: "bash", ..Setup::default() }
        .with_args(&["--norc", "--noprofile", "-i"])
        .with_env("PS1", Some("SHELL$ "));
    let mut pty = Pty::start_with(&home, &model, setup);
    pty.expect("SHELL$ ");
    pty.send(concat!(env!("CARGO_BIN_EXE_anvil"), "\r"));
    pty.expect("/help lists");
    pty.expect_prompt();
    (home, model, pty)
}

#[test]
fn ctrl_z_at_the_prompt_gives_the_terminal_back_and_takes_it_again() {
    let (_home, model, mut pty) = in_a_shell([Answer::text("hello")]);
    pty.send("abc");
    pty.expect("abc");
    pty.send("\x1a");
    pty.expect("Stopped");
    pty.expect("SHELL$ ");
    pty.send("fg\r");
    pty.expect("> abc");
    ask(&mut pty, " def", "hello");
    assert_eq!(prompts(&model), ["abc def"]);
}

#[test]
fn ctrl_z_in_the_middle_of_an_answer_stops_the_program_until_it_is_continued() {
    let (_home, _model, mut pty) = in_a_shell([Answer::Stall("half an answer".into())]);
    pty.send("go\r");
    pty.expect("half an answer");
    pty.send("\x1a");
    pty.expect("Stopped");
    pty.expect("SHELL$ ");
    pty.send("fg\r");
    pty.expect("anvil");
    // The shell names the program before it hands the terminal over.
    let shell = pty.child.process_id().map(|pid| i32::try_from(pid).unwrap());
    wait_until("the program has the terminal", || pty.master.process_group_leader() != shell);
    pty.send("\x03");
    pty.expect("cancelled");
    pty.expect_prompt();
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /proc to see the signals of a process")]
fn commands_of_a_conversation_start_with_no_signal_blocked() {
    let (home, model) = (
        Home::new(),
        Model::new([Answer::bash("grep SigBlk /proc/self/status"), Answer::text("ok")]),
    );
    let mut pty = Pty::start_with(&home, &model, Setup::default().with_args(&["--yolo"]));
    pty.expect_prompt();
    ask(&mut pty, "go", "ok");
    let (text, _) = model.last_results().remove(0);
    assert!(text.contains("0000000000000000"), "{text}");
}

#[test]
fn ctrl_d_and_exit_leave_with_zero() {
    for keys in ["\x04", "/exit\r"] {
        let (home, model) = (Home::new(), Model::new([Answer::text("x")]));
        let mut pty = Pty::start(&home, &model);
        pty.expect_prompt();
        pty.send(keys);
        assert_eq!(pty.code(), 0, "{keys:?}");
    }
}

#[test]
fn a_pasted_text_of_several_lines_is_one_prompt() {
    for (paste, want) in [
        ("line one\nline two\nline three", "line one\nline two\nline three"),
        ("a\r\nb", "a\nb"),
        ("see:\n/clear\n/exit", "see:\n/clear\n/exit"),
        ("a\x1b[2J\x03\x04b", "ab"),
    ] {
        let (home, model) = (Home::new(), Model::new([Answer::text("understood")]));
        let mut pty = Pty::start(&home, &model);
        pty.expect_prompt();
        ask(&mut pty, &format!("\x1b[200~{paste}\x1b[201~"), "understood");
        assert_eq!(prompts(&model), [want], "{paste:?}");
    }
}

#[test]
fn lines_typed_ahead_are_kept_for_the_next_prompt() {
    let (home, model) = (Home::new(), Model::new([Answer::text("first"), Answer::text("second")]));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("one\rtwo\r");
    pty.expect("first");
    pty.expect("second");
    pty.expect("step");
    assert_eq!(prompts(&model), ["one", "two"]);
}

#[test]
fn another_model_continues_with_the_whole_conversation() {
    let (home, model) = (Home::new(), Model::new([Answer::text("I am the first")]));
    let other = Model::new([Answer::text("I am the other")]);
    let setup = Setup::default().with_env("OLLAMA_HOST", Some(&other.address().to_string()));
    let mut pty = Pty::start_with(&home, &model, setup);
    pty.expect_prompt();
    ask(&mut pty, "who are you?", "I am the first");
    pty.send("/model nobody:x\r");
    pty.expect("there is no model 'nobody:x'");
    pty.expect_prompt();
    pty.send("/model ollama:tiny:1b\r");
    pty.expect("Now ollama:tiny:1b");
    pty.expect_prompt();
    ask(&mut pty, "and you?", "I am the other");
    let request = other.requests().remove(0);
    assert_eq!(request["model"], "tiny:1b");
    let said: Vec<String> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] != "system")
        .map(|message| {
            message["content"]
                .as_str()
                .map_or_else(|| message["content"].to_string(), str::to_owned)
        })
        .collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("who are you?") && said[1].contains("I am the first"));
}

#[test]
fn clear_forgets_and_help_lists_and_a_wrong_command_is_not_sent() {
    let (home, model) = (Home::new(), Model::new([Answer::text("noted")]));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    ask(&mut pty, "remember 5", "noted");
    pty.send("/undo\r");
    pty.expect("there is no command /undo");
    pty.send("/help\r");
    pty.expect("/model NAME");
    pty.send("/clear\r");
    pty.expect("anew");
    pty.expect_prompt();
    ask(&mut pty, "what?", "noted");
    assert_eq!(model.requests()[1]["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn a_termination_at_the_prompt_leaves_the_terminal_as_it_was() {
    let (home, model) = (Home::new(), Model::new([Answer::text("x")]));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    wait_until("the line editor is at work", || !pty.is_cooked());
    pty.signal(Signal::SIGTERM);
    assert_eq!(pty.code(), 143);
    assert!(pty.is_cooked());
    pty.expect("\x1b[?2004l");
}

#[test]
fn the_history_keeps_no_secret_and_no_long_paste() {
    let (home, model) = (Home::new(), Model::new(["one", "two"].map(Answer::text)));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    ask(&mut pty, "use sk-test-0123456789abcdef0123 there", "one");
    let long = "line\n".repeat(10_000);
    ask(&mut pty, &format!("see \x1b[200~{long}\x1b[201~"), "two");
    pty.send("\x04");
    assert_eq!(pty.code(), 0);
    let history = std::fs::read_to_string(home.data().join("history")).unwrap();
    assert!(history.contains("there") && history.len() < 1000, "{history}");
    assert!(!history.contains("0123456789abcdef"), "{history}");
    assert!(model.last_user_text().ends_with(&long));
}

#[test]
fn a_paste_without_an_end_can_be_left_with_ctrl_c() {
    let (home, model) = (Home::new(), Model::new([Answer::text("fine")]));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("\x1b[200~rm -rf\r");
    // The first ones may come while the paste still could.
    support::wait_until("Ctrl-C is a key again", || {
        pty.send("\x03");
        std::thread::sleep(std::time::Duration::from_millis(600));
        pty.all().matches("> ").count() > 1
    });
    ask(&mut pty, "go on", "fine");
    assert_eq!(prompts(&model), ["go on"]);
}

#[test]
fn the_history_belongs_to_the_user_and_keeps_lines_apart() {
    let (home, model) = (Home::new(), Model::new([Answer::text("seen")]));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    ask(&mut pty, "\x1b[200~a\nb\x1b[201~", "seen");
    pty.send("\x04");
    assert_eq!(pty.code(), 0);
    let mode = std::fs::metadata(home.data().join("history")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    ask(&mut pty, "\x1b[A", "seen");
    assert_eq!(prompts(&model), ["a\nb", "a\nb"]);
}

#[test]
fn the_terminal_of_a_program_that_was_killed_serves_the_next_one() {
    let (home, model) = (Home::new(), Model::new([Answer::text("hello")]));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.signal(Signal::SIGKILL);
    pty.code();
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    ask(&mut pty, "hi", "hello");
}
