//! Kind `shell`: a command line, the rules that are configured, and what has to be decided.

use std::sync::Arc;

use agent::permissions::{ByName, Decision, Effect, PolicyParts, Rules, Written};
use agent::sandbox::{Layout, Sandbox, SandboxPolicy};
use agent::tools::SUBJECTS;
use agent::tools::bash::Bash;
use agent::{PermissionMode, Policy};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{ensure, fill_in, rows, run_all, scratch, typed};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(rename = "id")]
    _id: String,
    #[serde(rename = "tier")]
    _tier: Tier,
    command: String,
    rules: RuleTexts,
    mode: PermissionMode,
    expect: Expect,
    #[serde(default)]
    accept: Vec<Expect>,
    why: String,
    #[serde(rename = "topic")]
    _topic: String,
}

/// Both tiers have to hold.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tier {
    Must,
    Should,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTexts {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expect {
    Allow,
    Ask,
    Deny,
    NotAllow,
}

impl Expect {
    fn holds(self, decided: Expect) -> bool {
        match self {
            Self::NotAllow => decided != Self::Allow,
            expected => expected == decided,
        }
    }
}

/// The rules as they would be configured, wide ones on purpose.
fn rules(texts: &RuleTexts) -> Rules {
    let lists =
        [(Effect::Allow, &texts.allow), (Effect::Ask, &texts.ask), (Effect::Deny, &texts.deny)];
    let mut rules = Rules::default();
    for (effect, texts) in lists {
        for text in texts {
            let is_unsafe = effect == Effect::Allow;
            let written = Written {
                text: text.clone(),
                is_unsafe,
                origin: "a case".into(),
                ..Written::default()
            };
            rules.add(effect, written, SUBJECTS).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }
    rules
}

fn run(case: &Value) -> Result<(), String> {
    let mut case = case.clone();
    fill_in(&mut case, &[]);
    let row: Row = typed(&case)?;
    let dir = scratch();
    let workspace = dir.path().canonicalize().unwrap();
    let sandbox = Sandbox::new(SandboxPolicy::FullAccess, Layout::workspace(&workspace));
    let bash = Bash::new(Arc::new(sandbox));
    let policy = Policy::new(PolicyParts {
        mode: row.mode,
        rules: rules(&row.rules),
        workspace,
        ..PolicyParts::default()
    });
    let decision = policy.decide(&bash, &json!({"command": row.command}), &ByName);
    let decided = match &decision {
        Decision::Allow { .. } => Expect::Allow,
        Decision::Ask { .. } => Expect::Ask,
        Decision::Deny { .. } => Expect::Deny,
    };
    let holds = row.expect.holds(decided) || row.accept.contains(&decided);
    ensure(
        holds,
        format!(
            "{:?}: {decided:?} instead of {:?} ({}): {}",
            row.command,
            row.expect,
            row.why,
            decision.because().why
        ),
    )
}

#[test]
fn a_line_is_judged_by_all_that_is_in_it() {
    run_all("shell", &rows("shell", "commands.jsonl"), &[], run);
}
