//! Answers of a thinking model, as its server streams them in each dialect.

use llm::Dialect;
use serde_json::{Value, json};

/// What a model thinks, and then does or says.
pub(crate) enum Says {
    /// Calls of `look`, by their ids.
    Calls(&'static [&'static str]),
    /// The end of a turn.
    Text(&'static str),
}

/// The thought before everything, which the server signs or seals where it can.
const THOUGHT: &str = "let me see";

/// The body of the response.
pub(crate) fn streamed(dialect: Dialect, says: &Says) -> String {
    let events = match dialect {
        Dialect::Anthropic => anthropic(says),
        Dialect::OpenaiChat => chat(says),
        Dialect::OpenaiResponses => responses(says),
        Dialect::Gemini => gemini(says),
    };
    let mut body = String::new();
    for event in events {
        if let Some(kind) = event["type"].as_str() {
            body += &format!("event: {kind}\n");
        }
        body += &format!("data: {event}\n\n");
    }
    if dialect == Dialect::OpenaiChat {
        body += "data: [DONE]\n\n";
    }
    body
}

fn anthropic(says: &Says) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": {"id": "m", "usage": {}}})];
    let mut block = |start: Value, deltas: &[Value]| {
        let index = events.iter().filter(|event| event["type"] == "content_block_stop").count();
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    };
    block(
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": THOUGHT}),
            json!({"type": "signature_delta", "signature": "c2lnbmVk"}),
        ],
    );
    let reason = match says {
        Says::Text(text) => {
            let delta = json!({"type": "text_delta", "text": text});
            block(json!({"type": "text", "text": ""}), &[delta]);
            "end_turn"
        }
        Says::Calls(ids) => {
            for id in *ids {
                let start = json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
                block(start, &[json!({"type": "input_json_delta", "partial_json": "{\"at\":1}"})]);
            }
            "tool_use"
        }
    };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn chat(says: &Says) -> Vec<Value> {
    let (delta, reason) = match says {
        Says::Text(text) => (json!({"content": text}), "stop"),
        Says::Calls(ids) => {
            let call = |(index, id): (usize, &&str)| {
                let function = json!({"name": "look", "arguments": "{\"at\":1}"});
                json!({"index": index, "id": id, "type": "function", "function": function})
            };
            let calls: Vec<Value> = ids.iter().enumerate().map(call).collect();
            (json!({"tool_calls": calls}), "tool_calls")
        }
    };
    let thought = json!({"role": "assistant", "reasoning_content": THOUGHT});
    let chunk = |delta: Value, reason: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    vec![chunk(thought, None), chunk(delta, None), chunk(json!({}), Some(reason))]
}

fn responses(says: &Says) -> Vec<Value> {
    let mut output = vec![json!({
        "id": "rs_1", "type": "reasoning", "encrypted_content": "c2VhbGVk",
        "summary": [{"type": "summary_text", "text": THOUGHT}],
    })];
    match says {
        Says::Text(text) => output.push(json!({
            "id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })),
        Says::Calls(ids) => output.extend(ids.iter().map(|id| {
            json!({
                "id": format!("fc_{id}"), "type": "function_call", "status": "completed",
                "arguments": "{\"at\":1}", "call_id": id, "name": "look",
            })
        })),
    }
    let mut events = vec![json!({"type": "response.created", "response": {"id": "r"}})];
    for (index, item) in output.iter().enumerate() {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            events.push(json!({"type": kind, "output_index": index, "item": item}));
        }
    }
    let response = json!({"id": "r", "status": "completed", "output": output});
    events.push(json!({"type": "response.completed", "response": response}));
    events
}

fn gemini(says: &Says) -> Vec<Value> {
    let mut parts = vec![json!({"text": THOUGHT, "thought": true})];
    match says {
        Says::Text(text) => parts.push(json!({"text": text, "thoughtSignature": "c2lnbmVk"})),
        Says::Calls(ids) => parts.extend(ids.iter().enumerate().map(|(index, id)| {
            let call = json!({"id": id, "name": "look", "args": {"at": 1}});
            match index {
                0 => json!({"functionCall": call, "thoughtSignature": "c2lnbmVk"}),
                _ => json!({"functionCall": call}),
            }
        })),
    }
    let content = json!({"role": "model", "parts": parts});
    vec![json!({"candidates": [{"content": content, "index": 0, "finishReason": "STOP"}]})]
}
