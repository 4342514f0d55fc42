//! `fs/tools.jsonl`: one call of one tool on files that are not what they seem.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use agent::tools::access::{AccessRules, FileAccess};
use agent::tools::bash::Bash;
use agent::tools::builtin;
use agent::{ToolContext, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::process::{User, is_root, own_case, run_alone};
use super::setup::Step;
use crate::memory;
use crate::support::{ensure, rows, run_all, scratch, typed};

#[test]
fn every_tool_case_holds() {
    if let Some(case) = own_case() {
        return run_all("fs/tools, one", &[case], &[], run);
    }
    run_all("fs/tools", &rows("fs", "tools.jsonl"), &[], |case| {
        let name = "fs::tools::every_tool_case_holds";
        if case["valid_as_root"] == json!(false) && is_root() {
            run_alone(case, name, User::Ordinary)
        } else if case["expect"].get("max_rss_growth_mb").is_some() {
            run_alone(case, name, User::Same)
        } else {
            run(case)
        }
    });
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "id")]
    _id: String,
    setup: Vec<Step>,
    call: Call,
    expect: Expect,
    #[serde(rename = "notes")]
    _notes: String,
    #[serde(rename = "valid_as_root")]
    _valid_as_root: bool,
    #[serde(rename = "topic")]
    _topic: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    args: Value,
    /// Whether the file is read first.
    #[serde(default = "yes")]
    fresh: bool,
    /// What happens to the file after that.
    between: Option<Between>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Between {
    rewrite: Option<String>,
    text: Option<String>,
    #[serde(default)]
    same_mtime: bool,
    #[serde(default)]
    same_size: bool,
    delete: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    outcome: Outcome,
    #[serde(default)]
    options: Vec<Expect>,
    within_ms: Option<u128>,
    max_rss_growth_mb: Option<u64>,
    max_output_chars: Option<usize>,
    message_hint: Option<String>,
    #[serde(default)]
    non_empty_message: bool,
    #[serde(default)]
    contains: Vec<String>,
    #[serde(default)]
    excludes: Vec<String>,
    set: Option<BTreeSet<String>>,
    #[serde(default)]
    mode: BTreeMap<String, String>,
    #[serde(default)]
    mode_low_bits: BTreeMap<String, String>,
    #[serde(default)]
    content: BTreeMap<String, String>,
    #[serde(default)]
    is_symlink: Vec<String>,
    file_unchanged: Option<String>,
    #[serde(default)]
    no_leftover_temp: bool,
    #[serde(default)]
    temp_never_wider: bool,
    /// Holds for every case: a panic fails it.
    #[serde(rename = "no_panic")]
    _no_panic: Option<bool>,
    /// For people, where it is not one of those that [`Expect::note_holds`] knows.
    note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Ok,
    Error,
    AnyOf,
}

fn yes() -> bool {
    true
}

/// What a call did.
struct Seen {
    result: Result<String, ToolError>,
    took_ms: u128,
    rss_growth_mb: u64,
    before: BTreeMap<PathBuf, Vec<u8>>,
    widest_temp: u32,
}

fn run(case: &Value) -> Result<(), String> {
    let case: Case = typed(case)?;
    let dir = scratch();
    let root = dir.path().canonicalize().unwrap().join("W");
    fs::create_dir(&root).unwrap();
    for step in &case.setup {
        step.make(&root);
    }
    let seen = call(&root, &case.call)?;
    let verdict = judge(&case.expect, &seen, &root);
    // A folder without write permission could not be removed.
    for step in &case.setup {
        if let Step::Dir { path, .. } | Step::Chmod { path, .. } = step {
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(root.join(path), open).ok();
        }
    }
    verdict
}

fn call(root: &Path, call: &Call) -> Result<Seen, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let access = FileAccess::new(AccessRules::workspace(root)).unwrap();
    let tools = builtin(access, Bash::unconfined());
    let tool = |name: &str| tools.iter().find(|tool| tool.name() == name).cloned();
    let (wanted, read) = (tool(&call.tool).ok_or("no such tool")?, tool("read_file").unwrap());
    let ctx = ToolContext {
        cwd: root.to_owned(),
        cancel: tokio_util::sync::CancellationToken::new(),
        session_id: String::new(),
        output: None,
        grants: agent::tool::Grants::default(),
        redactor: std::sync::Arc::default(),
    };
    let writes = ["write_file", "edit_file"].contains(&call.tool.as_str());
    if writes && call.fresh {
        let args = json!({"file_path": call.args["file_path"]});
        // What cannot be read shows in the call itself.
        runtime.block_on(read.call(args, &ctx)).ok();
    }
    if let Some(between) = &call.between {
        between.happen(root)?;
    }
    Ok(watched(root, || runtime.block_on(wanted.call(call.args.clone(), &ctx))))
}

impl Between {
    fn happen(&self, root: &Path) -> Result<(), String> {
        if let Some(path) = &self.delete {
            fs::remove_file(root.join(path)).unwrap();
        }
        let Some(path) = &self.rewrite else { return Ok(()) };
        let path = root.join(path);
        let old = fs::metadata(&path).unwrap();
        fs::write(&path, self.text.as_deref().ok_or("a rewrite needs a text")?).unwrap();
        if self.same_mtime {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(old.modified().unwrap()).unwrap();
        }
        let same_size = fs::metadata(&path).unwrap().len() == old.len();
        ensure(same_size || !self.same_size, "the case rewrites to another size")
    }
}

fn watched(root: &Path, call: impl FnOnce() -> Result<agent::ToolOutput, ToolError>) -> Seen {
    let before = small_files(root);
    let rss = memory::reset_peak();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut widest = 0;
            while !done.load(Ordering::Acquire) {
                widest |= modes_of_others(root, &before);
                std::thread::yield_now();
            }
            widest
        });
        let start = Instant::now();
        let result = call().map(|output| output.text);
        let took_ms = start.elapsed().as_millis();
        let rss_growth_mb = memory::peak().saturating_sub(rss) / 1024;
        done.store(true, Ordering::Release);
        let widest_temp = watcher.join().unwrap();
        Seen { result, took_ms, rss_growth_mb, before: before.clone(), widest_temp }
    })
}

/// The permission bits of files that were not there before the call.
fn modes_of_others(root: &Path, before: &BTreeMap<PathBuf, Vec<u8>>) -> u32 {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let others = entries.filter(|entry| !before.contains_key(&entry.path()));
    others.filter_map(|entry| Some(entry.metadata().ok()?.mode() & 0o077)).fold(0, |a, b| a | b)
}

/// Every file below a folder with its content, where it is small enough to keep.
fn small_files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        let small = kind.is_file() && entry.metadata().unwrap().len() < 100_000;
        if kind.is_dir() {
            files.extend(small_files(&entry.path()));
        } else if small {
            files.insert(entry.path(), fs::read(entry.path()).unwrap_or_default());
        } else {
            files.insert(entry.path(), Vec::new());
        }
    }
    files
}

fn judge(expect: &Expect, seen: &Seen, root: &Path) -> Result<(), String> {
    if expect.outcome == Outcome::AnyOf {
        let tries: Vec<String> =
            expect.options.iter().map_while(|option| judge(option, seen, root).err()).collect();
        ensure(tries.len() < expect.options.len(), tries.join(" and "))?;
    } else {
        ensure(
            seen.result.is_ok() == (expect.outcome == Outcome::Ok),
            format_args!("expected {:?}, got {:?}", expect.outcome, seen.result),
        )?;
    }
    expect.text_holds(&seen.text())?;
    expect.cost_holds(seen)?;
    expect.files_hold(seen, root)?;
    expect.note_holds(&seen.text())
}

impl Seen {
    fn text(&self) -> String {
        match &self.result {
            Ok(text) => text.clone(),
            Err(error) => error.to_string(),
        }
    }
}

impl Expect {
    fn text_holds(&self, text: &str) -> Result<(), String> {
        ensure(!self.non_empty_message || !text.is_empty(), "an empty answer")?;
        if let Some(hint) = &self.message_hint {
            ensure(text.contains(hint), format_args!("{text:?} lacks {hint:?}"))?;
        }
        for part in &self.contains {
            ensure(text.contains(part), format_args!("{text:?} lacks {part:?}"))?;
        }
        for part in &self.excludes {
            ensure(!text.contains(part), format_args!("{text:?} has {part:?}"))?;
        }
        if let Some(max) = self.max_output_chars {
            let count = text.chars().count();
            ensure(count <= max, format_args!("{count} characters"))?;
        }
        if let Some(set) = &self.set {
            let results = text.lines().take_while(|line| !line.is_empty()).map(str::to_owned);
            let results: BTreeSet<String> = results.collect();
            ensure(results == *set, format_args!("{results:?} instead of {set:?}"))?;
        }
        Ok(())
    }

    fn cost_holds(&self, seen: &Seen) -> Result<(), String> {
        if let Some(max) = self.within_ms {
            ensure(seen.took_ms <= max, format_args!("took {} ms", seen.took_ms))?;
        }
        if let Some(max) = self.max_rss_growth_mb {
            ensure(seen.rss_growth_mb < max, format_args!("grew by {} MB", seen.rss_growth_mb))?;
        }
        Ok(())
    }

    fn files_hold(&self, seen: &Seen, root: &Path) -> Result<(), String> {
        for (modes, mask) in [(&self.mode, 0o7777), (&self.mode_low_bits, 0o777)] {
            for (path, want) in modes {
                let mode = fs::metadata(root.join(path)).unwrap().mode() & mask;
                ensure(format!("{mode:o}") == *want, format_args!("{path} has mode {mode:o}"))?;
            }
        }
        for (path, want) in &self.content {
            let got = fs::read_to_string(root.join(path)).unwrap();
            ensure(got == *want, format_args!("{path} holds {got:?}"))?;
        }
        for path in &self.is_symlink {
            ensure(root.join(path).is_symlink(), format_args!("{path} is no symlink any more"))?;
        }
        let now = small_files(root);
        if let Some(path) = &self.file_unchanged {
            let path = root.join(path);
            ensure(now.get(&path) == seen.before.get(&path), "the file changed")?;
        }
        if self.no_leftover_temp && seen.result.is_err() {
            ensure(now.keys().eq(seen.before.keys()), format_args!("left over: {:?}", now.keys()))?;
        }
        let is_temp = |path: &&PathBuf| path.to_string_lossy().contains(".anvil-");
        ensure(now.keys().find(is_temp).is_none(), "a temporary file is left")?;
        ensure(
            !self.temp_never_wider || seen.widest_temp == 0,
            format_args!("a temporary file had mode {:o}", seen.widest_temp),
        )
    }

    fn note_holds(&self, text: &str) -> Result<(), String> {
        match self.note.as_deref() {
            None => Ok(()),
            Some(note) if note.contains("an empty answer says that ignore rules hid files") => {
                ensure(
                    !text.starts_with("No files match") || text.contains(".gitignore"),
                    "an empty answer that is silent about ignored files",
                )
            }
            Some(note) => Err(format!("the adapter does not know the note {note:?}")),
        }
    }
}
