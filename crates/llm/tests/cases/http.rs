//! `responses.jsonl`: answers that are no stream, each served over a real socket to every
//! provider.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use llm::providers::{Connection, connect};
use llm::{
    ApiKey, ChatRequest, Dialect, GaveUp, LlmError, Message, Provider, Retry, RetryPolicy, collect,
};
use serde_json::{Value, json};

use crate::server::{Server, Step};
use crate::support::{Report, drive_lines, only_fields};

/// Cases that wait for something, with the reason.
const PENDING: &[(&str, &str)] = &[];

const TOP: &[&str] = &["id", "status", "headers", "body", "expect", "notes", "topic"];

/// The key that every request carries, and that some answers echo.
const KEY: &str = "sk-test-0123456789abcdef0123";

/// Drives every case of a folder.
pub(crate) fn run(folder: &Path) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime for the sockets");
    drive_lines(&folder.join("responses.jsonl"), PENDING, |case, _| {
        Some(runtime.block_on(drive(case)))
    })
}

async fn drive(case: &Value) -> Result<(), String> {
    only_fields("the case", case, TOP)?;
    for dialect in Dialect::ALL {
        check(case, &|url| make(dialect, url)).await?;
    }
    Ok(())
}

fn make(dialect: Dialect, url: &str) -> Result<Arc<dyn Provider>, LlmError> {
    let key = Some(ApiKey::new(KEY)?);
    connect(Connection { key, ..Connection::new(dialect, url) })
}

/// Makes a provider for a server at this address.
type Make<'a> = dyn Fn(&str) -> Result<Arc<dyn Provider>, LlmError> + 'a;

async fn ask(provider: &dyn Provider) -> Result<(), LlmError> {
    let req = ChatRequest {
        model: "x".to_owned(),
        messages: vec![Arc::new(Message::user_text("hi"))],
        ..ChatRequest::default()
    };
    collect(provider.stream(&req).await?).await.map(drop)
}

/// What became of one answer.
struct Outcome {
    error: LlmError,
    /// Connections to the address that the answer redirects to.
    followed: usize,
    /// What the retry wrapper makes of the same answer, where the case is about that.
    retried: Option<LlmError>,
}

async fn check(case: &Value, make: &Make<'_>) -> Result<(), String> {
    let other = Server::start(&[]).await;
    let answer = answer(case, &other.url())?;
    let steps: &[Step<'_>] = &[Step::Raw(&answer), Step::Close];
    let server = Server::start(&[steps; 2]).await;
    let provider = make(&server.url()).map_err(|error| error.to_string())?;
    let complete = || "the answer passed for a complete one".to_owned();
    let error = ask(&*provider).await.err().ok_or_else(complete)?;
    let retried = match case["expect"].get("beyond_total_deadline") {
        Some(_) => ask(&Retry::new(provider, RetryPolicy::default())).await.err(),
        None => None,
    };
    let outcome = Outcome { error, followed: other.connections(), retried };
    let expect = case["expect"].as_object().ok_or("no expectation")?;
    expect.iter().try_for_each(|(field, want)| expectation(field, want, &outcome))
}

/// The answer as bytes; a redirect leads to `other`, which notices.
fn answer(case: &Value, other: &str) -> Result<String, String> {
    let body = case["body"].as_str().ok_or("the body is no text")?;
    let status = case["status"].as_u64().ok_or("the status is no number")?;
    let mut head = format!("HTTP/1.1 {status} Answer\r\n");
    for (name, value) in case["headers"].as_object().ok_or("the headers are no object")? {
        let value = match name.as_str() {
            "location" => &format!("{other}/steal"),
            _ => value.as_str().ok_or("a header is no text")?,
        };
        head += &format!("{name}: {value}\r\n");
    }
    Ok(format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
}

fn expectation(field: &str, want: &Value, outcome: &Outcome) -> Result<(), String> {
    let Outcome { error, followed, retried } = outcome;
    let shown = || format!("{error} {error:?} {}", error.advice().unwrap_or_default());
    let delay = || json!(error.retry_after().map(|wait: Duration| wait.as_millis()));
    let among = |got: &Value| want.as_array().is_some_and(|list| list.contains(got));
    let (holds, got) = match field {
        "retryable" => (*want == error.is_retryable(), json!(error.is_retryable())),
        "delay_ms" => (*want == delay(), delay()),
        "delay_ms_any" => (among(&delay()), delay()),
        "context_overflow" => {
            (*want == error.is_context_overflow(), json!(error.is_context_overflow()))
        }
        "variant_any" => (among(&json!(variant(error))), json!(variant(error))),
        "must_not_contain" => {
            let secrets = want.as_array().ok_or("not a list of texts")?;
            let found = |text: &Value| text.as_str().is_none_or(|text| shown().contains(text));
            (!secrets.iter().any(found), json!(shown()))
        }
        "message_max_chars" => {
            let chars = error.to_string().chars().count();
            (want.as_u64().is_some_and(|max| chars as u64 <= max), json!(chars))
        }
        // The message in the case is about the model "x".
        "names_model" => (error.to_string().contains("\"x\""), json!(error.to_string())),
        "must_not_forward_credentials" => (*followed == 0, json!(followed)),
        "beyond_total_deadline" => {
            let stopped = matches!(
                retried,
                Some(LlmError::GaveUp { why: GaveUp::Deadline { is_told: true, .. }, .. })
            );
            (stopped && *want == "stop", json!(retried.as_ref().map(ToString::to_string)))
        }
        unknown => return Err(format!("the adapter does not know the expectation {unknown}")),
    };
    if holds { Ok(()) } else { Err(format!("{field}: expected {want}, got {got} ({error})")) }
}

fn variant(error: &LlmError) -> &'static str {
    match error {
        LlmError::Http { .. } => "Http",
        LlmError::Deadline { .. } => "Deadline",
        LlmError::Transport(_) => "Transport",
        LlmError::Api { .. } => "Api",
        LlmError::Decode(_) => "Decode",
        LlmError::UnexpectedEof => "UnexpectedEof",
        LlmError::Config(_) => "Config",
        LlmError::Transcript(_) => "Transcript",
        LlmError::Recording(_) => "Recording",
        LlmError::GaveUp { .. } => "GaveUp",
    }
}
