//! One model request: streams an answer, forwards what can be seen of it, commits it whole or not.

use futures::StreamExt as _;
use llm::builder::{Completion, MessageBuilder};
use llm::{FinishReason, LlmError, Phase, StreamEvent};

use super::{Agent, AgentError, Run};
use crate::context::prefix::Section;
use crate::context::prefix::reads::Collapse;
use crate::event::AgentEvent;
use crate::session::record::Record;
use crate::turn::{Input, Next};

/// Why no completion came.
enum NoAnswer {
    /// The turn's token fired; what had arrived is dropped.
    Stopped,
    /// The request or the stream failed.
    Failed(LlmError),
}

impl From<LlmError> for NoAnswer {
    fn from(error: LlmError) -> Self {
        Self::Failed(error)
    }
}

/// Whether the request was longer than the server takes.
fn was_too_long(answer: &Result<Completion, NoAnswer>) -> bool {
    match answer {
        Ok(completion) => completion.finish == FinishReason::ContextWindow,
        Err(NoAnswer::Failed(error)) => error.is_context_overflow(),
        Err(NoAnswer::Stopped) => false,
    }
}

impl Agent {
    /// Asks the model once. Everything it says is provisional until the whole answer is there.
    pub(super) async fn sample(&mut self, step: u32, run: &mut Run) -> Next {
        self.emit(AgentEvent::StepStarted { step }, run).await;
        if let Err(error) = self.make_room(run).await {
            return self.fail_step(step, error, run).await;
        }
        let mut answer = self.receive(run).await;
        if was_too_long(&answer) && !std::mem::replace(&mut run.has_overflown, true) {
            match self.shrink_after_overflow(run).await {
                Ok(true) => {
                    let refused = answer.as_ref().ok().map(|completion| completion.usage);
                    self.count_aside(refused.as_ref(), run);
                    answer = self.receive(run).await;
                }
                // It is as short as it can be: what the server said stands.
                Ok(false) => {}
                Err(error) => return self.fail_step(step, error, run).await,
            }
        }
        match answer {
            Ok(completion) => self.commit(step, completion, run).await,
            Err(NoAnswer::Stopped) => {
                run.count(None, None);
                run.turn.next(&run.stopped())
            }
            Err(NoAnswer::Failed(error)) => self.fail_step(step, error.into(), run).await,
        }
    }

    async fn receive(&mut self, run: &mut Run) -> Result<Completion, NoAnswer> {
        run.changed = self.session.note_sent();
        let request = self.session.request().map_err(LlmError::from)?;
        let mut stream = tokio::select! {
            biased;
            () = run.cancel.cancelled() => return Err(NoAnswer::Stopped),
            stream = self.provider.stream(request) => stream?,
        };
        let mut builder = MessageBuilder::default();
        let mut is_accepted = false;
        loop {
            let event = tokio::select! {
                biased;
                () = run.cancel.cancelled() => return Err(NoAnswer::Stopped),
                event = stream.next() => event,
            };
            let Some(event) = event else {
                return Ok(builder.finish()?);
            };
            let event = event?;
            builder.push(&event)?;
            match event {
                StreamEvent::Text { text, .. } => {
                    self.emit(AgentEvent::TextDelta { text }, run).await;
                }
                StreamEvent::Reasoning { text, .. } => {
                    self.emit(AgentEvent::ReasoningDelta { text }, run).await;
                }
                StreamEvent::Phase(phase) => {
                    if is_accepted && matches!(phase, Phase::Retrying { .. }) {
                        // The server had begun to work on it: nobody counted what that cost.
                        run.count(None, None);
                    }
                    is_accepted = matches!(phase, Phase::Waiting | Phase::Streaming);
                    self.events.send_phase(phase);
                }
                // Calls are announced when they are committed, not while they may still be cut.
                StreamEvent::ToolStart { .. }
                | StreamEvent::ToolDelta { .. }
                | StreamEvent::ToolMeta { .. }
                | StreamEvent::TextMeta { .. }
                | StreamEvent::ReasoningDone { .. }
                | StreamEvent::Opaque { .. }
                | StreamEvent::Refusal { .. }
                | StreamEvent::Usage(_)
                | StreamEvent::Finish { .. } => {}
            }
        }
    }

    async fn commit(&mut self, step: u32, mut completion: Completion, run: &mut Run) -> Next {
        let usage = completion.usage;
        run.explanation = completion.explanation.take();
        run.count(Some(&usage), self.model.price.as_ref());
        let finish = completion.finish.clone();
        let calls = match completion.commit().map(|message| self.session.commit_assistant(message))
        {
            Some(Ok(message)) => {
                let calls = message.tool_calls().count();
                if calls == 0 {
                    run.answer = message.text();
                }
                calls
            }
            // An answer without content is legal; it leaves no message behind.
            None => 0,
            Some(Err(error)) => return self.fail_step(step, error.into(), run).await,
        };
        self.tell_collapse(&usage, run.changed);
        self.note_usage(step, usage, run).await;
        self.emit(AgentEvent::Usage { usage }, run).await;
        let notices = self.waiting_notices();
        run.turn.next(&Input::Sampled { finish, calls, notices })
    }

    /// Leaves in the log why a server had to read again what it had read before.
    fn tell_collapse(&mut self, usage: &llm::Usage, changed: Section) {
        let Some(Collapse { read, before }) = self.cache_reads.count(usage) else { return };
        let revision = self.session.state().revision();
        let why = match changed {
            Section::Nothing => "the server did not keep it",
            _ => "the request does not begin as the one before",
        };
        tracing::warn!(%changed, read, before, revision, "cache reads collapsed: {why}");
    }

    async fn note_usage(&mut self, step: u32, usage: llm::Usage, run: &Run) {
        let cost_usd = self.model.price.as_ref().and_then(|price| price.cost(&usage));
        let revision = self.session.state().revision();
        self.record(&Record::Usage { step, revision, usage, cost_usd }, run).await;
    }

    async fn fail_step(&self, step: u32, error: AgentError, run: &mut Run) -> Next {
        run.count(None, None);
        self.emit(AgentEvent::StepFailed { step, error: error.info() }, run).await;
        run.fail(error)
    }
}
