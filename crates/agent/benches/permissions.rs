//! What it costs to decide about a command: every call waits for it.

use std::path::PathBuf;
use std::sync::Arc;

use agent::permissions::{Confinement, Effect, PolicyParts, Rules, Written};
use agent::programs::{PathPrograms, TEMPORARY};
use agent::sandbox::{Layout, Sandbox, SandboxPolicy};
use agent::tools::SUBJECTS;
use agent::tools::bash::Bash;
use agent::{PermissionMode, Policy};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;

/// As many rules as a person may have gathered in a year.
fn rules() -> Rules {
    let mut rules = Rules::default();
    let mut add = |effect, text: String| {
        let written = Written { text, origin: "bench".into(), ..Written::default() };
        rules.add(effect, written, SUBJECTS).expect("a good rule");
    };
    for n in 0..100 {
        add(Effect::Allow, format!("bash(tool{n} check:*)"));
        add(Effect::Deny, format!("bash(tool{n} publish:*)"));
    }
    add(Effect::Allow, "bash(cargo test:*)".into());
    add(Effect::Deny, "bash(rm:*)".into());
    rules
}

fn decisions(c: &mut Criterion) {
    let workspace = std::env::temp_dir().canonicalize().expect("a folder");
    let sandbox = Sandbox::new(SandboxPolicy::FullAccess, Layout::workspace(&workspace));
    let bash = Bash::new(Arc::new(sandbox));
    let path = std::env::var("PATH").expect("a PATH");
    let programs = PathPrograms::new(&path, workspace.clone(), &TEMPORARY.map(PathBuf::from));
    let policy = Policy::new(PolicyParts {
        mode: PermissionMode::Default,
        rules: rules(),
        confinement: Confinement::Workspace.into(),
        workspace,
        ..PolicyParts::default()
    });
    let lines = [
        ("allowed", "cargo test --lib"),
        ("piped", "cargo test --workspace 2>&1 | grep FAILED | head -20"),
        ("asked", "make install PREFIX=/usr/local"),
        ("computed", "for f in src/*.rs; do wc -l \"$f\"; done"),
        ("denied", "cargo test && rm -rf target"),
    ];
    let mut group = c.benchmark_group("decide");
    for (name, line) in lines {
        let args = json!({"command": line});
        group.bench_function(name, |b| b.iter(|| policy.decide(&bash, &args, &programs)));
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
