//! The way from a turn to its watcher: a bounded queue of events that joins deltas and never loses the end of a turn.
//!
//! Delivery policy: the sender waits while the queue is full, so a slow watcher slows the turn down
//! instead of filling memory. Live tool output is the exception: it is dropped first. A watcher that
//! is gone receives nothing and stops nothing; whoever owns it cancels the turn if it should stop.
//!
//! A watcher sees no secrets: what it receives went past a [`Redactor`], the model's own words too. Of
//! streamed text only what may be the beginning of a secret waits for what follows, see
//! [`EventReceiver::redacting`].

mod guard;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use llm::Phase;
use serde_json::Value;
use tokio::sync::Notify;

use self::guard::Guard;
use crate::event::AgentEvent;
use crate::secrets::Redactor;
use crate::tool::OutputSink;

/// Most events waiting at once, the end of a turn apart.
const MAX_EVENTS: usize = 256;

/// Most bytes of text waiting at once.
const MAX_BYTES: usize = 256 * 1024;

/// A new queue.
pub fn channel() -> (EventSender, EventReceiver) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            queue: VecDeque::new(),
            bytes: 0,
            senders: 1,
            has_receiver: true,
        }),
        readable: Notify::new(),
        writable: Notify::new(),
    });
    let sender = EventSender { shared: Arc::clone(&shared) };
    (sender, EventReceiver { shared, guard: Guard::new(Arc::default()) })
}

struct Shared {
    state: Mutex<State>,
    readable: Notify,
    writable: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct State {
    queue: VecDeque<AgentEvent>,
    bytes: usize,
    senders: usize,
    has_receiver: bool,
}

impl State {
    /// Whether a watcher that keeps up would have left room for `size` more bytes.
    fn has_room(&self, size: usize) -> bool {
        self.queue.is_empty() || (self.queue.len() < MAX_EVENTS && self.bytes + size <= MAX_BYTES)
    }

    fn push(&mut self, event: AgentEvent) {
        self.bytes += text_of(&event);
        match (self.queue.back_mut(), event) {
            (Some(AgentEvent::TextDelta { text: last }), AgentEvent::TextDelta { text })
            | (
                Some(AgentEvent::ReasoningDelta { text: last }),
                AgentEvent::ReasoningDelta { text },
            ) => last.push_str(&text),
            (
                Some(AgentEvent::ToolOutput { id: last_id, chunk: last }),
                AgentEvent::ToolOutput { id, chunk },
            ) if *last_id == id => last.push_str(&chunk),
            // Only the last phase holds; but that an attempt failed is worth knowing afterwards.
            (Some(AgentEvent::Phase(last)), AgentEvent::Phase(phase))
                if !matches!(last, Phase::Retrying { .. }) =>
            {
                *last = phase;
            }
            (_, event) => self.queue.push_back(event),
        }
    }
}

/// Bytes of text in an event: what can grow. The numbers and names beside it are covered by the
/// bound on the number of events.
fn text_of(event: &AgentEvent) -> usize {
    match event {
        AgentEvent::TextDelta { text } | AgentEvent::ReasoningDelta { text } => text.len(),
        AgentEvent::ToolOutput { chunk, .. } => chunk.len(),
        AgentEvent::ToolCallStarted { args, .. } => text_in(args),
        AgentEvent::ToolCallFinished { preview, .. } => preview.len(),
        AgentEvent::StepFailed { error, .. } => error.message.len(),
        AgentEvent::VerificationFailed { reason, .. } => reason.len(),
        AgentEvent::SessionTrouble { message } => message.len(),
        AgentEvent::NoticesDelivered { notices } => {
            notices.iter().map(|notice| notice.text.len()).sum()
        }
        AgentEvent::TurnFinished(summary) => summary.text.len(),
        AgentEvent::SessionStarted { .. }
        | AgentEvent::Phase(_)
        | AgentEvent::StepStarted { .. }
        | AgentEvent::ContextCleared { .. }
        | AgentEvent::Compacted { .. }
        | AgentEvent::Usage { .. } => 0,
    }
}

/// Bytes of the texts in a JSON value. Its depth is bounded by the parser that made it.
fn text_in(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => std::mem::size_of::<Value>(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_in).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + text_in(value)).sum(),
    }
}

/// The end into which a turn reports.
pub struct EventSender {
    shared: Arc<Shared>,
}

impl EventSender {
    /// Queues the event, waiting for room. Dropping the future before it is ready loses the event.
    pub async fn send(&self, event: AgentEvent) {
        let mut event = Some(event);
        while !self.offer(&mut event) {
            self.shared.writable.notified().await;
        }
    }

    /// Queues the event whether or not there is room: for the few events that end a turn.
    pub fn send_now(&self, event: AgentEvent) {
        let mut state = self.shared.lock();
        if state.has_receiver {
            state.push(event);
            self.shared.readable.notify_one();
        }
    }

    /// Queues where a request stands, without waiting. A full queue drops it, for the watcher is far
    /// behind; that an attempt failed is queued all the same, and attempts are few.
    pub(crate) fn send_phase(&self, phase: Phase) {
        let mut state = self.shared.lock();
        let is_kept = matches!(phase, Phase::Retrying { .. }) || state.has_room(0);
        if state.has_receiver && is_kept {
            state.push(AgentEvent::Phase(phase));
            self.shared.readable.notify_one();
        }
    }

    /// A way to report live output that does not keep the watcher waiting: a call that was given
    /// up may hold it for ever.
    pub(crate) fn live_output(&self, call_id: &str) -> LiveOutput {
        LiveOutput { call_id: call_id.to_owned(), shared: Arc::clone(&self.shared) }
    }

    /// Takes the event if there is room or nobody to send it to.
    fn offer(&self, event: &mut Option<AgentEvent>) -> bool {
        let mut state = self.shared.lock();
        if !state.has_receiver {
            // Pass the news on: another sender may wait without having been notified.
            self.shared.writable.notify_one();
            return true;
        }
        if !state.has_room(event.as_ref().map_or(0, text_of)) {
            return false;
        }
        if let Some(event) = event.take() {
            state.push(event);
            self.shared.readable.notify_one();
        }
        true
    }
}

impl Clone for EventSender {
    fn clone(&self) -> Self {
        self.shared.lock().senders += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        self.shared.lock().senders -= 1;
        self.shared.readable.notify_one();
    }
}

/// The end from which a renderer reads.
pub struct EventReceiver {
    shared: Arc<Shared>,
    guard: Guard,
}

impl EventReceiver {
    /// The same events without the secrets that `redactor` knows. Without this, shapes alone are hidden.
    #[must_use]
    pub fn redacting(mut self, redactor: Arc<Redactor>) -> Self {
        self.guard = Guard::new(redactor);
        self
    }

    /// The next event; `None` when every sender is gone and the queue is empty. Nothing is lost when
    /// the future is dropped.
    pub async fn recv(&mut self) -> Option<AgentEvent> {
        loop {
            if let Some(event) = self.guard.take_waiting() {
                return Some(event);
            }
            let Some(event) = self.next().await else {
                self.guard.end_text();
                return self.guard.take_waiting();
            };
            self.guard.pass(event);
        }
    }

    async fn next(&mut self) -> Option<AgentEvent> {
        loop {
            {
                let mut state = self.shared.lock();
                if let Some(event) = state.queue.pop_front() {
                    state.bytes -= text_of(&event);
                    self.shared.writable.notify_one();
                    return Some(event);
                }
                if state.senders == 0 {
                    return None;
                }
            }
            self.shared.readable.notified().await;
        }
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.has_receiver = false;
        state.queue.clear();
        state.bytes = 0;
        // Every sender that waits for room must see that nobody is left to wait for.
        self.shared.writable.notify_waiters();
        self.shared.writable.notify_one();
    }
}

/// Live output of one call on its way to the watcher.
pub(crate) struct LiveOutput {
    call_id: String,
    shared: Arc<Shared>,
}

impl OutputSink for LiveOutput {
    fn chunk(&self, text: &str) {
        let mut state = self.shared.lock();
        let is_roomy = state.queue.len() < MAX_EVENTS / 2 && state.bytes < MAX_BYTES / 2;
        // A dropped piece is a gap on the screen; the result itself is complete.
        if state.has_receiver && is_roomy {
            let (id, chunk) = (self.call_id.clone(), text.to_owned());
            state.push(AgentEvent::ToolOutput { id, chunk });
            self.shared.readable.notify_one();
        }
    }
}
