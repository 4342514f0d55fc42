//! What each event of the protocol means, row by row.

use serde_json::json;

use super::*;
use crate::builder::Completion;
use crate::providers::drive;
use crate::stream::Usage;
use crate::types::ContentBlock;

fn state() -> ResponsesStreamState {
    ResponsesStreamState::new(drive::made_ids())
}

fn events(payloads: &[Value]) -> Result<Vec<StreamEvent>, LlmError> {
    drive::events(state(), payloads)
}

fn complete(payloads: &[Value]) -> Completion {
    drive::complete(state(), payloads).unwrap()
}

fn added(index: impl Into<Value>, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index.into(), "item": item})
}

fn done(index: impl Into<Value>, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index.into(), "item": item})
}

fn said(index: u64, text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": text})
}

fn summed_up(paragraph: u64, text: &str) -> Value {
    json!({"type": "response.reasoning_summary_text.delta", "output_index": 0,
           "summary_index": paragraph, "delta": text})
}

fn thought(text: &str) -> Value {
    json!({"type": "response.reasoning_text.delta", "output_index": 0, "delta": text})
}

fn arguments(index: u64, text: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": text})
}

fn call(arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": arguments})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "content": [{"type": "output_text", "text": text}]})
}

fn completed() -> Value {
    ended("completed", json!({}))
}

fn ended(kind: &str, response: Value) -> Value {
    json!({"type": format!("response.{kind}"), "response": response})
}

fn own(data: Value) -> ProviderMeta {
    ProviderMeta { provider: "openai-responses".into(), data }
}

/// The arguments of every call, by its id.
fn calls(completion: &Completion) -> Vec<(&str, &Value)> {
    let blocks = completion.blocks.iter();
    let calls = blocks.filter_map(|block| match block {
        ContentBlock::ToolCall { id, arguments, .. } => Some((id.as_str(), arguments)),
        _ => None,
    });
    calls.collect()
}

#[track_caller]
fn refused(payloads: &[Value], why: &str) {
    match events(payloads) {
        Err(LlmError::Decode(message)) => assert!(message.contains(why), "{message}"),
        other => panic!("not refused: {other:?}"),
    }
}

fn replay(body: &[u8]) -> Result<Completion, LlmError> {
    drive::replay(state(), body)
}

#[test]
fn reasoning_a_message_and_a_call_keep_what_it_takes_to_send_them_back() {
    let body =
        include_bytes!("../../../../tests/fixtures/openai-responses/reasoning_then_call.sse");
    let completion = replay(body).unwrap();
    assert_eq!(completion.finish, FinishReason::ToolUse);
    let item = json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "U0VBTEVELTE="});
    let phase = json!({"id": "msg_1", "phase": "commentary"});
    assert_eq!(
        completion.blocks,
        [
            ContentBlock::Reasoning { text: String::new(), meta: Some(own(item)) },
            ContentBlock::Text { text: "I look at the harbour.".into(), meta: Some(own(phase)) },
            ContentBlock::ToolCall {
                id: "call_1".into(),
                name: "tide".into(),
                arguments: json!({"port": "Bergen"}),
                meta: Some(own(json!({"id": "fc_1"}))),
            },
        ]
    );
}

#[test]
fn an_answer_that_met_its_token_limit_says_so_however_whole_its_call_looks() {
    let limit = json!({"incomplete_details": {"reason": "max_output_tokens"}});
    let events = [added(0, call("")), done(0, call("{}")), ended("incomplete", limit)];
    let completion = complete(&events);
    assert_eq!(completion.finish, FinishReason::MaxTokens);
    assert_eq!(completion.raw.as_deref(), Some("max_output_tokens"));
    assert_eq!(calls(&completion), [("call_1", &json!({}))]);
    assert_eq!(completion.commit(), None);
}

#[test]
fn every_end_has_its_reason() {
    let incomplete = |reason: &str| {
        ended(
            "incomplete",
            json!({"status": "incomplete", "incomplete_details": {"reason": reason}}),
        )
    };
    for (end, want) in [
        (completed(), FinishReason::EndTurn),
        (incomplete("max_output_tokens"), FinishReason::MaxTokens),
        (incomplete("content_filter"), FinishReason::Refusal),
        (incomplete("steered"), FinishReason::Other("steered".into())),
        (ended("incomplete", json!({})), FinishReason::Other("incomplete".into())),
        (ended("cancelled", json!({})), FinishReason::Other("cancelled".into())),
        (incomplete("completed"), FinishReason::Other("completed".into())),
        (ended("completed", json!("odd")), FinishReason::EndTurn),
        // What the response says of itself counts more than the name of its event.
        (
            ended(
                "completed",
                json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
            ),
            FinishReason::MaxTokens,
        ),
        (ended("completed", json!({"status": "in_progress"})), FinishReason::EndTurn),
    ] {
        let shown = end.to_string();
        assert_eq!(complete(&[said(0, "x"), end]).finish, want, "{shown}");
    }
}

#[test]
fn a_refusal_is_text_and_no_ordinary_end() {
    let refusal = json!({"type": "response.refusal.delta", "output_index": 0, "delta": "No."});
    let completion = complete(&[refusal, completed()]);
    assert_eq!(completion.finish, FinishReason::Refusal);
    let meta = Some(own(json!({"refusal": true})));
    assert_eq!(completion.blocks, [ContentBlock::Text { text: "No.".into(), meta }]);
}

#[test]
fn words_and_arguments_that_were_not_streamed_are_taken_from_the_finished_item() {
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    let completion = complete(&[
        done(0, message("Yes.")),
        done(1, call(r#"{"a":1}"#)),
        done(2, refusal),
        completed(),
    ]);
    assert_eq!(
        completion.blocks,
        [
            ContentBlock::text("Yes."),
            ContentBlock::ToolCall {
                id: "call_1".into(),
                name: "f".into(),
                arguments: json!({"a": 1}),
                meta: Some(own(json!({"id": "fc_1"}))),
            },
            ContentBlock::Text { text: "No.".into(), meta: Some(own(json!({"refusal": true}))) },
        ]
    );
}

#[test]
fn what_was_streamed_is_not_said_again() {
    let whole = json!({"type": "response.function_call_arguments.done", "output_index": 1, "arguments": "{}"});
    let completion = complete(&[
        said(0, "Yes."),
        done(0, message("Yes.")),
        added(1, call("")),
        arguments(1, "{}"),
        whole.clone(),
        done(1, call("{}")),
        added(2, json!({"type": "function_call", "call_id": "call_2", "name": "g"})),
        json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"b\":2}"}),
        done(2, json!({"type": "function_call", "call_id": "call_2", "arguments": "{\"b\":2}"})),
        completed(),
    ]);
    assert_eq!(completion.blocks[0], ContentBlock::text("Yes."));
    assert_eq!(calls(&completion), [("call_1", &json!({})), ("call_2", &json!({"b": 2}))]);
}

#[test]
fn a_new_part_of_a_summary_is_a_new_paragraph() {
    let completion =
        complete(&[summed_up(0, "a"), summed_up(0, "b"), summed_up(1, "c"), completed()]);
    let text = "ab\n\nc".to_owned();
    assert_eq!(completion.blocks, [ContentBlock::Reasoning { text, meta: None }]);
}

#[test]
fn reasoning_that_is_streamed_and_summed_up_is_shown_once() {
    for (events, want) in [
        ([thought("deep"), summed_up(0, "short"), completed()], "deep"),
        ([summed_up(0, "short"), thought("deep"), completed()], "short"),
    ] {
        let text = want.to_owned();
        let shown = complete(&events).blocks;
        assert_eq!(shown, [ContentBlock::Reasoning { text, meta: None }]);
    }
}

#[test]
fn the_state_of_reasoning_is_that_of_the_finished_item() {
    let item =
        |sealed: &str| json!({"type": "reasoning", "id": "rs_1", "encrypted_content": sealed});
    let half = complete(&[added(0, item("half")), said(1, "x"), completed()]);
    assert_eq!(half.blocks, [ContentBlock::text("x")]);
    let whole = complete(&[added(0, item("half")), done(0, item("whole")), completed()]);
    let meta = Some(own(item("whole")));
    assert_eq!(whole.blocks, [ContentBlock::Reasoning { text: String::new(), meta }]);
}

#[test]
fn blocks_stand_in_the_order_in_which_their_items_were_announced() {
    let completion = complete(&[
        added(0, json!({"type": "message", "id": "msg_1"})),
        added(1, call("")),
        arguments(1, "{}"),
        said(0, "first"),
        completed(),
    ]);
    let kinds: Vec<_> = completion.blocks.iter().map(ContentBlock::kind).collect();
    assert_eq!(kinds, ["text", "tool_call"]);
}

#[test]
fn the_parts_of_a_message_are_blocks_with_the_id_of_the_message() {
    let part = |part: u64, text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": part, "delta": text});
    let item = json!({"type": "message", "id": "msg_1", "content": []});
    let events = [part(0, "a"), part(1, "b"), part(0, "A"), done(0, item), completed()];
    let text = |text: &str| ContentBlock::Text {
        text: text.into(),
        meta: Some(own(json!({"id": "msg_1"}))),
    };
    assert_eq!(complete(&events).blocks, [text("aA"), text("b")]);
}

#[test]
fn an_unknown_item_is_kept_as_it_was_when_it_was_done() {
    let item = json!({"type": "brand_new", "id": "x", "deep": [1, {"a": null}]});
    let completion = complete(&[
        added(0, json!({"type": "brand_new", "status": "in_progress"})),
        json!({"type": "response.brand_new.delta", "output_index": 0, "delta": "?"}),
        done(0, item.clone()),
        added(1, json!({"type": "brand_new"})),
        completed(),
    ]);
    assert_eq!(completion.blocks, [ContentBlock::Opaque { meta: own(item) }]);
}

#[test]
fn items_without_numbers_are_told_apart_by_their_ids() {
    let body = include_bytes!("../../../../tests/fixtures/openai-responses/no_numbers.sse");
    let completion = replay(body).unwrap();
    let (kiel, riga) = (json!({"port": "Kiel"}), json!({"port": "Riga"}));
    assert_eq!(calls(&completion), [("fc_1", &kiel), ("fc_2", &riga)]);
}

#[test]
fn items_without_numbers_and_ids_are_told_apart_by_their_order() {
    let added = |item: Value| json!({"type": "response.output_item.added", "item": item});
    let done = |item: Value| json!({"type": "response.output_item.done", "item": item});
    let said = |text: &str| json!({"type": "response.output_text.delta", "delta": text});
    let arguments =
        |text: &str| json!({"type": "response.function_call_arguments.delta", "delta": text});
    let call = |name: &str| json!({"type": "function_call", "name": name});
    let completion = complete(&[
        said("He"),
        said("llo"),
        added(call("f")),
        arguments("{\"a\""),
        arguments(":1}"),
        added(call("g")),
        done(call("g")),
        done(call("h")),
        completed(),
    ]);
    assert_eq!(completion.blocks[0], ContentBlock::text("Hello"));
    let (a, none) = (json!({"a": 1}), json!({}));
    let want = [("made_1", &a), ("made_2", &none), ("made_3", &none)];
    assert_eq!(calls(&completion), want);
}

#[test]
fn a_number_counts_and_an_id_does_not_tell_two_items_of_it_apart() {
    let body = include_bytes!("../../../../tests/fixtures/openai-responses/changing_ids.sse");
    let completion = replay(body).unwrap();
    assert_eq!(completion.blocks.len(), 3);
    assert_eq!(calls(&completion), [("call_z", &json!({"hours": 4}))]);
}

#[test]
fn a_number_may_be_used_again_once_its_item_is_done() {
    let other = json!({"type": "function_call", "call_id": "call_2", "name": "g", "arguments": "{\"b\":2}"});
    let first = || done(0, call("{\"a\":1}"));
    for events in [
        vec![first(), added(0, other.clone()), done(0, other.clone()), completed()],
        vec![first(), done(0, other.clone()), completed()],
        vec![first(), first(), done(0, other.clone()), completed()],
    ] {
        let completion = complete(&events);
        let (a, b) = (json!({"a": 1}), json!({"b": 2}));
        assert_eq!(calls(&completion), [("call_1", &a), ("call_2", &b)]);
    }
}

#[test]
fn a_call_starts_with_its_name_however_late_it_comes() {
    let completion =
        complete(&[arguments(0, "{\"a\""), arguments(0, ":1}"), done(0, call("")), completed()]);
    assert_eq!(calls(&completion), [("call_1", &json!({"a": 1}))]);
}

#[test]
fn a_call_without_a_name_is_refused_where_it_would_run() {
    let nameless = || json!({"type": "function_call", "call_id": "call_9"});
    refused(&[done(0, nameless()), completed()], "no name");
    refused(&[added(0, nameless()), done(1, call("{}")), completed()], "no name");
    let limit = json!({"incomplete_details": {"reason": "max_output_tokens"}});
    let cut = complete(&[added(0, nameless()), ended("incomplete", limit)]);
    assert_eq!((cut.finish, cut.blocks), (FinishReason::MaxTokens, vec![]));
}

#[test]
fn a_missing_or_repeated_call_id_is_made() {
    let call = |id: Value| json!({"type": "function_call", "call_id": id, "name": "f"});
    let completion = complete(&[
        done(0, call("a".into())),
        done(1, call("a".into())),
        done(2, call(Value::Null)),
        completed(),
    ]);
    let ids: Vec<_> = calls(&completion).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["a", "made_1", "made_2"]);
}

#[test]
fn arguments_may_be_an_object() {
    let item = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}});
    assert_eq!(calls(&complete(&[done(0, item), completed()])), [("c", &json!({"a": 1}))]);
}

#[test]
fn an_item_takes_no_content_of_another_kind() {
    refused(&[added(0, call("")), said(0, "x")], "got text");
    refused(&[said(0, "x"), thought("y")], "got reasoning");
    refused(&[said(0, "x"), arguments(0, "{}")], "got arguments");
    refused(&[said(0, "x"), done(0, call("{}"))], "got function_call");
    refused(&[said(0, "x"), added(0, json!({"type": "reasoning"}))], "got reasoning");
    refused(&[done(0, message("x")), said(0, "y")], "got text");
}

#[test]
fn input_served_by_caches_is_counted_apart() {
    let usage = |usage: Value| {
        let end = ended("completed", json!({"usage": usage}));
        complete(&[said(0, "x"), end]).usage
    };
    let told = usage(json!({
        "input_tokens": 100, "output_tokens": 7,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens_details": {"reasoning_tokens": 5},
    }));
    let want =
        Usage { input: Some(10), output: Some(7), cache_read: Some(60), cache_write: Some(30) };
    assert_eq!(told, want);
    assert_eq!(usage(Value::Null), Usage::default());
    let plain = usage(json!({"input_tokens": 100, "output_tokens": 7}));
    assert_eq!(plain, Usage { input: Some(100), output: Some(7), ..Usage::default() });
}

#[test]
fn a_failed_answer_is_an_error_with_the_servers_kind() {
    let failed = |response| events(&[said(0, "x"), ended("failed", response)]).unwrap_err();
    let error =
        failed(json!({"error": {"code": "rate_limit_exceeded", "message": "try again in 2s"}}));
    assert!(matches!(error, LlmError::Api { ref kind, .. } if kind == "rate_limit_exceeded"));
    assert!(error.is_retryable());
    let error = failed(json!({"error": {"code": "insufficient_quota", "message": "no money"}}));
    assert!(!error.is_retryable());
    for silent in [json!({}), json!({"error": null}), Value::Null] {
        let error = failed(silent);
        assert!(matches!(error, LlmError::Api { ref kind, .. } if kind == "failed"), "{error:?}");
    }
    let hidden = ended("completed", json!({"error": {"code": "server_error", "message": "oh"}}));
    assert!(events(&[hidden]).unwrap_err().is_retryable());
}

#[test]
fn an_error_is_recognised_wherever_it_says_what_it_is() {
    for (event, data) in [
        (None, json!({"type": "error", "code": "server_error", "message": "oh"})),
        (None, json!({"type": "error", "error": {"code": "server_error", "message": "oh"}})),
        (None, json!({"error": {"code": "server_error", "message": "oh"}})),
        (Some("error"), json!({"code": "server_error", "message": "oh"})),
    ] {
        let frame = SseFrame { event, data: &data.to_string() };
        let error = state().on_sse(frame, &mut Vec::new()).unwrap_err();
        let LlmError::Api { kind, message, .. } = error else { panic!("{error:?}") };
        assert_eq!((kind.as_str(), message.as_str()), ("server_error", "oh"), "{data}");
    }
}

#[test]
fn the_name_of_an_event_counts_where_its_data_has_no_type() {
    let mut out = Vec::new();
    let mut state = state();
    let data = json!({"output_index": 0, "delta": "x"}).to_string();
    let frame = SseFrame { event: Some("response.output_text.delta"), data: &data };
    state.on_sse(frame, &mut out).unwrap();
    assert_eq!(out, [StreamEvent::Text { block: 0, text: "x".into() }]);
}

#[test]
fn an_unknown_event_of_any_shape_is_ignored() {
    let known = complete(&[said(0, "x"), completed()]);
    for unknown in [
        json!({"type": "response.brand_new.delta", "delta": {"deep": [1]}, "output_index": "x"}),
        json!({"type": "keepalive", "sequence_number": 4}),
        json!({"type": 5}),
        json!({}),
        json!({"type": "response.output_item.added"}),
        json!({"type": "response.output_item.done", "item": null}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": "odd"}),
    ] {
        assert_eq!(complete(&[said(0, "x"), unknown.clone(), completed()]), known, "{unknown}");
    }
}

#[test]
fn nothing_counts_after_the_last_event() {
    let events = events(&[said(0, "x"), completed(), said(0, "y"), completed()]).unwrap();
    assert_eq!(events.len(), 2);
    assert!(matches!(events[1], StreamEvent::Finish { .. }));
}

#[test]
fn a_stream_without_its_last_event_broke_off() {
    assert!(matches!(events(&[said(0, "x")]), Err(LlmError::UnexpectedEof)));
    assert!(matches!(events(&[]), Err(LlmError::UnexpectedEof)));
    let body = include_bytes!("../../../../tests/fixtures/openai-responses/broken_off.sse");
    assert!(matches!(replay(body), Err(LlmError::UnexpectedEof)));
}

#[test]
fn broken_json_is_refused_and_half_a_character_is_not() {
    let mut out = Vec::new();
    let half = r#"{"type":"response.output_text.delta","output_index":0,"delta":"\ud83d"}"#;
    state().on_sse(SseFrame { event: None, data: half }, &mut out).unwrap();
    assert_eq!(out, [StreamEvent::Text { block: 0, text: "\u{fffd}".into() }]);
    let broken = SseFrame { event: None, data: "{\"type\":" };
    assert!(matches!(state().on_sse(broken, &mut out), Err(LlmError::Decode(_))));
}
