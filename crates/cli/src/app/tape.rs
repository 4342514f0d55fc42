//! The recording that a run makes, or is answered from.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use llm::recording::{Header, Player, Recorder, Tape};

use super::{Models, StartError};
use crate::args::Args;
use crate::redaction;

/// Opens what `--record` or `--replay` names, for work in `cwd`.
///
/// # Errors
/// When the recording to replay is none.
pub(super) fn open(args: &Args, cwd: &Path, session_id: &str) -> Result<Option<Tape>, StartError> {
    if let Some(file) = &args.record {
        let out = NewFile { path: file.clone(), file: None };
        let recorder = Recorder::new(Box::new(out)).cleaned_by(redaction::cleaner());
        return Ok(Some(Tape::Record(Arc::new(recorder))));
    }
    let Some(file) = &args.replay else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display| {
        StartError::Usage(format!("--replay {}: {error}", file.display()))
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let player = Player::new(&text).map_err(|error| wrong(&error))?;
    let player = player.moved_to(&cwd.to_string_lossy(), session_id);
    let player = player.cleaned_by(redaction::cleaner());
    Ok(Some(Tape::Replay(Arc::new(player))))
}

/// A file that nobody else can read, made with its first line: a run that cannot begin leaves none.
struct NewFile {
    path: PathBuf,
    file: Option<fs::File>,
}

impl NewFile {
    fn file(&mut self) -> io::Result<&mut fs::File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                OpenOptions::new().append(true).create_new(true).mode(0o600).open(&self.path)?
            }
        };
        Ok(self.file.insert(file))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file()?.flush()
    }
}

/// The model that was recorded, as `provider:model-id`.
pub(super) fn model(tape: Option<&Tape>) -> Option<&str> {
    match tape {
        Some(Tape::Replay(player)) => player.header().model.as_deref(),
        Some(Tape::Record(_)) | None => None,
    }
}

/// Begins the recording, once it is known that there will be a run, and of what.
///
/// # Errors
/// When its file exists already, or cannot be made or written.
pub(super) fn begin(
    args: &Args,
    models: &Models,
    model: &str,
    cwd: &Path,
    session_id: &str,
) -> Result<(), StartError> {
    let (Some(Tape::Record(recorder)), Some(file)) = (models.tape(), &args.record) else {
        return Ok(());
    };
    if file.exists() {
        return Err(StartError::Usage(format!(
            "--record {}: the file exists, and no recording is written over: name another one",
            file.display()
        )));
    }
    let header = Header {
        program: concat!("anvil ", env!("CARGO_PKG_VERSION")).to_owned(),
        model: Some(model.to_owned()),
        base_url: models.shown_address(model),
        cwd: Some(cwd.to_string_lossy().into_owned()),
        session_id: Some(session_id.to_owned()),
    };
    let wrong = |error| StartError::Usage(format!("--record {}: {error}", file.display()));
    recorder.begin(header).map_err(wrong)
}
