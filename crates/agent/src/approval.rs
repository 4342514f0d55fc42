//! Who is asked when a call needs a person's word, and those who answer without one.

mod binding;
mod proposals;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::binding::{Binding, Bound};
pub use self::proposals::{offered_first, proposals};
use crate::permissions::Because;
use crate::tool::Grants;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// The call's id.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, whole but for secrets.
    pub args: Value,
    /// Why the policy asks, and which rule of which file wants it.
    pub because: Because,
    /// What a yes opens, for this one call. No rule ever opens it, so no rule is proposed then.
    pub grants: Grants,
    /// What the call would do, for example a diff.
    pub preview: Option<String>,
    /// Rules that would let such calls run, narrow to wide.
    pub proposals: Vec<String>,
    /// All of that, and what would run, as one number. A yes counts for nothing else.
    pub shown: Binding,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// Run it.
    Allow,
    /// Run it, and do not ask again about calls that the rule means.
    Always {
        /// The rule.
        rule: String,
        /// For how long.
        scope: Scope,
    },
    /// Do not run it; the person's words reach the model.
    Deny {
        /// What the person said to it.
        feedback: Option<String>,
    },
    /// Do not run it: there is nobody to ask.
    Unattended,
}

/// How long a rule holds that a person added to an answer. It holds for this session in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Until the session ends.
    Session,
    /// Also in later ones: whoever asked has kept it in the user's own file.
    User,
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
        ApprovalDecision::Unattended
    }
}

/// Gives prepared answers in order and keeps what it was asked; denies when they run out.
#[derive(Debug, Default)]
pub struct ScriptedApprover {
    answers: Mutex<VecDeque<ApprovalDecision>>,
    asked: Mutex<Vec<ApprovalRequest>>,
}

impl ScriptedApprover {
    /// An approver with these answers.
    pub fn new(answers: impl IntoIterator<Item = ApprovalDecision>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() }
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Approver for ScriptedApprover {
    async fn approve(&self, req: ApprovalRequest, _cancel: &CancellationToken) -> ApprovalDecision {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(req);
        let next = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.unwrap_or(ApprovalDecision::Deny { feedback: None })
    }
}
