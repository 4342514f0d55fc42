//! What the request after an answer must carry of it unchanged.

use std::sync::Arc;

use llm::capability::target;
use llm::providers::to_wire;
use llm::{ChatRequest, ContentBlock, Message, Role};
use serde_json::Value;

use crate::decoding::{Dialect, MODEL};

/// Stands for text that the test itself made up.
const RESULT: &str = "<result>";

/// Checks `replay` (pieces in this order), `replay_part` (one piece) and `replay_must_not_contain`.
pub(super) fn check_replay(
    expect: &Value,
    message: &Message,
    dialect: Dialect,
) -> Result<(), String> {
    let told = ["replay", "replay_part", "replay_must_not_contain"];
    if told.iter().all(|field| expect.get(field).is_none()) {
        return Ok(());
    }
    let body = follow_up(message, dialect);
    let text = body.to_string();
    let mut values = Vec::new();
    walk(&body, &mut values);
    let mut rest = values.iter();
    for piece in expect["replay"].as_array().into_iter().flatten() {
        if !rest.any(|value| carries(value, piece)) {
            return Err(format!("the next request does not carry {piece} in its place: {text}"));
        }
    }
    if let Some(piece) = expect.get("replay_part")
        && !values.iter().any(|value| carries(value, piece))
    {
        return Err(format!("the next request does not carry {piece}: {text}"));
    }
    for forbidden in expect["replay_must_not_contain"].as_array().into_iter().flatten() {
        if forbidden.as_str().is_none_or(|forbidden| text.contains(forbidden)) {
            return Err(format!("the next request carries {forbidden}: {text}"));
        }
    }
    Ok(())
}

/// The request that sends the answer back with results for its calls.
fn follow_up(message: &Message, dialect: Dialect) -> Value {
    let mut results: Vec<ContentBlock> = message
        .tool_calls()
        .map(|call| ContentBlock::tool_result(call.id, RESULT, false))
        .collect();
    if results.is_empty() {
        results.push(ContentBlock::text("go on"));
    }
    let messages = vec![
        Arc::new(Message::user_text("begin")),
        Arc::new(message.clone()),
        Arc::new(Message::new(Role::User, results)),
    ];
    let request = ChatRequest { model: MODEL.to_owned(), messages, ..ChatRequest::default() };
    to_wire(dialect, &request, target(dialect, None, "", MODEL))
}

/// Every value of a document, outer ones first.
fn walk<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    out.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
        Value::Object(fields) => fields.values().for_each(|field| walk(field, out)),
        _ => {}
    }
}

/// Whether `value` has everything that `piece` has.
fn carries(value: &Value, piece: &Value) -> bool {
    match (value, piece) {
        (Value::Object(fields), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| fields.get(name).is_some_and(|field| carries(field, wanted))),
        (Value::Array(items), Value::Array(wanted)) => {
            items.len() == wanted.len()
                && items.iter().zip(wanted).all(|(item, wanted)| carries(item, wanted))
        }
        _ => value == piece,
    }
}
