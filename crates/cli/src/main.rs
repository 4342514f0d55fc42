//! The binary `anvil`: parse, run, exit.

mod app;
mod approve;
mod args;
mod catalogue;
mod commands;
mod demo;
mod doctor;
mod exit;
mod grants;
mod headless;
mod history;
mod inspect;
mod keyboard;
mod logs;
mod permits;
mod redaction;
mod render;
mod repl;
mod say;
mod signals;
mod stdin;
mod terminal;
mod trial;
mod ui;
mod working;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::app::StartError;
use crate::args::{Args, OutputFormat};
use crate::exit::Exit;
pub(crate) use crate::say::complain;

fn main() -> ExitCode {
    say::tell_panics();
    agent::process::claim_orphans();
    let words: Vec<OsString> = std::env::args_os().collect();
    let format = OutputFormat::sniff(&words);
    let exit = match Args::read(words) {
        Ok(args) => app::run(args),
        Err(error) => not_run(&error, format),
    };
    exit.into()
}

/// Shows help or version, or what is wrong with the command line.
fn not_run(error: &clap::Error, format: OutputFormat) -> Exit {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => Exit::Done,
            Err(error) => headless::output_failed(&error),
        };
    }
    if format == OutputFormat::Text {
        let told = error.render().to_string();
        complain(&told);
        // What stands behind a command was meant for that.
        let is_first = told.contains("Usage: anvil [");
        if error.kind() == ErrorKind::InvalidSubcommand && is_first {
            complain("A task is given with -p: anvil -p \"what to do\"\n");
        }
        return Exit::Usage;
    }
    // Clap's first line is the error; the rest is advice for a person.
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    headless::never_began(&StartError::Usage(line.to_owned()), format, &app::new_session_id())
}
