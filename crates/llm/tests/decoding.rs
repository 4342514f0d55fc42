//! Properties of the path from bytes to a completion, on streams that no server would send.

#[path = "support/mod.rs"]
mod support;

use llm::{LlmError, MessageBuilder};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use support::{Cut, Dialect, decode};

/// Values that a field may wrongly have.
fn odd_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec![
            "",
            "a",
            "{",
            "{\"a\":",
            "1}",
            "stop",
            "tool_calls",
            "length",
            "error",
            "text",
            "thinking",
            "tool_use",
            "redacted_thinking",
            "server_tool_use",
            "text_delta",
            "thinking_delta",
            "signature_delta",
            "input_json_delta",
            "citations_delta",
            "end_turn",
            "message_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "🚀",
            "reasoning.text",
            "reasoning.encrypted",
            "message",
            "reasoning",
            "function_call",
            "web_search_call",
            "max_output_tokens",
            "completed",
            "incomplete",
            "failed",
            "response.completed",
            "response.incomplete",
            "response.output_text.delta",
            "response.refusal.delta",
            "response.function_call_arguments.delta",
            "response.output_item.added",
            "response.output_item.done",
            "STOP",
            "SAFETY",
            "MAX_TOKENS",
            "MALFORMED_FUNCTION_CALL",
            "$.a",
            "$.a[1].b",
            "$['a']",
            "$.a[4294967295]",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((field_name(), inner), 0..4).prop_map(object),
        ]
    })
}

fn object(fields: Vec<(String, Value)>) -> Value {
    Value::Object(fields.into_iter().collect::<Map<_, _>>())
}

fn field_name() -> impl Strategy<Value = String> {
    select(vec![
        "type",
        "index",
        "delta",
        "content_block",
        "text",
        "thinking",
        "signature",
        "partial_json",
        "id",
        "name",
        "input",
        "stop_reason",
        "usage",
        "input_tokens",
        "message",
        "error",
        "choices",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "finish_reason",
        "native_finish_reason",
        "reasoning",
        "reasoning_details",
        "refusal",
        "citation",
        "code",
        "summary",
        "prompt_tokens",
        "output_index",
        "content_index",
        "summary_index",
        "item_id",
        "item",
        "call_id",
        "phase",
        "response",
        "status",
        "incomplete_details",
        "candidates",
        "parts",
        "thought",
        "thoughtSignature",
        "functionCall",
        "args",
        "partialArgs",
        "jsonPath",
        "stringValue",
        "willContinue",
        "executableCode",
        "finishReason",
        "promptFeedback",
        "blockReason",
        "usageMetadata",
        "promptTokenCount",
        "event_type",
    ])
    .prop_map(str::to_owned)
}

/// Events that are nearly right: a sound one with some fields replaced.
fn anthropic_event() -> impl Strategy<Value = Value> {
    let kinds = ["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"];
    let deltas =
        ["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"];
    let sound = prop_oneof![
        (0..3, select(kinds.to_vec())).prop_map(|(index, kind)| json!({
            "type": "content_block_start", "index": index,
            "content_block": {"type": kind, "id": "c", "name": "f", "data": "d", "input": {}},
        })),
        (0..3, select(deltas.to_vec())).prop_map(|(index, kind)| json!({
            "type": "content_block_delta", "index": index,
            "delta": {"type": kind, "text": "t", "thinking": "h", "signature": "s",
                      "partial_json": "{}", "citation": {}},
        })),
        (0..3).prop_map(|index| json!({"type": "content_block_stop", "index": index})),
        Just(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})),
        odd_value(),
    ];
    (sound, prop::option::weighted(0.2, (field_name(), odd_value()))).prop_map(with_field)
}

fn chat_event() -> impl Strategy<Value = Value> {
    let field =
        select(vec!["content", "reasoning", "reasoning_content", "refusal", "reasoning_details"]);
    let call =
        (prop::option::of(0..3), prop::option::of(select(vec!["a", "b", ""])), any::<bool>());
    let delta = prop_oneof![
        field.prop_map(|field| json!({field: "x"})),
        call.prop_map(|(index, id, named)| json!({"tool_calls": [{
            "index": index, "id": id,
            "function": {"name": named.then_some("f"), "arguments": "{}"},
        }]})),
        (field_name(), odd_value()).prop_map(|(name, value)| json!({name: value})),
    ];
    let sound = prop_oneof![
        delta.prop_map(|delta| json!({"choices": [{"index": 0, "delta": delta}]})),
        Just(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})),
        odd_value(),
    ];
    (sound, prop::option::weighted(0.2, (field_name(), odd_value()))).prop_map(with_field)
}

/// Items of number n and deltas for them are of the same kind, unless a field is replaced.
fn responses_event() -> impl Strategy<Value = Value> {
    const KINDS: [(&str, &[&str]); 4] = [
        ("message", &["output_text", "refusal"]),
        ("reasoning", &["reasoning_summary_text", "reasoning_text"]),
        ("function_call", &["function_call_arguments"]),
        ("web_search_call", &["web_search_call"]),
    ];
    let name = || prop::option::of(select(vec!["a", "b", ""]));
    let step = (0..8_usize, select(vec!["added", "done", "done"]), name(), name());
    let item = step.prop_map(|(index, step, id, call_id)| {
        json!({
            "type": format!("response.output_item.{step}"), "output_index": index,
            "item": {"type": KINDS[index % 4].0, "id": id, "call_id": call_id, "name": "f",
                     "arguments": "{}", "phase": "commentary", "summary": [{"text": "s"}],
                     "content": [{"type": "output_text", "text": "t"}]},
        })
    });
    let delta = (0..8_usize, any::<prop::sample::Index>(), name(), 0..2).prop_map(
        |(index, kind, id, part)| {
            let kind = kind.get(KINDS[index % 4].1);
            json!({
                "type": format!("response.{kind}.delta"), "output_index": index, "item_id": id,
                "content_index": part, "summary_index": part, "delta": "d",
            })
        },
    );
    let end = select(vec!["completed", "incomplete", "failed"])
        .prop_map(|end| json!({"type": format!("response.{end}"), "response": {}}));
    let sound = prop_oneof![4 => item, 4 => delta, 1 => end, 1 => odd_value()];
    (sound, prop::option::weighted(0.2, (field_name(), odd_value()))).prop_map(with_field)
}

fn gemini_event() -> impl Strategy<Value = Value> {
    let flag = any::<bool>;
    let said = (select(vec!["t", ""]), flag(), prop::option::of(select(vec!["S", ""])))
        .prop_map(|(text, thought, signature)| json!({"text": text, "thought": thought, "thoughtSignature": signature}));
    let path = select(vec!["$.a", "$.b", "$.c[0]", "$.c[2].d", "$['e.f']"]);
    let piece = (path, flag(), flag()).prop_map(|(path, text, more)| match text {
        true => json!({"jsonPath": path, "stringValue": "x", "willContinue": more}),
        false => json!({"jsonPath": path, "numberValue": 1}),
    });
    let name = select(vec![Some("f"), None, None]);
    let id = prop::option::of(select(vec!["a", "b", ""]));
    let call = (name, id, prop::collection::vec(piece, 0..3), flag()).prop_map(
        |(name, id, pieces, more)| json!({
            "functionCall": {"name": name, "id": id, "partialArgs": pieces, "willContinue": more},
        }),
    );
    let part = prop_oneof![
        3 => said,
        3 => call,
        1 => Just(json!({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "S"})),
        1 => Just(json!({"functionCall": {}})),
        1 => (field_name(), odd_value()).prop_map(|(name, value)| json!({name: value})),
    ];
    let reason = prop::option::weighted(0.2, select(vec!["STOP", "MAX_TOKENS", "OTHER"]));
    let parts = prop::collection::vec(part, 0..3);
    let sound = prop_oneof![
        8 => (parts, reason).prop_map(|(parts, reason)| json!({
            "candidates": [{"content": {"parts": parts}, "finishReason": reason}],
            "usageMetadata": {"candidatesTokenCount": 1},
        })),
        1 => odd_value(),
    ];
    (sound, prop::option::weighted(0.2, (field_name(), odd_value()))).prop_map(with_field)
}

fn with_field((mut event, field): (Value, Option<(String, Value)>)) -> Value {
    if let (Value::Object(fields), Some((name, value))) = (&mut event, field) {
        fields.insert(name, value);
    }
    event
}

fn stream(event: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(event, 0..16), any::<bool>()).prop_map(|(events, done)| {
        let mut body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        body.push_str(if done { "data: [DONE]\n\n" } else { "" });
        body.into_bytes()
    })
}

/// Decodes without a panic, the same at every cut, into events that the builder accepts.
fn check(dialect: Dialect, body: &[u8], cut: prop::sample::Index) -> Result<(), TestCaseError> {
    let whole = decode(dialect, body, Cut::Whole);
    for cut in [Cut::Bytes, Cut::At(cut.index(body.len() + 1))] {
        prop_assert_eq!(decode(dialect, body, cut).fingerprint(), whole.fingerprint());
    }
    let mut builder = MessageBuilder::default();
    for event in &whole.events {
        prop_assert!(builder.push(event).is_ok(), "refused {:?} in {:?}", event, whole.events);
    }
    let finished = builder.finish();
    match whole.end {
        Ok(()) => prop_assert!(finished.is_ok(), "an end without a finish"),
        Err(_) => {
            prop_assert!(matches!(finished, Err(LlmError::UnexpectedEof)), "a finish and an error")
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_stream_of_messages_events_is_decoded_or_refused(
        body in stream(anthropic_event()),
        cut in any::<prop::sample::Index>(),
    ) {
        check(Dialect::Anthropic, &body, cut)?;
    }

    #[test]
    fn any_stream_of_chunks_is_decoded_or_refused(
        body in stream(chat_event()),
        cut in any::<prop::sample::Index>(),
    ) {
        check(Dialect::OpenaiChat, &body, cut)?;
    }

    #[test]
    fn any_stream_of_responses_events_is_decoded_or_refused(
        body in stream(responses_event()),
        cut in any::<prop::sample::Index>(),
    ) {
        check(Dialect::OpenaiResponses, &body, cut)?;
    }

    #[test]
    fn any_stream_of_parts_is_decoded_or_refused(
        body in stream(gemini_event()),
        cut in any::<prop::sample::Index>(),
    ) {
        check(Dialect::Gemini, &body, cut)?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..512),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut framed = b"data: {".to_vec();
        framed.extend(body);
        framed.extend(b"\n\n");
        check(Dialect::Anthropic, &framed, cut)?;
        check(Dialect::OpenaiChat, &framed, cut)?;
        check(Dialect::OpenaiResponses, &framed, cut)?;
        check(Dialect::Gemini, &framed, cut)?;
    }
}
