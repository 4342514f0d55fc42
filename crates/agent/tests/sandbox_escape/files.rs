//! The same attacks through the native file tools, which no sandbox surrounds.

use std::sync::Arc;

use agent::tools::access::{AccessRules, FileAccess};
use agent::tools::bash::Bash;
use agent::tools::builtin;
use agent::{Tool, ToolContext};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::stage::Stage;

/// What a call of a file tool gives.
fn call(stage: &Stage, tool: &str, args: Value) -> Result<String, String> {
    let workspace = stage.workspace().canonicalize().unwrap();
    let access = FileAccess::new(AccessRules::workspace(&workspace)).unwrap();
    let tools = builtin(access, Bash::unconfined());
    let tool: &Arc<dyn Tool> = tools.iter().find(|one| one.name() == tool).unwrap();
    let ctx = ToolContext {
        cwd: workspace,
        cancel: CancellationToken::new(),
        session_id: "escape".into(),
        output: None,
        redactor: std::sync::Arc::default(),
        grants: agent::tool::Grants::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(tool.call(args, &ctx));
    result.map(|output| output.text).map_err(|error| error.to_string())
}

#[test]
fn a_file_outside_is_neither_written_nor_read() {
    let stage = Stage::new();
    stage.write_home("secret.txt", "PRIVATE");
    std::os::unix::fs::symlink(stage.home(), stage.workspace().join("link")).unwrap();
    for path in ["../escape.txt", "link/escape.txt"] {
        let refused = call(&stage, "write_file", json!({"file_path": path, "content": "x"}));
        assert!(refused.is_err(), "{path}: {refused:?}");
    }
    for path in ["../secret.txt", "link/secret.txt"] {
        let refused = call(&stage, "read_file", json!({"file_path": path}));
        assert!(refused.is_err(), "{path}: {refused:?}");
    }
    assert!(!stage.home().join("escape.txt").exists());
    call(&stage, "write_file", json!({"file_path": "inside.txt", "content": "x"})).unwrap();
    assert!(stage.workspace().join("inside.txt").exists());
}

#[test]
fn authority_is_not_written_and_credentials_are_not_found() {
    let stage = Stage::new();
    stage.write(".git/config", "[core]\n");
    stage.write(".env", "KEY=PRIVATE");
    stage.write("seen.txt", "KEY=PUBLIC");
    for path in [".git/config", ".git/hooks/pre-commit", ".anvil/config.toml", "sub/.git/config"] {
        let refused = call(&stage, "write_file", json!({"file_path": path, "content": "x"}));
        assert!(refused.is_err(), "{path}: {refused:?}");
    }
    let found = call(&stage, "grep", json!({"pattern": "KEY", "mode": "content"})).unwrap();
    assert!(found.contains("PUBLIC") && !found.contains("PRIVATE"), "{found}");
}
