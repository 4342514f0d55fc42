//! Lays a piece of text out as lines of a width: wrapped, cut, and saying what was left out.

use agent::sanitize::{self, Visible};

use super::super::style::{Paint, fit, wrap};

/// Blank lines in a row that are shown as they are; more of them only push text out of sight.
const BLANK_LINES: usize = 2;

/// How the lines of a block are painted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Plain(Paint),
    Diff,
}

impl Kind {
    fn paint(self, line: &str) -> Paint {
        match self {
            Self::Plain(paint) => paint,
            Self::Diff if line.starts_with("@@") => Paint::Cyan,
            Self::Diff if line.starts_with('+') => Paint::Green,
            Self::Diff if line.starts_with('-') => Paint::Red,
            Self::Diff => Paint::Dim,
        }
    }
}

/// A line and how it is painted.
pub(super) type Line = (Paint, Visible<'static>);

/// The lines of `text` in their visible form, each of at most `width` columns, at most `most` of them,
/// and one more that says how many are missing.
///
/// Of a diff the head is kept. Of everything else the tail is kept as well: errors open an output and
/// summaries close it.
pub(super) fn lay_out(text: &str, width: usize, most: usize, kind: Kind) -> Vec<Line> {
    let mut laid = all_lines(text, width, kind);
    if laid.len() > most {
        let head = match kind {
            Kind::Diff => most,
            Kind::Plain(_) => most.div_ceil(2),
        };
        let tail = laid.split_off(laid.len() - (most - head));
        let missing = laid.len() - head;
        laid.truncate(head);
        laid.push(note(&format!("… {missing} more lines"), width));
        laid.extend(tail);
    }
    laid
}

/// All of it.
pub(super) fn all_lines(text: &str, width: usize, kind: Kind) -> Vec<Line> {
    let text = text.trim_end().replace('\t', "    ");
    let text = sanitize::visible(&text);
    if text.is_empty() {
        return vec![(Paint::Dim, Visible::own("(nothing)"))];
    }
    let mut laid = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.trim().is_empty() {
            let paint = kind.paint(line);
            let line = sanitize::one_line(line);
            laid.extend(wrap(&line, width).into_iter().map(|piece| (paint, piece.into_owned())));
            continue;
        }
        let mut blank = 1;
        while lines.next_if(|line| line.trim().is_empty()).is_some() {
            blank += 1;
        }
        if blank > BLANK_LINES {
            laid.push(note(&format!("({blank} blank lines)"), width));
        } else {
            laid.extend((0..blank).map(|_| (Paint::Plain, Visible::own(""))));
        }
    }
    laid
}

fn note(text: &str, width: usize) -> Line {
    (Paint::Dim, fit(&sanitize::one_line(text), width).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: usize, most: usize, want: &[&str]) {
        let laid = lay_out(text, width, most, Kind::Plain(Paint::Plain));
        let lines: Vec<&str> = laid.iter().map(|(_, line)| &**line).collect();
        assert_eq!(lines, want, "{text:?}");
    }

    #[test]
    fn head_and_tail_of_an_output_are_kept_and_what_is_missing_is_counted() {
        check("a\nb\nc", 40, 3, &["a", "b", "c"]);
        check("a\nb\nc\nd\ne", 40, 2, &["a", "… 3 more lines", "e"]);
        check("a\nb\nc\nd\ne", 40, 3, &["a", "b", "… 2 more lines", "e"]);
        check(&"x".repeat(170), 40, 1, &[&"x".repeat(40), "… 4 more lines"]);
        check(" \n", 40, 5, &["(nothing)"]);
    }

    #[test]
    fn of_a_diff_the_head_is_kept() {
        let laid = lay_out("@@ 1\n+a\n-b\n c", 40, 2, Kind::Diff);
        let want = [(Paint::Cyan, "@@ 1"), (Paint::Green, "+a"), (Paint::Dim, "… 2 more lines")];
        assert_eq!(laid, want.map(|(paint, line)| (paint, Visible::own(line))));
    }

    #[test]
    fn padding_does_not_push_text_out_of_sight() {
        let padded = format!("echo hi{}; rm -rf x", "\n".repeat(300));
        check(&padded, 40, 10, &["echo hi", "(299 blank lines)", "; rm -rf x"]);
        check("a\n\n\nb", 9, 9, &["a", "", "", "b"]);
    }

    #[test]
    fn tabs_and_control_characters_take_the_columns_they_are_shown_in() {
        check("\ta\x1b", 40, 9, &["    a\\u{1b}"]);
    }
}
