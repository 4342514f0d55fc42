//! What is written to a terminal: visible text, with colours that can be off, in lines that fit into
//! columns.

use std::borrow::Cow;

use agent::sanitize::{self, Visible};
use serde_json::Value;
use unicode_width::UnicodeWidthChar as _;

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Dim,
    Bold,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Whether one output may carry colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether escape sequences are written at all.
    pub(crate) is_on: bool,
}

impl Style {
    /// `text` in `paint`, or as it is where there are no colours.
    pub(crate) fn paint(self, paint: Paint, text: &Visible<'_>) -> Ink {
        let mut ink = Ink::default();
        ink.paint(self, paint, text);
        ink
    }
}

/// What the renderer writes, made of visible text and of the program's own words and sequences only.
/// There is no way to put any other text in, so none can be forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ink(String);

impl Ink {
    /// Words or a sequence of the program itself.
    pub(crate) fn own(&mut self, text: &'static str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    /// Text.
    pub(crate) fn text(&mut self, text: &Visible<'_>) -> &mut Self {
        self.0.push_str(text);
        self
    }

    /// Text in a colour, which ends with it.
    pub(crate) fn paint(&mut self, style: Style, paint: Paint, text: &Visible<'_>) -> &mut Self {
        let code = match paint {
            Paint::Plain => return self.text(text),
            _ if !style.is_on || text.is_empty() => return self.text(text),
            Paint::Dim => "\x1b[2m",
            Paint::Bold => "\x1b[1m",
            Paint::Red => "\x1b[31m",
            Paint::Green => "\x1b[32m",
            Paint::Yellow => "\x1b[33m",
            Paint::Cyan => "\x1b[36m",
        };
        self.own(code).text(text).own("\x1b[0m")
    }

    /// The cursor goes up so many rows.
    pub(crate) fn up(&mut self, rows: usize) -> &mut Self {
        if rows > 0 {
            self.0.push_str(&format!("\x1b[{rows}A"));
        }
        self
    }

    /// The cursor goes to the column of that number, counted from 0, in its row.
    pub(crate) fn column(&mut self, column: usize) -> &mut Self {
        self.0.push_str(&format!("\x1b[{}G", column + 1));
        self
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it ends with a line end.
    pub(crate) fn ends_line(&self) -> bool {
        self.0.ends_with('\n')
    }

    /// The same as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// What a terminal gets.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<&Visible<'_>> for Ink {
    fn from(text: &Visible<'_>) -> Self {
        Self(text.to_string())
    }
}

impl From<&'static str> for Ink {
    fn from(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

/// How many columns a character takes at most. Terminals differ on joined emoji; the larger
/// answer is used, so that a line that fits here fits everywhere.
pub(crate) fn columns_of(c: char) -> usize {
    // A variation selector that asks for an emoji makes a narrow character wide.
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
}

/// How many columns a text takes at most.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// `text` cut to `max` columns, with an ellipsis where something is missing.
pub(crate) fn fit<'a>(text: &'a Visible<'_>, max: usize) -> Visible<'a> {
    let (head, rest) = split_at_columns(text, max);
    if rest.is_empty() {
        return text.part(0..text.len());
    }
    let (head, _) = split_at_columns(head, max.saturating_sub(1));
    if max == 0 { Visible::own("") } else { sanitize::one_line(&format!("{head}…")).into_owned() }
}

/// The first `max` columns of a text, and the rest.
pub(crate) fn split<'a>(text: &'a Visible<'_>, max: usize) -> (Visible<'a>, Visible<'a>) {
    let at = split_at_columns(text, max).0.len();
    (text.part(0..at), text.part(at..text.len()))
}

/// A text on one line in pieces of at most `max` columns each; an empty text is one empty piece.
pub(crate) fn wrap<'a>(text: &'a Visible<'_>, max: usize) -> Vec<Visible<'a>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    loop {
        let (head, rest) = split_at_columns(&text[start..], max.max(2));
        let space = head.rfind(' ').filter(|space| !rest.is_empty() && *space > head.len() / 2);
        let end = start + space.unwrap_or(head.len());
        pieces.push(text.part(start..end));
        start = end + usize::from(space.is_some());
        if start == text.len() {
            return pieces;
        }
    }
}

fn split_at_columns(text: &str, max: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += columns_of(c);
        if used > max {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// A call on one line of at most `max` columns: `calculator(a=2, op=add, b=2)`.
pub(crate) fn call_line(name: &str, args: &Value, max: usize) -> Visible<'static> {
    let line = one_line_of(name, args, max);
    let shown = sanitize::one_line(&line);
    if columns(&shown) <= max {
        return shown.into_owned();
    }
    sanitize::one_line(&format!("{})", fit(&shown, max.saturating_sub(1)))).into_owned()
}

fn one_line_of(name: &str, args: &Value, max: usize) -> String {
    let mut line = format!("{}(", sanitize::one_line(name));
    match args {
        Value::Object(fields) => {
            for (at, (key, value)) in fields.iter().enumerate() {
                // What lies beyond the line's end is not written out at all.
                if columns(&line) > max {
                    break;
                }
                if at > 0 {
                    line.push_str(", ");
                }
                line.push_str(&sanitize::one_line(key));
                line.push('=');
                line.push_str(&value_start(value, max));
            }
        }
        other => line.push_str(&value_start(other, max)),
    }
    line.push(')');
    line
}

/// The first characters of a value, on one line, and an ellipsis if those are not all: no more than
/// can matter for `max` columns, since a value may be megabytes long.
fn value_start(value: &Value, max: usize) -> String {
    let text: Cow<'_, str> = match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    };
    // Most characters take a column; some (accents, joiners) take none.
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(4 * max + 1).collect();
    let mut shown = sanitize::one_line(&start).into_string();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_shown_with_its_arguments_in_the_models_order() {
        let args = json!({"a": 2, "op": "add", "b": 2});
        assert_eq!(&*call_line("calculator", &args, 80), "calculator(a=2, op=add, b=2)");
        assert_eq!(&*call_line("now", &json!({}), 80), "now()");
        assert_eq!(&*call_line("broken", &json!("{\"a\": "), 80), "broken({\"a\": )");
    }

    #[test]
    fn long_wide_and_joined_arguments_are_cut_to_the_columns() {
        for text in ["x", "漢", "👨‍👩‍👧", "é", "❤️", "a\u{300}"] {
            for max in [10, 40, 80] {
                let line = call_line("bash", &json!({"command": text.repeat(300)}), max);
                assert!(columns(&line) <= max, "{max}: {line}");
                assert!(line.ends_with("…)"), "{line}");
                assert!(columns(&line) > max - 10, "{max}: {line}");
            }
        }
    }

    #[test]
    fn a_call_with_a_megabyte_of_arguments_is_one_short_line() {
        let args = json!({"content": "a\nb".repeat(400_000), "path": "x"});
        let line = call_line("write_file", &args, 80);
        assert!(columns(&line) <= 80 && line.starts_with("write_file(content=a\\nba\\nb"));
    }

    #[test]
    fn what_fits_is_left_alone() {
        for (text, max, want) in
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢漢", 3, "漢…"), ("abc", 0, "")]
        {
            assert_eq!(&*fit(&Visible::own(text), max), want);
        }
    }

    #[test]
    fn wrapping_keeps_every_word_and_every_wide_character() {
        let check = |text, max, want: &[&str]| {
            let text = Visible::own(text);
            let pieces = wrap(&text, max);
            assert_eq!(pieces.iter().map(|piece| &**piece).collect::<Vec<_>>(), want);
        };
        check("one two three", 8, &["one two", "three"]);
        check("漢漢漢", 4, &["漢漢", "漢"]);
        check("", 8, &[""]);
        // Never an endless loop.
        check("abcdef", 1, &["ab", "cd", "ef"]);
    }

    #[test]
    fn without_colours_nothing_is_added() {
        let painted = |is_on| Style { is_on }.paint(Paint::Red, &Visible::own("x"));
        assert_eq!(painted(false), Ink::from("x"));
        assert_eq!(painted(true), Ink::from("\x1b[31mx\x1b[0m"));
    }
}
