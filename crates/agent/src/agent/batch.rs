//! The calls of one committed message: permitted, run, and answered one by one.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use llm::{ContentBlock, Message};
use serde_json::Value;

use super::{Agent, Run};
use crate::event::AgentEvent;
use crate::registry::Dispatched;
use crate::tool::{Grants, OutputSink, ToolContext};
use crate::turn::{Input, Next};

/// Most calls that run at once. A search keeps a few cores and some megabytes busy; an answer may
/// hold hundreds.
const MAX_SIDE_BY_SIDE: usize = 8;

/// What the model reads about a call that cancelling kept from starting.
pub(super) const CANCELLED: &str = "Not run: the turn was cancelled before this call started.";

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
        let results = if calls.len() > 1 && calls.iter().all(|call| self.is_read_only(call)) {
            self.run_side_by_side(&calls, run).await
        } else {
            self.run_in_order(&calls, run).await
        };
        if let Err(error) = self.session.commit_results(results) {
            return run.fail(error.into());
        }
        if run.cancel.is_cancelled() {
            return run.turn.next(&run.stopped());
        }
        run.turn.next(&Input::Ran)
    }

    /// Calls that change nothing cannot disturb each other.
    async fn run_side_by_side(&mut self, calls: &[Call], run: &Run) -> Vec<ContentBlock> {
        for call in calls {
            self.announce(call, run).await;
        }
        let dispatched: Vec<Dispatched> = stream::iter(calls)
            .map(|call| self.dispatch_unless_cancelled(call, run))
            .buffered(MAX_SIDE_BY_SIDE)
            .collect()
            .await;
        let mut results = Vec::with_capacity(calls.len());
        for (call, dispatched) in calls.iter().zip(dispatched) {
            results.push(self.close(call, dispatched, run).await);
        }
        results
    }

    /// A call after a write must see what was written.
    async fn run_in_order(&mut self, calls: &[Call], run: &Run) -> Vec<ContentBlock> {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            self.announce(call, run).await;
            let dispatched = match self.permit(call, run).await {
                Ok(grants) => self.dispatch(call, grants, run).await,
                Err(refusal) => refused(call, refusal),
            };
            results.push(self.close(call, dispatched, run).await);
        }
        results
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

    async fn dispatch(&self, call: &Call, grants: Grants, run: &Run) -> Dispatched {
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

    async fn close(&self, call: &Call, dispatched: Dispatched, run: &Run) -> ContentBlock {
        let is_error = matches!(dispatched.result, ContentBlock::ToolResult { is_error: true, .. });
        let (id, name) = (call.id.clone(), call.name.clone());
        let preview = dispatched.preview;
        self.emit(AgentEvent::ToolCallFinished { id, name, is_error, preview }, run).await;
        dispatched.result
    }
}

fn calls_of(message: Option<&Arc<Message>>) -> Vec<Call> {
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
