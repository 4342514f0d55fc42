//! Judges an answer whose status is not success.

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
    clean_to(text, key, MAX_MESSAGE_CHARS)
}

/// Like [`clean`], cut to `max_chars`.
pub(crate) fn clean_to(text: &str, key: Option<&ApiKey>, max_chars: usize) -> String {
    let text = key.map_or(text.into(), |key| key.erase_from(text));
    body::bounded(&text, max_chars)
}

/// An address without what follows `?` or `#`, where signatures and tokens stand.
fn without_query(location: &str) -> &str {
    location.split(['?', '#']).next().unwrap_or_default()
}

/// Whether bytes without a single event look like a document, whatever their label says.
pub fn looks_like_document(start: &[u8]) -> bool {
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'[' | b'<'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_told_from_an_unfinished_stream_by_its_first_character() {
        assert!(looks_like_document(b"\n {\"error\""));
        assert!(!looks_like_document(b": waiting\n"));
        assert!(!looks_like_document(b"data: {"));
        assert!(!looks_like_document(b""));
    }
}
