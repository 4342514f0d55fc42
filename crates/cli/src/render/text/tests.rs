//! What a person sees, event by event.

use std::path::Path;

use agent::approval::{Binding, Bound};
use agent::event::{Accounting, TurnUsage};
use agent::permissions::Because;
use agent::{Effects, ErrorInfo, Grants, TurnOutcome};
use llm::Usage;
use serde_json::json;

use super::*;

fn retrying() -> AgentEvent {
    let delay = Duration::from_secs(12);
    AgentEvent::Phase(Phase::Retrying { attempt: 2, of: 5, delay, reason: "overloaded".into() })
}

/// Plain looks of 80 columns.
pub(super) fn plain() -> Look {
    let off = Style { is_on: false };
    Look { out: off, err: off, width: 80, is_verbose: false }
}

pub(super) fn coloured() -> Look {
    let on = Style { is_on: true };
    Look { out: on, err: on, ..plain() }
}

/// Standard output and standard error after these events.
fn shown(audience: Audience, look: Look, events: &[AgentEvent]) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut renderer = Text::new(&mut out, &mut err, audience, look);
    for event in events {
        renderer.event(event).unwrap();
    }
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

fn step(step: u32) -> AgentEvent {
    AgentEvent::StepStarted { step }
}

pub(super) fn text(text: &str) -> AgentEvent {
    AgentEvent::TextDelta { text: text.into() }
}

pub(super) fn call(id: &str, name: &str, args: Value) -> AgentEvent {
    AgentEvent::ToolCallStarted { id: id.into(), name: name.into(), args }
}

pub(super) fn result(id: &str, is_error: bool, preview: &str) -> AgentEvent {
    AgentEvent::ToolCallFinished {
        id: id.into(),
        name: "x".into(),
        is_error,
        preview: preview.into(),
    }
}

pub(super) fn end(outcome: TurnOutcome, text: &str) -> AgentEvent {
    let counts = Usage { input: Some(12_345), output: Some(67), ..Usage::default() };
    AgentEvent::TurnFinished(TurnSummary {
        outcome,
        text: text.into(),
        model: "p:m".into(),
        steps: 2,
        duration_ms: 1_990,
        usage: TurnUsage { counts, accounting: Accounting::Reported },
        cost_usd: None,
        verification: None,
        error: None,
    })
}

#[test]
fn a_conversation_shows_everything_in_order_on_standard_output() {
    let events = [
        step(1),
        text("Let me "),
        text("see."),
        call("1", "calculator", json!({"a": 2, "op": "add", "b": 2})),
        result("1", false, "4"),
        step(2),
        text("It is 4."),
        end(TurnOutcome::Done, "It is 4."),
    ];
    let (out, err) = shown(Audience::Conversation, plain(), &events);
    assert_eq!(out, "Let me see.\n⏺ calculator(a=2, op=add, b=2)\n  ⎿ 4\n\nIt is 4.\n");
    assert_eq!(err, "12.3k tokens in (cached: n/a), 67 out · 2 steps · 1.9 s\n");
}

#[test]
fn a_pipeline_gets_the_answer_alone_and_the_way_there_on_standard_error() {
    let events = [
        step(1),
        text("Let me see."),
        call("1", "calculator", json!({"a": 2, "op": "add", "b": 2})),
        result("1", false, "4"),
        step(2),
        text("It is 4."),
        end(TurnOutcome::Done, "It is 4."),
    ];
    let (out, err) = shown(Audience::Pipeline, plain(), &events);
    assert_eq!(out, "It is 4.\n");
    assert_eq!(
        err,
        "Let me see.\n⏺ calculator(a=2, op=add, b=2)\n  ⎿ 4\n12.3k tokens in (cached: n/a), 67 out · 2 steps · 1.9 s\n"
    );
}

#[test]
fn results_of_calls_side_by_side_say_whose_they_are() {
    let events = [
        call("1", "read_file", json!({"file_path": "a"})),
        call("2", "read_file", json!({"file_path": "b"})),
        result("2", false, "two"),
        result("1", true, "no such file"),
    ];
    let (out, _) = shown(Audience::Conversation, plain(), &events);
    assert_eq!(
        out,
        "⏺ read_file(file_path=a)\n⏺ read_file(file_path=b)\n  ⎿ read_file(file_path=b)\n    two\n  \
         ⎿ read_file(file_path=a)\n    no such file\n"
    );
}

#[test]
fn a_long_result_is_cut_and_says_how_much_is_missing() {
    let lines: String = (1..=20).map(|line| format!("line {line}\n")).collect();
    let (out, _) = shown(Audience::Conversation, plain(), &[result("1", false, &lines)]);
    assert!(out.starts_with("  ⎿ line 1\n    line 2\n"), "{out}");
    assert!(out.contains("    line 3\n    … 14 more lines\n    line 18\n"), "{out}");
    assert!(out.ends_with("    line 20\n"), "{out}");
    let verbose = Look { is_verbose: true, ..plain() };
    let (out, _) = shown(Audience::Conversation, verbose, &[result("1", false, &lines)]);
    assert!(out.ends_with("    line 20\n"), "{out}");
}

#[test]
fn an_empty_result_is_shown_as_one() {
    let (out, _) = shown(Audience::Conversation, plain(), &[result("1", false, "\n")]);
    assert_eq!(out, "  ⎿ (nothing)\n");
}

#[test]
fn failures_are_red_and_diffs_have_their_colours() {
    let (out, _) = shown(Audience::Conversation, coloured(), &[result("1", true, "bad")]);
    assert_eq!(out, "  ⎿ \x1b[31mbad\x1b[0m\n");
    let diff = "--- f\n+++ f\n@@ -1 +1 @@\n same\n-old\n+new\n";
    let (out, _) = shown(Audience::Conversation, coloured(), &[result("1", false, diff)]);
    assert!(out.contains("\x1b[36m@@ -1 +1 @@\x1b[0m\n"), "{out}");
    assert!(out.contains("    \x1b[31m-old\x1b[0m\n    \x1b[32m+new\x1b[0m\n"), "{out}");
}

#[test]
fn the_status_line_is_taken_away_before_anything_else_is_shown() {
    let (out, _) = shown(Audience::Conversation, coloured(), &[step(1), text("hi")]);
    assert_eq!(out, "\r\x1b[2K\x1b[2mwaiting for the model\x1b[0m\r\x1b[2Khi");
    let (out, _) = shown(Audience::Conversation, plain(), &[step(1), text("hi")]);
    assert_eq!(out, "hi", "no status without escape sequences");
}

#[test]
fn live_output_is_shown_as_one_line_that_is_overwritten() {
    let output = AgentEvent::ToolOutput { id: "1".into(), chunk: "a\nb\x1b[2J\n\n".into() };
    let (out, _) = shown(Audience::Conversation, coloured(), &[output, result("1", false, "ok")]);
    assert!(out.starts_with("\r\x1b[2K\x1b[2m  ⎿ b\\u{1b}[2J\x1b[0m\r\x1b[2K"), "{out:?}");
}

#[test]
fn reasoning_is_shown_only_when_asked_for() {
    let thought = AgentEvent::ReasoningDelta { text: "hmm".into() };
    let (out, _) = shown(Audience::Conversation, plain(), &[thought.clone(), text("hi")]);
    assert_eq!(out, "hi");
    let verbose = Look { is_verbose: true, ..coloured() };
    let (out, _) = shown(Audience::Conversation, verbose, &[thought, text("hi")]);
    assert_eq!(out, "\x1b[2mhmm\x1b[0m\nhi");
}

#[test]
fn a_failed_step_says_that_what_was_shown_is_not_kept() {
    let error = ErrorInfo { kind: "http".into(), message: "HTTP 500: broken".into() };
    let failed = AgentEvent::StepFailed { step: 1, error: error.clone() };
    let AgentEvent::TurnFinished(mut summary) = end(TurnOutcome::Failed, "") else {
        unreachable!()
    };
    summary.error = Some(error);
    let events = [step(1), text("half"), failed, AgentEvent::TurnFinished(summary)];
    let (out, err) = shown(Audience::Conversation, plain(), &events);
    assert_eq!(out, "half\n(what stands above was cut off and is not kept)\n");
    assert!(err.starts_with("error: HTTP 500: broken\n"), "{err}");
}

#[test]
fn every_outcome_but_done_says_why() {
    for outcome in [
        TurnOutcome::Failed,
        TurnOutcome::MaxSteps,
        TurnOutcome::MaxTokens,
        TurnOutcome::Refused,
        TurnOutcome::ProtocolStopped,
        TurnOutcome::VerificationFailed,
        TurnOutcome::BudgetExceeded,
        TurnOutcome::Cancelled,
    ] {
        let (_, err) = shown(Audience::Pipeline, plain(), &[end(outcome, "")]);
        assert_eq!(err.lines().count(), 2, "{outcome:?}: {err}");
    }
    let (_, err) = shown(Audience::Pipeline, plain(), &[end(TurnOutcome::Done, "x")]);
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn hostile_text_is_made_visible_wherever_it_stands_and_wherever_it_is_cut() {
    let hostile = "a\x1b]52;c;AAAA\x07b";
    for cut in 0..=hostile.len() {
        let pieces = [text(&hostile[..cut]), text(&hostile[cut..])];
        let (out, _) = shown(Audience::Conversation, plain(), &pieces);
        assert_eq!(out, "a\\u{1b}]52;c;AAAA\\u{7}b");
    }
    let events = [
        text(hostile),
        call("1", "x\x1b[2J", json!({"\x1b": hostile})),
        result("1", false, hostile),
        end(TurnOutcome::Done, hostile),
    ];
    for audience in [Audience::Conversation, Audience::Pipeline] {
        let (out, err) = shown(audience, plain(), &events);
        assert!(!out.contains(['\x1b', '\x07']) && !err.contains(['\x1b', '\x07']), "{out}{err}");
    }
}

#[test]
fn no_line_of_calls_and_results_is_wider_than_the_terminal() {
    for width in [10, 40, 80] {
        let look = Look { width, ..plain() };
        let wide = "漢字👨‍👩‍👧 ".repeat(50);
        let events = [call("1", "bash", json!({"command": wide})), result("1", true, &wide)];
        let (out, _) = shown(Audience::Conversation, look, &events);
        for line in out.lines() {
            assert!(super::super::style::columns(line) <= width, "{width}: {line}");
        }
    }
}

/// A question of `bash` with these arguments.
pub(super) fn request(args: Value) -> ApprovalRequest {
    let shown = Binding::of(&Bound {
        call_id: "1",
        tool: "bash",
        args: &args,
        cwd: Path::new("/"),
        effects: &Effects::command(),
        grants: &Grants::default(),
        revision: 0,
        preview: None,
    });
    ApprovalRequest {
        call_id: "1".into(),
        tool: "bash".into(),
        args,
        because: Because::of("bash would run a command"),
        grants: Grants::default(),
        preview: None,
        proposals: Vec::new(),
        shown,
    }
}

#[test]
fn a_closed_standard_error_is_no_error_and_a_closed_standard_output_is_one() {
    let (mut full, mut err) = ([0_u8; 0].as_mut_slice(), Vec::new());
    let mut renderer = Text::new(&mut full, &mut err, Audience::Conversation, plain());
    assert_eq!(renderer.event(&text("hi")).unwrap_err().kind(), io::ErrorKind::WriteZero);
    let (mut out, mut full) = (Vec::new(), [0_u8; 0].as_mut_slice());
    let mut renderer = Text::new(&mut out, &mut full, Audience::Pipeline, plain());
    renderer.event(&call("1", "x", json!({}))).unwrap();
    renderer.event(&end(TurnOutcome::Done, "answer")).unwrap();
    assert_eq!(out, b"answer\n");
}

#[test]
fn counts_that_no_server_told_are_left_out() {
    let mut untold = end(TurnOutcome::Cancelled, "");
    if let AgentEvent::TurnFinished(summary) = &mut untold {
        summary.usage.counts = Usage::default();
    }
    let (_, err) = shown(Audience::Conversation, plain(), &[untold]);
    assert!(err.ends_with("2 steps · 1.9 s\n") && !err.contains("tokens"), "{err}");
}

#[test]
fn what_came_out_of_a_cache_is_told_with_its_share() {
    #[track_caller]
    fn check(counts: Usage, want: &str) {
        let mut cached = end(TurnOutcome::Done, "");
        if let AgentEvent::TurnFinished(summary) = &mut cached {
            summary.usage.counts = Usage { output: Some(67), ..counts };
        }
        let (_, err) = shown(Audience::Conversation, plain(), &[cached]);
        assert!(err.contains(want), "{err}");
    }
    let counts =
        |input, cache_read, cache_write| Usage { input, cache_read, cache_write, output: None };
    check(counts(Some(10), Some(980), Some(10)), "10 tokens in (+980 cached, 98 %), 67 out");
    // Not quite all of it.
    check(counts(Some(1), Some(999), None), "1 tokens in (+999 cached, 99 %), 67 out");
    check(counts(None, Some(20_000), None), "? tokens in (+20.0k cached, n/a), 67 out");
    // Zero was told, and nothing was told.
    check(counts(Some(10), Some(0), Some(990)), "10 tokens in (+0 cached, 0 %), 67 out");
    check(counts(Some(10), None, None), "10 tokens in (cached: n/a), 67 out");
}

#[test]
fn a_known_cost_is_told_in_dollars_and_an_unknown_one_not_at_all() {
    for (cost, want) in [
        (Some(0.01234), "67 out · $0.0123 · 2 steps"),
        (Some(12.345), "67 out · $12.35 · 2 steps"),
        (Some(0.0), "67 out · $0.0000 · 2 steps"),
        (None, "67 out · 2 steps"),
    ] {
        let mut paid = end(TurnOutcome::Done, "");
        if let AgentEvent::TurnFinished(summary) = &mut paid {
            summary.cost_usd = cost;
        }
        let (_, err) = shown(Audience::Conversation, plain(), &[paid]);
        assert!(err.contains(want), "{err}");
    }
}

#[test]
fn a_failed_attempt_is_a_line_in_the_log_of_a_pipeline_and_other_phases_are_not() {
    let events = [
        step(1),
        AgentEvent::Phase(Phase::Connecting),
        retrying(),
        AgentEvent::Phase(Phase::Waiting),
        text("4"),
        end(TurnOutcome::Done, "4"),
    ];
    let (out, err) = shown(Audience::Pipeline, plain(), &events);
    assert_eq!(out, "4\n");
    assert_eq!(
        err,
        "retry 2/5 in 12 s: overloaded\n12.3k tokens in (cached: n/a), 67 out · 2 steps · 1.9 s\n"
    );
}

#[test]
fn a_conversation_shows_the_phase_in_the_line_that_the_answer_overwrites() {
    let events = [
        step(1),
        AgentEvent::Phase(Phase::Connecting),
        retrying(),
        AgentEvent::Phase(Phase::Streaming),
        text("4"),
    ];
    let (out, _) = shown(Audience::Conversation, coloured(), &events);
    let lines: Vec<_> = out.split("\r\x1b[2K").collect();
    assert_eq!(
        lines,
        [
            "",
            "\x1b[2mwaiting for the model\x1b[0m",
            "\x1b[2mconnecting\x1b[0m",
            "\x1b[2mretry 2/5 in 12 s: overloaded\x1b[0m",
            "\x1b[2mstreaming\x1b[0m",
            "4"
        ]
    );
}

#[test]
fn a_call_that_prints_nothing_is_said_to_be_running_after_a_second() {
    let mut out = Vec::new();
    let mut renderer = Text::new(&mut out, Vec::new(), Audience::Conversation, coloured());
    assert!(!renderer.is_waiting());
    renderer.event(&call("1", "bash", json!({"command": "sleep 9"}))).unwrap();
    assert!(renderer.is_waiting());
    renderer.tick().unwrap();
    renderer.event(&result("1", false, "done")).unwrap();
    assert!(!renderer.is_waiting());
    drop(renderer);
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("\r\x1b[2K\x1b[2mrunning\x1b[0m\r\x1b[2K  ⎿ "), "{out:?}");
}

#[test]
fn a_refusal_is_shown_with_the_words_of_the_server() {
    let AgentEvent::TurnFinished(mut summary) = end(TurnOutcome::Refused, "") else {
        unreachable!("it is the end of a turn")
    };
    let message = "against the policy".to_owned();
    summary.error = Some(ErrorInfo { kind: "refused".into(), message });
    let (_, err) = shown(Audience::Pipeline, plain(), &[AgentEvent::TurnFinished(summary)]);
    assert!(err.starts_with("the model refused: against the policy\n"), "{err}");
}
