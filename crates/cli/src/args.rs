//! What can be written on the command line.

mod command;
mod values;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use agent::PermissionMode;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

pub(crate) use self::command::{
    Command, ConfigAction, ExportFormat, ModelsAction, PermissionsAction, SessionsAction,
    TrustAction,
};
use self::values::Mode;
pub(crate) use self::values::{Confine, OutputFormat};
use crate::exit;

/// A terminal-first coding agent.
#[derive(Debug, Parser)]
#[command(
    name = "anvil",
    version,
    about = "A terminal-first coding agent",
    after_help = exit::HELP
)]
pub(crate) struct Args {
    /// Run one turn on PROMPT and exit. PROMPT may be left out when input is piped
    #[arg(short = 'p', long, value_name = "PROMPT", num_args = 0..=1, default_missing_value = "")]
    pub(crate) print: Option<String>,

    /// The model: an alias, PROVIDER:MODEL-ID or a provider
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// How hard the model thinks; the levels depend on the model
    #[arg(long, value_name = "LEVEL")]
    pub(crate) effort: Option<String>,

    /// What goes to standard output in a run with -p, or from a command that shows something
    #[arg(
        long, value_enum, value_name = "FORMAT", default_value_t = OutputFormat::Text, global = true
    )]
    pub(crate) output_format: OutputFormat,

    /// The most model requests of one turn, 100 unless configured
    #[arg(
        long, alias = "max-turns", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) max_steps: Option<u32>,

    /// The longest a turn may take, such as 90s, 30m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) max_wall_time: Option<Duration>,

    /// Work in DIR instead of the current directory
    #[arg(short = 'C', long = "cwd", value_name = "DIR", global = true)]
    pub(crate) cwd: Option<PathBuf>,

    /// A configuration file that counts like options do
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,

    /// Treat unknown keys in configuration files as errors
    #[arg(long, global = true)]
    pub(crate) strict_config: bool,

    /// How much happens without asking
    #[arg(long, value_enum, value_name = "MODE", global = true)]
    permission_mode: Option<Mode>,

    /// The same as --permission-mode bypass
    #[arg(long, alias = "yolo", conflicts_with = "permission_mode", global = true)]
    dangerously_skip_permissions: bool,

    /// Let calls run without asking, such as 'bash(cargo test:*)'; a '!' at the end permits a wide rule
    #[arg(long, value_name = "RULE", global = true)]
    pub(crate) allow: Vec<String>,

    /// Ask before calls that would run otherwise
    #[arg(long, value_name = "RULE", global = true)]
    pub(crate) ask: Vec<String>,

    /// Never run such calls, whatever else says so
    #[arg(long, value_name = "RULE", global = true)]
    pub(crate) deny: Vec<String>,

    /// A further folder that may be read and written
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) add_dir: Vec<PathBuf>,

    /// What commands may write. With full-access nothing confines them; external means that a container
    /// around anvil does
    #[arg(long, value_enum, value_name = "POLICY", global = true)]
    pub(crate) sandbox: Option<Confine>,

    /// Let commands connect to anywhere
    #[arg(long, global = true)]
    pub(crate) network: bool,

    /// Text to add at the end of the system prompt
    #[arg(long, value_name = "TEXT", global = true)]
    pub(crate) append_system_prompt: Option<String>,

    /// A file to use as the base of the system prompt
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) system_file: Option<PathBuf>,

    /// Keep the requests and the answers of the run in FILE, which must not exist yet. Keys are left
    /// out, prompts and files are not
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,

    /// Answer from the recording FILE, with no key and no network. The first request that is not the
    /// recorded one ends the run
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,

    /// Continue the last session of this directory
    #[arg(short, long, conflicts_with = "resume")]
    pub(crate) r#continue: bool,

    /// Continue the session with this ID; the beginning of it is enough
    #[arg(short, long, value_name = "ID")]
    pub(crate) resume: Option<String>,

    /// Continue a copy under a new id, and leave the session unchanged
    #[arg(long)]
    pub(crate) fork_session: bool,

    /// Do not save the session
    #[arg(long, alias = "ephemeral")]
    pub(crate) no_session_persistence: bool,

    /// Do not read standard input
    #[arg(long)]
    pub(crate) no_stdin: bool,

    /// Show reasoning and more of what tools print
    #[arg(long)]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl Args {
    /// Reads a command line; the first word is the program's name.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let mut matches = command.try_get_matches_from_mut(bind_prompt(words))?;
        let args = Self::from_arg_matches_mut(&mut matches)?;
        if args.fork_session && !args.r#continue && args.resume.is_none() {
            return Err(command.error(
                ErrorKind::MissingRequiredArgument,
                "--fork-session needs the session to copy: --continue or --resume ID",
            ));
        }
        match (&args.command, args.option_of_a_turn().or_else(|| args.option_of_permissions())) {
            (Some(_), Some(option)) => Err(command.error(
                ErrorKind::ArgumentConflict,
                format!("{option} is for a turn and cannot be used with a command"),
            )),
            _ => Ok(args),
        }
    }

    /// Whether it is shown what a turn would begin with, so that its options count.
    fn is_preview(&self) -> bool {
        matches!(self.command, Some(Command::Config { action: Some(ConfigAction::Prompt { .. }) }))
    }

    /// An option that was given and says something about a turn.
    fn option_of_a_turn(&self) -> Option<&'static str> {
        let given = [
            (self.print.is_some(), "--print"),
            (self.model.is_some(), "--model"),
            (self.effort.is_some(), "--effort"),
            (self.max_steps.is_some(), "--max-steps"),
            (self.max_wall_time.is_some(), "--max-wall-time"),
            (self.append_system_prompt.is_some() && !self.is_preview(), "--append-system-prompt"),
            (self.system_file.is_some() && !self.is_preview(), "--system-file"),
            (self.r#continue, "--continue"),
            (self.resume.is_some(), "--resume"),
            (self.fork_session, "--fork-session"),
            (self.no_session_persistence, "--no-session-persistence"),
            (self.no_stdin, "--no-stdin"),
            (self.verbose, "--verbose"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }

    /// An option that was given and says what may run, which no other command wants to know.
    fn option_of_permissions(&self) -> Option<&'static str> {
        if matches!(self.command, Some(Command::Permissions { .. })) || self.is_preview() {
            return None;
        }
        let given = [
            (self.permission_mode.is_some(), "--permission-mode"),
            (self.dangerously_skip_permissions, "--dangerously-skip-permissions"),
            (!self.allow.is_empty(), "--allow"),
            (!self.ask.is_empty(), "--ask"),
            (!self.deny.is_empty(), "--deny"),
            (!self.add_dir.is_empty(), "--add-dir"),
            (self.sandbox.is_some(), "--sandbox"),
            (self.network, "--network"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }

    /// How much happens without asking, if an option says so.
    pub(crate) fn permission_mode(&self) -> Option<PermissionMode> {
        if self.dangerously_skip_permissions {
            return Some(PermissionMode::Bypass);
        }
        self.permission_mode.map(Mode::as_permission_mode)
    }
}

/// Ties a prompt that begins with a dash to its `-p`, so that it is not taken for an option.
///
/// Only words with white space before any `=` qualify: no option is written like that.
fn bind_prompt(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut bound: Vec<OsString> = Vec::new();
    for word in words {
        let after_print = bound.last().is_some_and(|last| last == "-p" || last == "--print");
        if after_print && is_dashed_prose(&word) {
            bound.pop();
            let mut glued = OsString::from("--print=");
            glued.push(word);
            bound.push(glued);
        } else {
            bound.push(word);
        }
    }
    bound
}

fn is_dashed_prose(word: &OsStr) -> bool {
    let Some(text) = word.to_str() else { return false };
    let head = text.split('=').next().unwrap_or(text);
    head.starts_with('-') && head.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Args, clap::Error> {
        Args::read(std::iter::once("anvil").chain(words.iter().copied()).map(OsString::from))
    }

    #[test]
    fn a_prompt_that_begins_with_dashes_is_a_prompt_when_it_holds_white_space() {
        assert_eq!(read(&["-p", "--help me"]).unwrap().print.unwrap(), "--help me");
        assert_eq!(
            read(&["--print", "- fix a=b\n- test"]).unwrap().print.unwrap(),
            "- fix a=b\n- test"
        );
        assert_eq!(read(&["--print=--help"]).unwrap().print.unwrap(), "--help");
    }

    #[test]
    fn an_option_after_a_bare_p_stays_an_option() {
        let args = read(&["-p", "--append-system-prompt=be brief"]).unwrap();
        assert_eq!(args.print.as_deref(), Some(""));
        assert_eq!(args.append_system_prompt.as_deref(), Some("be brief"));
    }

    #[test]
    fn yolo_and_max_turns_are_other_names_of_the_same_options() {
        assert_eq!(read(&["--yolo"]).unwrap().permission_mode(), Some(PermissionMode::Bypass));
        assert_eq!(read(&["--max-turns", "7"]).unwrap().max_steps, Some(7));
        assert!(read(&["--max-steps", "0"]).is_err());
    }

    #[test]
    fn skipping_permissions_contradicts_a_permission_mode() {
        assert!(read(&["--yolo", "--permission-mode", "plan"]).is_err());
    }
}
