//! Secrets that a program broke into lines, as `base64` and `fold` do. [pure]

use std::ops::Range;

use super::{Label, Needles};

/// A text without its line ends, and where they were.
struct Joined {
    text: Vec<u8>,
    /// For each run of line ends: where in `text` it was, and how many bytes were left out up to there.
    breaks: Vec<(usize, usize)>,
}

impl Joined {
    fn of(text: &[u8]) -> Self {
        let mut joined = Self { text: Vec::with_capacity(text.len()), breaks: Vec::new() };
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', text) {
            let line = &text[from..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            joined.text.extend_from_slice(line);
            from = end + 1;
            joined.breaks.push((joined.text.len(), from - joined.text.len()));
        }
        joined.text.extend_from_slice(&text[from..]);
        joined
    }

    /// Whether a line ended inside the range.
    fn is_broken(&self, range: &Range<usize>) -> bool {
        let at = self.breaks.partition_point(|(place, _)| *place <= range.start);
        self.breaks.get(at).is_some_and(|(place, _)| *place < range.end)
    }

    /// Where a range lay in the text with its line ends.
    fn original(&self, range: &Range<usize>) -> Range<usize> {
        let left_out = |breaks: usize| breaks.checked_sub(1).map_or(0, |at| self.breaks[at].1);
        let before_start = self.breaks.partition_point(|(place, _)| *place <= range.start);
        let before_end = self.breaks.partition_point(|(place, _)| *place < range.end);
        range.start + left_out(before_start)..range.end + left_out(before_end)
    }
}

impl Needles {
    /// Where forms of values lie across the ends of lines.
    pub(super) fn find_wrapped(&self, text: &[u8]) -> Vec<(Range<usize>, Label)> {
        if memchr::memchr(b'\n', text).is_none() || self.owners.is_empty() {
            return Vec::new();
        }
        let joined = Joined::of(text);
        let found = self.automaton.find_overlapping_iter(&joined.text);
        let broken = found.filter(|found| joined.is_broken(&found.range()));
        let owned = broken.filter_map(|found| {
            let owner = self.owners.get(found.pattern().as_usize())?;
            Some((joined.original(&found.range()), Label::Name(*owner)))
        });
        owned.collect()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use crate::secrets::redact::Redactor;

    const SECRET: &str = "q7Rk2mZp9LxVb4Tn-and-some-more";

    #[test]
    fn a_secret_is_found_wherever_its_lines_were_broken() {
        let redactor = Redactor::new([("NAME", SECRET)]);
        for end in ["\n", "\r\n"] {
            for cut in 1..SECRET.len() {
                let (head, tail) = SECRET.split_at(cut);
                let text = format!("a\n\nb {head}{end}{tail} c\nd");
                assert_eq!(redactor.redact(&text), "a\n\nb «redacted:NAME» c\nd", "{cut}");
            }
        }
    }

    #[test]
    fn base64_in_lines_of_any_width_is_found() {
        let redactor = Redactor::new([("NAME", SECRET)]);
        for width in [8, 12, 64, 76] {
            for before in 0..80 {
                let encoded = STANDARD.encode("x".repeat(before) + SECRET + "yz");
                let lines: Vec<&str> = encoded
                    .as_bytes()
                    .chunks(width)
                    .map(|line| std::str::from_utf8(line).unwrap())
                    .collect();
                let redacted = redactor.redact(&lines.join("\n")).into_owned();
                assert!(redacted.contains("«redacted:NAME»"), "{width} {before}: {redacted}");
                assert!(!redacted.replace('\n', "").contains("UmsybVpwOUx4"), "{redacted}");
            }
        }
    }

    #[test]
    fn lines_that_only_follow_each_other_stay() {
        let redactor = Redactor::new([("NAME", SECRET)]);
        let text = "q7Rk2mZp9LxVb4Tn\nand\nsome\nmore\n";
        assert_eq!(redactor.redact(text), text);
    }
}
