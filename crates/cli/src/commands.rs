//! The slash commands of a conversation: one row each, from which the help text is made.

/// What a person can ask of the program itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// List the commands.
    Help,
    /// Forget the conversation.
    Clear,
    /// Go on with another model, or tell which one answers.
    Model(Option<String>),
    /// Leave.
    Exit,
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
    make: fn(Option<String>) -> Command,
}

const ROWS: [Row; 4] = [
    Row { name: "help", argument: None, help: "this list", make: |_| Command::Help },
    Row {
        name: "clear",
        argument: None,
        help: "forget the conversation",
        make: |_| Command::Clear,
    },
    Row {
        name: "model",
        argument: Some("NAME"),
        help: "go on with another model, as PROVIDER:MODEL-ID; without NAME, tell which one answers",
        make: Command::Model,
    },
    Row { name: "exit", argument: None, help: "leave (also Ctrl-D)", make: |_| Command::Exit },
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
    match ROWS.iter().find(|row| row.name == name) {
        None => Line::Wrong(format!(
            "there is no command /{name}: /help lists them (begin with a space to send the line to the model)"
        )),
        Some(row) if row.argument.is_none() && argument.is_some() => {
            Line::Wrong(format!("/{name} takes nothing after it"))
        }
        Some(row) => Line::Command((row.make)(argument)),
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

/// Takes out control characters that a paste may bring along; line feeds and tabs stay.
fn clean(input: &str) -> String {
    let lines = input.replace("\r\n", "\n").replace('\r', "\n");
    lines.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The list of commands.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for row in &ROWS {
        let name = match row.argument {
            Some(argument) => format!("/{} {argument}", row.name),
            None => format!("/{}", row.name),
        };
        text.push_str(&format!("{name:<14}{}\n", row.help));
    }
    text.push_str(
        "\nCtrl-C stops the answer, or clears the line. Pasted text keeps its line breaks; \
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
    }

    #[test]
    fn a_command_that_does_not_exist_says_so_and_is_not_sent() {
        for line in ["/undo", "/cler", "/exit now"] {
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
    }

    #[test]
    fn the_help_names_every_command() {
        for row in &ROWS {
            assert!(help().contains(&format!("/{}", row.name)));
        }
    }
}
