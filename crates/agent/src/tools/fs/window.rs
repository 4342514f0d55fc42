//! Picks numbered lines out of a file that comes in pieces, in bounded memory. [pure]

use super::text::{BOM, numbered, show_line};

/// Characters of one line that are shown.
pub(super) const MAX_LINE_CHARS: usize = 2000;

/// Characters that are shown in all: below what the registry cuts from the middle of a result, so that
/// a large read ends with the advice on how to go on.
const MAX_CHARS: usize = 36_000;

/// Bytes of a line that are kept: as many as its shown characters can have, and one to know of more.
const MAX_LINE_BYTES: usize = MAX_LINE_CHARS * 4 + 1;

/// The lines `first` to `first + limit` of what is fed to it.
#[derive(Debug)]
pub(super) struct Window {
    first: u64,
    limit: u64,
    /// The number of the line that the next byte belongs to.
    line: u64,
    /// The start of that line, and its full length so far.
    kept: Vec<u8>,
    length: u64,
    last_byte: Option<u8>,
    shown: u64,
    closed: bool,
    is_utf8: bool,
    text: String,
    chars: usize,
}

/// What a window shows of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// The numbered lines.
    pub(super) text: String,
    /// How many of them.
    pub(super) lines: u64,
    /// How many lines there are.
    pub(super) total: Total,
    /// Whether all shown bytes were valid UTF-8.
    pub(super) is_utf8: bool,
}

/// How many lines a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Total {
    /// So many.
    Lines(u64),
    /// More than were shown; nobody counted.
    More,
}

/// How far a file was fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    /// To its end.
    Whole,
    /// At least until the window closed, with more to come.
    UntilClosed,
}

impl Window {
    /// A window that opens at line `first`, counted from 1.
    pub(super) fn new(first: u64, limit: u64) -> Self {
        Self {
            first,
            limit,
            line: 1,
            kept: Vec::new(),
            length: 0,
            last_byte: None,
            shown: 0,
            closed: false,
            is_utf8: true,
            text: String::new(),
            chars: 0,
        }
    }

    /// Takes the next piece.
    pub(super) fn feed(&mut self, mut piece: &[u8]) {
        let Some(&last) = piece.last() else { return };
        if self.line < self.first {
            let before = self.first - self.line;
            let mut ends = memchr::memchr_iter(b'\n', piece);
            let skip = usize::try_from(before - 1).unwrap_or(usize::MAX);
            match ends.nth(skip) {
                Some(end) => {
                    self.line = self.first;
                    piece = &piece[end + 1..];
                }
                None => {
                    self.line += memchr::memchr_iter(b'\n', piece).count() as u64;
                    piece = &[];
                }
            }
        }
        while !self.closed && !piece.is_empty() {
            match memchr::memchr(b'\n', piece) {
                Some(end) => {
                    self.take(&piece[..end]);
                    self.end_line();
                    self.line += 1;
                    piece = &piece[end + 1..];
                }
                None => {
                    self.take(piece);
                    piece = &[];
                }
            }
        }
        self.line += memchr::memchr_iter(b'\n', piece).count() as u64;
        self.last_byte = Some(last);
    }

    /// Whether nothing that is still to come would be shown.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// What there is to show, after the last piece.
    pub(super) fn finish(mut self, fed: Fed) -> Shown {
        if fed == Fed::UntilClosed {
            let (text, lines, is_utf8) = (self.text, self.shown, self.is_utf8);
            return Shown { text, lines, total: Total::More, is_utf8 };
        }
        let ended = self.last_byte.is_none_or(|byte| byte == b'\n');
        if !ended && !self.closed && self.line >= self.first {
            self.end_line();
        }
        let total = Total::Lines(if ended { self.line - 1 } else { self.line });
        Shown { text: self.text, lines: self.shown, total, is_utf8: self.is_utf8 }
    }

    fn take(&mut self, part: &[u8]) {
        self.length += part.len() as u64;
        let room = MAX_LINE_BYTES - self.kept.len();
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self) {
        let bom = if self.line == 1 && self.kept.starts_with(BOM) { BOM.len() } else { 0 };
        let line = show_line(&self.kept[bom..], self.length - bom as u64, MAX_LINE_CHARS);
        // Past the number and the tab, and counting in characters as the registry does.
        let chars = line.chars().count() + 8;
        if self.shown > 0 && self.chars + chars > MAX_CHARS {
            self.closed = true;
        } else {
            numbered(&mut self.text, self.line, &line);
            self.chars += chars;
            self.shown += 1;
            self.closed = self.shown == self.limit;
            let whole = self.length == self.kept.len() as u64;
            self.is_utf8 &= !whole || std::str::from_utf8(&self.kept).is_ok();
        }
        self.kept.clear();
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(content: &[u8], first: u64, limit: u64) -> Shown {
        let mut whole = Window::new(first, limit);
        whole.feed(content);
        let whole = whole.finish(Fed::Whole);
        for size in 1..content.len().min(20) {
            let mut pieces = Window::new(first, limit);
            content.chunks(size).for_each(|piece| pieces.feed(piece));
            assert_eq!(pieces.finish(Fed::Whole), whole, "in pieces of {size}");
        }
        whole
    }

    #[track_caller]
    fn check(content: &[u8], first: u64, limit: u64, text: &str, total: u64) {
        let shown = window(content, first, limit);
        assert_eq!((shown.text.as_str(), shown.total), (text, Total::Lines(total)));
    }

    #[test]
    fn the_lines_asked_for_are_numbered_and_all_are_counted() {
        check(b"a\nb\nc\nd\n", 2, 2, "     2\tb\n     3\tc\n", 4);
        check(b"a\nb", 1, 9, "     1\ta\n     2\tb\n", 2);
        check(b"\n\n", 1, 9, "     1\t\n     2\t\n", 2);
        check(b"", 1, 9, "", 0);
    }

    #[test]
    fn an_opening_after_the_end_shows_nothing_and_still_counts() {
        check(b"a\nb\n", 3, 1, "", 2);
        check(b"a\nb", 9, 1, "", 2);
    }

    #[test]
    fn line_ends_of_any_kind_and_a_byte_order_mark_are_not_shown() {
        check(b"\xef\xbb\xbfa\r\nb\r\n", 1, 9, "     1\ta\n     2\tb\n", 2);
        check(b"10%\r20%\n", 1, 9, "     1\t10%\r20%\n", 1);
    }

    #[test]
    fn a_closed_window_needs_no_more_and_says_that_there_may_be_more() {
        let mut window = Window::new(1, 2);
        window.feed(b"a\n");
        assert!(!window.is_closed());
        window.feed(b"b\nc\n");
        assert!(window.is_closed());
        assert_eq!(window.finish(Fed::UntilClosed).total, Total::More);
    }

    #[test]
    fn unreadable_bytes_are_told() {
        assert!(!window(b"ok\n\xff\n", 1, 9).is_utf8);
        assert!(window(b"ok\n\xff\n", 1, 1).is_utf8, "only what is shown counts");
    }

    #[test]
    fn a_line_of_megabytes_costs_no_more_than_its_shown_part() {
        let mut window = Window::new(1, 10);
        for _ in 0..100 {
            window.feed(&[b'x'; 100_000]);
            assert!(window.kept.len() <= MAX_LINE_BYTES);
        }
        let shown = window.finish(Fed::Whole);
        assert!(shown.text.chars().count() < MAX_LINE_CHARS + 100);
        assert!(shown.text.contains("it has 10000000 bytes"), "{}", shown.text);
    }

    #[test]
    fn a_window_closes_before_the_text_grows_too_large() {
        let content = "x".repeat(1000) + "\n";
        let shown = window(content.repeat(100).as_bytes(), 1, 2000);
        assert_eq!(shown.lines, 35);
        assert_eq!(shown.total, Total::Lines(100));
    }
}
