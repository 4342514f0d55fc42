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
