//! What the tests of child processes share: commands, how they are run, and what still runs.

use std::process::Command;
use std::time::{Duration, Instant};

use agent::process::{Ended, Finished, Keep, Spec, spawn};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) const KEEP: Keep = Keep { head: 64 * 1024, tail: 64 * 1024 };

/// How long anything may take that is certain to happen, so that a test which waits in vain says for what.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn shell(command: &str) -> Spec {
    Spec {
        program: "bash".into(),
        arg0: None,
        args: vec!["-c".into(), command.into()],
        cwd: std::env::temp_dir(),
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        timeout: PATIENCE,
        cancel: CancellationToken::new(),
        keep: KEEP,
        output: None,
        descriptors: Vec::new(),
        confines: false,
        restriction: None,
    }
}

pub(crate) async fn run(spec: Spec) -> Finished {
    spawn(spec).unwrap().wait().await.unwrap()
}

pub(crate) async fn stdout_of(command: &str) -> String {
    let finished = run(shell(command)).await;
    assert_eq!(finished.stdout.omitted, 0);
    String::from_utf8([finished.stdout.head, finished.stdout.tail].concat()).unwrap()
}

/// What came of `attempt` when it was as it `must` be able to be. A busy machine can be too slow for it,
/// since deadlines and grace periods are wall time: so it is tried again, each time with double the time.
pub(crate) async fn in_time(
    mut attempt: impl AsyncFnMut(Duration) -> Finished,
    must: impl Fn(&Finished) -> bool,
) -> Finished {
    let mut time = Duration::from_millis(200);
    loop {
        let finished = attempt(time).await;
        if must(&finished) {
            return finished;
        }
        time *= 2;
        assert!(time < PATIENCE, "{finished:?}");
    }
}

/// A `sleep` of an hour and a bit that no other test has, nor another run of the same one. All are of one
/// length, so that none is the beginning of another.
pub(crate) fn unique_sleep() -> String {
    format!("sleep 3600.{:020}", uuid::Uuid::new_v4().as_u64_pair().0)
}

/// The processes whose command line holds `needle`, one line each: id, state and command line. One in the
/// middle of an exec has no command line.
pub(crate) fn running(needle: &str) -> Vec<String> {
    let listed = Command::new("ps").args(["-A", "-o", "pid=,stat=,args="]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout);
    listed.lines().filter(|line| line.contains(needle)).map(str::to_owned).collect()
}

#[track_caller]
pub(crate) fn assert_nothing_runs(needle: &str) {
    assert_eq!(running(needle), Vec::<String>::new());
}

/// Waits until as many processes as `count` hold `needle` in their command line.
#[track_caller]
pub(crate) fn wait_for_running(needle: &str, count: usize) -> Vec<String> {
    let began = Instant::now();
    loop {
        let running = running(needle);
        if running.len() == count {
            return running;
        }
        assert!(began.elapsed() < PATIENCE, "{count} were to run: {running:?}");
        std::thread::yield_now();
    }
}

/// Runs `spec` until its output holds `word`, then gives its token to `act` and waits for the end.
pub(crate) async fn once_it_says(
    mut spec: Spec,
    word: &str,
    act: impl FnOnce(CancellationToken),
) -> Finished {
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

pub(crate) async fn cancelled_once_it_says(command: &str, word: &str) -> Finished {
    let finished = once_it_says(shell(command), word, |cancel| cancel.cancel()).await;
    assert_eq!(finished.ended, Ended::Cancelled);
    assert_eq!(finished.unended, 0);
    finished
}
