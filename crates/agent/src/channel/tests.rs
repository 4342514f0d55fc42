//! What arrives at a watcher, in which order, and what never waits.

use super::*;
use crate::event::{ErrorInfo, TurnOutcome};

fn text(text: &str) -> AgentEvent {
    AgentEvent::TextDelta { text: text.into() }
}

fn failed(step: u32) -> AgentEvent {
    AgentEvent::StepFailed { step, error: ErrorInfo { kind: "x".into(), message: "y".into() } }
}

#[tokio::test]
async fn adjacent_deltas_arrive_as_one_event() {
    let (sender, mut receiver) = channel();
    sender.send(text("a")).await;
    sender.send(text("b")).await;
    sender.send(AgentEvent::StepStarted { step: 1 }).await;
    sender.send(text("c")).await;
    drop(sender);
    assert_eq!(receiver.recv().await, Some(text("ab")));
    assert_eq!(receiver.recv().await, Some(AgentEvent::StepStarted { step: 1 }));
    assert_eq!(receiver.recv().await, Some(text("c")));
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn output_of_two_calls_is_not_mixed() {
    let (sender, mut receiver) = channel();
    for (id, chunk) in [("1", "a"), ("2", "b"), ("2", "c")] {
        sender.live_output(id).chunk(chunk);
    }
    let output =
        |id: &str, chunk: &str| AgentEvent::ToolOutput { id: id.into(), chunk: chunk.into() };
    assert_eq!(receiver.recv().await, Some(output("1", "a")));
    assert_eq!(receiver.recv().await, Some(output("2", "bc")));
}

#[tokio::test]
async fn a_slow_watcher_bounds_what_waits() {
    let (sender, mut receiver) = channel();
    let chunk = "x".repeat(1000);
    let writer = tokio::spawn({
        let sender = sender.clone();
        let chunk = chunk.clone();
        async move {
            for step in 0..2000 {
                sender.send(text(&chunk)).await;
                sender.send(failed(step)).await;
            }
        }
    });
    drop(sender);
    let mut bytes = 0;
    let mut steps = 0;
    while let Some(event) = receiver.recv().await {
        let (waiting, bytes_waiting) = {
            let state = receiver.shared.lock();
            (state.queue.len(), state.bytes)
        };
        assert!(waiting <= MAX_EVENTS);
        assert!(bytes_waiting <= MAX_BYTES);
        match event {
            AgentEvent::TextDelta { text } => bytes += text.len(),
            AgentEvent::StepFailed { .. } => steps += 1,
            other => panic!("{other:?}"),
        }
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
    assert_eq!((bytes, steps), (2_000_000, 2000));
}

#[tokio::test]
async fn live_output_is_dropped_before_anything_waits_for_it() {
    let (sender, mut receiver) = channel();
    let output = sender.live_output("1");
    for _ in 0..1000 {
        output.chunk(&"x".repeat(1000));
    }
    assert!(receiver.shared.lock().bytes <= MAX_BYTES / 2 + 1000);
    sender.send(failed(1)).await;
    drop((sender, output));
    let mut last = None;
    while let Some(event) = receiver.recv().await {
        last = Some(event);
    }
    assert_eq!(last, Some(failed(1)));
}

fn retrying(attempt: u32) -> Phase {
    let delay = std::time::Duration::from_secs(1);
    Phase::Retrying { attempt, of: 5, delay, reason: "overloaded".into() }
}

#[tokio::test]
async fn a_phase_gives_way_to_the_next_one_but_a_failed_attempt_stays() {
    let (sender, mut receiver) = channel();
    let phases = [
        Phase::Connecting,
        retrying(2),
        Phase::Connecting,
        Phase::Waiting,
        Phase::Streaming,
        retrying(3),
    ];
    for phase in phases {
        sender.send_phase(phase);
    }
    drop(sender);
    assert_eq!(receiver.recv().await, Some(AgentEvent::Phase(retrying(2))));
    assert_eq!(receiver.recv().await, Some(AgentEvent::Phase(retrying(3))));
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn a_full_queue_takes_no_phase_but_a_failed_attempt() {
    let (sender, mut receiver) = channel();
    for step in 0..MAX_EVENTS as u32 {
        sender.send(failed(step)).await;
    }
    sender.send_phase(Phase::Waiting);
    sender.send_phase(retrying(2));
    drop(sender);
    let mut last = Vec::new();
    while let Some(event) = receiver.recv().await {
        last.push(event);
    }
    assert_eq!(last.len(), MAX_EVENTS + 1);
    assert_eq!(last.pop(), Some(AgentEvent::Phase(retrying(2))));
}

#[tokio::test]
async fn the_end_of_a_turn_is_queued_even_when_the_queue_is_full() {
    let (sender, mut receiver) = channel();
    for step in 0..MAX_EVENTS as u32 {
        sender.send(failed(step)).await;
    }
    let end = crate::event::tests::summary(TurnOutcome::Cancelled);
    sender.send_now(AgentEvent::TurnFinished(end.clone()));
    drop(sender);
    let mut last = None;
    while let Some(event) = receiver.recv().await {
        last = Some(event);
    }
    assert_eq!(last, Some(AgentEvent::TurnFinished(end)));
}

#[tokio::test]
async fn a_watcher_that_leaves_stops_nobody() {
    let (sender, receiver) = channel();
    for step in 0..MAX_EVENTS as u32 {
        sender.send(failed(step)).await;
    }
    let waiting = [sender.clone(), sender.clone()]
        .map(|sender| tokio::spawn(async move { sender.send(failed(0)).await }));
    tokio::task::yield_now().await;
    drop(receiver);
    for task in waiting {
        task.await.unwrap();
    }
    sender.send(failed(0)).await;
}

#[tokio::test]
async fn a_watcher_sees_no_secret_and_gets_the_last_word() {
    let (sender, receiver) = channel();
    let redactor = Redactor::new([("MY_KEY", "sk-test-0123456789abcdef0123")]);
    let mut receiver = receiver.redacting(Arc::new(redactor));
    sender.send(text("sk-test-0123456789abcdef0123 and s")).await;
    drop(sender);
    assert_eq!(receiver.recv().await, Some(text("«redacted:MY_KEY» and ")));
    assert_eq!(receiver.recv().await, Some(text("s")));
    assert_eq!(receiver.recv().await, None);
}

#[tokio::test]
async fn a_call_that_was_given_up_does_not_keep_the_watcher_waiting() {
    let (sender, mut receiver) = channel();
    let abandoned = sender.live_output("1");
    drop(sender);
    assert_eq!(receiver.recv().await, None);
    abandoned.chunk("late");
}

#[tokio::test]
async fn the_arguments_of_calls_count_towards_the_bound() {
    let (sender, _receiver) = channel();
    let call = |id: &str| AgentEvent::ToolCallStarted {
        id: id.into(),
        name: "write_file".into(),
        args: serde_json::json!({"content": ["x".repeat(MAX_BYTES)]}),
    };
    sender.send(call("1")).await;
    let mut second = Some(call("2"));
    assert!(!sender.offer(&mut second));
}

#[tokio::test]
async fn an_event_larger_than_the_bound_still_passes_alone() {
    let (sender, mut receiver) = channel();
    let huge = text(&"y".repeat(2 * MAX_BYTES));
    sender.send(huge.clone()).await;
    assert_eq!(receiver.recv().await, Some(huge));
}
