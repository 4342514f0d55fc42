//! Writes a recording while its run goes on.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clean::{self, Cleaner, Eraser};
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
    cleaner: Option<Cleaner>,
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
        Self { state: Mutex::new(state), made_ids: Arc::new(AtomicU64::new(0)), cleaner: None }
    }

    /// The same recording without what `cleaner` takes out of requests and answers.
    #[must_use]
    pub fn cleaned_by(self, cleaner: Cleaner) -> Self {
        Self { cleaner: Some(cleaner), ..self }
    }

    /// Takes the key, and what the cleaner knows, out of an answer that comes in pieces.
    pub(crate) fn eraser(&self, key: Option<ApiKey>) -> Eraser {
        Eraser::new(key, self.cleaner.as_ref())
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
            body: Some(Payload::of(&clean::whole(asked.body, key, self.cleaner.as_ref()))),
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
        let cleaned = |value: &str| clean::text(value, self.cleaner.as_ref());
        let headers: BTreeMap<String, String> =
            kept.map(|(name, value)| (name.to_owned(), cleaned(value))).collect();
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
        let message = clean::text(&message, self.cleaner.as_ref());
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

#[cfg(test)]
mod tests {
    use super::*;

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
