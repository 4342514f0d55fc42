//! The slash commands of a conversation: one row each, from which the help text is made.

use agent::sanitize::{Visible, visible};

use crate::keyboard::keys::plain_lines;
use crate::render::style::wrap;

/// What a person can ask of the program itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// List the commands.
    Help,
    /// Forget the conversation.
    Clear,
    /// Put a summary in the place of the conversation, with this as what matters most.
    Compact(Option<String>),
    /// Go on with another model, or tell which one answers.
    Model(Option<String>),
    /// Say or change what runs without asking.
    Permissions(Permissions),
    /// Leave.
    Exit,
}

/// What can be done about permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permissions {
    /// Tell the mode, the sandbox and the rules.
    Show,
    /// Forget the rule of this session with that number, counted from 1.
    Forget(usize),
    /// Go on in the mode of this name.
    Mode(String),
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// Nothing to do.
    Empty,
    /// For the model.
    Prompt(String),
    /// For the program.
    Command(Command),
    /// Looks like a command and is none; the text says what to do.
    Wrong(String),
}

struct Row {
    name: &'static str,
    argument: Option<&'static str>,
    help: &'static str,
    /// Nothing where the argument makes no sense.
    make: fn(Option<String>) -> Option<Command>,
}

const ROWS: [Row; 6] = [
    Row { name: "help", argument: None, help: "this list", make: |_| Some(Command::Help) },
    Row {
        name: "clear",
        argument: None,
        help: "forget the conversation",
        make: |_| Some(Command::Clear),
    },
    Row {
        name: "compact",
        argument: Some("[FOCUS]"),
        help: "replace the conversation by a summary; FOCUS is what matters most",
        make: |focus| Some(Command::Compact(focus)),
    },
    Row {
        name: "model",
        argument: Some("NAME"),
        help: "switch to another model, as PROVIDER:MODEL-ID; without NAME, tell which one answers",
        make: |name| Some(Command::Model(name)),
    },
    Row {
        name: "permissions",
        argument: Some("[forget N | mode NAME]"),
        help: "what runs, asks and is refused, and by which rule; forget a rule of this session; go on in \
               another mode",
        make: |words| permissions(words.as_deref()).map(Command::Permissions),
    },
    Row {
        name: "exit",
        argument: None,
        help: "leave (also Ctrl-D)",
        make: |_| Some(Command::Exit),
    },
];

/// Understands one input. Only a single line can be a command, so that pasted text never is one
/// by accident.
pub(crate) fn read(input: &str) -> Line {
    let text = clean(input);
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Line::Empty;
    }
    let Some((name, argument)) = command_words(trimmed) else { return Line::Prompt(text) };
    let line = command(name, argument);
    // The way out for a line that only looks like a command.
    let is_set_off = text.starts_with(' ');
    if is_set_off && matches!(line, Line::Wrong(_)) { Line::Prompt(text) } else { line }
}

/// The command of that name.
fn command(name: &str, argument: Option<String>) -> Line {
    match ROWS.iter().find(|row| row.name == name) {
        None => Line::Wrong(format!(
            "there is no command /{name}: /help lists them (begin with a space to send the line to the model)"
        )),
        Some(row) if row.argument.is_none() && argument.is_some() => {
            Line::Wrong(format!("/{name} takes nothing after it"))
        }
        Some(row) => match (row.make)(argument) {
            Some(command) => Line::Command(command),
            None => Line::Wrong(format!("it is /{name} {}", row.argument.unwrap_or_default())),
        },
    }
}

fn permissions(words: Option<&str>) -> Option<Permissions> {
    let words: Vec<&str> = words.unwrap_or_default().split_whitespace().collect();
    match words.as_slice() {
        [] => Some(Permissions::Show),
        ["forget", number] => number.parse().ok().map(Permissions::Forget),
        ["mode", name] => Some(Permissions::Mode((*name).to_owned())),
        // The name alone is what people try first.
        [name @ ("default" | "accept-edits" | "auto" | "plan" | "bypass")] => {
            Some(Permissions::Mode((*name).to_owned()))
        }
        _ => None,
    }
}

/// The name and the rest of something that looks like `/name rest`; a path does not.
fn command_words(text: &str) -> Option<(&str, Option<String>)> {
    if text.contains('\n') {
        return None;
    }
    let rest = text.strip_prefix('/')?;
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let argument = argument.trim();
    is_word.then(|| (name, (!argument.is_empty()).then(|| argument.to_owned())))
}

/// Takes out control characters that a paste may bring along, and writes others that nobody sees as
/// escapes, so that no model reads what its user did not; line feeds and tabs stay.
fn clean(input: &str) -> String {
    visible(&plain_lines(input)).into_string()
}

/// Where the explanations in the list begin.
const COLUMN: usize = 14;

/// The list of commands, in lines of `width` columns.
pub(crate) fn help(width: usize) -> String {
    let mut text = String::new();
    for row in &ROWS {
        let name = match row.argument {
            Some(argument) => format!("/{} {argument}", row.name),
            None => format!("/{}", row.name),
        };
        // A long one stands on a line of its own.
        let mut before = match name.len() < COLUMN {
            true => format!("{name:COLUMN$}"),
            false => format!("{name}\n{:COLUMN$}", ""),
        };
        for piece in wrap(&Visible::own(row.help), width.saturating_sub(COLUMN)) {
            text.push_str(&format!("{before}{piece}\n"));
            before = " ".repeat(COLUMN);
        }
    }
    text.push_str(
        "\nYou can keep typing while the model works: Enter queues a line, which the model reads with \
         the next results or at the end of its answer; ↑ in an empty line takes the last one back. \
         Commands wait for the end of the turn. Esc or Ctrl-C ends the turn, and what the model has \
         not read is put into the next prompt.\n\
         \nCtrl-C stops the answer, or clears the line. Pasted text keeps its line breaks; \
         in a terminal without bracketed paste each line is sent by itself.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str) -> Line {
        Line::Prompt(text.to_owned())
    }

    #[test]
    fn commands_are_read_with_and_without_an_argument() {
        assert_eq!(read("/help"), Line::Command(Command::Help));
        assert_eq!(read("/exit "), Line::Command(Command::Exit));
        let model = Command::Model(Some("ollama:qwen3:8b".into()));
        assert_eq!(read("/model  ollama:qwen3:8b "), Line::Command(model));
        assert_eq!(read("/model"), Line::Command(Command::Model(None)));
        let permissions = |what| Line::Command(Command::Permissions(what));
        assert_eq!(read("/permissions"), permissions(Permissions::Show));
        assert_eq!(read("/permissions forget 2"), permissions(Permissions::Forget(2)));
        for line in ["/permissions mode plan", "/permissions plan"] {
            assert_eq!(read(line), permissions(Permissions::Mode("plan".into())), "{line}");
        }
    }

    #[test]
    fn a_command_that_does_not_exist_says_so_and_is_not_sent() {
        for line in ["/undo", "/cler", "/exit now", "/permissions forget", "/permissions x"] {
            assert!(matches!(read(line), Line::Wrong(_)), "{line}");
        }
    }

    #[test]
    fn a_path_and_pasted_lines_are_prompts() {
        assert_eq!(read("/etc/hosts explain"), prompt("/etc/hosts explain"));
        assert_eq!(read("see:\n/clear\n/exit"), prompt("see:\n/clear\n/exit"));
        assert_eq!(read("/clear\n/exit"), prompt("/clear\n/exit"));
        assert_eq!(read(" /help"), Line::Command(Command::Help));
    }

    #[test]
    fn pasted_control_characters_do_not_reach_the_model() {
        assert_eq!(read("a\u{1b}[2J\u{3}\u{4}b\r\nc\td"), prompt("a[2Jb\nc\td"));
        assert_eq!(read(" \u{3}\n"), Line::Empty);
        assert_eq!(read("a\u{202e}b\u{e0041}"), prompt("a\\u{202e}b\\u{e0041}"));
    }

    #[test]
    fn the_help_names_every_command() {
        for row in &ROWS {
            assert!(help(80).contains(&format!("/{}", row.name)));
        }
    }

    #[test]
    fn what_the_help_says_of_a_command_stays_in_its_column() {
        let help = help(40);
        let rows: Vec<&str> = help.lines().take_while(|line| !line.is_empty()).collect();
        assert!(rows.len() > 2 * ROWS.len(), "{help}");
        for row in rows {
            assert!(row.starts_with('/') || row.starts_with(&" ".repeat(COLUMN)), "{help}");
            assert!(row.len() <= 40, "{help}");
        }
    }

    #[test]
    fn a_space_before_it_sends_what_only_looks_like_a_command() {
        for line in [" /undo", " /exit now", " /permissions x"] {
            assert_eq!(read(line), prompt(line));
        }
    }
}
