//! A line that a person types and edits, and what of it a screen has room for.
//!
//! A long paste can stand in it as one piece, which is shown as a chip and taken away as a whole.

use std::sync::Arc;

use agent::paste::{self, Part};
use agent::sanitize::{Visible, one_line};

use super::keys::Key;
use crate::render::style::{columns, columns_of, fit};

/// Most characters and pastes of a line; what is typed beyond is not taken.
const MAX_PIECES: usize = 16 * 1024;

/// The line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pieces: Vec<Piece>,
    /// Before which piece the cursor stands.
    cursor: usize,
}

/// What the cursor steps over at once.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    /// A paste that is shown as a chip.
    Paste(Arc<str>),
}

impl Piece {
    fn is_blank(&self) -> bool {
        matches!(self, Self::Char(c) if c.is_whitespace())
    }
}

impl Line {
    /// A line with something in it, and the cursor behind that.
    pub(crate) fn with(text: &str) -> Self {
        let pieces: Vec<Piece> = text.chars().map(Piece::Char).collect();
        Self { cursor: pieces.len(), pieces }
    }

    /// The same, with the pastes that are marked in the text.
    pub(crate) fn with_pastes(text: &str) -> Self {
        let mut pieces = Vec::new();
        for part in paste::parts(text) {
            match part {
                Part::Typed(text) => pieces.extend(text.chars().map(Piece::Char)),
                Part::Pasted(payload) => pieces.push(Piece::Paste(payload.into())),
            }
        }
        Self { cursor: pieces.len(), pieces }
    }

    /// What is in it, pastes between their marks.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Char(c) => text.push(*c),
                Piece::Paste(payload) => text.push_str(&paste::embed(payload)),
            }
        }
        text
    }

    /// Puts in what was pasted, as one piece if it is long.
    pub(crate) fn paste(&mut self, payload: &str) {
        let payload = paste::normalize(payload);
        match paste::is_long(&payload) {
            true => self.insert(std::iter::once(Piece::Paste(payload.into()))),
            false => self.insert(payload.chars().map(Piece::Char)),
        }
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Changes the line as the key says; keys that do something else leave it as it is.
    pub(crate) fn apply(&mut self, key: &Key) {
        match key {
            Key::Char(c) => self.insert(std::iter::once(Piece::Char(*c))),
            Key::Paste(text) => self.insert(text.chars().map(Piece::Char)),
            Key::Backspace if self.cursor > 0 => self.remove(self.cursor - 1, self.cursor),
            Key::Delete if self.cursor < self.pieces.len() => {
                self.remove(self.cursor, self.cursor + 1);
            }
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.pieces.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.pieces.len(),
            Key::KillBefore => self.remove(0, self.cursor),
            Key::KillAfter => self.pieces.truncate(self.cursor),
            Key::KillWord => self.remove(self.start_of_word(), self.cursor),
            Key::Backspace | Key::Delete | Key::Enter | Key::Interrupt | Key::Suspend => {}
            Key::Close | Key::Escape | Key::Up => {}
        }
    }

    fn insert(&mut self, pieces: impl Iterator<Item = Piece>) {
        let room = MAX_PIECES - self.pieces.len().min(MAX_PIECES);
        let before = self.pieces.len();
        let at = self.cursor;
        self.pieces.splice(at..at, pieces.take(room));
        self.cursor += self.pieces.len() - before;
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.pieces.drain(from..to);
        self.cursor = from;
    }

    fn start_of_word(&self) -> usize {
        let before = &self.pieces[..self.cursor];
        let word = before.iter().rposition(|piece| !piece.is_blank()).unwrap_or(0);
        before[..word].iter().rposition(Piece::is_blank).map_or(0, |at| at + 1)
    }

    /// The part of the line around the cursor that `width` columns have room for, and the column in it
    /// at which the cursor stands. Chips go on with the numbers after `pastes`.
    pub(crate) fn view(&self, width: usize, mut pastes: usize) -> (Visible<'static>, usize) {
        let mut show = |piece: &Piece| match piece {
            Piece::Char(c) => one_line(c.encode_utf8(&mut [0; 4])).into_owned(),
            Piece::Paste(payload) => {
                pastes += 1;
                let chip = one_line(&paste::chip(pastes, payload)).into_owned();
                fit(&chip, width.saturating_sub(1)).into_owned()
            }
        };
        let shown: Vec<Visible<'static>> = self.pieces.iter().map(&mut show).collect();
        let columns_at = |at: usize| columns(&shown[at]);
        // The cursor's own place counts.
        let mut start = self.cursor;
        let mut used = 1;
        while start > 0 && used + columns_at(start - 1) <= width {
            start -= 1;
            used += columns_at(start);
        }
        // What is hidden on the left is marked there.
        let mark = if start > 0 && start < self.cursor { "…" } else { "" };
        start += mark.chars().count();
        let before: usize = (start..self.cursor).map(columns_at).sum();
        let cursor = before + columns(mark);
        let mut end = self.cursor;
        let mut all = cursor;
        while end < shown.len() && all + columns_at(end) < width {
            all += columns_at(end);
            end += 1;
        }
        let text: String = shown[start..end].iter().map(|piece| &**piece).collect();
        (one_line(&format!("{mark}{text}")).into_owned(), cursor)
    }
}

/// How many columns a prompt takes.
pub(crate) fn width_of(prompt: &str) -> usize {
    prompt.chars().map(columns_of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str, keys: &[Key]) -> Line {
        let mut line = Line::with(text);
        keys.iter().for_each(|key| line.apply(key));
        line
    }

    #[track_caller]
    fn check(text: &str, keys: &[Key], want: &str) {
        assert_eq!(typed(text, keys).text(), want);
    }

    #[test]
    fn a_line_is_edited_where_the_cursor_stands() {
        check("bash(a)", &[Key::Left, Key::Char('b')], "bash(ab)");
        check("abc", &[Key::Home, Key::Delete, Key::Char('x')], "xbc");
        check("abc", &[Key::Backspace, Key::End, Key::Char('d')], "abd");
        check("one two", &[Key::KillWord], "one ");
        check("one  ", &[Key::KillWord], "");
        check("abc", &[Key::Left, Key::KillBefore], "c");
        check("abc", &[Key::Left, Key::KillAfter], "ab");
        check("", &[Key::Backspace, Key::Left, Key::Delete, Key::Right], "");
        check("ac", &[Key::Left, Key::Paste("b\nb".into()), Key::Char('x')], "ab\nbxc");
    }

    #[test]
    fn a_long_paste_is_one_piece_and_a_short_one_is_not() {
        let payload = "x\n".repeat(42);
        let mut line = Line::with("see ");
        line.paste(&payload);
        line.apply(&Key::Char('!'));
        assert_eq!(line.text(), format!("see {}!", paste::embed(&payload)));
        let (shown, cursor) = line.view(80, 2);
        assert_eq!((&*shown, cursor), ("see [paste #3 · 42 lines]!", 26));
        assert_eq!(Line::with_pastes(&line.text()), line);
        line.apply(&Key::Backspace);
        line.apply(&Key::Backspace);
        assert_eq!(line.text(), "see ");
        line.paste("a\r\nb\u{fffc}");
        assert_eq!(line.text(), "see a\nb");
    }

    #[test]
    fn the_cursor_is_always_in_view_and_nothing_acts_on_the_terminal() {
        let text = "漢字 a\u{1b}[2J\n".repeat(9);
        for moves in 0..text.chars().count() {
            let line = typed(&text, &vec![Key::Left; moves]);
            for width in [9, 20, 80] {
                let (shown, cursor) = line.view(width, 0);
                assert!(cursor < width && columns(&shown) <= width, "{width}: {shown}");
                assert!(!shown.contains(['\u{1b}', '\n']));
            }
        }
        let (shown, cursor) = Line::with("abc").view(10, 0);
        assert_eq!((&*shown, cursor), ("abc", 3));
        let (shown, cursor) = Line::with("abcdefgh").view(6, 0);
        assert_eq!((&*shown, cursor), ("…efgh", 5));
        let (shown, cursor) = typed("abcdefgh", &[Key::Home]).view(6, 0);
        assert_eq!((&*shown, cursor), ("abcde", 0));
    }
}
