//! Writes a recording while its run goes on.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::RecordingError;
use super::format::{Failure, Header, Line, Payload, VERSION};
use super::{Asked, KEPT_HEADERS, MadeIds};
use crate::api_key::ApiKey;

/// Writes each line as soon as it is known.
///
/// The lines are small and go into the system's cache, so they are written where they come up, on a
/// thread of the runtime too.
pub struct Recorder {
    state: Mutex<State>,
    made_ids: MadeIds,
}

struct State {
    out: Box<dyn Write + Send>,
    requests: u64,
    has_begun: bool,
}

impl State {
    fn write(&mut self, line: &Line) -> Result<(), RecordingError> {
        let written = self.out.write_all(&line.to_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| RecordingError::Write(error.to_string()))
    }
}

impl Recorder {
    /// A recording into `out`, which nobody else should be able to read.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        let state = State { out, requests: 0, has_begun: false };
        Self { state: Mutex::new(state), made_ids: Arc::new(AtomicU64::new(0)) }
    }

    /// Writes what the recording is of; the first line, before any request.
    ///
    /// # Errors
    /// `Write` when the file does not take it.
    pub fn begin(&self, header: Header) -> Result<(), RecordingError> {
        let mut state = self.state();
        state.has_begun = true;
        state.write(&Line::Recording { version: VERSION, header })
    }

    pub(super) fn made_ids(&self) -> MadeIds {
        Arc::clone(&self.made_ids)
    }

    /// Keeps a request and returns its number.
    pub(crate) fn request(
        &self,
        asked: &Asked<'_>,
        key: Option<&ApiKey>,
    ) -> Result<u64, RecordingError> {
        let mut state = self.state();
        if !state.has_begun {
            state.has_begun = true;
            state.write(&Line::Recording { version: VERSION, header: Header::default() })?;
        }
        state.requests += 1;
        let request = state.requests;
        state.write(&Line::Request {
            request,
            dialect: asked.dialect.name().to_owned(),
            method: asked.method.to_owned(),
            path: asked.path.to_owned(),
            body: Some(Payload::of(&erase(asked.body, key))),
        })?;
        Ok(request)
    }

    /// Keeps the head of an answer.
    pub(crate) fn answer<'a>(
        &self,
        request: u64,
        status: u16,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), RecordingError> {
        let kept = headers.filter(|(name, _)| is_kept(name));
        let headers: BTreeMap<String, String> =
            kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.state().write(&Line::Answer { request, status, headers })
    }

    /// Keeps a piece of an answer's body.
    pub(crate) fn chunk(&self, request: u64, bytes: &[u8]) -> Result<(), RecordingError> {
        self.state().write(&Line::Chunk { request, bytes: Payload::of(bytes) })
    }

    /// Keeps that an answer ended.
    pub(crate) fn complete(&self, request: u64) -> Result<(), RecordingError> {
        self.state().write(&Line::End { request, error: None })
    }

    /// Keeps that a request failed on its way, and whether trying again could have helped.
    pub(crate) fn failed(
        &self,
        request: u64,
        message: String,
        is_retryable: bool,
    ) -> Result<(), RecordingError> {
        let failure = Failure { message, is_retryable };
        self.state().write(&Line::End { request, error: Some(failure) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at worst a line that is not whole, which a reader leaves out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a header of an answer is kept. Reset times of rate limits are waited for.
fn is_kept(name: &str) -> bool {
    KEPT_HEADERS.contains(&name) || name.contains("ratelimit")
}

/// What stands where the key stood.
const ERASED: &[u8] = b"[key removed]";

/// The bytes without the key.
fn erase(bytes: &[u8], key: Option<&ApiKey>) -> Vec<u8> {
    let Some(key) = key else { return bytes.to_vec() };
    if let Ok(text) = std::str::from_utf8(bytes) {
        return key.erase_from(text).into_owned().into_bytes();
    }
    let secret = key.expose().as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for at in memchr::memmem::find_iter(bytes, secret) {
        out.extend_from_slice(&bytes[done..at]);
        out.extend_from_slice(ERASED);
        done = at + secret.len();
    }
    out.extend_from_slice(&bytes[done..]);
    out
}

/// Takes the key out of bytes that come in pieces, also where it is cut in two.
pub(crate) struct Eraser {
    key: Option<ApiKey>,
    /// The end of what came, as far as it may be the beginning of the key.
    held: Vec<u8>,
}

impl Eraser {
    pub(crate) fn new(key: Option<ApiKey>) -> Self {
        Self { key, held: Vec::new() }
    }

    /// What can be kept now that these bytes came.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(key) = &self.key else { return bytes.to_vec() };
        self.held.extend_from_slice(bytes);
        // A whole key at the end is replaced before the beginning of another one is looked for.
        let mut ready = erase(&self.held, Some(key));
        let secret = key.expose().as_bytes();
        let longest = ready.len().min(secret.len() - 1);
        let beginning =
            (1..=longest).rev().find(|length| ready.ends_with(&secret[..*length])).unwrap_or(0);
        self.held = ready.split_off(ready.len() - beginning);
        ready
    }

    /// What was held back, when nothing more comes.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-test-0123456789abcdef0123";

    fn key() -> Option<ApiKey> {
        Some(ApiKey::new(KEY).unwrap())
    }

    #[test]
    fn a_key_is_erased_wherever_the_bytes_are_cut() {
        let text = format!("data: é {KEY} and sk-test-01 and {KEY}{KEY}");
        let want = "data: é [key removed] and sk-test-01 and [key removed][key removed]";
        let bytes = text.as_bytes();
        for first in 0..bytes.len() {
            for second in [first, (first + 9).min(bytes.len()), bytes.len()] {
                let mut eraser = Eraser::new(key());
                let mut kept = eraser.push(&bytes[..first]);
                kept.extend(eraser.push(&bytes[first..second]));
                kept.extend(eraser.push(&bytes[second..]));
                kept.extend(eraser.finish());
                assert_eq!(String::from_utf8(kept).unwrap(), want, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_key_among_bytes_that_are_no_text_is_erased_too() {
        let bytes = [b"\xff".as_slice(), KEY.as_bytes(), b"\xfe"].concat();
        assert_eq!(erase(&bytes, key().as_ref()), b"\xff[key removed]\xfe");
    }

    #[test]
    fn only_headers_that_a_client_goes_by_are_kept() {
        for name in ["content-type", "retry-after", "x-ratelimit-reset-tokens"] {
            assert!(is_kept(name), "{name}");
        }
        for name in ["set-cookie", "authorization", "x-api-key", "server", "x-request-id"] {
            assert!(!is_kept(name), "{name}");
        }
    }
}
