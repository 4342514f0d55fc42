//! `NAME.sse` beside `NAME.expected.json`: a response body and what must come out of it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use llm::error::ErrorAnswer;
use llm::providers::fault::{is_event_stream, not_an_event_stream};
use llm::sse::{SseDecoder, SseEvent};
use llm::{Completion, ContentBlock, FinishReason, LlmError, Message, Usage};
use serde_json::{Value, json};

use crate::decoding::{Cut, Dialect, decode, named};
use crate::support::{Report, entries, only_fields, read_json};
use replay::check_replay;

#[path = "sse/replay.rs"]
mod replay;

/// Cases that wait for something, with the reason. None does.
const PENDING: &[(&str, &str)] = &[];

const TOP: &[&str] = &["id", "topic", "dialect", "http", "chunking", "expect", "notes"];

/// Drives every case of a folder.
pub(crate) fn run(folder: &Path) -> Report {
    let mut report = Report::default();
    for body in entries(folder) {
        if body.extension().is_none_or(|extension| extension != "sse") {
            continue;
        }
        let case = match read_json(&body.with_extension("expected.json")) {
            Ok(case) => case,
            Err(fault) => {
                report.settle(&body.display().to_string(), &[], Err(fault));
                continue;
            }
        };
        let dialect = case["dialect"].as_str().unwrap_or_default();
        let answer = match named(dialect) {
            Some(dialect) => Kind::Dialect(dialect),
            None if dialect == "sse" => Kind::Events,
            None => {
                report.uncovered(dialect);
                continue;
            }
        };
        let id = case["id"].as_str().unwrap_or_default();
        let verdict = fs::read(&body).map_err(|error| error.to_string());
        report.settle(id, PENDING, verdict.and_then(|body| drive(&case, &answer, &body)));
    }
    report
}

fn drive(case: &Value, answer: &Kind, body: &[u8]) -> Result<(), String> {
    only_fields("the case", case, TOP)?;
    only_fields("http", &case["http"], &["status", "content_type"])?;
    if case["chunking"] != "every_split" {
        return Err(format!("unknown chunking {}", case["chunking"]));
    }
    let splits = (0..body.len()).map(Cut::At);
    for cut in [Cut::Whole, Cut::Bytes].into_iter().chain(splits) {
        let got = answer.get(&case["http"], body, cut);
        check(&case["expect"], &got).map_err(|fault| format!("{cut:?}: {fault}"))?;
    }
    Ok(())
}

enum Kind {
    Events,
    Dialect(Dialect),
}

#[derive(Debug)]
enum Got {
    Events(Vec<SseEvent>),
    Answer(Box<Answer>, Dialect),
    Error(LlmError),
}

/// An answer, and the part of it that may enter the transcript.
#[derive(Debug)]
struct Answer {
    completion: Completion,
    message: Message,
}

impl Kind {
    fn get(&self, http: &Value, body: &[u8], cut: Cut) -> Got {
        match self {
            Self::Events => {
                let mut sse = SseDecoder::default();
                let chunks = cut.chunks(body).into_iter();
                match chunks.map(|chunk| sse.push(chunk)).collect::<Result<Vec<_>, _>>() {
                    Ok(events) => Got::Events(events.concat()),
                    Err(error) => Got::Error(error.into()),
                }
            }
            Self::Dialect(dialect) => match answer(http, *dialect, body, cut) {
                Ok(completion) => {
                    let message = completion.clone().commit();
                    let message =
                        message.unwrap_or_else(|| Message::new(llm::Role::Assistant, Vec::new()));
                    Got::Answer(Box::new(Answer { completion, message }), *dialect)
                }
                Err(error) => Got::Error(error),
            },
        }
    }
}

/// What the provider makes of the response, by the same rules as its network code.
fn answer(http: &Value, dialect: Dialect, body: &[u8], cut: Cut) -> Result<Completion, LlmError> {
    let status = http["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let status = status.expect("a case has an HTTP status");
    if !(200..300).contains(&status) {
        let now = Duration::ZERO;
        return Err(ErrorAnswer { status, headers: &[], body, now, key: None }.into_error());
    }
    let content_type = http["content_type"].as_str();
    if !is_event_stream(content_type) {
        return Err(not_an_event_stream(content_type, body));
    }
    decode(dialect, body, cut).completion()
}

const EXPECTATIONS: &[&str] = &[
    "outcome",
    "options",
    "any",
    "events",
    "error",
    "text",
    "reasoning",
    "tool_calls",
    "finish",
    "usage",
    "block_order",
    "calls_discarded",
    "tools_executed",
    "ids",
    "replay",
    "replay_part",
    "replay_must_not_contain",
];

fn check(expect: &Value, got: &Got) -> Result<(), String> {
    only_fields("the expectation", expect, EXPECTATIONS)?;
    if expect["any"] == true {
        return Ok(());
    }
    match (expect["outcome"].as_str().unwrap_or_default(), got) {
        ("any_of", _) => check_any(expect, got),
        ("events", Got::Events(events)) => {
            let shown: Vec<Value> = events
                .iter()
                .map(|event| json!({ "event": event.event, "data": event.data }))
                .collect();
            equal("events", &expect["events"], &json!(shown))
        }
        ("error", Got::Error(error)) => {
            equal("tools_executed", expect.get("tools_executed").unwrap_or(&json!(0)), &json!(0))?;
            check_error(&expect["error"], error)
        }
        ("ok", Got::Answer(answer, dialect)) => {
            check_answer(expect, answer)?;
            check_replay(expect, &answer.message, *dialect)
        }
        (outcome @ ("events" | "error" | "ok"), other) => {
            Err(format!("expected {outcome}, got {other:?}"))
        }
        (outcome, _) => Err(format!("unknown outcome {outcome}")),
    }
}

fn check_any(expect: &Value, got: &Got) -> Result<(), String> {
    let options = expect["options"].as_array().ok_or("any_of without options")?;
    let mut faults = Vec::new();
    for option in options {
        match check(option, got) {
            Ok(()) => return Ok(()),
            Err(fault) => faults.push(fault),
        }
    }
    Err(format!("no option holds: {}", faults.join(" | ")))
}

fn check_error(expect: &Value, error: &LlmError) -> Result<(), String> {
    only_fields("error", expect, &["variant", "kind", "retryable", "context_overflow"])?;
    let (variant, kind) = match error {
        LlmError::Http { .. } => ("Http", None),
        LlmError::Api { kind, .. } => ("Api", Some(kind)),
        LlmError::Decode(_) => ("Decode", None),
        LlmError::UnexpectedEof => ("UnexpectedEof", None),
        other => return Err(format!("got the error {other:?}")),
    };
    equal("error.variant", &expect["variant"], &json!(variant))?;
    told("error.kind", expect.get("kind"), &json!(kind))?;
    told("error.retryable", expect.get("retryable"), &json!(error.is_retryable()))?;
    told(
        "error.context_overflow",
        expect.get("context_overflow"),
        &json!(error.is_context_overflow()),
    )
}

fn check_answer(expect: &Value, answer: &Answer) -> Result<(), String> {
    let Answer { completion, message } = answer;
    let calls: Vec<_> = message.tool_calls().collect();
    told("text", expect.get("text"), &json!(message.text()))?;
    told("reasoning", expect.get("reasoning"), &json!(reasoning(message)))?;
    check_calls(expect, message)?;
    let finish = expect["finish"].as_str().unwrap_or_default();
    if !finish_names(&completion.finish).contains(&finish) {
        return Err(format!("finish: expected {finish}, got {:?}", completion.finish));
    }
    check_usage(&expect["usage"], &completion.usage)?;
    let order: Vec<&str> = message.content().iter().map(ContentBlock::kind).collect();
    told("block_order", expect.get("block_order"), &json!(order))?;
    let discarded =
        calls.is_empty() && completion.blocks.iter().any(|block| block.kind() == "tool_call");
    told("calls_discarded", expect.get("calls_discarded"), &json!(discarded))?;
    let runnable = calls.iter().filter(|call| call.arguments.is_object()).count();
    told("tools_executed", expect.get("tools_executed"), &json!(runnable))?;
    told("ids", expect.get("ids"), &json!("unique"))?;
    let mut ids: Vec<&str> = calls.iter().map(|call| call.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != calls.len() || ids.first() == Some(&"") {
        return Err(format!("the ids {ids:?} do not name {} calls", calls.len()));
    }
    Ok(())
}

fn reasoning(message: &Message) -> String {
    let texts = message.content().iter().filter_map(|block| match block {
        ContentBlock::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn check_calls(expect: &Value, message: &Message) -> Result<(), String> {
    let wanted = expect["tool_calls"].as_array().ok_or("tool_calls is no list")?;
    let calls: Vec<_> = message.tool_calls().collect();
    if calls.len() != wanted.len() {
        return Err(format!("expected {} calls, got {calls:?}", wanted.len()));
    }
    for (wanted, call) in wanted.iter().zip(calls) {
        only_fields("a call", wanted, &["id", "name", "arguments", "well_formed"])?;
        equal("name", &wanted["name"], &json!(call.name))?;
        if !wanted["id"].is_null() {
            equal("id", &wanted["id"], &json!(call.id))?;
        }
        let well_formed = wanted.get("well_formed").unwrap_or(&Value::Bool(true));
        if !well_formed.is_null() {
            equal("well_formed", well_formed, &json!(call.arguments.is_object()))?;
        }
        // Broken arguments are kept as their text, whose value the case may show instead.
        let meant = call.arguments.as_str().and_then(|raw| serde_json::from_str(raw).ok());
        if wanted["arguments"] != "<any>" && meant.as_ref() != Some(&wanted["arguments"]) {
            equal("arguments", &wanted["arguments"], call.arguments)?;
        }
    }
    Ok(())
}

fn check_usage(expect: &Value, usage: &Usage) -> Result<(), String> {
    let untold = json!({ "input": null, "output": null, "cache_read": null, "cache_write": null });
    let shown = json!({
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
    });
    equal("usage", if expect.is_null() { &untold } else { expect }, &shown)
}

fn finish_names(reason: &FinishReason) -> &'static [&'static str] {
    match reason {
        FinishReason::EndTurn => &["end_turn"],
        FinishReason::ToolUse => &["tool_use"],
        FinishReason::MaxTokens => &["max_tokens"],
        // The cases have no name of their own for it: the answer is whole.
        FinishReason::StopSequence => &["end_turn", "stop_sequence"],
        FinishReason::Refusal => &["refusal"],
        FinishReason::PauseTurn => &["paused"],
        FinishReason::ContextWindow | FinishReason::Other(_) => &["other"],
    }
}

fn equal(what: &str, expected: &Value, got: &Value) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{what}: expected {expected}, got {got}")) }
}

/// Compares what the case tells; it need not tell everything.
fn told(what: &str, expected: Option<&Value>, got: &Value) -> Result<(), String> {
    expected.map_or(Ok(()), |expected| equal(what, expected, got))
}
