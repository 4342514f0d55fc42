//! Turns the bytes a command printed into text without control sequences, piece by piece.
//!
//! A model has no terminal: escape sequences are noise to it, can hide text from the person who reads
//! along, and NUL is refused by some servers. What is removed is removed on purpose, in full: sequences of
//! ECMA-48 in their 7-bit and 8-bit forms, and every control character but tab, line feed and carriage
//! return. Bytes that are not UTF-8 become U+FFFD.

/// A filter over one stream; pieces may be cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Plain {
    state: State,
    /// The beginning of a character whose end has not come yet, at most three bytes.
    partial: Vec<u8>,
}

/// Where in a control sequence the stream is.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    /// In none.
    #[default]
    Text,
    /// After ESC, and after intermediate bytes that followed it.
    Escape,
    /// In a control sequence: parameters and intermediates until a final byte.
    Control,
    /// In a control string (a title, a clipboard, a picture) until its terminator.
    String,
    /// After ESC in a control string; a backslash ends it.
    StringEscape,
}

impl Plain {
    /// The text of a whole stream.
    pub(super) fn of(bytes: &[u8]) -> String {
        let mut plain = Self::default();
        let mut text = String::with_capacity(bytes.len());
        plain.push(bytes, &mut text);
        plain.finish(&mut text);
        text
    }

    /// Appends the text of the next piece.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut String) {
        if self.partial.is_empty() {
            return self.decode(bytes, out);
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(bytes);
        self.decode(&joined, out);
    }

    /// Ends the stream: a character that was cut off is shown as broken.
    pub(super) fn finish(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.partial).is_empty() && self.state == State::Text {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn decode(&mut self, mut bytes: &[u8], out: &mut String) {
        loop {
            match std::str::from_utf8(bytes) {
                Ok(valid) => return self.filter(valid, out),
                Err(error) => {
                    let (valid, rest) = bytes.split_at(error.valid_up_to());
                    self.filter(std::str::from_utf8(valid).unwrap_or_default(), out);
                    let Some(broken) = error.error_len() else {
                        self.partial.extend_from_slice(rest);
                        return;
                    };
                    self.filter("\u{fffd}", out);
                    bytes = &rest[broken..];
                }
            }
        }
    }

    fn filter(&mut self, mut text: &str, out: &mut String) {
        loop {
            if self.state == State::Text {
                let plain = text.bytes().position(may_be_control).unwrap_or(text.len());
                out.push_str(&text[..plain]);
                text = &text[plain..];
            }
            let mut rest = text.chars();
            let Some(next) = rest.next() else { return };
            self.step(next, out);
            text = rest.as_str();
        }
    }

    fn step(&mut self, next: char, out: &mut String) {
        self.state = match (self.state, next) {
            // Cancelled, or begun anew.
            (_, '\u{18}' | '\u{1a}') => State::Text,
            (State::String, '\u{1b}') => State::StringEscape,
            (_, '\u{1b}') => State::Escape,
            (State::String, '\u{7}') | (State::String | State::StringEscape, '\u{9c}') => {
                State::Text
            }
            (State::StringEscape, '\\') => State::Text,
            // No terminator may be missing for longer than a line, or one byte would hide all that follows.
            (State::String | State::StringEscape | State::Escape | State::Control, '\n') => {
                out.push(next);
                State::Text
            }
            (State::String, _) => State::String,
            (_, '\u{9b}') | (State::Escape | State::StringEscape, '[') => State::Control,
            (_, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}')
            | (State::Escape | State::StringEscape, 'P' | 'X' | ']' | '^' | '_') => State::String,
            (State::Escape | State::StringEscape, ' '..='/') => State::Escape,
            (State::Escape | State::StringEscape, '0'..='~') => State::Text,
            (State::Control, ' '..='?') => State::Control,
            (State::Control, '@'..='~') => State::Text,
            (_, other) => {
                if !other.is_control() || matches!(other, '\t' | '\n' | '\r') {
                    out.push(other);
                }
                State::Text
            }
        };
    }
}

/// Whether a byte is, or begins, a control character (0xC2 leads U+0080 to U+00BF).
fn may_be_control(byte: u8) -> bool {
    (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')) || byte == 0x7f || byte == 0xc2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], want: &str) {
        assert_eq!(Plain::of(bytes), want, "{}", bytes.escape_ascii());
        for cut in 0..=bytes.len() {
            let mut plain = Plain::default();
            let mut text = String::new();
            plain.push(&bytes[..cut], &mut text);
            plain.push(&bytes[cut..], &mut text);
            plain.finish(&mut text);
            assert_eq!(text, want, "{} cut at {cut}", bytes.escape_ascii());
        }
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        check(b"", "");
        check("tab\there\r\nno end".as_bytes(), "tab\there\r\nno end");
        check("æ ½ 漢字 🦀 \u{a0}".as_bytes(), "æ ½ 漢字 🦀 \u{a0}");
    }

    #[test]
    fn control_sequences_are_removed_whole() {
        check(b"\x1b[31mred\x1b[0m\n", "red\n");
        check(b"\x1b[38;2;1;2;3mx\x1b[?25l\x1b[2 qy", "xy");
        check(b"\x1b(Ba\x1b=b\x1b#8c\x1bMd", "abcd");
        check("\u{9b}31mred".as_bytes(), "red");
    }

    #[test]
    fn control_strings_are_removed_up_to_their_terminator() {
        check(b"\x1b]52;c;b3duZWQ=\x07ok", "ok");
        check(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\.", "link.");
        check(b"\x1bPq#0;2;0\x1b\\a\x1b_apc\x1b\\b", "ab");
        check("\u{9d}0;title\u{9c}x".as_bytes(), "x");
    }

    #[test]
    fn an_unfinished_sequence_hides_at_most_its_line() {
        check(b"\x1b]0;title\nrm -rf /\n", "\nrm -rf /\n");
        check(b"\x1b[31\nx", "\nx");
        check(b"\x1b\nx", "\nx");
        check(b"\x1b]0;a\x18b", "b");
        check(b"a\x1b", "a");
    }

    #[test]
    fn nul_and_other_control_characters_are_removed() {
        check(b"a\0b\0c", "abc");
        check(b"N\x08NA\x07\x7f!", "NNA!");
        check("x\u{85}y".as_bytes(), "xy");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_shown_as_broken() {
        check(b"\xff\xfeabc\xc3", "\u{fffd}\u{fffd}abc\u{fffd}");
        check(b"\xe6\xbc", "\u{fffd}");
    }

    proptest! {
        #[test]
        fn no_control_character_survives_and_cuts_change_nothing(
            bytes in proptest::collection::vec(
                prop_oneof![Just(0x1b_u8), Just(b'['), Just(b']'), Just(b'\n'), Just(0xc2), Just(0x9b), any::<u8>()],
                0..60,
            ),
            cut in any::<prop::sample::Index>(),
        ) {
            let whole = Plain::of(&bytes);
            prop_assert!(!whole.contains(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r')));
            let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
            let mut plain = Plain::default();
            let mut text = String::new();
            plain.push(left, &mut text);
            plain.push(right, &mut text);
            plain.finish(&mut text);
            prop_assert_eq!(text, whole);
        }
    }
}
