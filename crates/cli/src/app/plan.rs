//! What kind of run the command line asks for, and with which prompt.

use std::io::{self, IsTerminal as _};

use super::StartError;
use crate::args::{Args, Command, ModelsAction, OutputFormat};
use crate::stdin::{self, Source};

/// What kind of run it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// The demonstration.
    Demo,
    /// A model to be tried, by its name.
    Trial(String),
    /// A look at the machine, as JSON or as a page.
    Doctor {
        /// As JSON.
        json: bool,
    },
    /// One turn.
    Headless {
        /// The argument's prompt, empty when only standard input can tell it.
        prompt: String,
        /// What standard input is.
        source: Source,
    },
    /// A conversation.
    Repl,
}

/// The run that `args` ask for, with the terminal and standard input as they are.
pub(super) fn plan(args: &Args) -> Result<Plan, StartError> {
    match &args.command {
        Some(Command::Demo) => return Ok(Plan::Demo),
        Some(Command::Models { action: Some(ModelsAction::Test { name }) }) => {
            return Ok(Plan::Trial(name.clone()));
        }
        Some(Command::Doctor { json }) => {
            return Ok(Plan::Doctor { json: *json || args.output_format != OutputFormat::Text });
        }
        Some(
            Command::Config { .. }
            | Command::Permissions { .. }
            | Command::Trust { .. }
            | Command::Sessions { .. }
            | Command::Replay { .. }
            | Command::Models { action: None },
        )
        | None => {}
    }
    let source = match args.no_stdin {
        true => Source::Nothing,
        false => stdin::source().map_err(|error| StartError::Usage(error.to_string()))?,
    };
    let no_prompt =
        || StartError::Usage("there is no prompt: give one with -p, or pipe it in".to_owned());
    match &args.print {
        Some(prompt) if prompt.trim().is_empty() && source == Source::Nothing => Err(no_prompt()),
        Some(prompt) => Ok(Plan::Headless { prompt: prompt.clone(), source }),
        None if source != Source::Nothing => Ok(Plan::Headless { prompt: String::new(), source }),
        None if args.no_stdin || !io::stdin().is_terminal() => Err(no_prompt()),
        None if args.output_format != OutputFormat::Text => Err(StartError::Usage(
            "a conversation has no --output-format: give a prompt with -p".to_owned(),
        )),
        None => Ok(Plan::Repl),
    }
}

/// The prompt with what was piped in behind it, or what was piped in alone.
pub(super) fn join_prompt(prompt: &str, input: Option<&str>) -> Result<String, StartError> {
    let input = input.filter(|input| !input.trim().is_empty());
    match (prompt.trim().is_empty(), input) {
        (false, None) => Ok(prompt.to_owned()),
        (true, Some(input)) => Ok(input.to_owned()),
        (false, Some(input)) => {
            let end = if input.ends_with('\n') { "" } else { "\n" };
            Ok(format!("{prompt}\n\n<stdin>\n{input}{end}</stdin>"))
        }
        (true, None) => Err(StartError::Usage(
            "there is no prompt: none was given and standard input is empty".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_input_stands_behind_the_prompt_in_a_block_of_its_own() {
        assert_eq!(
            join_prompt("review this", Some("diff --git a b\n")).unwrap(),
            "review this\n\n<stdin>\ndiff --git a b\n</stdin>"
        );
        assert_eq!(join_prompt("x", Some("no end")).unwrap(), "x\n\n<stdin>\nno end\n</stdin>");
        assert_eq!(join_prompt("x", Some("")).unwrap(), "x");
    }

    #[test]
    fn piped_input_alone_is_the_prompt_and_nothing_at_all_is_a_usage_error() {
        assert_eq!(join_prompt("", Some("fix it\n")).unwrap(), "fix it\n");
        assert!(matches!(join_prompt(" ", Some("\n")), Err(StartError::Usage(_))));
        assert!(matches!(join_prompt("", None), Err(StartError::Usage(_))));
    }
}
