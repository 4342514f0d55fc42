//! Colours that can be off, and lines that fit into columns.

use std::borrow::Cow;

use agent::sanitize;
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
    Cyan,
}

/// Whether one output may carry colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether escape sequences are written at all.
    pub(crate) is_on: bool,
}

impl Style {
    /// `text` in `paint`, or as it is where there are no colours. `text` is safe to show already.
    pub(crate) fn paint<'a>(self, paint: Paint, text: &'a str) -> Cow<'a, str> {
        let code = match paint {
            Paint::Plain => return Cow::Borrowed(text),
            _ if !self.is_on || text.is_empty() => return Cow::Borrowed(text),
            Paint::Dim => "2",
            Paint::Bold => "1",
            Paint::Red => "31",
            Paint::Green => "32",
            Paint::Cyan => "36",
        };
        Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m"))
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
pub(crate) fn fit(text: &str, max: usize) -> Cow<'_, str> {
    let (head, rest) = split_at_columns(text, max);
    if rest.is_empty() {
        return Cow::Borrowed(text);
    }
    let (head, _) = split_at_columns(head, max.saturating_sub(1));
    Cow::Owned(if max == 0 { String::new() } else { format!("{head}…") })
}

/// `text` in pieces of at most `max` columns each; an empty text is one empty piece.
pub(crate) fn wrap(text: &str, max: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (mut head, mut tail) = split_at_columns(rest, max.max(2));
        if !tail.is_empty()
            && let Some(space) = head.rfind(' ').filter(|space| *space > head.len() / 2)
        {
            (head, tail) = (&rest[..space], &rest[space + 1..]);
        }
        pieces.push(head);
        if tail.is_empty() {
            return pieces;
        }
        rest = tail;
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
pub(crate) fn call_line(name: &str, args: &Value, max: usize) -> String {
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
    if columns(&line) <= max {
        return line;
    }
    format!("{})", fit(&line, max.saturating_sub(1)))
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
    let mut shown = sanitize::one_line(&start).into_owned();
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
        assert_eq!(call_line("calculator", &args, 80), "calculator(a=2, op=add, b=2)");
        assert_eq!(call_line("now", &json!({}), 80), "now()");
        assert_eq!(call_line("broken", &json!("{\"a\": "), 80), "broken({\"a\": )");
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
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("漢漢", 3), "漢…");
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn wrapping_keeps_every_word_and_every_wide_character() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("漢漢漢", 4), ["漢漢", "漢"]);
        assert_eq!(wrap("", 8), [""]);
        assert_eq!(wrap("abcdef", 1), ["ab", "cd", "ef"], "never an endless loop");
    }

    #[test]
    fn without_colours_nothing_is_added() {
        assert_eq!(Style { is_on: false }.paint(Paint::Red, "x"), "x");
        assert_eq!(Style { is_on: true }.paint(Paint::Red, "x"), "\x1b[31mx\x1b[0m");
    }
}
