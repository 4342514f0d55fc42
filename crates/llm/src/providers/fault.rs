//! Reads the errors that servers put into an answer whose status was 200; pure.
//!
//! Their shapes are those of error answers, read by [`ErrorBody`]; here they become
//! [`LlmError::Api`]. Texts are whole here: whoever knows the key erases it before anything is cut,
//! because half a key at a cut would not be recognised.

use serde_json::Value;

use crate::error::LlmError;
use crate::error::body::ErrorBody;
use crate::sse::SseFrame;

/// The JSON of an event; nothing for the words and marks that gateways put between them.
///
/// # Errors
/// The error that an event of that name reports.
pub(super) fn document<'a>(frame: &SseFrame<'a>) -> Result<Option<&'a str>, LlmError> {
    if frame.event == Some("error") {
        return Err(from_json(frame.data));
    }
    let data = frame.data.trim();
    Ok(data.starts_with('{').then_some(data))
}

/// The error of an event or a body that holds one, whatever its envelope.
pub(super) fn from_json(json: &str) -> LlmError {
    let ErrorBody { message, json, .. } = ErrorBody::read(json.as_bytes());
    let body = json.unwrap_or_default();
    // xAI and some local servers put text under `error` and a code beside it.
    let fields = if body["error"].is_object() { &body["error"] } else { &body };
    let status = ["code", "status_code", "status"].iter().find_map(|name| status(&fields[*name]));
    let kind = ["code", "type", "status"]
        .iter()
        .filter_map(|name| fields[*name].as_str())
        .find(|kind| !kind.is_empty() && kind.parse::<u64>().is_err())
        .map(str::to_owned)
        .or_else(|| status.map(|status| status.to_string()))
        .unwrap_or_else(|| "error".to_owned());
    LlmError::Api { kind, message, status }
}

/// A number, or a number as text, that can be an HTTP status.
fn status(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (100..600).contains(status))
}

/// Whether a successful answer of this media type is an event stream.
///
/// Servers forget the header or say `text/plain` and stream all the same; a page or a JSON document
/// is never a stream.
pub fn is_event_stream(content_type: Option<&str>) -> bool {
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    let media_type = media_type.trim().to_ascii_lowercase();
    !(media_type == "text/html"
        || media_type == "application/xhtml+xml"
        || media_type == "application/json"
        || media_type.ends_with("+json"))
}

/// The error for a successful answer that is not an event stream, from the start of its body.
///
/// A JSON body with an error in it gives that error; anything else is quoted.
pub fn not_an_event_stream(content_type: Option<&str>, body: &[u8]) -> LlmError {
    let read = ErrorBody::read(body);
    if read.json.is_some_and(|json| !json["error"].is_null()) {
        return from_json(&String::from_utf8_lossy(body));
    }
    let media_type = content_type.unwrap_or("an unnamed type");
    let said = match read.message.trim() {
        "" => "with nothing in it".to_owned(),
        message => format!("that says: {message}"),
    };
    LlmError::Decode(format!("expected an event stream but got {media_type} {said}"))
}

/// The error for an event whose JSON is broken.
pub(super) fn unreadable(json: &str, error: &serde_json::Error) -> LlmError {
    LlmError::Decode(format!("an event is not valid JSON ({error}): {json}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, kind: &str, message: &str, status: Option<u16>) {
        match from_json(json) {
            LlmError::Api { kind: got_kind, message: got_message, status: got_status } => {
                let got = (got_kind.as_str(), got_message.as_str(), got_status);
                assert_eq!(got, (kind, message, status), "{json}");
            }
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn every_known_shape_gives_its_kind_message_and_status() {
        check(
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "overloaded_error",
            "Overloaded",
            None,
        );
        check(
            r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"bad"}}"#,
            "bad",
            "no",
            None,
        );
        check(
            r#"{"error":{"message":"busy","type":"server_error","code":503}}"#,
            "server_error",
            "busy",
            Some(503),
        );
        check(r#"{"error":{"code":429,"message":"slow"}}"#, "429", "slow", Some(429));
        check(
            r#"{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}"#,
            "RESOURCE_EXHAUSTED",
            "slow",
            Some(429),
        );
        check(r#"{"message":"boom","code":500}"#, "500", "boom", Some(500));
        check(r#"{"code":"no such model","error":"gone"}"#, "no such model", "gone", None);
        check(r#"{"error":"model runner has stopped"}"#, "error", "model runner has stopped", None);
        check(r#"{"detail":"Unauthorized"}"#, "error", "Unauthorized", None);
        check(
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"down"}}}"#,
            "502",
            "Provider returned error: down",
            Some(502),
        );
        check(r#"{"error":{"code":7}}"#, "error", r#"{"error":{"code":7}}"#, None);
        check("plain words", "error", "plain words", None);
    }

    #[test]
    fn a_long_message_is_whole_until_the_key_was_looked_for() {
        let error = from_json(&format!(r#"{{"error":"{}"}}"#, "é".repeat(5_000)));
        assert!(error.to_string().ends_with('é'));
        assert!(error.without_key(None).to_string().ends_with("… (shortened)"));
    }

    #[test]
    fn a_page_or_a_document_is_no_stream_and_a_missing_header_may_be_one() {
        for (content_type, want) in [
            (Some("text/event-stream"), true),
            (Some("text/event-stream; charset=utf-8"), true),
            (Some("text/plain"), true),
            (None, true),
            (Some("Text/HTML; charset=utf-8"), false),
            (Some("application/json"), false),
            (Some("application/problem+json"), false),
        ] {
            assert_eq!(is_event_stream(content_type), want, "{content_type:?}");
        }
    }

    #[test]
    fn a_page_is_quoted_and_a_json_error_is_read() {
        let page = not_an_event_stream(Some("text/html"), b"<html><h1>\n  Gate\xffway</h1>");
        assert_eq!(
            page.to_string(),
            "the server's answer could not be read: expected an event stream but got text/html \
             that says: an HTML page: Gate\u{fffd}way"
        );
        let empty = not_an_event_stream(Some("application/json"), b"");
        assert!(empty.to_string().ends_with("got application/json with nothing in it"), "{empty}");
        let document =
            not_an_event_stream(Some("application/json"), br#"{"error":{"message":"bad key"}}"#);
        assert!(matches!(document, LlmError::Api { message, .. } if message == "bad key"));
    }
}
