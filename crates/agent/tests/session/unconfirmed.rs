//! What a disk that takes records and does not confirm them leaves of a turn.
//!
//! The kernel is told to fail the call that confirms, for the thread of a test and those it starts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::channel::EventReceiver;
use agent::session::Opening;
use agent::session::journal::load;
use agent::{Agent, AgentError, AgentEvent, AgentParts, TurnOutcome};
use llm::testing::{ScriptedProvider, script};
use llm::{ContentBlock, StreamEvent};
use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::create;
use super::full_disk::Writes;
use super::support::{parts, registry};

/// From here on nothing this thread writes is confirmed.
fn confirm_nothing() {
    let filter = SeccompFilter::new(
        [(libc::SYS_fdatasync, Vec::new())].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EIO.cast_unsigned()),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

struct Bench {
    agent: Agent,
    events: EventReceiver,
    ran: Arc<AtomicUsize>,
}

impl Bench {
    fn new(folder: &Path, answers: Vec<Vec<StreamEvent>>) -> Self {
        let ran = Arc::new(AtomicUsize::new(0));
        let (parts, events) = parts(Arc::new(ScriptedProvider::new(answers)));
        let (journal, state) = create(folder);
        let agent = Agent::new(AgentParts {
            tools: registry([Arc::new(Writes(Arc::clone(&ran))) as _]),
            opening: Opening { state, journal: Some(journal), trouble: None },
            ..parts
        });
        Self { agent, events, ran }
    }

    async fn say(&mut self, prompt: &str) -> Result<TurnOutcome, AgentError> {
        let input = vec![ContentBlock::text(prompt)];
        self.agent.run_turn(input, CancellationToken::new()).await
    }

    /// What a person was told about the session.
    async fn troubles(mut self) -> Vec<String> {
        drop(self.agent);
        let mut told = Vec::new();
        while let Some(event) = self.events.recv().await {
            if let AgentEvent::SessionTrouble { message } = event {
                told.push(message);
            }
        }
        told
    }
}

#[tokio::test]
async fn a_turn_keeps_its_answer_and_what_is_wrong_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path(), vec![script::text("one"), script::text("two")]);
    confirm_nothing();
    for prompt in ["first", "second"] {
        assert_eq!(bench.say(prompt).await.unwrap(), TurnOutcome::Done);
    }
    assert_eq!(bench.agent.transcript().len(), 4);
    // It is all in the file, which only a loss of power could take back.
    assert!(load(&dir.path().join("s.jsonl")).unwrap().state == *bench.agent.state());
    let told = bench.troubles().await;
    let [message] = &told[..] else { panic!("{told:?}") };
    assert!(message.contains("s.jsonl") && message.contains("Input/output error"), "{message}");
}

#[tokio::test]
async fn nothing_runs_whose_beginning_was_not_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let call = script::tool_call("c1", "touch", json!({}));
    let mut bench = Bench::new(dir.path(), vec![call, script::text("done")]);
    confirm_nothing();
    let failed = bench.say("go").await;
    let Err(error @ AgentError::Commit(_)) = failed else { panic!("{failed:?}") };
    assert!(error.info().message.contains("Input/output error"), "{:?}", error.info());
    assert_eq!(bench.ran.load(Ordering::SeqCst), 0);
    llm::validate_transcript(bench.agent.transcript(), llm::Tail::Settled).unwrap();
}
