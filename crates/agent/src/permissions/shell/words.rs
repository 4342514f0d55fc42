//! Words: how one is quoted again, and what a text mentions.

/// The text holds what starts a command substitution.
pub(super) fn substitutes(text: &str) -> bool {
    text.contains("$(") || text.contains('`')
}

/// `text` holds `name`, as it stands or after quotes, backslashes and continued lines are taken away.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let bare = text.replace("\\\n", "").replace("$'", "").replace(['\'', '"', '\\'], "");
    text.contains(name) || bare.contains(name)
}

/// `text` holds `name` as a word of its own, whatever is around it.
pub(super) fn names(text: &str, name: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        // A letter of an option may stand right before its value.
        let is_value = at == 2 && text.starts_with('-');
        (is_value || !before.is_some_and(is_inside)) && !after.is_some_and(is_inside)
    })
}

/// The words as one line from which the shell makes the same words.
pub(super) fn quoted_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as the shell reads it back.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./,:@%+=-".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
