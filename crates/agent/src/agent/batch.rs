//! The calls of one committed message: permitted, run, and answered one by one.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use llm::{ContentBlock, Message};
use serde_json::Value;

use super::{Agent, AgentError, Run};
use crate::event::AgentEvent;
use crate::registry::Dispatched;
use crate::session::record::{How, Intended, Record};
use crate::session::reduce::ReduceError;
use crate::tool::{Grants, OutputSink, ToolContext};
use crate::turn::{Input, Next};

/// Most calls that run at once. A search keeps a few cores and some megabytes busy; an answer may
/// hold hundreds.
const MAX_SIDE_BY_SIDE: usize = 8;

/// What the model reads about a call that cancelling kept from starting.
pub(super) const CANCELLED: &str = "Not run: the turn was cancelled before this call started.";

/// What the model reads about a call whose beginning could not be put on disk.
const UNNOTED: &str =
    "Not run: the session could not be saved, and nothing runs that was not noted first.";

/// A call as the committed message holds it.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: Value,
}

impl Agent {
    /// Runs the calls of the last message and commits a result for each, whatever happens.
    pub(super) async fn run_batch(&mut self, run: &mut Run) -> Next {
        let calls = calls_of(self.session.messages().last());
        let ran = if calls.len() > 1 && calls.iter().all(|call| self.is_read_only(call)) {
            self.run_side_by_side(&calls, run).await
        } else {
            self.run_in_order(&calls, run).await
        };
        // What is said into a turn that is over, or that asks the model no more, waits for the next one.
        let goes_on = ran.is_ok() && !run.cancel.is_cancelled() && run.turn.has_room();
        let notices = if goes_on { self.claim_notices() } else { Vec::new() };
        let (blocks, ids) = self.blocks_of(&notices);
        let answered = self.session.commit_results(blocks, ids);
        self.tell_trouble(run).await;
        if let Err(error) = ran.and_then(|()| Ok(answered?)) {
            return run.fail(error);
        }
        self.tell_delivered(notices, run).await;
        if run.cancel.is_cancelled() {
            return run.turn.next(&run.stopped());
        }
        run.turn.next(&Input::Ran)
    }

    /// Calls that change nothing cannot disturb each other.
    async fn run_side_by_side(&mut self, calls: &[Call], run: &Run) -> Result<(), AgentError> {
        for call in calls {
            self.announce(call, run).await;
            self.note_start(call, Vec::new())?;
        }
        let dispatched: Vec<Dispatched> = stream::iter(calls)
            .map(|call| self.dispatch_unless_cancelled(call, run))
            .buffered(MAX_SIDE_BY_SIDE)
            .collect()
            .await;
        for (call, dispatched) in calls.iter().zip(dispatched) {
            self.close(call, dispatched, run.how(How::Ran), run).await?;
        }
        Ok(())
    }

    /// A call after a write must see what was written.
    async fn run_in_order(&mut self, calls: &[Call], run: &Run) -> Result<(), AgentError> {
        let mut failure = None;
        for call in calls {
            self.announce(call, run).await;
            if failure.is_some() {
                self.close(call, refused(call, UNNOTED.to_owned()), How::Refused, run).await?;
                continue;
            }
            let grants = match self.permit(call, run).await {
                Ok(grants) => grants,
                Err(refusal) => {
                    self.close(call, refused(call, refusal), run.how(How::Refused), run).await?;
                    continue;
                }
            };
            let changes = self.may_change(call);
            match self.begin(call, &grants, changes, run).await {
                Ok(()) => {
                    let dispatched = self.dispatch(call, grants, run).await;
                    self.close(call, dispatched, run.how(How::Ran), run).await?;
                }
                Err(error) => {
                    let unnoted = refused(call, UNNOTED.to_owned());
                    self.close(call, unnoted, How::Refused, run).await?;
                    failure = Some(error);
                    continue;
                }
            }
            if changes && let Err(error) = self.session.make_durable().await {
                // The result is in the dialogue; what follows it does not begin before it can be noted.
                tracing::warn!(%error, "a result may not survive a loss of power");
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Notes that the call begins. What may change something is on disk before it does.
    async fn begin(
        &mut self,
        call: &Call,
        grants: &Grants,
        changes: bool,
        run: &Run,
    ) -> Result<(), AgentError> {
        let intended = match self.tools.get(&call.name) {
            Some(tool) if changes => {
                let context = self.context(call, grants.clone(), run);
                tool.intend(&call.args, &context).await
            }
            _ => Vec::new(),
        };
        self.note_start(call, intended)?;
        if changes {
            self.session.make_durable().await?;
        }
        Ok(())
    }

    fn note_start(&mut self, call: &Call, intended: Vec<Intended>) -> Result<(), ReduceError> {
        let (call_id, tool) = (call.id.clone(), call.name.clone());
        self.session.commit(&Record::ToolStarted { call_id, tool, intended })
    }

    /// Whether running the call could change anything. A tool that does not exist changes nothing.
    fn may_change(&self, call: &Call) -> bool {
        let tool = self.tools.get(&call.name);
        tool.is_some_and(|tool| !tool.effects(&call.args).is_read_only())
    }

    fn is_read_only(&self, call: &Call) -> bool {
        self.tools.get(&call.name).is_some_and(|tool| {
            tool.effects(&call.args).is_read_only() && self.decide(tool.as_ref(), call).is_allowed()
        })
    }

    async fn dispatch_unless_cancelled(&self, call: &Call, run: &Run) -> Dispatched {
        if run.cancel.is_cancelled() {
            return refused(call, CANCELLED.to_owned());
        }
        self.dispatch(call, Grants::default(), run).await
    }

    pub(super) async fn dispatch(&self, call: &Call, grants: Grants, run: &Run) -> Dispatched {
        let ctx = self.context(call, grants, run);
        self.tools.dispatch(&call.id, &call.name, &call.args, &ctx).await
    }

    pub(super) fn context(&self, call: &Call, grants: Grants, run: &Run) -> ToolContext {
        let output = self.events.live_output(&call.id);
        ToolContext {
            cwd: self.cwd.clone(),
            cancel: run.cancel.clone(),
            session_id: self.session_id.clone(),
            output: Some(Arc::new(output) as Arc<dyn OutputSink>),
            grants,
            redactor: Arc::clone(self.tools.redactor()),
        }
    }

    async fn announce(&self, call: &Call, run: &Run) {
        let (id, name, args) = (call.id.clone(), call.name.clone(), call.args.clone());
        self.emit(AgentEvent::ToolCallStarted { id, name, args }, run).await;
    }

    /// Notes the result of a call, and tells it.
    async fn close(
        &mut self,
        call: &Call,
        dispatched: Dispatched,
        how: How,
        run: &Run,
    ) -> Result<(), AgentError> {
        let is_error = matches!(dispatched.result, ContentBlock::ToolResult { is_error: true, .. });
        let (id, name) = (call.id.clone(), call.name.clone());
        let preview = dispatched.preview;
        let (call_id, result) = (id.clone(), dispatched.result);
        self.session.commit(&Record::ToolFinished { call_id, result, how })?;
        self.tell_trouble(run).await;
        self.emit(AgentEvent::ToolCallFinished { id, name, is_error, preview }, run).await;
        Ok(())
    }
}

pub(super) fn calls_of(message: Option<&Arc<Message>>) -> Vec<Call> {
    message
        .into_iter()
        .flat_map(|message| message.tool_calls())
        .map(|call| Call {
            id: call.id.to_owned(),
            name: call.name.to_owned(),
            args: call.arguments.clone(),
        })
        .collect()
}

fn refused(call: &Call, why: String) -> Dispatched {
    let result = ContentBlock::tool_result(&call.id, why.clone(), true);
    Dispatched { result, preview: why }
}
