//! Lays a piece of text out as lines of a width: wrapped, cut, and saying what was left out.

use agent::sanitize;

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

/// The lines of `text` in their visible form, at most `most` of at most `width` columns, and one more
/// that says what is missing.
pub(super) fn lay_out(text: &str, width: usize, most: usize, kind: Kind) -> Vec<(Paint, String)> {
    let text = sanitize::visible(text.trim_end()).replace('\t', "    ");
    if text.is_empty() {
        return vec![(Paint::Dim, "(nothing)".to_owned())];
    }
    let mut laid = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if laid.len() >= most {
            laid.push(note(&format!("… {} more lines", lines.count() + 1), width));
            return laid;
        }
        if line.trim().is_empty() {
            let mut blank = 1;
            while lines.next_if(|line| line.trim().is_empty()).is_some() {
                blank += 1;
            }
            if blank > BLANK_LINES {
                laid.push(note(&format!("({blank} blank lines)"), width));
            } else {
                laid.extend((0..blank).map(|_| (Paint::Plain, String::new())));
            }
            continue;
        }
        let paint = kind.paint(line);
        let pieces = wrap(line, width);
        let room = most - laid.len();
        laid.extend(pieces.iter().take(room).map(|piece| (paint, (*piece).to_owned())));
        if pieces.len() > room {
            let more = match lines.count() {
                0 => "… the line goes on".to_owned(),
                more => format!("… the line goes on, then {more} more lines"),
            };
            laid.push(note(&more, width));
            return laid;
        }
    }
    laid
}

fn note(text: &str, width: usize) -> (Paint, String) {
    (Paint::Dim, fit(text, width).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: usize, most: usize, want: &[&str]) {
        let laid = lay_out(text, width, most, Kind::Plain(Paint::Plain));
        let lines: Vec<&str> = laid.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(lines, want, "{text:?}");
    }

    #[test]
    fn what_is_left_out_is_said() {
        check("a\nb\nc", 9, 3, &["a", "b", "c"]);
        check("a\nb\nc\nd", 40, 2, &["a", "b", "… 2 more lines"]);
        let (long, width) = ("x".repeat(100), 40);
        let part = "x".repeat(width);
        check(&long, width, 2, &[&part, &part, "… the line goes on"]);
        check(&format!("{long}\nc"), width, 1, &[&part, "… the line goes on, then 1 more lines"]);
        check(" \n", 5, 5, &["(nothing)"]);
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
