//! What a screen may be shown: control, escape and direction characters are made visible.
//!
//! Text from a model, a tool or a file can hold sequences that move the cursor, write the clipboard,
//! hide what a command does or reorder a line. Each such character is replaced by its escape, one
//! character at a time, so that a sequence cut in two between pieces of a stream cannot slip through.
//!
//! Only this file makes a [`Visible`], and whoever writes to a terminal takes nothing else: text that
//! was forgotten here does not compile there.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::{Deref, Range};

/// Text that a terminal can be given as it is: it prints and does nothing else.
///
/// Making visible text visible again changes nothing, so that pieces can be put together with
/// `visible(&format!(…))`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible<'a>(Cow<'a, str>);

impl Visible<'static> {
    /// Words of the program itself, as they stand in its source.
    pub const fn own(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'a> Visible<'a> {
    /// A part of it; a part of what is safe is safe.
    ///
    /// # Panics
    /// Where a slice of a `str` would.
    pub fn part(&self, range: Range<usize>) -> Visible<'_> {
        Visible(Cow::Borrowed(&self.0[range]))
    }

    /// The same without blanks at its end.
    pub fn trimmed_end(&self) -> Visible<'_> {
        self.part(0..self.0.trim_end().len())
    }

    /// The same with a life of its own.
    pub fn into_owned(self) -> Visible<'static> {
        Visible(Cow::Owned(self.0.into_owned()))
    }

    /// The text, borrowed where it was visible from the start.
    pub fn into_cow(self) -> Cow<'a, str> {
        self.0
    }

    /// The text.
    pub fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for Visible<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Makes a stream of text pieces safe to show; line feeds and tabs pass.
///
/// A carriage return passes only as the first half of a line ending, which is why one that ends a
/// piece is held until the next piece tells.
#[derive(Debug, Clone, Copy, Default)]
pub struct VisibleStream {
    held_return: bool,
}

impl VisibleStream {
    /// The visible form of `piece`, as far as it is certain.
    pub fn push<'a>(&mut self, piece: &'a str) -> Visible<'a> {
        if piece.is_empty() || (!self.held_return && !piece.contains(is_unsafe)) {
            return Visible(Cow::Borrowed(piece));
        }
        let mut out = String::with_capacity(piece.len() + 16);
        if std::mem::take(&mut self.held_return) {
            out.push_str(if piece.starts_with('\n') { "\r" } else { "\\r" });
        }
        let mut rest = piece;
        while let Some(at) = rest.find(is_unsafe) {
            out.push_str(&rest[..at]);
            let found = rest[at..].chars().next().expect("find returned a character's place");
            rest = &rest[at + found.len_utf8()..];
            match found {
                '\r' if rest.starts_with('\n') => out.push('\r'),
                '\r' if rest.is_empty() => self.held_return = true,
                other => escape(other, &mut out),
            }
        }
        out.push_str(rest);
        Visible(Cow::Owned(out))
    }

    /// What was held back; the text is over.
    pub fn finish(&mut self) -> Visible<'static> {
        Visible::own(if std::mem::take(&mut self.held_return) { "\\r" } else { "" })
    }
}

/// The whole `text` in its visible form; line feeds and tabs pass.
pub fn visible(text: &str) -> Visible<'_> {
    let mut state = VisibleStream::default();
    let shown = state.push(text);
    let end = state.finish();
    if end.is_empty() { shown } else { Visible(Cow::Owned(shown.into_string() + &end)) }
}

/// `text` on one line: line breaks and tabs become escapes too.
pub fn one_line(text: &str) -> Visible<'_> {
    escaped(text, |c| is_unsafe(c) || matches!(c, '\n' | '\t'))
}

/// The whole `text` for a person who has to agree to it: whatever looks like something else or like
/// nothing becomes an escape, also where a language or an emoji would need it. Line feeds and tabs pass.
pub fn exact(text: &str) -> Visible<'_> {
    escaped(text, |c| is_unsafe(c) || is_deceptive(c))
}

/// A JSON text that means the same and acts on no terminal. What needs it can stand only inside strings,
/// where an escape is as good as the character.
pub fn json(text: &str) -> Visible<'_> {
    if !text.contains(is_unsafe) {
        return Visible(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("a String takes every write");
            }
        } else {
            out.push(c);
        }
    }
    Visible(Cow::Owned(out))
}

/// `text` without what would have to be made visible, for whoever counts on each character taking the
/// columns that it takes. Line feeds and tabs pass.
pub fn printable(text: &str) -> Visible<'_> {
    match text.contains(is_unsafe) {
        true => Visible(Cow::Owned(text.replace(is_unsafe, ""))),
        false => Visible(Cow::Borrowed(text)),
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Visible<'_> {
    if !text.contains(&is_escaped) {
        return Visible(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            escape(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Visible(Cow::Owned(out))
}

fn escape(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        other => write!(out, "\\u{{{:x}}}", u32::from(other)).expect("a String takes every write"),
    }
}

/// Characters that act on a terminal, reorder text or take no room while meaning something.
///
/// The joiners U+200C and U+200D and the variation selectors U+FE00–FE0F pass: scripts and emoji
/// need them, and they cannot hide or reorder what stands around them.
fn is_unsafe(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' // C0 (not tab, LF), DEL, C1
        | '\u{ad}' | '\u{34f}'                                       // soft hyphen, grapheme joiner
        | '\u{61c}' | '\u{200e}' | '\u{200f}'                        // direction marks
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'          // embeddings, overrides, isolates
        | '\u{2028}' | '\u{2029}'                                    // line and paragraph separator
        | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'          // fillers that look empty
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{fff0}'..='\u{fffb}'                                    // interlinear annotation
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'      // shorthand, musical formatting
        | '\u{e0000}'..='\u{e0fff}') // tags, variation supplement
}

/// Characters that are harmless in prose and misleading in what is agreed to: joiners, selectors, and
/// blanks that no shell takes for one.
fn is_deceptive(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{2800}')
        || (c.is_whitespace() && !matches!(c, ' ' | '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(&*visible(text), want);
        assert_eq!(&*visible(want), want, "what is visible stays as it is");
        for (cut, _) in text.char_indices() {
            let mut state = VisibleStream::default();
            let (head, tail) = (state.push(&text[..cut]), state.push(&text[cut..]));
            assert_eq!(format!("{head}{tail}{}", state.finish()), want, "cut at {cut}");
        }
    }

    #[test]
    fn plain_text_in_any_script_passes_without_a_copy() {
        assert!(matches!(visible("é你\t👨‍👩‍👧 ❤️\nx"), Visible(Cow::Borrowed(_))));
    }

    #[test]
    fn escape_sequences_become_readable_wherever_the_stream_is_cut() {
        check("a\x1b]52;c;AAAA\x07b", "a\\u{1b}]52;c;AAAA\\u{7}b");
        check("\u{9b}2J", "\\u{9b}2J");
        check("rm\x08\x08x", "rm\\u{8}\\u{8}x");
    }

    #[test]
    fn direction_overrides_and_invisible_characters_become_readable() {
        check("a\u{202e}b", "a\\u{202e}b");
        check("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}");
        check("x\u{e0041}", "x\\u{e0041}");
    }

    #[test]
    fn a_carriage_return_passes_only_as_part_of_a_line_ending() {
        check("a\r\nb", "a\r\nb");
        check("safe\rrm -rf x", "safe\\rrm -rf x");
        check("end\r", "end\\r");
    }

    #[test]
    fn one_line_keeps_a_path_with_a_newline_on_one_line() {
        assert_eq!(&*one_line("a\nb\tc\x1b"), "a\\nb\\tc\\u{1b}");
        assert_eq!(&*printable("a\nb\tc\x1b\u{202e}\u{9b}d"), "a\nb\tcd");
    }

    #[test]
    fn json_means_the_same_without_a_character_that_acts() {
        let text = "a\u{7f}\u{9b}2J\u{202e}\u{e0041}漢\r\n";
        let raw = serde_json::to_string(text).unwrap();
        assert!(raw.contains('\u{9b}'));
        let shown = json(&raw);
        assert!(!shown.contains(is_unsafe) && shown.contains('漢'), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

    #[test]
    fn what_is_agreed_to_holds_no_blank_that_is_none_and_nothing_without_a_width() {
        assert_eq!(
            &*exact("rm\u{a0}-rf\u{200d}\u{fe0f}\u{2800}\u{3000}x\r\n\ty"),
            "rm\\u{a0}-rf\\u{200d}\\u{fe0f}\\u{2800}\\u{3000}x\\r\n\ty"
        );
        assert!(matches!(exact("cargo test\n\t--lib 漢字"), Visible(Cow::Borrowed(_))));
    }
}
