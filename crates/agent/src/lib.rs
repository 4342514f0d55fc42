//! Runs turns: a prompt goes in, a model is asked, tools act, and one outcome comes out.
//!
//! [`turn`] decides what comes next and does nothing; [`agent`](mod@agent) carries it out. What a tool may
//! touch goes through [`tools::access`]; every child process through [`process`]; everything a person
//! sees leaves as an [`AgentEvent`].

pub mod agent;
pub mod approval;
pub mod channel;
pub mod context;
pub mod digest;
pub mod event;
pub mod expand;
pub mod git;
pub mod paste;
pub mod permissions;
pub mod process;
pub mod programs;
pub mod registry;
pub mod sandbox;
pub mod sanitize;
pub mod secrets;
pub mod session;
pub mod steering;
pub mod tool;
pub mod tools;
pub mod truncate;
pub mod turn;

pub use agent::{Agent, AgentConfig, AgentError, AgentParts, ModelRef};
pub use approval::{
    AllowAll, ApprovalDecision, ApprovalRequest, Approver, DenyAll, Scope, ScriptedApprover,
};
pub use event::{AgentEvent, ErrorInfo, TurnOutcome, TurnSummary};
pub use permissions::{Decision, PermissionMode, Policy};
pub use registry::ToolRegistry;
pub use tool::{
    Effects, Grants, OnCancel, PathSet, ReplaySafety, SubjectKind, Tool, ToolContext, ToolError,
    ToolOutput, TypedTool,
};
