//! Words: what one stands for when only quotes stand in it, and how one is quoted again.

/// What `raw` stands for; `None` where the shell puts something in its place.
///
/// `raw` must hold no `$` and no backquote outside single quotes; patterns, braces and a leading tilde
/// without quotes are what the shell replaces.
pub(super) fn decode(raw: &str) -> Option<String> {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\'' => {
                let (body, after) = rest.split_once('\'')?;
                text.push_str(body);
                rest = after;
            }
            '"' => rest = double_quoted(rest, &mut text)?,
            '\\' => match rest.chars().next()? {
                '\n' => rest = &rest[1..],
                escaped => {
                    text.push(escaped);
                    rest = &rest[escaped.len_utf8()..];
                }
            },
            '*' | '?' | '(' | ')' => return None,
            '[' if raw != "[" && raw != "[[" => return None,
            '{' if raw != "{}" && raw.contains([',', '.']) => return None,
            '~' if text.is_empty() || text.ends_with(['=', ':']) => return None,
            '$' | '`' => return None,
            c => text.push(c),
        }
    }
    Some(text)
}

/// Decodes up to the closing quote; what follows it.
fn double_quoted<'a>(body: &'a str, text: &mut String) -> Option<&'a str> {
    let mut rest = body;
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => return Some(rest),
            '$' | '`' => return None,
            '\\' => match rest.chars().next()? {
                '\n' => rest = &rest[1..],
                escaped @ ('"' | '\\' | '$' | '`') => {
                    text.push(escaped);
                    rest = &rest[1..];
                }
                _ => text.push('\\'),
            },
            c => text.push(c),
        }
    }
}

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
