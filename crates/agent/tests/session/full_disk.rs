//! What a full disk leaves of a session, and of the turn that runs meanwhile.
//!
//! A limit on the size of files stands for the full disk: it needs no mount, and the write fails at the
//! same place, in the middle. It holds for a whole process, so each test runs in one of its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::session::Opening;
use agent::session::journal::load;
use agent::session::record::Meta;
use agent::session::store::Store;
use agent::{
    Agent, AgentError, AgentEvent, AgentParts, Effects, OnCancel, PathSet, Tool, ToolContext,
    ToolError, ToolOutput, TurnOutcome,
};
use async_trait::async_trait;
use llm::ContentBlock;
use llm::testing::{ScriptedProvider, script};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::support::{parts, registry};
use super::{create, meta, says, user};

/// Tells the process that runs into the limit where to do so.
const FOLDER: &str = "ANVIL_TEST_FULL_DISK";

/// Runs `inside` in a process that a full disk does not kill.
fn with_a_disk_that_fills_up(test: &str, inside: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return inside(Path::new(&folder));
    }
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("full_disk::{test}"), "--nocapture"])
        .env(FOLDER, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Lets files grow up to this many bytes.
fn limit(bytes: Option<u64>) {
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

#[test]
fn a_half_written_record_is_taken_back_and_written_once_there_is_space() {
    with_a_disk_that_fills_up(
        "a_half_written_record_is_taken_back_and_written_once_there_is_space",
        |folder| {
            let (mut journal, mut state) = create(folder);
            let mut commit = |record| {
                state.apply(&record).unwrap();
                journal.append(&record).map_err(|error| error.to_string())
            };
            commit(user("hello")).unwrap();
            let path = folder.join("s.jsonl");
            let before = fs::read(&path).unwrap();
            limit(Some(before.len() as u64 + 100));
            for record in [says(&"long ".repeat(100)), user("short")] {
                let error = commit(record).unwrap_err();
                assert!(error.contains("s.jsonl") && error.contains("File too large"), "{error}");
                assert_eq!(fs::read(&path).unwrap(), before);
            }
            limit(None);
            commit(says("done")).unwrap();
            let loaded = load(&path).unwrap();
            assert_eq!((loaded.records, loaded.torn.is_none()), (5, true));
            assert!(loaded.state == state);
        },
    );
}

#[test]
fn what_could_not_be_begun_and_half_a_copy_leave_no_file() {
    with_a_disk_that_fills_up("what_could_not_be_begun_and_half_a_copy_leave_no_file", |folder| {
        let store = Store::new(folder);
        let (mut journal, _) = store.create(meta(), Arc::default()).unwrap();
        journal.append(&user(&"long ".repeat(100))).unwrap();
        let files = || fs::read_dir(journal.path().parent().unwrap()).unwrap().count();
        limit(Some(8));
        let new = Meta { id: "new".into(), ..meta() };
        store.create(new, Arc::default()).unwrap_err();
        assert_eq!(files(), 1);
        // The first record of the copy fits, and what was said does not.
        limit(Some(300));
        store.fork(journal.path(), "copy", "/w".as_ref(), Arc::default()).unwrap_err();
        assert_eq!(files(), 1);
        limit(None);
        store.fork(journal.path(), "copy", "/w".as_ref(), Arc::default()).unwrap();
        assert_eq!(files(), 2);
    });
}

/// Counts how often it ran, and says that it changes files.
pub(super) struct Writes(pub(super) Arc<AtomicUsize>);

#[async_trait]
impl Tool for Writes {
    fn name(&self) -> &str {
        "touch"
    }
    fn description(&self) -> &str {
        "changes a file"
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn effects(&self, _args: &Value) -> Effects {
        Effects::writes(PathSet::Workspace)
    }
    fn on_cancel(&self) -> OnCancel {
        OnCancel::MayBePartial
    }
    async fn call(&self, _args: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutput::from("touched".to_owned()))
    }
}

#[test]
fn nothing_runs_that_could_not_be_noted_first_and_the_session_goes_on_once_there_is_space() {
    with_a_disk_that_fills_up(
        "nothing_runs_that_could_not_be_noted_first_and_the_session_goes_on_once_there_is_space",
        |folder| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(turns_on_a_full_disk(folder));
        },
    );
}

async fn turns_on_a_full_disk(folder: &Path) {
    let ran = Arc::new(AtomicUsize::new(0));
    let call = |id| script::tool_call(id, "touch", json!({}));
    let answers = vec![call("c1"), call("c2"), script::text("done")];
    let (parts, mut receiver) = parts(Arc::new(ScriptedProvider::new(answers)));
    let (journal, state) = create(folder);
    let path = journal.path().to_owned();
    let mut agent = Agent::new(AgentParts {
        tools: registry([Arc::new(Writes(Arc::clone(&ran))) as _]),
        opening: Opening { state, journal: Some(journal), trouble: None },
        ..parts
    });
    let before = fs::read(&path).unwrap();
    limit(Some(before.len() as u64 + 100));
    let failed = agent.run_turn(say(&"long ".repeat(100)), CancellationToken::new()).await;
    let Err(error @ AgentError::Commit(_)) = failed else { panic!("{failed:?}") };
    assert!(error.info().message.contains("--no-session-persistence"), "{:?}", error.info());
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(fs::read(&path).unwrap(), before);
    // What was said is still there, and the call has an answer.
    llm::validate_transcript(agent.transcript(), llm::Tail::Settled).unwrap();
    limit(None);
    let done = agent.run_turn(say("again"), CancellationToken::new()).await.unwrap();
    assert_eq!((done, ran.load(Ordering::SeqCst)), (TurnOutcome::Done, 1));
    assert!(load(&path).unwrap().state == *agent.state());
    drop(agent);
    let mut told = 0;
    while let Some(event) = receiver.recv().await {
        told += usize::from(matches!(event, AgentEvent::SessionTrouble { .. }));
    }
    assert_eq!(told, 1);
}

fn say(text: &str) -> Vec<ContentBlock> {
    vec![ContentBlock::text(text)]
}
