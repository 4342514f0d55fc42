//! Children under supervision: bounded output, deadlines, cancellation, and nothing left behind.

#![expect(clippy::unwrap_used, reason = "everything here is test code, its helpers too")]

#[cfg(target_os = "linux")]
mod alone;
mod support;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use agent::process::{Ended, SpawnError, Status, spawn};
use tokio::sync::mpsc;

use support::{
    KEEP, assert_nothing_runs, cancelled_once_it_says, in_time, once_it_says, run, shell,
    stdout_of, unique_sleep, wait_for_running,
};

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    assert_eq!(run(shell("exit 255")).await.status, Status::Exited(255));
    assert_eq!(run(shell("kill -9 $$")).await.status, Status::Signaled(9));
    let finished = run(shell("echo out; echo err >&2")).await;
    assert_eq!(finished.ended, Ended::Completed);
    assert_eq!(finished.stdout.head, b"out\n");
    assert_eq!(finished.stderr.head, b"err\n");
    assert_eq!((finished.stragglers, finished.unended), (0, 0));
}

#[tokio::test]
async fn a_missing_folder_and_a_missing_program_are_errors_that_name_them() {
    let mut spec = shell("true");
    spec.cwd = "/nonexistent/folder".into();
    let error = spawn(spec).unwrap_err();
    assert!(
        matches!(&error, SpawnError::Cwd { cwd, .. } if cwd == Path::new("/nonexistent/folder"))
    );
    assert_eq!(error.to_string(), "the working directory /nonexistent/folder no longer exists");
    let mut spec = shell("true");
    spec.cwd = "/dev/null".into();
    let error = spawn(spec).unwrap_err().to_string();
    assert!(error.starts_with("the working directory /dev/null cannot be entered: "), "{error}");
    let mut spec = shell("true");
    spec.program = "no-such-program".into();
    let error = spawn(spec).unwrap_err();
    assert!(error.to_string().starts_with("could not start no-such-program: "), "{error}");
}

#[tokio::test]
async fn a_child_sees_the_environment_it_was_given_and_its_mark() {
    let mut spec = shell("env");
    spec.env.push(("GIVEN".into(), "yes".into()));
    spec.env.push(("ANVIL_CALL_ID".into(), "outer".into()));
    let env = String::from_utf8(run(spec).await.stdout.head).unwrap();
    let mut names: Vec<_> = env.lines().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    // The last three are bash's own.
    assert_eq!(names, ["ANVIL_CALL_ID", "GIVEN", "PATH", "PWD", "SHLVL", "_"]);
    assert!(env.contains("ANVIL_CALL_ID=outer."), "{env}");
}

#[tokio::test]
async fn arguments_may_be_any_bytes() {
    use std::os::unix::ffi::OsStringExt as _;
    let mut spec = shell("printf %s \"$1\"");
    spec.args.extend(["bash".into(), OsString::from_vec(b"a\xffb".to_vec())]);
    assert_eq!(run(spec).await.stdout.head, b"a\xffb");
}

#[tokio::test]
async fn standard_input_is_empty_and_core_files_are_off() {
    assert_eq!(stdout_of("read -r x; echo $?; ulimit -c").await, "1\n0\n");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_leads_a_session_without_terminal_and_with_default_signals() {
    // exec: fields of the very process that was started.
    let said = stdout_of("echo $$; exec cat /proc/self/stat /proc/self/status").await;
    let mut lines = said.lines();
    let pid = lines.next().unwrap();
    let stat: Vec<_> = lines.next().unwrap().rsplit(") ").next().unwrap().split(' ').collect();
    let [_state, _parent, group, session, terminal, ..] = stat[..] else { panic!("{said}") };
    assert_eq!((group, session, terminal), (pid, pid, "0"));
    let mask = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk:"), 0, "blocked signals");
    assert_eq!(mask("SigIgn:") & (1 << 12), 0, "SIGPIPE is ignored");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_descriptor_leaks_even_one_that_lacks_the_flag() {
    let file = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let listed = stdout_of("ls /proc/self/fd").await;
    // Its three streams and the folder that ls has open.
    assert_eq!(listed.lines().count(), 4, "{listed}");
}

#[tokio::test]
async fn unlimited_output_stays_within_the_capture_bound() {
    let flood = async |time| {
        let mut spec = shell("yes");
        spec.timeout = time;
        run(spec).await
    };
    let finished = in_time(flood, |finished| finished.stdout.omitted > 0).await;
    assert_eq!(finished.ended, Ended::TimedOut);
    assert_eq!((finished.stdout.head.len(), finished.stdout.tail.len()), (KEEP.head, KEEP.tail));
}

#[tokio::test]
async fn two_floods_at_once_are_drained_side_by_side_and_counted_exactly() {
    let command = "(yes o | head -c 5000000) & (yes e | head -c 5000000 >&2) & wait; echo end";
    let finished = run(shell(command)).await;
    assert_eq!(finished.stdout.len(), 5_000_004);
    assert_eq!(finished.stderr.len(), 5_000_000);
    assert!(finished.stdout.tail.ends_with(b"end\n"));
}

#[tokio::test]
async fn every_piece_of_output_is_seen_also_what_is_not_kept() {
    let (heard, mut hear) = mpsc::unbounded_channel();
    let mut spec = shell("yes | head -c 3000000");
    spec.output = Some(Box::new(move |_, bytes| heard.send(bytes.len()).unwrap()));
    let finished = run(spec).await;
    let mut seen = 0;
    while let Some(len) = hear.recv().await {
        seen += len;
    }
    assert_eq!((seen, finished.stdout.len()), (3_000_000, 3_000_000));
}

#[tokio::test]
async fn a_timeout_reaps_the_leader_and_all_it_started_and_keeps_the_output() {
    let sleep = unique_sleep();
    let too_long = async |time| {
        let mut spec = shell(&format!("{sleep} & echo before; {sleep}; echo after"));
        spec.timeout = time;
        let finished = run(spec).await;
        assert_eq!((finished.ended, finished.unended), (Ended::TimedOut, 0));
        assert_nothing_runs(&sleep);
        finished
    };
    // Elsewhere members of a group cannot be counted.
    let started = if cfg!(target_os = "linux") { 2 } else { 0 };
    let finished = in_time(too_long, |finished| {
        finished.stdout.head == b"before\n"
            && finished.stragglers == started
            && finished.status == Status::Signaled(15)
    });
    assert_eq!(finished.await.stdout.len(), 7);
}

#[tokio::test]
async fn a_cancellation_ends_a_pipeline_and_keeps_the_output() {
    let sleep = unique_sleep();
    let finished = cancelled_once_it_says(&format!("echo ready; {sleep} | {sleep}"), "ready").await;
    assert_eq!(finished.stdout.head, b"ready\n");
    assert_nothing_runs(&sleep);
}

#[tokio::test]
async fn a_flood_does_not_drown_a_cancellation() {
    let finished = cancelled_once_it_says("yes", "y").await;
    assert!(matches!(finished.status, Status::Signaled(_)), "{:?}", finished.status);
}

#[tokio::test]
async fn a_process_that_ignores_requests_to_end_is_killed() {
    let sleep = unique_sleep();
    let command =
        format!("bash -c \"trap '' TERM INT HUP; echo ready; while :; do {sleep}; done\" & wait");
    let finished = cancelled_once_it_says(&command, "ready").await;
    assert!(finished.stragglers >= 1, "{}", finished.stragglers);
    assert_nothing_runs(&sleep);
}

#[tokio::test]
async fn a_leader_may_clean_up_before_it_ends() {
    let command = "trap 'echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let finished = in_time(
        async |_| cancelled_once_it_says(command, "ready").await,
        |finished| finished.status == Status::Exited(3),
    );
    assert_eq!(finished.await.stdout.head, b"ready\ncleaned\n");
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipe_does_not_hold_the_call() {
    let sleep = unique_sleep();
    let finished = run(shell(&format!("{sleep} & echo done"))).await;
    assert_eq!((finished.ended, finished.status), (Ended::Completed, Status::Exited(0)));
    assert_eq!(finished.stdout.head, b"done\n");
    assert_eq!(finished.stragglers, 1);
    assert_nothing_runs(&sleep);
}

#[tokio::test]
async fn what_ends_by_itself_in_a_moment_is_let_end_and_heard() {
    let finished = in_time(
        async |_| run(shell("echo last words > >(sleep 0.02; cat)")).await,
        |finished| finished.stragglers == 0,
    );
    assert_eq!(finished.await.stdout.head, b"last words\n");
}

#[tokio::test]
async fn a_background_flood_does_not_hold_the_call() {
    let finished = run(shell("yes & echo done >&2")).await;
    assert_eq!(finished.ended, Ended::Completed);
    assert_eq!(finished.stderr.head, b"done\n");
    assert_eq!(finished.stragglers, 1);
}

#[tokio::test]
async fn a_stopped_process_is_ended_too() {
    let sleep = unique_sleep();
    let finished = run(shell(&format!("{sleep} & kill -STOP $!"))).await;
    assert_eq!(finished.stragglers, 1);
    assert_nothing_runs(&sleep);
}

/// Ways out of the group, the session and the pipes. The way out of the environment is further down.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_detached_process_is_found_and_ended_however_it_left() {
    for way_out in [
        "setsid SLEEP & echo x",
        "setsid SLEEP >/dev/null 2>&1 & echo x",
        "(setsid sh -c 'SLEEP & ' &) ; echo x",
        "setsid sh -c 'SLEEP & SLEEP & wait' >/dev/null 2>&1 & echo x",
        "setsid -f SLEEP >/dev/null 2>&1; echo x",
        "setsid setsid -f setsid -f setsid -f SLEEP >/dev/null 2>&1 & echo x",
        "nohup SLEEP >/dev/null 2>&1 & disown; echo x",
        "setsid sh -c 'trap \"\" TERM; SLEEP' >/dev/null 2>&1 & echo x",
    ] {
        let sleep = unique_sleep();
        let finished = run(shell(&way_out.replace("SLEEP", &sleep))).await;
        assert_eq!(finished.ended, Ended::Completed, "{way_out}");
        assert!(finished.stragglers >= 1, "{way_out}");
        assert_eq!(finished.unended, 0, "{way_out}");
        assert_nothing_runs(&sleep);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_cancellation_ends_what_has_left_the_session_of_a_running_command() {
    let sleep = unique_sleep();
    let command = format!("env -i setsid {sleep} & (setsid {sleep} &); echo ready; wait; {sleep}");
    cancelled_once_it_says(&command, "ready").await;
    assert_nothing_runs(&sleep);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_zombie_is_left_of_a_hundred_orphans() {
    let folder = tempfile::tempdir().unwrap();
    // A link: a file that was just written cannot be run while a child that another test starts at this
    // moment has it open. As many letters of a name as a zombie shows.
    let name = format!("orphan-{:08x}", uuid::Uuid::new_v4().as_fields().0);
    std::os::unix::fs::symlink("/bin/true", folder.path().join(&name)).unwrap();
    let mut spec = shell(&format!("for i in $(seq 100); do ./{name} & done"));
    spec.cwd = folder.path().to_owned();
    let finished = run(spec).await;
    assert_eq!(String::from_utf8(finished.stderr.head).unwrap(), "");
    assert_eq!((finished.status, finished.unended), (Status::Exited(0), 0));
    assert_nothing_runs(&name);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_call_never_ends_what_another_call_or_the_program_itself_started() {
    let (own, detached, brief) = (unique_sleep(), unique_sleep(), unique_sleep());
    let ours =
        Command::new("sleep").arg(own.trim_start_matches("sleep ")).stdout(Stdio::null()).spawn();
    let _ours = KillOnDrop(ours.unwrap());
    // Its exit code must stay for whoever started it.
    let mut ended = Command::new("bash").args(["-c", "exit 7"]).spawn().unwrap();
    let long = shell(&format!("(setsid {detached} >/dev/null 2>&1 &); echo up; {detached}; :"));
    let finished = once_it_says(long, "up", |cancel| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let other = run(shell(&format!("setsid {brief} &")));
                assert_eq!(runtime.unwrap().block_on(other).stragglers, 1);
            });
        });
        // The shell, its sleep and the detached one.
        wait_for_running(&detached, 3);
        cancel.cancel();
    })
    .await;
    assert_eq!(finished.ended, Ended::Cancelled);
    assert_nothing_runs(&detached);
    assert_nothing_runs(&brief);
    wait_for_running(&own, 1);
    assert_eq!(ended.wait().unwrap().code(), Some(7));
}

#[cfg(target_os = "linux")]
struct KillOnDrop(std::process::Child);

#[cfg(target_os = "linux")]
impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let ended = self.0.kill().and_then(|()| self.0.wait());
        // A second panic would end the program before it has named the first.
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}

#[tokio::test]
async fn dropping_the_call_ends_the_command_in_the_background() {
    let sleep = unique_sleep();
    let (heard, mut hear) = mpsc::unbounded_channel();
    let mut spec = shell(&format!("echo ready; {sleep}"));
    // The sender is dropped when the owner has finished.
    spec.output = Some(Box::new(move |_, bytes| heard.send(bytes.to_vec()).unwrap()));
    let call = tokio::spawn(spawn(spec).unwrap().wait());
    assert_eq!(hear.recv().await.unwrap(), b"ready\n");
    call.abort();
    assert_eq!(hear.recv().await, None);
    assert_nothing_runs(&sleep);
}

#[test]
fn a_runtime_that_shuts_down_kills_what_it_ran() {
    let sleep = unique_sleep();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (heard, mut hear) = mpsc::unbounded_channel();
        let mut spec = shell(&format!("setsid {sleep} & echo ready; {sleep}; :"));
        spec.output = Some(Box::new(move |_, bytes| heard.send(bytes.to_vec()).unwrap()));
        tokio::spawn(spawn(spec).unwrap().wait());
        assert_eq!(hear.recv().await.unwrap(), b"ready\n");
        // The shell and both of its children.
        wait_for_running(&sleep, 3);
    });
    drop(runtime);
    // Killed and not awaited: the kernel may take a moment, and zombies stay until this program ends.
    wait_for_running(&sleep, 0);
}
