//! The tools on offer: names, specs, and a dispatch that always yields a result.

use std::sync::Arc;
use std::time::Duration;

use llm::{ContentBlock, ToolSpec};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::tool::{OnCancel, Tool, ToolContext, ToolError, ToolOutput};
use crate::truncate;

/// Most characters of one result that reach the model.
const DEFAULT_MAX_OUTPUT_CHARS: usize = 40_000;

/// Most characters of a preview for a person.
const MAX_PREVIEW_CHARS: usize = 8_000;

/// How long a cancelled call may take to clean up before it is reported as uncertain.
const CLEANUP_GRACE: Duration = Duration::from_secs(10);

/// The set of tools a session offers, in the order the model sees them.
pub struct ToolRegistry {
    tools: Vec<(ToolSpec, Arc<dyn Tool>)>,
    max_output_chars: usize,
}

/// A tool that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Another tool has the name.
    #[error("a tool called '{0}' is already registered")]
    Duplicate(String),
    /// The name would be refused by a provider.
    #[error("'{0}' is not a tool name: 1 to 64 letters, digits, '_' or '-' are")]
    BadName(String),
}

/// What a dispatched call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatched {
    /// The result for the transcript; always a `ToolResult`.
    pub result: ContentBlock,
    /// What a person should see of it. Bounded.
    pub preview: String,
}

impl Default for ToolRegistry {
    fn default() -> Self {
        Self { tools: Vec::new(), max_output_chars: DEFAULT_MAX_OUTPUT_CHARS }
    }
}

impl ToolRegistry {
    /// An empty set whose results are cut to about `max_output_chars` characters.
    pub fn with_max_output(max_output_chars: usize) -> Self {
        Self { tools: Vec::new(), max_output_chars }
    }

    /// Adds a tool after those already there.
    ///
    /// # Errors
    /// When the name is taken or not allowed by every provider.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.name().to_owned();
        if !is_portable_name(&name) {
            return Err(RegistryError::BadName(name));
        }
        if self.get(&name).is_some() {
            return Err(RegistryError::Duplicate(name));
        }
        let description = tool.description().to_owned();
        let input_schema = tool.input_schema();
        self.tools.push((ToolSpec { name, description, input_schema }, tool));
        Ok(())
    }

    /// The tools as the model sees them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Names in the model's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|(spec, _)| spec.name.as_str())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|(spec, _)| spec.name == name).map(|(_, tool)| tool)
    }

    /// Runs a call and turns whatever happens into a result, a panic included.
    ///
    /// The tool runs in a task of its own: dropping this future, or cancelling `ctx.cancel`, asks it
    /// to stop but lets it finish cleaning up.
    pub async fn dispatch(
        &self,
        call_id: &str,
        name: &str,
        args: &Value,
        ctx: &ToolContext,
    ) -> Dispatched {
        let outcome = match self.get(name) {
            None => Err(ToolError::Failed(self.unknown_tool(name))),
            Some(_) if !args.is_object() => Err(ToolError::InvalidArgs(not_an_object(args))),
            Some(tool) => run_owned(Arc::clone(tool), args.clone(), ctx).await,
        };
        self.to_result(call_id, outcome)
    }

    fn to_result(&self, call_id: &str, outcome: Result<ToolOutput, ToolError>) -> Dispatched {
        let is_error = outcome.is_err();
        let output = outcome.unwrap_or_else(|error| ToolOutput::from(error.to_string()));
        let content = truncate::middle(&output.text, self.max_output_chars);
        let shown = output.display.as_deref().unwrap_or(&content);
        let preview = truncate::middle(shown, MAX_PREVIEW_CHARS);
        let result = ContentBlock::ToolResult {
            call_id: call_id.to_owned(),
            content,
            is_error,
            images: output.images,
        };
        Dispatched { result, preview }
    }

    fn unknown_tool(&self, name: &str) -> String {
        let names: Vec<&str> = self.names().collect();
        format!("Unknown tool '{name}'. Available tools: {}", names.join(", "))
    }
}

/// Whether every provider accepts the name: `^[a-zA-Z0-9_-]{1,64}$`, the strictest common rule.
fn is_portable_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn not_an_object(args: &Value) -> String {
    let received = match args {
        // What the model sent was not JSON at all and is kept as its text.
        Value::String(raw) => raw.clone(),
        other => other.to_string(),
    };
    format!("arguments must be a JSON object. Received: {}", truncate::middle(&received, 500))
}

/// Runs the tool in a task that outlives this future, and waits for it as long as cancelling allows.
async fn run_owned(
    tool: Arc<dyn Tool>,
    args: Value,
    ctx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let name = tool.name().to_owned();
    let on_cancel = tool.on_cancel();
    let mut owned = ctx.clone();
    owned.cancel = ctx.cancel.child_token();
    let _stop_when_dropped = owned.cancel.clone().drop_guard();
    let mut task = tokio::spawn(async move { tool.call(args, &owned).await });
    tokio::select! {
        biased;
        outcome = &mut task => settle(&name, outcome),
        () = ctx.cancel.cancelled() => match tokio::time::timeout(CLEANUP_GRACE, &mut task).await {
            Ok(outcome) => settle(&name, outcome),
            Err(_) => Err(ToolError::Cancelled(abandoned(&name, on_cancel))),
        },
    }
}

fn settle(
    name: &str,
    outcome: <JoinHandle<Result<ToolOutput, ToolError>> as Future>::Output,
) -> Result<ToolOutput, ToolError> {
    outcome.unwrap_or_else(|error| {
        tracing::error!(tool = name, %error, "tool task ended abnormally");
        Err(ToolError::Failed(format!(
            "{name} crashed (a fault in anvil, not in the call). \
             It may have changed something: check before repeating it."
        )))
    })
}

fn abandoned(name: &str, on_cancel: OnCancel) -> String {
    let effect = match on_cancel {
        OnCancel::Atomic => "It either happened completely or not at all",
        OnCancel::MayBePartial => "Part of it may have happened",
    };
    format!(
        "{name} was cancelled but did not stop within {} seconds. {effect}: \
         check the state before repeating it.",
        CLEANUP_GRACE.as_secs()
    )
}
