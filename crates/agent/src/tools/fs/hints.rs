//! Why a text that the model believes in a file is not there: the usual ways to get it slightly wrong.
//! [pure]

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;

use super::text::{BOM, with_lf};
use crate::secrets::redact::is_marked;

/// Larger files are not searched for near matches.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Says what `old`, which does not occur in `content`, nearly matches; empty when nothing is near.
pub(super) fn explain(content: &[u8], old: &str) -> String {
    if content.len() > MAX_BYTES {
        return String::new();
    }
    let body = String::from_utf8_lossy(content.strip_prefix(BOM).unwrap_or(content));
    if matches!(body, Cow::Owned(_)) && !old.is_ascii() {
        return "The file is not UTF-8, so old_string can only match its ASCII parts.".to_owned();
    }
    let body = with_lf(&body);
    let old = with_lf(old);
    let guesses: [fn(&str, &str) -> Option<String>; 8] = [
        marker,
        line_numbers,
        final_newline,
        escapes,
        look_alikes,
        unicode_form,
        whitespace,
        first_line,
    ];
    guesses.iter().find_map(|guess| guess(&body, &old)).unwrap_or_default()
}

/// What stands for a secret in all that is shown of a file.
fn marker(_body: &str, old: &str) -> Option<String> {
    is_marked(old).then(|| {
        "old_string holds a marker that stands for a secret; the file has the secret itself. Choose text \
         around it."
            .to_owned()
    })
}

/// The numbers that read_file prints before each line.
fn line_numbers(_body: &str, old: &str) -> Option<String> {
    let is_numbered = |line: &str| {
        let rest = line.trim_start_matches(' ').trim_start_matches(|c: char| c.is_ascii_digit());
        rest.starts_with('\t') && line.trim_start_matches(' ').len() > rest.len()
    };
    let mut lines = old.lines().filter(|line| !line.is_empty()).peekable();
    lines.peek()?;
    lines.all(is_numbered).then(|| {
        "old_string holds the line numbers that read_file prints; they are not part of the file. Leave \
         out everything up to the tab of each line."
            .to_owned()
    })
}

fn final_newline(body: &str, old: &str) -> Option<String> {
    let trimmed = old.strip_suffix('\n')?;
    (!trimmed.is_empty() && body.ends_with(trimmed)).then(|| {
        "The last line of the file does not end with a newline. Leave out the one at the end of \
         old_string."
            .to_owned()
    })
}

/// Two characters, backslash and letter, where the file has one.
fn escapes(body: &str, old: &str) -> Option<String> {
    let unescaped = unescape(old);
    (unescaped != old && body.contains(&unescaped)).then(|| {
        "old_string holds backslash sequences where the file has the characters themselves. Send line \
         breaks, tabs and quotes as they are."
            .to_owned()
    })
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some(other @ ('"' | '\'' | '\\')) => out.push(other),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

/// Curly quotes, long dashes and odd blanks.
fn look_alikes(body: &str, old: &str) -> Option<String> {
    let plain_body: String = body.chars().map(plain).collect();
    let plain_old: String = old.chars().map(plain).collect();
    let at = plain_body.find(&plain_old)?;
    let skipped = plain_body[..at].chars().count();
    let (in_file, in_old) =
        body.chars().skip(skipped).zip(old.chars()).find(|(in_file, in_old)| in_file != in_old)?;
    Some(format!(
        "Line {} looks the same, but the file has {} where old_string has {}.",
        line_number(&plain_body, at),
        named(in_file),
        named(in_old)
    ))
}

/// The ASCII character that another one looks like.
fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{b4}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{ab}' | '\u{bb}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => ' ',
        other => other,
    }
}

fn named(c: char) -> String {
    format!("{c} (U+{:04X})", u32::from(c))
}

/// An accented letter as one character or as two.
fn unicode_form(body: &str, old: &str) -> Option<String> {
    let nfc = ComposingNormalizerBorrowed::new_nfc();
    let body = nfc.normalize(body);
    let at = body.find(&*nfc.normalize(old))?;
    Some(format!(
        "Line {} differs only in Unicode form: one side has accented letters as single characters, the \
         other as a letter and a combining mark.",
        line_number(&body, at)
    ))
}

/// The same words with other blanks between and before them.
fn whitespace(body: &str, old: &str) -> Option<String> {
    let lines: Vec<&str> = body.lines().collect();
    let wanted: Vec<&str> = old.trim_matches('\n').lines().collect();
    if wanted.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    let squeezed: Vec<String> = lines.iter().map(|line| squeeze(line)).collect();
    let wanted_squeezed: Vec<String> = wanted.iter().map(|line| squeeze(line)).collect();
    let start = squeezed.windows(wanted.len()).position(|window| fits(window, &wanted_squeezed))?;
    let (offset, in_file, in_old) = lines[start..]
        .iter()
        .zip(&wanted)
        .enumerate()
        .find(|(offset, (in_file, in_old))| {
            // The first line of a text may begin inside a line, no other may.
            if *offset == 0 { !in_file.contains(*in_old) } else { !in_file.starts_with(*in_old) }
        })
        .map(|(offset, (in_file, in_old))| (offset, *in_file, *in_old))
        .unwrap_or((0, lines[start], wanted[0]));
    let number = start + offset + 1;
    let (file_indent, old_indent) = (indent(in_file), indent(in_old));
    Some(if file_indent == old_indent {
        format!("Line {number} differs only in whitespace inside or at the end of the line.")
    } else {
        format!(
            "Line {number} differs only in indentation: it starts with {} in the file and with {} in \
             old_string.",
            blanks(file_indent),
            blanks(old_indent)
        )
    })
}

/// Whether lines match when the first may begin and the last may end somewhere inside a line.
fn fits(window: &[String], wanted: &[String]) -> bool {
    let last = wanted.len() - 1;
    window.iter().zip(wanted).enumerate().all(|(index, (line, wanted))| {
        match (index == 0, index == last) {
            (true, true) => line.contains(wanted.as_str()),
            (true, false) => line.ends_with(wanted.as_str()),
            (false, true) => line.starts_with(wanted.as_str()),
            (false, false) => line == wanted,
        }
    })
}

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn blanks(indent: &str) -> String {
    let tabs = indent.matches('\t').count();
    let spaces = indent.len() - tabs;
    match (tabs, spaces) {
        (0, 0) => "nothing".to_owned(),
        (0, spaces) => format!("{spaces} space(s)"),
        (tabs, 0) => format!("{tabs} tab(s)"),
        (tabs, spaces) => format!("{tabs} tab(s) and {spaces} space(s)"),
    }
}

/// Where the text at least begins.
fn first_line(body: &str, old: &str) -> Option<String> {
    let first = old.lines().map(str::trim).find(|line| line.chars().count() >= 4)?;
    if old.trim() == first {
        return None;
    }
    let at = body.find(first)?;
    Some(format!(
        "Its first line occurs at line {}; what follows there differs from old_string.",
        line_number(body, at)
    ))
}

fn line_number(text: &str, at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, old: &str, want: &str) {
        let hint = explain(content.as_bytes(), old);
        assert!(hint.contains(want), "{hint:?} lacks {want:?}");
    }

    #[test]
    fn another_encoding_is_named() {
        assert!(explain(b"caf\xe9 x\n", "caf\u{e9}").contains("not UTF-8"));
        assert!(explain(b"caf\xe9 x\n", "caf\u{fffd}").contains("not UTF-8"));
    }

    #[test]
    fn copied_line_numbers_are_recognised() {
        check("fn a() {}\n", "     1\tfn a() {}", "line numbers");
        check("a\nb\n", "     1\ta\n     2\tb\n", "line numbers");
    }

    #[test]
    fn a_newline_that_the_file_does_not_end_with_is_recognised() {
        check("a\nb", "b\n", "does not end with a newline");
    }

    #[test]
    fn double_escaping_is_recognised() {
        check("say \"hi\"\n", "say \\\"hi\\\"", "backslash sequences");
        check("a\n\tb\n", "a\\n\\tb", "backslash sequences");
    }

    #[test]
    fn characters_that_look_alike_are_named() {
        check("x\nsay “hi”\n", "say \"hi\"", "Line 2 looks the same, but the file has “ (U+201C)");
        check("a\u{a0}b\n", "a b", "U+00A0");
        check("a - b\n", "a \u{2013} b", "U+2013");
    }

    #[test]
    fn composed_and_decomposed_letters_are_told_apart() {
        check("cafe\u{301}\n", "caf\u{e9}", "Line 1 differs only in Unicode form");
    }

    #[test]
    fn indentation_is_described_on_both_sides() {
        check("a\n\tif x:\n\t\ty\n", "    if x:\n        y", "starts with 1 tab(s) in the file");
        check("a\n\tif x:\n\t\ty\n", "    if x:\n        y", "4 space(s) in old_string");
        check("if x:\n    y\n", "if x:\n  y", "Line 2 differs only in indentation");
    }

    #[test]
    fn other_whitespace_is_told_from_indentation() {
        check("a  =  1\n", "a = 1", "inside or at the end");
    }

    #[test]
    fn the_place_where_the_text_begins_is_given() {
        check("one\nfn main() {\n  old\n}\n", "fn main() {\n  new\n}", "occurs at line 2");
    }

    #[test]
    fn nothing_is_said_when_nothing_is_near() {
        assert_eq!(explain(b"abc\n", "xyz"), "");
        assert_eq!(explain(b"", "x"), "");
        assert_eq!(explain(&vec![b'x'; MAX_BYTES + 1], "y"), "");
    }
}
