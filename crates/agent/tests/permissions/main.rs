//! What is decided about calls, row by row: the tool, what it is about, and who decides.

mod modes;
mod rows;
mod rules;
mod weaken;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use agent::permissions::{
    Confinement, Decision, Effect, Place, PolicyParts, Programs, Rules, Written,
};
use agent::sandbox::{Layout, Sandbox, SandboxPolicy};
use agent::tool::SubjectKind;
use agent::tools::access::{AccessRules, FileAccess};
use agent::tools::bash::Bash;
use agent::tools::{SUBJECTS, builtin};
use agent::{
    Effects, OnCancel, PathSet, PermissionMode, Policy, Tool, ToolContext, ToolError, ToolOutput,
};
use async_trait::async_trait;
use serde_json::{Value, json};

/// What happens with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Allow,
    Ask,
    Deny,
}

impl Verdict {
    pub(crate) fn of(decision: &Decision) -> Self {
        match decision {
            Decision::Allow { .. } => Self::Allow,
            Decision::Ask { .. } => Self::Ask,
            Decision::Deny { .. } => Self::Deny,
        }
    }
}

/// Under what a call is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation {
    pub(crate) mode: PermissionMode,
    pub(crate) confinement: Confinement,
    /// `allow bash(cargo test:*)`; a `!` at the end says that a rule is wide on purpose.
    pub(crate) rules: &'static [&'static str],
}

/// One workspace for all rows; nothing in it is ever changed.
static WORKSPACE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().canonicalize().expect("it was just made");
    (dir, path)
});

pub(crate) fn workspace() -> &'static Path {
    &WORKSPACE.1
}

static TOOLS: LazyLock<Vec<Arc<dyn Tool>>> = LazyLock::new(|| {
    let access = FileAccess::new(AccessRules::workspace(workspace())).expect("a workspace");
    let sandbox = Sandbox::new(SandboxPolicy::FullAccess, Layout::workspace(workspace()));
    let mut tools = builtin(access, Bash::new(Arc::new(sandbox)));
    for name in ["mcp__github__create_issue", "mcp__gitlab__create_issue"] {
        tools.push(Arc::new(Fake { name, effects: unknown() }));
    }
    let edit = Effects::writes(PathSet::Workspace);
    let read = Effects::reads(PathSet::Workspace);
    tools.push(Arc::new(Fake { name: "task_reader", effects: read.clone().union(read.clone()) }));
    tools.push(Arc::new(Fake { name: "task_writer", effects: read.union(edit) }));
    tools
});

fn unknown() -> Effects {
    Effects { network: true, unknown: true, ..Effects::none() }
}

/// A tool that does nothing; a task has the effects of all that its child can do.
struct Fake {
    name: &'static str,
    effects: Effects,
}

#[async_trait]
impl Tool for Fake {
    fn name(&self) -> &str {
        self.name
    }
    fn description(&self) -> &str {
        "a tool for tests"
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn effects(&self, _args: &Value) -> Effects {
        self.effects.clone()
    }
    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }
    async fn call(&self, _args: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        unreachable!("nothing is run here")
    }
}

/// A machine where `planted` lies in the workspace although `PATH` leads there, `unheard` nowhere, and
/// all else below /usr/bin. Two links of the workspace lead to other places.
pub(crate) struct Machine;

impl Programs for Machine {
    fn place(&self, name: &str) -> Place {
        match name {
            "planted" => Place::Untrusted(workspace().join("bin/planted")),
            "unheard" => Place::NotFound,
            _ if name.starts_with("/usr/bin/") => Place::Trusted(name.into()),
            _ if name.contains('/') => Place::Untrusted(name.into()),
            _ => Place::Trusted(Path::new("/usr/bin").join(name)),
        }
    }

    fn is_set_to_start(&self, program: &str, folder: &Path) -> bool {
        program == "git" && folder.ends_with("planted-repository")
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(workspace()).ok().and_then(Path::to_str) {
            Some("leads-out") => PathBuf::from("/etc/passwd"),
            Some("leads-to-git") => workspace().join(".git/config"),
            // Above where a link leads is not where the link is.
            Some("leads-out-too/../notes") => PathBuf::from("/etc/notes"),
            Some("sub/looks-fine") => PathBuf::from("/etc/passwd"),
            Some("leads-to-secret") => workspace().join("secrets/key"),
            _ => path.to_owned(),
        }
    }
}

pub(crate) fn policy(situation: &Situation) -> Policy {
    let mut rules = Rules::default();
    for one in situation.rules {
        let (effect, text) = one.split_once(' ').expect("an effect and a rule");
        let effect = match effect {
            "allow" => Effect::Allow,
            "ask" => Effect::Ask,
            "deny" => Effect::Deny,
            other => panic!("{other} is no effect"),
        };
        let bare = text.strip_suffix('!');
        let written = Written {
            text: bare.unwrap_or(text).to_owned(),
            is_unsafe: bare.is_some(),
            origin: "rules.toml:1".into(),
            ..Written::default()
        };
        rules.add(effect, written, SUBJECTS).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    Policy::new(PolicyParts {
        mode: situation.mode,
        rules,
        confinement: situation.confinement.into(),
        workspace: workspace().to_owned(),
        roots: vec!["/srv/shared".into()],
        protected: vec!["/home/example/.config/anvil".into(), workspace().join("own")],
        home: Some("/home/example".into()),
        ..PolicyParts::default()
    })
}

/// The call of a tool that is about `subject`.
pub(crate) fn decide(policy: &Policy, tool: &str, subject: &str) -> Decision {
    let tool = TOOLS.iter().find(|known| known.name() == tool).expect(tool);
    let args = match (tool.name(), tool.subject_kind()) {
        (_, Some(SubjectKind::Command)) => json!({"command": subject}),
        ("write_file", _) => json!({"file_path": subject, "content": "x"}),
        ("edit_file", _) => json!({"file_path": subject, "old_string": "a", "new_string": "b"}),
        ("read_file", _) => json!({"file_path": subject}),
        ("glob" | "grep", _) => json!({"pattern": "x", "path": subject}),
        ("calculator", _) => json!({"a": 2, "b": 2, "op": "add"}),
        _ => json!({}),
    };
    policy.decide(tool.as_ref(), &args, &Machine)
}
