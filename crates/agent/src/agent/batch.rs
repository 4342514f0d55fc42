//! The calls of one committed message: decided, asked about, run, and answered one by one.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use llm::{ContentBlock, Message};
use serde_json::Value;

use super::{Agent, Run};
use crate::approval::{ApprovalDecision, ApprovalRequest, HEADLESS_DENIAL};
use crate::event::AgentEvent;
use crate::permissions::{Decision, exact_rule};
use crate::registry::Dispatched;
use crate::tool::{Effects, Grants, OutputSink, Tool, ToolContext};
use crate::turn::{Input, Next};

/// Most calls that run at once. A search keeps a few cores and some megabytes busy; an answer may
/// hold hundreds.
const MAX_SIDE_BY_SIDE: usize = 8;

/// What the model reads about a call that cancelling kept from starting.
const CANCELLED: &str = "Not run: the turn was cancelled before this call started.";

/// A call as the committed message holds it.
struct Call {
    id: String,
    name: String,
    args: Value,
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

    fn decide(&self, tool: &dyn Tool, call: &Call) -> Decision {
        self.policy.decide(tool, &call.args, &*self.programs)
    }

    /// Lets the call through with what is opened for it, or says why not.
    async fn permit(&mut self, call: &Call, run: &Run) -> Result<Grants, String> {
        if run.cancel.is_cancelled() {
            return Err(CANCELLED.to_owned());
        }
        // A tool that does not exist has no effects; dispatch tells the model which ones do.
        let Some(tool) = self.tools.get(&call.name).map(Arc::clone) else {
            return Ok(Grants::default());
        };
        let (because, grants) = match self.decide(tool.as_ref(), call) {
            Decision::Allow { .. } => return Ok(Grants::default()),
            Decision::Deny { because } => return Err(format!("Not run: {}", because.why)),
            Decision::Ask { because, grants } => (because, grants),
        };
        let context = self.context(call, Grants::default(), run);
        let preview = self.tools.preview(&call.name, &call.args, &context).await;
        let request = ApprovalRequest {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            args: call.args.clone(),
            reason: because.why,
            preview,
        };
        let answer = tokio::select! {
            biased;
            () = run.cancel.cancelled() => return Err(CANCELLED.to_owned()),
            answer = self.approver.approve(request, &run.cancel) => answer,
        };
        match answer {
            // Whoever cancels while being asked has not agreed.
            _ if run.cancel.is_cancelled() => Err(CANCELLED.to_owned()),
            ApprovalDecision::Allow => Ok(grants),
            ApprovalDecision::AllowForSession => {
                let rule = exact_rule(tool.as_ref(), &call.args);
                if let Err(error) = self.policy.allow_for_session(&rule) {
                    // The call was allowed all the same; the next one of its kind asks again.
                    tracing::warn!(rule, %error, "this cannot be allowed for the session");
                }
                Ok(grants)
            }
            ApprovalDecision::Deny { feedback } => Err(denial(feedback.as_deref())),
            ApprovalDecision::Unattended => Err(unattended(&tool.effects(&call.args))),
        }
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

    fn context(&self, call: &Call, grants: Grants, run: &Run) -> ToolContext {
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

/// What is told where nobody can be asked. Accepting edits does not let a command run.
fn unattended(effects: &Effects) -> String {
    match effects.subprocess {
        true => format!("{HEADLESS_DENIAL} Commands run with --permission-mode bypass."),
        false => HEADLESS_DENIAL.to_owned(),
    }
}

fn denial(feedback: Option<&str>) -> String {
    match feedback {
        Some(feedback) => {
            format!("Not run: the user did not allow this call. They said: {feedback}")
        }
        None => "Not run: the user did not allow this call.".to_owned(),
    }
}
