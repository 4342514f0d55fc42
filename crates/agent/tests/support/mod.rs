//! What every test and bench of a whole agent starts from: the parts of one that runs everything, asks
//! nobody and keeps nothing. Who wants something else names just that, and takes the rest from here.

#![allow(dead_code, reason = "each target uses a part of it")]

use std::path::PathBuf;
use std::sync::Arc;

use agent::channel::{EventReceiver, channel};
use agent::permissions::{ByName, PermissionMode, Policy};
use agent::registry::ToolRegistry;
use agent::session::Opening;
use agent::steering::Unsteered;
use agent::{AgentConfig, AgentParts, DenyAll, ModelRef, Tool};
use llm::Provider;

/// The parts of an agent whose model is this provider's `test:m`, and what it will report.
pub(crate) fn parts(provider: Arc<dyn Provider>) -> (AgentParts, EventReceiver) {
    let (events, receiver) = channel();
    let parts = AgentParts {
        provider,
        model: model("test:m"),
        tools: ToolRegistry::default(),
        policy: Policy::of_mode(PermissionMode::Bypass),
        programs: Arc::new(ByName),
        approver: Arc::new(DenyAll),
        events,
        cwd: PathBuf::from("/"),
        session_id: "s".into(),
        config: CONFIG,
        opening: Opening::default(),
        steering: Arc::new(Unsteered),
    };
    (parts, receiver)
}

/// Limits that no test runs into by chance, and no instructions.
pub(crate) const CONFIG: AgentConfig = AgentConfig {
    max_steps: 100,
    max_wall_time: None,
    system: None,
    compact_at: AgentConfig::COMPACT_AT,
};

/// The model that is written so, about which nothing else is known.
pub(crate) fn model(label: &str) -> ModelRef {
    let id = label.split_once(':').map_or(label, |(_, id)| id).to_owned();
    ModelRef { label: label.into(), id, ..ModelRef::default() }
}

/// A registry of these tools.
pub(crate) fn registry(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> ToolRegistry {
    let mut registry = ToolRegistry::default();
    for tool in tools {
        registry.register(tool).expect("names are distinct");
    }
    registry
}
