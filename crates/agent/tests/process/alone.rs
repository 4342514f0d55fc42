//! Tests that need a process of their own: what it claims is for all of it, and how it was started counts.

use std::ffi::OsString;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use agent::process::{Status, claim_orphans, spawn};
use tokio::sync::mpsc;

use crate::support::{
    PATIENCE, assert_nothing_runs, cancelled_once_it_says, run, running, shell, unique_sleep,
    wait_for_running,
};

/// Names the test that was started again.
const ALONE: &str = "ANVIL_TEST_ALONE";

fn is_alone(name: &str) -> bool {
    std::env::var_os(ALONE).is_some_and(|alone| alone == name)
}

/// Runs the test `name` of this file again, on the first thread of a program that `starter` starts.
fn again(starter: &[&str], name: &str) -> Output {
    let mut words: Vec<OsString> = starter.iter().map(OsString::from).collect();
    words.push(std::env::current_exe().unwrap().into_os_string());
    Command::new(&words[0])
        .args(&words[1..])
        .args(["--exact", &format!("alone::{name}"), "--nocapture", "--test-threads=1"])
        .env(ALONE, name)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[track_caller]
fn assert_passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    // Not none.
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{}\n{said}\n{complained}", output.status);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Between two processes that compete for every core a child may fork before the system knows whose it is.
#[test]
fn a_program_that_claims_its_orphans_is_left_with_no_child_at_all() {
    let name = "a_program_that_claims_its_orphans_is_left_with_no_child_at_all";
    if !is_alone(name) {
        return assert_passed(&again(&["env"], name));
    }
    claim_orphans();
    let runtime = runtime();
    std::thread::scope(|scope| {
        let busy = Arc::new(());
        for _ in 0..4 {
            let busy = Arc::downgrade(&busy);
            // Until the last strong one is gone, also in a panic.
            scope.spawn(move || {
                while busy.strong_count() > 0 {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..8 {
            let sleep = unique_sleep();
            let command =
                format!("env -i setsid -f true; env -i setsid {sleep} >/dev/null 2>&1 & :");
            // Two, when the other one did not get to its end by itself.
            assert_ne!(runtime.block_on(run(shell(&command))).stragglers, 0);
        }
        drop(busy);
    });
    assert_eq!(own_children(), "");
}

#[test]
fn an_orphan_that_dies_while_its_command_runs_is_no_zombie_for_long() {
    let name = "an_orphan_that_dies_while_its_command_runs_is_no_zombie_for_long";
    if !is_alone(name) {
        return assert_passed(&again(&["env"], name));
    }
    claim_orphans();
    let (heard, mut hear) = mpsc::unbounded_channel();
    let mut spec = shell(&format!(
        "for i in 1 2 3; do setsid -f true; done; echo started; {}; :",
        unique_sleep()
    ));
    spec.output = Some(Box::new(move |_, bytes| heard.send(bytes.to_vec()).unwrap_or_default()));
    let cancel = spec.cancel.clone();
    let reaped = async {
        let child = spawn(spec).unwrap();
        assert_eq!(hear.recv().await.unwrap(), b"started\n");
        // The command is the child of whichever thread started it.
        while !own_children().replace(&format!("{} ", child.id()), "").is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        assert_eq!(child.wait().await.unwrap().stragglers, 1);
    };
    runtime().block_on(async { tokio::time::timeout(PATIENCE, reaped).await.unwrap() });
    assert_eq!(own_children(), "");
}

/// The children of the first thread, which gets the orphans.
fn own_children() -> String {
    let own = std::process::id();
    std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap()
}

/// A background job of a shell that became this program, as `exec anvil` does.
#[test]
fn children_from_before_are_never_claimed() {
    const JOB: &str = "ANVIL_TEST_JOB";
    let name = "children_from_before_are_never_claimed";
    if !is_alone(name) {
        let job = unique_sleep();
        let with_job = format!("{job} >/dev/null 2>&1 & export {JOB}='{job}'; exec \"$0\" \"$@\"");
        let output = again(&["bash", "-c", &with_job], name);
        let _job = KillOnDrop(&job);
        wait_for_running(&job, 1);
        return assert_passed(&output);
    }
    claim_orphans();
    let finished = runtime().block_on(run(shell("true")));
    assert_eq!((finished.stragglers, finished.unended), (0, 0));
    wait_for_running(&std::env::var(JOB).unwrap(), 1);
}

/// What of commands can go wrong when the system tells less of them, or their end is not told at all.
#[test]
fn commands_end_however_this_program_was_started() {
    let name = "commands_end_however_this_program_was_started";
    if is_alone(name) {
        return commands_end();
    }
    for starter in [&["env", "--block-signal"][..], &["env", "--ignore-signal"]] {
        assert_passed(&again(starter, name));
    }
    // As the first process of a container, whose session and group are made outside.
    let container = ["unshare", "--pid", "--fork", "--mount-proc"];
    let can_make_one =
        Command::new(container[0]).args(&container[1..]).arg("true").output().unwrap();
    if can_make_one.status.success() {
        assert_passed(&again(&container, name));
    } else {
        let why = String::from_utf8_lossy(&can_make_one.stderr);
        println!("NOT TESTED in a PID namespace, which this user cannot make: {why}");
    }
}

fn commands_end() {
    let runtime = runtime();
    let (own, sleep) = (unique_sleep(), unique_sleep());
    runtime.block_on(run(shell("true")));
    // An orphan that no command has started, in the session and group of this program.
    let orphan = format!("{own} >/dev/null 2>&1 &");
    assert!(Command::new("bash").args(["-c", &orphan]).status().unwrap().success());
    let _orphan = KillOnDrop(&own);
    let end = async {
        let command = format!("{sleep} & (setsid {sleep} >/dev/null 2>&1 &); echo done; exit 3");
        let finished = run(shell(&command)).await;
        assert_eq!(finished.status, Status::Exited(3));
        assert_eq!((finished.stragglers, finished.unended), (2, 0));
        assert_nothing_runs(&sleep);
        cancelled_once_it_says(&format!("echo ready; {sleep} | {sleep}"), "ready").await;
        assert_nothing_runs(&sleep);
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, end).await.unwrap() });
    wait_for_running(&own, 1);
}

/// What has this in its command line is killed in the end.
struct KillOnDrop<'a>(&'a str);

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        for line in running(self.0) {
            let id = line.split_whitespace().next().unwrap().to_owned();
            // It may ignore any other signal, if whoever started these tests did.
            let killed = Command::new("kill").args(["-KILL", &id]).status();
            assert!(killed.is_ok() || std::thread::panicking(), "{killed:?}");
        }
    }
}
