//! Everything that can go wrong between a request and its committed answer.

use std::time::Duration;

use crate::integrity::IntegrityError;

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
    },
    /// The connection failed.
    #[error("{0}")]
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
}

fn http_message(status: u16, body: &str) -> String {
    format!("HTTP {status}: {body}")
}
