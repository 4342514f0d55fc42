//! A unified diff for a person: short for what was done, whole for what is to be approved.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use crate::sanitize;
use crate::secrets::Redactor;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Bytes in which old and new may differ; beyond, the lines are counted and not compared.
const MAX_COMPARED: usize = 256 * 1024;

/// Bytes of the whole, in keeping with what is shown of any result.
const MAX_BYTES: usize = 7_500;

/// Characters of one line.
const MAX_LINE_CHARS: usize = 300;

/// Time after which the comparison takes the first answer it has.
const PATIENCE: Duration = Duration::from_millis(200);

/// Compares two contents of the file called `name`, and is cut where it grows long.
pub(super) fn unified(name: &str, before: &[u8], after: &[u8], redactor: &Redactor) -> String {
    let mut out = header(name, before);
    let part = Differing::between(before, after);
    let (old, new) = part.of(before, after);
    if old.len().max(new.len()) > MAX_COMPARED {
        let (minus, plus) = (count_lines(old), count_lines(new));
        push(&mut out, format_args!("[{minus} lines become {plus}; too much to show]\n"));
        return out;
    }
    hunks(&mut out, old, new, part.first_line, Length::Short(redactor));
    out
}

/// The same with nothing left out, or nothing where there is too much to compare.
pub(super) fn whole(name: &str, before: &[u8], after: &[u8]) -> Option<String> {
    let part = Differing::between(before, after);
    let (old, new) = part.of(before, after);
    if old.len().max(new.len()) > MAX_COMPARED {
        return None;
    }
    let mut out = header(name, before);
    hunks(&mut out, old, new, part.first_line, Length::Whole);
    Some(out)
}

fn header(name: &str, before: &[u8]) -> String {
    // A name with a line break would put a line of its own choice into the diff.
    let name = sanitize::one_line(name);
    let old_name = if before.is_empty() { "/dev/null" } else { &*name };
    format!("--- {old_name}\n+++ {name}\n")
}

fn text(part: &[u8], crlf: bool) -> String {
    let text = String::from_utf8_lossy(part);
    if crlf { text.replace("\r\n", "\n") } else { text.into_owned() }
}

/// How much of a diff is wanted.
#[derive(Debug, Clone, Copy)]
enum Length<'r> {
    /// Enough to see what was done, without secrets, which are not recognised any more once they are cut.
    Short(&'r Redactor),
    /// All of it.
    Whole,
}

fn hunks(out: &mut String, old: &[u8], new: &[u8], first_line: usize, length: Length<'_>) {
    // Where lines end in CR LF throughout, showing every CR would say nothing.
    let crlf = [old, new].iter().all(|part| every_line_ends_in_crlf(part));
    let (old, new) = (text(old, crlf), text(new, crlf));
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(&old, &new);
    for group in diff.grouped_ops(CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        let (minus, plus) = (range(&old_range, first_line), range(&new_range, first_line));
        push(out, format_args!("@@ -{minus} +{plus} @@\n"));
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            line(out, change.tag(), change.value(), length);
            if matches!(length, Length::Short(_)) && out.len() > MAX_BYTES {
                out.push_str("[diff cut here]\n");
                return;
            }
        }
    }
}

fn line(out: &mut String, tag: ChangeTag, line: &str, length: Length<'_>) {
    let sign = match tag {
        ChangeTag::Delete => '-',
        ChangeTag::Insert => '+',
        ChangeTag::Equal => ' ',
    };
    let all = line.strip_suffix('\n').unwrap_or(line);
    let all = match length {
        Length::Short(redactor) => redactor.redact(all),
        Length::Whole => Cow::Borrowed(all),
    };
    let shown = match length {
        Length::Short(_) => crate::truncate::head(&all, MAX_LINE_CHARS),
        Length::Whole => &all,
    };
    let cut = if shown.len() < all.len() { " [cut]" } else { "" };
    push(out, format_args!("{sign}{shown}{cut}\n"));
    if !line.ends_with('\n') {
        out.push_str("\\ No newline at end of file\n");
    }
}

/// A hunk's range, whose line numbers count from 1, and from the line before when it is empty.
fn range(lines: &Range<usize>, first_line: usize) -> String {
    let start = first_line + lines.start;
    match lines.len() {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    }
}

/// Whole lines in which two contents differ, with the context around them.
struct Differing {
    old: Range<usize>,
    new: Range<usize>,
    /// Lines in front of both.
    first_line: usize,
}

impl Differing {
    fn between(old: &[u8], new: &[u8]) -> Self {
        let shorter = old.len().min(new.len());
        let same_start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let same_end = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take(shorter - same_start)
            .take_while(|(a, b)| a == b)
            .count();
        let start = lines_back(&old[..same_start]);
        let after = lines_on(&old[old.len() - same_end..]);
        Self {
            old: start..old.len() - same_end + after,
            new: start..new.len() - same_end + after,
            first_line: count_lines(&old[..start]),
        }
    }

    /// These lines in both contents.
    fn of<'a>(&self, old: &'a [u8], new: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        (&old[self.old.clone()], &new[self.new.clone()])
    }
}

/// The start of the line `CONTEXT` lines before the end of `text`.
fn lines_back(text: &[u8]) -> usize {
    memchr::memrchr_iter(b'\n', text).nth(CONTEXT).map_or(0, |end| end + 1)
}

/// The end of the line `CONTEXT` lines after the start of `text`.
fn lines_on(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).nth(CONTEXT).map_or(text.len(), |end| end + 1)
}

fn count_lines(text: &[u8]) -> usize {
    let ends = memchr::memchr_iter(b'\n', text).count();
    ends + usize::from(text.last().is_some_and(|&byte| byte != b'\n'))
}

fn every_line_ends_in_crlf(part: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', part).all(|end| end > 0 && part[end - 1] == b'\r')
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified(name: &str, before: &[u8], after: &[u8]) -> String {
        super::unified(name, before, after, &Redactor::default())
    }

    #[test]
    fn a_secret_where_a_line_is_cut_leaves_no_half() {
        let secret = "sk-test-0123456789abcdef0123";
        for before in MAX_LINE_CHARS - 40..MAX_LINE_CHARS {
            let line = "x ".repeat(before / 2) + secret + &" y".repeat(MAX_LINE_CHARS);
            let diff = unified("a", b"", line.as_bytes());
            assert!(diff.contains("[cut]"), "{diff}");
            assert!(!diff.contains("sk-t"), "{diff}");
        }
    }

    fn numbers(range: Range<usize>) -> String {
        range.map(|n| format!("{n}\n")).collect()
    }

    #[test]
    fn a_name_with_a_line_break_stays_on_its_line() {
        let diff = unified("a\n+ok\nb", b"", b"x\n");
        assert!(diff.starts_with("--- /dev/null\n+++ a\\n+ok\\nb\n@@ "), "{diff}");
    }

    #[test]
    fn a_change_is_shown_with_three_lines_around_it_and_real_line_numbers() {
        let before = numbers(1..1000);
        let after = before.replace("\n500\n", "\nfive hundred\n");
        assert_eq!(
            unified("a.txt", before.as_bytes(), after.as_bytes()),
            "--- a.txt\n+++ a.txt\n@@ -497,7 +497,7 @@\n 497\n 498\n 499\n-500\n+five hundred\n 501\n 502\n 503\n"
        );
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let before = numbers(1..100);
        let after = before.replacen("2\n", "two\n", 1).replace("\n90\n", "\nninety\n");
        let diff = unified("a", before.as_bytes(), after.as_bytes());
        assert!(diff.contains("@@ -1,5 +1,5 @@\n 1\n-2\n+two\n"), "{diff}");
        assert!(diff.contains("@@ -87,7 +87,7 @@\n"), "{diff}");
    }

    #[test]
    fn a_new_file_is_all_additions() {
        assert_eq!(
            unified("a", b"", b"x\ny"),
            "--- /dev/null\n+++ a\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn the_end_of_a_file_is_shown_right() {
        assert_eq!(
            unified("a", b"x\ny\n", b"x\ny\nz\n"),
            "--- a\n+++ a\n@@ -1,2 +1,3 @@\n x\n y\n+z\n"
        );
        assert_eq!(unified("a", b"x\n", b""), "--- a\n+++ a\n@@ -1 +0,0 @@\n-x\n");
    }

    #[test]
    fn carriage_returns_are_shown_only_where_they_make_the_difference() {
        assert!(!unified("a", b"x\r\ny\r\n", b"x\r\nz\r\n").contains('\r'));
        assert!(unified("a", b"x\r\n", b"x\n").contains("-x\r\n+x\n"));
        let mixed = unified("a", b"x\r\ny\n", b"x\r\ny\r\n");
        assert!(mixed.contains("-y\n+y\r\n"), "{mixed:?}");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let many = numbers(0..20_000);
        let diff = unified("a", b"", many.as_bytes());
        assert!(diff.len() < MAX_BYTES + 100);
        assert!(diff.ends_with("[diff cut here]\n"), "{diff}");
        let long = "x".repeat(10_000);
        assert!(unified("a", b"", long.as_bytes()).contains(" [cut]\n"));
        let huge = "x\n".repeat(MAX_COMPARED);
        assert!(unified("a", b"", huge.as_bytes()).contains("[0 lines become 262144; too much"));
    }

    #[test]
    fn a_whole_diff_leaves_nothing_out_or_is_none() {
        let many = numbers(0..20_000) + &"x".repeat(10_000) + " end\n";
        let diff = whole("a", b"", many.as_bytes()).unwrap();
        assert_eq!(diff.lines().filter(|line| line.starts_with('+')).count(), 20_002);
        assert!(diff.ends_with("x end\n") && !diff.contains("cut"));
        assert_eq!(whole("a", b"", "x\n".repeat(MAX_COMPARED).as_bytes()), None);
    }
}
