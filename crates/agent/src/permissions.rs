//! Decides whether a call runs, is asked about, or is refused: from its effects, the rules and the mode.

use std::path::PathBuf;

pub mod shell;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::{Effects, Grants, PathSet, Tool};

/// How much happens without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Reads run; edits and commands ask.
    #[default]
    Default,
    /// Edits inside the workspace run too; commands ask.
    AcceptEdits,
    /// Commands that the sandbox confines run too; what leaves the sandbox asks.
    Auto,
    /// Nothing that could change anything runs.
    Plan,
    /// Everything runs.
    Bypass,
}

/// How commands are confined by what was found to work on this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confinement {
    /// Not at all.
    #[default]
    None,
    /// They can write nothing.
    ReadOnly,
    /// They can write the workspace.
    Workspace,
    /// By something around anvil.
    External,
}

/// Why a call was judged as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Because {
    /// In a sentence, with the way forward where the call does not run.
    pub why: String,
    /// The rule that decided, as it was written.
    pub rule: Option<String>,
    /// Where the rule was written.
    pub origin: Option<String>,
}

impl Because {
    /// A reason that is no rule.
    pub fn of(why: impl Into<String>) -> Self {
        Self { why: why.into(), rule: None, origin: None }
    }
}

/// What happens with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow {
        /// What lets it run.
        because: Because,
    },
    /// A person is asked.
    Ask {
        /// What makes the call need a word.
        because: Because,
        /// What a yes opens for this one call.
        grants: Grants,
    },
    /// It does not run.
    Deny {
        /// Why, and the way forward.
        because: Because,
    },
}

impl Decision {
    /// What led to it.
    pub fn because(&self) -> &Because {
        match self {
            Self::Allow { because } | Self::Ask { because, .. } | Self::Deny { because } => because,
        }
    }

    /// Whether the call runs without a question.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

/// Where the program that a name means lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a folder of `PATH` that no tool can write.
    Trusted(PathBuf),
    /// Somewhere else: in the workspace, a temporary folder, or behind a name with a slash.
    Untrusted(PathBuf),
    /// Nowhere; the name alone says what it is.
    NotFound,
}

/// Knows what the name of a program means on this machine.
pub trait Programs: Send + Sync {
    /// Where the program lies that a shell in the workspace would start for `name`.
    fn place(&self, name: &str) -> Place;
}

/// Judges every program by its name: where nothing is started, and in tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByName;

impl Programs for ByName {
    fn place(&self, _name: &str) -> Place {
        Place::NotFound
    }
}

/// The rules of a session, in the order in which they were told.
#[derive(Debug, Clone, Default)]
pub struct Rules {}

/// What a [`Policy`] is made of.
#[derive(Debug, Clone, Default)]
pub struct PolicyParts {
    /// How much happens without asking.
    pub mode: PermissionMode,
    /// What is allowed, asked about and denied.
    pub rules: Rules,
    /// Why rules may be missing: then everything asks that would run by the mode or a rule.
    pub doubt: Option<String>,
    /// How commands are confined.
    pub confinement: Confinement,
    /// Whether confined commands can connect to anywhere.
    pub network: bool,
    /// Where relative paths start: an absolute path.
    pub workspace: PathBuf,
    /// Further folders that may be read and written.
    pub roots: Vec<PathBuf>,
    /// Files and folders that no tool may write, such as anvil's own.
    pub protected: Vec<PathBuf>,
}

/// What runs, asks and is refused in a session.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    parts: PolicyParts,
    session_allow: Vec<String>,
}

impl Policy {
    /// A policy that holds to `parts`.
    pub fn new(parts: PolicyParts) -> Self {
        Self { parts, session_allow: Vec::new() }
    }

    /// A policy of the mode alone.
    pub fn of_mode(mode: PermissionMode) -> Self {
        Self::new(PolicyParts { mode, ..PolicyParts::default() })
    }

    /// The mode.
    pub fn mode(&self) -> PermissionMode {
        self.parts.mode
    }

    /// Stops asking for calls that match `rule` until the session ends.
    pub fn allow_for_session(&mut self, rule: &str) {
        if !self.session_allow.iter().any(|known| known == rule) {
            self.session_allow.push(rule.to_owned());
        }
    }

    /// Judges one call.
    pub fn decide(&self, tool: &dyn Tool, args: &Value, _programs: &dyn Programs) -> Decision {
        let effects = tool.effects(args);
        let decision = self.by_mode(tool, args, &effects);
        match &self.parts.doubt {
            // What touches nothing is nothing that a rule would be needed for.
            Some(why) if decision.is_allowed() && effects != Effects::none() => {
                match self.allowed_for_session(tool, args) {
                    Some(because) => Decision::Allow { because },
                    None => ask(format!("{why}: rules may be missing")),
                }
            }
            _ => decision,
        }
    }

    fn allowed_for_session(&self, tool: &dyn Tool, args: &Value) -> Option<Because> {
        let rule = exact_rule(tool, args);
        let origin = Some("this session".to_owned());
        self.session_allow.contains(&rule).then(|| Because {
            why: format!("{rule} was allowed for this session"),
            rule: Some(rule),
            origin,
        })
    }

    fn by_mode(&self, tool: &dyn Tool, args: &Value, effects: &Effects) -> Decision {
        let allow = |why: &str| Decision::Allow { because: Because::of(why) };
        if effects.is_read_only() {
            return allow("it changes nothing");
        }
        match self.parts.mode {
            PermissionMode::Plan => Decision::Deny {
                because: Because::of(format!(
                    "plan mode: {} would {}. Describe the change instead, or ask the user to leave plan mode.",
                    tool.name(),
                    describe(effects)
                )),
            },
            PermissionMode::Bypass => allow("everything runs in this mode"),
            PermissionMode::AcceptEdits | PermissionMode::Auto if is_plain_edit(effects) => {
                allow("edits of the workspace run in this mode")
            }
            PermissionMode::Default | PermissionMode::AcceptEdits | PermissionMode::Auto => {
                match self.allowed_for_session(tool, args) {
                    Some(because) => Decision::Allow { because },
                    None => ask(format!("{} would {}", tool.name(), describe(effects))),
                }
            }
        }
    }
}

/// The rule that matches this call and no other.
pub fn exact_rule(tool: &dyn Tool, args: &Value) -> String {
    match tool.permission_subject(args) {
        Some(subject) => format!("{}({subject})", tool.name()),
        None => tool.name().to_owned(),
    }
}

fn ask(why: String) -> Decision {
    Decision::Ask { because: Because::of(why), grants: Grants::default() }
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
        let got = match Policy::of_mode(mode).decide(&Acts(effects.clone()), &json!({}), &ByName) {
            Decision::Allow { .. } => Allow,
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
    fn a_session_rule_covers_the_same_subject_and_never_plan_mode() {
        let tool = Acts(Effects::command());
        let mut policy = Policy::of_mode(Standard);
        policy.allow_for_session(&exact_rule(&tool, &json!({})));
        assert!(policy.decide(&tool, &json!({}), &ByName).is_allowed());
        policy.parts.mode = Plan;
        assert!(matches!(policy.decide(&tool, &json!({}), &ByName), Decision::Deny { .. }));
    }

    #[test]
    fn in_doubt_nothing_runs_without_a_persons_word_and_nothing_forbidden_becomes_a_question() {
        let read = Acts(Effects::reads(PathSet::Workspace));
        let doubting = |mode| {
            let doubt = Some("config.toml cannot be read".to_owned());
            Policy::new(PolicyParts { mode, doubt, ..PolicyParts::default() })
        };
        for mode in [Standard, AcceptEdits, Bypass] {
            for effects in [Effects::reads(PathSet::Workspace), Effects::command()] {
                let decision = doubting(mode).decide(&Acts(effects), &json!({}), &ByName);
                assert!(matches!(decision, Decision::Ask { .. }), "{mode:?}");
            }
        }
        let mut policy = doubting(Plan);
        let command = policy.decide(&Acts(Effects::command()), &json!({}), &ByName);
        assert!(matches!(command, Decision::Deny { .. }));
        policy.allow_for_session(&exact_rule(&read, &json!({})));
        assert!(policy.decide(&read, &json!({}), &ByName).is_allowed());
        assert!(policy.decide(&Acts(Effects::none()), &json!({}), &ByName).is_allowed());
    }
}
