//! What supervision adds to starting a command: `bash -c true` through the tool, beside a bare spawn.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use agent::sandbox::{Layout, Sandbox, SandboxPolicy, Wrapped};
use agent::secrets::child_env;
use agent::tool::Grants;
use agent::tools::bash::Bash;
use agent::{Tool, ToolContext};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use tokio::process::Command;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime can be built")
}

fn context() -> ToolContext {
    ToolContext {
        cwd: std::env::temp_dir(),
        cancel: CancellationToken::new(),
        session_id: "bench".into(),
        output: None,
        grants: Grants::default(),
        redactor: std::sync::Arc::default(),
    }
}

async fn bare(command: &str) {
    let output = Command::new("bash")
        .args(["-c", command])
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .output()
        .await;
    assert!(output.expect("bash starts").status.success());
}

async fn through_the_tool(command: &str, ctx: &ToolContext) {
    let output = Bash::unconfined().call(json!({ "command": command }), ctx).await;
    assert!(output.expect("the command ends").text.starts_with("Exit code: 0"));
}

/// A process as large as a long session, since a fork copies page tables.
fn ballast(megabytes: usize) -> Vec<u8> {
    vec![1; megabytes << 20]
}

fn spawn(criterion: &mut Criterion) {
    let ctx = context();
    for megabytes in [0, 64] {
        let ballast = ballast(megabytes);
        let mut group = criterion.benchmark_group(format!("bash -c true, {megabytes} MB more"));
        group.bench_function("bare spawn", |bencher| {
            bencher.to_async(runtime()).iter(|| bare("true"));
        });
        group.bench_function("bash tool", |bencher| {
            bencher.to_async(runtime()).iter(|| through_the_tool("true", &ctx));
        });
        group.finish();
        drop(ballast);
    }
    confined(criterion);
    let mut group = criterion.benchmark_group("20 MB of output");
    group.sample_size(10);
    let command = "yes | head -c 20000000";
    group.bench_function("bare spawn", |bencher| {
        bencher.to_async(runtime()).iter(|| bare(command));
    });
    group.bench_function("bash tool", |bencher| {
        bencher.to_async(runtime()).iter(|| through_the_tool(command, &ctx));
    });
    group.finish();
}

/// A confined command through the tool, beside the very same line of bubblewrap by hand. At most 1.3 times
/// as long.
fn confined(criterion: &mut Criterion) {
    if let Some(problem) = agent::sandbox::probe().problem {
        println!("confined commands are left out: {}", problem.what);
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let workspace = dir.path().canonicalize().expect("it was just made");
    let layout = Layout { homes: vec!["/root".into()], ..Layout::workspace(&workspace) };
    let policy = SandboxPolicy::WorkspaceWrite { network: false };
    let sandbox = Arc::new(Sandbox::new(policy, layout));
    let scratch = tempfile::tempdir().expect("a temporary folder can be made");
    let line = line_of(&sandbox, &workspace, scratch.path());
    let bash = Bash::new(Arc::clone(&sandbox));
    let ctx = ToolContext { cwd: workspace.clone(), ..context() };
    let mut group = criterion.benchmark_group("bash -c true, confined");
    group.bench_function("making the line", |bencher| {
        bencher.iter(|| wrapped(&sandbox, &workspace));
    });
    group.bench_function("bash tool", |bencher| {
        bencher.to_async(runtime()).iter(|| async {
            let output = bash.call(json!({ "command": "true" }), &ctx).await;
            assert!(output.expect("the command ends").text.starts_with("Exit code: 0"));
        });
    });
    // Last: this process inherits the first process of each such sandbox and nobody reaps it.
    group.bench_function("bubblewrap by hand", |bencher| {
        bencher.to_async(runtime()).iter(|| by_hand(&line));
    });
    group.finish();
}

fn wrapped(sandbox: &Sandbox, workspace: &Path) -> Wrapped {
    let env = child_env("bench", &[]);
    let args = ["-c", "--", "true", "bash"].map(Into::into).into();
    let wrapped = sandbox.wrap(Path::new("/bin/bash"), args, workspace, env, &Grants::default());
    wrapped.expect("commands can be confined here")
}

/// A shell line that starts bubblewrap as the tool does, its open files as files in `scratch`.
fn line_of(sandbox: &Sandbox, workspace: &Path, scratch: &Path) -> String {
    let wrapped = wrapped(sandbox, workspace);
    let words = std::iter::once(wrapped.program.as_os_str())
        .chain(wrapped.args.iter().map(OsString::as_os_str));
    let words: Vec<String> = words.map(|word| format!("'{}'", word.display())).collect();
    let mut line = format!("exec {}", words.join(" "));
    for (file, number) in wrapped.descriptors {
        let path = scratch.join(number.to_string());
        let mut content = Vec::new();
        std::fs::File::from(file).read_to_end(&mut content).expect("it can be read");
        // The one that is empty is written to.
        let direction = if content.is_empty() { '>' } else { '<' };
        std::fs::write(&path, content).expect("a file can be written");
        line.push_str(&format!(" {number}{direction}'{}'", path.display()));
    }
    line
}

async fn by_hand(line: &str) {
    let output = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output().await;
    assert!(output.expect("bubblewrap starts").status.success());
}

criterion_group!(benches, spawn);
criterion_main!(benches);
