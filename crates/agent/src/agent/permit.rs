//! Whether one call may run: judged, asked about where a person has to be, and held to what was shown.

use std::sync::Arc;

use super::batch::{CANCELLED, Call};
use super::{Agent, Run};
use crate::approval::{
    ApprovalDecision, ApprovalRequest, Binding, Bound, HEADLESS_DENIAL, offered_first, proposals,
};
use crate::permissions::{Because, Confinement, Decision};
use crate::tool::{Effects, Grants, Tool};

/// How often a person is asked about one call whose meaning changes while they look at it.
const MAX_QUESTIONS: u32 = 3;

/// What a person is asked about a call, and what of it may have changed when the answer comes.
struct Question {
    because: Because,
    grants: Grants,
    preview: Option<String>,
    shown: Binding,
}

impl Agent {
    pub(super) fn decide(&self, tool: &dyn Tool, call: &Call) -> Decision {
        let decision = self.policy.decide(tool, &call.args, &*self.programs);
        let Because { why, rule, origin } = decision.because();
        let (rule, origin) = (rule.as_deref(), origin.as_deref());
        let decided = decision.name();
        tracing::info!(call = call.id, tool = call.name, decided, rule, origin, why, "permission");
        decision
    }

    /// Lets the call through with what is opened for it, or says why not.
    pub(super) async fn permit(&mut self, call: &Call, run: &Run) -> Result<Grants, String> {
        // A tool that does not exist has no effects; dispatch tells the model which ones do.
        let Some(tool) = self.tools.get(&call.name).map(Arc::clone) else {
            return Ok(Grants::default());
        };
        for _ in 0..MAX_QUESTIONS {
            if run.cancel.is_cancelled() {
                return Err(CANCELLED.to_owned());
            }
            let (because, grants) = match self.decide(tool.as_ref(), call) {
                Decision::Allow { .. } => return Ok(Grants::default()),
                Decision::Deny { because } => return Err(format!("Not run: {}", because.why)),
                Decision::Ask { because, grants } => (because, grants),
            };
            let context = self.context(call, Grants::default(), run);
            let preview = self.tools.preview(&call.name, &call.args, &context).await;
            let shown = self.bind(tool.as_ref(), call, &grants, preview.as_deref());
            let question = Question { because, grants, preview, shown };
            if let Some(grants) = self.ask(tool.as_ref(), call, question, run).await? {
                return Ok(grants);
            }
        }
        Err("Not run: what this call would do changed each time while the user was asked about it."
            .to_owned())
    }

    /// Asks a person. Nothing when they agreed to something that is no longer what would run.
    async fn ask(
        &mut self,
        tool: &dyn Tool,
        call: &Call,
        question: Question,
        run: &Run,
    ) -> Result<Option<Grants>, String> {
        let Question { because, grants, preview, shown } = question;
        let proposals = self.useful_proposals(tool, call);
        let redactor = self.tools.redactor();
        let because = Because { why: redactor.redact_owned(because.why), ..because };
        let request = ApprovalRequest {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            args: redactor.redact_json(&call.args),
            because,
            grants: grants.clone(),
            preview: preview.clone(),
            proposals: proposals.clone(),
            shown,
        };
        let answer = tokio::select! {
            biased;
            () = run.cancel.cancelled() => return Err(CANCELLED.to_owned()),
            answer = self.approver.approve(request, &run.cancel) => answer,
        };
        let rule = match answer {
            // Whoever cancels while being asked has not agreed.
            _ if run.cancel.is_cancelled() => return Err(CANCELLED.to_owned()),
            ApprovalDecision::Deny { feedback } => return Err(denial(feedback.as_deref())),
            ApprovalDecision::Unattended => {
                let confinement = self.policy.parts().confinement.get();
                let effects = tool.effects(&call.args);
                return Err(unattended(&effects, &grants, &proposals, confinement));
            }
            ApprovalDecision::Allow => None,
            ApprovalDecision::Always { rule, .. } => Some(rule),
        };
        if self.bind_now(tool, call, preview.as_deref()) != Some(shown) {
            return Ok(None);
        }
        if let Some(rule) = rule
            && let Err(error) = self.policy.allow_for_session(&rule)
        {
            // The call was allowed all the same; the next one of its kind asks again.
            tracing::warn!(rule, %error, "this cannot be allowed for the session");
        }
        Ok(Some(grants))
    }

    /// The rules that would really have let this call run: none does where a rule asks, or where a yes
    /// opens what only a person's word opens.
    fn useful_proposals(&self, tool: &dyn Tool, call: &Call) -> Vec<String> {
        let mut rules = proposals(tool, &call.args);
        rules.retain(|rule| {
            let mut policy = self.policy.clone();
            policy.allow_for_session(rule).is_ok()
                && policy.decide(tool, &call.args, &*self.programs).is_allowed()
        });
        rules
    }

    /// The binding of the call as it would be asked about now; nothing when it would not be.
    fn bind_now(&self, tool: &dyn Tool, call: &Call, preview: Option<&str>) -> Option<Binding> {
        match self.decide(tool, call) {
            Decision::Ask { grants, .. } => Some(self.bind(tool, call, &grants, preview)),
            Decision::Allow { .. } | Decision::Deny { .. } => None,
        }
    }

    fn bind(
        &self,
        tool: &dyn Tool,
        call: &Call,
        grants: &Grants,
        preview: Option<&str>,
    ) -> Binding {
        Binding::of(&Bound {
            call_id: &call.id,
            tool: &call.name,
            args: &call.args,
            cwd: &self.cwd,
            effects: &tool.effects(&call.args),
            grants,
            revision: self.policy.revision(),
            preview,
        })
    }
}

/// What is told where nobody can be asked, with what would have helped.
fn unattended(
    effects: &Effects,
    grants: &Grants,
    proposals: &[String],
    confinement: Confinement,
) -> String {
    let mut text = HEADLESS_DENIAL.to_owned();
    let mut add = |hint: &str| {
        text.push(' ');
        text.push_str(hint);
    };
    if grants.network {
        add("The network is opened with --network.");
    }
    if !grants.paths.is_empty() {
        add("A folder outside the workspace is opened with --add-dir DIR.");
    }
    if let Some(rule) = proposals.get(offered_first(proposals)) {
        add(&format!("A rule for it: --allow '{}'.", rule.replace('\'', r"'\''")));
    }
    // Accepting edits does not let a command run.
    if effects.subprocess && grants.is_empty() {
        add(match confinement {
            Confinement::None | Confinement::Partial => {
                "Commands run with --permission-mode bypass."
            }
            _ => "Commands run in the sandbox with --permission-mode auto.",
        });
    }
    text
}

fn denial(feedback: Option<&str>) -> String {
    match feedback {
        Some(feedback) => {
            format!("Not run: the user did not allow this call. They said: {feedback}")
        }
        None => "Not run: the user did not allow this call.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::GrantedPath;

    #[test]
    fn where_nobody_can_be_asked_the_way_forward_is_told() {
        let nothing = Grants::default();
        let told = unattended(&Effects::none(), &nothing, &[], Confinement::None);
        assert_eq!(told, HEADLESS_DENIAL);
        let rules = ["bash(cargo test --lib)", "bash(cargo test:*)"].map(str::to_owned);
        let told = unattended(&Effects::command(), &nothing, &rules, Confinement::Workspace);
        assert!(told.starts_with(HEADLESS_DENIAL), "{told}");
        assert!(told.contains("--allow 'bash(cargo test:*)'"), "{told}");
        assert!(told.ends_with("with --permission-mode auto."), "{told}");
        let quoted = ["bash(echo it's)".to_owned()];
        let told = unattended(&Effects::command(), &nothing, &quoted, Confinement::None);
        assert!(told.contains(r"--allow 'bash(echo it'\''s)'"), "{told}");
        let paths = vec![GrantedPath { path: "/etc".into(), write: false }];
        let grants = Grants { network: true, paths };
        let told = unattended(&Effects::command(), &grants, &[], Confinement::None);
        assert!(told.contains("--network") && told.contains("--add-dir"), "{told}");
        assert!(!told.contains("bypass"), "{told}");
    }
}
