//! The step loop over a scripted provider: what is asked, what runs, what is told, how it ends.

mod approvals;
mod cache;
mod compaction;
mod setup;
mod steering;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agent::channel::channel;
use agent::event::{Accounting, AgentEvent, TurnOutcome};
use agent::permissions::PermissionMode;
use agent::registry::ToolRegistry;
use agent::{
    AllowAll, DenyAll, Effects, ModelRef, OnCancel, Tool, ToolContext, ToolError, ToolOutput,
};
use async_trait::async_trait;
use llm::models::Price;
use llm::testing::{Answer, script};
use llm::{ContentBlock, FinishReason, LlmError, Phase, Retry, RetryPolicy, StreamEvent, Usage};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tokio_util::sync::CancellationToken;

use setup::{Act, Bench, Setup, add, finished, reads, results, writes};

#[tokio::test]
async fn a_call_is_run_and_its_result_goes_back_to_the_model() {
    let mut bench = Setup::new(vec![add("a"), script::text("4")]).build();
    assert_eq!(bench.run("2+2").await.unwrap(), TurnOutcome::Done);
    assert_eq!(bench.agent.transcript().len(), 4);
    let requests = bench.provider.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(results(requests[1].messages.last().unwrap()), [("a", "4", false)]);
    assert_eq!(requests[1].system.as_deref(), Some("be brief"));
    let events = bench.reported().await;
    let summary = finished(&events)[0];
    assert_eq!((summary.text.as_str(), summary.steps), ("4", 2));
}

#[tokio::test]
async fn every_request_of_a_session_carries_one_key_for_its_cached_beginning() {
    let script = vec![add("a"), script::text("4"), script::text("again")];
    let mut bench = Setup::new(script).build();
    bench.run("2+2").await.unwrap();
    let model = ModelRef { label: "test:n".into(), id: "n".into(), ..ModelRef::default() };
    bench.agent.switch_model(Arc::clone(&bench.provider) as _, model);
    bench.agent.clear();
    bench.run("again").await.unwrap();
    let requests = bench.provider.requests();
    let keys = requests.iter().map(|request| request.cache.as_ref().map(|hint| hint.key.as_str()));
    assert_eq!(keys.collect::<Vec<_>>(), [Some("s"); 3]);
    assert_eq!(requests[2].model, "n");
}

#[tokio::test]
async fn an_unknown_tool_is_told_to_the_model_and_the_loop_goes_on() {
    let call = script::tool_call("a", "nope", json!({}));
    let mut bench = Setup::new(vec![call, script::text("sorry")]).build();
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::Done);
    let requests = bench.provider.requests();
    let results = results(requests[1].messages.last().unwrap());
    assert_eq!(results, [("a", "Unknown tool 'nope'. Available tools: calculator", true)]);
}

#[tokio::test]
async fn the_step_limit_ends_the_turn_after_exactly_that_many_requests() {
    let script = (0..30).map(|n| add(&format!("c{n}"))).collect();
    let mut bench = Setup { max_steps: 5, ..Setup::new(script) }.build();
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::MaxSteps);
    assert_eq!(bench.provider.asked(), 5);
}

#[tokio::test]
async fn cancelling_a_running_tool_ends_the_turn_with_a_legal_transcript() {
    let started = Arc::new(Notify::new());
    let call = script::tool_calls(&[("a", "slow", json!({})), ("b", "slow", json!({}))]);
    let slow = writes("slow", Act::WaitForCancel(Arc::clone(&started)));
    let calls = Arc::clone(&slow.calls);
    let mut bench = Setup::new(vec![call]).tool(slow).build();
    let cancel = CancellationToken::new();
    let stopper = tokio::spawn({
        let cancel = cancel.clone();
        async move {
            started.notified().await;
            cancel.cancel();
        }
    });
    let outcome = tokio::time::timeout(Duration::from_secs(1), bench.run_with("x", cancel)).await;
    assert_eq!(outcome.unwrap().unwrap(), TurnOutcome::Cancelled);
    stopper.await.unwrap();
    let last = bench.agent.transcript().last().unwrap();
    assert_eq!(
        results(last),
        [
            ("a", "stopped halfway", true),
            ("b", "Not run: the turn was cancelled before this call started.", true),
        ]
    );
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_prompt_after_a_cancelled_sample_leaves_no_two_user_messages_in_a_row() {
    let mut bench = Setup::playing(vec![
        Answer::Stall(vec![llm::StreamEvent::Text { block: 0, text: "half".into() }]),
        Answer::Events(script::text("done")),
    ])
    .build();
    let cancel = CancellationToken::new();
    let seen = async {
        while !matches!(bench.events.recv().await, Some(AgentEvent::TextDelta { .. })) {}
        cancel.cancel();
    };
    let turn = bench.agent.run_turn(vec![ContentBlock::text("one ")], cancel.clone());
    let (outcome, ()) = tokio::join!(turn, seen);
    assert_eq!(outcome.unwrap(), TurnOutcome::Cancelled);
    assert_eq!(bench.run("two").await.unwrap(), TurnOutcome::Done);
    let texts: Vec<String> =
        bench.agent.transcript().iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["one two", "done"]);
}

#[tokio::test]
async fn an_abnormal_finish_runs_no_tool() {
    for (reason, want) in [
        (FinishReason::MaxTokens, TurnOutcome::MaxTokens),
        (FinishReason::Refusal, TurnOutcome::Refused),
        (FinishReason::ContextWindow, TurnOutcome::MaxTokens),
        (FinishReason::PauseTurn, TurnOutcome::ProtocolStopped),
        (FinishReason::Other("odd".into()), TurnOutcome::ProtocolStopped),
        (FinishReason::EndTurn, TurnOutcome::Done),
    ] {
        let probe = writes("probe", Act::Say("ran"));
        let calls = Arc::clone(&probe.calls);
        let cut = || script::cut_calls(&[("a", "probe", json!({}))], reason.clone());
        // A full window is answered with a summary and the step again.
        let script = match reason {
            FinishReason::ContextWindow => vec![cut(), script::text("summary"), cut()],
            _ => vec![cut()],
        };
        let mut bench = Setup::new(script).tool(probe).build();
        assert_eq!(bench.run("x").await.unwrap(), want, "{reason:?}");
        assert_eq!(calls.load(Ordering::SeqCst), 0, "{reason:?}");
    }
}

#[tokio::test]
async fn every_turn_reports_one_outcome_and_reports_it_last() {
    let api_error =
        || LlmError::Api { kind: "overloaded_error".into(), message: "busy".into(), status: None };
    let cases: Vec<(Vec<Answer>, TurnOutcome)> = vec![
        (vec![Answer::Events(script::text("hi"))], TurnOutcome::Done),
        (vec![Answer::Refuse(api_error())], TurnOutcome::Failed),
        (vec![Answer::Break(Vec::new(), api_error())], TurnOutcome::Failed),
        (vec![Answer::Events(Vec::new())], TurnOutcome::Failed),
        (Vec::new(), TurnOutcome::Failed),
    ];
    for (script, want) in cases {
        let mut bench = Setup::playing(script).build();
        let result = bench.run("x").await;
        assert_eq!(result.is_err(), want == TurnOutcome::Failed);
        let events = bench.reported().await;
        let ends = finished(&events);
        assert_eq!(ends.len(), 1);
        assert_eq!(ends[0].outcome, want);
        assert_eq!(ends[0].error.is_some(), want == TurnOutcome::Failed);
        assert!(matches!(events.last(), Some(AgentEvent::TurnFinished(_))));
    }
}

#[tokio::test]
async fn an_empty_prompt_is_refused_without_asking_the_model() {
    let mut bench = Setup::new(vec![script::text("hi")]).build();
    let error = bench.agent.run_turn(Vec::new(), CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.info().kind, "usage");
    assert_eq!(bench.provider.asked(), 0);
    assert_eq!(finished(&bench.reported().await).len(), 1);
}

#[tokio::test]
async fn read_only_calls_of_one_batch_run_side_by_side_and_answer_in_order() {
    let barrier = Arc::new(Barrier::new(3));
    let calls = script::tool_calls(&[
        ("a", "meet", json!({})),
        ("b", "meet", json!({})),
        ("c", "meet", json!({})),
    ]);
    let mut bench =
        Setup::new(vec![calls, script::text("ok")]).tool(reads("meet", Act::Meet(barrier))).build();
    // Run one after the other, the first would wait for ever.
    let outcome = tokio::time::timeout(Duration::from_secs(10), bench.run("x")).await;
    assert_eq!(outcome.unwrap().unwrap(), TurnOutcome::Done);
    let results = results(&bench.agent.transcript()[2]).into_iter().map(|(id, ..)| id);
    assert_eq!(results.collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_read_after_a_write_in_one_batch_sees_the_write() {
    let flag = Arc::new(AtomicBool::new(false));
    let calls = script::tool_calls(&[("a", "set", json!({})), ("b", "get", json!({}))]);
    let mut bench = Setup::new(vec![calls, script::text("ok")])
        .tool(writes("set", Act::Set(Arc::clone(&flag))))
        .tool(reads("get", Act::Get(flag)))
        .build();
    bench.run("x").await.unwrap();
    assert_eq!(results(&bench.agent.transcript()[2]), [("a", "set", false), ("b", "true", false)]);
}

#[tokio::test]
async fn plan_mode_refuses_what_could_change_anything() {
    let probe = writes("probe", Act::Say("ran"));
    let calls = Arc::clone(&probe.calls);
    let call = script::tool_call("a", "probe", json!({}));
    let mut setup = Setup::new(vec![call, add("b"), script::text("ok")]).tool(probe);
    setup.mode = PermissionMode::Plan;
    setup.approver = Arc::new(AllowAll);
    let mut bench = setup.build();
    bench.run("x").await.unwrap();
    assert!(results(&bench.agent.transcript()[2])[0].1.contains("plan mode"));
    assert_eq!(results(&bench.agent.transcript()[4]), [("b", "4", false)]);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_panicking_tool_is_an_error_result() {
    let call = script::tool_call("a", "broken", json!({}));
    let mut bench =
        Setup::new(vec![call, script::text("ok")]).tool(writes("broken", Act::Panic)).build();
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::Done);
    let transcript = bench.agent.transcript();
    let (_, text, is_error) = results(&transcript[2])[0];
    assert!(is_error && text.contains("crashed"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_cancelling_is_reported_as_uncertain() {
    let started = Arc::new(Notify::new());
    let call = script::tool_call("a", "stuck", json!({}));
    let mut bench =
        Setup::new(vec![call]).tool(writes("stuck", Act::Hang(Arc::clone(&started)))).build();
    let cancel = CancellationToken::new();
    let stop = async {
        started.notified().await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.run_with("x", cancel.clone()), stop);
    assert_eq!(outcome.unwrap(), TurnOutcome::Cancelled);
    let transcript = bench.agent.transcript();
    let (_, text, is_error) = results(&transcript[2])[0];
    assert!(is_error && text.contains("check the state before repeating it"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_wall_time_limit_is_an_outcome_of_its_own() {
    let started = Arc::new(Notify::new());
    let call = script::tool_call("a", "slow", json!({}));
    let mut setup = Setup::new(vec![call]).tool(writes("slow", Act::WaitForCancel(started)));
    setup.max_wall_time = Some(Duration::from_secs(60));
    let mut bench = setup.build();
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::BudgetExceeded);
}

#[tokio::test]
async fn a_watcher_that_is_gone_neither_stops_the_turn_nor_grants_anything() {
    let probe = writes("probe", Act::Say("ran"));
    let calls = Arc::clone(&probe.calls);
    let call = script::tool_call("a", "probe", json!({}));
    let mut bench =
        Setup::new(vec![call, script::text("ok")]).tool(probe).asking(Arc::new(DenyAll)).build();
    let (_, other) = channel();
    drop(std::mem::replace(&mut bench.events, other));
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::Done);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_stuck_watcher_does_not_hold_up_a_cancelled_turn() {
    // Distinct events, so that nothing is joined and the queue fills up.
    let call = |n: usize| script::tool_call(&format!("c{n}"), "probe", json!({}));
    let script = (0..1000).map(call).collect();
    let mut bench = Setup { max_steps: 1000, ..Setup::new(script) }
        .tool(reads("probe", Act::Say("ok")))
        .build();
    let cancel = CancellationToken::new();
    let stop = async {
        while bench.provider.asked() < 20 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let turn = bench.agent.run_turn(vec![ContentBlock::text("x")], cancel.clone());
    let (outcome, ()) =
        tokio::time::timeout(Duration::from_secs(10), async { tokio::join!(turn, stop) })
            .await
            .unwrap();
    assert_eq!(outcome.unwrap(), TurnOutcome::Cancelled);
    assert_eq!(finished(&bench.reported().await).len(), 1);
}

#[tokio::test]
async fn a_call_id_that_comes_again_is_renamed_with_its_result() {
    let mut bench = Setup::new(vec![add("f:0"), add("f:0"), script::text("ok")]).build();
    bench.run("x").await.unwrap();
    assert_eq!(results(&bench.agent.transcript()[4]), [("f:0-2", "4", false)]);
}

#[tokio::test]
async fn an_answer_without_content_ends_the_turn_and_leaves_no_message() {
    let empty = script::cut_text("", FinishReason::EndTurn);
    let mut bench = Setup::new(vec![empty, script::text("ok")]).build();
    assert_eq!(bench.run("a").await.unwrap(), TurnOutcome::Done);
    assert_eq!(bench.agent.transcript().len(), 1);
    assert_eq!(bench.run("b").await.unwrap(), TurnOutcome::Done);
    assert_eq!(bench.agent.transcript().len(), 2);
}

#[tokio::test]
async fn usage_is_summed_and_a_request_that_told_nothing_makes_it_unknown() {
    let told = Usage { input: Some(10), output: Some(2), ..Usage::default() };
    let script =
        vec![script::with_usage(add("a"), told), script::with_usage(script::text("4"), told)];
    let mut bench = Setup::new(script).build();
    bench.run("x").await.unwrap();
    let events = bench.reported().await;
    let usage = finished(&events)[0].usage;
    assert_eq!((usage.counts.input, usage.counts.output), (Some(20), Some(4)));
    assert_eq!(usage.accounting, Accounting::Reported);

    let mut bench = Setup::new(vec![script::with_usage(add("a"), told), script::text("4")]).build();
    bench.run("x").await.unwrap();
    let events = bench.reported().await;
    assert_eq!(finished(&events)[0].usage.accounting, Accounting::Unknown);
}

#[tokio::test]
async fn a_turn_costs_the_sum_of_its_requests_and_is_unknown_with_one_of_them() {
    let price = Price {
        input: 2.0,
        output: 10.0,
        cache_read: None,
        cache_write: None,
        above: None,
        as_of: None,
    };
    let told = Usage { input: Some(1_000), output: Some(100), ..Usage::default() };
    let cached = Usage { cache_read: Some(1), ..told };
    let answers = |last| {
        vec![script::with_usage(add("a"), told), script::with_usage(script::text("4"), last)]
    };
    for (price, last, want) in [
        (Some(price.clone()), told, Some(0.006)),
        // Nobody told what reading from the cache costs.
        (Some(price), cached, None),
        (None, told, None),
    ] {
        let mut bench = Setup::new(answers(last)).priced(price).build();
        bench.run("x").await.unwrap();
        let events = bench.reported().await;
        assert_eq!(finished(&events)[0].cost_usd, want);
    }
}

#[tokio::test]
async fn a_failed_step_is_reported_and_leaves_the_transcript_ready_for_the_next_prompt() {
    let error =
        LlmError::Api { kind: "overloaded_error".into(), message: "busy".into(), status: None };
    let mut bench =
        Setup::playing(vec![Answer::Refuse(error), Answer::Events(script::text("ok"))]).build();
    bench.run("a").await.unwrap_err();
    assert_eq!(bench.run("b").await.unwrap(), TurnOutcome::Done);
    let events = bench.reported().await;
    assert!(events.iter().any(|event| matches!(event, AgentEvent::StepFailed { step: 1, .. })));
}

#[tokio::test]
async fn dropping_a_dispatch_asks_the_tool_to_stop_and_lets_it_clean_up() {
    struct Cleaner {
        started: Arc<Notify>,
        cleaned: Arc<Notify>,
    }
    #[async_trait]
    impl Tool for Cleaner {
        fn name(&self) -> &str {
            "cleaner"
        }
        fn description(&self) -> &str {
            "a tool for tests"
        }
        fn input_schema(&self) -> Value {
            json!({"type": "object"})
        }
        fn effects(&self, _args: &Value) -> Effects {
            Effects::command()
        }
        fn on_cancel(&self) -> OnCancel {
            OnCancel::MayBePartial
        }
        async fn call(&self, _args: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
            self.started.notify_one();
            ctx.cancel.cancelled().await;
            self.cleaned.notify_one();
            Err(ToolError::Cancelled("cleaned".into()))
        }
    }
    let (started, cleaned) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut registry = ToolRegistry::default();
    let tool = Cleaner { started: Arc::clone(&started), cleaned: Arc::clone(&cleaned) };
    registry.register(Arc::new(tool)).unwrap();
    let ctx = ToolContext {
        cwd: "/".into(),
        cancel: CancellationToken::new(),
        session_id: "s".into(),
        output: None,
        grants: agent::tool::Grants::default(),
        redactor: std::sync::Arc::default(),
    };
    let args = json!({});
    tokio::select! {
        _ = registry.dispatch("a", "cleaner", &args, &ctx) => panic!("nothing cancelled it"),
        () = started.notified() => {}
    }
    tokio::time::timeout(Duration::from_secs(10), cleaned.notified()).await.unwrap();
}

#[tokio::test]
async fn a_hundred_read_only_calls_do_not_all_run_at_once() {
    /// Counts how many calls are inside at the same time.
    struct Crowd {
        now: AtomicUsize,
        most: Arc<AtomicUsize>,
    }
    #[async_trait]
    impl Tool for Crowd {
        fn name(&self) -> &str {
            "crowd"
        }
        fn description(&self) -> &str {
            "a tool for tests"
        }
        fn input_schema(&self) -> Value {
            json!({"type": "object"})
        }
        fn effects(&self, _args: &Value) -> Effects {
            Effects::none()
        }
        fn on_cancel(&self) -> OnCancel {
            OnCancel::Atomic
        }
        async fn call(&self, _args: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolOutput::from("ok".to_owned()))
        }
    }
    let most = Arc::new(AtomicUsize::new(0));
    // Few enough for their events to wait unread until the turn is over.
    let ids: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
    let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "crowd", json!({}))).collect();
    let setup = Setup::new(vec![script::tool_calls(&calls), script::text("ok")]);
    let mut bench =
        setup.with(Arc::new(Crowd { now: AtomicUsize::new(0), most: Arc::clone(&most) }));
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::Done);
    let answered = results(&bench.agent.transcript()[2]).into_iter().map(|(id, ..)| id.to_owned());
    assert_eq!(answered.collect::<Vec<_>>(), ids);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=8).contains(&most), "{most} at once");
}

#[tokio::test]
async fn an_error_tells_a_person_what_to_do() {
    let refused = LlmError::Http {
        status: 401,
        body: "invalid x-api-key".into(),
        retry_after: None,
        class: llm::error::ErrorClass::Auth,
        should_retry: None,
    };
    let advice = refused.advice().unwrap();
    let mut bench = Setup::playing(vec![Answer::Refuse(refused)]).build();
    let error = bench.run("x").await.unwrap_err();
    assert!(error.info().message.ends_with(advice), "{}", error.info().message);
}

/// The same bench with its script asked again when that may help.
fn patient(mut bench: Bench) -> Bench {
    let script = Arc::clone(&bench.provider);
    let retry = Retry::new(script, RetryPolicy::default()).with_jitter(Arc::new(|| 0.0));
    let model = bench.agent.model().clone();
    bench.agent.switch_model(Arc::new(retry), model);
    bench
}

fn overloaded() -> Answer {
    let message = "try again in 20s".to_owned();
    Answer::Refuse(LlmError::Api { kind: "overloaded_error".into(), message, status: None })
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_told_and_is_no_step_of_its_own() {
    let script = vec![overloaded(), script::text("4").into()];
    let mut bench = patient(Setup::playing(script).build());
    assert_eq!(bench.run("2+2").await.unwrap(), TurnOutcome::Done);
    assert_eq!(bench.provider.asked(), 2);
    let reported = bench.reported().await;
    let retries: Vec<_> = reported
        .iter()
        .filter(|event| matches!(event, AgentEvent::Phase(Phase::Retrying { attempt: 2, .. })))
        .collect();
    assert_eq!(retries.len(), 1, "{reported:?}");
    let Some(AgentEvent::TurnFinished(summary)) = reported.last() else { panic!("{reported:?}") };
    assert_eq!((summary.steps, summary.text.as_str()), (1, "4"));
}

#[tokio::test(start_paused = true)]
async fn a_turn_cancelled_in_the_delay_before_an_attempt_ends_at_once() {
    let script = vec![overloaded(), script::text("4").into()];
    let mut bench = patient(Setup::playing(script).build());
    let cancel = CancellationToken::new();
    let seen = async {
        let is_retry =
            |event: &AgentEvent| matches!(event, AgentEvent::Phase(Phase::Retrying { .. }));
        while !bench.events.recv().await.as_ref().is_some_and(is_retry) {}
        cancel.cancel();
    };
    let started = tokio::time::Instant::now();
    let turn = bench.agent.run_turn(vec![ContentBlock::text("2+2")], cancel.clone());
    let (outcome, ()) = tokio::join!(turn, seen);
    assert_eq!(outcome.unwrap(), TurnOutcome::Cancelled);
    assert_eq!((started.elapsed(), bench.provider.asked()), (Duration::ZERO, 1));
}

#[tokio::test]
async fn what_a_server_says_about_its_refusal_is_told_and_no_part_of_the_dialogue() {
    let mut refused = script::cut_text("I will not.", FinishReason::Refusal);
    refused.insert(1, StreamEvent::Refusal { explanation: "against the policy".into() });
    let mut bench = Setup::new(vec![refused]).build();
    assert_eq!(bench.run("x").await.unwrap(), TurnOutcome::Refused);
    assert_eq!(bench.agent.transcript().last().unwrap().text(), "I will not.");
    let reported = bench.reported().await;
    let Some(AgentEvent::TurnFinished(summary)) = reported.last() else { panic!("{reported:?}") };
    let error = summary.error.as_ref().unwrap();
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("refused", "against the policy"));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_failed_while_it_was_answered_makes_the_counts_a_lower_bound() {
    let counts = Usage { input: Some(9), output: Some(1), ..Usage::default() };
    let answer = || Answer::from(script::with_usage(script::text("4"), counts));
    let broken = Answer::Break(vec![StreamEvent::Usage(counts)], LlmError::UnexpectedEof);
    for (failure, accounting) in
        [(overloaded(), Accounting::Reported), (broken, Accounting::Unknown)]
    {
        let mut bench = patient(Setup::playing(vec![failure, answer()]).build());
        assert_eq!(bench.run("2+2").await.unwrap(), TurnOutcome::Done);
        let reported = bench.reported().await;
        let Some(AgentEvent::TurnFinished(summary)) = reported.last() else {
            panic!("{reported:?}")
        };
        assert_eq!((summary.usage.counts, summary.usage.accounting), (counts, accounting));
    }
}
