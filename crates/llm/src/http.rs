//! The only network code: client, deadlines, status check, body to stream events.
//!
//! An `Endpoint` is one address with its headers and one client that keeps its connection. It
//! sends a body that is ready and gives the answer's bytes to a decoder; what they mean is the
//! decoder's business.

mod answer;
mod client;
mod tape;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::StreamExt as _;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, Url};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

use crate::api_key::ApiKey;
use crate::capability::Dialect;
use crate::error::{Deadline, ErrorAnswer, LlmError};
use crate::provider::{EventStream, random_call_ids};
use crate::providers::fault;
use crate::recording::Tape;
use crate::stream::IdSource;
use answer::Answer;
pub(crate) use answer::{AnswerDecoder, answer_decoder};

/// How long a request may take, in its three parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Until the connection stands, TLS included.
    pub connect: Duration,
    /// Without a byte, before the first one or between any two. Models that hide their reasoning
    /// are silent while they think, and a local server while it loads a model.
    pub idle: Duration,
    /// For the whole answer.
    pub total: Duration,
}

impl Default for Deadlines {
    /// 10 s to connect, 10 min of silence (what the vendors' own clients allow), 1 h in all (the
    /// longest answers, 128,000 tokens, take some 45 min at 50 tokens a second).
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            total: Duration::from_secs(3_600),
        }
    }
}

/// An error answer is read this far; messages are far shorter, and a gateway may send anything.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Largest document that is fetched whole.
const MAX_DOCUMENT: usize = 1 << 20;

/// How long the rest of such an answer is waited for; its status alone says most.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);

/// One address that requests are posted to.
pub(crate) struct Endpoint {
    url: Url,
    headers: HeaderMap,
    /// The path of the base URL, without which requests are recorded.
    base_path: String,
    key: Option<ApiKey>,
    deadlines: Deadlines,
    /// What requests go past, and the format they are in.
    tape: Option<(Tape, Dialect)>,
    /// Made with the first request, so that constructing a provider costs nothing.
    client: OnceCell<Client>,
}

impl Endpoint {
    /// The address `path` below `base_url`, without a key.
    ///
    /// # Errors
    /// `Config` when the base URL is none.
    pub(crate) fn new(base_url: &str, path: &[&str]) -> Result<Self, LlmError> {
        let base = below(base_url, &[])?;
        let base_path = base.path().trim_end_matches('/').to_owned();
        let url = below(base_url, path)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self {
            url,
            headers,
            base_path,
            key: None,
            deadlines: Deadlines::default(),
            tape: None,
            client: OnceCell::new(),
        })
    }

    /// The same with `key` sent as `prefix` + key in the header `name`.
    pub(crate) fn with_key(mut self, name: &'static str, prefix: &str, key: ApiKey) -> Self {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()))
            .expect("an ApiKey holds only what a header can carry");
        value.set_sensitive(true);
        self.headers.insert(HeaderName::from_static(name), value);
        self.key = Some(key);
        self
    }

    /// The same with `key`, if there is one, as the bearer token.
    pub(crate) fn with_bearer(self, key: Option<ApiKey>) -> Self {
        match key {
            Some(key) => self.with_key("authorization", "Bearer ", key),
            None => self,
        }
    }

    /// The same with one more header.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// The same with other deadlines.
    pub(crate) fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        // The connect deadline is part of the client.
        self.client = OnceCell::new();
        self
    }

    /// The same with its requests, which are in the format of `dialect`, kept by or answered from a
    /// tape.
    pub(crate) fn with_tape(mut self, tape: Option<Tape>, dialect: Dialect) -> Self {
        self.tape = tape.map(|tape| (tape, dialect));
        self
    }

    /// Names calls that the server leaves unnamed: at random, or so that a replay finds the same
    /// names.
    pub(crate) fn call_ids(&self) -> IdSource {
        self.tape.as_ref().map_or_else(random_call_ids, |(tape, _)| tape.call_ids())
    }

    /// The address `path` below this one, with a pair more in its query. Dots alone are no part of
    /// it: they would lead elsewhere.
    pub(crate) fn below(&self, path: &[impl AsRef<str>], pair: Option<(&str, &str)>) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if let Some((name, value)) = pair {
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    /// Posts `body` to the address itself. See [`Endpoint::post_to`].
    ///
    /// # Errors
    /// What went wrong before the first byte of a successful event stream.
    pub(crate) async fn post(
        &self,
        body: Vec<u8>,
        decoder: impl AnswerDecoder,
    ) -> Result<EventStream, LlmError> {
        self.post_to(self.url.clone(), body, decoder).await
    }

    /// Posts `body` to an address below this one and returns the answer as `decoder` reads it. Dropping the stream closes the
    /// connection; whether the server stops working, and billing, is up to the server.
    ///
    /// # Errors
    /// What went wrong before the first byte of a successful event stream.
    pub(crate) async fn post_to(
        &self,
        url: Url,
        body: Vec<u8>,
        decoder: impl AnswerDecoder,
    ) -> Result<EventStream, LlmError> {
        let clock = Clock::start(self.deadlines);
        let response = match &self.tape {
            None => self.send(self.client().await?.post(url).body(body), &clock).await?,
            Some((tape, dialect)) => self.send_past(tape, *dialect, url, body, &clock).await?,
        };
        let response = self.check_status(response, &clock).await?;
        let response = self.check_content(response, &clock).await;
        // Whatever is told of an answer, its server may have put the key there.
        let response = response.map_err(|error| error.without_key(self.key.as_ref()))?;
        let content_type = content_type(&response).map(str::to_owned);
        let bytes = response.bytes_stream();
        Ok(Answer::new(bytes, decoder, clock, content_type, self.key.clone()).boxed())
    }

    /// Fetches the small document at the address.
    ///
    /// # Errors
    /// What went wrong on the way, or a document larger than 1 MiB.
    pub(crate) async fn get(&self) -> Result<Vec<u8>, LlmError> {
        let mut clock = Clock::start(self.deadlines);
        let response = self.send(self.client().await?.get(self.url.clone()), &clock).await?;
        let response = self.check_status(response, &clock).await?;
        let mut document = Vec::new();
        let mut bytes = response.bytes_stream();
        loop {
            match timeout_at(clock.next(), bytes.next()).await {
                Ok(Some(Ok(chunk))) => {
                    clock.heard();
                    document.extend_from_slice(&chunk);
                }
                Ok(Some(Err(error))) => return Err(self.transport(error)),
                Ok(None) => return Ok(document),
                Err(_) => return Err(clock.passed()),
            }
            if document.len() > MAX_DOCUMENT {
                return Err(LlmError::Decode("it is larger than 1 MiB".to_owned()));
            }
        }
    }

    async fn client(&self) -> Result<&Client, LlmError> {
        let build = || client::build(&self.url, self.deadlines.connect);
        self.client.get_or_try_init(build).await
    }

    async fn send(&self, request: RequestBuilder, clock: &Clock) -> Result<Response, LlmError> {
        let request = request.headers(self.headers.clone());
        match timeout_at(clock.next(), request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.transport(error)),
            Err(_) => Err(clock.passed()),
        }
    }

    /// Turns every status but success into the error it stands for.
    async fn check_status(&self, response: Response, clock: &Clock) -> Result<Response, LlmError> {
        let status = response.status();
        if status.as_u16() == 204 || status.as_u16() == 205 {
            return Err(LlmError::UnexpectedEof);
        }
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = read_start(response, clock).await;
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        let answer = ErrorAnswer {
            status: status.as_u16(),
            headers: &headers,
            body: &body,
            now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            key: self.key.as_ref(),
        };
        Err(answer.into_error())
    }

    /// Refuses a successful answer that cannot be an event stream, telling what it is instead.
    async fn check_content(&self, response: Response, clock: &Clock) -> Result<Response, LlmError> {
        if !fault::is_event_stream(content_type(&response)) {
            let content_type = content_type(&response).map(str::to_owned);
            let body = read_start(response, clock).await;
            return Err(fault::not_an_event_stream(content_type.as_deref(), &body));
        }
        let encoding = response.headers().get(CONTENT_ENCODING);
        match encoding.and_then(|value| value.to_str().ok()) {
            None | Some("identity") => Ok(response),
            Some(encoding) => Err(LlmError::Decode(format!(
                "it is compressed ({encoding}), which was not asked for"
            ))),
        }
    }

    fn transport(&self, error: reqwest::Error) -> LlmError {
        if error.is_connect() && error.is_timeout() {
            let after = self.deadlines.connect;
            return LlmError::Deadline { deadline: Deadline::Connect, after };
        }
        LlmError::Transport(error)
    }
}

/// Which deadline comes next, from the moments of the start and of the last byte.
#[derive(Debug, Clone, Copy)]
struct Clock {
    deadlines: Deadlines,
    started: Instant,
    last_byte: Instant,
}

impl Clock {
    fn start(deadlines: Deadlines) -> Self {
        let now = Instant::now();
        Self { deadlines, started: now, last_byte: now }
    }

    fn heard(&mut self) {
        self.last_byte = Instant::now();
    }

    fn next(&self) -> Instant {
        self.idle_over().min(self.total_over())
    }

    /// The error for the deadline that [`Clock::next`] named.
    fn passed(&self) -> LlmError {
        let (deadline, after) = match self.idle_over() < self.total_over() {
            true => (Deadline::Idle, self.deadlines.idle),
            false => (Deadline::Total, self.deadlines.total),
        };
        LlmError::Deadline { deadline, after }
    }

    fn idle_over(&self) -> Instant {
        later(self.last_byte, self.deadlines.idle)
    }

    fn total_over(&self) -> Instant {
        later(self.started, self.deadlines.total)
    }
}

/// The moment `wait` after `from`; a wait beyond what a clock can count never ends in practice.
fn later(from: Instant, wait: Duration) -> Instant {
    const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);
    from + wait.min(TEN_YEARS)
}

/// Appends a path to a base URL, keeping a query such as `?api-version=…`.
fn below(base_url: &str, path: &[&str]) -> Result<Url, LlmError> {
    // What stands before an `@` is a name and a password.
    let shown = base_url.rsplit('@').next().unwrap_or_default();
    let wrong = |why: String| {
        LlmError::Config(format!(
            "the base URL {shown:?} is not usable: {why}; it looks like https://host/path"
        ))
    };
    let mut url = Url::parse(base_url.trim()).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!("'{}' is neither http nor https", url.scheme())));
    }
    url.set_fragment(None);
    url.path_segments_mut()
        .map_err(|()| wrong("it has no path".to_owned()))?
        .pop_if_empty()
        .extend(path);
    Ok(url)
}

fn content_type(response: &Response) -> Option<&str> {
    response.headers().get(CONTENT_TYPE)?.to_str().ok()
}

/// The start of a body that is only shown: as much as comes in time and is worth reading.
async fn read_start(response: Response, clock: &Clock) -> Vec<u8> {
    let mut start = Vec::new();
    let mut bytes = response.bytes_stream();
    let until = clock.next().min(Instant::now() + ERROR_BODY_WAIT);
    while start.len() < MAX_ERROR_BODY
        && let Ok(Some(Ok::<Bytes, _>(chunk))) = timeout_at(until, bytes.next()).await
    {
        start.extend_from_slice(&chunk);
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base_url: &str, want: &str) {
        let url = below(base_url, &["chat", "completions"]);
        assert_eq!(url.unwrap().as_str(), want, "{base_url}");
    }

    #[test]
    fn a_path_is_appended_to_the_base_and_its_query_kept() {
        check("https://h/v1", "https://h/v1/chat/completions");
        check("https://h/v1/", "https://h/v1/chat/completions");
        check(" http://h:1 ", "http://h:1/chat/completions");
        check("https://h/models?api-version=1", "https://h/models/chat/completions?api-version=1");
    }

    #[test]
    fn a_base_url_that_is_none_is_refused_by_name() {
        let error = below("ftp://me:secret@host/", &["x"]).unwrap_err().to_string();
        assert!(error.contains("host/") && !error.contains("secret"), "{error}");
        for wrong in ["", "localhost:8080", "/v1", "ftp://h/", "file:///x", "mailto:a@b"] {
            let error = below(wrong, &["x"]).unwrap_err();
            assert!(
                matches!(&error, LlmError::Config(text) if text.contains("base URL")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_nearest_deadline_counts_and_is_named() {
        let seconds = Duration::from_secs;
        let deadlines = Deadlines { connect: seconds(1), idle: seconds(5), total: seconds(8) };
        let mut clock = Clock::start(deadlines);
        assert_eq!(clock.next(), clock.started + seconds(5));
        let named = |clock: &Clock| match clock.passed() {
            LlmError::Deadline { deadline, after } => (deadline, after),
            other => panic!("{other:?}"),
        };
        assert_eq!(named(&clock), (Deadline::Idle, seconds(5)));
        clock.last_byte = clock.started + seconds(4);
        assert_eq!(clock.next(), clock.started + seconds(8));
        assert_eq!(named(&clock), (Deadline::Total, seconds(8)));
        clock.deadlines = Deadlines { idle: Duration::MAX, total: Duration::MAX, ..deadlines };
        assert!(clock.next() > clock.started + seconds(86_400));
    }
}
