//! What each part and field of the protocol means, row by row.

use serde_json::json;

use super::*;
use crate::builder::Completion;
use crate::error::ErrorClass;
use crate::providers::drive;
use crate::stream::Usage;
use crate::types::ContentBlock;

fn state() -> GeminiStreamState {
    GeminiStreamState::new(drive::made_ids())
}

fn events(chunks: &[Value]) -> Result<Vec<StreamEvent>, LlmError> {
    drive::events(state(), chunks)
}

fn complete(chunks: &[Value]) -> Completion {
    drive::complete(state(), chunks).unwrap()
}

/// The blocks of an answer of these parts, each in a chunk of its own.
fn blocks(parts: &[Value]) -> Vec<ContentBlock> {
    let chunks: Vec<Value> =
        parts.iter().map(|part| parts_of(std::slice::from_ref(part))).collect();
    complete(&[&chunks[..], &[ended("STOP")]].concat()).blocks
}

fn parts_of(parts: &[Value]) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]})
}

fn ended(reason: &str) -> Value {
    json!({"candidates": [{"index": 0, "finishReason": reason}]})
}

fn call(name: &str, args: Value) -> Value {
    json!({"functionCall": {"name": name, "args": args}})
}

/// A piece of streamed arguments.
fn piece(path: &str, text: &str, will_continue: bool) -> Value {
    let piece = json!({"jsonPath": path, "stringValue": text, "willContinue": will_continue});
    json!({"functionCall": {"partialArgs": [piece], "willContinue": true}})
}

fn own(data: Value) -> Option<ProviderMeta> {
    Some(ProviderMeta { provider: "gemini".into(), data })
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::text(text)
}

fn signed(text: &str, signature: &str) -> ContentBlock {
    ContentBlock::Text { text: text.into(), meta: own(json!({"thoughtSignature": signature})) }
}

fn thought(text: &str, meta: Option<ProviderMeta>) -> ContentBlock {
    ContentBlock::Reasoning { text: text.into(), meta }
}

fn called(id: &str, name: &str, arguments: Value, meta: Option<ProviderMeta>) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: name.into(), arguments, meta }
}

#[track_caller]
fn refused(chunks: &[Value], why: &str) {
    match events(chunks) {
        Err(LlmError::Decode(message)) => assert!(message.contains(why), "{message}"),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn text_and_thoughts_are_joined_until_the_other_kind_comes() {
    let think = |text: &str| json!({"text": text, "thought": true});
    let say = |text: &str| json!({"text": text});
    let parts = [think("a"), think("b"), say("c"), say(""), say("d"), think("e"), say("f")];
    let want = [thought("ab", None), text("cd"), thought("e", None), text("f")];
    assert_eq!(blocks(&parts), want);
    assert_eq!(blocks(&[json!({"text": "t", "thought": false})]), [text("t")]);
}

#[test]
fn a_thought_ends_where_something_else_begins() {
    let parts = [json!({"text": "a", "thought": true}), json!({"text": "b"})];
    let events = events(&[parts_of(&parts), ended("STOP")]).unwrap();
    assert_eq!(events[1], StreamEvent::ReasoningDone { block: 0, meta: None });
    assert_eq!(events[2], StreamEvent::Text { block: 1, text: "b".into() });
}

#[test]
fn a_signed_part_shares_its_block_with_no_other() {
    let sign = |text: &str, signature: &str| json!({"text": text, "thoughtSignature": signature});
    let say = |text: &str| json!({"text": text});
    assert_eq!(
        blocks(&[say("a"), sign("b", "S"), say("c")]),
        [text("a"), signed("b", "S"), text("c")]
    );
    assert_eq!(blocks(&[sign("a", "S"), sign("b", "T")]), [signed("a", "S"), signed("b", "T")]);
}

#[test]
fn a_signature_without_text_is_a_block_of_its_own() {
    let carrier = json!({"text": "", "thoughtSignature": "S"});
    assert_eq!(blocks(&[json!({"text": "a"}), carrier]), [text("a"), signed("", "S")]);
    assert_eq!(blocks(&[json!({"thoughtSignature": "S"})]), [signed("", "S")]);
    let carrier = json!({"text": "", "thought": true, "thoughtSignature": "S"});
    let meta = own(json!({"thoughtSignature": "S"}));
    let parts = [json!({"text": "a", "thought": true}), carrier];
    assert_eq!(blocks(&parts), [thought("a", None), thought("", meta)]);
}

#[test]
fn a_call_keeps_its_own_signature_and_the_id_that_the_server_gave() {
    let parts = [
        json!({"functionCall": {"name": "w", "args": {"c": "Oslo"}, "id": "g1"}, "thoughtSignature": "S"}),
        call("w", json!({"c": "Lima"})),
    ];
    let meta = own(json!({"thoughtSignature": "S", "id": "g1"}));
    let want = [
        called("g1", "w", json!({"c": "Oslo"}), meta),
        called("made_1", "w", json!({"c": "Lima"}), None),
    ];
    assert_eq!(blocks(&parts), want);
}

#[test]
fn two_calls_in_one_answer_get_distinct_ids_whatever_the_server_says() {
    let same = json!({"functionCall": {"name": "w", "id": "same"}});
    let answer = complete(&[parts_of(&[same.clone(), same]), ended("STOP")]);
    assert_eq!(answer.finish, FinishReason::ToolUse);
    let meta = || own(json!({"id": "same"}));
    let want = [called("same", "w", json!({}), meta()), called("made_1", "w", json!({}), meta())];
    assert_eq!(answer.blocks, want);
}

#[test]
fn what_the_model_that_was_asked_is_called_stands_with_its_signatures_and_calls() {
    let parts = [json!({"text": "a", "thoughtSignature": "S"}), call("f", json!({}))];
    let events = drive::events(state().of_model("gemini-9"), &[parts_of(&parts), ended("STOP")]);
    let metas: Vec<Value> = events
        .unwrap()
        .into_iter()
        .filter_map(|event| match event {
            StreamEvent::TextMeta { meta, .. } | StreamEvent::ToolMeta { meta, .. } => {
                Some(meta.data)
            }
            _ => None,
        })
        .collect();
    let want =
        [json!({"thoughtSignature": "S", "model": "gemini-9"}), json!({"model": "gemini-9"})];
    assert_eq!(metas, want);
}

#[test]
fn arguments_may_be_missing_or_null_and_stay_raw_when_they_are_no_object() {
    let part = |fields: Value| {
        let mut call = json!({"name": "f"});
        call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "functionCall": call })
    };
    for fields in [json!({}), json!({"args": null}), json!({"args": {}})] {
        assert_eq!(blocks(&[part(fields)]), [called("made_1", "f", json!({}), None)]);
    }
    let raw = called("made_1", "f", json!("[1,2]"), None);
    assert_eq!(blocks(&[part(json!({"args": [1, 2]}))]), [raw]);
}

#[test]
fn streamed_arguments_become_one_object_and_end_with_the_closing_mark() {
    let parts = [
        json!({"functionCall": {"name": "w", "willContinue": true}, "thoughtSignature": "S"}),
        piece("$.city", "Bos", true),
        piece("$.city", "ton", true),
        piece("$.city", "", false),
        json!({"functionCall": {}}),
        json!({"functionCall": {"name": "w", "willContinue": true}}),
        piece("$.city", "Rome", false),
        json!({"functionCall": {}}),
        json!({"text": "done"}),
    ];
    let want = [
        called("made_1", "w", json!({"city": "Boston"}), own(json!({"thoughtSignature": "S"}))),
        called("made_2", "w", json!({"city": "Rome"}), None),
        text("done"),
    ];
    assert_eq!(blocks(&parts), want);
}

#[test]
fn a_new_call_or_the_end_closes_streamed_arguments_too() {
    let open = || json!({"functionCall": {"name": "w", "willContinue": true}});
    let parts = [open(), piece("$.a", "x", false), open(), piece("$.a", "y", false)];
    let want = [
        called("made_1", "w", json!({"a": "x"}), None),
        called("made_2", "w", json!({"a": "y"}), None),
    ];
    assert_eq!(blocks(&parts), want);
    let last = json!({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "boolValue": true}]}});
    let parts = [open(), last, json!({"functionCall": {}})];
    assert_eq!(blocks(&parts), [called("made_1", "w", json!({"a": true}), None)]);
}

#[test]
fn pieces_may_come_with_the_name_and_the_signature_with_a_piece() {
    let whole = json!({"name": "w", "args": {"a": 1}, "partialArgs": [{"jsonPath": "$.b", "numberValue": 2}]});
    let parts = [json!({"functionCall": whole})];
    assert_eq!(blocks(&parts), [called("made_1", "w", json!({"a": 1, "b": 2}), None)]);
    let parts = [
        json!({"functionCall": {"name": "w", "id": "g", "willContinue": true}}),
        json!({"functionCall": {}, "thoughtSignature": "S"}),
    ];
    let meta = own(json!({"id": "g", "thoughtSignature": "S"}));
    assert_eq!(blocks(&parts), [called("g", "w", json!({}), meta)]);
}

#[test]
fn a_piece_of_no_call_is_refused_but_not_a_mark_that_came_too_late() {
    refused(&[parts_of(&[piece("$.a", "x", false)])], "no name");
    refused(&[parts_of(&[json!({"functionCall": {"args": {}}})])], "no name");
    assert_eq!(blocks(&[json!({"functionCall": {}}), json!({"text": "a"})]), [text("a")]);
}

#[test]
fn parts_that_only_the_server_understands_are_kept_whole() {
    let code =
        json!({"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S"});
    let result = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}});
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thought": true});
    let opaque = |data: &Value| ContentBlock::Opaque { meta: own(data.clone()).unwrap() };
    let want = [opaque(&code), opaque(&result), opaque(&image), text("a")];
    assert_eq!(blocks(&[code, result, image, json!({"text": "a", "partMetadata": {}})]), want);
}

#[test]
fn every_finish_reason_has_its_meaning() {
    for (raw, want) in [
        ("STOP", FinishReason::EndTurn),
        ("MAX_TOKENS", FinishReason::MaxTokens),
        ("SAFETY", FinishReason::Refusal),
        ("RECITATION", FinishReason::Refusal),
        ("BLOCKLIST", FinishReason::Refusal),
        ("PROHIBITED_CONTENT", FinishReason::Refusal),
        ("SPII", FinishReason::Refusal),
        ("IMAGE_SAFETY", FinishReason::Refusal),
        ("IMAGE_PROHIBITED_CONTENT", FinishReason::Refusal),
        ("MODEL_ARMOR", FinishReason::Refusal),
        ("LANGUAGE", FinishReason::Other("LANGUAGE".into())),
        ("OTHER", FinishReason::Other("OTHER".into())),
        ("SOMETHING_NEW", FinishReason::Other("SOMETHING_NEW".into())),
    ] {
        let answer = complete(&[parts_of(&[json!({"text": "a"})]), ended(raw)]);
        assert_eq!((answer.finish, answer.raw.as_deref()), (want, Some(raw)));
    }
}

#[test]
fn only_a_stop_after_a_call_runs_tools() {
    let answer = |reason| complete(&[parts_of(&[call("f", json!({}))]), ended(reason)]);
    assert_eq!(answer("STOP").finish, FinishReason::ToolUse);
    for reason in ["MAX_TOKENS", "SAFETY", "OTHER"] {
        assert_eq!(answer(reason).commit(), None, "{reason}");
    }
}

#[test]
fn a_failed_sample_is_an_error_that_may_be_tried_again() {
    for reason in [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
    ] {
        let error = events(&[parts_of(&[call("f", json!({}))]), ended(reason)]).unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert!(matches!(error, LlmError::Api { kind, .. } if kind == reason.to_lowercase()));
    }
    let told = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL",
                                      "finishMessage": "Malformed function call: print("}]});
    let error = events(&[told]).unwrap_err();
    assert_eq!(error.to_string(), "malformed_function_call: Malformed function call: print(");
}

#[test]
fn a_signature_that_we_lost_is_our_fault_and_not_tried_again() {
    let error = events(&[ended("MISSING_THOUGHT_SIGNATURE")]).unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    assert_eq!(error.class(), Some(ErrorClass::InvalidRequest));
}

#[test]
fn a_blocked_prompt_is_a_refusal_without_content() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                         "usageMetadata": {"promptTokenCount": 8}});
    let answer = complete(&[blocked]);
    assert_eq!(answer.finish, FinishReason::Refusal);
    assert_eq!(answer.raw.as_deref(), Some("promptFeedback:PROHIBITED_CONTENT"));
    assert_eq!(answer.usage, Usage { input: Some(8), ..Usage::default() });
    let passed = json!({"promptFeedback": {"safetyRatings": []}});
    assert!(matches!(events(&[passed]), Err(LlmError::UnexpectedEof)));
}

#[test]
fn parts_after_a_finish_reason_belong_to_the_answer() {
    let answer = complete(&[
        ended("STOP"),
        parts_of(&[json!({"text": "42"})]),
        json!({"usageMetadata": {"promptTokenCount": 5}}),
        ended("MAX_TOKENS"),
    ]);
    assert_eq!(answer.blocks, [text("42")]);
    assert_eq!((answer.finish, answer.usage.input), (FinishReason::MaxTokens, Some(5)));
}

#[test]
fn usage_is_told_when_it_changes() {
    let count = |tokens: u64| json!({"usageMetadata": {"candidatesTokenCount": tokens}});
    let events = events(&[count(1), count(1), count(2), ended("STOP")]).unwrap();
    let told: Vec<Option<u64>> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Usage(usage) => Some(usage.output),
            _ => None,
        })
        .collect();
    assert_eq!(told, [Some(1), Some(2)]);
}

#[test]
fn a_stream_that_breaks_off_is_no_answer() {
    for chunks in [vec![], vec![json!({"candidates": []})], vec![parts_of(&[json!({"text": "a"})])]]
    {
        assert!(matches!(events(&chunks), Err(LlmError::UnexpectedEof)), "{chunks:?}");
    }
}

#[test]
fn an_error_in_the_stream_ends_it() {
    let error = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let error = events(&[parts_of(&[json!({"text": "a"})]), error]).unwrap_err();
    assert!(error.is_retryable());
    assert!(matches!(error, LlmError::Api { kind, .. } if kind == "UNAVAILABLE"));
    let frame = SseFrame { event: Some("error"), data: r#"{"message":"no"}"# };
    assert!(matches!(state().on_sse(frame, &mut Vec::new()), Err(LlmError::Api { .. })));
    assert_eq!(complete(&[json!({"error": null}), ended("STOP")]).blocks, []);
}

#[test]
fn other_candidates_and_odd_types_change_nothing() {
    let answer = complete(&[
        json!({"candidates": [
            {"index": 1, "content": {"parts": [{"text": "no"}]}, "finishReason": "SAFETY"},
            {"index": 0, "content": {"parts": [{"text": "a"}, null, 5, "x", {"text": 5}]}},
        ]}),
        json!({"candidates": [{"content": {"role": "model"}}]}),
        json!({"candidates": [{"content": null, "finishReason": null}]}),
        json!({"candidates": "x", "usageMetadata": [], "promptFeedback": 1}),
        ended("STOP"),
    ]);
    assert_eq!((answer.blocks, answer.finish), (vec![text("a")], FinishReason::EndTurn));
}

#[test]
fn words_that_are_no_json_and_halves_of_characters_lose_nothing() {
    let (mut state, mut out) = (state(), Vec::new());
    let half =
        r#"{"candidates":[{"content":{"parts":[{"text":"a\ud83d"}]},"finishReason":"STOP"}]}"#;
    for data in ["[DONE]", "", "keep-alive", half] {
        state.on_sse(SseFrame { event: None, data }, &mut out).unwrap();
    }
    assert_eq!(out, [StreamEvent::Text { block: 0, text: "a\u{fffd}".into() }]);
    let broken = SseFrame { event: None, data: "{\"candidates\":" };
    assert!(matches!(state.on_sse(broken, &mut out), Err(LlmError::Decode(_))));
}

#[test]
fn a_stream_of_the_interactions_api_is_refused_by_name() {
    for event in ["interaction.start", "interaction.created", "step.delta"] {
        refused(&[json!({"event_type": event, "delta": {"text": "a"}})], "Interactions");
    }
}
