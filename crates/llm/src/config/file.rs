//! What can be written in a configuration file, section by section.
//!
//! Every field is optional, because a file is one layer of several. The JSON Schema that editors use
//! and the list of known keys come from these types.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::OnceLock;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::capability::{Dialect, Effort, TargetOverrides};
use crate::models::Price;

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigFile {
    /// The model that answers when none is named: an alias, PROVIDER:MODEL-ID or a provider.
    pub default_model: Option<String>,
    /// Model servers by name; a built-in name changes that provider.
    pub providers: BTreeMap<String, ProviderEntry>,
    /// Models by the alias they are called by.
    pub models: BTreeMap<String, ModelEntry>,
    /// Limits of a turn.
    pub agent: AgentSection,
    /// What runs without asking, what asks, what never runs.
    pub permissions: PermissionsSection,
    /// How commands are confined.
    pub sandbox: SandboxSection,
    /// How failed requests are repeated.
    pub retry: RetrySection,
    /// How much is kept of sessions and of the log.
    pub sessions: SessionsSection,
    /// Tool servers by name.
    pub mcp: BTreeMap<String, McpEntry>,
    /// Commands that run at fixed points of a session.
    pub hooks: HooksSection,
}

/// `[providers.NAME]`: one model server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProviderEntry {
    /// The wire format.
    pub kind: Option<Dialect>,
    /// The address below which requests are posted.
    pub base_url: Option<String>,
    /// The environment variable that holds the key; without one no key is sent.
    pub api_key_env: Option<String>,
    /// A known kind of server whose peculiarities apply.
    pub preset: Option<String>,
    /// Single peculiarities, which stand beside the other keys.
    #[serde(skip)]
    pub overrides: TargetOverrides,
}

/// `[models.ALIAS]`: one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelEntry {
    /// The provider that serves it.
    pub provider: Option<String>,
    /// The id that requests carry.
    pub id: Option<String>,
    /// Most tokens of a request and its answer together.
    pub context: Option<u64>,
    /// Most tokens of one answer.
    pub max_output: Option<NonZeroU32>,
    /// How hard it thinks; the levels depend on the model.
    pub effort: Option<Effort>,
    /// Tokens it may think, for models that take a number.
    pub thinking_budget: Option<u32>,
    /// What it costs.
    pub price: Option<Price>,
}

/// `[agent]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSection {
    /// Most model requests of one turn.
    pub max_steps: Option<NonZeroU32>,
    /// The share of the context at which older parts are summarised, from 0.1 to 1.
    #[schemars(range(min = 0.1, max = 1.0))]
    pub compact_at: Option<f64>,
    /// Whether programs are asked for their versions, in the sandbox and beside a turn, so that later sessions
    /// can tell the model.
    pub ask_programs: Option<bool>,
}

/// `[permissions]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PermissionsSection {
    /// How much happens without asking.
    pub mode: Option<Mode>,
    /// Calls that run without asking.
    pub allow: Vec<Rule>,
    /// Calls that ask.
    pub ask: Vec<Rule>,
    /// Calls that never run.
    pub deny: Vec<Rule>,
    /// Files that nobody gets to see beside the usual credential files: lines as in .gitignore.
    pub mask: Vec<String>,
}

/// How much happens without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Reads run, edits and commands ask.
    Default,
    /// Edits inside the workspace run too.
    AcceptEdits,
    /// Commands inside the sandbox run too.
    Auto,
    /// Nothing that could change anything runs.
    Plan,
    /// Everything runs.
    Bypass,
}

/// A permission rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a rule such as \"bash(cargo test:*)\", or a table with rule, unsafe, match and not_match"
)]
pub enum Rule {
    /// The rule alone.
    Text(String),
    /// The rule with what it must and must not match.
    Detailed(DetailedRule),
}

/// A rule as a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DetailedRule {
    /// The rule.
    pub rule: String,
    /// Whether it may be as wide as to allow anything.
    #[serde(default)]
    pub r#unsafe: bool,
    /// Commands that it has to match; checked when the file is read.
    #[serde(default)]
    pub r#match: Vec<String>,
    /// Commands that it must not match; checked when the file is read.
    #[serde(default)]
    pub not_match: Vec<String>,
}

/// `[sandbox]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SandboxSection {
    /// What commands may write.
    pub mode: Option<SandboxMode>,
    /// What holds them back.
    pub backend: Option<SandboxBackend>,
    /// Where commands may connect to.
    pub network: Option<Network>,
    /// Environment variables that commands get to see beside the usual ones.
    pub env_passthrough: Option<Vec<String>>,
}

/// What commands may write. The order is from narrow to wide.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing.
    ReadOnly,
    /// The workspace.
    WorkspaceWrite,
    /// Everything, because a container around anvil already confines it.
    External,
    /// Everything.
    FullAccess,
}

/// What holds commands back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxBackend {
    /// bubblewrap, or what takes its place on another system.
    Bubblewrap,
    /// Landlock, which needs no namespaces and holds back less.
    Landlock,
}

/// Where commands may connect to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false or a list of host names")]
pub enum Network {
    /// Everywhere, or nowhere.
    All(bool),
    /// These hosts; an empty list is nowhere.
    Hosts(Vec<String>),
}

impl Network {
    /// Whether everything reachable with this one is reachable with `other` too.
    pub fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All(false), _) | (_, Self::All(true)) => true,
            (Self::Hosts(own), Self::Hosts(others)) => own.iter().all(|host| others.contains(host)),
            (Self::Hosts(own), Self::All(false)) => own.is_empty(),
            (Self::All(true), _) => false,
        }
    }

    /// Whether nothing can be reached.
    pub fn is_none(&self) -> bool {
        self.is_within(&Self::All(false))
    }
}

/// `[retry]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RetrySection {
    /// Most tries of one request, the first included.
    pub max_attempts: Option<NonZeroU32>,
    /// Seconds that all tries of a request may take together.
    pub deadline_s: Option<u64>,
}

/// `[sessions]`: sizes in megabytes (1 048 576 bytes).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionsSection {
    /// The size of a session's file from which no further run goes on with it.
    pub max_file_mb: Option<NonZeroU32>,
    /// The size of all sessions together from which every start says so.
    pub max_total_mb: Option<NonZeroU32>,
    /// The size from which the log begins a new file; the one before it is kept.
    pub max_log_mb: Option<NonZeroU32>,
}

/// `[mcp.NAME]`: one tool server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct McpEntry {
    /// The program to start.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// The address of a server that is not started but reached.
    pub url: Option<String>,
    /// Environment variables it gets to see beside the usual ones.
    pub env_passthrough: Vec<String>,
    /// Seconds it may take to start.
    pub startup_timeout_s: Option<u64>,
    /// Seconds a call may take.
    pub call_timeout_s: Option<u64>,
}

/// `[[hooks.EVENT]]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HooksSection {
    /// When a session begins.
    pub session_start: Vec<HookEntry>,
    /// Before a prompt reaches the model.
    pub user_prompt_submit: Vec<HookEntry>,
    /// Before a tool runs.
    pub pre_tool_use: Vec<HookEntry>,
    /// After a tool ran.
    pub post_tool_use: Vec<HookEntry>,
    /// Before a turn ends.
    pub stop: Vec<HookEntry>,
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookEntry {
    /// The tools it is about; `*` for all.
    #[serde(default)]
    pub matcher: Option<String>,
    /// The command line.
    pub command: String,
    /// Seconds it may take.
    #[serde(default)]
    pub timeout_s: Option<u64>,
    /// Whether a failure is only told or decides.
    #[serde(default)]
    pub purpose: Option<Purpose>,
}

/// What the outcome of a hook means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// It is told.
    #[default]
    Advisory,
    /// Without its consent the work is not done.
    Required,
}

/// The JSON Schema of a file, for editors; also the list of the keys there are.
pub fn json_schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema: Schema = schemars::schema_for!(ConfigFile);
        schema.insert("title".to_owned(), Value::from("anvil configuration"));
        let mut schema = schema.to_value();
        // Types cannot say that these keys stand beside others without losing the place of a fault.
        let columns = schemars::schema_for!(TargetOverrides).to_value();
        extend(&mut schema["$defs"]["ProviderEntry"]["properties"], &columns["properties"]);
        extend(&mut schema["$defs"], &columns["$defs"]);
        close(&mut schema);
        for definition in schema["$defs"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            close(definition);
        }
        schema
    })
}

fn extend(into: &mut Value, more: &Value) {
    if let (Some(into), Some(more)) = (into.as_object_mut(), more.as_object()) {
        into.extend(more.clone());
    }
}

/// Lets an editor mark keys that a table does not know.
fn close(schema: &mut Value) {
    if schema["properties"].is_object() {
        schema["additionalProperties"] = Value::from(false);
    }
}
