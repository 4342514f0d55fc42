//! Who is asked when a call needs a person's word, and the two who always answer the same.

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// The call's id.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, whole.
    pub args: Value,
    /// Why the policy asks.
    pub reason: String,
    /// What the call would do, for example a diff.
    pub preview: Option<String>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// Run it.
    Allow,
    /// Run it, and do not ask again for the same kind of call in this session.
    AllowForSession,
    /// Do not run it; the text reaches the model.
    Deny {
        /// The person's words, or the way forward.
        feedback: Option<String>,
    },
}

/// The sentence a headless run gives the model and the log when something needs approval.
pub const HEADLESS_DENIAL: &str = "This action requires approval, which isn't available in headless mode. \
     Re-run with --permission-mode accept-edits or add an allow rule.";

/// Someone who can approve a call.
///
/// Fail-safe by contract: an approver that is gone, cancelled or unsure denies.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Asks. Returns `Deny` when `cancel` fires first.
    async fn approve(&self, req: ApprovalRequest, cancel: &CancellationToken) -> ApprovalDecision;
}

/// Approves everything: `--permission-mode bypass`, and tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

#[async_trait]
impl Approver for AllowAll {
    async fn approve(&self, _req: ApprovalRequest, cancel: &CancellationToken) -> ApprovalDecision {
        if cancel.is_cancelled() {
            return ApprovalDecision::Deny { feedback: None };
        }
        ApprovalDecision::Allow
    }
}

/// Denies everything with the way forward: headless runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenyAll;

#[async_trait]
impl Approver for DenyAll {
    async fn approve(
        &self,
        _req: ApprovalRequest,
        _cancel: &CancellationToken,
    ) -> ApprovalDecision {
        ApprovalDecision::Deny { feedback: Some(HEADLESS_DENIAL.to_owned()) }
    }
}
