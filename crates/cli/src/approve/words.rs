//! What the lines mean that a person answers a question with.

use agent::Scope;
use agent::approval::offered_first;

/// What an answer to the question itself means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Run it.
    Allow,
    /// Run it, and do not ask about such calls again.
    Always,
    /// Do not run it.
    Deny,
    /// Show all of it.
    Whole,
    /// A no with the person's own words.
    Instead(String),
    /// An empty line: asked again.
    Nothing,
}

/// Whatever is not exactly a yes is a no.
pub(super) fn answer(line: &str) -> Answer {
    let text = line.trim();
    match text.to_ascii_lowercase().as_str() {
        "" => Answer::Nothing,
        "y" | "yes" => Answer::Allow,
        "a" | "always" => Answer::Always,
        "n" | "no" => Answer::Deny,
        "v" | "view" => Answer::Whole,
        _ => Answer::Instead(without_no(text).to_owned()),
    }
}

/// The words after a leading "n", "no" or "no," of an answer such as `n use rg`.
fn without_no(text: &str) -> &str {
    match text.split_once(|c: char| c.is_whitespace() || c == ',') {
        Some((no, rest)) if ["n", "no"].contains(&no.to_ascii_lowercase().as_str()) => {
            rest.trim_start_matches([' ', ','])
        }
        _ => text,
    }
}

/// What is put into the line in which a rule is edited: the proposal of that number, the one that is
/// offered first for an empty line, or what was typed instead of a number.
pub(super) fn chosen(line: &str, proposals: &[String]) -> Option<String> {
    let text = line.trim();
    match text.parse::<usize>() {
        Ok(number) => proposals.get(number.checked_sub(1)?).cloned(),
        Err(_) if text.is_empty() => proposals.get(offered_first(proposals)).cloned(),
        Err(_) => Some(text.to_owned()),
    }
}

/// For how long a rule is to hold; an empty line is the shorter time.
pub(super) fn scope(line: &str) -> Option<Scope> {
    match line.trim().to_ascii_lowercase().as_str() {
        "" | "s" | "session" => Some(Scope::Session),
        "u" | "user" => Some(Scope::User),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        assert_eq!(answer("y\n"), Answer::Allow);
        assert_eq!(answer(" YES "), Answer::Allow);
        assert_eq!(answer("a"), Answer::Always);
        assert_eq!(answer("n"), Answer::Deny);
        assert_eq!(answer("v"), Answer::Whole);
        assert_eq!(answer("\n"), Answer::Nothing);
        for words in ["yep", "y?", "sure", "allow", "ya", "yn", "y\ny"] {
            assert_eq!(answer(words), Answer::Instead(words.into()));
        }
    }

    #[test]
    fn a_no_keeps_the_words_that_follow_it() {
        assert_eq!(answer("n use rg"), Answer::Instead("use rg".into()));
        assert_eq!(answer("no, use rg"), Answer::Instead("use rg".into()));
        assert_eq!(answer("use rg"), Answer::Instead("use rg".into()));
        assert_eq!(answer("not now"), Answer::Instead("not now".into()));
    }

    #[test]
    fn a_proposal_is_chosen_by_its_number_or_written_anew() {
        let three = ["bash(cargo test --lib)", "bash(cargo test --lib:*)", "bash(cargo test:*)"];
        let three = three.map(str::to_owned);
        let choose = |line| chosen(line, &three);
        assert_eq!(choose("1").as_deref(), Some("bash(cargo test --lib)"));
        assert_eq!(choose("").as_deref(), Some("bash(cargo test:*)"));
        assert_eq!(choose("bash(ls)").as_deref(), Some("bash(ls)"));
        assert_eq!((choose("0"), choose("4")), (None, None));
        assert_eq!(chosen("", &three[..1]).as_deref(), Some("bash(cargo test --lib)"));
        let files = ["edit_file(./a)", "edit_file"].map(str::to_owned);
        assert_eq!(chosen("", &files).as_deref(), Some("edit_file(./a)"));
    }

    #[test]
    fn a_rule_holds_for_the_session_unless_more_is_said() {
        assert_eq!((scope(""), scope("S")), (Some(Scope::Session), Some(Scope::Session)));
        assert_eq!((scope("u"), scope("yes")), (Some(Scope::User), None));
    }
}
