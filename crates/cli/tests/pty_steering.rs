//! What a person types while a turn runs: it reaches the model, comes back, or waits for the prompt.

mod support;

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use support::model::{Answer, Gate, Model};
use support::pty::{Pty, Setup, ask, prompts};
use support::{Home, run};

/// A command that runs until [`open`].
const WAIT: &str = "cat gate";

/// Lets the command end.
fn open(home: &Home) {
    std::fs::write(home.work().join("gate"), "open\n").expect("the command reads the gate");
}

/// A conversation in which the model runs [`WAIT`] and then gives these answers, while it runs.
fn at_work(answers: impl IntoIterator<Item = Answer>) -> (Home, Model, Pty) {
    let (home, model) = (Home::new(), Model::new([Answer::bash(WAIT)].into_iter().chain(answers)));
    mkfifo(&home.work().join("gate"), Mode::S_IRWXU).expect("a pipe can be made");
    let mut pty = Pty::start_with(&home, &model, Setup::default().with_args(&["--yolo"]));
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("⏺ bash(command=cat gate)");
    (home, model, pty)
}

/// The blocks of the last message of a request.
fn last_blocks(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().expect("a request has messages");
    let last = messages.last().expect("a request has a message");
    last["content"].as_array().expect("a message has blocks").clone()
}

/// The texts behind the result that a request ends with.
fn texts_behind_the_result(request: &Value) -> Vec<String> {
    let blocks = last_blocks(request);
    assert_eq!(blocks[0]["type"], "tool_result", "{blocks:?}");
    blocks[1..].iter().map(|block| block["text"].as_str().unwrap_or("?").to_owned()).collect()
}

#[test]
fn a_line_entered_while_a_command_runs_goes_to_the_model_with_its_result() {
    let (home, model, mut pty) = at_work([Answer::text("as you say")]);
    pty.send("use tabs");
    pty.expect("use tabs");
    pty.send("\r");
    pty.expect("queued: use tabs");
    open(&home);
    pty.expect("» use tabs");
    pty.expect("as you say");
    pty.expect("2 steps");
    pty.expect_prompt();
    assert_eq!(texts_behind_the_result(&model.requests()[1]), ["use tabs"]);
    assert_eq!(model.requests().len(), 2);
}

/// A conversation in the middle of an answer that ends once the gate is open.
fn in_an_answer(answers: impl IntoIterator<Item = Answer>, setup: Setup) -> (Gate, Model, Pty) {
    let gate = Gate::default();
    let held = Answer::Held("let me think".into(), gate.clone());
    let (home, model) = (Home::new(), Model::new([held].into_iter().chain(answers)));
    let mut pty = Pty::start_with(&home, &model, setup);
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("let me think");
    (gate, model, pty)
}

#[test]
fn a_line_entered_during_the_last_answer_goes_on_with_the_turn() {
    let (gate, model, mut pty) = in_an_answer([Answer::text("as you say")], Setup::default());
    pty.send("use tabs\r");
    pty.expect("queued: use tabs");
    gate.open();
    pty.expect("» use tabs");
    pty.expect("as you say");
    pty.expect("2 steps");
    assert_eq!(prompts(&model), ["go", "use tabs"]);
}

#[test]
fn a_line_that_came_too_late_is_the_next_prompt() {
    let setup = Setup::default().with_args(&["--max-steps", "1"]);
    let (gate, model, mut pty) = in_an_answer([Answer::text("as you say")], setup);
    pty.send("use tabs\rand ha");
    pty.expect("queued: use tabs");
    pty.expect("and ha");
    gate.open();
    pty.expect("1 step ");
    pty.expect("> use tabs");
    pty.expect("as you say");
    pty.expect("1 step ");
    pty.expect_prompt();
    pty.expect("and ha");
    assert_eq!(prompts(&model), ["go", "use tabs"]);
}

#[test]
fn what_is_typed_while_a_summary_is_written_comes_after_it() {
    let gate = Gate::default();
    let summary = Answer::Held("We talked about tabs.".into(), gate.clone());
    let answers = [Answer::text(&"as you say ".repeat(400)), summary, Answer::text("with tabs")];
    let (home, model) = (Home::new(), Model::new(answers));
    let mut pty = Pty::start_with(&home, &model, Setup::default());
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("1 step ");
    pty.expect_prompt();
    pty.send("/compact\r");
    pty.expect("Ctrl-C stops it.");
    pty.send("\x1b[200~use tabs\neverywhere\x1b[201~");
    pty.expect("everywhere");
    pty.send("\rand ha");
    pty.expect("and ha");
    gate.open();
    pty.expect("is a summary now");
    pty.expect("> use tabs");
    pty.expect("with tabs");
    pty.expect_prompt();
    pty.expect("and ha");
    let said = last_blocks(&model.requests()[2]);
    assert_eq!(said.last().expect("a block")["text"], "use tabs\neverywhere");
    assert_eq!(model.requests().len(), 3);
}

#[test]
fn where_nothing_can_be_drawn_lines_wait_for_the_prompt() {
    let setup = Setup::default().with_env("TERM", Some("dumb"));
    let (gate, model, mut pty) = in_an_answer([Answer::text("as you say")], setup);
    pty.send("use tabs\r");
    gate.open();
    pty.expect("1 step ");
    pty.expect("as you say");
    assert_eq!(prompts(&model), ["go", "use tabs"]);
    assert!(!pty.all().contains("queued") && !pty.all().contains('\x1b'), "{:?}", pty.all());
}

#[test]
fn ctrl_z_keeps_the_line_and_gives_the_terminal_back() {
    let setup = Setup { program: "bash", ..Setup::default() }
        .with_args(&["--norc", "--noprofile", "-i"])
        .with_env("PS1", Some("SHELL$ "));
    let gate = Gate::default();
    let held = Answer::Held("let me think".into(), gate.clone());
    let (home, model) = (Home::new(), Model::new([held, Answer::text("as you say")]));
    let mut pty = Pty::start_with(&home, &model, setup);
    pty.expect("SHELL$ ");
    pty.send(concat!(env!("CARGO_BIN_EXE_anvil"), "\r"));
    pty.expect("/help lists");
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("let me think");
    pty.send("use ta");
    pty.expect("use ta");
    pty.send("\x1a");
    pty.expect("Stopped");
    pty.expect("SHELL$ ");
    pty.send("fg\r");
    pty.expect("» \x1b[0muse ta");
    pty.send("bs\r");
    pty.expect("queued: use tabs");
    gate.open();
    pty.expect("as you say");
    assert_eq!(prompts(&model), ["go", "use tabs"]);
}

#[test]
fn the_last_line_can_be_taken_back_changed_and_entered_again() {
    let (home, model, mut pty) = at_work([Answer::text("as you say")]);
    pty.send("one\r");
    pty.expect("queued: one");
    pty.send("two\r");
    pty.expect("queued: two");
    pty.send("\x1b[A");
    pty.expect("» \x1b[0mtwo");
    pty.send("!\r");
    pty.expect("queued: two!");
    open(&home);
    pty.expect("as you say");
    assert_eq!(texts_behind_the_result(&model.requests()[1]), ["one", "two!"]);
}

#[test]
fn a_line_that_was_not_entered_stands_in_the_next_prompt() {
    let (home, model, mut pty) = at_work([Answer::text("as you say"), Answer::text("well")]);
    pty.send("half a li");
    pty.expect("half a li");
    open(&home);
    pty.expect("as you say");
    pty.expect("2 steps");
    pty.expect_prompt();
    pty.expect("half a li");
    ask(&mut pty, "ne", "well");
    assert_eq!(prompts(&model)[2], "half a line");
    assert_eq!(texts_behind_the_result(&model.requests()[1]), [""; 0]);
}

#[test]
fn an_interrupted_turn_gives_its_lines_back_and_runs_none_of_them() {
    for key in ["\x03", "\x1b"] {
        let (_home, model, mut pty) = at_work([Answer::text("well")]);
        pty.send("first\r");
        pty.expect("queued: first");
        pty.send("second\rand ha");
        pty.expect("queued: second");
        pty.expect("and ha");
        pty.send(key);
        pty.expect("cancelled");
        pty.expect_prompt();
        pty.expect("first");
        pty.expect("second");
        pty.expect("and ha");
        assert_eq!(model.requests().len(), 1);
        ask(&mut pty, "lf", "well");
        assert!(prompts(&model)[1].ends_with("first\nsecond\nand half"), "{:?}", prompts(&model));
    }
}

#[test]
fn a_command_entered_while_a_turn_runs_is_done_at_its_end() {
    let (home, model, mut pty) = at_work([Answer::text("as you say")]);
    pty.send("/help\r");
    pty.expect("Commands work at the prompt");
    open(&home);
    pty.expect("as you say");
    pty.expect("2 steps");
    pty.expect("> /help");
    pty.expect("this list");
    pty.expect_prompt();
    assert!(model.requests().iter().all(|request| !request.to_string().contains("/help")));
}

#[test]
fn a_command_that_was_changed_again_or_whose_turn_was_interrupted_is_not_done() {
    for keys in ["\x03", "x\x03"] {
        let (_home, _model, mut pty) = at_work([Answer::text("well")]);
        pty.send("/exit\r");
        pty.expect("Commands work at the prompt");
        pty.send(keys);
        pty.expect("cancelled");
        pty.expect_prompt();
        pty.expect("/exit");
        ask(&mut pty, "\x15still here", "well");
    }
}

#[test]
fn nothing_typed_before_a_question_answers_it() {
    let gate = Gate::default();
    let calls = ["cat gate", "touch made"].map(|command| ("bash", json!({"command": command})));
    let answers = [
        Answer::Calls(String::new(), calls.to_vec()),
        Answer::Held("as you wish".into(), gate.clone()),
    ];
    let (home, model) = (Home::new(), Model::new(answers));
    mkfifo(&home.work().join("gate"), Mode::S_IRWXU).unwrap();
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("⏺ bash(command=cat gate)");
    pty.send("y\ry");
    pty.expect("queued: y");
    open(&home);
    pty.expect("would run a command");
    pty.expect("]: ");
    assert!(!home.work().join("made").exists());
    pty.send("n\r");
    pty.expect("instead?");
    pty.send("\r");
    pty.expect("as you wish");
    pty.expect("» \x1b[0my");
    gate.open();
    pty.expect("2 steps");
    pty.expect_prompt();
    pty.expect("y");
    assert!(!home.work().join("made").exists());
    let results = model.last_results();
    assert!(results[1].1, "{results:?}");
    let blocks = last_blocks(&model.requests()[1]);
    assert_eq!(blocks.last().unwrap()["text"], "y");
}

#[test]
fn a_delivered_line_is_in_the_session_once_after_the_program_was_killed() {
    let (home, model, mut pty) =
        at_work([Answer::Stall("thinking".into()), Answer::text("still here")]);
    pty.send("use tabs\r");
    pty.expect("queued: use tabs");
    open(&home);
    pty.expect("» use tabs");
    pty.expect("thinking");
    pty.signal(Signal::SIGKILL);
    pty.code();
    let mut pty = Pty::start_with(&home, &model, Setup::default().with_args(&["-c"]));
    pty.expect_prompt();
    ask(&mut pty, "go on", "still here");
    let request = model.requests().last().unwrap()["messages"].to_string();
    assert_eq!(request.matches("use tabs").count(), 1, "{request}");
}

#[test]
fn the_terminal_is_as_before_on_every_way_out_of_a_turn() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let (_home, _model, mut pty) = at_work([Answer::text("well")]);
        pty.send("half");
        pty.expect("half");
        assert!(!pty.is_cooked());
        pty.signal(signal);
        assert_eq!(pty.code(), code);
        assert!(pty.is_cooked());
        pty.expect("\x1b[?2004l\x1b[?25h\x1b[0m");
    }
}

#[test]
fn a_question_waits_until_the_person_pauses_and_the_end_of_a_word_is_no_yes() {
    let (home, model) = (
        Home::new(),
        Model::new([Answer::bash(WAIT), Answer::bash("touch made"), Answer::text("not then")]),
    );
    mkfifo(&home.work().join("gate"), Mode::S_IRWXU).expect("a pipe can be made");
    std::fs::create_dir_all(home.config()).expect("a folder can be made");
    let rules = "[permissions]\nallow = [\"bash(cat gate)\"]\n";
    std::fs::write(home.config().join("config.toml"), rules).expect("a file can be written");
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("⏺ bash(command=cat gate)");
    pty.send("only if it is sunn");
    pty.expect("only if it is sunn");
    open(&home);
    // A key that changes nothing, until the call is there about which is asked.
    support::wait_until("the call is there", || {
        pty.send("\x1b[C");
        pty.all().contains("⏺ bash(command=touch made)")
    });
    pty.send("y\r");
    pty.expect("queued: only if it is sunny");
    pty.expect("Allow? ");
    assert!(!home.work().join("made").exists());
    pty.send("no\r");
    pty.expect("instead?");
    pty.send("\r");
    pty.expect("not then");
    assert_eq!(texts_behind_the_result(&model.requests()[2]), ["only if it is sunny"]);
    assert!(!home.work().join("made").exists());
}

#[test]
fn a_paste_during_which_the_turn_ends_enters_none_of_its_lines() {
    let gate = Gate::default();
    let held = Answer::Held("let me think".into(), gate.clone());
    let (home, model) = (Home::new(), Model::new([held, Answer::text("as you say")]));
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("let me think");
    pty.send("\x1b[200~one\rtwo\r");
    gate.open();
    // Something of it comes until after the end of the turn.
    support::wait_until("the end of the turn", || {
        pty.send("three\r");
        let kept = std::fs::read_to_string(session_path(&home)).expect("a session");
        kept.contains("turn_finished")
    });
    for _ in 0..50 {
        pty.send("four\r");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    pty.send("five\x1b[201~");
    pty.expect("> [paste #1 · ");
    assert_eq!(prompts(&model), ["go"]);
    pty.send("\r");
    pty.expect("as you say");
    let said = model.last_user_text();
    assert!(said.starts_with("one\ntwo\nthree\n") && said.ends_with("four\nfive"), "{said}");
}

#[test]
fn what_was_entered_before_the_end_of_the_program_is_in_the_history() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let (home, model, mut pty) = at_work([]);
        pty.send("use tabs\rand no spaces\rhalf");
        pty.expect("half");
        pty.signal(signal);
        pty.code();
        let mut pty = Pty::start_with(&home, &model, Setup::default().with_args(&["-c"]));
        pty.expect_prompt();
        pty.send("\x1b[A");
        pty.expect("and no spaces");
        pty.send("\x1b[A");
        pty.expect("use tabs");
    }
}

/// A paste as a terminal sends it.
fn pasted(text: &str) -> String {
    format!("\x1b[200~{text}\x1b[201~")
}

/// The file of the only session.
fn session_path(home: &Home) -> PathBuf {
    let entries = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let folders = entries(&home.data().join("sessions"));
    let mut files: Vec<_> = folders.iter().flat_map(|folder| entries(folder)).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

fn session_file(home: &Home) -> String {
    std::fs::read_to_string(session_path(home)).expect("a session can be read")
}

fn session_id(home: &Home) -> String {
    session_path(home).file_stem().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn a_long_paste_is_a_chip_on_the_screen_and_whole_in_the_request() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::text("read it"),
            Answer::bash(WAIT),
            Answer::text("that too"),
            Answer::text("well"),
        ]),
    );
    mkfifo(&home.work().join("gate"), Mode::S_IRWXU).unwrap();
    let [first, second] = ["one line of it\n", "another line\n"].map(|line| line.repeat(42));
    let mut pty = Pty::start_with(&home, &model, Setup::default().with_args(&["--yolo"]));
    pty.expect_prompt();
    pty.send(&format!("see {}", pasted(&first.replace('\n', "\r"))));
    pty.expect("[paste #1 · 42 lines]");
    pty.send(" please");
    ask(&mut pty, "", "read it");
    assert_eq!(prompts(&model)[0], format!("see {first} please"));
    pty.send("go on\r");
    pty.expect("⏺ bash(command=cat gate)");
    pty.send(&format!("and {}", pasted(&second)));
    pty.expect("» \x1b[0mand [paste #2 · 42 lines]");
    pty.send("\r");
    pty.expect("queued: and [paste #2 · 42 lines]");
    open(&home);
    pty.expect("» and [paste #2 · 42 lines]");
    pty.expect("that too");
    pty.expect("2 steps");
    pty.expect_prompt();
    assert_eq!(texts_behind_the_result(&model.requests()[2]), [format!("and {second}")]);
    pty.send(&pasted(&first));
    pty.expect("[paste #3 · 42 lines]");
    // The whole chip goes with one key, from either side.
    pty.send(&format!("\x7fx{}", pasted(&second)));
    pty.expect("[paste #3 · 42 lines]");
    pty.send("\x1b[D\x1b[3~");
    ask(&mut pty, "", "well");
    assert_eq!(prompts(&model)[3], "x");
    assert!(!pty.all().contains("line of it") && !pty.all().contains("another line"));
    let file = session_file(&home);
    assert!(file.contains("see \u{fffc}one line of it\\n"), "{file}");
    pty.send("\x04");
    assert_eq!(pty.code(), 0);

    let printed = |args: &[&str]| run(home.anvil().args(args)).out;
    let id = session_id(&home);
    for command in [&["replay"][..], &["sessions", "show"]] {
        let chips = printed(&[command, &[&id]].concat());
        assert!(chips.contains("> see [paste #1 · 42 lines] please"), "{chips}");
        assert!(chips.contains("> and [paste #2 · 42 lines]"), "{chips}");
        let whole = printed(&[command, &[&id, "--expand"]].concat());
        assert!(whole.contains("> see one line of it\n  one line of it\n"), "{whole}");
    }
    let document = |args: &[&str]| {
        serde_json::from_str::<Value>(&printed(args)).expect("a document")["messages"][0]
            .to_string()
    };
    assert!(document(&["sessions", "export", &id]).contains("see \u{fffc}one line"));
    let whole = document(&["sessions", "export", &id, "--expand"]);
    assert!(whole.contains("see one line") && !whole.contains('\u{fffc}'), "{whole}");
    let markdown = printed(&["sessions", "export", &id, "--format", "markdown"]);
    assert!(markdown.contains("see one line") && !markdown.contains('\u{fffc}'), "{markdown}");
    assert!(!printed(&["sessions"]).contains('\u{fffc}'));

    let mut pty = Pty::start_with(&home, &model, Setup::default().with_args(&["-c"]));
    let before = pty.expect_prompt() + &pty.expect("and [paste #2 · 42 lines]");
    assert!(!before.contains("another line"), "{before}");
    pty.expect("/help lists");
    pty.expect_prompt();
    pty.send(&pasted(&second));
    pty.expect("[paste #3 · 42 lines]");
}

#[test]
fn a_chip_that_was_not_sent_is_one_again_in_the_next_prompt() {
    let (_home, model, mut pty) = at_work([Answer::text("well")]);
    let long = "a line\n".repeat(9);
    pty.send(&format!("{}\r", pasted(&long)));
    pty.expect("queued: [paste #1 · 9 lines]");
    pty.send("and");
    pty.expect("and");
    pty.send("\x03");
    pty.expect("cancelled");
    pty.expect_prompt();
    pty.expect("[paste #1 · 9 lines]");
    pty.expect("and");
    ask(&mut pty, "", "well");
    assert!(prompts(&model)[1].ends_with(&format!("{long}\nand")), "{:?}", prompts(&model)[1]);
}

#[test]
fn a_secret_in_a_paste_stays_out_of_the_session_also_where_the_paste_begins_inside_it() {
    let secret = "sk-test-0123456789abcdef0123";
    let long = format!("{}\n{}", &secret[12..], "a line\n".repeat(9));
    for line in [
        format!("{}{}", &secret[..12], pasted(&long)),
        pasted(&format!("{secret}\n{}", "a line\n".repeat(9))),
    ] {
        let (home, model) = (Home::new(), Model::new([Answer::text("seen")]));
        let mut pty = Pty::start(&home, &model);
        pty.expect_prompt();
        pty.send(&line);
        pty.expect("[paste #1 · 10 lines]");
        ask(&mut pty, "", "seen");
        let file = session_file(&home);
        assert!(file.contains("redacted:ANTHROPIC_API_KEY"), "{file}");
        assert!(!file.contains(&secret[12..]) && !file.contains(&secret[..12]), "{file}");
        assert!(prompts(&model)[0].contains(secret));
    }
}
