//! Keeps tool output inside a budget without hiding that something was cut.
//!
//! The head and the tail survive, because errors open an output and summaries close it.

use std::borrow::Cow;

/// What to do about a cut when the tool that made the text knows nothing better.
const GENERIC_ADVICE: &str =
    "to see it, narrow the call or send the output to a file and read that in parts";

/// Shortens `text` to about `max` characters and notes how many are missing and how to see them.
///
/// Half of `max` goes to the head and half to the tail; the note comes on top.
pub fn middle(text: &str, max: usize) -> Cow<'_, str> {
    middle_with(text, max, GENERIC_ADVICE)
}

/// Like [`middle`], with the caller's own words on how to see what was cut.
fn middle_with<'a>(text: &'a str, max: usize, advice: &str) -> Cow<'a, str> {
    // A character takes at least a byte, so most texts are done without counting.
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let total = text.chars().count();
    if total <= max {
        return Cow::Borrowed(text);
    }
    let tail_chars = max / 2;
    let head_chars = max - tail_chars;
    let head = head(text, head_chars);
    let tail = tail(text, tail_chars);
    let cut = total - max;
    Cow::Owned(format!("{head}\n\n[... {cut} characters cut here; {advice} ...]\n\n{tail}"))
}

/// The first `chars` characters of `text`.
pub fn head(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// The last `chars` characters of `text`.
pub fn tail(text: &str, chars: usize) -> &str {
    if chars == 0 {
        return "";
    }
    match text.char_indices().rev().nth(chars - 1) {
        Some((start, _)) => &text[start..],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_inside_the_budget_is_left_alone() {
        assert!(matches!(middle("short", 5), Cow::Borrowed("short")));
        assert!(matches!(middle("éé", 2), Cow::Borrowed("éé")));
        assert_eq!(middle("", 0), "");
    }

    #[test]
    fn head_and_tail_survive_and_the_note_counts_what_is_gone() {
        let text = format!("first{}last", "x".repeat(100));
        assert_eq!(
            middle_with(&text, 10, "use offset"),
            "first\n\n[... 99 characters cut here; use offset ...]\n\nxlast"
        );
    }

    #[test]
    fn the_note_says_how_to_see_more() {
        assert!(middle(&"x".repeat(50), 10).contains("to see it, narrow the call"));
    }

    #[test]
    fn emoji_are_never_split() {
        let text = "👩‍💻🦀🎉".repeat(1000);
        for max in 0..200 {
            let cut = middle(&text, max);
            assert!(cut.starts_with(head(&text, max - max / 2)), "{max}");
            assert!(cut.ends_with(tail(&text, max / 2)), "{max}");
            assert!(!cut.contains('\u{fffd}'));
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_and_what_is_counted_add_up(text in "\\PC{0,200}", max in 0usize..220) {
            let cut = middle_with(&text, max, "A");
            let total = text.chars().count();
            if total <= max {
                prop_assert_eq!(&*cut, text.as_str());
            } else {
                let note = format!("\n\n[... {} characters cut here; A ...]\n\n", total - max);
                prop_assert_eq!(cut.chars().count(), max + note.chars().count());
                prop_assert!(cut.contains(&note));
            }
        }
    }
}
