//! The languages of `sed` and `awk`: whether a script only transforms text.
//!
//! Both are read just far enough to be sure; what is not surely harmless is refused.

use super::{Call, Refusal};
use crate::permissions::shell::options::Grammar;

pub(super) const SED: Grammar =
    Grammar::gnu("efl", &["expression", "file", "line-length"]).attached("i");
pub(super) const AWK: Grammar = Grammar::gnu(
    "FfveiEl",
    &["file", "field-separator", "assign", "source", "include", "load", "exec"],
)
.attached("dopD");

/// A script of `sed` neither runs a command nor touches another file.
pub(super) fn sed(call: &Call<'_>) -> Result<(), Refusal> {
    let mut scripts: Vec<&str> = call.values("e").collect();
    scripts.extend(call.values("--expression"));
    if scripts.is_empty() {
        scripts.extend(call.operands().next());
    }
    match scripts.iter().all(|script| is_plain_sed(script)) {
        true => Ok(()),
        false => Err("a command of the script may run a program or touch another file"),
    }
}

/// Reads commands one by one: addresses, then a command with what belongs to it.
fn is_plain_sed(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = skip_addresses(rest) else { return false };
        let mut chars = after.chars();
        let Some(command) = chars.next() else { return true };
        rest = match command {
            '{' | '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x'
            | 'l' | 'q' | 'Q' | 'z' => {
                chars.as_str().trim_start_matches(|c: char| c.is_ascii_digit())
            }
            // Where a label ends differs between versions: what may follow it is read as commands.
            ':' | 'b' | 't' | 'T' => match after_label(chars.as_str()) {
                Some(rest) => rest,
                None => return false,
            },
            // Text goes on to the end of the line, comments too.
            '#' | 'a' | 'i' | 'c' => match (command, chars.as_str().contains('\n')) {
                ('a' | 'i' | 'c', true) => return false,
                _ => chars.as_str().split_once('\n').map_or("", |(_, rest)| rest),
            },
            's' => match substitution(chars.as_str(), "gpiImM0123456789") {
                Some(rest) => rest,
                None => return false,
            },
            'y' => match substitution(chars.as_str(), "") {
                Some(rest) => rest,
                None => return false,
            },
            // e, w, W, r, R, F, v and what is not known.
            _ => return false,
        };
    }
}

/// What follows a label in the version of `sed` that ends it soonest; a label of other signs is not
/// understood.
fn after_label(text: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rest = text.trim_start_matches(' ').trim_start_matches(is_plain);
    (rest.is_empty() || rest.starts_with([';', '\n', '}', ' '])).then_some(rest)
}

/// What follows numbers, `$`, regular expressions and `!`.
fn skip_addresses(script: &str) -> Option<&str> {
    let mut rest = script;
    loop {
        let next = rest.chars().next()?;
        rest = match next {
            '0'..='9' | '$' | ',' | '~' | '+' | '!' | ' ' => &rest[1..],
            '/' => after_delimiter(&rest[1..], '/')?.trim_start_matches(['I', 'M']),
            _ => return Some(rest),
        };
        if rest.is_empty() {
            return Some(rest);
        }
    }
}

/// What follows `DELIMITER…DELIMITER…DELIMITER` and the flags allowed.
fn substitution<'a>(script: &'a str, flags: &str) -> Option<&'a str> {
    let delimiter = script.chars().next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
    let rest = after_delimiter(&script[1..], delimiter)?;
    let rest = after_delimiter(rest, delimiter)?;
    let rest = rest.trim_start_matches(|c| flags.contains(c));
    let ends = rest.is_empty() || rest.starts_with([';', '\n', '}', ' ', '#']);
    ends.then_some(rest)
}

/// What follows the next delimiter that no backslash precedes. Inside brackets a delimiter may or may not
/// count, so that brackets that hold one are not understood.
fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut in_brackets = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == delimiter => {
                return (!in_brackets).then(|| &text[at + c.len_utf8()..]);
            }
            // Here the bracket may or may not be one of the characters.
            '[' if text[at + 1..].trim_start_matches('^').starts_with(']') => return None,
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
    }
    None
}

/// A program of `awk` only prints.
pub(super) fn awk(call: &Call<'_>) -> Result<(), Refusal> {
    let mut programs: Vec<&str> = call.values("e").collect();
    programs.extend(call.values("--source"));
    if programs.is_empty() {
        programs.extend(call.operands().next());
    }
    match programs.iter().all(|program| is_plain_awk(program)) {
        true => Ok(()),
        false => Err("the program may run a command or touch another file"),
    }
}

/// No word that runs or opens anything, and no sign that may redirect: a comparison with `>` is refused
/// too, since only a parser tells it from a file.
fn is_plain_awk(program: &str) -> bool {
    let mut code = String::with_capacity(program.len());
    let mut quoted = false;
    let mut chars = program.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '"' => quoted = !quoted,
            _ if !quoted => code.push(c),
            _ => {}
        }
    }
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    const REFUSED: &[&str] =
        &["system", "getline", "close", "fflush", "load", "include", "namespace"];
    let calls = words.into_iter().any(|word| REFUSED.contains(&word));
    let bare_pipe = code.replace("||", "").contains('|');
    // A quote inside a regular expression would turn text into code and back.
    let slashes_and_quotes = code.contains('/') && program.contains('"');
    !quoted && !calls && !bare_pipe && !code.contains(['>', '@']) && !slashes_and_quotes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_sed_that_only_change_text_are_told_from_others() {
        for script in [
            "s/a/b/",
            "s/a/b/g",
            "1,5p",
            "$d",
            "/a/,/b/d",
            "/a/!p",
            "s|a|b|gp;s/c/d/",
            "y/ab/cd/",
            "10q",
            "2,4{p;d}",
            "s/\\//x/",
            "s/[a-z]*//g",
            "/^$/d",
            "s#a#b#",
            ":a;N;$!ba;s/x/ /g",
            "/x/b\np",
            "t end;p;:end",
        ] {
            assert!(is_plain_sed(script), "{script}");
        }
        for script in [
            "s/a/b/e",
            "s/a/b/w p",
            "s/a/b/gw p",
            "w p",
            "1w p",
            "e",
            "e id",
            "1e id",
            "r /etc/shadow",
            "R x",
            "W x",
            "s/a/b/;w p",
            "s/[/]/b/e;s/x/",
            "a\\\ntext\ne id",
            "v",
            "s/a",
            "F",
            "s,a,b,e",
            ":a;e id",
            "t;e id",
            "b x;w p\n:x",
            "T}e id",
            ": a w p",
            ":,a e id",
            ":+1qa;e id",
            "b/;w p\naR\\nG/#q",
            "s/[]/]/;s/w ./x/g",
            "s/[^]/]/;s/w ./x/g",
        ] {
            assert!(!is_plain_sed(script), "{script}");
        }
    }

    #[test]
    fn programs_of_awk_that_only_print_are_told_from_others() {
        for program in [
            "{print $1}",
            "NR==3",
            "{s+=$2} END{print s}",
            "/x/{print}",
            "BEGIN{print \"a\"}",
            "$1<3||$2",
        ] {
            assert!(is_plain_awk(program), "{program}");
        }
        for program in [
            "BEGIN{system(\"id\")}",
            "{print > \"p\"}",
            "{print | \"sh\"}",
            "\"id\"|getline",
            "BEGIN{getline<\"x\"}",
            "@load \"x\"",
            "/\"/{system(1)} /\"/",
            "{print \"a",
            "{print |& \"sh\"}",
        ] {
            assert!(!is_plain_awk(program), "{program}");
        }
    }
}
