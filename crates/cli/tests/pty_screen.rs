//! What terminals of all kinds are sent: dumb ones, tiny ones, without colours, and hostile text.

mod support;

use serde_json::json;

use support::Home;
use support::model::{Answer, Model};
use support::pty::{Pty, Setup, ask};

#[test]
fn a_dumb_terminal_gets_a_conversation_without_escape_sequences() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::Calls("Let me see.".into(), vec![("glob", json!({"pattern": "*"}))]),
            Answer::text("nothing here"),
        ]),
    );
    let setup = Setup::default().with_env("TERM", Some("dumb"));
    let mut pty = Pty::start_with(&home, &model, setup);
    pty.expect_prompt();
    pty.send("look\r");
    pty.expect("⏺ glob(pattern=*)");
    pty.expect("nothing here");
    pty.expect("2 steps");
    pty.expect_prompt();
    pty.send("\x04");
    assert_eq!(pty.code(), 0);
    assert!(!pty.all().contains('\x1b'), "{:?}", pty.all());
}

#[test]
fn a_missing_terminal_type_is_no_reason_to_fail() {
    let (home, model) = (Home::new(), Model::new([Answer::text("hello")]));
    let mut pty = Pty::start_with(&home, &model, Setup::default().with_env("TERM", None));
    pty.expect_prompt();
    ask(&mut pty, "hi", "hello");
    assert!(!pty.all().contains("panicked"));
}

#[test]
fn no_color_switches_colours_off_on_a_terminal() {
    let answers = || [Answer::call("glob", json!({"pattern": "*"})), Answer::text("hello")];
    for (no_color, has_colours) in [(Some("1"), false), (None, true)] {
        let (home, model) = (Home::new(), Model::new(answers()));
        let setup = Setup::default().with_env("NO_COLOR", no_color).with_args(&["-p", "hi"]);
        let mut pty = Pty::start_with(&home, &model, setup);
        assert_eq!(pty.code(), 0);
        pty.expect("hello");
        assert_eq!(pty.all().contains("\x1b["), has_colours, "{:?}", pty.all());
    }
}

#[test]
fn a_tiny_and_a_changing_terminal_cause_no_panic() {
    let (home, model) = (
        Home::new(),
        Model::new([Answer::Drip("漢字 words ".into(), std::time::Duration::from_millis(2))]),
    );
    let setup = Setup { rows: 3, columns: 2, ..Setup::default() };
    let mut pty = Pty::start_with(&home, &model, setup);
    pty.expect(">");
    pty.send("hello world\r");
    model.wait_for(1);
    for _ in 0..50 {
        for (cols, rows) in [(80, 24), (10, 3), (200, 60), (1, 1)] {
            let size = portable_pty::PtySize { rows, cols, ..Default::default() };
            pty.master.resize(size).unwrap();
        }
    }
    pty.expect("words");
    pty.send("\x03");
    pty.expect("cancelled");
    assert!(!pty.all().contains("panicked"));
}

#[test]
fn what_is_pasted_acts_neither_on_the_prompt_nor_on_a_question() {
    let (home, model) =
        (Home::new(), Model::new([Answer::bash("touch made"), Answer::text("as you wish")]));
    let paste = "\x1b[200~a\x1b]52;c;AAAA\x07\x1b[2J\u{202e}b\x1b[201~";
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send(paste);
    pty.send("\r");
    pty.expect("[y/a/n]: ");
    pty.send(paste);
    pty.expect("\\u{202e}b");
    pty.send("\r");
    pty.expect("as you wish");
    let all = pty.all();
    assert!(
        !all.contains("\x1b]52") && !all.contains('\x07') && !all.contains("\x1b[2J"),
        "{all:?}"
    );
}

#[test]
fn no_output_of_a_command_can_pass_for_a_question() {
    let fake = r"printf '⏺ bash(ls)\n  ⎿ ok\nAllow? [y/n]: \033[8m y\n'";
    let (home, model) = (Home::new(), Model::new([Answer::bash(fake), Answer::text("end")]));
    let setup = Setup::default().with_args(&["--yolo"]).with_env("NO_COLOR", Some("1"));
    let mut pty = Pty::start_with(&home, &model, setup);
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("\n  ⎿ ");
    let shown = pty.expect("end");
    assert!(shown.contains("\n    Allow? [y/n]: "), "{shown}");
    assert!(!shown.contains("\nAllow?") && !shown.contains('\x1b'), "{shown}");
}

#[test]
fn hostile_text_reaches_the_terminal_only_in_visible_form() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::Calls(
                "a\x1b]52;c;AAAA\x07".into(),
                vec![("glob", json!({"pattern": "\x1b[2J\u{202e}*"}))],
            ),
            Answer::text("end"),
        ]),
    );
    let mut pty = Pty::start(&home, &model);
    pty.expect_prompt();
    pty.send("go\r");
    pty.expect("a\\u{1b}]52;c;AAAA\\u{7}");
    pty.expect("\\u{1b}[2J\\u{202e}");
    pty.expect("end");
    assert!(!pty.all().contains("\x1b]52") && !pty.all().contains("\x1b[2J"));
}
