//! What each event of the protocol means, row by row.

use super::*;
use crate::builder::Completion;
use crate::providers::drive;
use crate::types::ContentBlock;

fn state() -> StreamState {
    StreamState::new(drive::made_ids())
}

fn events(payloads: &[&str]) -> Result<Vec<StreamEvent>, LlmError> {
    drive::events(state(), payloads)
}

fn complete(payloads: &[&str]) -> Completion {
    drive::complete(state(), payloads).unwrap()
}

fn start(index: u32, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: u32, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn text_delta(index: u32, text: &str) -> String {
    delta(index, &format!(r#"{{"type":"text_delta","text":"{text}"}}"#))
}

fn stop(index: u32) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

const TEXT: &str = r#"{"type":"text","text":""}"#;
const CALL: &str = r#"{"type":"tool_use","id":"toolu_1","name":"f","input":{}}"#;
const END: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
const TOOL_USE: &str = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

#[track_caller]
fn refused(payloads: &[&str], why: &str) {
    match events(payloads) {
        Err(LlmError::Decode(message)) => assert!(message.contains(why), "{message}"),
        other => panic!("not refused: {other:?}"),
    }
}

fn replay(body: &[u8]) -> Result<Completion, LlmError> {
    drive::replay(state(), body)
}

#[test]
fn a_recorded_answer_with_two_tools_has_both_calls_with_their_arguments() {
    let body = include_bytes!("../../../../tests/fixtures/anthropic/two_tools.sse");
    let completion = replay(body).unwrap();
    assert_eq!(completion.finish, FinishReason::ToolUse);
    let message = completion.commit().unwrap();
    let calls: Vec<_> =
        message.tool_calls().map(|call| (call.id, &call.arguments["city"])).collect();
    assert_eq!(calls, [("toolu_a", &json!("Oslo")), ("toolu_b", &json!("Lima"))]);
}

#[test]
fn an_error_inside_the_stream_has_the_servers_kind() {
    let body = include_bytes!("../../../../tests/fixtures/anthropic/overloaded.sse");
    let error = replay(body).unwrap_err();
    assert!(
        matches!(error, LlmError::Api { ref kind, .. } if kind == "overloaded_error"),
        "{error:?}"
    );
    assert!(error.is_retryable());
}

#[test]
fn an_error_is_recognised_by_the_name_of_its_event_alone() {
    let mut out = Vec::new();
    let frame = SseFrame { event: Some("error"), data: r#"{"message":"boom","code":500}"# };
    let error = state().on_sse(frame, &mut out).unwrap_err();
    assert!(
        matches!(error, LlmError::Api { status: Some(500), ref message, .. } if message == "boom")
    );
}

#[test]
fn an_unknown_event_of_any_shape_is_ignored() {
    for unknown in [
        r#"{"type":"brand_new_event"}"#,
        r#"{"type":"brand_new_event","index":"x","delta":"text","usage":[1],"message":7}"#,
        r#"{"type":["odd"],"delta":null}"#,
        r#"{"no":"type"}"#,
        r#"{"type":"ping"}"#,
        "[DONE]",
        "",
        "null",
        "[1,2]",
        "keep-alive",
    ] {
        let completion = complete(&[&start(0, TEXT), unknown, &text_delta(0, "ok"), END, STOP]);
        assert_eq!(completion.blocks, [ContentBlock::text("ok")], "{unknown}");
    }
}

#[test]
fn broken_json_is_refused_and_quoted() {
    refused(&[r#"{"type":"message_stop""#], r#"{"type":"message_stop""#);
}

#[test]
fn half_a_character_becomes_the_replacement_character() {
    let completion = complete(&[&start(0, TEXT), &text_delta(0, r"a\ud83d"), END, STOP]);
    assert_eq!(completion.blocks, [ContentBlock::text("a\u{fffd}")]);
}

#[test]
fn text_at_the_start_of_a_block_counts() {
    let first = start(0, r#"{"type":"text","text":"Hi ","citations":null}"#);
    let completion = complete(&[&first, &text_delta(0, "you"), END, STOP]);
    assert_eq!(completion.blocks, [ContentBlock::text("Hi you")]);
}

#[test]
fn citations_stay_with_their_text() {
    let cited = |text: &str| {
        delta(0, &format!(r#"{{"type":"citations_delta","citation":{{"cited_text":"{text}"}}}}"#))
    };
    let payloads = [start(0, TEXT), cited("a"), text_delta(0, "x"), cited("b"), stop(0)];
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).chain([END, STOP]).collect();
    let citations = json!({"citations": [{"cited_text": "a"}, {"cited_text": "b"}]});
    let wanted = ContentBlock::Text { text: "x".to_owned(), meta: Some(meta(citations)) };
    assert_eq!(complete(&payloads).blocks, [wanted]);
}

#[test]
fn a_signature_in_pieces_is_joined_at_its_own_block_even_without_text() {
    let thinking = r#"{"type":"thinking","thinking":"","signature":""}"#;
    let signed =
        |part: &str| delta(0, &format!(r#"{{"type":"signature_delta","signature":"{part}"}}"#));
    let completion =
        complete(&[&start(0, thinking), &signed("c2ln"), &signed("bmVk"), &stop(0), END, STOP]);
    let state = json!({"type": "thinking", "signature": "c2lnbmVk"});
    let wanted = ContentBlock::Reasoning { text: String::new(), meta: Some(meta(state)) };
    assert_eq!(completion.blocks, [wanted]);
}

#[test]
fn reasoning_without_a_signature_has_no_state() {
    let thinking = r#"{"type":"thinking","thinking":"hm"}"#;
    let completion = complete(&[&start(0, thinking), &stop(0), END, STOP]);
    assert_eq!(completion.blocks, [ContentBlock::Reasoning { text: "hm".to_owned(), meta: None }]);
}

#[test]
fn redacted_thinking_is_kept_whole() {
    let block = r#"{"type":"redacted_thinking","data":"c2VhbGVk"}"#;
    let completion = complete(&[&start(0, block), &stop(0), END, STOP]);
    let state = json!({"type": "redacted_thinking", "data": "c2VhbGVk"});
    let wanted = ContentBlock::Reasoning { text: String::new(), meta: Some(meta(state)) };
    assert_eq!(completion.blocks, [wanted]);
}

#[test]
fn a_server_side_block_is_kept_whole_with_its_input_citations_and_content() {
    let payloads = [
        start(0, r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{},"extra":1}"#),
        delta(0, r#"{"type":"input_json_delta","partial_json":"{\"query\":"}"#),
        delta(0, r#"{"type":"input_json_delta","partial_json":"\"rust\"}"}"#),
        delta(0, r#"{"type":"citations_delta","citation":{"n":1}}"#),
        delta(0, r#"{"type":"unheard_of_delta","x":1}"#),
        stop(0),
        start(1, r#"{"type":"compaction","content":null}"#),
        delta(1, r#"{"type":"compaction_delta","content":"So "}"#),
        delta(1, r#"{"type":"compaction_delta","content":"far."}"#),
        stop(1),
    ];
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).chain([END, STOP]).collect();
    let wanted = [
        json!({"type": "server_tool_use", "id": "s", "name": "web_search",
               "input": {"query": "rust"}, "extra": 1, "citations": [{"n": 1}]}),
        json!({"type": "compaction", "content": "So far."}),
    ];
    assert_eq!(
        complete(&payloads).blocks,
        wanted.map(|data| ContentBlock::Opaque { meta: meta(data) })
    );
}

#[track_caller]
fn check_call(block: &str, fragments: &[&str], id: &str, arguments: Value) {
    let mut payloads = vec![start(0, block)];
    payloads.extend(fragments.iter().map(|fragment| {
        let fragment = Value::from(*fragment);
        delta(0, &format!(r#"{{"type":"input_json_delta","partial_json":{fragment}}}"#))
    }));
    payloads.push(stop(0));
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).chain([TOOL_USE, STOP]).collect();
    let name = "f".to_owned();
    let wanted = ContentBlock::ToolCall { id: id.to_owned(), name, arguments, meta: None };
    assert_eq!(complete(&payloads).blocks, [wanted]);
}

#[test]
fn arguments_come_as_deltas_or_with_the_start_and_deltas_win() {
    check_call(CALL, &["", "{\"a\"", ":1}"], "toolu_1", json!({"a": 1}));
    check_call(CALL, &[""], "toolu_1", json!({}));
    check_call(CALL, &[], "toolu_1", json!({}));
    let whole = r#"{"type":"tool_use","id":"x","name":"f","input":{"p":"a"}}"#;
    check_call(whole, &[], "x", json!({"p": "a"}));
    check_call(whole, &[""], "x", json!({"p": "a"}));
    check_call(whole, &["{\"p\":\"b\"}"], "x", json!({"p": "b"}));
}

#[test]
fn a_call_without_an_id_gets_one() {
    check_call(r#"{"type":"tool_use","id":"","name":"f"}"#, &[], "made_1", json!({}));
    check_call(
        r#"{"type":"tool_use","id":null,"name":"f","input":null}"#,
        &[],
        "made_1",
        json!({}),
    );
}

#[test]
fn two_calls_with_one_id_get_two_ids() {
    let completion = complete(&[&start(0, CALL), &start(1, CALL), TOOL_USE, STOP]);
    let message = completion.commit().unwrap();
    let ids: Vec<&str> = message.tool_calls().map(|call| call.id).collect();
    assert_eq!(ids, ["toolu_1", "made_1"]);
}

#[test]
fn a_call_without_a_name_is_refused() {
    refused(&[&start(0, r#"{"type":"tool_use","id":"x","input":{}}"#)], "no name");
}

#[test]
fn a_delta_outside_of_its_block_is_refused() {
    refused(&[&text_delta(0, "x")], "block 0");
    refused(&[&start(0, TEXT), &stop(0), &text_delta(0, "x")], "block 0");
    refused(&[&start(0, TEXT), &text_delta(1, "x")], "block 1");
    refused(&[r#"{"type":"content_block_delta","delta":{"type":"text_delta"}}"#], "no index");
}

#[test]
fn a_block_that_starts_twice_is_refused_and_a_stopped_index_may_serve_again() {
    refused(&[&start(0, TEXT), &start(0, CALL)], "block 0 started twice");
    let completion = complete(&[
        &start(0, TEXT),
        &text_delta(0, "a"),
        &stop(0),
        &start(0, CALL),
        &stop(0),
        TOOL_USE,
        STOP,
    ]);
    let kinds: Vec<&str> = completion.blocks.iter().map(ContentBlock::kind).collect();
    assert_eq!(kinds, ["text", "tool_call"]);
}

#[test]
fn a_delta_of_the_wrong_kind_is_refused_and_an_unknown_one_is_not() {
    refused(&[&start(0, CALL), &text_delta(0, "x")], "cannot take a text_delta");
    refused(
        &[&start(0, TEXT), &delta(0, r#"{"type":"thinking_delta"}"#)],
        "cannot take a thinking",
    );
    complete(&[&start(0, TEXT), &delta(0, r#"{"type":"shiny_delta"}"#), END, STOP]);
}

#[track_caller]
fn check_reason(raw: &str, want: FinishReason) {
    let reason = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":{raw}}}}}"#);
    let completion = complete(&[&start(0, CALL), &reason, STOP]);
    assert_eq!(completion.finish, want, "{raw}");
    assert_eq!(completion.raw, serde_json::from_str(raw).unwrap());
}

#[test]
fn every_stop_reason_is_mapped_and_an_unknown_one_is_never_a_normal_end() {
    check_reason("\"end_turn\"", FinishReason::EndTurn);
    check_reason("\"tool_use\"", FinishReason::ToolUse);
    check_reason("\"max_tokens\"", FinishReason::MaxTokens);
    check_reason("\"stop_sequence\"", FinishReason::StopSequence);
    check_reason("\"pause_turn\"", FinishReason::PauseTurn);
    check_reason("\"compaction\"", FinishReason::PauseTurn);
    check_reason("\"refusal\"", FinishReason::Refusal);
    check_reason("\"model_context_window_exceeded\"", FinishReason::ContextWindow);
    check_reason("\"tired\"", FinishReason::Other("tired".to_owned()));
    check_reason("null", FinishReason::ToolUse);
}

#[test]
fn a_tool_use_without_a_call_is_a_normal_end() {
    let completion = complete(&[&start(0, TEXT), &text_delta(0, "x"), TOOL_USE, STOP]);
    assert_eq!(completion.finish, FinishReason::EndTurn);
}

#[test]
fn an_end_needs_a_reason_or_an_end_mark_after_something() {
    let text = start(0, r#"{"type":"text","text":"x"}"#);
    assert_eq!(complete(&[&text, END]).finish, FinishReason::EndTurn);
    assert_eq!(complete(&[&text, STOP]).finish, FinishReason::EndTurn);
    for broken_off in [&[][..], &[text.as_str()], &[STOP]] {
        assert!(matches!(events(broken_off), Err(LlmError::UnexpectedEof)), "{broken_off:?}");
    }
}

#[test]
fn nothing_after_the_end_mark_counts() {
    let late = [r#"{"type":"error","error":{"type":"api_error","message":"late"}}"#, "{broken"];
    let text = start(0, r#"{"type":"text","text":"x"}"#);
    let completion = complete(&[&text, END, STOP, late[0], late[1], &text_delta(0, "y")]);
    assert_eq!(completion.blocks, [ContentBlock::text("x")]);
}

#[test]
fn later_counts_correct_earlier_ones_and_null_tells_nothing() {
    let begin = r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":0,
        "cache_read_input_tokens":80,"cache_creation_input_tokens":5,"output_tokens":1}}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{
        "input_tokens":40,"output_tokens":7,"cache_read_input_tokens":null,
        "cache_creation_input_tokens":0}}"#;
    let usage = complete(&[begin, begin, end, STOP]).usage;
    let wanted =
        Usage { input: Some(40), output: Some(7), cache_read: Some(80), cache_write: Some(0) };
    assert_eq!(usage, wanted);
}

#[test]
fn state_that_grows_without_end_is_refused() {
    let thinking = start(0, r#"{"type":"thinking","thinking":""}"#);
    let signature = "s".repeat(1 << 20);
    let signature = delta(0, &format!(r#"{{"type":"signature_delta","signature":"{signature}"}}"#));
    let mut payloads = vec![thinking.as_str()];
    payloads.extend(std::iter::repeat_n(signature.as_str(), 33));
    refused(&payloads, "provider state");
}

#[test]
fn blocks_that_open_without_end_are_refused() {
    let starts: Vec<String> =
        (0..300_000).map(|index| start(index, r#"{"type":"text","text":""}"#)).collect();
    let payloads: Vec<&str> = starts.iter().map(String::as_str).collect();
    refused(&payloads, "provider state");
}
