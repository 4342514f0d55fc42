//! `fs/paths.jsonl`: which paths are allowed, refused by a rule, or plain errors.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use agent::ToolContext;
use agent::tool::Grants;
use agent::tools::access::{AccessError, AccessRules, FileAccess};
use agent::tools::bash::Bash;
use agent::tools::builtin;
use serde::Deserialize;
use serde_json::{Value, json};

use super::setup::Step;
use crate::support::{ensure, fill_in, rows, run_all, scratch, typed};

#[test]
fn every_path_case_holds() {
    run_all("fs/paths", &rows("fs", "paths.jsonl"), &[], run);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "id")]
    _id: String,
    root: String,
    setup: Vec<Step>,
    op: Op,
    path: String,
    expect: Verdict,
    #[serde(default)]
    deny_read: Vec<String>,
    /// For people, except that "or error" at its start allows that, too.
    notes: String,
    #[serde(rename = "topic")]
    _topic: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Op {
    Read,
    Write,
    Edit,
    BashCwd,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Allow,
    Refuse,
    Error,
    Any,
}

fn run(case: &Value) -> Result<(), String> {
    let dir = scratch();
    let base = dir.path().canonicalize().unwrap();
    let home = base.join("HOME");
    let mut case = case.clone();
    fill_in(&mut case, &[("ABS", &base), ("HOME", &home)]);
    let case: Case = typed(&case)?;
    let root = base.join(&case.root);
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(home.join(".config/anvil")).unwrap();
    for step in &case.setup {
        step.make(&base);
    }
    let access = || {
        let mut rules = AccessRules::workspace(&root);
        rules.protected = vec![home.join(".config/anvil"), home.join(".local/share/anvil")];
        rules.masked.extend(case.deny_read.iter().cloned());
        FileAccess::new(rules).unwrap()
    };
    let before = tree(&base);
    let ruled = rule(&access(), &root, case.op, &case.path);
    ensure(tree(&base) == before, "asking for the rule changed something")?;
    let done = act(access(), &root, case.op, &case.path);
    let after = tree(&base);

    let outside = |tree: &BTreeMap<PathBuf, Vec<u8>>| {
        let outside = tree.iter().filter(|(path, _)| !path.starts_with(&root));
        outside.map(|(path, content)| (path.clone(), content.clone())).collect::<Vec<_>>()
    };
    ensure(outside(&before) == outside(&after), "something outside the root changed")?;
    let got = match &ruled {
        Ok(()) => Verdict::Allow,
        Err(error) if error.is_refusal() => Verdict::Refuse,
        Err(_) => Verdict::Error,
    };
    let agree = done.is_ok() == (got == Verdict::Allow);
    ensure(agree, format_args!("the rule says {ruled:?} and the tool {done:?}"))?;
    let unchanged = got == Verdict::Allow || before == after;
    ensure(unchanged, "something changed although the answer was an error")?;
    let holds = case.expect == Verdict::Any
        || got == case.expect
        || (got == Verdict::Error && case.notes.starts_with("or error"));
    ensure(holds, format_args!("expected {:?}, got {ruled:?}", case.expect))
}

/// What file access says, without changing anything.
fn rule(access: &FileAccess, cwd: &Path, op: Op, path: &str) -> Result<(), AccessError> {
    let grants = Grants::default();
    match op {
        Op::Read => access.open(&access.for_reading(cwd, path, &grants)?).map(drop),
        Op::Edit => access.open(access.for_writing(cwd, path, &grants)?.as_read()).map(drop),
        Op::BashCwd => access.directory(cwd, path, &grants).map(drop),
        Op::Write => {
            let target = access.for_writing(cwd, path, &grants)?;
            match access.open(target.as_read()) {
                Err(error) if !error.is_not_found() => Err(error),
                _ => Ok(()),
            }
        }
    }
}

/// What the real tool does.
fn act(access: FileAccess, cwd: &Path, op: Op, path: &str) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tools = builtin(access, Bash::unconfined());
    let ctx = ToolContext {
        cwd: cwd.to_owned(),
        cancel: tokio_util::sync::CancellationToken::new(),
        session_id: String::new(),
        output: None,
        grants: Grants::default(),
        redactor: std::sync::Arc::default(),
    };
    let call = |name: &str, args: Value| {
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        runtime
            .block_on(tool.call(args, &ctx))
            .map(|output| output.text)
            .map_err(|error| error.to_string())
    };
    let read = |path: &str| call("read_file", json!({"file_path": path}));
    match op {
        Op::Read => read(path),
        Op::Write => {
            // Fails for a new file; a failure that matters shows in the write.
            read(path).ok();
            call("write_file", json!({"file_path": path, "content": "new\n"}))
        }
        Op::Edit => {
            read(path).ok();
            let args = json!({"file_path": path, "old_string": "[core]", "new_string": "[x]"});
            call("edit_file", args)
        }
        // The model has no way to say where a command runs.
        Op::BashCwd => call("bash", json!({"command": "pwd", "cwd": path})),
    }
}

/// Everything below a folder: contents of files, targets of links.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            found.extend(tree(&path));
            found.insert(path, Vec::new());
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            found.insert(path, target.into_os_string().into_encoded_bytes());
        } else if kind.is_file() {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}
