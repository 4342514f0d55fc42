//! Everything that can go wrong between a request and its committed answer.

pub mod answer;
pub mod body;
pub mod class;
pub mod delay;
mod gave_up;

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use crate::api_key::ApiKey;
use crate::integrity::IntegrityError;
use crate::recording::RecordingError;
use crate::sse::SseError;

pub use answer::ErrorAnswer;
use answer::{clean, clean_to};
pub use body::{ErrorBody, MAX_MESSAGE_CHARS};
pub use class::ErrorClass;
pub use gave_up::GaveUp;

/// A failed request. No variant ever contains the key that was sent.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// The server answered with a status other than success.
    #[error("{}", http_message(*status, body))]
    Http {
        /// The status code.
        status: u16,
        /// The server's message, bounded and with the key removed.
        body: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// What kind of failure it is.
        class: ErrorClass,
        /// The server's own word on a retry (`x-should-retry`), which overrides ours.
        should_retry: Option<bool>,
    },
    /// A deadline passed.
    #[error("{}", deadline.message(*after))]
    Deadline {
        /// Which one.
        deadline: Deadline,
        /// How long it was.
        after: Duration,
    },
    /// The connection failed.
    #[error("{}", transport_message(.0))]
    Transport(#[from] reqwest::Error),
    /// The server reported an error inside a stream whose status was 200.
    #[error("{kind}: {message}")]
    Api {
        /// The server's own kind, such as `overloaded_error`; the number as text when it named none.
        kind: String,
        /// Its message.
        message: String,
        /// The HTTP status that the body of the error names, such as 502; gateways put one there
        /// when their upstream failed, and it decides about a retry where the kind does not.
        status: Option<u16>,
    },
    /// The server said something that the protocol does not allow.
    #[error("the server's answer could not be read: {0}")]
    Decode(String),
    /// The stream ended before the answer did.
    #[error("the server closed the stream before the answer was complete")]
    UnexpectedEof,
    /// A setting is missing or wrong.
    #[error("{0}")]
    Config(String),
    /// The transcript is not legal and was not sent.
    #[error("the conversation is not valid and was not sent: {0}")]
    Transcript(#[from] IntegrityError),
    /// The run is recorded or replayed, and that went wrong.
    #[error("{0}")]
    Recording(#[from] RecordingError),
    /// An attempt failed, and no other one was or will be made.
    #[error("{why}: {last}")]
    GaveUp {
        /// Why it was the last one.
        why: GaveUp,
        /// How it failed.
        last: Box<LlmError>,
    },
}

impl From<SseError> for LlmError {
    fn from(error: SseError) -> Self {
        Self::Decode(error.to_string())
    }
}

/// The three waits of a request, each with a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// Until the connection stands, TLS included.
    Connect,
    /// Without a byte: before the first one, and between any two.
    Idle,
    /// For the whole answer.
    Total,
}

impl Deadline {
    /// The name of its setting.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Idle => "idle",
            Self::Total => "total",
        }
    }

    fn message(self, after: Duration) -> String {
        let what = match self {
            Self::Connect => "no connection to the server",
            Self::Idle => "no word from the server",
            Self::Total => "the answer was not complete",
        };
        format!("{what} after {} s (the '{}' deadline)", after.as_secs_f64(), self.setting())
    }
}

impl LlmError {
    /// Whether the same request may succeed when it is sent again.
    ///
    /// Holds only while nothing of the answer was used: a step that showed content has to be thrown
    /// away first.
    pub fn is_retryable(&self) -> bool {
        match self {
            // No server's word makes the same request smaller or the account richer.
            Self::Http {
                class: ErrorClass::Quota | ErrorClass::RateTooSmall | ErrorClass::ContextOverflow,
                ..
            } => false,
            Self::Http { should_retry: Some(told), .. } => *told,
            Self::Http { status, .. } => matches!(status, 408 | 409 | 429 | 500..=599),
            Self::Api { .. } => {
                matches!(self.class(), Some(ErrorClass::RateLimit | ErrorClass::Server))
            }
            // The whole time is used up; only a wait that may have been bad luck is tried again.
            Self::Deadline { deadline, .. } => *deadline != Deadline::Total,
            Self::Transport(error) => !(error.is_builder() || tls_fault(error).is_some()),
            Self::UnexpectedEof => true,
            Self::Recording(error) => error.is_retryable(),
            Self::Decode(_) | Self::Config(_) | Self::Transcript(_) | Self::GaveUp { .. } => false,
        }
    }

    /// Whether the conversation is too long for the model; never retried as it is.
    pub fn is_context_overflow(&self) -> bool {
        self.class() == Some(ErrorClass::ContextOverflow)
    }

    /// What kind of failure the server reported, if the server reported it.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Http { class, .. } => Some(*class),
            Self::Api { kind, message, status } => {
                Some(ErrorClass::of(*status, &[kind.as_str()], message))
            }
            Self::GaveUp { last, .. } => last.class(),
            _ => None,
        }
    }

    /// The HTTP status that stands for the failure, where there is one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Http { status, .. } => Some(*status),
            Self::Api { status, .. } => *status,
            Self::GaveUp { last, .. } => last.status(),
            Self::Deadline { .. }
            | Self::Transport(_)
            | Self::Decode(_)
            | Self::UnexpectedEof
            | Self::Config(_)
            | Self::Transcript(_)
            | Self::Recording(_) => None,
        }
    }

    /// How long the server asks to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http { retry_after, .. } => *retry_after,
            Self::Api { message, status, .. } if self.is_retryable() => {
                let status = status.unwrap_or(429);
                delay::retry_delay(status, &[], None, message, Duration::ZERO)
            }
            Self::GaveUp { last, .. } => last.retry_after(),
            _ => None,
        }
    }

    /// A short name that stays the same, for machine-readable output.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http { class, .. } => class.name(),
            Self::Api { .. } => self.class().map_or("server", ErrorClass::name),
            Self::Deadline { .. } => "timeout",
            Self::Transport(_) => "network",
            Self::Decode(_) | Self::UnexpectedEof => "protocol",
            Self::Config(_) => "config",
            Self::Transcript(_) => "transcript",
            Self::Recording(_) => "recording",
            Self::GaveUp { last, .. } => last.kind(),
        }
    }

    /// What a person can do about it, where there is more to say than the message does.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Http { .. } | Self::Api { .. } => self.class().map(ErrorClass::advice),
            Self::Deadline { deadline: Deadline::Connect, .. } => {
                Some("check the base URL, the network and the proxy settings")
            }
            Self::Deadline { .. } => Some(
                "the server may still be working on the request, and billing it; slow models need a longer deadline",
            ),
            Self::Transport(error) => Some(match tls_fault(error) {
                Some(TlsFault::Certificate) => {
                    "the server's certificate is not trusted: point SSL_CERT_FILE at the certificate authority of your network"
                }
                Some(TlsFault::Authority) => {
                    "the server shows the certificate of an authority, which no server may: make it one with CA:FALSE, and point SSL_CERT_FILE at that"
                }
                Some(TlsFault::NoTls) => {
                    "the server does not speak TLS there: perhaps its address begins with http://"
                }
                None if error.is_connect() => {
                    "check that the server runs, the base URL, the network and the proxy settings"
                }
                None => CONNECTION_BROKE,
            }),
            Self::Decode(_) => Some("check that the base URL belongs to this kind of provider"),
            Self::UnexpectedEof => Some(CONNECTION_BROKE),
            Self::Config(_) | Self::Transcript(_) => None,
            Self::Recording(error) => Some(error.advice()),
            Self::GaveUp { last, .. } => last.advice(),
        }
    }

    /// The same error without the key in any text that came from outside.
    pub(crate) fn without_key(self, key: Option<&ApiKey>) -> Self {
        match self {
            Self::Api { kind, message, status } => {
                Self::Api { kind: clean(&kind, key), message: clean(&message, key), status }
            }
            Self::Decode(text) => Self::Decode(clean_to(&text, key, MAX_DECODE_CHARS)),
            other => other,
        }
    }
}

/// A protocol fault quotes what it could not read; the start of it tells which server speaks.
const MAX_DECODE_CHARS: usize = 400;

const CONNECTION_BROKE: &str = "the connection broke: try again";

fn http_message(status: u16, body: &str) -> String {
    match body {
        "" => format!("HTTP {status} without a message"),
        _ => format!("HTTP {status}: {body}"),
    }
}

/// Says where and why, which the error's own text leaves to its sources.
fn transport_message(error: &reqwest::Error) -> String {
    let to = match error.url() {
        Some(url) => url.origin().ascii_serialization(),
        None => "the server".to_owned(),
    };
    let doing = if error.is_connect() { "cannot reach" } else { "the connection failed to" };
    format!("{doing} {to}: {}", innermost(error))
}

/// The last source of an error, which is the one that tells the reason.
fn innermost(error: &reqwest::Error) -> String {
    sources(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}

/// A TLS fault that stays however often one tries.
enum TlsFault {
    /// The server's certificate is not trusted.
    Certificate,
    /// The server's certificate is one of an authority.
    Authority,
    /// What answers is no TLS.
    NoTls,
}

fn tls_fault(error: &reqwest::Error) -> Option<TlsFault> {
    let fault = sources(error).find_map(|source| {
        // An io::Error steps over the error it wraps when it is asked for its source, so what it
        // wraps is looked at here, however deep.
        let mut wrapped: &(dyn StdError + 'static) = source;
        while let Some(inner) = wrapped.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            wrapped = inner;
        }
        wrapped.downcast_ref::<rustls::Error>()
    });
    match fault? {
        // The cause is a type of another library, which says it in no other way.
        rustls::Error::InvalidCertificate(fault) if format!("{fault:?}").contains("CaUsed") => {
            Some(TlsFault::Authority)
        }
        rustls::Error::InvalidCertificate(_) => Some(TlsFault::Certificate),
        rustls::Error::InvalidMessage(_) => Some(TlsFault::NoTls),
        _ => None,
    }
}

/// The sources of an error, the nearest first.
pub(crate) fn sources(error: &dyn StdError) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> LlmError {
        let key = ApiKey::new("sk-test-0123456789abcdef0123").unwrap();
        let body = body.as_bytes();
        ErrorAnswer { status, headers, body, now: Duration::ZERO, key: Some(&key) }.into_error()
    }

    #[test]
    fn a_key_is_erased_before_a_text_is_cut_in_the_middle_of_it() {
        let key = ApiKey::new("sk-test-0123456789abcdef0123").unwrap();
        for padding in (MAX_DECODE_CHARS - 40)..(MAX_MESSAGE_CHARS + 5) {
            let text = format!("{}{}", "x".repeat(padding), key.expose());
            for error in [
                LlmError::Decode(text.clone()),
                LlmError::Api { kind: "k".into(), message: text, status: None },
            ] {
                let shown = error.without_key(Some(&key)).to_string();
                assert!(!shown.contains("sk-t"), "{padding}: {}", &shown[shown.len() - 60..]);
            }
        }
    }

    fn in_stream(kind: &str, status: Option<u16>) -> LlmError {
        LlmError::Api { kind: kind.into(), message: "m".into(), status }
    }

    #[test]
    fn a_401_is_not_retryable_while_429_and_529_are() {
        assert!(!answer(401, &[], "no").is_retryable());
        for status in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert!(answer(status, &[], "no").is_retryable(), "{status}");
        }
        for status in [400, 402, 403, 404, 405, 413, 422, 301] {
            assert!(!answer(status, &[], "no").is_retryable(), "{status}");
        }
    }

    #[test]
    fn the_servers_own_word_on_a_retry_overrides_the_status() {
        assert!(!answer(529, &[("x-should-retry", "false")], "no").is_retryable());
        assert!(answer(400, &[("x-should-retry", "true")], "no").is_retryable());
        assert!(answer(500, &[("x-should-retry", "perhaps")], "no").is_retryable());
    }

    #[test]
    fn errors_inside_a_stream_are_judged_by_their_kind_or_their_status() {
        assert!(in_stream("overloaded_error", None).is_retryable());
        assert!(in_stream("rate_limit_error", None).is_retryable());
        assert!(in_stream("upstream_said_no", Some(502)).is_retryable());
        assert!(!in_stream("invalid_request_error", None).is_retryable());
        assert!(!in_stream("insufficient_quota", Some(429)).is_retryable());
        assert!(in_stream("context_length_exceeded", None).is_context_overflow());
    }

    #[test]
    fn an_echoed_key_is_in_no_text_of_the_error() {
        let key = "sk-test-0123456789abcdef0123";
        let body = format!(r#"{{"error":{{"message":"Invalid Authorization: Bearer {key}"}}}}"#);
        let error = answer(400, &[], &body);
        assert!(!format!("{error} {error:?}").contains(key), "{error:?}");
        let long = format!("{}{key}", "y".repeat(MAX_MESSAGE_CHARS - 5));
        let error = answer(400, &[], &long);
        assert!(!error.to_string().contains("sk-te"), "the key is removed before the text is cut");
    }

    #[test]
    fn a_huge_body_becomes_a_bounded_message() {
        let error = answer(500, &[], &"X".repeat(100_000));
        assert!(error.to_string().chars().count() < MAX_MESSAGE_CHARS + 40);
    }

    #[test]
    fn a_redirect_names_its_target_without_the_query() {
        let error = answer(302, &[("location", "https://other.test/v1?sig=abc#x")], "");
        assert_eq!(error.to_string(), "HTTP 302: the server redirects to https://other.test/v1");
        assert_eq!(error.kind(), "redirect");
    }

    #[test]
    fn a_deadline_says_which_one_it_was_and_how_long() {
        let error =
            LlmError::Deadline { deadline: Deadline::Idle, after: Duration::from_millis(1_500) };
        assert_eq!(error.to_string(), "no word from the server after 1.5 s (the 'idle' deadline)");
        assert!(error.advice().is_some_and(|text| text.contains("may still be working")));
        assert!(error.is_retryable());
        let total = LlmError::Deadline { deadline: Deadline::Total, after: Duration::from_secs(9) };
        assert!(!total.is_retryable());
    }

    #[test]
    fn an_answer_without_a_body_still_has_a_message() {
        assert_eq!(answer(409, &[], "").to_string(), "HTTP 409 without a message");
    }

    #[test]
    fn a_wait_told_inside_a_stream_is_found() {
        let error = LlmError::Api {
            kind: "rate_limit_exceeded".into(),
            message: "please try again in 2s".into(),
            status: None,
        };
        assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    }
}
