//! The numbered lines around a change, so that the model sees what it did. [pure]

use std::ops::Range;

use super::text::{numbered, show_line};
use crate::secrets::redact::Redactor;

/// Lines shown before and after a change.
const RADIUS: usize = 4;

/// Lines shown in all.
const MAX_LINES: usize = 60;

/// Characters of one line that are shown.
const MAX_LINE_CHARS: usize = 300;

/// Shows the lines of `content` around `spans`, which are in order.
pub(super) fn around(content: &[u8], spans: &[Range<usize>], redactor: &Redactor) -> String {
    let starts = line_starts(content);
    let line_of = |offset: usize| starts.partition_point(|&start| start <= offset).max(1) - 1;
    let mut out = String::new();
    let mut room = MAX_LINES;
    let mut next = 0;
    for span in spans {
        let last_byte = span.end.max(span.start + 1) - 1;
        let from = line_of(span.start).saturating_sub(RADIUS).max(next);
        let to = (line_of(last_byte) + RADIUS + 1).min(starts.len());
        if from > next && next > 0 {
            out.push_str("   ...\n");
        }
        for index in from..to {
            if room == 0 {
                out.push_str("   ... [more lines not shown]\n");
                return out;
            }
            let end = starts.get(index + 1).map_or(content.len(), |&start| start - 1);
            let line = &content[starts[index]..end.max(starts[index])];
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = redactor.redact_bytes(line);
            let shown = show_line(&line, line.len() as u64, MAX_LINE_CHARS);
            numbered(&mut out, index as u64 + 1, &shown);
            room -= 1;
        }
        next = next.max(to);
    }
    out
}

/// Where each line begins; the nothing after a final newline is no line.
fn line_starts(content: &[u8]) -> Vec<usize> {
    let after = memchr::memchr_iter(b'\n', content).map(|end| end + 1);
    std::iter::once(0).chain(after).filter(|&start| start < content.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around_one(content: &[u8], span: Range<usize>) -> String {
        around(content, std::slice::from_ref(&span), &Redactor::default())
    }

    #[test]
    fn four_lines_on_each_side_are_shown() {
        let content: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let at = content.find("line 10").unwrap();
        let shown = around_one(content.as_bytes(), at..at + 7);
        assert!(shown.starts_with("     6\tline 6\n"), "{shown}");
        assert!(shown.ends_with("    14\tline 14\n"), "{shown}");
    }

    #[test]
    fn the_ends_of_a_file_end_the_context() {
        assert_eq!(around_one(b"a\r\nb", 0..1), "     1\ta\n     2\tb\n");
        assert_eq!(around_one(b"a\n", 0..0), "     1\ta\n");
        assert_eq!(around_one(b"a\nb\n", 4..4), "     1\ta\n     2\tb\n");
        assert_eq!(around_one(b"", 0..0), "");
    }

    #[test]
    fn distant_changes_are_shown_apart_and_near_ones_together() {
        let content = "x\n".repeat(40);
        let shown = around(content.as_bytes(), &[0..1, 2..3, 60..61], &Redactor::default());
        assert_eq!(shown.matches("...").count(), 1);
        assert_eq!(shown.matches("     2\tx\n").count(), 1);
    }

    #[test]
    fn a_change_of_many_lines_is_not_repeated_whole() {
        let content = "x\n".repeat(1000);
        let shown = around_one(content.as_bytes(), 0..2000);
        assert_eq!(shown.lines().count(), MAX_LINES + 1);
    }
}
