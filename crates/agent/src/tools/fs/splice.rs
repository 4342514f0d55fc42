//! Replaces one text by another inside a file's bytes, without touching any other byte. [pure]
//!
//! Line ends are matched whatever they are, because the model is shown none of them; the replacement
//! takes the line ends of the place it goes to.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::text::{BOM, with_lf};

/// Matches that are counted before the answer is "at least so many".
pub(super) const MAX_COUNTED: usize = 1000;

/// Changes whose place is remembered, for showing them.
const MAX_PLACES: usize = 50;

/// A file with the replacement made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spliced {
    /// The new content.
    pub(super) content: Vec<u8>,
    /// How many places were changed.
    pub(super) count: usize,
    /// Where in the new content, for the first of them.
    pub(super) places: Vec<Range<usize>>,
}

/// Why nothing was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSplice {
    /// The old text is empty.
    EmptyOld,
    /// Old and new are the same, or differ in line ends only.
    Unchanged,
    /// The old text is not there.
    NoMatch,
    /// The old text is there more than once, and one place was to be changed. The lines of the first
    /// few, and how many there are, overlapping ones included, up to [`MAX_COUNTED`].
    Ambiguous {
        /// Counted from 1.
        lines: Vec<u64>,
        /// All of them.
        count: usize,
    },
}

/// How many places a replacement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    /// Exactly one.
    One,
    /// All, from the front, one pass.
    All,
}

/// Replaces `old` by `new`.
pub(super) fn splice(
    content: &[u8],
    old: &str,
    new: &str,
    places: Places,
) -> Result<Spliced, NoSplice> {
    let body = content.strip_prefix(BOM).unwrap_or(content);
    let old = with_lf(old.trim_start_matches('\u{feff}'));
    // A file without line ends has none to go by; the new text then keeps its own.
    let own_ends = memchr::memchr(b'\n', body).is_none();
    let new = new.trim_start_matches('\u{feff}');
    let new = if own_ends { Cow::Borrowed(new) } else { with_lf(new) };
    if old.is_empty() {
        return Err(NoSplice::EmptyOld);
    }
    if old == with_lf(&new) {
        return Err(NoSplice::Unchanged);
    }
    let view = LfView::new(body);
    let finder = memmem::Finder::new(old.as_bytes());
    let Some(first) = finder.find(&view.text) else {
        return Err(NoSplice::NoMatch);
    };
    if places == Places::One {
        demand_unique(&view, &finder, first)?;
    }

    let change = Change::between(old.as_bytes(), new.as_bytes());
    let mut out = Vec::with_capacity(content.len() + new.len());
    out.extend_from_slice(&content[..content.len() - body.len()]);
    let mut done = Spliced { content: out, count: 0, places: Vec::new() };
    change_each(&mut done, &view, (&finder, first), &change, places);
    Ok(done)
}

/// Appends the whole body, with the change made at its first place or at all of them.
fn change_each(
    done: &mut Spliced,
    view: &LfView<'_>,
    (finder, first): (&memmem::Finder<'_>, usize),
    change: &Change<'_>,
    places: Places,
) {
    let (body, old_len) = (view.body, finder.needle().len());
    let mut copied = 0;
    let mut search_from = first;
    while let Some(found) = finder.find(&view.text[search_from..]) {
        let at = search_from + found;
        let matched = view.original(at)..view.original(at + old_len);
        let replaced =
            view.original(at + change.prefix)..view.original(at + old_len - change.suffix);
        done.content.extend_from_slice(&body[copied..replaced.start]);
        let start = done.content.len();
        push_with_ends(&mut done.content, change.new, ends_near(body, &matched));
        if done.places.len() < MAX_PLACES {
            done.places.push(start..done.content.len());
        }
        copied = replaced.end;
        done.count += 1;
        search_from = at + old_len;
        if places == Places::One {
            break;
        }
    }
    done.content.extend_from_slice(&body[copied..]);
}

fn demand_unique(
    view: &LfView<'_>,
    finder: &memmem::Finder<'_>,
    first: usize,
) -> Result<(), NoSplice> {
    let mut count = 1;
    let mut starts = vec![first];
    let mut last = first;
    while count < MAX_COUNTED {
        // From the next byte on, so that matches that overlap are seen.
        let Some(found) = finder.find(&view.text[last + 1..]) else { break };
        last += 1 + found;
        count += 1;
        if starts.len() < 10 {
            starts.push(last);
        }
    }
    if count == 1 {
        return Ok(());
    }
    let line = |&at: &usize| memchr::memchr_iter(b'\n', &view.text[..at]).count() as u64 + 1;
    Err(NoSplice::Ambiguous { lines: starts.iter().map(line).collect(), count })
}

/// The part in which two texts differ. What they share at both ends is not rewritten, so that lines
/// with unlike ends keep theirs.
struct Change<'t> {
    prefix: usize,
    suffix: usize,
    new: &'t [u8],
}

impl<'t> Change<'t> {
    fn between(old: &[u8], new: &'t [u8]) -> Self {
        let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let rest = old.len().min(new.len()) - prefix;
        let suffix =
            old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
        Self { prefix, suffix, new: &new[prefix..new.len() - suffix] }
    }
}

/// A content with every CRLF as LF, and the way back to the real offsets.
struct LfView<'c> {
    body: &'c [u8],
    text: Cow<'c, [u8]>,
    /// Offsets in `text` of the LFs whose CR was left out.
    crlf: Vec<usize>,
}

impl<'c> LfView<'c> {
    fn new(body: &'c [u8]) -> Self {
        let mut text = Vec::new();
        let mut crlf = Vec::new();
        let mut copied = 0;
        for end in memchr::memchr_iter(b'\n', body) {
            if end > 0 && body[end - 1] == b'\r' {
                text.extend_from_slice(&body[copied..end - 1]);
                crlf.push(text.len());
                copied = end;
            }
        }
        if crlf.is_empty() {
            return Self { body, text: Cow::Borrowed(body), crlf };
        }
        text.extend_from_slice(&body[copied..]);
        Self { body, text: Cow::Owned(text), crlf }
    }

    /// The real offset of an offset in `text`. In front of an LF it is in front of its CR.
    fn original(&self, offset: usize) -> usize {
        offset + self.crlf.partition_point(|&lf| lf < offset)
    }
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Lf,
    CrLf,
}

/// How lines end in the matched text, or else nearest to it.
fn ends_near(body: &[u8], matched: &Range<usize>) -> Ends {
    let inside = memchr::memchr(b'\n', &body[matched.clone()]).map(|at| matched.start + at);
    let after = || memchr::memchr(b'\n', &body[matched.end..]).map(|at| matched.end + at);
    let before = || memchr::memrchr(b'\n', &body[..matched.start]);
    match inside.or_else(after).or_else(before) {
        Some(end) if end > 0 && body[end - 1] == b'\r' => Ends::CrLf,
        _ => Ends::Lf,
    }
}

fn push_with_ends(out: &mut Vec<u8>, text: &[u8], ends: Ends) {
    if ends == Ends::Lf {
        out.extend_from_slice(text);
        return;
    }
    let mut copied = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        out.extend_from_slice(&text[copied..end]);
        out.push(b'\r');
        copied = end;
    }
    out.extend_from_slice(&text[copied..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(content: &str, old: &str, new: &str, want: &str) {
        let done = splice(content.as_bytes(), old, new, Places::One).unwrap();
        assert_eq!(String::from_utf8(done.content).unwrap(), want);
    }

    #[test]
    fn crlf_files_keep_their_line_ends() {
        check("one\r\ntwo\r\n", "two", "2\n3", "one\r\n2\r\n3\r\n");
        check("a\r\nb\r\n", "a\nb\n", "x\ny\n", "x\r\ny\r\n");
        check("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n");
        check("a\r\nb\r\n", "a\n", "a\nnew\n", "a\r\nnew\r\nb\r\n");
    }

    #[test]
    fn lines_with_unlike_ends_keep_theirs() {
        check("a\nb\r\nc\nd\r\n", "a\nb\nc\nd", "a\nb\nC\nd", "a\nb\r\nC\nd\r\n");
    }

    #[test]
    fn a_file_without_line_ends_takes_those_of_the_new_text() {
        check("ab", "b", "b\r\nc", "ab\r\nc");
        check("ab", "b", "b\nc", "ab\nc");
    }

    #[test]
    fn a_byte_order_mark_is_neither_matched_nor_lost() {
        check("\u{feff}a b", "a", "c", "\u{feff}c b");
        check("\u{feff}a b", "\u{feff}a", "c", "\u{feff}c b");
    }

    #[test]
    fn replacing_all_is_one_pass_from_the_front() {
        let done = splice(b"aaa a", "aa", "aaaa", Places::All).unwrap();
        assert_eq!((done.content.as_slice(), done.count), (&b"aaaaa a"[..], 1));
        let done = splice(b"x\r\ny\r\nx\r\n", "x\n", "z\n", Places::All).unwrap();
        assert_eq!((done.content.as_slice(), done.count), (&b"z\r\ny\r\nz\r\n"[..], 2));
        assert_eq!(done.places, [0..1, 6..7]);
    }

    #[test]
    fn what_cannot_be_replaced_says_why() {
        let fails = |content: &str, old: &str, new: &str| {
            splice(content.as_bytes(), old, new, Places::One).unwrap_err()
        };
        assert_eq!(fails("a", "", "b"), NoSplice::EmptyOld);
        assert_eq!(fails("a\r\nb", "a\nb", "a\r\nb"), NoSplice::Unchanged);
        assert_eq!(fails("a", "b", "c"), NoSplice::NoMatch);
        assert_eq!(fails("aaa", "aa", "b"), NoSplice::Ambiguous { lines: vec![1, 1], count: 2 });
        assert_eq!(
            fails("x\nx\r\nx", "x", "y"),
            NoSplice::Ambiguous { lines: vec![1, 2, 3], count: 3 }
        );
    }

    #[test]
    fn counting_ends_somewhere() {
        let content = "a".repeat(100_000);
        let error = splice(content.as_bytes(), "aa", "b", Places::One).unwrap_err();
        assert!(matches!(error, NoSplice::Ambiguous { count: MAX_COUNTED, .. }));
    }

    proptest! {
        #[test]
        fn bytes_outside_the_match_never_change(
            before in proptest::collection::vec(any::<u8>(), 0..40),
            after in proptest::collection::vec(any::<u8>(), 0..40),
            new in "[a-z\n]{0,8}",
        ) {
            // Upper case and a byte that UTF-8 never has keep the match from lying anywhere else.
            let old = "NEEDLE\nEYE";
            let mut content = before.clone();
            content.extend_from_slice(b"\xf8NEEDLE\r\nEYE\xf8");
            content.extend_from_slice(&after);
            if let Ok(done) = splice(&content, old, &new, Places::One) {
                let mut want = before;
                want.push(0xf8);
                want.extend(new.replace('\n', "\r\n").bytes());
                want.push(0xf8);
                want.extend(after);
                prop_assert_eq!(done.content, want);
            } else {
                prop_assert!(false, "the needle is there once");
            }
        }

        #[test]
        fn a_plain_text_is_replaced_like_the_standard_library_does(
            content in "[ab\n]{0,30}", old in "[ab\n]{1,3}", new in "[abc\n]{0,4}",
        ) {
            prop_assume!(old != new);
            match splice(content.as_bytes(), &old, &new, Places::All) {
                Ok(done) => prop_assert_eq!(
                    String::from_utf8(done.content).unwrap(), content.replace(&old, &new)
                ),
                Err(error) => {
                    prop_assert_eq!(error, NoSplice::NoMatch);
                    prop_assert!(!content.contains(&old));
                }
            }
        }
    }
}
