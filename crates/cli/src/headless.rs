//! One turn for a pipeline, with an exit code that says how it ended.

use std::io::{self, Write as _};

use agent::channel::EventSender;
use agent::{Agent, ErrorInfo, TurnOutcome, paste};
use llm::ContentBlock;

use crate::app::{Room, StartError};
use crate::args::OutputFormat;
use crate::exit::Exit;
use crate::redaction;
use crate::render::Render as _;
use crate::render::json::{self, Json, StreamJson};
use crate::say::say;
use crate::signals::{self, Signals, Stop};
use crate::terminal;
use crate::ui::Ui;

/// Runs the turn, waits until all of it is written, and chooses the exit code last.
pub(crate) async fn run(
    mut agent: Agent,
    events: EventSender,
    ui: Ui,
    signals: &Signals,
    prompt: String,
    mut room: Room,
) -> Exit {
    signals::watch_output(signals.clone());
    let fixed = agent.fixed_bytes();
    warn(room.warning(fixed).await);
    let cancel = signals.begin_turn();
    let result = agent.run_turn(vec![ContentBlock::text(paste::typed(&prompt))], cancel).await;
    // What went wrong is part of the turn's last event.
    let outcome = result.unwrap_or(TurnOutcome::Failed);
    drop((agent, events));
    let written = ui.join().await;
    if signals.stop().is_none() {
        warn(room.warning(fixed).await);
    }
    match written {
        Ok(()) => Exit::of(outcome, signals.stop()),
        Err(error) => output_failed(&error),
    }
}

fn warn(warning: Option<String>) {
    if let Some(warning) = warning {
        crate::complain(&format!("anvil: {warning}\n"));
    }
}

/// The exit after standard output refused something.
pub(crate) fn output_failed(error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Exit::Stopped(Stop::OutputClosed);
    }
    if terminal::stop_for(error) == Stop::HungUp {
        return Exit::Stopped(Stop::HungUp);
    }
    crate::complain(&format!("anvil: standard output cannot be written: {error}\n"));
    Exit::Failed
}

/// Prints what a command has to say.
pub(crate) fn print(text: &str) -> Exit {
    match say(text) {
        Ok(()) => Exit::Done,
        Err(error) => output_failed(&error),
    }
}

/// Tells why no turn began, in the form that was asked for.
pub(crate) fn never_began(error: &StartError, format: OutputFormat, session_id: &str) -> Exit {
    let (kind, exit) = match error {
        StartError::Usage(_) => ("usage", Exit::Usage),
        StartError::Config(_) => ("config", Exit::Config),
        StartError::Untrusted(_) => ("untrusted", Exit::Untrusted),
        StartError::Session(_) => ("session", Exit::Failed),
    };
    let info = ErrorInfo {
        kind: kind.to_owned(),
        message: redaction::clean(&error.to_string()).into_owned(),
    };
    if format == OutputFormat::Text {
        crate::complain(&format!("anvil: {error}\n"));
    }
    match tell_end(TurnOutcome::Failed, Some(info), format, session_id) {
        Ok(()) => exit,
        Err(error) => output_failed(&error),
    }
}

/// Tells that the work was stopped before its turn began.
pub(crate) fn stopped_before(stop: Stop, format: OutputFormat, session_id: &str) -> Exit {
    match tell_end(TurnOutcome::Cancelled, None, format, session_id) {
        Ok(()) => Exit::Stopped(stop),
        Err(error) => output_failed(&error),
    }
}

fn tell_end(
    outcome: TurnOutcome,
    error: Option<ErrorInfo>,
    format: OutputFormat,
    session_id: &str,
) -> io::Result<()> {
    let end = json::never_began(outcome, error);
    let mut out = io::stdout();
    match format {
        OutputFormat::Text => {}
        OutputFormat::Json => Json::new(&mut out, session_id.to_owned()).event(&end)?,
        OutputFormat::StreamJson => StreamJson::new(&mut out, session_id.to_owned()).event(&end)?,
    }
    out.flush()
}
