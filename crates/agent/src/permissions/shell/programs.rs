//! What is known about programs: which options make one do more than its name says.
//!
//! An allow rule for `find` is meant for finding, not for `-exec`; one for `git log` not for writing a
//! file with `--output`. The tables refuse what runs other programs, writes files that are not the
//! program's business, or changes settings. What is not in them is covered: a rule is a person's word.

mod editors;
mod git;
mod names;
mod network;
mod reading;
mod table;

use super::base_name;
use super::options::{self, Argument, abbreviates};
pub use names::is_interpreter;
pub(super) use names::{
    is_builtin_of_effect, is_harmless_variable, is_loader, is_runner, is_wrapper,
};
pub use network::network;
pub use reading::{is_chosen_by_folder, is_read_only, takes_any_words};
use table::{PROGRAMS, Program};

/// Why a rule for a program does not cover a call of it.
type Refusal = &'static str;

/// An allow rule with a prefix covers this call of its program. Rules for exactly one line do not ask.
///
/// # Errors
///
/// What an option makes the program do beyond what a rule for its name means.
pub fn covers(argv: &[String]) -> Result<(), &'static str> {
    let Some((program, arguments)) = argv.split_first() else { return Err("there is no program") };
    let name = base_name(program);
    if is_wrapper(name) {
        return Err("runs the command in its arguments, which the rule does not name");
    }
    if is_builtin_of_effect(name) {
        return Err("changes what the rest of the line means, or evaluates its arguments");
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match name {
        "git" => return git::covers(&words),
        "test" | "[" | "printf" if words.iter().any(|word| evaluates(name, word)) => {
            return Err("evaluates the name of a variable");
        }
        _ => {}
    }
    let Some(program) = PROGRAMS.iter().find(|program| program.names.contains(&name)) else {
        return Ok(());
    };
    refused(program, &words)
}

/// `test -v NAME` and `printf -v NAME` run what the index of the name substitutes.
fn evaluates(name: &str, word: &str) -> bool {
    match name {
        "printf" => word.starts_with("-v"),
        _ => word == "-v" || word == "-R",
    }
}

/// Holds the arguments against what is refused for a program.
fn refused(program: &Program, words: &[&str]) -> Result<(), Refusal> {
    let optional: Vec<Option<&str>> = words.iter().map(|word| Some(*word)).collect();
    let arguments = options::read(&program.grammar, &optional);
    for argument in &arguments {
        let hit = program.refused.iter().find(|(option, _)| is_option(argument, option));
        if let Some((_, why)) = hit {
            return Err(why);
        }
    }
    match program.further {
        Some(further) => further(&Call { words, arguments: &arguments }),
        None => Ok(()),
    }
}

/// A call whose options are read.
struct Call<'a> {
    words: &'a [&'a str],
    arguments: &'a [Argument<'a>],
}

impl<'a> Call<'a> {
    fn operands(&self) -> impl Iterator<Item = &'a str> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Operand(at) => Some(self.words[*at]),
            Argument::Short(..) | Argument::Long(..) => None,
        })
    }

    /// Values of an option, in order.
    fn values(&self, option: &str) -> impl Iterator<Item = &'a str> {
        let hits = self.arguments.iter().filter(move |argument| is_option(argument, option));
        hits.filter_map(|argument| match argument {
            Argument::Short(_, value) | Argument::Long(_, value) => *value,
            Argument::Operand(_) => None,
        })
    }
}

/// The argument is this option: `o` for a letter, `--output` for a name that may be abbreviated.
fn is_option(argument: &Argument<'_>, option: &str) -> bool {
    match argument {
        Argument::Short(letter, _) => {
            let mut letters = option.chars();
            letters.next() == Some(*letter) && letters.next().is_none()
        }
        Argument::Long(given, _) => {
            option.strip_prefix("--").is_some_and(|name| abbreviates(given, name))
        }
        Argument::Operand(_) => false,
    }
}

#[cfg(test)]
mod tests;
