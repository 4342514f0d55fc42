//! Small inputs that broke other programs of this kind, one adapter per kind.
//!
//! The cases in this folder always run. `ANVIL_CASES_DIR` names further folders of the same layout,
//! separated by `:`. Kinds that this target does not cover are counted and printed.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

#[path = "../support/mod.rs"]
mod support;

mod config;
mod repl;
mod sessions;

use std::path::{Path, PathBuf};

/// What became of the cases of one folder.
#[derive(Debug, Default)]
struct Report {
    passed: usize,
    pending: Vec<String>,
    uncovered: Vec<String>,
    failed: Vec<String>,
}

fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let more = std::env::var_os("ANVIL_CASES_DIR").unwrap_or_default();
    std::iter::once(own)
        .chain(std::env::split_paths(&more).filter(|path| !path.as_os_str().is_empty()))
        .collect()
}

#[test]
fn every_case_of_a_covered_kind_holds() {
    let mut failed = Vec::new();
    for folder in folders() {
        let mut passed = 0;
        let reports = [
            ("repl", repl::run(&folder)),
            ("config", config::run_folder(&folder)),
            ("sessions", sessions::run(&folder)),
        ];
        for (kind, report) in reports {
            println!(
                "{}: {kind}: {} passed, {} failed, {} pending, {} of other ways to run",
                folder.display(),
                report.passed,
                report.failed.len(),
                report.pending.len(),
                report.uncovered.len()
            );
            for line in report.pending.iter().chain(&report.uncovered) {
                println!("  {line}");
            }
            passed += report.passed;
            failed.extend(report.failed);
        }
        println!("  kinds not covered by this target: {}", other_kinds(&folder).join(", "));
        assert!(passed > 0, "{} holds no case that can be run", folder.display());
    }
    assert!(failed.is_empty(), "{} cases fail:\n{}", failed.len(), failed.join("\n"));
}

fn other_kinds(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut kinds: Vec<String> = entries
        .filter(|entry| {
            // Hostile texts are put on a screen beside the renderer itself, by its unit tests.
            let covered = ["repl", "config", "sessions", "terminal"];
            entry.path().is_dir() && !covered.iter().any(|kind| entry.file_name() == *kind)
        })
        .map(|entry| {
            let files = std::fs::read_dir(entry.path()).unwrap().count();
            format!("{} ({files} files)", entry.file_name().to_string_lossy())
        })
        .collect();
    kinds.sort();
    kinds
}
