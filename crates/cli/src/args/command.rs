//! What the program can do beside turns: its subcommands and what each is told.

use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use llm::config::Origin;

use super::values;

/// What else the program can do.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Repair a small broken project with no key and no network: real tools, a scripted model
    Demo,
    /// List the models with their keys, limits and prices, or try one
    Models {
        #[command(subcommand)]
        action: Option<ModelsAction>,
    },
    /// Show what is configured, by whom, and whether it counts
    Config {
        #[command(subcommand)]
        action: Option<ConfigAction>,
    },
    /// List the permission rules in force, or say what would happen with a command
    Permissions {
        #[command(subcommand)]
        action: Option<PermissionsAction>,
    },
    /// Look at what works on this machine and in this folder, and what to do about the rest
    Doctor {
        /// One JSON object instead of a page
        #[arg(long)]
        json: bool,
    },
    /// List the sessions of this directory, show, check, export or delete them
    Sessions {
        #[command(subcommand)]
        action: Option<SessionsAction>,
    },
    /// Print a session as a transcript
    Replay {
        /// Its id, or the beginning of it
        id: String,
        /// Show pasted text in full, not as chips
        #[arg(long)]
        expand: bool,
    },
    /// Show what this repository asks authority for, grant it or take it back
    Trust {
        #[command(subcommand)]
        action: Option<TrustAction>,
    },
}

/// What can be asked of models.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum ModelsAction {
    /// Try with four short requests what a model can do: text, tools, results, calls side by side,
    /// token counts
    Test {
        /// An alias, or PROVIDER:MODEL-ID
        name: String,
    },
}

/// What can be asked about the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Subcommand)]
pub(crate) enum ConfigAction {
    /// Every value with its layer, place and trust
    #[default]
    Show,
    /// All layers of one key, or of the keys in one table
    Explain {
        /// Such as providers.anthropic.base_url
        key: String,
    },
    /// Where the files are
    Path,
    /// The JSON Schema of a configuration file
    Schema,
    /// The system prompt that a run would send, byte for byte
    Prompt {
        /// Only list names in its base that nothing fills in, and what is wrong with it
        #[arg(long)]
        check: bool,
    },
}

/// What can be asked about permissions.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum PermissionsAction {
    /// Say whether a command would run, and which rule of which file says so
    Test {
        /// The command line, as one argument
        command: String,
    },
}

/// What can be done about sessions.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub(crate) enum SessionsAction {
    /// Show what is known about one, and what was said
    Show {
        /// Its id, or the beginning of it
        id: String,
        /// Show pasted text in full, not as chips
        #[arg(long)]
        expand: bool,
    },
    /// Check files: repair a torn end, name the line of any other damage
    Fsck {
        /// Which one; all of this directory if none is named
        id: Option<String>,
        /// Check those of all directories
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
    /// Print one as a single document
    Export {
        /// Its id, or the beginning of it
        id: String,
        /// The format
        #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
        format: ExportFormat,
        /// Leave out the marks around pasted text, as Markdown always does
        #[arg(long)]
        expand: bool,
    },
    /// List old sessions of all directories, and delete them with --yes
    Prune {
        /// The age of the last record, such as 30d or 12h
        #[arg(long, value_name = "TIME", value_parser = values::duration)]
        older_than: Duration,
        /// Delete them
        #[arg(long)]
        yes: bool,
    },
}

/// What a session is given out as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object with the messages that the model reads
    #[default]
    Json,
    /// Markdown to read
    Markdown,
}

/// What can be done about trust.
#[derive(Debug, Clone, Default, PartialEq, Eq, Subcommand)]
pub(crate) enum TrustAction {
    /// What is asked for, as a difference to what was granted
    #[default]
    Show,
    /// Let the repository have what it asks for, as it is now
    Grant {
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Let the key in a variable go to a further server: NAME=https://host
        #[arg(long, value_name = "VARIABLE=ADDRESS", value_parser = values::credential_origin)]
        credential_origin: Vec<(String, Origin)>,
    },
    /// Take back all that was granted
    Revoke,
}
