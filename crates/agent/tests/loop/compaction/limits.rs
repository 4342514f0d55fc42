//! How far a dialogue shrinks, what that costs, and when it is given up.

use agent::TurnOutcome;
use agent::agent::compaction::CompactError;
use agent::event::{Accounting, AgentEvent};
use llm::models::Price;
use llm::testing::{Answer, script};
use llm::{ChatRequest, FinishReason, LlmError, Usage};
use tokio_util::sync::CancellationToken;

use super::{fill, look, overflow, setup, text};
use crate::setup::{Bench, Setup, finished};

fn price() -> Option<Price> {
    let (input, output) = (2.0, 10.0);
    Some(Price { input, output, cache_read: None, cache_write: None, above: None, as_of: None })
}

fn counted(input: u64, output: u64) -> Usage {
    Usage { input: Some(input), output: Some(output), ..Usage::default() }
}

fn bytes(request: &ChatRequest) -> usize {
    request.messages.iter().map(|message| message.text().len()).sum()
}

#[tokio::test]
async fn after_an_overflow_less_than_half_is_sent_whatever_the_window_is_said_to_be() {
    let giant = "so much ".repeat(8_000);
    for window in [None, Some(1_000_000)] {
        for summary in [text(&"s".repeat(200_000)), text(" ")] {
            let script = match summary {
                Answer::Events(events) if events == script::text(" ") => {
                    vec![overflow(), text(" "), text(" "), text(" "), text("done")]
                }
                summary => vec![overflow(), summary, text("done")],
            };
            let mut setup = Setup::playing(script);
            setup.window = window;
            let mut bench = setup.build();
            assert_eq!(bench.run(&giant).await.unwrap(), TurnOutcome::Done);
            let requests = bench.provider.requests();
            let [refused, .., last] = &requests[..] else { panic!("{requests:?}") };
            assert!(2 * bytes(last) <= bytes(refused), "{} {}", bytes(last), bytes(refused));
        }
    }
}

#[tokio::test]
async fn a_dialogue_that_cannot_be_shorter_is_not_sent_again() {
    let mut bench = Setup::playing(vec![overflow(), text("never")]).build();
    let error = bench.run("hi").await.unwrap_err();
    assert_eq!(error.info().kind, "context_overflow");
    assert_eq!((bench.provider.asked(), bench.agent.transcript().len()), (1, 1));
}

#[tokio::test]
async fn an_answer_that_only_says_the_window_is_full_is_paid_for() {
    let full = script::cut_text("", FinishReason::ContextWindow);
    let answer = |events, input| Answer::Events(script::with_usage(events, counted(input, 100)));
    let script = vec![
        answer(full, 1_000),
        answer(script::cut_text("", FinishReason::ContextWindow), 2_000),
        answer(script::text("SUMMARY"), 3_000),
        answer(script::text("done"), 4_000),
    ];
    let mut bench = Setup::playing(script).priced(price()).build();
    bench.run(&"so much ".repeat(500)).await.unwrap();
    let cost = bench.agent.state().cost_usd().unwrap();
    let events = bench.reported().await;
    let summary = finished(&events)[0];
    assert_eq!(
        (summary.usage.counts.input, summary.usage.counts.output),
        (Some(10_000), Some(400))
    );
    assert_eq!(summary.usage.accounting, Accounting::Reported);
    for told in [cost, summary.cost_usd.unwrap()] {
        assert!((told - 0.024).abs() < 1e-9, "{told}");
    }
}

/// Cancels `work` once the provider was asked so often.
async fn cancelled_at<T>(
    asked: usize,
    bench: &mut Bench,
    work: impl AsyncFnOnce(&mut Bench, CancellationToken) -> T,
) -> T {
    let cancel = CancellationToken::new();
    let (provider, stop) = (std::sync::Arc::clone(&bench.provider), cancel.clone());
    let watch = async move {
        while provider.asked() < asked {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    tokio::join!(work(bench, cancel), watch).0
}

/// An answer that told what it took so far and says nothing more.
fn stalled() -> Answer {
    Answer::Stall(vec![llm::StreamEvent::Usage(counted(1_000, 1))])
}

#[tokio::test]
async fn a_summary_that_was_cancelled_is_counted_as_far_as_it_was_told() {
    let mut bench = setup(vec![look("a"), text("ok"), stalled()]).priced(price()).build();
    fill(&mut bench).await;
    let before = bench.agent.transcript().to_vec();
    let stopped =
        cancelled_at(3, &mut bench, async |bench, cancel| bench.agent.compact(None, cancel).await);
    assert_eq!(stopped.await, Err(CompactError::Cancelled));
    assert_eq!(bench.agent.transcript(), before);
    assert!((bench.agent.state().cost_usd().unwrap() - 0.00201).abs() < 1e-9);

    let script = vec![look("a"), text("ok"), overflow(), stalled()];
    let mut bench = setup(script).priced(price()).build();
    fill(&mut bench).await;
    let outcome =
        cancelled_at(4, &mut bench, async |bench, cancel| bench.run_with("more", cancel).await);
    assert_eq!(outcome.await.unwrap(), TurnOutcome::Cancelled);
    let events = bench.reported().await;
    let summary = finished(&events)[1];
    assert_eq!(summary.usage.counts.input, Some(1_000));
    assert_eq!(summary.usage.accounting, Accounting::Unknown);
}

#[tokio::test]
async fn three_summaries_in_vain_leave_a_digest_and_then_the_turn_says_so() {
    // The server counts 1,900 tokens whatever is left out, as one does that puts much before each request.
    let answer = || Answer::Events(script::with_usage(script::text("ok"), counted(1_890, 10)));
    let script = vec![
        answer(),
        text("SUMMARY 1"),
        answer(),
        text("SUMMARY 2"),
        answer(),
        text("SUMMARY 3"),
        answer(),
        answer(),
        answer(),
    ];
    let mut bench = Setup::playing(script).window(2_000).build();
    let prompt = "so much ".repeat(250);
    for _ in 0..5 {
        assert_eq!(bench.run(&prompt).await.unwrap(), TurnOutcome::Done);
    }
    let before = bench.agent.transcript().len();
    let error = bench.run(&prompt).await.unwrap_err();
    assert_eq!(error.info().kind, "context_overflow");
    assert!(error.to_string().contains("window of 2000 tokens"), "{error}");
    assert_eq!((bench.provider.asked(), bench.agent.transcript().len()), (8, before + 1));
    let events = bench.reported().await;
    let kinds: Vec<bool> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Compacted { is_summary, .. } => Some(*is_summary),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [true, true, true, false]);
}

#[tokio::test]
async fn compacting_by_hand_changes_nothing_where_it_gains_nothing_and_says_so() {
    let long = || text(&"s".repeat(20_000));
    let mut bench = setup(vec![look("a"), text("ok"), long(), long(), long()]).build();
    fill(&mut bench).await;
    let (before, revision) = (bench.agent.transcript().to_vec(), bench.agent.state().revision());
    for _ in 0..3 {
        let error = bench.agent.compact(None, CancellationToken::new()).await.unwrap_err();
        assert!(matches!(error, CompactError::NoGain { .. }), "{error}");
        assert!(error.to_string().contains("gains nothing"), "{error}");
        let now = (bench.agent.transcript(), bench.agent.state().revision());
        assert_eq!(now, (&before[..], revision));
    }
}

#[tokio::test]
async fn what_still_fits_is_not_given_up_while_no_server_answers() {
    let busy = || {
        Answer::Refuse(LlmError::Api {
            kind: "overloaded_error".into(),
            message: "overloaded".into(),
            status: None,
        })
    };
    let script = vec![text("ok"), busy(), text("done"), text("SUMMARY"), text("again")];
    let mut bench = Setup::playing(script).window(40_000).build();
    let long = "so much ".repeat(9_000);
    assert_eq!(bench.run(&long).await.unwrap(), TurnOutcome::Done);
    assert_eq!(bench.run(&"and more ".repeat(6_000)).await.unwrap(), TurnOutcome::Done);
    assert_eq!(bench.agent.transcript()[0].text(), long);
    assert_eq!(bench.run("go on").await.unwrap(), TurnOutcome::Done);
    assert!(bench.agent.transcript()[0].text().contains("SUMMARY"));
}
