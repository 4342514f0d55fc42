//! Reads the folder tables of `docs/architecture.md`: which files there are and which are [pure].
//!
//! A table is a fenced block below a heading `### crates/NAME`. Each of its lines starts with one
//! path, relative to that crate; a line that ends in `[pure]` marks the file.

use std::collections::BTreeMap;

/// The files on the page, by path relative to `crates/`.
pub(crate) type Page = BTreeMap<String, Entry>;

/// One line of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Whether the file is marked.
    pub(crate) pure: bool,
}

/// Reads the tables out of the page's text.
pub(crate) fn read(text: &str) -> Page {
    let mut page = Page::new();
    let mut member = None;
    let mut in_table = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(heading) = line.strip_prefix('#') {
            member = heading.trim_start_matches('#').trim().strip_prefix("crates/");
            in_table = false;
        } else if line.starts_with("```") {
            in_table = !in_table;
        } else if let (Some(member), true, Some(path)) =
            (member, in_table, line.split_whitespace().next())
        {
            let entry = Entry { line: index + 1, pure: line.trim_end().ends_with("[pure]") };
            page.insert(format!("{member}/{path}"), entry);
        }
    }
    page
}

#[test]
fn a_table_line_names_a_file_and_may_mark_it() {
    let text = "### crates/llm\nprose src/no.rs\n```text\nsrc/a.rs   what it is   [pure]\n\
                src/b.rs   not [pure] at all\n```\nsrc/c.rs\n## Other\n```text\nsrc/d.rs\n```\n";
    let entry = |line, pure| Entry { line, pure };
    let want = [("llm/src/a.rs".into(), entry(4, true)), ("llm/src/b.rs".into(), entry(5, false))];
    assert_eq!(read(text), Page::from(want));
}
