//! Bytes from a terminal → keys, wherever the stream is cut.
//!
//! What is pasted between the marks of a bracketed paste is one key, never many: a line end in it
//! enters nothing.

/// What a person did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// Typed a character.
    Char(char),
    /// Pasted a text, line ends as line feeds and without other control characters.
    Paste(String),
    /// Entered the line.
    Enter,
    /// Took the character before the cursor away.
    Backspace,
    /// Took the one under it away.
    Delete,
    /// Moved.
    Left,
    /// Moved.
    Right,
    /// Went to what came before.
    Up,
    /// Moved to the start.
    Home,
    /// Moved to the end.
    End,
    /// Took everything before the cursor away (Ctrl-U).
    KillBefore,
    /// Took everything from the cursor on away (Ctrl-K).
    KillAfter,
    /// Took the word before the cursor away (Ctrl-W).
    KillWord,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-D.
    Close,
    /// Escape alone.
    Escape,
}

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// Longest paste that is taken in where nobody says otherwise, in bytes; the rest of it is dropped.
const MAX_PASTE: usize = 64 * 1024;

/// The keys of a stream of bytes.
#[derive(Debug)]
pub(crate) struct Keys {
    /// The most bytes of a paste.
    most: usize,
    /// The start of a sequence or character whose rest has not come.
    held: Vec<u8>,
    /// What was pasted so far, inside a paste.
    pasted: Option<Vec<u8>>,
}

impl Default for Keys {
    fn default() -> Self {
        Self::with_pastes(MAX_PASTE)
    }
}

impl Keys {
    /// Keys among which are pastes of so many bytes.
    pub(crate) fn with_pastes(most: usize) -> Self {
        Self { most, held: Vec::new(), pasted: None }
    }

    /// The keys that are complete with these bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.held.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while !self.held.is_empty() {
            let used = match self.pasted {
                Some(_) => self.paste(&mut keys),
                None => self.key(&mut keys),
            };
            match used {
                0 => break,
                used => drop(self.held.drain(..used)),
            }
        }
        keys
    }

    /// Nothing more came for a while: an escape that stands alone was the key, and what else has begun
    /// is none.
    pub(crate) fn pause(&mut self) -> Option<Key> {
        let held = std::mem::take(&mut self.held);
        (held == b"\x1b").then_some(Key::Escape)
    }

    /// Whether a key has begun and not ended. A paste may take its time.
    pub(crate) fn is_waiting(&self) -> bool {
        self.pasted.is_none() && !self.held.is_empty()
    }

    /// Whether a paste has begun and not ended.
    pub(crate) fn is_pasting(&self) -> bool {
        self.pasted.is_some()
    }

    /// The keys are not read any more: what has come of a paste whose end has not.
    pub(crate) fn cut_off(&mut self) -> Option<Key> {
        self.held.clear();
        let pasted = self.pasted.take()?;
        Some(Key::Paste(plain_lines(&String::from_utf8_lossy(&pasted))))
    }

    /// Takes in pasted bytes; returns how many.
    fn paste(&mut self, keys: &mut Vec<Key>) -> usize {
        let pasted = self.pasted.as_mut().expect("called inside a paste");
        let end = find(&self.held, PASTE_END);
        // Whoever pastes without an end must still be able to leave.
        if end.is_none() && self.held.contains(&0x03) {
            self.pasted = None;
            keys.push(Key::Interrupt);
            return self.held.len();
        }
        // The mark may be cut in two: as much stays as could be its start.
        let kept = (1..PASTE_END.len()).rev().find(|n| self.held.ends_with(&PASTE_END[..*n]));
        let taken = end.unwrap_or(self.held.len() - kept.unwrap_or(0));
        let room = self.most.saturating_sub(pasted.len()).min(taken);
        pasted.extend_from_slice(&self.held[..room]);
        if end.is_none() {
            return taken;
        }
        let pasted = self.pasted.take().unwrap_or_default();
        keys.push(Key::Paste(plain_lines(&String::from_utf8_lossy(&pasted))));
        taken + PASTE_END.len()
    }

    /// Takes in one key; returns its bytes, none while it is not complete.
    fn key(&mut self, keys: &mut Vec<Key>) -> usize {
        let key = match self.held[0] {
            0x1b => return self.sequence(keys),
            b'\r' | b'\n' => Key::Enter,
            0x7f | 0x08 => Key::Backspace,
            0x01 => Key::Home,
            0x02 => Key::Left,
            0x03 => Key::Interrupt,
            0x04 => Key::Close,
            0x05 => Key::End,
            0x06 => Key::Right,
            0x0b => Key::KillAfter,
            0x15 => Key::KillBefore,
            0x17 => Key::KillWord,
            0x1a => Key::Suspend,
            b'\t' => Key::Char(' '),
            0..0x20 => return 1,
            _ => return self.character(keys),
        };
        keys.push(key);
        1
    }

    fn character(&mut self, keys: &mut Vec<Key>) -> usize {
        let length = match self.held[0] {
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf8 => 4,
            _ => 1,
        };
        if self.held.len() < length {
            return 0;
        }
        match std::str::from_utf8(&self.held[..length]) {
            Ok(text) => {
                keys.extend(text.chars().filter(|c| !c.is_control()).map(Key::Char));
                length
            }
            Err(_) => 1,
        }
    }

    /// An escape sequence: known, or left out whole.
    fn sequence(&mut self, keys: &mut Vec<Key>) -> usize {
        if self.held.starts_with(PASTE_START) {
            self.pasted = Some(Vec::new());
            return PASTE_START.len();
        }
        let Some(length) = sequence_length(&self.held) else { return 0 };
        let key = match &self.held[..length] {
            b"\x1b[D" | b"\x1bOD" => Some(Key::Left),
            b"\x1b[C" | b"\x1bOC" => Some(Key::Right),
            b"\x1b[A" | b"\x1bOA" => Some(Key::Up),
            b"\x1b[H" | b"\x1bOH" | b"\x1b[1~" => Some(Key::Home),
            b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" => Some(Key::End),
            b"\x1b[3~" => Some(Key::Delete),
            _ => None,
        };
        keys.extend(key);
        length
    }
}

/// How long the sequence at the start is, if all of it is there.
fn sequence_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => {
            let end = bytes[2..].iter().position(|byte| !(0x20..0x40).contains(byte))?;
            Some(end + 3)
        }
        b'O' => bytes.get(2).map(|_| 3),
        _ => Some(2),
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// What was typed or pasted, with line feeds for line ends and without other control characters but tabs.
pub(crate) fn plain_lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], want: &[Key]) {
        for cut in 0..=bytes.len() {
            let mut keys = Keys::default();
            let mut got = keys.push(&bytes[..cut]);
            got.extend(keys.push(&bytes[cut..]));
            assert_eq!(got, want, "{} cut at {cut}", bytes.escape_ascii());
        }
    }

    #[test]
    fn keys_are_told_apart_wherever_the_stream_is_cut() {
        check("yé漢".as_bytes(), &[Key::Char('y'), Key::Char('é'), Key::Char('漢')]);
        check(b"y\r", &[Key::Char('y'), Key::Enter]);
        check(b"\x1b[D\x1b[3~\x1bOF\x7f", &[Key::Left, Key::Delete, Key::End, Key::Backspace]);
        check(b"\x03\x04\x1a\x15", &[Key::Interrupt, Key::Close, Key::Suspend, Key::KillBefore]);
    }

    #[test]
    fn a_paste_is_one_key_whatever_is_in_it() {
        check(
            b"\x1b[200~y\r\nrm\x07\x1b[A\x1b[201~\r",
            &[Key::Paste("y\nrm[A".to_owned()), Key::Enter],
        );
        let mut keys = Keys::default();
        assert_eq!(keys.push(b"\x1b[200~y\r"), []);
        assert!(keys.is_pasting());
        assert_eq!(keys.push(b"no end\x03"), [Key::Interrupt]);
        assert_eq!(keys.push(b"y"), [Key::Char('y')]);
        keys.push(b"\x1b[200~half\x1b[20");
        assert_eq!(keys.cut_off(), Some(Key::Paste("half".to_owned())));
        assert_eq!((keys.push(b"a"), keys.cut_off()), (vec![Key::Char('a')], None));
    }

    #[test]
    fn what_is_no_key_is_left_out_whole() {
        check(
            b"\x1b[1;5Ca\x1b[?1;2cb\x1bx\xffc",
            &[Key::Char('a'), Key::Char('b'), Key::Char('c')],
        );
    }

    #[test]
    fn an_escape_is_a_key_when_nothing_follows() {
        let mut keys = Keys::default();
        assert_eq!(keys.push(b"\x1b"), []);
        assert_eq!(keys.pause(), Some(Key::Escape));
        assert_eq!((keys.push(b"a"), keys.pause()), (vec![Key::Char('a')], None));
        assert_eq!((keys.push(b"\x1b["), keys.pause()), (vec![], None));
        assert_eq!(keys.push(b"Ab"), [Key::Char('A'), Key::Char('b')]);
    }
}
