//! What is said past the screen thread: on standard output and standard error, and always in visible
//! form and without secrets, wherever the words come from.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write as _};
use std::panic::{self, PanicHookInfo};

use crate::redaction;

/// Writes to standard output.
///
/// # Errors
/// When standard output does not take it.
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(visible(text).as_bytes())?;
    out.flush()
}

/// The text as a screen may show it.
fn visible(text: &str) -> String {
    agent::sanitize::visible(&redaction::clean(text)).to_string()
}

/// Writes to standard error; whoever closed it does not want to know.
pub(crate) fn complain(text: &str) {
    let mut err = io::stderr();
    if let Err(error) = err.write_all(visible(text).as_bytes()).and_then(|()| err.flush()) {
        tracing::debug!(%error, "standard error takes nothing");
    }
}

/// Tells a fault of the program itself like any other complaint: the message of a panic may quote what
/// a model or a file said.
pub(crate) fn tell_panics() {
    panic::set_hook(Box::new(|fault| {
        complain(&told(fault, &Backtrace::capture()));
        tracing::error!(%fault, "a fault of the program itself");
    }));
}

fn told(fault: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    match backtrace.status() {
        BacktraceStatus::Captured => format!("anvil: thread '{name}' {fault}\n{backtrace}\n"),
        _ => format!("anvil: thread '{name}' {fault}\n"),
    }
}
