//! Notices in the loop: where they enter, once, and what becomes of those that did not.

use std::sync::Arc;

use agent::context::budget::tokens_of;
use agent::event::{AgentEvent, TurnOutcome};
use agent::session::Opening;
use agent::session::record::{Meta, Record};
use agent::session::reduce::State;
use agent::steering::{Notice, Queue, Source, Steering};
use agent::turn::MAX_CONTINUATIONS;
use llm::testing::script;
use llm::{ContentBlock, Role};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::setup::{Act, Setup, add, results, writes};

/// Says the same notice whenever it is asked.
struct Always(Notice);

impl Steering for Always {
    fn pending(&self) -> Vec<Notice> {
        vec![self.0.clone()]
    }
}

/// Says something new whenever it is asked.
#[derive(Default)]
struct Endless(std::sync::atomic::AtomicU32);

impl Steering for Endless {
    fn pending(&self) -> Vec<Notice> {
        let id = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst).to_string();
        vec![Notice { id, source: Source::Job, text: "news".into() }]
    }
}

fn queue(lines: &[&str]) -> Arc<Queue> {
    let queue = Queue::default();
    assert!(lines.iter().all(|line| queue.push(*line)));
    Arc::new(queue)
}

fn notice() -> Notice {
    Notice { id: "n1".into(), source: Source::User, text: "the other one".into() }
}

#[tokio::test]
async fn lines_typed_while_a_call_runs_stand_behind_its_result() {
    let queue = queue(&["first", "second"]);
    let setup = Setup::new(vec![add("a"), script::text("4")]);
    let mut bench = Setup { steering: queue, ..setup }.build();
    assert_eq!(bench.run("2+2").await.unwrap(), TurnOutcome::Done);
    let requests = bench.provider.requests();
    assert_eq!(requests.len(), 2);
    let last = requests[1].messages.last().unwrap();
    assert_eq!(results(last), [("a", "4", false)]);
    assert_eq!(last.content()[1..], [ContentBlock::text("first"), ContentBlock::text("second")]);
    let told = bench.reported().await.into_iter().find_map(|event| match event {
        AgentEvent::NoticesDelivered { notices } => Some(notices),
        _ => None,
    });
    let told: Vec<String> = told.unwrap().into_iter().map(|notice| notice.text).collect();
    assert_eq!(told, ["first", "second"]);
}

#[tokio::test]
async fn a_line_typed_during_the_last_answer_goes_on_with_the_turn() {
    let setup = Setup::new(vec![script::text("done"), script::text("done again")]);
    let mut bench = Setup { steering: queue(&["and this"]), ..setup }.build();
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::Done);
    let requests = bench.provider.requests();
    let last = requests[1].messages.last().unwrap();
    assert_eq!((last.role(), last.text().as_str()), (Role::User, "and this"));
    assert_eq!(bench.agent.transcript().len(), 4);
}

#[tokio::test]
async fn news_without_end_do_not_keep_a_turn_from_ending() {
    let script = (0..=MAX_CONTINUATIONS).map(|_| script::text("done")).collect();
    let mut bench = Setup { steering: Arc::new(Endless::default()), ..Setup::new(script) }.build();
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::Done);
    assert_eq!(bench.provider.asked(), MAX_CONTINUATIONS as usize + 1);
}

#[tokio::test]
async fn a_notice_is_delivered_once_and_not_again_after_a_restart() {
    let steering = Arc::new(Always(notice()));
    let setup = Setup::new(vec![add("a"), script::text("4")]);
    let mut bench = Setup { steering: steering.clone(), ..setup }.build();
    bench.run("2+2").await.unwrap();
    assert!(bench.agent.state().was_delivered("n1"));
    let said: Vec<String> = bench.agent.transcript().iter().map(|one| one.text()).collect();
    assert_eq!(said.iter().filter(|text| text.contains("the other one")).count(), 1);

    let mut state = State::default();
    state.apply(&Record::SessionStarted(Meta::default())).unwrap();
    for (at, message) in bench.agent.transcript().iter().take(1).enumerate() {
        let notices = if at == 0 { vec!["n1".to_owned()] } else { Vec::new() };
        state.apply(&Record::MessageAppended { message: Arc::clone(message), notices }).unwrap();
    }
    let opening = Opening { state, journal: None, trouble: None };
    let mut again = Setup { steering, opening, ..Setup::new(vec![script::text("done")]) }.build();
    assert_eq!(again.run("go on").await.unwrap(), TurnOutcome::Done);
    assert_eq!(again.provider.asked(), 1);
}

/// Says that a line waits, and has none when it is claimed: it was taken back in between.
struct TakenBack;

impl Steering for TakenBack {
    fn pending(&self) -> Vec<Notice> {
        vec![notice()]
    }

    fn claim(&self) -> Vec<Notice> {
        Vec::new()
    }
}

#[tokio::test]
async fn a_line_that_is_taken_back_before_it_is_claimed_changes_nothing() {
    for steps in [vec![script::text("done")], vec![add("a"), script::text("done")]] {
        let count = steps.len();
        let mut bench = Setup { steering: Arc::new(TakenBack), ..Setup::new(steps) }.build();
        assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::Done);
        assert_eq!(bench.provider.asked(), count);
        assert!(!bench.agent.transcript().iter().any(|one| one.text().contains("the other one")));
    }
}

#[tokio::test]
async fn a_line_that_no_request_would_carry_stays_in_the_queue() {
    let queue = queue(&["too late"]);
    let setup = Setup { max_steps: 1, ..Setup::new(vec![add("a")]) };
    let mut bench = Setup { steering: Arc::clone(&queue) as _, ..setup }.build();
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::MaxSteps);
    assert!(!bench.agent.transcript().iter().any(|one| one.text().contains("too late")));
    assert_eq!(queue.take_back().as_deref(), Some("too late"), "nothing claimed it");
}

#[tokio::test]
async fn a_line_of_a_cancelled_turn_stays_in_the_queue() {
    let started = Arc::new(Notify::new());
    let call = script::tool_call("a", "slow", serde_json::json!({}));
    let queue = queue(&["later"]);
    let setup =
        Setup::new(vec![call]).tool(writes("slow", Act::WaitForCancel(Arc::clone(&started))));
    let mut bench = Setup { steering: Arc::clone(&queue) as _, ..setup }.build();
    let cancel = CancellationToken::new();
    let stop = async {
        started.notified().await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.run_with("x", cancel.clone()), stop);
    assert_eq!(outcome.unwrap(), TurnOutcome::Cancelled);
    let state = bench.agent.state();
    assert_eq!(queue.left_over(|id| state.was_delivered(id)), ["later"]);
    assert!(!bench.agent.transcript().iter().any(|one| one.text().contains("later")));
}

#[tokio::test]
async fn the_session_keeps_a_paste_compact_and_the_model_reads_all_of_it() {
    let mut bench = Setup::new(vec![script::text("seen")]).build();
    let prompt = format!("see {}", agent::paste::embed("one\ntwo"));
    bench.run(&prompt).await.unwrap();
    assert_eq!(bench.provider.requests()[0].messages[0].text(), "see one\ntwo");
    assert_eq!(bench.agent.transcript()[0].text(), prompt);
}

#[tokio::test]
async fn the_budget_of_the_context_counts_all_of_a_paste() {
    let mut bench = Setup::new(vec![script::text("seen")]).build();
    let payload = "a line of it\n".repeat(900);
    bench.run(&format!("see {}", agent::paste::embed(&payload))).await.unwrap();
    let kept = tokens_of(&bench.agent.transcript()[..1]);
    let sent = tokens_of(&bench.provider.requests()[0].messages);
    // The marks are two tokens more, which are never missed.
    assert!(kept >= sent && kept - sent <= 2, "{kept} of {sent}");
}
