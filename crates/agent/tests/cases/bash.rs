//! Kind `bash`: one command line, and what its result, the screen and the process table show of it.
//!
//! The rows run one after the other in a process of their own, which has a terminal and an environment
//! full of secrets and traps.

mod row;

use std::io::Read as _;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::support::{rows, run_all, scratch};

/// Set in the process that has the terminal.
const ON_TERMINAL: &str = "ANVIL_TEST_ON_TERMINAL";

/// Rows that wait for something.
const PENDING: &[(&str, &str)] = &[];

/// What the environment of a person may hold and no command may see.
const SECRETS: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "sk-test-0123456789abcdef0123"),
    ("OPENAI_API_KEY", "sk-test-0123456789abcdef0123"),
    ("GITHUB_TOKEN", "sk-test-0123456789abcdef0123"),
    ("MY_SECRET", "sk-test-0123456789abcdef0123"),
    ("PROMPT_COMMAND", "echo trapped"),
];

#[test]
fn every_bash_case_holds() {
    let cases = rows("bash", "commands.jsonl");
    if std::env::var_os(ON_TERMINAL).is_some() {
        assert!(std::fs::File::open("/dev/tty").is_ok(), "this process has no terminal");
        agent::process::claim_orphans();
        return run_all("bash", &cases, PENDING, row::run);
    }
    let (screen, succeeded) = again_on_a_terminal("bash::every_bash_case_holds");
    eprintln!("{screen}");
    assert!(succeeded && screen.contains("1 passed"), "the rows failed on their terminal");
    for case in &cases {
        for text in case["expect"]["terminal_must_not_contain"].as_array().into_iter().flatten() {
            let text = text.as_str().unwrap();
            assert!(!screen.contains(text), "{}: {text} is on the terminal", case["id"]);
        }
    }
}

/// Runs a test of this program again, and gives what its terminal showed and whether it succeeded.
fn again_on_a_terminal(test: &str) -> (String, bool) {
    let home = scratch();
    let trap = home.path().join(".bashrc");
    std::fs::write(&trap, "alias trapped=true; echo trapped\n").unwrap();
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.cwd(std::env::current_dir().unwrap());
    command.env(ON_TERMINAL, "1");
    command.env("HOME", home.path());
    command.env("BASH_ENV", &trap);
    for (name, value) in SECRETS {
        command.env(name, value);
    }
    let terminal = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut child = terminal.slave.spawn_command(command).unwrap();
    drop(terminal.slave);
    let mut shown = Vec::new();
    // Where the other end is closed, some systems say end and some say error.
    terminal.master.try_clone_reader().unwrap().read_to_end(&mut shown).ok();
    let succeeded = child.wait().unwrap().success();
    (String::from_utf8_lossy(&shown).into_owned(), succeeded)
}
