//! What a full disk leaves of a file that is being edited: all of it.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::fs;
use std::path::Path;
use std::process::Command;

use agent::ToolContext;
use agent::tools::access::{AccessRules, FileAccess};
use agent::tools::bash::Bash;
use agent::tools::builtin;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Tells the process that runs into the limit where to do so.
const FOLDER: &str = "ANVIL_TEST_FULL_DISK";

/// A limit on the size of files stands for the full disk: it needs no mount, and the write fails at the
/// same place, in the middle.
#[test]
fn a_full_disk_under_an_edit_leaves_the_old_file_and_nothing_else() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return run_into_the_limit(Path::new(&folder));
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("old"), "x\n").unwrap();
    let name = "a_full_disk_under_an_edit_leaves_the_old_file_and_nothing_else";
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(FOLDER, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["old"]);
    assert_eq!(fs::read(dir.path().join("old")).unwrap(), b"x\n");
}

fn run_into_the_limit(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let access = FileAccess::new(AccessRules::workspace(folder)).unwrap();
    let tools = builtin(access, Bash::unconfined());
    let ctx = ToolContext {
        cwd: folder.canonicalize().unwrap(),
        cancel: CancellationToken::new(),
        session_id: String::new(),
        output: None,
        grants: agent::tool::Grants::default(),
        redactor: std::sync::Arc::default(),
    };
    let call = |name: &str, args| {
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        runtime.block_on(tool.call(args, &ctx))
    };
    let large = "y".repeat(1 << 20);
    call("read_file", json!({"file_path": "old"})).unwrap();
    for (name, args) in [
        ("edit_file", json!({"file_path": "old", "old_string": "x", "new_string": large})),
        ("write_file", json!({"file_path": "old", "content": large})),
        ("write_file", json!({"file_path": "new/folder/file", "content": large})),
    ] {
        let error = call(name, args).unwrap_err().to_string();
        assert!(error.contains("File too large"), "{name}: {error}");
    }
}
