//! Which characters a person does not see, or sees somewhere else than they are.

/// Control characters except tab and newline, and what displays hide or turn around (direction marks,
/// joiners, fillers, blanks of other scripts): with one of them a person reads another line than the
/// shell does.
pub(super) fn is_unseen(c: char) -> bool {
    match c {
        '\t' | '\n' | ' ' => false,
        _ if c.is_ascii() => c.is_ascii_control(),
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => true,
        '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => c.is_control() || c.is_whitespace(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_any_script_are_seen_and_what_hides_between_them_is_not() {
        for c in ['a', '~', '\n', '\t', 'ä', '漢', '…', '🙂'] {
            assert!(!is_unseen(c), "{c:?}");
        }
        for c in [
            '\0', '\r', '\u{1b}', '\u{7f}', '\u{85}', '\u{a0}', '\u{200b}', '\u{202e}', '\u{3000}',
            '\u{feff}',
        ] {
            assert!(is_unseen(c), "{c:?}");
        }
    }
}
