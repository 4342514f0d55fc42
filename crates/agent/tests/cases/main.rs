//! Small inputs that broke other agents, with the behaviour this one has.
//!
//! One module a kind. Cases lie in `tests/cases/KIND/`; further folders, laid out the same way, are named
//! in `ANVIL_CASES_DIR`, separated by `:`. A field that a module does not know fails its case.

#![expect(clippy::unwrap_used, reason = "a case that cannot be set up fails")]

#[path = "../support/mod.rs"]
mod agents;
mod bash;
mod edit;
mod fs;
mod memory;
#[cfg(target_os = "linux")]
mod sandbox;
mod sessions;
mod shell;
mod support;

use std::collections::BTreeMap;

/// The kinds that have a module here.
const COVERED: &[&str] = &["bash", "edit", "fs", "sandbox", "sessions", "shell"];

#[test]
fn kinds_that_no_module_covers_are_counted_and_told() {
    let mut uncovered = BTreeMap::<String, usize>::new();
    for folder in support::folders() {
        for kind in support::subfolders(&folder) {
            if !COVERED.contains(&kind.as_str()) {
                let count = support::count(&folder.join(&kind));
                *uncovered.entry(kind).or_default() += count;
            }
        }
    }
    for (kind, count) in &uncovered {
        eprintln!("cases: {count:>4} of kind {kind} are not covered by this target");
    }
    let own = support::subfolders(&support::own_folder());
    for kind in COVERED {
        assert!(own.iter().any(|name| name == kind), "the cases of kind {kind} are gone");
    }
}
