//! Decides whether a call runs, is asked about, or is refused: from its effects, the rules and the mode.
//!
//! [`rule`] reads rules, `pattern` holds them against calls, [`shell`] understands command lines, and
//! `decide` has the order in which all of it counts.

mod command;
mod cover;
mod decide;
mod explain;
mod paths;
mod pattern;
pub mod rule;
mod rules;
pub mod shell;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::command::Line;
use self::decide::Call;
pub use self::explain::{Explained, Explanation};
use self::paths::Territory;
use self::pattern::Subject;
pub use self::rule::{Effect, KnownTools, Rule, RuleError, RuleFault, Written};
pub use self::rules::Rules;
use crate::tool::{Grants, SubjectKind, Tool};
use crate::tools::access::mask::{CREDENTIALS, Masks};

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
    /// Nothing that could change anything runs. Commands that are known to read and nothing else run
    /// where the sandbox lets them write nothing.
    Plan,
    /// Everything runs that no rule denies or asks about. The sandbox stays, and what only a person's
    /// word opens still needs it.
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
    /// They can neither write outside the workspace nor reach more than they may, but do harm elsewhere by
    /// other means: not enough for one to run that nobody looked at.
    Partial,
    /// By something around anvil.
    External,
}

/// A [`Confinement`] that is found out the first time a command is judged, because trying a sandbox out
/// takes longer than many a session has to wait for anything.
#[derive(Clone)]
pub struct Confined(Arc<LazyLock<Confinement, Box<dyn FnOnce() -> Confinement + Send>>>);

impl Confined {
    /// What `find_out` will say; it is called once at most.
    pub fn when_needed(find_out: impl FnOnce() -> Confinement + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(find_out))))
    }

    /// How commands are confined.
    pub fn get(&self) -> Confinement {
        **self.0
    }
}

impl From<Confinement> for Confined {
    fn from(confinement: Confinement) -> Self {
        Self::when_needed(move || confinement)
    }
}

impl Default for Confined {
    fn default() -> Self {
        Confinement::None.into()
    }
}

impl fmt::Debug for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confined")
    }
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

    /// Its name for people and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Allow { .. } => "allow",
            Self::Ask { .. } => "ask",
            Self::Deny { .. } => "deny",
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

/// Knows what names mean on this machine: those of programs, and those of files.
pub trait Programs: Send + Sync {
    /// Where the program lies that a shell in the workspace would start for `name`.
    fn place(&self, name: &str) -> Place;

    /// Whether settings that lie in `folder` or above it name programs that `program` starts.
    fn is_set_to_start(&self, _program: &str, _folder: &Path) -> bool {
        false
    }

    /// Where a path leads, links resolved as far as it exists. `path` is absolute.
    fn real_path(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// Judges every program and every file by its name: where nothing is started, and in tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByName;

impl Programs for ByName {
    fn place(&self, _name: &str) -> Place {
        Place::NotFound
    }
}

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
    pub confinement: Confined,
    /// Whether confined commands can connect to anywhere.
    pub network: bool,
    /// Where relative paths start: an absolute path.
    pub workspace: PathBuf,
    /// Further folders that may be read and written.
    pub roots: Vec<PathBuf>,
    /// Files and folders that no tool may write, such as anvil's own.
    pub protected: Vec<PathBuf>,
    /// What `~` means in rules.
    pub home: Option<PathBuf>,
    /// What nobody gets to see besides credentials, as lines of `.gitignore`.
    pub masked: Vec<String>,
}

/// What runs, asks and is refused in a session.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    parts: PolicyParts,
    territory: Territory,
    session_allow: Vec<Rule>,
    revision: u64,
}

impl Policy {
    /// A policy that holds to `parts`.
    pub fn new(parts: PolicyParts) -> Self {
        let territory = Territory {
            workspace: parts.workspace.clone(),
            roots: parts.roots.clone(),
            protected: parts.protected.clone(),
            home: parts.home.clone(),
            masks: masks(&parts.masked),
        };
        Self { parts, territory, session_allow: Vec::new(), revision: 0 }
    }

    /// A policy of the mode alone, for work anywhere.
    pub fn of_mode(mode: PermissionMode) -> Self {
        Self::new(PolicyParts { mode, workspace: PathBuf::from("/"), ..PolicyParts::default() })
    }

    /// The mode.
    pub fn mode(&self) -> PermissionMode {
        self.parts.mode
    }

    /// What it was made of.
    pub fn parts(&self) -> &PolicyParts {
        &self.parts
    }

    /// Counts the changes since the start; what was agreed to under another one is asked about anew.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Forgets a rule that was added while being asked; the number is its place in
    /// [`Policy::session_rules`]. Returns its text, or nothing where there is none.
    pub fn forget_session_rule(&mut self, number: usize) -> Option<String> {
        let rule =
            (number < self.session_allow.len()).then(|| self.session_allow.remove(number))?;
        self.revision += 1;
        Some(rule.text().to_owned())
    }

    /// Goes on in another mode, which is a person's word.
    pub fn set_mode(&mut self, mode: PermissionMode) {
        self.parts.mode = mode;
        self.revision += 1;
    }

    /// The rules that a person added while being asked.
    pub fn session_rules(&self) -> &[Rule] {
        &self.session_allow
    }

    /// Stops asking for calls that match `rule` until the session ends. A rule about a command covers
    /// exactly what it says, as one in a file does.
    ///
    /// # Errors
    /// When the text is no rule.
    pub fn allow_for_session(&mut self, rule: &str) -> Result<(), RuleError> {
        if !self.session_allow.iter().any(|known| known.text() == rule) {
            self.session_allow.push(Rule::chosen(rule, "this session")?);
            self.revision += 1;
        }
        Ok(())
    }

    /// Judges one call.
    pub fn decide(&self, tool: &dyn Tool, args: &Value, programs: &dyn Programs) -> Decision {
        let text = tool.permission_subject(args);
        let (effects, kind) = (tool.effects(args), tool.subject_kind());
        self.with_subject(kind, text.as_deref(), programs, |subject| {
            self.judge(&Call { tool: tool.name(), effects: &effects, subject, machine: programs })
        })
    }

    fn with_subject<T>(
        &self,
        kind: Option<SubjectKind>,
        text: Option<&str>,
        programs: &dyn Programs,
        judge: impl FnOnce(Option<&Subject<'_>>) -> T,
    ) -> T {
        let Some(text) = text else { return judge(None) };
        match kind {
            Some(SubjectKind::Command) => judge(Some(&Subject::Command(&Line::of(text)))),
            Some(SubjectKind::Path) => {
                judge(Some(&Subject::Path(&self.territory.named(Path::new(text), programs))))
            }
            Some(SubjectKind::Name) | None => judge(Some(&Subject::Name(text))),
        }
    }
}

/// The masks of credentials and `more`; of credentials alone where `more` makes no sense.
fn masks(more: &[String]) -> Option<Masks> {
    let own = CREDENTIALS.iter().map(|line| (*line).to_owned());
    let all: Vec<String> = own.clone().chain(more.iter().cloned()).collect();
    Masks::new(&all).or_else(|_| Masks::new(&own.collect::<Vec<_>>())).ok()
}

/// The rule that matches this call and no other.
pub fn exact_rule(tool: &dyn Tool, args: &Value) -> String {
    match (tool.permission_subject(args), tool.subject_kind()) {
        (Some(path), Some(SubjectKind::Path)) => {
            // One slash stands for the workspace, where paths without any begin too.
            let start = if path.starts_with('/') { "/" } else { "./" };
            format!("{}({start}{})", tool.name(), globset::escape(&path))
        }
        (Some(subject), _) => format!("{}({subject})", tool.name()),
        (None, _) => tool.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::tool::{Effects, OnCancel, PathSet, ToolContext, ToolError, ToolOutput};

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
        policy.allow_for_session(&exact_rule(&tool, &json!({}))).unwrap();
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
        policy.allow_for_session(&exact_rule(&read, &json!({}))).unwrap();
        assert!(policy.decide(&read, &json!({}), &ByName).is_allowed());
        assert!(policy.decide(&Acts(Effects::none()), &json!({}), &ByName).is_allowed());
    }
}
