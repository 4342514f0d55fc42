//! A text with places to fill in: `{{ workspace }}` and its like, in the language of Jinja.
//!
//! A template reads no file, its steps and its output are counted, what it builds on the way stays small
//! (see `growth`), and what it puts in is never read as a template again.

mod growth;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use crate::sanitize::one_line;

/// Longest template, in bytes.
const MAX_SOURCE: usize = 128 << 10;

/// Longest text that one may become, in bytes.
const MAX_OUTPUT: usize = 512 << 10;

/// Most steps that one may take; a list of all tools takes a few hundred.
const MAX_STEPS: u64 = 100_000;

/// Most characters of a line that are shown with an error.
const MAX_SHOWN: usize = 160;

/// A template that is written correctly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    name: String,
    source: String,
    used: BTreeSet<String>,
}

/// What is wrong with a template, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The file as a person knows it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// The line itself, safe to show.
    pub shown: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, what, shown } = self;
        write!(f, "{file}:{line}:{column}: {what}")?;
        if shown.is_empty() { Ok(()) } else { write!(f, "\n  {line} | {shown}") }
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Reads `source`, which errors call `name`.
    ///
    /// # Errors
    /// When it is too long or not written as a template is.
    pub fn parse(name: &str, source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            let what = format!("a template has at most {MAX_SOURCE} bytes");
            return Err(fault(name, source, 0, what));
        }
        if let Some((at, what)) = growth::unbounded(source) {
            let what = format!(
                "'{what}' is not for templates of a prompt, since it could build a text without end; write what \
                 belongs together side by side"
            );
            return Err(fault(name, source, at, what));
        }
        let engine = engine();
        let read = engine.template_from_named_str(name, source);
        let read = read.map_err(|error| explain(name, source, &error))?;
        let used = read.undeclared_variables(false).into_iter().collect();
        Ok(Self { name: name.to_owned(), source: source.to_owned(), used })
    }

    /// Whether the template takes something by this name.
    pub fn uses(&self, variable: &str) -> bool {
        self.used.contains(variable)
    }

    /// The names it takes that are not among `known` and would be filled in as nothing, each with the
    /// place of its first use.
    pub fn undeclared(&self, known: &[&str]) -> Vec<TemplateError> {
        let engine = engine();
        let is_own = |name: &str| engine.globals().any(|(global, _)| global == name);
        let unknown =
            self.used.iter().filter(|name| !known.contains(&name.as_str()) && !is_own(name));
        let mut found: Vec<TemplateError> = unknown
            .map(|name| {
                let what = format!(
                    "nothing is called '{name}', so it becomes nothing; there is {}",
                    known.join(", ")
                );
                fault(&self.name, &self.source, first_use(&self.source, name), what)
            })
            .collect();
        found.sort_by_key(|fault| (fault.line, fault.column));
        found
    }

    /// Fills in `values`. The text ends with exactly one line feed, or is empty.
    ///
    /// # Errors
    /// When a place cannot be filled in, or the text or the way to it gets too long.
    pub fn render(&self, values: &impl Serialize) -> Result<String, TemplateError> {
        let engine = engine();
        let explain = |error| explain(&self.name, &self.source, &error);
        let template = engine.template_from_named_str(&self.name, &self.source).map_err(explain)?;
        let mut output = Bounded(Vec::new());
        template.render_captured_to(values, &mut output).map_err(explain)?;
        let text = String::from_utf8(output.0).expect("texts were written");
        Ok(match text.trim_end() {
            "" => String::new(),
            text => format!("{text}\n"),
        })
    }
}

fn engine() -> Environment<'static> {
    let mut engine = Environment::new();
    engine.set_trim_blocks(true);
    engine.set_lstrip_blocks(true);
    engine.set_debug(true);
    engine.set_fuel(Some(MAX_STEPS));
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    growth::bound(&mut engine);
    engine
}

/// Takes texts until they are too long together.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!("it becomes longer than {MAX_OUTPUT} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn explain(name: &str, source: &str, error: &minijinja::Error) -> TemplateError {
    let mut what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    if let Some(cause) = std::error::Error::source(error) {
        what = format!("{what}: {cause}");
    }
    let start = |line: usize| {
        let lines = source.split_inclusive('\n').take(line.saturating_sub(1));
        lines.map(str::len).sum()
    };
    let at = error.range().map_or_else(|| error.line().map_or(0, start), |range| range.start);
    fault(name, source, at, what)
}

/// An error at a byte of `source`.
fn fault(name: &str, source: &str, at: usize, what: String) -> TemplateError {
    let before = source.get(..at).unwrap_or(source);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let whole = source[start..].lines().next().unwrap_or_default();
    let shown: String = whole.chars().take(MAX_SHOWN).collect();
    TemplateError {
        file: name.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[start..].chars().count() + 1,
        what: one_line(&what).into_string(),
        shown: one_line(&shown).into_string(),
    }
}

/// Where `name` is taken first; the beginning where that cannot be told.
fn first_use(source: &str, name: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |at: usize| {
        let (before, after) = (&source[..at], &source[at + name.len()..]);
        !before.ends_with(|c| is_word(c) || c == '.') && !after.starts_with(is_word)
    };
    let mut places = tags(source).flat_map(|tag| {
        let start = tag.start;
        source[tag].match_indices(name).map(move |(at, _)| start + at).collect::<Vec<_>>()
    });
    places.find(|at| stands_alone(*at)).unwrap_or(0)
}

/// What stands between `{{` and `}}`, and between `{%` and `%}`.
fn tags(source: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let open =
                from + source[from..].find(['{']).filter(|at| from + at + 1 < source.len())?;
            let end = match source.as_bytes()[open + 1] {
                b'{' => "}}",
                b'%' => "%}",
                b'#' => "#}",
                _ => {
                    from = open + 1;
                    continue;
                }
            };
            let close = source[open..].find(end).map_or(source.len(), |at| open + at);
            from = close;
            if end != "#}" {
                return Some(open + 2..close);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, String> {
        let values = serde_json::json!({
            "workspace": "/w", "skills": [], "tools": [{"name": "grep", "parameters": {"a": 1}}],
            "text": "{{ workspace }} <b> {% if %}",
        });
        let template = Template::parse("SYSTEM.md", source).map_err(|error| error.to_string())?;
        template.render(&values).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_put_in_as_they_are_and_never_read_again() {
        assert_eq!(render("In {{ text }}.").unwrap(), "In {{ workspace }} <b> {% if %}.\n");
        assert_eq!(render("{{ tools | tojson }}").unwrap().matches("grep").count(), 1);
    }

    #[test]
    fn lines_that_hold_only_a_block_vanish_and_one_line_feed_ends_the_text() {
        let list = "Tools:\n  {% for tool in tools %}\n- {{ tool.name }}\n  {% endfor %}\n\n\n";
        assert_eq!(render(list).unwrap(), "Tools:\n- grep\n");
        assert_eq!(
            render("Be brief.\n{% if skills %}\nSkills\n{% endif %}\n").unwrap(),
            "Be brief.\n"
        );
        assert_eq!(render("{% if skills %}x{% endif %}\n").unwrap(), "");
    }

    #[test]
    fn an_error_names_file_line_and_column_and_shows_the_line() {
        let unclosed = render("a\n\n{% if workspace %}\nb\n").unwrap_err();
        assert!(unclosed.starts_with("SYSTEM.md:"), "{unclosed}");
        let filter = render("a\nb\nIn {{ workspace | nope }}\n").unwrap_err();
        assert!(filter.starts_with("SYSTEM.md:3:"), "{filter}");
        assert!(filter.ends_with("\n  3 | In {{ workspace | nope }}"), "{filter}");
        let attribute = render("a\n{{ a.b.c }}").unwrap_err();
        assert!(attribute.starts_with("SYSTEM.md:2:"), "{attribute}");
        let tag = render("é {% nope %}").unwrap_err();
        assert!(tag.starts_with("SYSTEM.md:1:6: "), "{tag}");
    }

    #[test]
    fn no_template_reads_a_file() {
        for source in ["{% include '/etc/passwd' %}", "{% import 'x' as y %}", "{% extends 'x' %}"]
        {
            let error = render(source).unwrap_err();
            assert!(error.starts_with("SYSTEM.md:1:4: "), "{error}");
        }
    }

    #[test]
    fn a_template_that_would_run_or_grow_for_long_ends_with_an_error() {
        let slow = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        let error = render(slow).unwrap_err();
        assert!(error.contains("fuel"), "{error}");
        let text = "0123456789".repeat(20);
        let large = format!("{{% for a in range(9999) %}}{{{{ '{text}' }}}}{{% endfor %}}");
        let error = render(&large).unwrap_err();
        assert!(error.contains("longer than 524288 bytes"), "{error}");
        assert!(render(&"x".repeat(MAX_SOURCE + 1)).unwrap_err().contains("at most 131072 bytes"));
    }

    #[test]
    fn no_template_builds_a_text_without_end_on_its_way() {
        let doubled = "{% set a = 'x' %}\n{% set a = a ~ a %}";
        let error = render(doubled).unwrap_err();
        assert!(error.starts_with("SYSTEM.md:2:14: '~' is not for templates"), "{error}");
        let between = "x".repeat(1000);
        let joined = format!("{{% set a = range(9999) | join('{between}') %}}");
        let error = render(&joined).unwrap_err();
        assert!(error.contains("longer than 524288 bytes"), "{error}");
        let escaped = format!("{{{{ '\"' {} }}}}", "| tojson ".repeat(60));
        let error = render(&escaped).unwrap_err();
        assert!(error.contains("524288"), "{error}");
        let many = "{% set a = range(9999) | join('0123456789012345') %}\n".repeat(40);
        let error = render(&many).unwrap_err();
        assert!(error.contains("filters make more than 4194304 bytes"), "{error}");
        for gone in
            ["{{ text | replace('a', 'b') }}", "{{ text | indent(9) }}", "{{ namespace() }}"]
        {
            assert!(render(gone).is_err(), "{gone}");
        }
        let names = "{{ tools | map(attribute='name') | join(', ') }} {{ tools[0].name | upper }}";
        assert_eq!(render(names).unwrap(), "grep GREP\n");
        assert!(
            render("{{ tools | tojson(indent=2) }}").unwrap().contains("\n    \"name\": \"grep\"")
        );
    }

    #[test]
    fn names_that_nothing_is_called_are_listed_with_their_place() {
        let source =
            "{# nobody #} nobody {{ workspace }}\n{{ a.nobody }}{% if nobody %}{% endif %}\n";
        let template = Template::parse("SYSTEM.md", source).unwrap();
        assert!(template.uses("workspace") && !template.uses("tools"));
        let found = template.undeclared(&["workspace"]);
        let places: Vec<_> = found.iter().map(|one| (one.line, one.column)).collect();
        assert_eq!(places, [(2, 4), (2, 21)]);
        assert!(found[1].to_string().starts_with("SYSTEM.md:2:21: nothing is called 'nobody'"));
        assert_eq!(Template::parse("S", "{{ range(3) }}").unwrap().undeclared(&[]), []);
    }
}
