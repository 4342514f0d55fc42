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
