//! `transcripts.jsonl`: a conversation, the server it is for, and what the request must look like.
//!
//! A conversation that breaks a rule is not sent: the agent checks it before each request, with the
//! same function that stands in for it here.

use std::path::Path;
use std::sync::Arc;

use llm::{
    ChatRequest, ContentBlock, ImageData, IntegrityError, Message, Role, Tail, validate_transcript,
};
use serde_json::{Value, json};

use crate::support::{Report, drive_lines, only_fields};
use targets::{Call, Target};

#[path = "wire/targets.rs"]
mod targets;

/// Cases that wait for something, with the reason.
const PENDING: &[(&str, &str)] = &[];

const TOP: &[&str] = &["id", "target", "target_caps", "messages", "expect", "notes", "topic"];

/// The largest picture that the strictest service takes, in bytes of base64.
const MAX_IMAGE: usize = 5 << 20;

/// Drives every case of a folder.
pub(crate) fn run(folder: &Path) -> Report {
    drive_lines(&folder.join("transcripts.jsonl"), PENDING, |case, report| {
        let name = case["target"].as_str().unwrap_or_default();
        match Target::named(name, case.get("target_caps")) {
            Some(target) => Some(target.and_then(|target| drive(case, target))),
            None => {
                report.uncovered(name);
                None
            }
        }
    })
}

fn drive(case: &Value, target: Target) -> Result<(), String> {
    only_fields("the case", case, TOP)?;
    let messages = case["messages"].as_array().ok_or("the messages are no list")?;
    let messages = messages.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    let outcome = Outcome::of(messages, target)?;
    let expect = case["expect"].as_object().ok_or("no expectation")?;
    expect.iter().try_for_each(|(field, want)| outcome.check(field, want))
}

fn message(json: &Value) -> Result<Arc<Message>, String> {
    let role: Role =
        serde_json::from_value(json["role"].clone()).map_err(|error| error.to_string())?;
    let blocks = json["content"].as_array().ok_or("the content is no list")?;
    let blocks = blocks.iter().map(block).collect::<Result<_, _>>()?;
    Ok(Arc::new(Message::new(role, blocks)))
}

/// A block in its stored form; the data of a picture may have to be made.
fn block(json: &Value) -> Result<ContentBlock, String> {
    let Some(make) = json.get("make") else {
        return serde_json::from_value(json.clone()).map_err(|error| error.to_string());
    };
    let media_type = json["media_type"].as_str().ok_or("a picture without a type")?.to_owned();
    let bytes = make["raw_bytes"].as_u64().or_else(|| make["width"].as_u64());
    let bytes = usize::try_from(bytes.ok_or("a picture without a size")?);
    let encoded = bytes.map_err(|error| error.to_string())?.div_ceil(3) * 4;
    Ok(ContentBlock::Image(ImageData { media_type, data: "A".repeat(encoded) }))
}

/// What became of a conversation: a request, or the rule that it breaks.
struct Outcome {
    target: Target,
    request: Result<Value, IntegrityError>,
}

impl Outcome {
    fn of(messages: Vec<Arc<Message>>, target: Target) -> Result<Self, String> {
        let request = match validate_transcript(&messages, Tail::Settled) {
            Ok(()) => {
                let req = ChatRequest { model: "m".to_owned(), messages, ..ChatRequest::default() };
                Ok(target.request(&req)?)
            }
            Err(broken) => Err(broken),
        };
        Ok(Self { target, request })
    }

    fn check(&self, field: &str, want: &Value) -> Result<(), String> {
        let holds = match (field, &self.request) {
            ("invalid", Err(broken)) => *want == rule(broken),
            ("request_sent", request) => *want == request.is_ok(),
            ("any_of", _) => return self.any_of(want),
            (_, Err(broken)) => return Err(format!("it was not sent: {broken}")),
            // The request was read back from the bytes that would be sent.
            ("valid_json", Ok(_)) => *want == true,
            ("valid", Ok(request)) => return self.target.check_rules(request),
            ("must_not_contain", Ok(request)) => {
                let text = request.to_string();
                !list(want)?.iter().any(|word| word.as_str().is_none_or(|word| text.contains(word)))
            }
            ("must_not_contain_blocks", Ok(request)) => {
                let forbidden = list(want)?;
                !walk(request).iter().any(|value| forbidden.contains(value))
            }
            ("no_blank_text_blocks", Ok(request)) => !walk(request).into_iter().any(is_blank_text),
            ("order", Ok(request)) => {
                let kinds: Vec<&Value> = self.target.answered_items(request);
                json!(kinds) == *want
            }
            ("call_ids_match", Ok(request)) => {
                let matches = id_pattern(want)?;
                self.calls(request).iter().all(|call| matches(&call.id))
            }
            ("ids_distinct", Ok(request)) => {
                let mut ids: Vec<String> =
                    self.calls(request).into_iter().map(|call| call.id).collect();
                let count = ids.len();
                ids.sort();
                ids.dedup();
                ids.len() == count && count > 1
            }
            ("pairs_kept", Ok(request)) => {
                let calls = self.calls(request);
                !calls.is_empty() && calls.iter().all(|call| call.answers == 1)
            }
            // Among the parts of the model's first message.
            ("part_with_signature", Ok(request)) => {
                let parts = list(&request["contents"][1]["parts"])?;
                let at = parts.iter().position(|part| part["thoughtSignature"].is_string());
                at.map(|at| json!(at)).as_ref() == Some(want)
            }
            ("must_not_copy_signature", Ok(request)) => {
                *want == (named(request, "thoughtSignature").len() == 1)
            }
            ("function_response_names", Ok(request)) => {
                let names = named(request, "functionResponse").into_iter().map(|r| &r["name"]);
                json!(names.collect::<Vec<_>>()) == *want
            }
            // The results say which one they are.
            ("order_kept", Ok(request)) => {
                let told = named(request, "functionResponse").into_iter();
                let told: Vec<String> = told.map(|r| r["response"].to_string()).collect();
                *want == (told.len() > 1 && told.is_sorted())
            }
            (unknown, _) => {
                return Err(format!("the adapter does not know the expectation {unknown}"));
            }
        };
        let shown = || self.request.as_ref().map_or_else(ToString::to_string, Value::to_string);
        if holds { Ok(()) } else { Err(format!("{field}: expected {want}, got {}", shown())) }
    }

    fn calls(&self, request: &Value) -> Vec<Call> {
        self.target.calls(request)
    }

    fn any_of(&self, want: &Value) -> Result<(), String> {
        let holds = |option: &Value| match (option.as_str().unwrap_or_default(), &self.request) {
            ("rejected_before_send" | "rejected_at_ingest", request) => Ok(request.is_err()),
            ("merged", request) => Ok(request.as_ref().is_ok_and(|request| {
                request["messages"].as_array().is_some_and(|messages| messages.len() == 1)
            })),
            ("downscaled", request) => Ok(request.as_ref().is_ok_and(|request| {
                let texts = walk(request).into_iter().filter_map(Value::as_str);
                texts.map(str::len).all(|len| len <= MAX_IMAGE)
            })),
            ("placeholder_text", request) => {
                Ok(request.as_ref().is_ok_and(|request| !self.target.has_image(request)))
            }
            (unknown, _) => Err(format!("the adapter does not know the option {unknown}")),
        };
        let options = list(want)?.iter().map(holds).collect::<Result<Vec<bool>, String>>()?;
        if options.contains(&true) { Ok(()) } else { Err(format!("none of {want} holds")) }
    }
}

/// The name that the cases have for a rule.
fn rule(broken: &IntegrityError) -> &'static str {
    match broken {
        IntegrityError::Empty => "empty",
        IntegrityError::FirstNotUser => "first_not_user",
        IntegrityError::RolesDoNotAlternate { .. } => "roles",
        IntegrityError::WrongRole { .. } => "wrong_role",
        IntegrityError::EmptyId { .. } => "empty_id",
        IntegrityError::DuplicateCall { .. } => "duplicate_id",
        IntegrityError::DuplicateResult { .. } => "duplicate_result",
        IntegrityError::OrphanResult { .. } => "orphan_result",
        IntegrityError::UnansweredCall { .. } => "unanswered_call",
    }
}

/// The patterns that cases write, without an engine for all others.
fn id_pattern(want: &Value) -> Result<fn(&str) -> bool, String> {
    match want.as_str() {
        Some("^[a-zA-Z0-9]{9}$") => {
            Ok(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        }
        _ => Err(format!("the adapter does not know the pattern {want}")),
    }
}

fn is_blank_text(value: &Value) -> bool {
    value["type"] == "text" && value["text"].as_str().is_none_or(|text| text.trim().is_empty())
}

fn list(want: &Value) -> Result<&Vec<Value>, String> {
    want.as_array().ok_or_else(|| format!("not a list: {want}"))
}

/// Every value under this name in a document.
fn named<'a>(document: &'a Value, name: &str) -> Vec<&'a Value> {
    walk(document).into_iter().filter_map(|value| value.get(name)).collect()
}

/// Every value of a document, outer ones first.
fn walk(value: &Value) -> Vec<&Value> {
    let mut values = vec![value];
    let mut at = 0;
    while at < values.len() {
        match values[at] {
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => values.extend(fields.values()),
            _ => {}
        }
        at += 1;
    }
    values
}
