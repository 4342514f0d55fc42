//! glob and grep on a large tree, beside ripgrep where it is installed.
//!
//! `ANVIL_BENCH_TREE=/path/to/linux cargo bench -p agent --bench search`

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up ends")]
#![expect(clippy::print_stderr, reason = "a benchmark says what it leaves out")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agent::tools::access::{AccessRules, FileAccess};
use agent::tools::bash::Bash;
use agent::tools::builtin;
use agent::{Tool, ToolContext};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A search, for the tool and for ripgrep.
struct Search {
    name: &'static str,
    tool: &'static str,
    args: Value,
    ripgrep: &'static [&'static str],
}

fn searches() -> Vec<Search> {
    vec![
        Search {
            name: "glob",
            tool: "glob",
            args: json!({"pattern": "**/*.dts"}),
            ripgrep: &["--files", "-g", "*.dts"],
        },
        Search {
            name: "glob-every-file",
            tool: "glob",
            args: json!({"pattern": "**/*"}),
            ripgrep: &["--files"],
        },
        Search {
            name: "grep-rare",
            tool: "grep",
            args: json!({"pattern": "rcu_nocb_flush_bypass"}),
            ripgrep: &["-n", "rcu_nocb_flush_bypass"],
        },
        Search {
            name: "grep-regex",
            tool: "grep",
            args: json!({"pattern": r"\w+_nocb_\w+bypass\("}),
            ripgrep: &["-n", r"\w+_nocb_\w+bypass\("],
        },
        Search {
            name: "grep-case-insensitive",
            tool: "grep",
            args: json!({"pattern": "rcu_nocb_flush", "case_insensitive": true}),
            ripgrep: &["-n", "-i", "rcu_nocb_flush"],
        },
        Search {
            name: "grep-common-files",
            tool: "grep",
            args: json!({"pattern": "mutex_lock", "mode": "files"}),
            ripgrep: &["-l", "mutex_lock"],
        },
        Search {
            name: "grep-common-lines",
            tool: "grep",
            args: json!({"pattern": "mutex_lock"}),
            ripgrep: &["-n", "mutex_lock"],
        },
        Search {
            name: "grep-no-match-some-files",
            tool: "grep",
            args: json!({"pattern": "surely_nowhere", "glob": "*.h"}),
            ripgrep: &["-n", "-g", "*.h", "surely_nowhere"],
        },
    ]
}

fn search(criterion: &mut Criterion) {
    let Some(tree) = std::env::var_os("ANVIL_BENCH_TREE").map(PathBuf::from) else {
        eprintln!("search: NOT MEASURED: set ANVIL_BENCH_TREE to a large source tree");
        return;
    };
    let tree = tree.canonicalize().unwrap();
    let has_ripgrep = ripgrep(&tree, &["--version"]).is_ok();
    if !has_ripgrep {
        eprintln!("search: NOT COMPARED: rg is not installed");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let access = FileAccess::new(AccessRules::workspace(&tree)).unwrap();
    let tools = builtin(access, Bash::unconfined());
    let ctx = ToolContext {
        cwd: tree.clone(),
        cancel: CancellationToken::new(),
        session_id: String::new(),
        output: None,
        grants: agent::tool::Grants::default(),
        redactor: std::sync::Arc::default(),
    };
    for Search { name, tool, args, ripgrep: options } in searches() {
        let tool: &Arc<dyn Tool> = tools.iter().find(|known| known.name() == tool).unwrap();
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10).warm_up_time(Duration::from_secs(1));
        group.bench_function("anvil", |bencher| {
            bencher.iter(|| runtime.block_on(tool.call(args.clone(), &ctx)).unwrap());
        });
        if has_ripgrep {
            group.bench_function("rg", |bencher| {
                bencher.iter(|| ripgrep(&tree, options).unwrap());
            });
        }
        group.finish();
    }
}

/// Runs ripgrep over the same files, and takes its output.
fn ripgrep(tree: &Path, options: &[&str]) -> std::io::Result<usize> {
    let output = Command::new("rg")
        .args(["--no-config", "--hidden", "--no-require-git"])
        .args(options)
        .current_dir(tree)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(output.stdout.len())
}

criterion_group!(benches, search);
criterion_main!(benches);
