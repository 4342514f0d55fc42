//! glob and grep: what they share.

mod glob;
mod grep;
mod lines;

use std::path::Path;

pub use glob::{Glob, GlobArgs};
pub use grep::{Grep, GrepArgs, GrepMode};

use crate::sanitize;
use crate::tools::access::LeftOut;

/// Results shown of one search.
const MAX_RESULTS: usize = 200;

/// Bytes of results shown: below what the registry cuts from the middle, so that a search ends
/// with the advice on how to narrow it.
const MAX_BYTES: usize = 36_000;

/// A path as results show it: from the workspace on where it lies inside, and on one line whatever is
/// in it.
fn shown(path: &Path, cwd: &Path) -> String {
    let path = path.strip_prefix(cwd).unwrap_or(path);
    sanitize::one_line(&path.to_string_lossy()).into_string()
}

/// Puts as many results as there is room for below each other, and says how many.
fn push_results(text: &mut String, results: impl Iterator<Item = impl AsRef<str>>) -> usize {
    let mut count = 0;
    for result in results {
        let result = result.as_ref();
        if count > 0 && text.len() + result.len() > MAX_BYTES {
            break;
        }
        text.push_str(result);
        text.push('\n');
        count += 1;
    }
    count
}

/// What an empty answer must not be silent about.
const LEFT_OUT: &str = "\n[Binary files, symlinks and files named by .gitignore or .ignore are left out; \
                        name an ignored folder as path to search it.]";

/// What the model should know of files that were not looked at.
fn notes(left_out: LeftOut, named: &str) -> String {
    let LeftOut { masked, unreadable, start_is_ignored } = left_out;
    let mut notes = String::new();
    if start_is_ignored {
        notes.push_str(&format!("\n[`{named}` is ignored; it was searched because it is named.]"));
    }
    if masked > 0 {
        notes.push_str(&format!("\n[{masked} masked file(s) or folder(s) left out.]"));
    }
    if unreadable > 0 {
        notes.push_str(&format!("\n[{unreadable} file(s) or folder(s) could not be read.]"));
    }
    notes
}

#[cfg(test)]
mod tests;
