//! Finds the folders with cases, and turns what an adapter found into a verdict.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

const FOLDERS: &str = "ANVIL_CASES_DIR";

/// What an adapter found in one folder.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    failures: Vec<String>,
    waiting: Vec<String>,
    uncovered: BTreeMap<String, usize>,
}

impl Report {
    /// Files the verdict on one case; `pending` are the ids that may fail, each with its reason.
    pub(crate) fn settle(
        &mut self,
        id: &str,
        pending: &[(&str, &str)],
        verdict: Result<(), String>,
    ) {
        let reason = pending.iter().find(|(waiting, _)| *waiting == id).map(|(_, reason)| reason);
        match (verdict, reason) {
            (Ok(()), None) => self.passed += 1,
            (Ok(()), Some(_)) => {
                self.failures.push(format!("{id}: holds by now; take it off the PENDING list"));
            }
            (Err(_), Some(reason)) => self.waiting.push(format!("{id}: {reason}")),
            (Err(fault), None) => self.failures.push(format!("{id}: {fault}")),
        }
    }

    /// Counts a case that this target has no code for.
    pub(crate) fn uncovered(&mut self, what: &str) {
        *self.uncovered.entry(what.to_owned()).or_default() += 1;
    }
}

/// Runs an adapter on the folder of this repository, which must have cases, and on the others.
pub(crate) fn check_kind(kind: &str, run: fn(&Path) -> Report) {
    let mut failures = Vec::new();
    for (position, folder) in folders().iter().enumerate() {
        let report = run(&folder.join(kind));
        let place = folder.display();
        eprintln!("{place}: {} {kind} cases hold", report.passed);
        for (what, count) in &report.uncovered {
            eprintln!("{place}: {count} {kind} cases are not covered yet ({what})");
        }
        for waiting in &report.waiting {
            eprintln!("{place}: pending {waiting}");
        }
        assert!(position > 0 || report.passed > 0, "no {kind} cases in {place}");
        failures.extend(report.failures.iter().map(|failure| format!("{place}: {failure}")));
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Prints the kinds in the other folders that this target has no adapter for.
pub(crate) fn name_uncovered_kinds(covered: &[&str]) {
    for folder in folders() {
        for kind in entries(&folder).into_iter().filter(|path| path.is_dir()) {
            let name = kind.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !covered.contains(&name.as_str()) {
                eprintln!("{}: the kind {name} has no adapter in this target", folder.display());
            }
        }
    }
}

/// The folder of this repository, then those of `ANVIL_CASES_DIR`.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")];
    match std::env::var_os(FOLDERS) {
        Some(more) => folders.extend(std::env::split_paths(&more)),
        None => eprintln!("{FOLDERS} is not set: only the cases of this repository are driven"),
    }
    for folder in &folders {
        assert!(folder.is_dir(), "{FOLDERS} names {}, which is no folder", folder.display());
    }
    folders
}

/// What a directory holds, sorted; nothing when it does not exist.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(read) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        read.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

/// The JSON in a file.
pub(crate) fn read_json(path: &Path) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs `drive` on every case of a file that has one in each line; without the file there is none.
pub(crate) fn drive_lines(
    file: &Path,
    pending: &[(&str, &str)],
    mut drive: impl FnMut(&Value, &mut Report) -> Option<Result<(), String>>,
) -> Report {
    let mut report = Report::default();
    let Ok(lines) = fs::read_to_string(file) else { return report };
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str::<Value>(line) {
            Ok(case) => {
                if let Some(verdict) = drive(&case, &mut report) {
                    report.settle(case["id"].as_str().unwrap_or_default(), pending, verdict);
                }
            }
            Err(error) => report.settle(line, &[], Err(error.to_string())),
        }
    }
    report
}

/// Fails when `value` is no object or has a field outside of `known`.
pub(crate) fn only_fields(what: &str, value: &Value, known: &[&str]) -> Result<(), String> {
    let fields = value.as_object().ok_or_else(|| format!("{what} is no object: {value}"))?;
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => Err(format!("{what} has a field that the adapter does not know: {field}")),
        None => Ok(()),
    }
}
