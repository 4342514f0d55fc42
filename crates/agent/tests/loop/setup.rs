//! An agent over a script and tools that do as a test says: what every test of the loop starts from.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agent::channel::EventReceiver;
use agent::event::{AgentEvent, TurnOutcome, TurnSummary};
use agent::permissions::{PermissionMode, Policy, PolicyParts, Rules};
use agent::session::Opening;
use agent::steering::{Steering, Unsteered};
use agent::tools::calculator::Calculator;
use agent::{
    Agent, AgentConfig, AgentError, AgentParts, Approver, DenyAll, Effects, ModelRef, OnCancel,
    PathSet, Tool, ToolContext, ToolError, ToolOutput,
};
use async_trait::async_trait;
use llm::models::Price;
use llm::testing::{Answer, ScriptedProvider, script};
use llm::{ContentBlock, Message, Tail, validate_transcript};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tokio_util::sync::CancellationToken;

use crate::support::{CONFIG, model, parts, registry};

/// What a test tool does when it is called.
#[derive(Clone)]
pub(crate) enum Act {
    /// Returns the text.
    Say(&'static str),
    /// Announces itself and waits until it is cancelled.
    WaitForCancel(Arc<Notify>),
    /// Announces itself and never returns, cancelled or not.
    Hang(Arc<Notify>),
    /// Waits until as many calls as the barrier counts are running.
    Meet(Arc<Barrier>),
    /// Sets the flag.
    Set(Arc<AtomicBool>),
    /// Reports the flag.
    Get(Arc<AtomicBool>),
    /// Panics.
    Panic,
}

pub(crate) struct Probe {
    pub(crate) name: &'static str,
    pub(crate) effects: Effects,
    pub(crate) act: Act,
    pub(crate) calls: Arc<AtomicUsize>,
}

#[async_trait]
impl Tool for Probe {
    fn name(&self) -> &str {
        self.name
    }
    fn description(&self) -> &str {
        "a tool for tests"
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn effects(&self, _args: &Value) -> Effects {
        self.effects.clone()
    }
    fn on_cancel(&self) -> OnCancel {
        OnCancel::MayBePartial
    }
    fn permission_subject(&self, args: &Value) -> Option<String> {
        Some(args.to_string())
    }
    async fn call(&self, _args: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match &self.act {
            Act::Say(text) => Ok(ToolOutput::from((*text).to_owned())),
            Act::WaitForCancel(started) => {
                started.notify_one();
                ctx.cancel.cancelled().await;
                Err(ToolError::Cancelled("stopped halfway".into()))
            }
            Act::Hang(started) => {
                started.notify_one();
                pending().await
            }
            Act::Meet(barrier) => {
                barrier.wait().await;
                Ok(ToolOutput::from("met".to_owned()))
            }
            Act::Set(flag) => {
                flag.store(true, Ordering::SeqCst);
                Ok(ToolOutput::from("set".to_owned()))
            }
            Act::Get(flag) => Ok(ToolOutput::from(flag.load(Ordering::SeqCst).to_string())),
            Act::Panic => panic!("a fault in the tool"),
        }
    }
}

pub(crate) fn reads(name: &'static str, act: Act) -> Probe {
    Probe { name, effects: Effects::reads(PathSet::Workspace), act, calls: Arc::default() }
}

pub(crate) fn writes(name: &'static str, act: Act) -> Probe {
    Probe { name, effects: Effects::writes(PathSet::Workspace), act, calls: Arc::default() }
}

/// An agent over a script, with everything a test may want to change or look at.
pub(crate) struct Bench {
    pub(crate) agent: Agent,
    pub(crate) provider: Arc<ScriptedProvider>,
    pub(crate) events: EventReceiver,
}

pub(crate) struct Setup {
    pub(crate) script: Vec<Answer>,
    pub(crate) tools: Vec<Probe>,
    pub(crate) mode: PermissionMode,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) max_steps: u32,
    pub(crate) max_wall_time: Option<Duration>,
    pub(crate) price: Option<Price>,
    pub(crate) rules: Rules,
    pub(crate) window: Option<u64>,
    pub(crate) steering: Arc<dyn Steering>,
    pub(crate) opening: Opening,
}

impl Setup {
    pub(crate) fn new(script: Vec<Vec<llm::StreamEvent>>) -> Self {
        Self::playing(script.into_iter().map(Answer::Events).collect())
    }

    pub(crate) fn playing(script: Vec<Answer>) -> Self {
        Self {
            script,
            tools: Vec::new(),
            mode: PermissionMode::Bypass,
            approver: Arc::new(DenyAll),
            max_steps: 100,
            max_wall_time: None,
            price: None,
            rules: Rules::default(),
            window: None,
            steering: Arc::new(Unsteered),
            opening: Opening::default(),
        }
    }

    pub(crate) fn tool(mut self, tool: Probe) -> Self {
        self.tools.push(tool);
        self
    }

    pub(crate) fn asking(mut self, approver: Arc<dyn Approver>) -> Self {
        self.mode = PermissionMode::Default;
        self.approver = approver;
        self
    }

    pub(crate) fn priced(mut self, price: Option<Price>) -> Self {
        self.price = price;
        self
    }

    /// The same with a model that takes so many tokens.
    pub(crate) fn window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }

    pub(crate) fn build(self) -> Bench {
        self.with_tools(Vec::new())
    }

    pub(crate) fn with(self, tool: Arc<dyn Tool>) -> Bench {
        self.with_tools(vec![tool])
    }

    pub(crate) fn with_tools(self, more: Vec<Arc<dyn Tool>>) -> Bench {
        let provider = Arc::new(ScriptedProvider::playing(self.script));
        let probes = self.tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>);
        let calculator: Arc<dyn Tool> = Arc::new(Calculator);
        let (parts, events) = parts(Arc::clone(&provider) as _);
        let agent = Agent::new(AgentParts {
            model: ModelRef { price: self.price, context: self.window, ..model("test:m") },
            tools: registry([calculator].into_iter().chain(probes).chain(more)),
            policy: Policy::new(PolicyParts {
                mode: self.mode,
                rules: self.rules,
                workspace: "/".into(),
                ..PolicyParts::default()
            }),
            approver: self.approver,
            opening: self.opening,
            steering: self.steering,
            config: AgentConfig {
                max_steps: self.max_steps,
                max_wall_time: self.max_wall_time,
                system: Some("be brief".into()),
                ..CONFIG
            },
            ..parts
        });
        Bench { agent, provider, events }
    }
}

impl Bench {
    pub(crate) async fn run(&mut self, prompt: &str) -> Result<TurnOutcome, AgentError> {
        self.run_with(prompt, CancellationToken::new()).await
    }

    pub(crate) async fn run_with(
        &mut self,
        prompt: &str,
        cancel: CancellationToken,
    ) -> Result<TurnOutcome, AgentError> {
        let outcome = self.agent.run_turn(vec![ContentBlock::text(prompt)], cancel).await;
        assert_eq!(validate_transcript(self.agent.transcript(), Tail::Settled), Ok(()));
        outcome
    }

    /// Ends the agent and returns everything it reported.
    pub(crate) async fn reported(mut self) -> Vec<AgentEvent> {
        drop(self.agent);
        let mut all = Vec::new();
        while let Some(event) = self.events.recv().await {
            all.push(event);
        }
        all
    }
}

pub(crate) fn add(id: &str) -> Vec<llm::StreamEvent> {
    script::tool_call(id, "calculator", json!({"a": 2, "b": 2, "op": "add"}))
}

pub(crate) fn results(message: &Message) -> Vec<(&str, &str, bool)> {
    message
        .content()
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolResult { call_id, content, is_error, .. } => {
                Some((call_id.as_str(), content.as_str(), *is_error))
            }
            _ => None,
        })
        .collect()
}

pub(crate) fn finished(events: &[AgentEvent]) -> Vec<&TurnSummary> {
    events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::TurnFinished(summary) => Some(summary),
            _ => None,
        })
        .collect()
}
