//! Children under supervision: bounded output, deadlines, cancellation, and nothing left behind.

#![expect(clippy::unwrap_used, reason = "everything here is test code, its helpers too")]

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agent::process::{Ended, Finished, Keep, SpawnError, Spec, Status, claim_orphans, spawn};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const KEEP: Keep = Keep { head: 64 * 1024, tail: 64 * 1024 };

fn shell(command: &str) -> Spec {
    Spec {
        program: "bash".into(),
        arg0: None,
        args: vec!["-c".into(), command.into()],
        cwd: std::env::temp_dir(),
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        timeout: Duration::from_secs(60),
        cancel: CancellationToken::new(),
        keep: KEEP,
        output: None,
    }
}

async fn run(spec: Spec) -> Finished {
    spawn(spec).unwrap().wait().await.unwrap()
}

async fn stdout_of(command: &str) -> String {
    let finished = run(shell(command)).await;
    assert_eq!(finished.stdout.omitted, 0);
    String::from_utf8([finished.stdout.head, finished.stdout.tail].concat()).unwrap()
}

/// A `sleep` of an hour and a bit that no other test has.
fn unique_sleep() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sleep 3600.{}{count:03}", std::process::id())
}

/// The processes whose command line holds `needle`, one line each.
fn running(needle: &str) -> Vec<String> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,stat=,args="]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout);
    listed.lines().filter(|line| line.contains(needle)).map(str::to_owned).collect()
}

#[track_caller]
fn assert_nothing_runs(needle: &str) {
    assert_eq!(running(needle), Vec::<String>::new());
}

/// Runs `spec` until its output holds `word`, then gives its token to `act` and waits for the end.
async fn once_it_says(mut spec: Spec, word: &str, act: impl FnOnce(CancellationToken)) -> Finished {
    let (heard, mut hear) = mpsc::unbounded_channel();
    spec.output = Some(Box::new(move |_, bytes| heard.send(bytes.to_vec()).unwrap_or_default()));
    let cancel = spec.cancel.clone();
    let child = spawn(spec).unwrap();
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(word) {
        all.extend(hear.recv().await.expect("the command ended before it said its word"));
    }
    drop(hear);
    act(cancel);
    child.wait().await.unwrap()
}

async fn cancelled_once_it_says(command: &str, word: &str) -> Finished {
    let finished = once_it_says(shell(command), word, |cancel| cancel.cancel()).await;
    assert_eq!(finished.ended, Ended::Cancelled);
    assert_eq!(finished.unended, 0);
    finished
}

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
    let mut spec = shell("yes");
    spec.timeout = Duration::from_millis(300);
    let finished = run(spec).await;
    assert_eq!(finished.ended, Ended::TimedOut);
    assert_eq!((finished.stdout.head.len(), finished.stdout.tail.len()), (KEEP.head, KEEP.tail));
    assert!(finished.stdout.omitted > 0);
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
    let mut spec = shell(&format!("echo before; {sleep} & {sleep}; echo after"));
    spec.timeout = Duration::from_millis(500);
    let finished = run(spec).await;
    assert_eq!(finished.ended, Ended::TimedOut);
    assert_eq!(finished.status, Status::Signaled(15));
    assert_eq!(finished.stdout.head, b"before\n");
    // Elsewhere members of a group cannot be counted.
    #[cfg(target_os = "linux")]
    assert_eq!(finished.stragglers, 2);
    assert!(finished.duration < Duration::from_millis(1500), "{:?}", finished.duration);
    assert_nothing_runs(&sleep);
}

#[tokio::test]
async fn a_cancellation_ends_a_pipeline_at_once_and_keeps_the_output() {
    let sleep = unique_sleep();
    let finished = cancelled_once_it_says(&format!("echo ready; {sleep} | {sleep}"), "ready").await;
    assert_eq!(finished.stdout.head, b"ready\n");
    assert!(finished.duration < Duration::from_secs(2), "{:?}", finished.duration);
    assert_nothing_runs(&sleep);
}

#[tokio::test]
async fn a_cancelled_flood_ends_at_once() {
    let finished = cancelled_once_it_says("yes", "y").await;
    assert!(finished.duration < Duration::from_secs(2), "{:?}", finished.duration);
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
    let finished = cancelled_once_it_says(command, "ready").await;
    assert_eq!(finished.stdout.head, b"ready\ncleaned\n");
    assert_eq!(finished.status, Status::Exited(3));
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipe_does_not_hold_the_call() {
    let sleep = unique_sleep();
    let finished = run(shell(&format!("{sleep} & echo done"))).await;
    assert_eq!((finished.ended, finished.status), (Ended::Completed, Status::Exited(0)));
    assert_eq!(finished.stdout.head, b"done\n");
    assert_eq!(finished.stragglers, 1);
    assert!(finished.duration < Duration::from_secs(5), "{:?}", finished.duration);
    assert_nothing_runs(&sleep);
}

#[tokio::test]
async fn what_ends_by_itself_in_a_moment_is_let_end_and_heard() {
    let finished = run(shell("echo last words > >(sleep 0.02; cat)")).await;
    assert_eq!(finished.stdout.head, b"last words\n");
    assert_eq!(finished.stragglers, 0);
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
    let program = folder.path().join("orphan-of-test");
    std::fs::copy("/bin/true", &program).unwrap();
    let mut spec = shell("for i in $(seq 100); do ./orphan-of-test & done");
    spec.cwd = folder.path().to_owned();
    let finished = run(spec).await;
    assert_eq!(finished.stragglers, 0);
    assert_nothing_runs("orphan-of-test");
}

/// In a process of its own, which starts nothing but commands: between two processes that compete for
/// every core a child may fork before the system knows whose it is.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_claims_its_orphans_is_left_with_no_child_at_all() {
    const ALONE: &str = "ANVIL_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "a_program_that_claims_its_orphans_is_left_with_no_child_at_all";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    claim_orphans();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = std::thread::scope(|scope| {
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
        let one = || {
            let sleep = unique_sleep();
            let command =
                format!("env -i setsid -f true; env -i setsid {sleep} >/dev/null 2>&1 & :");
            runtime.block_on(run(shell(&command))).stragglers
        };
        (0..8).map(|_| one()).collect::<Vec<_>>()
    });
    assert_eq!(ended, [1; 8]);
    let own = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
    assert_eq!(children, "");
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
        assert_eq!(running(&detached).len(), 3, "the shell, its sleep and the detached one");
        cancel.cancel();
    })
    .await;
    assert_eq!(finished.ended, Ended::Cancelled);
    assert_nothing_runs(&detached);
    assert_nothing_runs(&brief);
    assert_eq!(running(&own).len(), 1);
    assert_eq!(ended.wait().unwrap().code(), Some(7));
}

/// A background job of a shell that became this program, as `exec anvil` does.
#[cfg(target_os = "linux")]
#[test]
fn children_from_before_are_never_claimed() {
    const ALONE: &str = "ANVIL_TEST_WITH_A_JOB";
    if std::env::var_os(ALONE).is_none() {
        let name = "children_from_before_are_never_claimed";
        let job = unique_sleep();
        let exec = format!("{job} >/dev/null & exec \"$0\" --exact {name} --nocapture");
        let own = std::env::current_exe().unwrap();
        let output =
            Command::new("bash").args(["-c", &exec]).arg(own).env(ALONE, &job).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    claim_orphans();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let finished = runtime.block_on(run(shell("true")));
    assert_eq!((finished.stragglers, finished.unended), (0, 0));
    let job = running(&std::env::var(ALONE).unwrap());
    assert_eq!(job.len(), 1, "the job still runs");
    let id = job[0].split_whitespace().next().unwrap().to_owned();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
}

#[cfg(target_os = "linux")]
struct KillOnDrop(std::process::Child);

#[cfg(target_os = "linux")]
impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
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
        let mut spec = shell(&format!("setsid {sleep} & echo ready; {sleep}"));
        spec.output = Some(Box::new(move |_, bytes| heard.send(bytes.to_vec()).unwrap()));
        tokio::spawn(spawn(spec).unwrap().wait());
        assert_eq!(hear.recv().await.unwrap(), b"ready\n");
        assert_ne!(running(&sleep), Vec::<String>::new());
    });
    drop(runtime);
    // Killed and not awaited: the kernel may take a moment, and zombies stay until this program ends.
    let deadline = Instant::now() + Duration::from_secs(5);
    while !running(&sleep).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", running(&sleep));
        std::thread::yield_now();
    }
}
