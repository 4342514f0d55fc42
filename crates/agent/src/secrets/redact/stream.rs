//! The same for a text that comes in pieces. [pure]
//!
//! Only what may be the beginning of a secret is kept back, so that ordinary text is not delayed.

use std::sync::Arc;

use super::shapes::{CLOSING_HELD, Closing, Open, close};
use super::{Label, MAX_HELD, Redactor, Writing};

/// Takes secrets out of a stream of bytes, wherever the pieces are cut.
#[derive(Debug)]
pub struct RedactStream {
    redactor: Arc<Redactor>,
    /// What came and was not given out. At most [`MAX_HELD`] bytes and a piece.
    pub(super) held: Vec<u8>,
    /// The byte before what is held.
    before: Option<u8>,
    /// What the marker names that was given out last, with nothing after it.
    after: Option<Label>,
    /// Whether a secret of several lines leaves its line ends.
    keeps_lines: bool,
    /// A secret that has been replaced and whose end has not come.
    open: Option<Open>,
}

impl Redactor {
    /// For a text that comes in pieces.
    pub fn stream(self: &Arc<Self>) -> RedactStream {
        RedactStream {
            redactor: Arc::clone(self),
            held: Vec::new(),
            before: None,
            after: None,
            keeps_lines: false,
            open: None,
        }
    }
}

impl RedactStream {
    /// The same stream, in which lines keep their numbers.
    #[must_use]
    pub fn keeping_lines(self) -> Self {
        Self { keeps_lines: true, ..self }
    }

    /// Takes the next piece and appends what can be given out to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        self.give(out, false);
    }

    /// Gives out what was kept back. The stream can be used again, for another text.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.give(out, true);
        self.open = None;
        self.before = None;
        self.after = None;
    }

    /// Whether something is kept back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// [`push`](Self::push) for text in whole characters.
    pub fn push_str(&mut self, text: &str) -> String {
        let mut out = Vec::new();
        self.push(text.as_bytes(), &mut out);
        whole(out)
    }

    /// [`finish`](Self::finish) for text in whole characters.
    pub fn finish_str(&mut self) -> String {
        let mut out = Vec::new();
        self.finish(&mut out);
        whole(out)
    }

    fn give(&mut self, out: &mut Vec<u8>, is_end: bool) {
        self.skip_open(is_end, out);
        if self.held.is_empty() || self.open.is_some() {
            return;
        }
        let needles = self.redactor.needles();
        let mut found = needles.find(&self.held, self.before, is_end);
        // Bounded whatever the rules say; a needle is never as long.
        if self.held.len() - found.hold_from > MAX_HELD {
            found.hold_from = self.held.len();
        }
        let given = found.hold_from;
        found.hidden.retain(|(range, _)| range.end <= given);
        let writing = Writing { after: self.after, keeps_lines: self.keeps_lines };
        self.after = needles.write(&self.held[..given], &found.hidden, writing, out);
        if let Some(last) = given.checked_sub(1) {
            self.before = Some(self.held[last]);
        }
        self.held.drain(..given);
        if self.held.is_empty() {
            self.open = found.open;
        }
    }

    /// Drops what belongs to a secret that has been replaced already.
    fn skip_open(&mut self, is_end: bool, out: &mut Vec<u8>) {
        match self.open {
            None => {}
            Some(Open::Token(goes_on)) => {
                let len = self.held.iter().position(|&byte| !goes_on(byte));
                if len.is_some() || is_end {
                    self.open = None;
                }
                self.held.drain(..len.unwrap_or(self.held.len()));
            }
            Some(Open::Armour(left)) => match close(&self.held, left) {
                Closing::Here(len) | Closing::Never(len) => {
                    self.drop_first(len, out);
                    self.open = None;
                }
                Closing::NotYet => {
                    let kept = if is_end { 0 } else { self.held.len().min(CLOSING_HELD) };
                    let dropped = self.held.len() - kept;
                    self.drop_first(dropped, out);
                    self.open = Some(Open::Armour(left - dropped));
                }
            },
        }
    }

    fn drop_first(&mut self, len: usize, out: &mut Vec<u8>) {
        if self.keeps_lines {
            out.extend(self.held[..len].iter().filter(|byte| **byte == b'\n'));
        }
        self.held.drain(..len);
    }
}

/// Whole characters were put in, and markers are whole characters.
fn whole(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("what begins a needle begins a character")
}
