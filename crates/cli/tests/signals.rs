//! Signals: the turn is cancelled, children are gone, and the exit code says which signal it was.

mod support;

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;

use support::model::{Answer, Model};
use support::{Home, Running, survivors, wait_until};

/// A run that is in the middle of a command which would last for hours.
fn in_the_middle_of(script: impl Fn(&str) -> String) -> (Home, Model, Running, String) {
    let marker = survivors::marker();
    let (home, model) =
        (Home::new(), Model::new([Answer::bash(&script(&marker)), Answer::text("x")]));
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x", "--yolo", "--output-format", "json"]).stdin(Stdio::null());
    let running = Running::start(&mut command);
    wait_until("the command runs", || !survivors::with(&marker).is_empty());
    (home, model, running, marker)
}

fn check(signal: Signal, code: i32) {
    let (_home, _model, running, marker) = in_the_middle_of(|marker| format!("sleep {marker}"));
    running.signal(signal);
    let ran = running.finish();
    assert_eq!(ran.assert_code(code).json()["outcome"], "cancelled");
    ran.assert_no_panic();
    survivors::assert_none(&marker);
}

#[test]
fn an_interrupt_in_the_middle_of_a_tool_ends_with_130_and_no_child() {
    check(Signal::SIGINT, 130);
}

#[test]
fn a_termination_in_the_middle_of_a_tool_ends_with_143_and_no_child() {
    check(Signal::SIGTERM, 143);
}

#[test]
fn a_hangup_in_the_middle_of_a_tool_ends_with_129_and_no_child() {
    check(Signal::SIGHUP, 129);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs setsid of util-linux")]
fn a_child_that_ignores_termination_and_left_its_group_is_gone_as_well() {
    let (_home, _model, running, marker) = in_the_middle_of(|marker| {
        format!(
            "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep {marker}\" &) ; sleep {marker}; sleep {marker}"
        )
    });
    running.signal(Signal::SIGTERM);
    running.finish().assert_code(143);
    survivors::assert_none(&marker);
}

#[test]
fn a_second_interrupt_does_not_wait_for_a_stubborn_child() {
    let (home, _model, running, marker) = in_the_middle_of(|marker| {
        format!("trap 'touch told' TERM; while :; do sleep {marker}; done")
    });
    running.signal(Signal::SIGINT);
    wait_until("the child was asked to end", || home.work().join("told").exists());
    running.signal(Signal::SIGINT);
    let ran = running.finish();
    assert_eq!(ran.code(), 130);
    assert_eq!(ran.out, "", "a run that waited for its child would have told its outcome");
    ran.assert_no_panic();
    survivors::assert_none(&marker);
}

#[test]
fn an_interrupt_in_the_middle_of_an_answer_ends_at_once() {
    let (home, model) = (Home::new(), Model::new([Answer::Stall("half an".into())]));
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x"]).stdin(Stdio::null());
    let running = Running::start(&mut command);
    model.wait_for(1);
    running.signal(Signal::SIGINT);
    let ran = running.finish();
    ran.assert_code(130);
    assert_eq!(ran.out, "", "half an answer is no answer");
    assert!(ran.took < Duration::from_secs(5), "{ran:?}");
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /proc to see that signals are handled")]
fn an_interrupt_while_input_is_awaited_ends_with_130() {
    let (home, model) = (Home::new(), Model::new([Answer::text("x")]));
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x", "--output-format", "json"]).stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    let open = running.child.stdin.take();
    wait_until("signals are handled", || handles_interrupts(running.id()));
    running.signal(Signal::SIGINT);
    let ran = running.finish();
    assert_eq!(ran.assert_code(130).json()["outcome"], "cancelled");
    drop(open);
}

/// Whether a handler for SIGINT is installed.
fn handles_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught
        .is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 0b10 != 0))
}

#[test]
fn a_reader_that_stands_still_does_not_keep_a_second_interrupt_from_ending_the_run() {
    let (home, model) =
        (Home::new(), Model::new([Answer::Drip("word ".repeat(2000), Duration::from_millis(1))]));
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x", "--output-format", "stream-json"]).stdin(Stdio::null());
    let (reader, writer) = std::io::pipe().unwrap();
    let running = Running::start_as_is(command.stdout(writer).stderr(Stdio::piped()));
    drop(command);
    // Long enough for the pipe, the event queue and the sockets to fill up.
    std::thread::sleep(Duration::from_millis(700));
    running.signal(Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    running.signal(Signal::SIGINT);
    let ran = running.finish();
    assert_eq!(ran.code(), 130);
    // A single interrupt would have let the turn try for 15 s to tell its outcome.
    assert!(ran.took < Duration::from_secs(12), "{ran:?}");
    drop(reader);
}
