//! Pasted text inside what a person typed: kept compact to look at, whole for the model.
//!
//! A paste stands in a text block between two marks (U+FFFC, the object replacement character). Sessions
//! keep the marks, so that a long paste is shown as a chip whenever the session is looked at; a model is
//! sent the text without them, see [`ExpandPastes`](crate::expand::ExpandPastes).

use std::borrow::Cow;

use crate::secrets::redact::Redactor;

/// What stands on both sides of a paste.
pub const MARK: char = '\u{fffc}';

/// Most lines of a paste that is shown as it is.
const SHORT_LINES: usize = 8;

/// Most characters of a paste that is shown as it is.
const SHORT_CHARS: usize = 1000;

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'t> {
    /// What was typed.
    Typed(&'t str),
    /// What was pasted.
    Pasted(&'t str),
}

/// Whether a paste is too long to be shown as it is.
pub fn is_long(payload: &str) -> bool {
    payload.lines().count() > SHORT_LINES || payload.chars().count() > SHORT_CHARS
}

/// What a person typed, without the marks in it: a typed mark would make a paste of what follows.
pub fn typed(text: &str) -> Cow<'_, str> {
    match text.contains(MARK) {
        true => text.replace(MARK, "").into(),
        false => text.into(),
    }
}

/// A paste with line feeds for line ends, and without marks.
pub fn normalize(payload: &str) -> String {
    payload.replace("\r\n", "\n").replace('\r', "\n").replace(MARK, "")
}

/// A paste as it stands in a text block.
pub fn embed(payload: &str) -> String {
    format!("{MARK}{}{MARK}", normalize(payload))
}

/// The pieces of a text, none of them empty but for an empty paste. A mark without a second one is
/// itself something typed.
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MARK) {
        let Some((payload, behind)) = after.split_once(MARK) else { break };
        if !before.is_empty() {
            parts.push(Part::Typed(before));
        }
        parts.push(Part::Pasted(payload));
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(Part::Typed(rest));
    }
    parts
}

/// The text as a model reads it.
pub fn expand(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return text.into();
    }
    let whole = parts(text).into_iter().map(|part| match part {
        Part::Typed(text) | Part::Pasted(text) => text,
    });
    whole.collect::<String>().into()
}

/// The text as a person reads it. `count` is how many chips the session has shown so far; it goes on.
pub fn chips<'t>(text: &'t str, count: &mut usize) -> Cow<'t, str> {
    if !text.contains(MARK) {
        return text.into();
    }
    let mut shown = String::new();
    for part in parts(text) {
        match part {
            Part::Typed(text) => shown.push_str(text),
            Part::Pasted(payload) => {
                *count += 1;
                shown.push_str(&chip(*count, payload));
            }
        }
    }
    shown.into()
}

/// How many pastes are in a text.
pub fn count(text: &str) -> usize {
    parts(text).iter().filter(|part| matches!(part, Part::Pasted(_))).count()
}

/// The text as it may be kept: without its marks where one of them stands inside a secret, which would
/// not be recognised there and is whole for a model.
pub fn sealed<'t>(text: &'t str, redactor: &Redactor) -> Cow<'t, str> {
    if !text.contains(MARK) {
        return text.into();
    }
    let whole = expand(text);
    match expand(&redactor.redact(text)) == redactor.redact(&whole) {
        true => text.into(),
        false => whole.into_owned().into(),
    }
}

/// What stands for a paste on the screen: `[paste #1 · 42 lines]`.
pub fn chip(number: usize, payload: &str) -> String {
    match payload.lines().count() {
        0 | 1 => format!("[paste #{number} · {} characters]", payload.chars().count()),
        lines => format!("[paste #{number} · {lines} lines]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paste_comes_out_as_it_went_in_but_for_line_ends_and_marks() {
        let text = format!("see {} and", embed("a\r\nb\rc\u{fffc}d"));
        assert_eq!(
            parts(&text),
            [Part::Typed("see "), Part::Pasted("a\nb\ncd"), Part::Typed(" and")]
        );
        assert_eq!(expand(&text), "see a\nb\ncd and");
    }

    #[test]
    fn two_pastes_in_a_row_stay_two() {
        let text = embed("one") + &embed("two");
        assert_eq!(parts(&text), [Part::Pasted("one"), Part::Pasted("two")]);
        assert_eq!(expand(&text), "onetwo");
    }

    #[test]
    fn a_typed_mark_is_dropped_and_one_that_stands_alone_hides_nothing() {
        assert_eq!(typed("a\u{fffc}b\u{fffc}"), "ab");
        assert_eq!(parts("a\u{fffc}b"), [Part::Typed("a\u{fffc}b")]);
        assert_eq!(expand("a\u{fffc}b"), "a\u{fffc}b");
    }

    #[test]
    fn chips_are_numbered_through_the_session_and_tell_the_size() {
        let mut count = 0;
        let first = embed(&"x\n".repeat(42));
        assert_eq!(chips(&first, &mut count), "[paste #1 · 42 lines]");
        let second = format!("and {}", embed("12345"));
        assert_eq!(chips(&second, &mut count), "and [paste #2 · 5 characters]");
        assert_eq!((chips("plain", &mut count).into_owned(), count), ("plain".to_owned(), 2));
        assert_eq!(super::count(&(first + &second)), 2);
    }

    #[test]
    fn a_mark_inside_a_secret_is_given_up_and_one_beside_it_stays() {
        let redactor = Redactor::new([("KEY", "hunter2hunter2hunter2")]);
        let split = format!("use hunter2hunt{} now", embed("er2hunter2"));
        assert_eq!(sealed(&split, &redactor), "use hunter2hunter2hunter2 now");
        for whole in [embed("use hunter2hunter2hunter2 now"), embed("nothing in it")] {
            assert_eq!(sealed(&whole, &redactor), whole);
        }
    }

    #[test]
    fn a_paste_is_long_by_its_lines_or_by_its_characters() {
        assert!(!is_long(&"x\n".repeat(SHORT_LINES)) && is_long(&"x\n".repeat(SHORT_LINES + 1)));
        assert!(!is_long(&"é".repeat(SHORT_CHARS)) && is_long(&"é".repeat(SHORT_CHARS + 1)));
    }
}
