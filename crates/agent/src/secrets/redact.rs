//! Takes known secrets, and what has the shape of one, out of text before anybody gets to see it.
//!
//! A [`Redactor`] knows values by name. Each is looked for as it is and in the forms that programs write
//! values in (see `forms`); what was found gives way to a marker with the name. Where forms overlap, all
//! that any of them covers goes. Beside the values there are shapes (see `shapes`): keys of well-known
//! services, signed tokens, private keys.
//!
//! What comes in pieces is not looked through across the ends of lines (see `wrapped`): every line would
//! have to wait for the next.
//!
//! This is a second line. A program that can read a secret can always write it in a form that nobody
//! thought of; what protects it is that it cannot be read, see [`child_env`](super::child_env) and the
//! masks of [`access`](crate::tools::access).
//!
//! # Where it sits
//! Every way out, nearest to the source first:
//! - files: `read_file`, `grep` and the diffs of changes, before a line is cut; a marker that a model sends
//!   back is not written in the place of the secret;
//! - commands: `bash`, each of its two streams by itself and before the middle is left out, since half a
//!   secret is not recognised any more;
//! - whatever a tool gives back, prints while it runs, shows beforehand and fails with:
//!   [`ToolRegistry`](crate::ToolRegistry), before anything is shortened;
//! - what a person is asked: the request for approval, where it is put together;
//! - all that watchers are told, the model's own words and a server's errors included, in whatever form it
//!   is shown: the receiving end of [`channel`](crate::channel);
//! - what the program says before, after and beside a turn, panics included, and its log: the binary;
//! - recordings: the hook [`llm::recording::Clean`], which the binary fills;
//! - the file of a session: [`Journal`](crate::session::journal::Journal), line by line.
//!
//! What the person types goes to the model as it is, and so does what the model said before.

mod forms;
mod shapes;
mod stream;
mod wrapped;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;

use super::known::is_worth_hiding;
use shapes::Seen;
pub use stream::RedactStream;

/// What stands before the name in the place of a secret, and what after it.
const MARK: (&str, &str) = ("«redacted:", "»");

/// Most bytes that a stream keeps back: no needle is as long.
const MAX_HELD: usize = 4096;

/// Where the names and values come from, asked once.
type Source = Box<dyn FnOnce() -> Vec<(String, String)> + Send>;

/// Finds secrets in text and puts a marker in their place.
///
/// The automaton behind it is made when it is first needed: to make it takes longer than to start.
pub struct Redactor {
    source: std::sync::Mutex<Option<Source>>,
    found: OnceLock<Needles>,
}

impl Default for Redactor {
    /// One that knows shapes and no value.
    fn default() -> Self {
        Self::lazy(Vec::new)
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Redactor(..)")
    }
}

impl Redactor {
    /// One that knows these values by name. Values that are too short or too common to be told from
    /// ordinary text are left out, see [`is_worth_hiding`].
    pub fn new<N: Into<String>, V: Into<String>>(
        secrets: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let secrets: Vec<(String, String)> =
            secrets.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self::lazy(move || secrets)
    }

    /// One that asks for names and values when it is first used.
    pub fn lazy(source: impl FnOnce() -> Vec<(String, String)> + Send + 'static) -> Self {
        Self { source: std::sync::Mutex::new(Some(Box::new(source))), found: OnceLock::new() }
    }

    /// The text without secrets; the text itself where it holds none.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes).expect("whole characters gave way to whole characters"),
            ),
        }
    }

    /// The same for an owned text, which is moved and not copied where it holds none.
    pub fn redact_owned(&self, text: String) -> String {
        let redacted = match self.redact(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(redacted) => Some(redacted),
        };
        redacted.unwrap_or(text)
    }

    /// The bytes without secrets, whatever their encoding.
    pub fn redact_bytes<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        let needles = self.needles();
        let mut hidden = needles.find(bytes, None, true).hidden;
        let wrapped = needles.find_wrapped(bytes);
        if hidden.is_empty() && wrapped.is_empty() {
            return Cow::Borrowed(bytes);
        }
        if !wrapped.is_empty() {
            hidden.extend(wrapped);
            hidden = merged(hidden);
        }
        let mut out = Vec::with_capacity(bytes.len());
        needles.write(bytes, &hidden, Writing::default(), &mut out);
        Cow::Owned(out)
    }

    /// A JSON value whose texts hold no secrets.
    pub fn redact_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.redact_json(item)).collect(),
            Value::Object(fields) => {
                let redacted = |(key, value): (&String, &Value)| {
                    (self.redact(key).into_owned(), self.redact_json(value))
                };
                Value::Object(fields.iter().map(redacted).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// What is left of two pieces of a text whose middle was dropped: neither keeps a part of a secret
    /// that the gap cut in two.
    pub fn without_cut_edges<'t>(&self, head: &'t str, tail: &'t str) -> (&'t str, &'t str) {
        let needles = self.needles();
        let head_end = needles.find(head.as_bytes(), None, false).hold_from;
        (&head[..head_end], &tail[needles.cut_at_start(tail.as_bytes())..])
    }

    fn needles(&self) -> &Needles {
        self.found.get_or_init(|| {
            let mut source = self.source.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            Needles::new(source.take().map(|source| source()).unwrap_or_default())
        })
    }
}

/// Whether a text holds the marker of something that was taken out.
pub fn is_marked(text: &str) -> bool {
    text.contains(MARK.0)
}

/// Everything that is looked for.
struct Needles {
    /// In the order of the automaton's patterns: values in all their forms, then the beginnings of shapes.
    automaton: AhoCorasick,
    /// For each pattern that is a form of a value, its place in `names`.
    owners: Vec<usize>,
    names: Vec<String>,
    /// The forms in byte order, to ask what begins with a text.
    sorted: Vec<Vec<u8>>,
    /// Bytes that a form or a shape begins with.
    begins: [bool; 256],
    longest: usize,
}

/// What a search came to.
struct Found {
    /// What has to go, in order, without overlaps, each with its place in `names` or its shape.
    hidden: Vec<(Range<usize>, Label)>,
    /// From here on a text that goes on may hold a secret that is not whole yet.
    hold_from: usize,
    /// A shape reaches the end of the text and may go on.
    open: Option<shapes::Open>,
}

/// How markers are written.
#[derive(Debug, Clone, Copy, Default)]
struct Writing {
    /// What the marker names that stands right before the text.
    after: Option<Label>,
    /// Whether a secret of several lines leaves its line ends.
    keeps_lines: bool,
}

/// What a marker names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Name(usize),
    Shape(&'static str),
}

impl Needles {
    fn new(secrets: Vec<(String, String)>) -> Self {
        let names: Vec<String> = secrets.iter().map(|(name, _)| marked_name(name)).collect();
        let mut forms: Vec<(Vec<u8>, usize)> = Vec::new();
        for (owner, (_, value)) in secrets.iter().enumerate() {
            if is_worth_hiding(value) {
                forms.extend(forms::of(value).into_iter().map(|form| (form, owner)));
            }
        }
        // What a marker itself holds cannot be looked for: it would be replaced for ever.
        let is_in_a_marker = |form: &[u8]| {
            names.iter().any(|name| memchr::memmem::find(marker(name).as_bytes(), form).is_some())
        };
        forms.retain(|(form, _)| !is_in_a_marker(form));
        // The first that has a value names it.
        forms.sort();
        forms.dedup_by(|later, first| later.0 == first.0);
        let mut patterns: Vec<&[u8]> = forms.iter().map(|(form, _)| form.as_slice()).collect();
        shapes::beginnings().for_each(|beginning| patterns.push(beginning));
        let mut begins = [false; 256];
        for pattern in &patterns {
            begins[usize::from(pattern[0])] = true;
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // A table of all transitions is some times faster and some ten times larger and slower to make.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&patterns)
            .expect("some thousand patterns of bounded length fit");
        let (sorted, owners): (Vec<_>, Vec<_>) = forms.into_iter().unzip();
        let longest = sorted.iter().map(Vec::len).max().unwrap_or_default();
        debug_assert!(longest < MAX_HELD);
        Self { automaton, owners, names, sorted, begins, longest }
    }

    /// Looks through a text. `before` is the byte in front of it; `is_end` says that nothing follows.
    fn find(&self, text: &[u8], before: Option<u8>, is_end: bool) -> Found {
        let mut hidden: Vec<(Range<usize>, Label)> = Vec::new();
        let mut hold_from = if is_end { text.len() } else { self.held_at_end(text, before) };
        let mut open = None;
        let mut shape_end = 0;
        for found in self.automaton.find_overlapping_iter(text) {
            let pattern = found.pattern().as_usize();
            if let Some(&owner) = self.owners.get(pattern) {
                hidden.push((found.range(), Label::Name(owner)));
                continue;
            }
            if found.start() < shape_end {
                continue;
            }
            let before = found.start().checked_sub(1).map(|at| text[at]).or(before);
            match shapes::judge(pattern - self.owners.len(), text, found.start(), before, is_end) {
                Seen::Nothing => {}
                Seen::Undecided => hold_from = hold_from.min(found.start()),
                Seen::Secret { end, name, may_go_on } => {
                    shape_end = end;
                    hidden.push((found.start()..end, Label::Shape(name)));
                    open = may_go_on.filter(|_| !is_end);
                }
            }
        }
        let hidden = merged(hidden);
        // What is only whole together with the rest is decided together with it.
        if let Some((range, _)) =
            hidden.iter().find(|(range, _)| range.start < hold_from && hold_from < range.end)
        {
            // An armoured key is longer than anything that is kept back, and whole enough to go.
            let goes_already = matches!(open, Some(shapes::Open::Armour(_)));
            hold_from = if goes_already { text.len() } else { range.start };
        }
        Found { hidden, hold_from, open }
    }

    /// Where the longest end of the text begins that some form goes on from.
    fn held_at_end(&self, text: &[u8], before: Option<u8>) -> usize {
        let longest = self.longest.max(shapes::LONGEST_BEGINNING);
        let first = text.len().saturating_sub(longest.saturating_sub(1));
        (first..text.len())
            .find(|&at| {
                let before = || at.checked_sub(1).map(|at| text[at]).or(before);
                let rest = &text[at..];
                self.begins[usize::from(text[at])]
                    && (self.goes_on_from(rest) || shapes::goes_on_from(rest, before()))
            })
            .unwrap_or(text.len())
    }

    /// Whether a form begins with `text` and is longer.
    fn goes_on_from(&self, text: &[u8]) -> bool {
        let at = self.sorted.partition_point(|form| form.as_slice() <= text);
        self.sorted.get(at).is_some_and(|form| form.starts_with(text))
    }

    /// How many bytes at the start of a text may be the end of a form whose beginning is missing.
    fn cut_at_start(&self, text: &[u8]) -> usize {
        let longest = text.len().min(self.longest.saturating_sub(1));
        let is_end_of_form = |len: &usize| {
            self.sorted.iter().any(|form| form.len() > *len && form.ends_with(&text[..*len]))
        };
        let cut = (1..=longest).rev().find(is_end_of_form).unwrap_or_default();
        // Whoever cuts into a whole secret makes it one that is not recognised.
        let near = &text[..text.len().min(2 * MAX_HELD)];
        let found = self.find(near, None, true).hidden;
        let whole = found.iter().find(|(range, _)| range.start < cut && cut < range.end);
        whole.map_or(cut, |(range, _)| range.end)
    }

    /// Appends the text with markers in the place of what is hidden. Returns what the marker names that
    /// stands right at its end.
    fn write(
        &self,
        text: &[u8],
        hidden: &[(Range<usize>, Label)],
        Writing { after, keeps_lines }: Writing,
        out: &mut Vec<u8>,
    ) -> Option<Label> {
        let mut from = 0;
        for (range, label) in hidden {
            out.extend_from_slice(&text[from..range.start]);
            let name = match label {
                Label::Name(at) => &self.names[*at],
                Label::Shape(name) => *name,
            };
            if range.start > 0 || after != Some(*label) {
                out.extend_from_slice(marker(name).as_bytes());
            }
            if keeps_lines {
                out.extend(text[range.clone()].iter().filter(|byte| **byte == b'\n'));
            }
            from = range.end;
        }
        out.extend_from_slice(&text[from..]);
        match hidden.last() {
            _ if text.is_empty() => after,
            Some((_, label)) if from == text.len() => Some(*label),
            _ => None,
        }
    }
}

fn marker(name: &str) -> String {
    format!("{}{name}{}", MARK.0, MARK.1)
}

/// A name as a marker may hold it: short, and without what could end the marker or a line.
fn marked_name(name: &str) -> String {
    let is_plain = |c: &char| c.is_alphanumeric() || "_-.:/".contains(*c);
    name.chars().filter(is_plain).take(64).collect()
}

/// Joins what overlaps, and what touches under the same name. A known name says more than a shape.
fn merged(mut ranges: Vec<(Range<usize>, Label)>) -> Vec<(Range<usize>, Label)> {
    ranges.sort_by(|(a, _), (b, _)| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
    let mut merged: Vec<(Range<usize>, Label)> = Vec::with_capacity(ranges.len());
    for (range, label) in ranges {
        match merged.last_mut() {
            Some((last, named))
                if range.start < last.end || (range.start == last.end && *named == label) =>
            {
                last.end = last.end.max(range.end);
                if matches!(named, Label::Shape(_)) {
                    *named = label;
                }
            }
            _ => merged.push((range, label)),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
