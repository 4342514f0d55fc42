//! Conversations that become longer than the model takes.

mod kept;
mod limits;

use agent::agent::compaction::CompactError;
use agent::{AgentEvent, TurnOutcome};
use llm::testing::{Answer, script};
use llm::{ContentBlock, FinishReason, LlmError, Tail, validate_transcript};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::setup::{Act, Bench, Setup, reads};

const LONG: &str = include_str!("compaction.rs");

fn look(id: &str) -> Answer {
    Answer::Events(script::tool_call(id, "look", json!({"path": id})))
}

fn text(text: &str) -> Answer {
    Answer::Events(script::text(text))
}

fn overflow() -> Answer {
    Answer::Refuse(LlmError::Api {
        kind: "invalid_request_error".into(),
        message: "prompt is too long: 9000 tokens > 2000 maximum".into(),
        status: None,
    })
}

fn setup(script: Vec<Answer>) -> Setup {
    // A sixth of this page is some hundred tokens, so that a few looks fill a window of 2,000.
    let part = &LONG[..1_600];
    Setup::playing(script).tool(reads("look", Act::Say(part)))
}

fn said(bench: &Bench) -> Vec<String> {
    bench.agent.transcript().iter().map(|message| message.text()).collect()
}

async fn fill(bench: &mut Bench) {
    assert_eq!(bench.run("keep to tabs").await.expect("the turn ends"), TurnOutcome::Done);
}

#[tokio::test]
async fn a_long_tool_session_is_summarised_without_tools_and_goes_on_with_the_summary() {
    let script = vec![look("a"), look("b"), look("c"), text("THE SUMMARY"), text("done")];
    let mut bench = setup(script).window(2_000).build();
    assert_eq!(bench.run("keep to tabs").await.unwrap(), TurnOutcome::Done);
    let requests = bench.provider.requests();
    let asked = requests.iter().find(|request| request.tools.is_empty()).unwrap();
    assert_eq!(requests.iter().filter(|request| request.tools.is_empty()).count(), 1);
    validate_transcript(&asked.messages, Tail::Settled).unwrap();
    let last = requests.last().unwrap();
    assert!(!last.tools.is_empty());
    validate_transcript(&last.messages, Tail::Settled).unwrap();
    let told = last.messages[0].text();
    assert!(told.contains("THE SUMMARY") && told.contains("keep to tabs"), "{told}");
    let events = bench.reported().await;
    let compacted = events.iter().filter_map(|event| match event {
        AgentEvent::Compacted { before_tokens, after_tokens, is_summary } => {
            Some((*before_tokens, *after_tokens, *is_summary))
        }
        _ => None,
    });
    let [(before, after, true)] = compacted.collect::<Vec<_>>()[..] else { panic!("{events:?}") };
    assert!(before > 1_500 && after < before, "{before} {after}");
}

#[tokio::test]
async fn an_overflow_error_is_answered_with_one_compaction_and_the_step_again() {
    let script = vec![look("a"), text("ok"), overflow(), text("SUMMARY"), text("done")];
    let mut bench = setup(script).build();
    fill(&mut bench).await;
    assert_eq!(bench.run("more").await.unwrap(), TurnOutcome::Done);
    assert!(said(&bench)[0].contains("SUMMARY"));
    let script = vec![look("a"), text("ok"), overflow(), text("SUMMARY"), overflow()];
    let mut bench = setup(script).build();
    fill(&mut bench).await;
    let error = bench.run("more").await.unwrap_err();
    assert_eq!(error.info().kind, "context_overflow");
    assert_eq!(bench.provider.asked(), 5);
}

#[tokio::test]
async fn where_no_model_gives_a_summary_the_automatic_one_makes_a_digest() {
    for failure in [
        Answer::Events(script::tool_call("x", "look", json!({}))),
        Answer::Events(script::text(" ")),
        Answer::Events(script::cut_text("half", FinishReason::MaxTokens)),
    ] {
        let again = || match &failure {
            Answer::Events(events) => Answer::Events(events.clone()),
            _ => unreachable!(),
        };
        let script =
            vec![look("a"), text("ok"), overflow(), again(), again(), again(), text("done")];
        let mut bench = setup(script).build();
        fill(&mut bench).await;
        assert_eq!(bench.run("more").await.unwrap(), TurnOutcome::Done);
        let told = said(&bench).remove(0);
        assert!(told.contains("keep to tabs") && told.contains("more"), "{told}");
        // What failed never entered the context.
        assert!(!told.contains("half") && bench.agent.transcript().len() == 2, "{told}");
        let events = bench.reported().await;
        let is_digest =
            |event: &AgentEvent| matches!(event, AgentEvent::Compacted { is_summary: false, .. });
        assert!(events.iter().any(is_digest));
    }
}

#[tokio::test]
async fn compacting_by_hand_looks_at_the_focus_and_leaves_the_context_alone_when_it_fails() {
    let mut bench = setup(vec![look("a"), text("ok"), text("BY HAND")]).build();
    let none = CancellationToken::new;
    assert_eq!(bench.agent.compact(None, none()).await, Err(CompactError::Nothing));
    fill(&mut bench).await;
    let compacted = bench.agent.compact(Some("the failing test"), none()).await.unwrap();
    assert!(compacted.after_tokens < compacted.before_tokens);
    let asked = bench.provider.requests().pop().unwrap();
    let instruction = asked.messages.last().unwrap().text();
    assert!(instruction.contains("the failing test") && asked.tools.is_empty(), "{instruction}");
    assert!(said(&bench)[0].contains("BY HAND"));

    let mut bench = setup(vec![look("a"), text("ok"), overflow(), overflow(), overflow()]).build();
    fill(&mut bench).await;
    let (before, state) = (bench.agent.transcript().to_vec(), bench.agent.state().revision());
    let error = bench.agent.compact(None, none()).await.unwrap_err();
    assert!(error.to_string().contains("/compact"), "{error}");
    assert_eq!(bench.provider.asked(), 5);
    assert_eq!((bench.agent.transcript(), bench.agent.state().revision()), (&before[..], state));
}

#[tokio::test]
async fn a_cancelled_compaction_leaves_the_context_alone() {
    let mut bench = setup(vec![look("a"), text("ok"), Answer::Stall(Vec::new())]).build();
    fill(&mut bench).await;
    let before = bench.agent.transcript().to_vec();
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(bench.agent.compact(None, cancel).await, Err(CompactError::Cancelled));
    assert_eq!(bench.agent.transcript(), before);
}

#[tokio::test]
async fn a_window_that_instructions_fill_is_told_and_not_compacted_for_ever() {
    let answers = (0..40).map(|_| text("ok")).collect();
    let mut bench = setup(answers).window(260).build();
    let mut error = None;
    for _ in 0..40 {
        error = bench.run("and what about this one then?").await.err();
        if error.is_some() {
            break;
        }
    }
    let error = error.unwrap().to_string();
    assert!(error.contains("window") && error.contains("260"), "{error}");
    let events = bench.reported().await;
    assert!(!events.iter().any(|event| matches!(event, AgentEvent::Compacted { .. })));
}

#[tokio::test]
async fn old_results_are_cleared_before_anything_is_summarised() {
    // Each look is 10,000 tokens; six of them are beyond six tenths of 100,000, and three stay.
    let long: &'static str = Box::leak("y".repeat(40_000).into_boxed_str());
    let looks = ["a", "b", "c", "d", "e", "f"].map(look);
    let script = looks.into_iter().chain([text("done")]).collect();
    let mut bench =
        Setup::playing(script).tool(reads("look", Act::Say(long))).window(100_000).build();
    assert_eq!(bench.run("go").await.unwrap(), TurnOutcome::Done);
    let is_cleared = |block: &&ContentBlock| matches!(block, ContentBlock::ToolResult { content, .. } if content.starts_with("[cleared: look"));
    let blocks = || bench.agent.transcript().iter().flat_map(|message| message.content());
    assert_eq!(blocks().filter(is_cleared).count(), 3);
    let events = bench.reported().await;
    assert!(events.iter().any(|event| matches!(event, AgentEvent::ContextCleared { .. })));
    assert!(!events.iter().any(|event| matches!(event, AgentEvent::Compacted { .. })));
}
