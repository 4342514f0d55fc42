//! Asks again when an answer fails for a reason that may pass: a provider around a provider.
//!
//! Nothing of an answer that failed may be seen: what arrives before the first visible piece of it is
//! held back, so that it can be dropped with the attempt. From then on the answer is handed through,
//! and a failure is final.

mod decision;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use crate::capability::TargetFor;
use crate::error::{ErrorClass, LlmError};
use crate::provider::{EventStream, Provider};
use crate::stream::{Phase, StreamEvent};
use crate::types::ChatRequest;
pub use decision::RetryPolicy;
use decision::{Failure, Verdict};

/// Gives a number from 0 up to 1 each time, so that clients that failed together do not come back
/// together.
pub type Jitter = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A provider that asks another one, and asks it again when that may help.
///
/// Its stream begins at once and does the work as it is read: connecting, waiting and delays are
/// [`StreamEvent::Phase`]s of it. Dropping it, during a delay too, stops everything.
pub struct Retry {
    inner: Arc<dyn Provider>,
    policy: RetryPolicy,
    jitter: Jitter,
    has_delays: bool,
}

impl Retry {
    /// `inner`, asked again under `policy`.
    pub fn new(inner: Arc<dyn Provider>, policy: RetryPolicy) -> Self {
        Self { inner, policy, jitter: Arc::new(random), has_delays: true }
    }

    /// The same without waiting between attempts, for answers that are recorded.
    #[must_use]
    pub fn without_delays(mut self) -> Self {
        self.has_delays = false;
        self
    }

    /// The same with another source of randomness.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }
}

/// A random number from 0 up to 1. The ids that are made up here come from the system's generator,
/// and 52 bits of one are all that a fraction can hold.
fn random() -> f64 {
    let bits = uuid::Uuid::new_v4().as_u128() as u64 & ((1 << 52) - 1);
    bits as f64 / (1_u64 << 52) as f64
}

#[async_trait]
impl Provider for Retry {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn target(&self) -> Option<TargetFor> {
        self.inner.target()
    }

    /// Never fails itself: what goes wrong arrives in the stream.
    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        let attempts = Attempts {
            inner: Arc::clone(&self.inner),
            // The messages are shared, so this copies their addresses only.
            req: req.clone(),
            policy: self.policy,
            jitter: Arc::clone(&self.jitter),
            has_delays: self.has_delays,
            started: Instant::now(),
            attempt: 1,
            has_resampled: false,
            ready: VecDeque::from([StreamEvent::Phase(Phase::Connecting)]),
            held: Held::default(),
            is_streaming: false,
            state: State::Ask,
        };
        Ok(stream::unfold(Box::new(attempts), Attempts::next).boxed())
    }
}

/// One request and the attempts to have it answered.
struct Attempts {
    inner: Arc<dyn Provider>,
    req: ChatRequest,
    policy: RetryPolicy,
    jitter: Jitter,
    has_delays: bool,
    started: Instant,
    /// The running attempt, from 1.
    attempt: u32,
    /// Whether an unusable call was sampled anew, which is done once.
    has_resampled: bool,
    /// To be handed out before anything else happens.
    ready: VecDeque<StreamEvent>,
    held: Held,
    /// Whether it was told that the answer arrives.
    is_streaming: bool,
    state: State,
}

/// What happens once `ready` is empty.
enum State {
    Ask,
    Read(EventStream),
    Pause(Duration),
    Ended,
}

impl Attempts {
    async fn next(mut self: Box<Self>) -> Option<(Result<StreamEvent, LlmError>, Box<Self>)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            let failed = match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return None,
                State::Pause(delay) => {
                    tokio::time::sleep(delay).await;
                    self.ready.push_back(StreamEvent::Phase(Phase::Connecting));
                    self.state = State::Ask;
                    None
                }
                State::Ask => match self.inner.stream(&self.req).await {
                    Ok(answer) => {
                        self.ready.push_back(StreamEvent::Phase(Phase::Waiting));
                        self.state = State::Read(answer);
                        None
                    }
                    Err(error) => self.failed(error),
                },
                State::Read(mut answer) => match answer.next().await {
                    Some(Ok(event)) => {
                        self.state = State::Read(answer);
                        self.take(event);
                        None
                    }
                    Some(Err(error)) => self.failed(error),
                    None => {
                        self.ended();
                        None
                    }
                },
            };
            if let Some(error) = failed {
                return Some((Err(error), self));
            }
        }
    }

    /// Takes one event of the answer, to be handed out now or once something can be seen.
    fn take(&mut self, event: StreamEvent) {
        if matches!(event, StreamEvent::Phase(_)) {
            self.ready.push_back(event);
            return;
        }
        // Some servers count the input before the model has said anything.
        if !self.is_streaming && !matches!(event, StreamEvent::Usage(_)) {
            self.is_streaming = true;
            self.ready.push_back(StreamEvent::Phase(Phase::Streaming));
        }
        self.held.take(event, &mut self.ready);
    }

    /// The answer ended without an error; whether it is complete is the reader's to judge.
    fn ended(&mut self) {
        self.held.release(&mut self.ready);
    }

    /// Prepares the next attempt, or says with which error it all ends.
    fn failed(&mut self, error: LlmError) -> Option<LlmError> {
        let failure = Failure {
            attempt: self.attempt,
            elapsed: self.started.elapsed(),
            has_begun: self.held.has_passed(),
            has_resampled: self.has_resampled,
        };
        let delay = match failure.judge(&error, &self.policy, (self.jitter)()) {
            Verdict::Again(delay) => delay,
            Verdict::Final(None) => return Some(error),
            Verdict::Final(Some(why)) => {
                return Some(LlmError::GaveUp { why, last: Box::new(error) });
            }
        };
        tracing::warn!(status = error.status(), attempt = self.attempt, ?delay, %error, "asking again");
        self.has_resampled |= error.class() == Some(ErrorClass::BadToolCall);
        self.attempt += 1;
        self.held = Held::default();
        self.is_streaming = false;
        self.ready.clear();
        self.ready.push_back(StreamEvent::Phase(Phase::Retrying {
            attempt: self.attempt,
            of: self.policy.max_attempts,
            delay,
            reason: decision::reason(&error),
        }));
        self.state = State::Pause(if self.has_delays { delay } else { Duration::ZERO });
        None
    }
}

/// The events of an answer of which nothing can be seen yet.
#[derive(Default)]
struct Held {
    events: Vec<StreamEvent>,
    bytes: usize,
    has_passed: bool,
}

impl Held {
    /// More than this is not held back: the arguments of a call that writes a large file are some
    /// hundred kilobytes.
    const MAX_BYTES: usize = 1 << 20;

    /// Whether a part of the answer was handed on.
    fn has_passed(&self) -> bool {
        self.has_passed
    }

    fn take(&mut self, event: StreamEvent, out: &mut VecDeque<StreamEvent>) {
        if self.has_passed {
            out.push_back(event);
            return;
        }
        let is_shown = is_shown(&event);
        self.bytes += size_of::<StreamEvent>() + text_len(&event);
        self.events.push(event);
        if is_shown || self.bytes > Self::MAX_BYTES {
            self.release(out);
        }
    }

    fn release(&mut self, out: &mut VecDeque<StreamEvent>) {
        self.has_passed = true;
        out.extend(self.events.drain(..));
    }
}

/// Whether somebody may see the event, or act on it.
fn is_shown(event: &StreamEvent) -> bool {
    match event {
        StreamEvent::Text { text, .. } | StreamEvent::Reasoning { text, .. } => !text.is_empty(),
        // The last event of an answer: with it the answer is whole, and everything in it counts.
        StreamEvent::Finish { .. } => true,
        StreamEvent::ToolStart { .. }
        | StreamEvent::ToolDelta { .. }
        | StreamEvent::ToolMeta { .. }
        | StreamEvent::TextMeta { .. }
        | StreamEvent::ReasoningDone { .. }
        | StreamEvent::Opaque { .. }
        | StreamEvent::Refusal { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::Phase(_) => false,
    }
}

/// Bytes of what can be long in an event; the state of blocks is bounded by what a server may send
/// in one event.
fn text_len(event: &StreamEvent) -> usize {
    match event {
        StreamEvent::Text { text, .. } | StreamEvent::Reasoning { text, .. } => text.len(),
        StreamEvent::ToolDelta { fragment, .. } => fragment.len(),
        StreamEvent::ToolStart { id, name, .. } => id.len() + name.len(),
        StreamEvent::Refusal { explanation } => explanation.len(),
        StreamEvent::ToolMeta { .. }
        | StreamEvent::TextMeta { .. }
        | StreamEvent::ReasoningDone { .. }
        | StreamEvent::Opaque { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::Finish { .. }
        | StreamEvent::Phase(_) => 0,
    }
}
