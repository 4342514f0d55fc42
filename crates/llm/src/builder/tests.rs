//! The orders that an answer may and may not have.

use serde_json::json;

use super::*;

fn text(block: u32, text: &str) -> StreamEvent {
    StreamEvent::Text { block, text: text.to_owned() }
}

fn reasoning(block: u32, text: &str) -> StreamEvent {
    StreamEvent::Reasoning { block, text: text.to_owned() }
}

fn done(block: u32, state: Option<Value>) -> StreamEvent {
    StreamEvent::ReasoningDone { block, meta: state.map(meta) }
}

fn start(index: u32, block: u32, id: &str, name: &str) -> StreamEvent {
    StreamEvent::ToolStart { index, block, id: id.to_owned(), name: name.to_owned() }
}

fn delta(index: u32, fragment: &str) -> StreamEvent {
    StreamEvent::ToolDelta { index, fragment: fragment.to_owned() }
}

fn finish(reason: FinishReason) -> StreamEvent {
    StreamEvent::Finish { reason, raw: None }
}

fn meta(data: Value) -> ProviderMeta {
    ProviderMeta { provider: "p".to_owned(), data }
}

fn call(id: &str, name: &str, arguments: Value) -> ContentBlock {
    ContentBlock::ToolCall { id: id.to_owned(), name: name.to_owned(), arguments, meta: None }
}

fn build(events: &[StreamEvent]) -> Result<Completion, LlmError> {
    let mut builder = MessageBuilder::default();
    events.iter().try_for_each(|event| builder.push(event))?;
    builder.finish()
}

#[track_caller]
fn refused(events: &[StreamEvent], why: &str) {
    match build(events) {
        Err(LlmError::Decode(message)) => assert!(message.contains(why), "{message}"),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn text_and_a_call_in_pieces_become_one_block_each() {
    let completion = build(&[
        text(0, "Hel"),
        text(0, "lo"),
        start(0, 1, "c", "f"),
        delta(0, "{\"a\""),
        delta(0, ":1}"),
        finish(FinishReason::ToolUse),
    ])
    .unwrap();
    assert_eq!(completion.blocks, [ContentBlock::text("Hello"), call("c", "f", json!({"a": 1}))]);
}

#[test]
fn a_call_without_deltas_gets_an_empty_object() {
    let completion = build(&[start(0, 0, "c", "f"), finish(FinishReason::ToolUse)]).unwrap();
    assert_eq!(completion.blocks, [call("c", "f", json!({}))]);
}

#[test]
fn two_interleaved_calls_keep_their_order_and_arguments() {
    let completion = build(&[
        start(0, 0, "c1", "f"),
        start(1, 1, "c2", "g"),
        delta(1, "{\"b\""),
        delta(0, "{\"a\""),
        delta(1, ":2}"),
        delta(0, ":1}"),
        finish(FinishReason::ToolUse),
    ])
    .unwrap();
    assert_eq!(
        completion.blocks,
        [call("c1", "f", json!({"a": 1})), call("c2", "g", json!({"b": 2}))]
    );
}

#[test]
fn a_block_that_starts_late_stands_where_its_number_says() {
    let completion = build(&[
        text(1, "after"),
        start(0, 0, "c", "f"),
        text(1, "wards"),
        finish(FinishReason::ToolUse),
    ])
    .unwrap();
    assert_eq!(completion.blocks, [call("c", "f", json!({})), ContentBlock::text("afterwards")]);
}

#[test]
fn a_truncated_stream_is_an_unexpected_end() {
    let events = [text(0, "Hel"), start(0, 1, "c", "f")];
    assert!(matches!(build(&events), Err(LlmError::UnexpectedEof)));
}

#[test]
fn broken_arguments_are_kept_as_their_raw_text() {
    let deep = format!("{{\"a\":{}", "[".repeat(10_000));
    for raw in ["{\"a\":", "[1]", "\"x\"", "5", "{}{}", "{\"a\":1e400}", &deep] {
        let events = [start(0, 0, "c", "f"), delta(0, raw), finish(FinishReason::ToolUse)];
        assert_eq!(build(&events).unwrap().blocks, [call("c", "f", json!(raw))]);
    }
}

#[test]
fn blank_arguments_are_an_empty_object() {
    let events = [start(0, 0, "c", "f"), delta(0, " \n"), finish(FinishReason::ToolUse)];
    assert_eq!(build(&events).unwrap().blocks, [call("c", "f", json!({}))]);
}

#[test]
fn a_delta_before_its_start_is_refused() {
    refused(&[delta(0, "{}")], "before its start");
    refused(&[start(0, 0, "c", "f"), delta(1, "{}")], "before its start");
    refused(&[StreamEvent::ToolMeta { index: 0, meta: meta(json!(1)) }], "before its start");
}

#[test]
fn a_conflicting_duplicate_start_is_refused_and_an_equal_one_is_not() {
    let first = start(0, 0, "c", "f");
    for other in [start(0, 0, "d", "f"), start(0, 0, "c", "g"), start(0, 1, "c", "f")] {
        refused(&[first.clone(), other], "started twice");
    }
    let again = [first.clone(), delta(0, "{"), first, delta(0, "}"), finish(FinishReason::ToolUse)];
    assert_eq!(build(&again).unwrap().blocks, [call("c", "f", json!({}))]);
}

#[test]
fn a_start_without_an_id_or_a_name_is_refused() {
    refused(&[start(0, 0, "", "f")], "without an id or a name");
    refused(&[start(0, 0, "c", "")], "without an id or a name");
}

#[test]
fn nothing_may_follow_the_finish() {
    for late in [
        text(0, "x"),
        start(0, 1, "c", "f"),
        StreamEvent::Usage(Usage::default()),
        finish(FinishReason::EndTurn),
    ] {
        refused(
            &[text(0, "x"), finish(FinishReason::EndTurn), late],
            "after the answer had finished",
        );
    }
}

#[test]
fn a_block_never_changes_its_kind() {
    let opaque = StreamEvent::Opaque { block: 0, meta: meta(json!({})) };
    let text_state = StreamEvent::TextMeta { block: 0, meta: meta(json!({})) };
    let kinds = [text(0, "x"), reasoning(0, "x"), start(0, 0, "c", "f"), opaque.clone()];
    for (position, first) in kinds.iter().enumerate() {
        for (other, second) in kinds.iter().enumerate() {
            if position != other {
                refused(&[first.clone(), second.clone()], "block 0 holds");
            }
        }
    }
    refused(&[opaque.clone(), opaque], "block 0 holds opaque");
    refused(&[reasoning(0, "x"), text_state], "cannot take text");
    refused(&[text(0, "x"), done(0, None)], "cannot take reasoning");
}

#[test]
fn reasoning_state_stays_at_its_own_block() {
    let completion = build(&[
        reasoning(0, "a"),
        text(1, "b"),
        reasoning(2, "c"),
        done(2, Some(json!("second"))),
        done(0, Some(json!("first"))),
        done(3, Some(json!("redacted"))),
        finish(FinishReason::EndTurn),
    ])
    .unwrap();
    let block = |text: &str, state: &str| ContentBlock::Reasoning {
        text: text.to_owned(),
        meta: Some(meta(json!(state))),
    };
    assert_eq!(
        completion.blocks,
        [block("a", "first"), ContentBlock::text("b"), block("c", "second"), block("", "redacted")]
    );
}

#[test]
fn reasoning_after_its_end_is_refused() {
    refused(&[reasoning(0, "a"), done(0, None), reasoning(0, "b")], "went on after its end");
    refused(&[done(0, None), done(0, None)], "ended twice");
}

#[test]
fn state_of_text_and_calls_is_kept_and_may_come_before_any_text() {
    let completion = build(&[
        StreamEvent::TextMeta { block: 0, meta: meta(json!("t")) },
        start(0, 1, "c", "f"),
        StreamEvent::ToolMeta { index: 0, meta: meta(json!("k")) },
        StreamEvent::Opaque { block: 2, meta: meta(json!({"type": "x"})) },
        finish(FinishReason::ToolUse),
    ])
    .unwrap();
    let wanted = [
        ContentBlock::Text { text: String::new(), meta: Some(meta(json!("t"))) },
        ContentBlock::ToolCall {
            id: "c".to_owned(),
            name: "f".to_owned(),
            arguments: json!({}),
            meta: Some(meta(json!("k"))),
        },
        ContentBlock::Opaque { meta: meta(json!({"type": "x"})) },
    ];
    assert_eq!(completion.blocks, wanted);
}

#[test]
fn empty_text_and_reasoning_leave_no_block() {
    let completion =
        build(&[text(0, ""), reasoning(1, ""), done(1, None), finish(FinishReason::EndTurn)])
            .unwrap();
    assert_eq!(completion.blocks, []);
    assert_eq!(completion.commit(), None);
}

#[test]
fn an_abnormal_finish_commits_no_call() {
    let abnormal = [
        FinishReason::EndTurn,
        FinishReason::MaxTokens,
        FinishReason::StopSequence,
        FinishReason::Refusal,
        FinishReason::PauseTurn,
        FinishReason::ContextWindow,
        FinishReason::Other("x".to_owned()),
    ];
    for reason in abnormal {
        let events = [text(0, "a"), start(0, 1, "c", "f"), delta(0, "{}"), finish(reason.clone())];
        let completion = build(&events).unwrap();
        assert_eq!(completion.blocks.len(), 2, "the completion says what the stream said");
        let message = completion.commit().unwrap();
        assert_eq!(message.content(), [ContentBlock::text("a")], "{reason:?}");
        let only_a_call = [start(0, 0, "c", "f"), finish(reason)];
        assert_eq!(build(&only_a_call).unwrap().commit(), None);
    }
}

#[test]
fn a_tool_use_finish_commits_everything() {
    let events = [text(0, "a"), start(0, 1, "c", "f"), finish(FinishReason::ToolUse)];
    let message = build(&events).unwrap().commit().unwrap();
    assert_eq!(message.role(), Role::Assistant);
    assert_eq!(message.content(), [ContentBlock::text("a"), call("c", "f", json!({}))]);
}

#[test]
fn later_usage_corrects_earlier_usage() {
    let told = |input, output| StreamEvent::Usage(Usage { input, output, ..Usage::default() });
    let completion = build(&[
        told(Some(10), Some(1)),
        text(0, "x"),
        told(None, Some(9)),
        finish(FinishReason::EndTurn),
    ])
    .unwrap();
    let wanted = Usage { input: Some(10), output: Some(9), ..Usage::default() };
    assert_eq!(completion.usage, wanted);
}

#[test]
fn hostile_numbers_allocate_nothing() {
    let completion = build(&[
        text(u32::MAX, "b"),
        start(u32::MAX, u32::MAX - 1, "c", "f"),
        delta(u32::MAX, "{}"),
        finish(FinishReason::ToolUse),
    ])
    .unwrap();
    assert_eq!(completion.blocks, [call("c", "f", json!({})), ContentBlock::text("b")]);
}

#[test]
fn an_answer_larger_than_the_limit_is_refused_whatever_it_consists_of() {
    let state = || meta(json!({ "signature": "s".repeat(100) }));
    let kinds: [&dyn Fn(u32) -> StreamEvent; 5] = [
        &|_| text(0, "0123456789"),
        &|_| reasoning(1, "0123456789"),
        &|block| text(block + 10, ""),
        &|block| start(block, block + 10, "c", "f"),
        &|block| StreamEvent::Opaque { block: block + 10, meta: state() },
    ];
    for event in kinds {
        let mut builder = MessageBuilder::with_limit(4_096);
        let refusal = (0..1_000).find_map(|number| builder.push(&event(number)).err());
        assert!(matches!(refusal, Some(LlmError::Decode(why)) if why.contains("4096 bytes")));
    }
}

#[test]
fn a_broken_answer_still_shows_what_had_arrived() {
    let mut builder = MessageBuilder::default();
    builder.push(&text(0, "Hel")).unwrap();
    assert_eq!(builder.into_blocks(), [ContentBlock::text("Hel")]);
}
