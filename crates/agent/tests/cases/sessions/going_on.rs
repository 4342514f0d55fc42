//! An agent that goes on with the session of a case, its scripted model and its counted command tool.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::channel::EventReceiver;
use agent::event::AgentEvent;
use agent::session::Opening;
use agent::session::journal::Journal;
use agent::{
    Agent, AgentConfig, AgentParts, Effects, ModelRef, OnCancel, PathSet, Tool, ToolContext,
    ToolError, ToolOutput,
};
use async_trait::async_trait;
use llm::testing::{Answer, ScriptedProvider};
use llm::{ContentBlock, Message, Tail, validate_transcript};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agents::{self, CONFIG, parts, registry};

/// Counts how often a command would have run.
struct Counted(Arc<AtomicUsize>);

#[async_trait]
impl Tool for Counted {
    fn name(&self) -> &str {
        "bash"
    }
    fn description(&self) -> &str {
        "runs a command"
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn effects(&self, _args: &Value) -> Effects {
        Effects::writes(PathSet::Workspace)
    }
    fn on_cancel(&self) -> OnCancel {
        OnCancel::MayBePartial
    }
    async fn call(&self, _args: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutput::from("ran".to_owned()))
    }
}

/// A session that somebody goes on with.
pub(super) struct GoingOn {
    pub(super) agent: Agent,
    pub(super) provider: Arc<ScriptedProvider>,
    events: EventReceiver,
    runs: Arc<AtomicUsize>,
}

impl GoingOn {
    /// Opens the file as the program does.
    pub(super) fn new(
        path: &Path,
        provider: ScriptedProvider,
        model: &str,
    ) -> Result<Self, String> {
        let config = AgentConfig { max_steps: 5, compact_at: 1.0, ..CONFIG };
        Self::with(path, provider, agents::model(model), config)
    }

    /// The same with a model and limits of a test's own.
    pub(super) fn with(
        path: &Path,
        provider: ScriptedProvider,
        model: ModelRef,
        config: AgentConfig,
    ) -> Result<Self, String> {
        let opened = Journal::open(path, Arc::default()).map_err(|error| error.to_string())?;
        let (journal, loaded) = opened;
        let opening = Opening { state: loaded.state, journal: Some(journal), trouble: None };
        let runs = Arc::<AtomicUsize>::default();
        let provider = Arc::new(provider);
        let (parts, events) = parts(Arc::clone(&provider) as _);
        let agent = Agent::new(AgentParts {
            model,
            tools: registry([Arc::new(Counted(Arc::clone(&runs))) as _]),
            opening,
            config,
            ..parts
        });
        Ok(Self { agent, provider, events, runs })
    }

    /// The same with a model that gives these answers.
    pub(super) fn answered(path: &Path, answers: Vec<Answer>) -> Result<Self, String> {
        Self::new(path, ScriptedProvider::playing(answers), "scripted:m")
    }

    /// Runs a turn; what was sent and what is kept is legal.
    pub(super) async fn say(&mut self, prompt: &str) -> Result<(), String> {
        let input = vec![ContentBlock::text(prompt)];
        let turn = self.agent.run_turn(input, CancellationToken::new()).await;
        turn.map_err(|error| error.to_string())?;
        for request in self.provider.requests() {
            legal(&request.messages)?;
        }
        legal(self.agent.transcript())
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// How often a person was told that the session is not kept.
    pub(super) async fn reports(self) -> usize {
        let is_trouble = |event: &&AgentEvent| matches!(event, AgentEvent::SessionTrouble { .. });
        self.reported().await.iter().filter(is_trouble).count()
    }

    /// Everything that was reported.
    pub(super) async fn reported(mut self) -> Vec<AgentEvent> {
        drop(self.agent);
        let mut events = Vec::new();
        while let Some(event) = self.events.recv().await {
            events.push(event);
        }
        events
    }
}

pub(super) fn legal(messages: &[Arc<Message>]) -> Result<(), String> {
    validate_transcript(messages, Tail::Settled).map_err(|error| error.to_string())
}

/// The result that a call has.
pub(super) fn result_of(messages: &[Arc<Message>], id: &str) -> Option<String> {
    messages.iter().flat_map(|message| message.content()).find_map(|block| match block {
        ContentBlock::ToolResult { call_id, .. } if call_id == id => {
            Some(serde_json::to_string(block).unwrap())
        }
        _ => None,
    })
}
