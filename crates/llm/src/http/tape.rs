//! Requests that are kept on their way, or answered from a recording instead of the network.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use reqwest::{Body, Response, Url};

use super::{Clock, Endpoint};
use crate::capability::Dialect;
use crate::error::LlmError;
use crate::recording::{Asked, Ended, Eraser, Recorder, RecordingError, Replayed, Tape};

impl Endpoint {
    /// Sends `body` past the tape. From the answer on, a recorded one and one from the network are
    /// treated alike.
    pub(super) async fn send_past(
        &self,
        tape: &Tape,
        dialect: Dialect,
        url: Url,
        body: Vec<u8>,
        clock: &Clock,
    ) -> Result<Response, LlmError> {
        let path = url.path().strip_prefix(&self.base_path).unwrap_or(url.path()).to_owned();
        let asked = Asked { dialect, method: "POST", path: &path, body: &body };
        match tape {
            Tape::Replay(player) => Ok(response(player.answer(&asked)?)),
            Tape::Record(recorder) => {
                let request = recorder.request(&asked, self.key.as_ref())?;
                match self.send(self.client().await?.post(url).body(body), clock).await {
                    Ok(response) => self.kept(response, Arc::clone(recorder), request),
                    Err(error) => {
                        recorder.failed(request, error.to_string(), error.is_retryable())?;
                        Err(error)
                    }
                }
            }
        }
    }

    /// The same answer, kept as it is read.
    fn kept(
        &self,
        response: Response,
        recorder: Arc<Recorder>,
        request: u64,
    ) -> Result<Response, LlmError> {
        let key = self.key.clone();
        let shown = |value: &str| key.as_ref().is_none_or(|key| !value.contains(key.expose()));
        let headers = response.headers().iter().filter_map(|(name, value)| {
            Some((name.as_str(), value.to_str().ok().filter(|value| shown(value))?))
        });
        recorder.answer(request, response.status().as_u16(), headers)?;
        let (parts, body) = http::Response::<Body>::from(response).into_parts();
        let bytes = Response::from(http::Response::new(body)).bytes_stream().boxed();
        let eraser = recorder.eraser(key);
        let kept = Kept { bytes, recorder, request, eraser, is_over: false };
        Ok(http::Response::from_parts(parts, Body::wrap_stream(kept)).into())
    }
}

/// A recorded answer as the network would have brought it.
fn response(replayed: Replayed) -> Response {
    let Replayed { status, headers, chunks, ended } = replayed;
    let cut = (ended == Ended::Broken).then(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let bytes = stream::iter(chunks.into_iter().map(Ok::<Bytes, io::Error>).chain(cut));
    let mut response = http::Response::new(Body::wrap_stream(bytes));
    // A recording can be written by hand, so what it says may be no status and no header.
    *response.status_mut() = status.try_into().unwrap_or(http::StatusCode::BAD_GATEWAY);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), value.try_into()) {
            response.headers_mut().insert(name, value);
        }
    }
    response.into()
}

/// The body of an answer, each piece kept before it is handed on.
struct Kept<B> {
    bytes: B,
    recorder: Arc<Recorder>,
    request: u64,
    eraser: Eraser,
    is_over: bool,
}

impl<B> Kept<B> {
    fn keep(&mut self, chunk: Vec<u8>) -> Result<(), RecordingError> {
        if chunk.is_empty() { Ok(()) } else { self.recorder.chunk(self.request, &chunk) }
    }

    fn end(&mut self, error: Option<&reqwest::Error>) -> Result<(), RecordingError> {
        self.is_over = true;
        let rest = self.eraser.finish();
        self.keep(rest)?;
        match error {
            None => self.recorder.complete(self.request),
            Some(error) => self.recorder.failed(self.request, error.to_string(), true),
        }
    }
}

/// Whatever ends a body early.
type Broken = Box<dyn std::error::Error + Send + Sync>;

impl<B: Stream<Item = reqwest::Result<Bytes>> + Unpin> Stream for Kept<B> {
    type Item = Result<Bytes, Broken>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Poll::Ready(item) = this.bytes.poll_next_unpin(cx) else { return Poll::Pending };
        Poll::Ready(match item {
            Some(Ok(chunk)) => {
                let kept = this.eraser.push(&chunk);
                Some(this.keep(kept).map(|()| chunk).map_err(Into::into))
            }
            Some(Err(error)) => {
                let kept = this.end(Some(&error));
                Some(Err(kept.map_or_else(Into::into, |()| error.into())))
            }
            None if this.is_over => None,
            None => this.end(None).err().map(|error| Err(error.into())),
        })
    }
}

impl<B> Drop for Kept<B> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Nobody reads on: the recording says so by having no end of this answer.
        let rest = self.eraser.finish();
        if let Err(error) = self.keep(rest) {
            tracing::warn!(%error, "the last bytes of an answer are not in the recording");
        }
    }
}
