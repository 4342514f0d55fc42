//! Reads arguments as a program reads them: options combined, abbreviated, with values attached or apart.

/// How a program writes its options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grammar {
    /// Letters that take a value, attached or as the next word.
    pub(super) valued: &'static str,
    /// Letters whose value can only be attached, and takes the rest of the word.
    pub(super) attached: &'static str,
    /// Long names that take a value, after `=` or as the next word.
    pub(super) long: &'static [&'static str],
    /// Options end at the first operand.
    pub(super) ends_early: bool,
    /// A long name follows one dash too, and letters are not combined.
    pub(super) one_dash: bool,
}

impl Grammar {
    /// Options as GNU programs write them.
    pub(super) const fn gnu(valued: &'static str, long: &'static [&'static str]) -> Self {
        Self { valued, attached: "", long, ends_early: false, one_dash: false }
    }

    /// Options of a program that runs the command in its operands.
    pub(super) const fn wrapper(valued: &'static str, long: &'static [&'static str]) -> Self {
        Self { valued, attached: "", long, ends_early: true, one_dash: false }
    }

    /// The same with letters whose value is always attached.
    pub(super) const fn attached(self, attached: &'static str) -> Self {
        Self { attached, ..self }
    }

    /// Long names after one dash, as `find` and many others write them.
    pub(super) const fn one_dash(long: &'static [&'static str]) -> Self {
        Self { valued: "", attached: "", long, ends_early: false, one_dash: true }
    }
}

/// An argument after reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument<'a> {
    /// An option of one letter, with its value.
    Short(char, Option<&'a str>),
    /// An option with a name, perhaps abbreviated, with its value.
    Long(&'a str, Option<&'a str>),
    /// What is no option; its place in the arguments.
    Operand(usize),
}

/// Reads arguments; `None` is a word that only the shell knows, and counts as an operand.
pub(super) fn read<'a>(grammar: &Grammar, words: &[Option<&'a str>]) -> Vec<Argument<'a>> {
    let mut arguments = Vec::with_capacity(words.len());
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        let option = match *word {
            Some("--") => {
                arguments.extend((at..words.len()).map(Argument::Operand));
                break;
            }
            Some(word) if word.len() > 1 && word.starts_with('-') => word,
            _ => {
                arguments.push(Argument::Operand(at - 1));
                if grammar.ends_early {
                    arguments.extend((at..words.len()).map(Argument::Operand));
                    break;
                }
                continue;
            }
        };
        let mut next = || {
            at += 1;
            words.get(at - 1).copied().flatten()
        };
        match option.strip_prefix("--") {
            Some(name) => arguments.push(long(grammar, name, &mut next)),
            None if grammar.one_dash => arguments.push(long(grammar, &option[1..], &mut next)),
            None => letters(grammar, &option[1..], &mut next, &mut arguments),
        }
    }
    arguments
}

fn long<'a>(
    grammar: &Grammar,
    name: &'a str,
    next: &mut impl FnMut() -> Option<&'a str>,
) -> Argument<'a> {
    match name.split_once('=') {
        Some((name, value)) => Argument::Long(name, Some(value)),
        None if grammar.long.iter().any(|long| abbreviates(name, long)) => {
            Argument::Long(name, next())
        }
        None => Argument::Long(name, None),
    }
}

fn letters<'a>(
    grammar: &Grammar,
    letters: &'a str,
    next: &mut impl FnMut() -> Option<&'a str>,
    arguments: &mut Vec<Argument<'a>>,
) {
    for (at, letter) in letters.char_indices() {
        let rest = &letters[at + letter.len_utf8()..];
        if grammar.valued.contains(letter) {
            let value = if rest.is_empty() { next() } else { Some(rest) };
            return arguments.push(Argument::Short(letter, value));
        }
        if grammar.attached.contains(letter) {
            return arguments.push(Argument::Short(letter, Some(rest)));
        }
        arguments.push(Argument::Short(letter, None));
    }
}

/// GNU programs take any beginning of a long name for it.
pub(super) fn abbreviates(given: &str, name: &str) -> bool {
    !given.is_empty() && name.starts_with(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(grammar: &Grammar, words: &[&str], want: &[Argument<'_>]) {
        let words: Vec<Option<&str>> = words.iter().map(|word| Some(*word)).collect();
        assert_eq!(read(grammar, &words), want, "{words:?}");
    }

    #[test]
    fn options_are_read_combined_abbreviated_and_with_values_in_any_place() {
        use Argument::{Long, Operand, Short};
        let sort = Grammar::gnu("okt", &["output", "key"]);
        check(&sort, &["-ro", "p", "f"], &[Short('r', None), Short('o', Some("p")), Operand(2)]);
        check(&sort, &["-rop", "f"], &[Short('r', None), Short('o', Some("p")), Operand(1)]);
        check(&sort, &["f", "--out=p"], &[Operand(0), Long("out", Some("p"))]);
        check(&sort, &["--out", "p", "f"], &[Long("out", Some("p")), Operand(2)]);
        check(&sort, &["--", "-o", "p"], &[Operand(1), Operand(2)]);
        check(&sort, &["-", "-k"], &[Operand(0), Short('k', None)]);
        let nice = Grammar::wrapper("n", &["adjustment"]);
        check(&nice, &["-n5", "a", "-n"], &[Short('n', Some("5")), Operand(1), Operand(2)]);
        let find = Grammar::one_dash(&["name"]);
        check(&find, &[".", "-name", "-exec"], &[Operand(0), Long("name", Some("-exec"))]);
        assert_eq!(read(&nice, &[None, Some("-n")]), [Operand(0), Operand(1)]);
    }
}
