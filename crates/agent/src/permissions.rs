//! Decides whether a call runs, is asked about, or is refused: from its effects and the mode.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::{Effects, PathSet, Tool};

/// How much happens without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Reads run; edits and commands ask.
    #[default]
    Default,
    /// Edits inside the workspace run too; commands ask.
    AcceptEdits,
    /// Nothing that could change anything runs.
    Plan,
    /// Everything runs.
    Bypass,
}

/// What happens with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask {
        /// What makes the call need a word.
        reason: String,
    },
    /// It does not run.
    Deny {
        /// Why, and the way forward.
        reason: String,
    },
}

/// The rules of a session. Rule lists join the mode in the same order: deny, plan, ask, allow, mode.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    mode: PermissionMode,
    session_allow: Vec<(String, Option<String>)>,
}

impl Policy {
    /// A policy of the mode alone.
    pub fn new(mode: PermissionMode) -> Self {
        Self { mode, session_allow: Vec::new() }
    }

    /// The mode.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Stops asking for this tool with exactly this subject until the session ends.
    pub fn allow_for_session(&mut self, tool: &dyn Tool, args: &Value) {
        let entry = (tool.name().to_owned(), tool.permission_subject(args));
        if !self.session_allow.contains(&entry) {
            self.session_allow.push(entry);
        }
    }

    /// Judges one call.
    pub fn decide(&self, tool: &dyn Tool, args: &Value) -> Decision {
        let effects = tool.effects(args);
        if effects.is_read_only() {
            return Decision::Allow;
        }
        match self.mode {
            PermissionMode::Plan => Decision::Deny {
                reason: format!(
                    "plan mode: {} would {}. Describe the change instead, or ask the user to leave plan mode.",
                    tool.name(),
                    describe(&effects)
                ),
            },
            PermissionMode::Bypass => Decision::Allow,
            PermissionMode::AcceptEdits if is_plain_edit(&effects) => Decision::Allow,
            PermissionMode::Default | PermissionMode::AcceptEdits => {
                let entry = (tool.name().to_owned(), tool.permission_subject(args));
                if self.session_allow.contains(&entry) {
                    Decision::Allow
                } else {
                    Decision::Ask {
                        reason: format!("{} would {}", tool.name(), describe(&effects)),
                    }
                }
            }
        }
    }
}

/// An edit of named files or of the workspace, which file access keeps inside it, and nothing else.
fn is_plain_edit(effects: &Effects) -> bool {
    matches!(effects.writes, PathSet::Paths(_) | PathSet::Workspace)
        && !effects.network
        && !effects.subprocess
        && !effects.unknown
}

fn describe(effects: &Effects) -> &'static str {
    if effects.subprocess {
        "run a command"
    } else if effects.writes != PathSet::None {
        "change files"
    } else if effects.network {
        "use the network"
    } else {
        "do something whose effects are not known"
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::tool::{OnCancel, ToolContext, ToolError, ToolOutput};

    struct Acts(Effects);

    #[async_trait]
    impl Tool for Acts {
        fn name(&self) -> &str {
            "acts"
        }
        fn description(&self) -> &str {
            "a tool for tests"
        }
        fn input_schema(&self) -> Value {
            json!({"type": "object"})
        }
        fn effects(&self, _args: &Value) -> Effects {
            self.0.clone()
        }
        fn on_cancel(&self) -> OnCancel {
            OnCancel::Atomic
        }
        async fn call(&self, _args: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
            unreachable!("a policy never calls")
        }
    }

    #[derive(Debug, PartialEq)]
    enum Verdict {
        Allow,
        Ask,
        Deny,
    }
    use PermissionMode::{AcceptEdits, Bypass, Default as Standard, Plan};
    use Verdict::{Allow, Ask, Deny};

    #[track_caller]
    fn check(effects: &Effects, mode: PermissionMode, want: Verdict) {
        let got = match Policy::new(mode).decide(&Acts(effects.clone()), &json!({})) {
            Decision::Allow => Allow,
            Decision::Ask { .. } => Ask,
            Decision::Deny { .. } => Deny,
        };
        assert_eq!(got, want, "{effects:?} in {mode:?}");
    }

    #[test]
    fn the_mode_decides_by_what_a_call_may_touch() {
        let edit = Effects::writes(PathSet::Paths(vec!["a".into()]));
        let network = Effects { network: true, ..Effects::none() };
        let unknown = Effects { unknown: true, ..Effects::none() };
        let anywhere = Effects::writes(PathSet::Anywhere);
        let rows = [
            (Effects::none(), [Allow, Allow, Allow, Allow]),
            (Effects::reads(PathSet::Workspace), [Allow, Allow, Allow, Allow]),
            (edit, [Ask, Allow, Deny, Allow]),
            (anywhere, [Ask, Ask, Deny, Allow]),
            (Effects::command(), [Ask, Ask, Deny, Allow]),
            (network, [Ask, Ask, Deny, Allow]),
            (unknown, [Ask, Ask, Deny, Allow]),
        ];
        for (effects, wants) in rows {
            for (mode, want) in [Standard, AcceptEdits, Plan, Bypass].into_iter().zip(wants) {
                check(&effects, mode, want);
            }
        }
    }

    #[test]
    fn a_session_grant_covers_the_same_subject_and_never_plan_mode() {
        let tool = Acts(Effects::command());
        let mut policy = Policy::new(Standard);
        policy.allow_for_session(&tool, &json!({}));
        assert_eq!(policy.decide(&tool, &json!({})), Decision::Allow);
        policy.mode = Plan;
        assert!(matches!(policy.decide(&tool, &json!({})), Decision::Deny { .. }));
    }
}
