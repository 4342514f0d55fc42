//! Programs and builtins that run another command from their arguments.
//!
//! Their options are known well enough to tell where that command starts. After an option that is not
//! known the command may start at either of two places, and both are looked at.

mod table;

use super::options::{Argument, Grammar, read};
use super::programs::is_loader;
use super::{Word, base_name, words};
use table::{WRAPPERS, Wrapper};

/// What a command runs in turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// Another command.
    Command(Vec<Word>),
    /// A text of commands.
    Script(String),
    /// A name or an index that is evaluated, and with it the substitutions in it.
    Evaluated(String),
    /// It evaluates what variables hold.
    Evaluates,
    /// Commands that do not stand in its arguments.
    Hidden,
}

/// What `words` runs besides its program.
pub(super) fn inner(words: &[Word]) -> Vec<Inner> {
    let Some(program) = words[0].literal().map(base_name) else { return Vec::new() };
    let arguments = &words[1..];
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&program)) {
        return wrapped(wrapper, arguments);
    }
    match program {
        "bash" | "sh" | "dash" | "ash" | "zsh" | "ksh" | "mksh" | "rbash" => shell(arguments),
        "eval" | "ssh" | "trap" | "alias" | "watch" | "su" | "runuser" | "script" | "parallel" => {
            scripts(program, arguments)
        }
        "find" => find(arguments),
        "fd" | "fdfind" => after_option(arguments, &["-x", "-X", "--exec", "--exec-batch"]),
        "git" => git(arguments),
        "mapfile" | "readarray" | "complete" | "compgen" | "bind" => {
            let mut all = evaluated(arguments);
            all.extend(arguments.iter().filter_map(Word::literal).map(script));
            all
        }
        "declare" | "typeset" | "local" | "export" | "readonly" | "let" | "read" | "unset"
        | "test" | "[" | "printf" | "wait" | "getopts" | "[[" => evaluated(arguments),
        // The program that a name will stand for.
        "hash"
            if arguments.iter().any(|word| word.literal().is_none_or(|w| w.starts_with('-'))) =>
        {
            vec![Inner::Hidden]
        }
        "." | "source" => match arguments.first() {
            Some(file) if may_be_input(file) => vec![Inner::Hidden],
            _ => Vec::new(),
        },
        // Newer ones do without the name of an architecture.
        "setarch" => suffixes(arguments),
        // The loader runs the program that is its operand.
        _ if is_loader(program) => suffixes(arguments),
        _ => Vec::new(),
    }
}

fn script(text: &str) -> Inner {
    Inner::Script(text.to_owned())
}

fn literals(words: &[Word]) -> Vec<Option<&str>> {
    words.iter().map(Word::literal).collect()
}

/// Each place at which a command may start.
fn suffixes(arguments: &[Word]) -> Vec<Inner> {
    (0..arguments.len()).map(|at| Inner::Command(arguments[at..].to_vec())).collect()
}

/// The command in the operands of a wrapper.
fn wrapped(wrapper: &Wrapper, arguments: &[Word]) -> Vec<Inner> {
    let words = literals(arguments);
    let read = read(&wrapper.grammar, &words);
    let mut inner = Vec::new();
    let mut doubt = false;
    for argument in &read {
        match *argument {
            Argument::Short(letter, value) => {
                if wrapper.only_looks.contains(letter) {
                    return Vec::new();
                }
                if wrapper.scripts.contains(letter) {
                    inner.push(value.map_or(Inner::Hidden, script));
                }
                doubt |= !wrapper.knows(letter);
            }
            Argument::Long(name, value) => {
                if wrapper.long_scripts.iter().any(|long| long.starts_with(name)) {
                    inner.push(value.map_or(Inner::Hidden, script));
                }
                // An unknown long option that needs a value usually has it after an equals sign.
                doubt |= value.is_none() && !wrapper.long_flags.contains(&name);
            }
            Argument::Operand(_) => {}
        }
    }
    let operands = read.iter().filter_map(|argument| match argument {
        Argument::Operand(at) => Some(*at),
        _ => None,
    });
    // A lone dash is an option of `env`.
    let is_variable = |at: &usize| {
        wrapper.variables && words[*at].is_some_and(|word| word == "-" || word.contains('='))
    };
    let Some(start) = operands.skip_while(is_variable).nth(wrapper.operands) else { return inner };
    // A word that only the shell knows may be any of its options, with their values.
    if words[..start].contains(&None) {
        inner.extend(suffixes(&arguments[start..]));
        return inner;
    }
    inner.push(Inner::Command(arguments[start..].to_vec()));
    if doubt && start + 1 < arguments.len() {
        inner.push(Inner::Command(arguments[start + 1..].to_vec()));
    }
    inner
}

/// A shell: its script is an argument, a file, or its input.
fn shell(arguments: &[Word]) -> Vec<Inner> {
    const GRAMMAR: Grammar = Grammar::wrapper("oO", &["rcfile", "init-file"]);
    // A plus sign switches an option off, and is read like the dash that switches it on.
    let dashed = |word: &str| word.strip_prefix('+').map(|letters| format!("-{letters}"));
    let words: Vec<Option<String>> = literals(arguments)
        .into_iter()
        .map(|word| word.map(|word| dashed(word).unwrap_or_else(|| word.to_owned())))
        .collect();
    let words: Vec<Option<&str>> = words.iter().map(Option::as_deref).collect();
    let mut takes_script = false;
    let mut reads_input = true;
    for argument in read(&GRAMMAR, &words) {
        match argument {
            Argument::Short('c', _) => takes_script = true,
            Argument::Short(..) | Argument::Long(..) => {}
            Argument::Operand(at) if takes_script => {
                return vec![arguments[at].literal().map_or(Inner::Hidden, script)];
            }
            Argument::Operand(at) => {
                reads_input = may_be_input(&arguments[at]);
                break;
            }
        }
    }
    match reads_input {
        true => vec![Inner::Hidden],
        false => Vec::new(),
    }
}

/// A file of commands that may be the input, or an open file: what it holds stands somewhere else. A word
/// that only the shell knows may as well be an option.
fn may_be_input(file: &Word) -> bool {
    file.literal().is_none_or(|file| ["/dev/", "/proc/"].iter().any(|dir| file.starts_with(dir)))
}

/// Programs that hand words to a shell.
fn scripts(program: &str, arguments: &[Word]) -> Vec<Inner> {
    let words = literals(arguments);
    let joined = |from: usize| match words[from..].iter().copied().collect::<Option<Vec<_>>>() {
        Some(words) => Inner::Script(words.join(" ")),
        None => Inner::Hidden,
    };
    match program {
        "eval" => {
            let from = usize::from(words.first() == Some(&Some("--")));
            vec![joined(from.min(words.len()))]
        }
        "trap" | "alias" => {
            let texts = words.iter().map(|word| match word {
                Some(word) => script(word.split_once('=').map_or(word, |(_, value)| value)),
                None => Inner::Hidden,
            });
            // Names of signals and options are read along; nothing is called like them.
            texts.collect()
        }
        "su" | "runuser" | "script" => {
            const GRAMMAR: Grammar = Grammar::gnu("csgGuwTEIOBm", &["command", "session-command"]);
            let read = read(&GRAMMAR, &words);
            let given = read.iter().filter_map(|argument| match argument {
                Argument::Short('c', value) => Some(*value),
                Argument::Long(name, value) if "command".starts_with(name) => Some(*value),
                _ => None,
            });
            given.map(|value| value.map_or(Inner::Hidden, script)).collect()
        }
        _ => {
            let grammar = match program {
                "ssh" => Grammar::wrapper("BbcDEeFIiJLlmOoPpQRSWw", &[]),
                "watch" => Grammar::wrapper("nq", &["interval", "equexit"]),
                _ => Grammar::wrapper(
                    "jNnLlSaIEdPsCtU",
                    &["jobs", "arg-file", "colsep", "delay", "timeout"],
                ),
            };
            let skipped = usize::from(program == "ssh");
            let mut operands =
                read(&grammar, &words).into_iter().filter_map(|argument| match argument {
                    Argument::Operand(at) => Some(at),
                    _ => None,
                });
            match operands.nth(skipped) {
                Some(at) => vec![Inner::Command(arguments[at..].to_vec()), joined(at)],
                None => Vec::new(),
            }
        }
    }
}

/// `find` runs commands up to a `;` or `+`. A word that the shell expands may be any of its options.
fn find(arguments: &[Word]) -> Vec<Inner> {
    let mut inner = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let rest = &arguments[at + 1..];
        let runs = match word {
            Word::Literal(word) => ["-exec", "-execdir", "-ok", "-okdir"].contains(&word.as_str()),
            Word::Unknown => true,
        };
        if runs && !rest.is_empty() {
            let ends = |word: &Word| word.literal().is_some_and(|word| word == ";" || word == "+");
            let length = rest.iter().position(ends).unwrap_or(rest.len());
            if length > 0 {
                inner.push(Inner::Command(rest[..length].to_vec()));
            }
        }
    }
    inner
}

/// The command after one of these options.
fn after_option(arguments: &[Word], options: &[&str]) -> Vec<Inner> {
    let at = arguments.iter().position(|word| word.literal().is_some_and(|w| options.contains(&w)));
    let rest = at.map(|at| &arguments[at + 1..]).filter(|rest| !rest.is_empty());
    rest.map(|rest| Inner::Command(rest.to_vec())).into_iter().collect()
}

/// Sub-commands of `git` that run a command, and settings that name one.
fn git(arguments: &[Word]) -> Vec<Inner> {
    let words = literals(arguments);
    let mut inner = Vec::new();
    for pair in words.windows(2) {
        let [Some(first), second] = pair else { continue };
        match (*first, second) {
            ("-c" | "--config", Some(setting)) => {
                inner.extend(setting.split_once("=!").map(|(_, text)| script(text)))
            }
            ("-x" | "--exec" | "foreach", Some(text))
            | ("--tree-filter" | "--index-filter" | "--msg-filter", Some(text)) => {
                inner.push(script(text));
            }
            ("-c" | "--config" | "-x" | "--exec" | "foreach", None)
            | ("--tree-filter" | "--index-filter" | "--msg-filter", None) => {
                inner.push(Inner::Hidden);
            }
            _ => {}
        }
    }
    if words.starts_with(&[Some("bisect"), Some("run")]) && arguments.len() > 2 {
        inner.push(Inner::Command(arguments[2..].to_vec()));
    }
    inner
}

/// Builtins that take names of variables, whose indices are evaluated even in quotes.
fn evaluated(arguments: &[Word]) -> Vec<Inner> {
    let texts = arguments.iter().filter_map(Word::literal).filter(|word| words::substitutes(word));
    let mut inner: Vec<Inner> = texts.map(|word| Inner::Evaluated(word.to_owned())).collect();
    inner.push(Inner::Evaluates);
    inner
}
