//! Kind `edit`: what edit_file makes of a file, byte for byte.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use agent::tools::access::{AccessRules, FileAccess};
use agent::tools::fs::{EditFile, Files, ReadFile};
use agent::{Tool, ToolContext, ToolError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{documents, ensure, run_all, scratch, typed};

#[test]
fn every_edit_case_holds() {
    run_all("edit", &documents("edit"), &[], run);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "id")]
    _id: String,
    path: String,
    before_b64: String,
    /// The same for people.
    #[serde(rename = "before_repr")]
    _before_repr: String,
    edits: Vec<Edit>,
    expect: Expect,
    #[serde(rename = "notes")]
    _notes: String,
    #[serde(rename = "topic")]
    _topic: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    old: String,
    new: String,
    replace_all: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    outcome: Outcome,
    after_b64: Option<String>,
    reason: Option<Reason>,
    #[serde(default)]
    options: Vec<Expect>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    Error,
    AnyOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    NoMatch,
    Multiple,
    EmptyOld,
    Unchanged,
    Binary,
    /// For tools that refuse what is not UTF-8; this one edits it.
    Encoding,
}

impl Reason {
    fn of(error: &ToolError) -> Option<Self> {
        let text = error.to_string();
        let signs = [
            ("No match for old_string", Self::NoMatch),
            (" matches in ", Self::Multiple),
            ("old_string is empty", Self::EmptyOld),
            ("are the same", Self::Unchanged),
            ("binary", Self::Binary),
        ];
        signs.into_iter().find(|(sign, _)| text.contains(sign)).map(|(_, reason)| reason)
    }
}

fn run(case: &Value) -> Result<(), String> {
    let case: Case = typed(case)?;
    let dir = scratch();
    let root = dir.path().canonicalize().unwrap();
    let file = root.join(&case.path);
    fs::write(&file, BASE64.decode(&case.before_b64).unwrap()).unwrap();
    let result = edit(&root, &case.path, &case.edits)?;
    judge(&case.expect, &result, &fs::read(&file).unwrap())
}

/// Makes the edits, the first after a read, and gives the result of the last.
fn edit(root: &Path, path: &str, edits: &[Edit]) -> Result<Result<String, ToolError>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let files = Files::new(Arc::new(FileAccess::new(AccessRules::workspace(root)).unwrap()));
    let ctx = ToolContext {
        cwd: root.to_owned(),
        cancel: tokio_util::sync::CancellationToken::new(),
        session_id: String::new(),
        output: None,
        grants: agent::tool::Grants::default(),
        redactor: std::sync::Arc::default(),
    };
    runtime.block_on(async {
        let read = ReadFile(files.clone());
        let readable = read.call(json!({"file_path": path}), &ctx).await;
        let tool = EditFile(files);
        let mut results = Vec::new();
        for Edit { old, new, replace_all } in edits {
            let args = json!({
                "file_path": path, "old_string": old, "new_string": new, "replace_all": replace_all,
            });
            results.push(tool.call(args, &ctx).await.map(|output| output.text));
        }
        let last = results.pop().ok_or("a case without edits")?;
        for earlier in results {
            earlier.map_err(|error| format!("an edit before the last failed: {error}"))?;
        }
        let both_failed = readable.is_err() && last.is_err();
        ensure(readable.is_ok() || both_failed, "an unreadable file was edited")?;
        Ok(last)
    })
}

fn judge(expect: &Expect, result: &Result<String, ToolError>, after: &[u8]) -> Result<(), String> {
    if expect.outcome == Outcome::AnyOf {
        let tries: Vec<String> =
            expect.options.iter().map_while(|option| judge(option, result, after).err()).collect();
        return ensure(tries.len() < expect.options.len(), tries.join(" and "));
    }
    ensure(expect.options.is_empty(), "options without any_of")?;
    ensure(
        result.is_ok() == (expect.outcome == Outcome::Ok),
        format_args!("expected {:?}, got {result:?}", expect.outcome),
    )?;
    if let Some(reason) = expect.reason {
        let got = result.as_ref().err().and_then(Reason::of);
        ensure(got == Some(reason), format_args!("expected {reason:?}, got {result:?}"))?;
    }
    if let Some(want) = &expect.after_b64 {
        let want = BASE64.decode(want).unwrap();
        let (want, got) = (want.escape_ascii(), after.escape_ascii());
        ensure(want.to_string() == got.to_string(), format_args!("expected {want}, got {got}"))?;
    }
    Ok(())
}
