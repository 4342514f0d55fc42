//! The recording that a run makes, or is answered from.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use llm::recording::{Header, Player, Recorder, Tape};

use super::StartError;
use crate::args::Args;

/// Opens what `--record` or `--replay` names, for work in `cwd`.
///
/// # Errors
/// When the file of a recording exists already or cannot be made, or the one to replay is none.
pub(super) fn open(args: &Args, cwd: &Path, session_id: &str) -> Result<Option<Tape>, StartError> {
    if let Some(file) = &args.record {
        let out = create(file).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StartError::Usage(format!(
                "--record {}: the file exists, and no recording is written over: name another one",
                file.display()
            )),
            _ => StartError::Usage(format!("--record {}: {error}", file.display())),
        })?;
        return Ok(Some(Tape::Record(Arc::new(Recorder::new(Box::new(out))))));
    }
    let Some(file) = &args.replay else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display| {
        StartError::Usage(format!("--replay {}: {error}", file.display()))
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let player = Player::new(&text).map_err(|error| wrong(&error))?;
    let player = player.moved_to(&cwd.to_string_lossy(), session_id);
    Ok(Some(Tape::Replay(Arc::new(player))))
}

/// A new file that nobody else can read.
fn create(file: &Path) -> io::Result<fs::File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(file)
}

/// The model that was recorded, as `provider:model-id`.
pub(super) fn model(tape: Option<&Tape>) -> Option<&str> {
    match tape {
        Some(Tape::Replay(player)) => player.header().model.as_deref(),
        Some(Tape::Record(_)) | None => None,
    }
}

/// Begins the recording, once it is known of what.
///
/// # Errors
/// When its file takes nothing.
pub(super) fn begin(
    tape: Option<&Tape>,
    model: &str,
    cwd: &Path,
    session_id: &str,
) -> Result<(), StartError> {
    let Some(Tape::Record(recorder)) = tape else { return Ok(()) };
    let header = Header {
        program: concat!("anvil ", env!("CARGO_PKG_VERSION")).to_owned(),
        model: Some(model.to_owned()),
        cwd: Some(cwd.to_string_lossy().into_owned()),
        session_id: Some(session_id.to_owned()),
    };
    recorder.begin(header).map_err(|error| StartError::Config(error.to_string()))
}
