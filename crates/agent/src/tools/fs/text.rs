//! Bytes as a model is shown them: what counts as text, and how a line looks. [pure]

use std::borrow::Cow;

use crate::truncate;

/// How far into a file a NUL makes it binary.
pub(in crate::tools) const PROBE_BYTES: usize = 8 * 1024;

/// The mark at the start of a file that says it is UTF-8. Hidden from the model, kept on writing.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Why a file that starts like this is not text, as a predicate; nothing for text of any encoding
/// that leaves ASCII alone.
pub(super) fn not_text(start: &[u8]) -> Option<&'static str> {
    let probe = &start[..start.len().min(PROBE_BYTES)];
    memchr::memchr(0, probe)?;
    if probe.starts_with(b"\xff\xfe") || probe.starts_with(b"\xfe\xff") {
        return Some("is UTF-16, which counts as binary here; convert it with iconv in bash");
    }
    Some("is a binary file; look at it with file, strings or xxd in bash")
}

/// One line, without its end, in at most `max` characters. `whole` is its full length in bytes when
/// `line` is only its start.
pub(super) fn show_line(line: &[u8], whole: u64, max: usize) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let shown = truncate::head(&text, max);
    let cut = shown.len() < text.len() || whole > line.len() as u64 + 1;
    // A NUL is valid JSON and still refused by some servers.
    let mut shown = shown.replace('\0', "\u{fffd}");
    if cut {
        shown.push_str(&format!(" [line cut here; it has {whole} bytes]"));
    }
    shown
}

/// A line with its number, as read_file prints it and edit_file repeats it.
pub(super) fn numbered(out: &mut String, number: u64, line: &str) {
    out.push_str(&format!("{number:>6}\t{line}\n"));
}

/// The text with every CRLF as LF.
pub(super) fn with_lf(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_in_the_first_bytes_makes_a_file_binary_and_a_later_one_does_not() {
        assert!(not_text(b"ab\0c").unwrap().contains("binary"));
        assert!(not_text(b"\xff\xfea\0").unwrap().contains("UTF-16"));
        let mut late = vec![b'x'; PROBE_BYTES];
        late.push(0);
        assert_eq!(not_text(&late), None);
        assert_eq!(not_text(b""), None);
        assert_eq!(not_text(b"\xc4\xe3\xba\xc3"), None);
    }

    #[test]
    fn a_line_is_shown_without_its_carriage_return_and_with_unreadable_bytes_marked() {
        assert_eq!(show_line(b"a\r", 2, 10), "a");
        assert_eq!(show_line(b"a\xff\0b", 4, 10), "a\u{fffd}\u{fffd}b");
        assert_eq!(show_line(b"abc", 3, 3), "abc");
    }

    #[test]
    fn a_long_line_says_how_long_it_is() {
        assert_eq!(show_line("äöü".as_bytes(), 6, 2), "äö [line cut here; it has 6 bytes]");
        assert_eq!(show_line(b"ab", 1000, 5), "ab [line cut here; it has 1000 bytes]");
    }
}
