//! What each field of a chunk means, row by row.

use std::fmt::Display;

use serde_json::{Value, json};

use super::*;
use crate::builder::Completion;
use crate::providers::drive;
use crate::types::{ContentBlock, ProviderMeta};

fn state() -> ChatStreamState {
    ChatStreamState::new(drive::made_ids())
}

fn events(payloads: &[impl Display]) -> Result<Vec<StreamEvent>, LlmError> {
    drive::events(state(), payloads)
}

fn complete(payloads: &[impl Display]) -> Completion {
    drive::complete(state(), payloads).unwrap()
}

/// A chunk with this delta.
fn chunk(delta: Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn end(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn text(text: &str) -> String {
    chunk(json!({"content": text}))
}

fn call(delta: Value) -> String {
    chunk(json!({"tool_calls": [delta]}))
}

fn replay(body: &[u8]) -> Completion {
    drive::replay(state(), body).unwrap()
}

fn calls(completion: Completion) -> Vec<(String, String, Value)> {
    assert_eq!(completion.finish, FinishReason::ToolUse);
    let message = completion.commit().unwrap();
    let call = message.tool_calls();
    call.map(|call| (call.id.to_owned(), call.name.to_owned(), call.arguments.clone())).collect()
}

#[track_caller]
fn check_calls(deltas: &[Value], want: &[(&str, &str, Value)]) {
    let mut payloads: Vec<String> = deltas.iter().cloned().map(call).collect();
    payloads.push(end("tool_calls"));
    let want: Vec<_> = want
        .iter()
        .map(|(id, name, args)| (id.to_string(), name.to_string(), args.clone()))
        .collect();
    assert_eq!(calls(complete(&payloads)), want);
}

#[track_caller]
fn refused(payloads: &[impl Display], why: &str) {
    match events(payloads) {
        Err(LlmError::Decode(message)) => assert!(message.contains(why), "{message}"),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn two_parallel_calls_collect_with_their_arguments() {
    let body = include_bytes!("../../../../tests/fixtures/openai-chat/two_tools.sse");
    let completion = replay(body);
    // 90 prompt tokens, 64 of them cached.
    assert_eq!(completion.usage.input, Some(26));
    let wanted = [("call_a", json!({"city": "Oslo"})), ("call_b", json!({"city": "Lima"}))];
    let wanted = wanted.map(|(id, args)| (id.to_owned(), "get_weather".to_owned(), args));
    assert_eq!(calls(completion), wanted);
}

#[test]
fn a_local_servers_answer_collects_with_its_reasoning() {
    let body = include_bytes!("../../../../tests/fixtures/openai-chat/local_reasoning.sse");
    let completion = replay(body);
    let ContentBlock::Reasoning { text, meta: Some(meta) } = &completion.blocks[0] else {
        panic!("no reasoning: {:?}", completion.blocks)
    };
    assert_eq!(
        (text.as_str(), &meta.data),
        ("The user wants the time.", &json!({"field": "reasoning"}))
    );
    assert_eq!(calls(completion), [("call_q".to_owned(), "now".to_owned(), json!({}))]);
}

#[test]
fn calls_without_ids_reason_or_end_mark_still_run_under_ids_of_their_own() {
    let body = include_bytes!("../../../../tests/fixtures/openai-chat/no_ids_no_mark.sse");
    let ids: Vec<String> = calls(replay(body)).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["made_1", "made_2"]);
}

#[test]
fn chunks_without_content_mean_nothing() {
    for nothing in [
        "{}",
        r#"{"choices":null}"#,
        r#"{"choices":{}}"#,
        r#"{"choices":[],"prompt_filter_results":[{"a":1}]}"#,
        r#"{"choices":[null,{}]}"#,
        r#"{"choices":[{"delta":null}]}"#,
        r#"{"choices":[{"delta":{"role":"assistant","content":null,"refusal":"","tool_calls":null}}]}"#,
        r#"{"choices":[{"delta":{"content":5,"reasoning":{"a":1},"tool_calls":[null,"x"]}}]}"#,
        r#"{"choices":[{"index":0,"message":{"content":"all of it again"}}],"obfuscation":"xx"}"#,
        r#"{"error":null,"usage":null,"x_groq":{"id":"r"}}"#,
        "keep-alive",
        "[]",
        "",
    ] {
        let completion = complete(&[nothing.to_owned(), text("ok"), end("stop")]);
        assert_eq!(completion.blocks, [ContentBlock::text("ok")], "{nothing}");
        assert_eq!(completion.usage, Usage::default());
    }
}

#[test]
fn only_the_first_choice_counts() {
    let other = r#"{"choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"length"},
        {"index":0,"delta":{"content":"A"}}]}"#;
    let completion = complete(&[other.to_owned(), end("stop")]);
    assert_eq!(
        (completion.blocks, completion.finish),
        (vec![ContentBlock::text("A")], FinishReason::EndTurn)
    );
}

#[test]
fn a_list_of_parts_gives_text_and_reasoning() {
    let parts = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "thinking", "thinking": "."},
        {"type": "text", "text": "so"},
        {"type": "reference", "reference_ids": [1]},
        null,
    ]);
    let completion = complete(&[chunk(json!({"content": parts})), end("stop")]);
    let meta = ProviderMeta { provider: DIALECT.to_owned(), data: json!({"field": "content"}) };
    let reasoning = ContentBlock::Reasoning { text: "hm.".to_owned(), meta: Some(meta) };
    assert_eq!(completion.blocks, [reasoning, ContentBlock::text("so")]);
}

#[track_caller]
fn check_reasoning(deltas: &[Value], want_text: &str, want_data: Value) {
    let mut payloads: Vec<String> = deltas.iter().cloned().map(chunk).collect();
    payloads.extend([text("answer"), end("stop")]);
    let completion = complete(&payloads);
    let meta = ProviderMeta { provider: DIALECT.to_owned(), data: want_data };
    let reasoning = ContentBlock::Reasoning { text: want_text.to_owned(), meta: Some(meta) };
    assert_eq!(completion.blocks, [reasoning, ContentBlock::text("answer")]);
}

#[test]
fn reasoning_is_taken_from_the_first_field_that_has_any() {
    for field in ["reasoning_content", "reasoning", "reasoning_text"] {
        check_reasoning(&[json!({field: "hm", "content": ""})], "hm", json!({"field": field}));
    }
    check_reasoning(
        &[json!({"reasoning_content": "", "reasoning": "hm", "reasoning_text": "hm"})],
        "hm",
        json!({"field": "reasoning"}),
    );
}

#[test]
fn details_are_joined_by_index_and_their_text_is_not_shown_twice() {
    check_reasoning(
        &[
            json!({"reasoning": "a", "reasoning_details": [
                {"type": "reasoning.text", "text": "a", "format": "f", "index": 0}]}),
            json!({"reasoning": "b", "reasoning_details": [
                {"type": "reasoning.text", "text": "b", "format": null, "index": 0}]}),
            json!({"reasoning_details": [
                {"type": "reasoning.text", "signature": "s", "index": 0},
                {"type": "reasoning.encrypted", "data": "e1", "index": 0},
                {"type": "reasoning.encrypted", "data": "e2", "index": 0}]}),
        ],
        "ab",
        json!({"field": "reasoning", "reasoning_details": [
            {"type": "reasoning.text", "text": "ab", "format": "f", "index": 0, "signature": "s"},
            {"type": "reasoning.encrypted", "data": "e1", "index": 0},
            {"type": "reasoning.encrypted", "data": "e2", "index": 0}]}),
    );
}

#[test]
fn details_alone_show_their_text_and_have_no_field() {
    check_reasoning(
        &[
            json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "su"}]}),
            json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "m"}, 5]}),
        ],
        "sum",
        json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "sum"}]}),
    );
    check_reasoning(
        &[json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "e"}]})],
        "",
        json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "e"}]}),
    );
}

#[test]
fn the_field_of_the_text_is_known_even_when_details_came_first() {
    let detail = json!({"type": "reasoning.encrypted", "data": "e"});
    check_reasoning(
        &[json!({"reasoning_details": [detail]}), json!({"reasoning": "hm"})],
        "hm",
        json!({"field": "reasoning", "reasoning_details": [detail]}),
    );
}

#[test]
fn text_before_and_after_a_call_stays_apart() {
    let completion = complete(&[
        text("a"),
        call(json!({"index": 0, "id": "c", "function": {"name": "f"}})),
        text("b"),
        end("tool_calls"),
    ]);
    let kinds: Vec<&str> = completion.blocks.iter().map(ContentBlock::kind).collect();
    assert_eq!(kinds, ["text", "tool_call", "text"]);
}

#[test]
fn details_without_an_index_never_go_on_in_another_block() {
    let details = |text: &str| {
        let detail = json!({"type": "reasoning.text", "text": text});
        chunk(json!({"reasoning": text, "reasoning_details": [detail]}))
    };
    let completion = complete(&[details("a"), details("b"), text("x"), details("c"), end("stop")]);
    let data = |block: &ContentBlock| match block {
        ContentBlock::Reasoning { meta: Some(meta), .. } => {
            meta.data["reasoning_details"][0]["text"].clone()
        }
        other => panic!("no reasoning: {other:?}"),
    };
    assert_eq!([data(&completion.blocks[0]), data(&completion.blocks[2])], ["ab", "c"]);
}

#[test]
fn details_stay_at_the_block_they_came_with() {
    let details = |text: &str, index: u32| {
        json!({"reasoning": text, "reasoning_details": [
        {"type": "reasoning.text", "text": text, "index": index}]})
    };
    let late =
        json!({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]});
    let completion = complete(&[
        chunk(details("a", 0)),
        text("x"),
        chunk(details("b", 1)),
        chunk(late),
        end("stop"),
    ]);
    let data = |block: &ContentBlock| match block {
        ContentBlock::Reasoning { meta: Some(meta), .. } => meta.data["reasoning_details"].clone(),
        other => panic!("no reasoning: {other:?}"),
    };
    let first = json!([{"type": "reasoning.text", "text": "a", "index": 0, "signature": "s"}]);
    let second = json!([{"type": "reasoning.text", "text": "b", "index": 1}]);
    assert_eq!([data(&completion.blocks[0]), data(&completion.blocks[2])], [first, second]);
}

#[test]
fn a_refusal_is_text_and_turns_a_stop_into_a_refusal() {
    let refusal = chunk(json!({"refusal": "I can't."}));
    let completion = complete(&[refusal.clone(), end("stop")]);
    assert_eq!(completion.blocks, [ContentBlock::text("I can't.")]);
    assert_eq!(completion.finish, FinishReason::Refusal);
    let with_call = complete(&[
        refusal,
        call(json!({"index": 0, "id": "c", "function": {"name": "f"}})),
        end("stop"),
    ]);
    assert_eq!(with_call.finish, FinishReason::Refusal, "a refusal runs nothing");
}

#[test]
fn deltas_go_to_the_call_with_their_index() {
    check_calls(
        &[
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}),
            json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{\"y\":"}}),
            json!({"index": 0, "id": "", "function": {"name": "", "arguments": "1}"}}),
            json!({"index": 1, "id": null, "function": {"name": null, "arguments": "2}"}}),
            json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}}),
            json!({"index": 0, "id": "late", "function": {}}),
            json!({"index": 0}),
        ],
        &[("a", "f", json!({"x": 1})), ("b", "g", json!({"y": 2}))],
    );
}

#[test]
fn without_an_index_the_id_or_the_name_tells_the_calls_apart() {
    check_calls(
        &[
            json!({"id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}),
            json!({"function": {"arguments": "1"}}),
            json!({"id": "b", "function": {"name": "g", "arguments": "{\"y\":2}"}}),
            json!({"id": "a", "function": {"arguments": "}"}}),
            json!({"function": {"name": "h"}}),
        ],
        &[("a", "f", json!({"x": 1})), ("b", "g", json!({"y": 2})), ("made_1", "h", json!({}))],
    );
}

#[test]
fn an_index_that_comes_back_with_another_id_and_a_name_is_another_call() {
    check_calls(
        &[
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}),
            json!({"index": 0, "id": "b", "function": {"name": "f", "arguments": "{\"x\":"}}),
            json!({"index": 0, "function": {"arguments": "2}"}}),
        ],
        &[("a", "f", json!({"x": 1})), ("b", "f", json!({"x": 2}))],
    );
}

#[test]
fn two_calls_with_one_id_get_two_ids() {
    check_calls(
        &[
            json!({"index": 0, "id": "a", "function": {"name": "f"}}),
            json!({"index": 1, "id": "a", "function": {"name": "g"}}),
        ],
        &[("a", "f", json!({})), ("made_1", "g", json!({}))],
    );
}

#[test]
fn a_call_waits_for_its_name_and_keeps_its_place() {
    let completion = complete(&[
        call(json!({"index": 0, "id": "a", "function": {"arguments": "{\"x\":"}})),
        text("meanwhile"),
        call(json!({"index": 0, "function": {"name": "f", "arguments": "1}"}})),
        end("tool_calls"),
    ]);
    let kinds: Vec<&str> = completion.blocks.iter().map(ContentBlock::kind).collect();
    assert_eq!(kinds, ["tool_call", "text"]);
    assert_eq!(calls(completion), [("a".to_owned(), "f".to_owned(), json!({"x": 1}))]);
}

#[test]
fn a_call_that_never_gets_a_name_is_refused_unless_the_answer_was_cut() {
    let nameless = call(json!({"index": 0, "id": "a", "function": {"arguments": "{}"}}));
    refused(&[nameless.clone(), end("tool_calls")], "no name");
    refused(&[nameless.clone(), end("stop")], "no name");
    let cut = complete(&[text("x"), nameless, end("length")]);
    assert_eq!((cut.blocks, cut.finish), (vec![ContentBlock::text("x")], FinishReason::MaxTokens));
}

#[test]
fn arguments_may_be_an_object_null_or_pieces_of_any_type() {
    check_calls(
        &[
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": [1, "b"]}}}),
            json!({"index": 1, "id": "b", "function": {"name": "f", "arguments": null}}),
            json!({"index": 2, "id": "c", "function": {"name": "f", "arguments": "{\"x\":"}}),
            json!({"index": 2, "function": {"arguments": 5}}),
            json!({"index": 2, "function": {"arguments": "}"}}),
        ],
        &[("a", "f", json!({"x": [1, "b"]})), ("b", "f", json!({})), ("c", "f", json!({"x": 5}))],
    );
}

#[test]
fn a_hostile_index_allocates_nothing_and_a_negative_one_is_none() {
    check_calls(
        &[
            json!({"index": u64::MAX, "id": "a", "function": {"name": "f"}}),
            json!({"index": -1, "id": "b", "function": {"name": "g"}}),
        ],
        &[("a", "f", json!({})), ("b", "g", json!({}))],
    );
}

#[track_caller]
fn check_reason(raw: &str, native: Option<&str>, called: bool, want: FinishReason) {
    let mut payloads = vec![text("x")];
    if called {
        payloads.push(call(json!({"index": 0, "id": "a", "function": {"name": "f"}})));
    }
    payloads.push(
        json!({"choices": [{"finish_reason": raw, "native_finish_reason": native}]}).to_string(),
    );
    let completion = complete(&payloads);
    assert_eq!(
        (completion.finish, completion.raw.as_deref()),
        (want, Some(raw)),
        "{raw} {native:?}"
    );
}

#[test]
fn every_finish_reason_is_mapped_and_an_unknown_one_is_never_a_normal_end() {
    for raw in ["stop", "eos", "end_turn", "tool_calls", "function_call", "tool_use"] {
        check_reason(raw, None, true, FinishReason::ToolUse);
        check_reason(raw, None, false, FinishReason::EndTurn);
    }
    for raw in ["length", "max_tokens", "model_length"] {
        check_reason(raw, None, true, FinishReason::MaxTokens);
    }
    for raw in ["content_filter", "sensitive"] {
        check_reason(raw, None, true, FinishReason::Refusal);
    }
    check_reason("tired", None, true, FinishReason::Other("tired".to_owned()));
}

#[test]
fn a_truncation_that_a_gateway_relabelled_is_a_truncation() {
    for native in ["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"] {
        check_reason("tool_calls", Some(native), true, FinishReason::MaxTokens);
        check_reason("stop", Some(native), false, FinishReason::MaxTokens);
    }
    check_reason("tool_calls", Some("completed"), true, FinishReason::ToolUse);
    check_reason("content_filter", Some("length"), true, FinishReason::Refusal);
}

#[test]
fn a_reason_that_is_an_error_fails_the_answer() {
    let native =
        json!({"choices": [{"finish_reason": "stop", "native_finish_reason": "network_error"}]});
    for last in [end("error"), end("insufficient_system_resource"), native.to_string()] {
        let error = events(&[text("x"), last.clone(), DONE.to_owned()]).unwrap_err();
        assert!(matches!(error, LlmError::Api { .. }), "{last}: {error:?}");
    }
}

#[test]
fn the_reason_does_not_end_the_answer() {
    let usage =
        |tokens: u64| json!({"choices": [], "usage": {"prompt_tokens": tokens}}).to_string();
    let completion = complete(&[
        text("a"),
        end("stop"),
        text("b"),
        end("stop"),
        usage(5),
        json!({"choices": [{"finish_reason": ""}]}).to_string(),
        usage(7),
        DONE.to_owned(),
    ]);
    assert_eq!(completion.blocks, [ContentBlock::text("ab")]);
    assert_eq!(completion.usage, Usage { input: Some(7), ..Usage::default() });
}

#[test]
fn only_the_last_usage_counts_and_it_counts_whole() {
    let usage = |usage: Value| json!({"choices": [{"delta": {}}], "usage": usage}).to_string();
    let completion = complete(&[
        usage(json!({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}})),
        usage(json!({"prompt_tokens": 100})),
        usage(json!({})),
        usage(Value::Null),
        end("stop"),
    ]);
    assert_eq!(completion.usage, Usage { input: Some(100), ..Usage::default() });
}

#[test]
fn usage_may_sit_in_the_choice_or_in_a_field_of_the_servers_own() {
    for place in [
        json!({"choices": [{"usage": {"completion_tokens": 3}}]}),
        json!({"choices": [], "x_groq": {"usage": {"completion_tokens": 3}}}),
    ] {
        let completion = complete(&[place.to_string(), end("stop")]);
        assert_eq!(completion.usage, Usage { output: Some(3), ..Usage::default() }, "{place}");
    }
}

#[test]
fn an_end_needs_a_reason_or_an_end_mark_after_something() {
    assert_eq!(complete(&[text("x"), DONE.to_owned()]).finish, FinishReason::EndTurn);
    assert_eq!(complete(&[text("x"), " [DONE] ".to_owned()]).finish, FinishReason::EndTurn);
    assert_eq!(complete(&[end("stop")]).finish, FinishReason::EndTurn);
    let called = call(json!({"index": 0, "id": "a", "function": {"name": "f"}}));
    assert_eq!(complete(&[called, DONE.to_owned()]).finish, FinishReason::ToolUse);
    for broken_off in [vec![], vec![text("x")], vec![DONE.to_owned()]] {
        assert!(matches!(events(&broken_off), Err(LlmError::UnexpectedEof)), "{broken_off:?}");
    }
}

#[test]
fn nothing_after_the_end_mark_counts() {
    let done = || DONE.to_owned();
    let completion =
        complete(&[text("x"), end("stop"), done(), done(), text("y"), "{broken".to_owned()]);
    assert_eq!(completion.blocks, [ContentBlock::text("x")]);
}

#[test]
fn an_error_object_fails_the_answer_after_what_its_chunk_said() {
    let mut out = Vec::new();
    let data =
        r#"{"choices":[{"delta":{"content":"x"}}],"error":{"code":429,"message":"slow down"}}"#;
    let error = state().on_sse(SseFrame { event: None, data }, &mut out).unwrap_err();
    assert!(
        matches!(&error, LlmError::Api { message, status: Some(429), .. } if message == "slow down")
    );
    assert!(error.is_retryable());
    assert_eq!(out, [StreamEvent::Text { block: 0, text: "x".to_owned() }]);
}

#[test]
fn an_error_may_be_text_or_have_an_event_of_its_own() {
    let error = events(&[r#"{"error":"model runner has stopped"}"#]).unwrap_err();
    assert!(
        matches!(error, LlmError::Api { message, .. } if message == "model runner has stopped")
    );
    let frame = SseFrame { event: Some("error"), data: "no JSON at all" };
    let error = state().on_sse(frame, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, LlmError::Api { message, .. } if message == "no JSON at all"));
}

#[test]
fn half_a_character_becomes_the_replacement_character() {
    let halves = [
        r#"{"choices":[{"delta":{"content":"a\ud83d"}}]}"#,
        r#"{"choices":[{"delta":{"content":"\ude80b"}}]}"#,
    ];
    let completion = complete(&[halves[0].to_owned(), halves[1].to_owned(), end("stop")]);
    assert_eq!(completion.blocks, [ContentBlock::text("a\u{fffd}\u{fffd}b")]);
}

#[test]
fn broken_json_is_refused_and_quoted() {
    refused(&[r#"{"choices":[{"#], r#"{"choices":[{"#);
}

#[test]
fn nesting_without_end_is_survived() {
    let deep = "[".repeat(100_000);
    refused(&[format!(r#"{{"choices":[{{"delta":{{"content":{deep}"#)], "not valid JSON");
    let ignored = format!(r#"{{"unknown":{deep}{}}}"#, "]".repeat(100_000));
    let completion = complete(&[ignored, text("ok"), end("stop")]);
    assert_eq!(completion.blocks, [ContentBlock::text("ok")]);
    let thinking = r#"{"type":"thinking","thinking":["#.repeat(1_000);
    refused(&[format!(r#"{{"choices":[{{"delta":{{"content":[{thinking}"#)], "not valid JSON");
}

#[test]
fn held_arguments_that_grow_without_end_are_refused() {
    let delta =
        call(json!({"index": 0, "id": "a", "function": {"arguments": "x".repeat(1 << 20)}}));
    refused(&vec![delta; 33], "provider state");
}

#[test]
fn calls_that_open_without_end_are_refused() {
    let id = "i".repeat(1_000);
    let delta = |n: u32| call(json!({"index": n, "id": format!("{id}{n}")}));
    refused(&(0..20_000).map(delta).collect::<Vec<_>>(), "provider state");
}

#[test]
fn a_refusal_runs_nothing_whatever_the_answer_says_at_its_end() {
    let refusal = json!({"choices": [{"delta": {"refusal": "no"}}]}).to_string();
    let called = call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}));
    for reason in ["stop", "tool_calls"] {
        let completion = complete(&[refusal.clone(), called.clone(), end(reason)]);
        assert_eq!(completion.finish, FinishReason::Refusal, "{reason}");
    }
}

#[test]
fn an_answer_that_the_server_ended_with_an_error_may_be_asked_for_again() {
    for reason in ["error", "insufficient_system_resource", "network_error"] {
        let error = events(&[text("ok"), end(reason)]).unwrap_err();
        assert!(error.is_retryable(), "{reason}: {error}");
    }
}
