//! Programs and builtins that run another command from their arguments.

use super::{Word, base_name};

/// What a command runs in turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// Another command.
    Command(Vec<Word>),
    /// A text of commands.
    Script(String),
    /// It evaluates a variable's value, a name or an index, which may substitute commands.
    Evaluates,
    /// Something that cannot be seen in the line.
    Hidden,
}

/// What `words` runs besides its program.
pub(super) fn inner(words: &[Word]) -> Vec<Inner> {
    let Some(program) = words[0].literal().map(base_name) else { return Vec::new() };
    let arguments = &words[1..];
    match program {
        "bash" | "sh" | "dash" | "zsh" | "ksh" => shell(arguments),
        "eval" => script_of(arguments),
        "declare" | "let" | "local" | "read" | "test" | "[" | "typeset" | "unset" => {
            vec![Inner::Evaluates]
        }
        "nohup" | "setsid" | "exec" | "command" | "builtin" | "time" | "env" | "nice"
        | "timeout" | "stdbuf" | "xargs" | "sudo" => {
            (0..arguments.len()).map(|at| Inner::Command(arguments[at..].to_vec())).collect()
        }
        _ => Vec::new(),
    }
}

fn shell(arguments: &[Word]) -> Vec<Inner> {
    let scripts = arguments.iter().filter_map(Word::literal).filter(|word| word.contains(' '));
    scripts.map(|text| Inner::Script(text.to_owned())).collect()
}

fn script_of(arguments: &[Word]) -> Vec<Inner> {
    let words: Option<Vec<&str>> = arguments.iter().map(Word::literal).collect();
    vec![words.map_or(Inner::Hidden, |words| Inner::Script(words.join(" ")))]
}
