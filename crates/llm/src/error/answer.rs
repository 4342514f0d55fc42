//! Judges an answer that is not the event stream that was asked for.

use super::body::{self, ErrorBody, MAX_MESSAGE_CHARS};
use super::class::ErrorClass;
use super::{LlmError, delay};
use crate::api_key::ApiKey;

/// A non-stream answer, as the network code hands it over to be judged.
pub struct ErrorAnswer<'a> {
    /// The status code.
    pub status: u16,
    /// Its headers.
    pub headers: delay::Headers<'a>,
    /// The body, possibly only its start.
    pub body: &'a [u8],
    /// The local time, for waits told as a time of day.
    pub now: delay::UnixTime,
    /// The key that was sent, which servers echo.
    pub key: Option<&'a ApiKey>,
}

impl ErrorAnswer<'_> {
    /// Judges the answer: what it says, what kind of failure it is, whether and when to try again.
    pub fn into_error(self) -> LlmError {
        let read = ErrorBody::read(self.body);
        let class = ErrorClass::of(Some(self.status), &read.codes, &read.message);
        let header = |name| delay::header(self.headers, name);
        let retry_after = delay::retry_delay(
            self.status,
            self.headers,
            read.json.as_ref(),
            &read.message,
            self.now,
        );
        let message = match (header("location"), class) {
            (Some(location), ErrorClass::Redirect) => {
                format!("the server redirects to {}", without_query(location))
            }
            _ => read.message,
        };
        LlmError::Http {
            status: self.status,
            body: clean(&message, self.key),
            retry_after,
            class,
            should_retry: match header("x-should-retry") {
                Some("true") => Some(true),
                Some("false") => Some(false),
                _ => None,
            },
        }
    }
}

/// A server's text made fit to show: the key removed, then bounded.
pub(crate) fn clean(text: &str, key: Option<&ApiKey>) -> String {
    let text = key.map_or(text.into(), |key| key.erase_from(text));
    body::bounded(&text, MAX_MESSAGE_CHARS)
}

/// An address without what follows `?` or `#`, where signatures and tokens stand.
fn without_query(location: &str) -> &str {
    location.split(['?', '#']).next().unwrap_or_default()
}

/// Whether a content type rules out an event stream. Servers label streams in many ways, so only
/// what is surely something else is refused.
pub fn is_no_event_stream(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    ["json", "html", "xml"].iter().any(|kind| essence.ends_with(kind))
}

/// Whether bytes without a single event look like a document, whatever their label says.
pub fn looks_like_document(start: &[u8]) -> bool {
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'[' | b'<'))
}

/// The error for a document that came with status 200: an error object is what it says it is,
/// anything else is no answer at all.
pub fn document_error(content_type: &str, document: &[u8]) -> LlmError {
    let read = ErrorBody::read(document);
    let reports_error = read.json.as_ref().is_some_and(|json| json.get("error").is_some());
    match read.codes.first() {
        Some(kind) if reports_error => LlmError::Api {
            kind: kind.clone(),
            message: read.message,
            status: read.codes.iter().find_map(|code| code.parse().ok()),
        },
        _ => LlmError::Decode(format!(
            "it is {content_type} where an event stream was expected: {}",
            body::bounded(&read.message, MAX_MESSAGE_CHARS),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_type_is_compared_without_case_or_parameters() {
        for wrong in [
            "text/html",
            "Text/HTML; charset=utf-8",
            "application/JSON",
            "application/problem+json",
        ] {
            assert!(is_no_event_stream(wrong), "{wrong}");
        }
        for fine in ["text/event-stream", "TEXT/EVENT-STREAM;charset=UTF-8", "text/plain", ""] {
            assert!(!is_no_event_stream(fine), "{fine}");
        }
    }

    #[test]
    fn a_page_instead_of_a_stream_shows_its_words() {
        let error = document_error("text/html", b"<!DOCTYPE html><html><h1>Gateway</h1>");
        assert_eq!(
            error.to_string(),
            "the server's answer could not be read: it is text/html where an event stream was \
             expected: an HTML page: Gateway"
        );
    }

    #[test]
    fn an_error_object_with_status_200_is_the_error_it_names() {
        let error = document_error(
            "application/json",
            br#"{"error":{"message":"bad key","type":"invalid_request_error"}}"#,
        );
        let LlmError::Api { kind, message, status } = &error else { panic!("{error:?}") };
        assert_eq!((kind.as_str(), message.as_str()), ("invalid_request_error", "bad key"));
        assert_eq!(*status, None);
        assert!(!error.is_retryable());
    }

    #[test]
    fn a_whole_answer_that_was_not_streamed_is_no_error_object() {
        let error =
            document_error("application/json", br#"{"object":"chat.completion","type":"x"}"#);
        assert!(matches!(error, LlmError::Decode(_)), "{error:?}");
    }

    #[test]
    fn a_document_is_told_from_an_unfinished_stream_by_its_first_character() {
        assert!(looks_like_document(b"\n {\"error\""));
        assert!(!looks_like_document(b": waiting\n"));
        assert!(!looks_like_document(b"data: {"));
        assert!(!looks_like_document(b""));
    }
}
