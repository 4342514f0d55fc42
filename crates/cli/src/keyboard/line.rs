//! A line that a person types and edits, and what of it a screen has room for.

use agent::sanitize::{Visible, one_line};

use super::keys::Key;
use crate::render::style::{columns, columns_of};

/// Most characters of a line; what is typed beyond is not taken.
const MAX_CHARS: usize = 16 * 1024;

/// The line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    chars: Vec<char>,
    /// Before which character the cursor stands.
    cursor: usize,
}

impl Line {
    /// A line with something in it, and the cursor behind that.
    pub(crate) fn with(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self { cursor: chars.len(), chars }
    }

    /// What is in it.
    pub(crate) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    /// Changes the line as the key says; keys that do something else leave it as it is.
    pub(crate) fn apply(&mut self, key: &Key) {
        match key {
            Key::Char(c) => self.insert(std::iter::once(*c)),
            Key::Paste(text) => self.insert(text.chars()),
            Key::Backspace if self.cursor > 0 => self.remove(self.cursor - 1, self.cursor),
            Key::Delete if self.cursor < self.chars.len() => {
                self.remove(self.cursor, self.cursor + 1);
            }
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.chars.len(),
            Key::KillBefore => self.remove(0, self.cursor),
            Key::KillAfter => self.chars.truncate(self.cursor),
            Key::KillWord => self.remove(self.start_of_word(), self.cursor),
            Key::Backspace | Key::Delete | Key::Enter | Key::Interrupt | Key::Suspend => {}
            Key::Close | Key::Escape | Key::Up => {}
        }
    }

    fn insert(&mut self, text: impl Iterator<Item = char>) {
        let room = MAX_CHARS - self.chars.len().min(MAX_CHARS);
        let before = self.chars.len();
        let at = self.cursor;
        self.chars.splice(at..at, text.take(room));
        self.cursor += self.chars.len() - before;
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.chars.drain(from..to);
        self.cursor = from;
    }

    fn start_of_word(&self) -> usize {
        let before = &self.chars[..self.cursor];
        let word = before.iter().rposition(|c| !c.is_whitespace()).unwrap_or(0);
        before[..word].iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1)
    }

    /// The part of the line around the cursor that `width` columns have room for, and the column in it
    /// at which the cursor stands.
    pub(crate) fn view(&self, width: usize) -> (Visible<'static>, usize) {
        let shown: Vec<Visible<'static>> = (self.chars.iter())
            .map(|c| one_line(c.encode_utf8(&mut [0; 4])).into_owned())
            .collect();
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
    fn the_cursor_is_always_in_view_and_nothing_acts_on_the_terminal() {
        let text = "漢字 a\u{1b}[2J\n".repeat(9);
        for moves in 0..text.chars().count() {
            let line = typed(&text, &vec![Key::Left; moves]);
            for width in [9, 20, 80] {
                let (shown, cursor) = line.view(width);
                assert!(cursor < width && columns(&shown) <= width, "{width}: {shown}");
                assert!(!shown.contains(['\u{1b}', '\n']));
            }
        }
        let (shown, cursor) = Line::with("abc").view(10);
        assert_eq!((&*shown, cursor), ("abc", 3));
        let (shown, cursor) = Line::with("abcdefgh").view(6);
        assert_eq!((&*shown, cursor), ("…efgh", 5));
        let (shown, cursor) = typed("abcdefgh", &[Key::Home]).view(6);
        assert_eq!((&*shown, cursor), ("abcde", 0));
    }
}
