//! A provider that answers from a script, for tests and benches.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;

use crate::capability::TargetFor;
use crate::error::LlmError;
use crate::provider::{EventStream, Provider};
use crate::stream::StreamEvent;
use crate::types::ChatRequest;

/// What the script does with one request.
#[derive(Debug)]
pub enum Answer {
    /// These events, then the end of the stream.
    Events(Vec<StreamEvent>),
    /// An error instead of a stream.
    Refuse(LlmError),
    /// These events, then an error inside the stream.
    Break(Vec<StreamEvent>, LlmError),
    /// These events, then silence until the stream is dropped.
    Stall(Vec<StreamEvent>),
}

impl From<Vec<StreamEvent>> for Answer {
    fn from(events: Vec<StreamEvent>) -> Self {
        Self::Events(events)
    }
}

/// Whether requests are kept for [`ScriptedProvider::requests`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// Every request is cloned and kept.
    On,
    /// Requests are only counted: cloning the message list of each step would be what a bench of
    /// thousands of steps measures.
    Off,
}

/// Plays one answer of its script for each request, in order.
#[derive(Debug)]
pub struct ScriptedProvider {
    recording: Recording,
    target: Option<TargetFor>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    answers: VecDeque<Answer>,
    requests: Vec<ChatRequest>,
    asked: usize,
}

impl ScriptedProvider {
    /// A provider that answers each request with the next list of events.
    pub fn new(script: Vec<Vec<StreamEvent>>) -> Self {
        Self::playing(script.into_iter().map(Answer::Events).collect())
    }

    /// A provider whose script may also refuse, break off or stall.
    pub fn playing(script: Vec<Answer>) -> Self {
        let state = State { answers: script.into(), requests: Vec::new(), asked: 0 };
        Self { recording: Recording::On, target: None, state: Mutex::new(state) }
    }

    /// The same provider with requests kept or only counted.
    #[must_use]
    pub fn recording(mut self, recording: Recording) -> Self {
        self.recording = recording;
        self
    }

    /// The same provider as if it were a server of this kind.
    #[must_use]
    pub fn as_if(mut self, target: TargetFor) -> Self {
        self.target = Some(target);
        self
    }

    /// The requests so far, in order; empty when recording is off.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.state().requests.clone()
    }

    /// How many requests came, those after the end of the script included.
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another test thread leaves nothing half-changed here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn name(&self) -> &str {
        "scripted"
    }

    fn target(&self) -> Option<TargetFor> {
        self.target
    }

    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        let answer = {
            let mut state = self.state();
            state.asked += 1;
            if self.recording == Recording::On {
                state.requests.push(req.clone());
            }
            state.answers.pop_front()
        };
        match answer {
            None => Err(LlmError::Config("script exhausted".to_owned())),
            Some(Answer::Refuse(error)) => Err(error),
            Some(Answer::Events(events)) => Ok(play(events).boxed()),
            Some(Answer::Break(events, error)) => {
                Ok(play(events).chain(stream::iter([Err(error)])).boxed())
            }
            Some(Answer::Stall(events)) => Ok(play(events).chain(stream::pending()).boxed()),
        }
    }
}

fn play(events: Vec<StreamEvent>) -> impl futures::Stream<Item = Result<StreamEvent, LlmError>> {
    stream::iter(events.into_iter().map(Ok))
}

/// Complete event sequences, each ending with `Finish`.
pub mod script {
    use serde_json::Value;

    use crate::stream::{FinishReason, StreamEvent, Usage};

    /// An answer of one text block.
    pub fn text(text: &str) -> Vec<StreamEvent> {
        cut_text(text, FinishReason::EndTurn)
    }

    /// A text that ended for `reason`: cut by the token limit, refused, paused.
    pub fn cut_text(text: &str, reason: FinishReason) -> Vec<StreamEvent> {
        vec![StreamEvent::Text { block: 0, text: text.to_owned() }, finish(reason)]
    }

    /// An answer of one call.
    pub fn tool_call(id: &str, name: &str, arguments: Value) -> Vec<StreamEvent> {
        tool_calls(&[(id, name, arguments)])
    }

    /// An answer of several calls as (id, name, arguments), in this order.
    pub fn tool_calls(calls: &[(&str, &str, Value)]) -> Vec<StreamEvent> {
        cut_calls(calls, FinishReason::ToolUse)
    }

    /// Calls that ended for `reason`; only `ToolUse` may run them.
    pub fn cut_calls(calls: &[(&str, &str, Value)], reason: FinishReason) -> Vec<StreamEvent> {
        let mut events = Vec::with_capacity(calls.len() * 2 + 1);
        for (index, (id, name, arguments)) in (0..).zip(calls) {
            events.push(StreamEvent::ToolStart {
                index,
                block: index,
                id: (*id).to_owned(),
                name: (*name).to_owned(),
            });
            events.push(StreamEvent::ToolDelta { index, fragment: arguments.to_string() });
        }
        events.push(finish(reason));
        events
    }

    /// The same answer with token counts told before it finishes.
    #[must_use]
    pub fn with_usage(mut events: Vec<StreamEvent>, usage: Usage) -> Vec<StreamEvent> {
        let before_finish = events.len().saturating_sub(1);
        events.insert(before_finish, StreamEvent::Usage(usage));
        events
    }

    fn finish(reason: FinishReason) -> StreamEvent {
        StreamEvent::Finish { reason, raw: None }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::stream::{FinishReason, Usage};

    async fn events(provider: &ScriptedProvider) -> Vec<StreamEvent> {
        let stream = provider.stream(&ChatRequest::default()).await.unwrap();
        stream.map(Result::unwrap).collect().await
    }

    #[tokio::test]
    async fn each_request_gets_the_next_answer_and_is_kept() {
        let provider = ScriptedProvider::new(vec![script::text("a"), script::text("b")]);
        assert_eq!(events(&provider).await, script::text("a"));
        let named = ChatRequest { model: "m2".into(), ..ChatRequest::default() };
        assert_eq!(provider.stream(&named).await.unwrap().count().await, 2);
        assert_eq!(provider.requests(), [ChatRequest::default(), named]);
    }

    #[tokio::test]
    async fn an_exhausted_script_says_so() {
        let provider = ScriptedProvider::new(vec![]);
        let Err(error) = provider.stream(&ChatRequest::default()).await else { panic!("a stream") };
        assert!(matches!(error, LlmError::Config(text) if text == "script exhausted"));
        assert_eq!(provider.asked(), 1);
    }

    #[tokio::test]
    async fn an_answer_may_break_off_or_refuse() {
        let provider = ScriptedProvider::playing(vec![
            Answer::Break(script::text("part"), LlmError::UnexpectedEof),
            Answer::Refuse(LlmError::Decode("no".into())),
        ]);
        let stream = provider.stream(&ChatRequest::default()).await.unwrap();
        let seen: Vec<_> = stream.collect().await;
        assert!(matches!(seen.last(), Some(Err(LlmError::UnexpectedEof))));
        let refused = provider.stream(&ChatRequest::default()).await;
        assert!(matches!(refused.err(), Some(LlmError::Decode(_))));
    }

    #[tokio::test]
    async fn a_stalled_answer_never_ends() {
        let said = vec![StreamEvent::Text { block: 0, text: "so".into() }];
        let provider = ScriptedProvider::playing(vec![Answer::Stall(said.clone())]);
        let mut stream = provider.stream(&ChatRequest::default()).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), said[0]);
        assert!(stream.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn without_recording_requests_are_only_counted() {
        let provider = ScriptedProvider::new(vec![script::text("a")]).recording(Recording::Off);
        events(&provider).await;
        assert_eq!((provider.asked(), provider.requests().len()), (1, 0));
        assert!(provider.state().answers.is_empty());
    }

    #[test]
    fn a_scripted_call_carries_its_arguments_and_waits_for_the_tool() {
        let usage = Usage { output: Some(3), ..Usage::default() };
        let events = script::with_usage(script::tool_call("c1", "add", json!({"a": 1})), usage);
        assert_eq!(
            events,
            [
                StreamEvent::ToolStart { index: 0, block: 0, id: "c1".into(), name: "add".into() },
                StreamEvent::ToolDelta { index: 0, fragment: r#"{"a":1}"#.into() },
                StreamEvent::Usage(usage),
                StreamEvent::Finish { reason: FinishReason::ToolUse, raw: None },
            ]
        );
    }
}
