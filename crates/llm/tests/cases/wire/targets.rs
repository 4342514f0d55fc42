//! The servers that a conversation may be for: their requests, and the rules these must keep.

use llm::capability::{CallIdRule, Target as Row, TargetOverrides, target};
use llm::providers::{Joined, body};
use llm::{ChatRequest, Dialect};
use serde_json::Value;

use crate::decoding;
use crate::support::only_fields;

/// A server by what it speaks and what its requests may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    dialect: Dialect,
    row: Row,
}

/// A call in a request.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    /// How many results name it.
    pub(super) answers: usize,
}

impl Target {
    /// By the name and the abilities in a case; nothing for a name without a writer.
    pub(super) fn named(name: &str, caps: Option<&Value>) -> Option<Result<Self, String>> {
        let dialect = decoding::named(name)?;
        // The strictest service of the dialect that a case may be about.
        let preset = (dialect == Dialect::Anthropic).then_some(dialect.name());
        let row = target(dialect, preset, "", "m");
        let told = caps.map_or(Ok(TargetOverrides::NONE), overrides);
        Some(told.map(|told| Self { dialect, row: row.with(&told) }))
    }

    /// The request, read back from its bytes.
    pub(super) fn request(self, req: &ChatRequest) -> Result<Value, String> {
        serde_json::from_slice(&body(self.dialect, req, self.row, &Joined::default()))
            .map_err(|error| error.to_string())
    }

    /// The calls with their results, in order.
    pub(super) fn calls(self, request: &Value) -> Vec<Call> {
        let (called, answered): (Vec<&Value>, Vec<&Value>) = match self.dialect {
            Dialect::Anthropic => {
                let blocks = || items(&request["messages"]).flat_map(|m| items(&m["content"]));
                (
                    blocks().filter(|b| b["type"] == "tool_use").map(|b| &b["id"]).collect(),
                    blocks()
                        .filter(|b| b["type"] == "tool_result")
                        .map(|b| &b["tool_use_id"])
                        .collect(),
                )
            }
            Dialect::OpenaiChat => {
                let messages = || items(&request["messages"]);
                let calls = messages().flat_map(|message| items(&message["tool_calls"]));
                let tools = messages().filter(|message| message["role"] == "tool");
                (
                    calls.map(|call| &call["id"]).collect(),
                    tools.map(|tool| &tool["tool_call_id"]).collect(),
                )
            }
            Dialect::OpenaiResponses => {
                let of = |kind: &'static str| {
                    items(&request["input"]).filter(move |item| item["type"] == kind)
                };
                (
                    of("function_call").map(|item| &item["call_id"]).collect(),
                    of("function_call_output").map(|item| &item["call_id"]).collect(),
                )
            }
            // Ids are the server's to give; other calls have none.
            Dialect::Gemini => {
                let of = |kind: &'static str| {
                    let parts = items(&request["contents"]).flat_map(|c| items(&c["parts"]));
                    parts.filter_map(move |part| part[kind].get("id"))
                };
                (of("functionCall").collect(), of("functionResponse").collect())
            }
        };
        let answers = |id: &Value| answered.iter().filter(|answer| **answer == id).count();
        let call = |id: &&Value| Call {
            id: id.as_str().unwrap_or_default().to_owned(),
            answers: answers(id),
        };
        called.iter().map(call).collect()
    }

    /// What the items of a request are that the user did not say.
    pub(super) fn answered_items(self, request: &Value) -> Vec<&Value> {
        let items = items(&request["input"]).filter(|item| item["role"] != "user");
        items.map(|item| &item["type"]).collect()
    }

    pub(super) fn has_image(self, request: &Value) -> bool {
        let text = request.to_string();
        ["image_url", "\"image\"", "input_image", "inlineData"]
            .iter()
            .any(|sign| text.contains(sign))
    }

    /// Checks what the server would refuse.
    pub(super) fn check_rules(self, request: &Value) -> Result<(), String> {
        if let Some(call) = self.calls(request).iter().find(|call| call.answers != 1) {
            return Err(format!("{} results for one call: {call:?}", call.answers));
        }
        match self.dialect {
            Dialect::Anthropic => check_messages(request),
            Dialect::OpenaiChat => check_chat(request),
            Dialect::OpenaiResponses => check_input(request),
            Dialect::Gemini => check_contents(request),
        }
    }
}

/// The columns that a case tells, in the words of the cases.
fn overrides(caps: &Value) -> Result<TargetOverrides, String> {
    only_fields("target_caps", caps, &["tool_call_id", "images"])?;
    let call_ids = match caps.get("tool_call_id").map(Value::as_str) {
        None => None,
        Some(Some("alnum9")) => Some(CallIdRule::NineAlphanumeric),
        Some(other) => return Err(format!("unknown rule for ids {other:?}")),
    };
    let images = match caps.get("images") {
        None => None,
        Some(told) => Some(told.as_bool().ok_or("images is neither true nor false")?),
    };
    Ok(TargetOverrides { call_ids, images, ..TargetOverrides::NONE })
}

/// Roles alternate, no message and no text is blank, reasoning is signed and not the last thing said.
fn check_messages(request: &Value) -> Result<(), String> {
    for (at, message) in items(&request["messages"]).enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        let blocks: Vec<&Value> = items(&message["content"]).collect();
        let blank = |text: &Value| text.as_str().is_none_or(|text| text.trim().is_empty());
        let refused = message["role"] != role
            || blocks.is_empty()
            || blocks.iter().any(|block| match block["type"].as_str() {
                Some("text") => blank(&block["text"]),
                Some("thinking") => blank(&block["signature"]),
                _ => false,
            })
            || blocks.last().is_some_and(|block| block["type"] == "thinking");
        if refused {
            return Err(format!("message {at} would be refused: {message}"));
        }
    }
    Ok(())
}

/// Only a message with calls has no content; results come at once after their calls.
fn check_chat(request: &Value) -> Result<(), String> {
    let mut open = 0;
    for message in items(&request["messages"]) {
        let calls = items(&message["tool_calls"]).count();
        let refused = match message["role"].as_str() {
            Some("tool") => open == 0,
            _ => open > 0 || (message["content"].is_null() && calls == 0),
        };
        if refused {
            return Err(format!("{message} would be refused"));
        }
        open = if message["role"] == "tool" { open - 1 } else { calls };
    }
    Ok(())
}

/// Reasoning is followed by what it led to, and every message says something.
fn check_input(request: &Value) -> Result<(), String> {
    let all: Vec<&Value> = items(&request["input"]).collect();
    for (at, item) in all.iter().enumerate() {
        let next = all.get(at + 1).copied().unwrap_or(&Value::Null);
        let follows = next.is_object()
            && next["role"] != "user"
            && next["type"] != "reasoning"
            && next["type"] != "function_call_output";
        let refused = match item["type"].as_str() {
            Some("reasoning") => !follows,
            Some("message") => matches!(item["content"].to_string().as_str(), "\"\"" | "[]"),
            Some(_) => false,
            None => true,
        };
        if refused {
            return Err(format!("item {at} would be refused: {item}"));
        }
    }
    Ok(())
}

/// No content is empty, the first call of each step is signed, and each step is answered call by call.
fn check_contents(request: &Value) -> Result<(), String> {
    let names = |content: &Value, kind: &str| -> Vec<Value> {
        items(&content["parts"]).filter_map(|part| part[kind].get("name").cloned()).collect()
    };
    let mut asked = Vec::new();
    for content in items(&request["contents"]) {
        let first = items(&content["parts"]).find(|part| part.get("functionCall").is_some());
        let refused = items(&content["parts"]).next().is_none()
            || first.is_some_and(|call| !call["thoughtSignature"].is_string())
            || names(content, "functionResponse") != asked;
        if refused {
            return Err(format!("{content} would be refused"));
        }
        asked = names(content, "functionCall");
    }
    Ok(())
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
