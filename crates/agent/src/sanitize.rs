//! What a screen may be shown: control, escape and direction characters are made visible.
//!
//! Text from a model, a tool or a file can hold sequences that move the cursor, write the clipboard,
//! hide what a command does or reorder a line. Each such character is replaced by its escape, one
//! character at a time, so that a sequence cut in two between pieces of a stream cannot slip through.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Makes a stream of text pieces safe to show; line feeds and tabs pass.
///
/// A carriage return passes only as the first half of a line ending, which is why one that ends a
/// piece is held until the next piece tells.
#[derive(Debug, Clone, Copy, Default)]
pub struct Visible {
    held_return: bool,
}

impl Visible {
    /// Appends `piece` to `out` in its visible form.
    pub fn push(&mut self, piece: &str, out: &mut String) {
        if piece.is_empty() {
            return;
        }
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
                other => escape(other, out),
            }
        }
        out.push_str(rest);
    }

    /// Appends what was held back; the text is over.
    pub fn finish(&mut self, out: &mut String) {
        if std::mem::take(&mut self.held_return) {
            out.push_str("\\r");
        }
    }
}

/// The whole `text` in its visible form; line feeds and tabs pass.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut state = Visible::default();
    state.push(text, &mut out);
    state.finish(&mut out);
    Cow::Owned(out)
}

/// `text` on one line: line breaks and tabs become escapes too.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let breaks = |c: char| is_unsafe(c) || matches!(c, '\n' | '\t');
    if !text.contains(breaks) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if breaks(c) {
            escape(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
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
        | '\u{ad}'                                                   // soft hyphen
        | '\u{61c}' | '\u{200e}' | '\u{200f}'                        // direction marks
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'          // embeddings, overrides, isolates
        | '\u{2028}' | '\u{2029}'                                    // line and paragraph separator
        | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'          // fillers that look empty
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{fff9}'..='\u{fffb}'                                    // interlinear annotation
        | '\u{1d173}'..='\u{1d17a}'                                  // musical formatting
        | '\u{e0000}'..='\u{e0fff}') // tags, variation supplement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(visible(text), want);
        for (cut, _) in text.char_indices() {
            let (mut out, mut state) = (String::new(), Visible::default());
            state.push(&text[..cut], &mut out);
            state.push(&text[cut..], &mut out);
            state.finish(&mut out);
            assert_eq!(out, want, "cut at {cut}");
        }
    }

    #[test]
    fn plain_text_in_any_script_passes_without_a_copy() {
        assert!(matches!(visible("é你\t👨‍👩‍👧 ❤️\nx"), Cow::Borrowed(_)));
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
        assert_eq!(one_line("a\nb\tc\x1b"), "a\\nb\\tc\\u{1b}");
    }
}
