//! Takes secrets out of events on their way to a watcher. [pure]

use std::collections::VecDeque;
use std::sync::Arc;

use llm::Phase;

use crate::event::{AgentEvent, ErrorInfo, TurnSummary};
use crate::secrets::redact::{RedactStream, Redactor};
use crate::steering::notice::Notice;

/// Events go in as they are and come out without secrets, in the same order.
pub(super) struct Guard {
    redactor: Arc<Redactor>,
    /// The streamed text that is going on.
    text: RedactStream,
    kind: Kind,
    /// Ready to be given out.
    waiting: VecDeque<AgentEvent>,
}

/// Which of the two streamed texts is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

impl Kind {
    fn delta(self, text: String) -> AgentEvent {
        match self {
            Self::Text => AgentEvent::TextDelta { text },
            Self::Reasoning => AgentEvent::ReasoningDelta { text },
        }
    }
}

impl Guard {
    pub(super) fn new(redactor: Arc<Redactor>) -> Self {
        let text = redactor.stream();
        Self { redactor, text, kind: Kind::Text, waiting: VecDeque::new() }
    }

    /// The next event that can be given out.
    pub(super) fn take_waiting(&mut self) -> Option<AgentEvent> {
        self.waiting.pop_front()
    }

    /// Takes the next event.
    pub(super) fn pass(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::TextDelta { text } => self.stream(Kind::Text, &text),
            AgentEvent::ReasoningDelta { text } => self.stream(Kind::Reasoning, &text),
            event => {
                self.end_text();
                let event = self.redacted(event);
                self.waiting.push_back(event);
            }
        }
    }

    /// Gives out what was kept back: nothing follows that could make a secret of it.
    pub(super) fn end_text(&mut self) {
        let rest = self.text.finish_str();
        self.put(rest);
    }

    fn stream(&mut self, kind: Kind, text: &str) {
        if self.kind != kind {
            self.end_text();
            self.kind = kind;
        }
        let text = self.text.push_str(text);
        self.put(text);
    }

    fn put(&mut self, text: String) {
        if !text.is_empty() {
            self.waiting.push_back(self.kind.delta(text));
        }
    }

    fn redacted(&self, event: AgentEvent) -> AgentEvent {
        let clean = |text: String| self.redactor.redact_owned(text);
        let clean_error = |error: ErrorInfo| ErrorInfo { message: clean(error.message), ..error };
        match event {
            AgentEvent::ToolCallStarted { id, name, args } => {
                AgentEvent::ToolCallStarted { id, name, args: self.redactor.redact_json(&args) }
            }
            // Pieces of several calls come mixed; each call's own were looked through in order already.
            AgentEvent::ToolOutput { id, chunk } => {
                AgentEvent::ToolOutput { id, chunk: clean(chunk) }
            }
            AgentEvent::ToolCallFinished { id, name, is_error, preview } => {
                AgentEvent::ToolCallFinished { id, name, is_error, preview: clean(preview) }
            }
            AgentEvent::Phase(Phase::Retrying { attempt, of, delay, reason }) => {
                AgentEvent::Phase(Phase::Retrying { attempt, of, delay, reason: clean(reason) })
            }
            AgentEvent::StepFailed { step, error } => {
                AgentEvent::StepFailed { step, error: clean_error(error) }
            }
            AgentEvent::VerificationFailed { verifier, reason } => {
                AgentEvent::VerificationFailed { verifier, reason: clean(reason) }
            }
            AgentEvent::SessionTrouble { message } => {
                AgentEvent::SessionTrouble { message: clean(message) }
            }
            AgentEvent::NoticesDelivered { notices } => {
                let redacted = |one: Notice| Notice { text: clean(one.text), ..one };
                let notices = notices.into_iter().map(redacted).collect();
                AgentEvent::NoticesDelivered { notices }
            }
            AgentEvent::TurnFinished(summary) => AgentEvent::TurnFinished(TurnSummary {
                text: clean(summary.text),
                verification: summary.verification.map(|said| self.redactor.redact_json(&said)),
                error: summary.error.map(clean_error),
                ..summary
            }),
            // Names and numbers of our own.
            AgentEvent::SessionStarted { .. }
            | AgentEvent::StepStarted { .. }
            | AgentEvent::Phase(_)
            | AgentEvent::TextDelta { .. }
            | AgentEvent::ReasoningDelta { .. }
            | AgentEvent::ContextCleared { .. }
            | AgentEvent::Compacted { .. }
            | AgentEvent::Usage { .. } => event,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::TurnOutcome;
    use crate::event::tests::summary;
    use crate::steering::notice::Source;

    const SECRET: &str = "sk-test-0123456789abcdef0123";
    const MARKER: &str = "«redacted:MY_KEY»";

    fn guard() -> Guard {
        Guard::new(Arc::new(Redactor::new([("MY_KEY", SECRET)])))
    }

    fn all(guard: &mut Guard) -> Vec<AgentEvent> {
        std::iter::from_fn(|| guard.take_waiting()).collect()
    }

    fn text(text: &str) -> AgentEvent {
        AgentEvent::TextDelta { text: text.into() }
    }

    fn reasoning(text: &str) -> AgentEvent {
        AgentEvent::ReasoningDelta { text: text.into() }
    }

    #[test]
    fn no_event_holds_a_secret() {
        let error = || ErrorInfo { kind: "x".into(), message: format!("bad key {SECRET}") };
        let delay = std::time::Duration::from_secs(1);
        let mut end = summary(TurnOutcome::Failed);
        end.text = format!("it is {SECRET}");
        end.error = Some(error());
        end.verification = Some(json!({ "said": SECRET }));
        let id = || "1".to_owned();
        let name = || "bash".to_owned();
        for event in [
            AgentEvent::ToolCallStarted {
                id: id(),
                name: name(),
                args: json!({"command": format!("echo {SECRET}")}),
            },
            AgentEvent::ToolOutput { id: id(), chunk: SECRET.into() },
            AgentEvent::ToolCallFinished {
                id: id(),
                name: name(),
                is_error: true,
                preview: SECRET.into(),
            },
            AgentEvent::Phase(Phase::Retrying { attempt: 1, of: 2, delay, reason: SECRET.into() }),
            AgentEvent::StepFailed { step: 1, error: error() },
            AgentEvent::VerificationFailed { verifier: "tests".into(), reason: SECRET.into() },
            AgentEvent::SessionTrouble { message: SECRET.into() },
            AgentEvent::NoticesDelivered {
                notices: vec![Notice { id: id(), source: Source::Job, text: SECRET.into() }],
            },
            AgentEvent::TurnFinished(end),
            text(SECRET),
            reasoning(SECRET),
        ] {
            let mut guard = guard();
            guard.pass(event.clone());
            guard.end_text();
            let shown = serde_json::to_string(&all(&mut guard)).unwrap();
            assert!(shown.contains(MARKER), "{event:?}: {shown}");
            assert!(!shown.contains("0123456789"), "{event:?}: {shown}");
        }
    }

    #[test]
    fn a_secret_in_the_models_words_is_found_wherever_deltas_are_cut() {
        for cut in 0..=SECRET.len() {
            let (head, tail) = SECRET.split_at(cut);
            let mut guard = guard();
            guard.pass(text(&format!("The key is {head}")));
            guard.pass(text(&format!("{tail}, keep it.")));
            guard.pass(AgentEvent::StepStarted { step: 2 });
            let mut shown = String::new();
            for event in all(&mut guard) {
                match event {
                    AgentEvent::TextDelta { text } => shown.push_str(&text),
                    AgentEvent::StepStarted { step: 2 } => shown.push('|'),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(shown, format!("The key is {MARKER}, keep it.|"), "cut at {cut}");
        }
    }

    #[test]
    fn what_was_kept_back_comes_before_anything_else() {
        let mut guard = guard();
        guard.pass(text("the sk-te"));
        assert_eq!(all(&mut guard), [text("the ")]);
        guard.pass(reasoning("hm"));
        assert_eq!(all(&mut guard), [text("sk-te"), reasoning("hm")]);
        guard.pass(reasoning(" sk-test"));
        guard.pass(AgentEvent::StepStarted { step: 1 });
        assert_eq!(
            all(&mut guard),
            [reasoning(" "), reasoning("sk-test"), AgentEvent::StepStarted { step: 1 }]
        );
    }
}
