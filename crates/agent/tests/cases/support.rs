//! Finds cases, replaces their placeholders, and reports on them.

use std::fmt::Display;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The cases of this repository.
pub(crate) fn own_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// The folders that hold cases: this repository's, then those of `ANVIL_CASES_DIR`.
pub(crate) fn folders() -> Vec<PathBuf> {
    let further = std::env::var_os("ANVIL_CASES_DIR").unwrap_or_default();
    let further = std::env::split_paths(&further).filter(|dir| !dir.as_os_str().is_empty());
    let folders: Vec<PathBuf> = std::iter::once(own_folder()).chain(further).collect();
    for folder in &folders {
        assert!(folder.is_dir(), "ANVIL_CASES_DIR names {}, which is no folder", folder.display());
    }
    folders
}

/// Names of the folders in a folder.
pub(crate) fn subfolders(folder: &Path) -> Vec<String> {
    let entries = sorted_entries(folder).into_iter().filter(|path| path.is_dir());
    entries.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

/// The cases in a folder: lines of tables, or else files that come with an expectation.
pub(crate) fn count(folder: &Path) -> usize {
    let files = sorted_entries(folder);
    let lines = |path: &PathBuf| fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let tables = files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"));
    match tables.map(lines).sum() {
        0 => files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "json")).count(),
        rows => rows,
    }
}

/// Every case in the files `KIND/NAME.jsonl` of all folders.
pub(crate) fn rows(kind: &str, name: &str) -> Vec<Value> {
    let files = folders().into_iter().map(|folder| folder.join(kind).join(name));
    let texts = files.filter(|file| file.exists()).map(|file| read(&file));
    texts.flat_map(|text| text.lines().map(parse).collect::<Vec<_>>()).collect()
}

/// Every case in the files `KIND/*.json` of all folders.
pub(crate) fn documents(kind: &str) -> Vec<Value> {
    let kinds = folders().into_iter().map(|folder| folder.join(kind));
    let files = kinds.filter(|dir| dir.is_dir()).flat_map(|dir| sorted_entries(&dir));
    let files = files.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
    files.map(|file| parse(&read(&file))).collect()
}

/// Runs every case and fails with all that went wrong.
///
/// `pending` names the cases that wait for something that does not exist yet, and for what.
pub(crate) fn run_all(
    title: &str,
    cases: &[Value],
    pending: &[(&str, &str)],
    run: impl Fn(&Value) -> Result<(), String>,
) {
    let mut failures = Vec::new();
    let mut waiting = 0;
    for case in cases {
        let id = case["id"].as_str().unwrap_or("a case without id");
        if let Some((_, reason)) = pending.iter().find(|(name, _)| *name == id) {
            eprintln!("cases: {id} is pending: {reason}");
            waiting += 1;
            continue;
        }
        match catch_unwind(AssertUnwindSafe(|| run(case))) {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => failures.push(format!("{id}: {reason}")),
            Err(panic) => failures.push(format!("{id}: panicked: {}", message(&*panic))),
        }
    }
    for (id, _) in pending {
        assert!(cases.iter().any(|case| case["id"] == *id), "{id} is pending and does not exist");
    }
    eprintln!("cases: {title}: {} held, {waiting} pending", cases.len() - waiting - failures.len());
    assert!(!cases.is_empty(), "no cases of {title}");
    assert!(failures.is_empty(), "{} of {title} failed:\n{}", failures.len(), failures.join("\n"));
}

/// A part of a case as a typed value; an unknown field is an error that names it.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| format!("the adapter does not know this: {error}"))
}

/// An assertion with a reason instead of a panic.
pub(crate) fn ensure(holds: bool, reason: impl Display) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason.to_string()) }
}

/// Replaces `{NAME}` by the values given and `{REPEAT:n:s}` by n times s, in every text of a case.
pub(crate) fn fill_in(value: &mut Value, names: &[(&str, &Path)]) {
    match value {
        Value::String(text) => {
            for (name, path) in names {
                *text = text.replace(&format!("{{{name}}}"), path.to_str().unwrap());
            }
            *text = repeats(text);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_in(field, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn repeats(text: &str) -> String {
    let Some((before, rest)) = text.split_once("{REPEAT:") else { return text.to_owned() };
    let (spec, after) = rest.split_once('}').expect("a REPEAT ends with a brace");
    let (count, piece) = spec.split_once(':').expect("a REPEAT has a count and a text");
    let count = count.parse().expect("the count of a REPEAT is a number");
    format!("{before}{}{}", piece.repeat(count), repeats(after))
}

/// A folder for one case; everybody may enter it, so that another user's process can.
pub(crate) fn scratch() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn sorted_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
