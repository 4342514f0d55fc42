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
    doubt: Option<String>,
}

impl Policy {
    /// A policy of the mode alone.
    pub fn new(mode: PermissionMode) -> Self {
        Self { mode, session_allow: Vec::new(), doubt: None }
    }

    /// A policy that asks wherever one of the mode alone would let a call run, because rules may be
    /// missing; `why` says what happened to them.
    pub fn in_doubt(mode: PermissionMode, why: &str) -> Self {
        Self { doubt: Some(why.to_owned()), ..Self::new(mode) }
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
        let decision = self.by_mode(tool, args, &effects);
        match &self.doubt {
            // What touches nothing is nothing that a rule would be needed for.
            Some(why) if decision == Decision::Allow && effects != Effects::none() => {
                match self.is_allowed_for_session(tool, args) {
                    true => Decision::Allow,
                    false => Decision::Ask { reason: format!("{why}: rules may be missing") },
                }
            }
            _ => decision,
        }
    }

    fn is_allowed_for_session(&self, tool: &dyn Tool, args: &Value) -> bool {
        let entry = (tool.name().to_owned(), tool.permission_subject(args));
        self.session_allow.contains(&entry)
    }

    fn by_mode(&self, tool: &dyn Tool, args: &Value, effects: &Effects) -> Decision {
        if effects.is_read_only() {
            return Decision::Allow;
        }
        match self.mode {
            PermissionMode::Plan => Decision::Deny {
                reason: format!(
                    "plan mode: {} would {}. Describe the change instead, or ask the user to leave plan mode.",
                    tool.name(),
                    describe(effects)
                ),
            },
            PermissionMode::Bypass => Decision::Allow,
            PermissionMode::AcceptEdits if is_plain_edit(effects) => Decision::Allow,
            PermissionMode::Default | PermissionMode::AcceptEdits => {
                match self.is_allowed_for_session(tool, args) {
                    true => Decision::Allow,
                    false => Decision::Ask {
                        reason: format!("{} would {}", tool.name(), describe(effects)),
                    },
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

    #[test]
    fn in_doubt_nothing_runs_without_a_persons_word_and_nothing_forbidden_becomes_a_question() {
        let read = Acts(Effects::reads(PathSet::Workspace));
        for mode in [Standard, AcceptEdits, Bypass] {
            let policy = Policy::in_doubt(mode, "config.toml cannot be read");
            for effects in [Effects::reads(PathSet::Workspace), Effects::command()] {
                let decision = policy.decide(&Acts(effects), &json!({}));
                assert!(matches!(decision, Decision::Ask { .. }), "{mode:?}");
            }
        }
        let mut policy = Policy::in_doubt(Plan, "config.toml cannot be read");
        let command = policy.decide(&Acts(Effects::command()), &json!({}));
        assert!(matches!(command, Decision::Deny { .. }));
        policy.allow_for_session(&read, &json!({}));
        assert_eq!(policy.decide(&read, &json!({})), Decision::Allow);
        assert_eq!(policy.decide(&Acts(Effects::none()), &json!({})), Decision::Allow);
    }
}
