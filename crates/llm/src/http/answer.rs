//! The answer as a stream: bytes in, decoded events out, each wait under a deadline.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Clock;
use crate::api_key::ApiKey;
use crate::error::{self, LlmError, answer::looks_like_document};
use crate::providers::fault;
use crate::sse::{SseDecoder, SseFrame};
use crate::stream::StreamEvent;

/// Reads the events of one dialect; implemented by the `decode` half of each provider.
pub(crate) trait AnswerDecoder: Send + Unpin + 'static {
    /// Takes the next event and appends what it means.
    fn on_sse(&mut self, frame: SseFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError>;

    /// The stream ended.
    fn on_end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), LlmError>;

    /// Whether the answer is complete, whatever else the server sends.
    fn is_finished(&self) -> bool;
}

/// Gives a decoder, which has these functions of its own, to the network code: a decoder is pure, so
/// it cannot know of this trait.
macro_rules! answer_decoder {
    ($state:ty) => {
        impl $crate::http::AnswerDecoder for $state {
            fn on_sse(
                &mut self,
                frame: $crate::sse::SseFrame<'_>,
                out: &mut Vec<$crate::stream::StreamEvent>,
            ) -> Result<(), $crate::error::LlmError> {
                self.on_sse(frame, out)
            }

            fn on_end(
                &mut self,
                out: &mut Vec<$crate::stream::StreamEvent>,
            ) -> Result<(), $crate::error::LlmError> {
                self.on_end(out)
            }

            fn is_finished(&self) -> bool {
                self.is_finished()
            }
        }
    };
}

pub(crate) use answer_decoder;

/// How long the server may take to close a body whose answer is complete. Reading to the end keeps
/// the connection for the next request; longer than this is dearer than a new connection.
const CLOSING: Duration = Duration::from_millis(250);

/// How much is kept to tell a document from a stream in which no event has come yet.
const START: usize = 4 << 10;

pub(super) struct Answer<B, D> {
    bytes: B,
    sse: SseDecoder,
    decoder: D,
    clock: Clock,
    timer: Pin<Box<Sleep>>,
    /// Decoded and not yet handed out.
    events: VecDeque<StreamEvent>,
    phase: Phase,
    start: Start,
    content_type: Option<String>,
    key: Option<ApiKey>,
}

/// Where the stream stands once `events` is empty.
enum Phase {
    Reading,
    /// The answer is complete; the body is read to its end, until then.
    Closing(Instant),
    Failed(LlmError),
    Ended,
}

/// What the body began with.
enum Start {
    NoEvent(Vec<u8>),
    Stream,
}

impl<B, D> Answer<B, D>
where
    B: Stream<Item = reqwest::Result<Bytes>> + Unpin,
    D: AnswerDecoder,
{
    /// Begins when the head of the answer has come, which counts as a word from the server.
    pub(super) fn new(
        bytes: B,
        decoder: D,
        mut clock: Clock,
        content_type: Option<String>,
        key: Option<ApiKey>,
    ) -> Self {
        clock.heard();
        Self {
            bytes,
            sse: SseDecoder::default(),
            decoder,
            timer: Box::pin(sleep_until(clock.next())),
            clock,
            events: VecDeque::new(),
            phase: Phase::Reading,
            start: Start::NoEvent(Vec::new()),
            content_type,
            key,
        }
    }

    /// Decodes one chunk into `events`, whose memory is used again.
    fn on_chunk(&mut self, chunk: &[u8]) {
        self.clock.heard();
        let mut out = Vec::from(std::mem::take(&mut self.events));
        let Self { sse, decoder, start, .. } = self;
        if let Start::NoEvent(seen) = start {
            seen.extend_from_slice(&chunk[..chunk.len().min(START.saturating_sub(seen.len()))]);
        }
        let fed = sse.feed(chunk, |frame| {
            *start = Start::Stream;
            decoder.on_sse(frame, &mut out)
        });
        self.events = out.into();
        match fed {
            Err(error) => self.fail(error),
            Ok(()) if self.decoder.is_finished() => {
                self.phase = Phase::Closing(Instant::now() + CLOSING);
            }
            Ok(()) => {}
        }
    }

    /// The body ended, properly or not: the decoder knows whether the answer is complete.
    fn on_end(&mut self, broken: Option<reqwest::Error>) {
        let mut out = Vec::from(std::mem::take(&mut self.events));
        let ended = self.decoder.on_end(&mut out);
        self.events = out.into();
        match (ended, broken) {
            (Ok(()), _) => self.phase = Phase::Ended,
            (Err(LlmError::UnexpectedEof), Some(error)) if !is_cut_off(&error) => {
                self.fail(LlmError::Transport(error));
            }
            (Err(error), _) => {
                let error = self.document_error().unwrap_or(error);
                self.fail(error);
            }
        }
    }

    /// The error for a body that calls itself a stream, holds no event and is a page or an object.
    fn document_error(&self) -> Option<LlmError> {
        match &self.start {
            Start::NoEvent(seen) if looks_like_document(seen) => {
                Some(fault::not_an_event_stream(self.content_type.as_deref(), seen))
            }
            _ => None,
        }
    }

    fn fail(&mut self, error: LlmError) {
        self.phase = Phase::Failed(error.without_key(self.key.as_ref()));
    }

    /// Waits for `deadline`; true when it has passed.
    fn poll_deadline(&mut self, deadline: Instant, cx: &mut Context<'_>) -> bool {
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        self.timer.as_mut().poll(cx).is_ready()
    }
}

impl<B, D> Stream for Answer<B, D>
where
    B: Stream<Item = reqwest::Result<Bytes>> + Unpin,
    D: AnswerDecoder,
{
    type Item = Result<StreamEvent, LlmError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.events.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            match std::mem::replace(&mut this.phase, Phase::Ended) {
                Phase::Ended => return Poll::Ready(None),
                Phase::Failed(error) => return Poll::Ready(Some(Err(error))),
                Phase::Reading => {
                    this.phase = Phase::Reading;
                    match Pin::new(&mut this.bytes).poll_next(cx) {
                        Poll::Ready(Some(Ok(chunk))) => this.on_chunk(&chunk),
                        Poll::Ready(Some(Err(error))) => this.on_end(Some(error)),
                        Poll::Ready(None) => this.on_end(None),
                        Poll::Pending if this.poll_deadline(this.clock.next(), cx) => {
                            let passed = this.clock.passed();
                            this.fail(passed);
                        }
                        Poll::Pending => return Poll::Pending,
                    }
                }
                Phase::Closing(until) => match Pin::new(&mut this.bytes).poll_next(cx) {
                    Poll::Ready(Some(Ok(_))) => this.phase = Phase::Closing(until),
                    Poll::Ready(_) => {}
                    Poll::Pending if this.poll_deadline(until, cx) => {}
                    Poll::Pending => {
                        this.phase = Phase::Closing(until);
                        return Poll::Pending;
                    }
                },
            }
        }
    }
}

/// Whether the body ended before the length or the last chunk that was announced.
fn is_cut_off(error: &reqwest::Error) -> bool {
    error::sources(error).any(|source| {
        source
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
    })
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};

    use super::*;
    use crate::error::Deadline;
    use crate::http::Deadlines;
    use crate::stream::FinishReason;

    const KEY: &str = "sk-test-0123456789abcdef0123";

    /// Says what it hears: `end` finishes, `bad` fails with the key in its text.
    #[derive(Default)]
    struct Echo {
        finished: bool,
    }

    fn text(text: &str) -> StreamEvent {
        StreamEvent::Text { block: 0, text: text.to_owned() }
    }

    fn finish() -> StreamEvent {
        StreamEvent::Finish { reason: FinishReason::EndTurn, raw: None }
    }

    impl AnswerDecoder for Echo {
        fn on_sse(
            &mut self,
            frame: SseFrame<'_>,
            out: &mut Vec<StreamEvent>,
        ) -> Result<(), LlmError> {
            match frame.data {
                "bad" => return Err(LlmError::Decode(format!("bad {KEY}"))),
                "end" => {
                    self.finished = true;
                    out.push(finish());
                }
                data => out.push(text(data)),
            }
            Ok(())
        }

        fn on_end(&mut self, _out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
            if self.finished { Ok(()) } else { Err(LlmError::UnexpectedEof) }
        }

        fn is_finished(&self) -> bool {
            self.finished
        }
    }

    fn answer(
        bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    ) -> impl Stream<Item = Result<StreamEvent, LlmError>> {
        let clock = Clock::start(Deadlines::default());
        let key = ApiKey::new(KEY).unwrap();
        Answer::new(bytes.boxed(), Echo::default(), clock, None, Some(key))
    }

    fn chunks(list: &[&'static str]) -> impl Stream<Item = reqwest::Result<Bytes>> + use<> {
        stream::iter(Vec::from_iter(
            list.iter().map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))),
        ))
    }

    /// The events, and the error that ended them if one did.
    async fn read(
        bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    ) -> (Vec<StreamEvent>, Option<LlmError>) {
        let mut events = Vec::new();
        let mut answer = answer(bytes);
        while let Some(item) = answer.next().await {
            match item {
                Ok(event) => events.push(event),
                Err(error) => {
                    assert!(answer.next().await.is_none(), "an error ends the stream");
                    return (events, Some(error));
                }
            }
        }
        (events, None)
    }

    #[tokio::test]
    async fn events_come_out_in_order_however_the_bytes_are_cut() {
        let bytes = chunks(&["data: a\n\ndata: b\n\nda", "ta: c\n", "\ndata: end\n\n"]);
        let (events, error) = read(bytes).await;
        assert_eq!(events, [text("a"), text("b"), text("c"), finish()]);
        assert!(error.is_none());
    }

    #[tokio::test]
    async fn what_came_before_an_error_is_handed_out_and_the_error_holds_no_key() {
        let (events, error) = read(chunks(&["data: a\n\ndata: bad\n\ndata: b\n\n"])).await;
        assert_eq!(events, [text("a")]);
        let message = error.unwrap().to_string();
        assert!(message.contains("bad") && !message.contains(KEY), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_body_ends_through_the_idle_deadline() {
        let bytes = chunks(&["data: a\n\n"]).chain(stream::pending());
        let (events, error) = read(bytes).await;
        assert_eq!(events, [text("a")]);
        let Some(LlmError::Deadline { deadline, after }) = error else { panic!("{error:?}") };
        assert_eq!((deadline, after), (Deadline::Idle, Deadlines::default().idle));
    }

    #[tokio::test(start_paused = true)]
    async fn the_head_of_an_answer_counts_as_a_word_from_the_server() {
        let deadlines = Deadlines::default();
        let (started, clock) = (Instant::now(), Clock::start(deadlines));
        let nearly = deadlines.idle - Duration::from_secs(1);
        tokio::time::advance(nearly).await;
        let silent = stream::pending::<reqwest::Result<Bytes>>().boxed();
        let mut answer = Answer::new(silent, Echo::default(), clock, None, None);
        assert!(matches!(answer.next().await, Some(Err(LlmError::Deadline { .. }))));
        assert_eq!(started.elapsed().as_secs(), (nearly + deadlines.idle).as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_for_ever_ends_through_the_total_deadline() {
        let bytes = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(300)).await;
            Some((Ok(Bytes::from_static(b": still here\n")), ()))
        });
        let started = Instant::now();
        let (_, error) = read(bytes).await;
        let Some(LlmError::Deadline { deadline, after }) = error else { panic!("{error:?}") };
        assert_eq!((deadline, after), (Deadline::Total, Deadlines::default().total));
        assert_eq!(started.elapsed().as_secs(), after.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_complete_answer_does_not_wait_for_a_server_that_keeps_it_open() {
        let started = Instant::now();
        let bytes = chunks(&["data: a\n\ndata: end\n\n"]).chain(stream::pending());
        let (events, error) = read(bytes).await;
        assert_eq!(events, [text("a"), finish()]);
        assert!(error.is_none());
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn a_page_that_calls_itself_a_stream_is_shown() {
        let (_, error) = read(chunks(&["<html><body>Please ", "log in</body></html>"])).await;
        let message = error.unwrap().to_string();
        assert!(message.contains("log in"), "{message}");
        let (_, error) = read(chunks(&[r#"{"error":{"message":"no","type":"t"}}"#])).await;
        assert!(matches!(error, Some(LlmError::Api { .. })), "{error:?}");
    }

    #[tokio::test]
    async fn an_empty_or_unfinished_body_is_an_unexpected_end() {
        for bytes in [&[][..], &["data: a\n\n"], &[": waiting\n\n"], &["data: {\"a\""]] {
            let (_, error) = read(chunks(bytes)).await;
            assert!(matches!(error, Some(LlmError::UnexpectedEof)), "{bytes:?} {error:?}");
        }
    }
}
