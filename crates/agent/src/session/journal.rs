//! The file of a session: the only place that writes it.
//!
//! One program at a time may write (a lock on the file itself, which ends with the program). A record is
//! one write at the end of the file, so that a program that is killed leaves whole records and at most
//! one torn line; and what a full disk cut off is taken back before anything else is written.

mod error;
mod load;
mod redact;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;

pub use self::error::{JournalError, LoadError};
pub(super) use self::load::open_to_read;
pub use self::load::{Loaded, Torn, load, load_each};
use super::record::{self, Meta, Record};
use super::reduce::State;
use crate::secrets::Redactor;

/// A session's file, open for writing.
#[derive(Debug)]
pub struct Journal {
    file: Arc<File>,
    path: PathBuf,
    /// The length of the file up to the last whole record of ours.
    len: u64,
    /// The number of the next record.
    seq: u64,
    /// Lines that are not in the file yet.
    unsaved: Vec<u8>,
    /// Whether a part of them is behind the last whole record and has to go first.
    has_a_part: bool,
    redactor: Arc<Redactor>,
}

impl Journal {
    /// Begins the file of a session at `path`, whose folder exists, with its first record.
    ///
    /// # Errors
    /// When there is a file already, or it cannot be written; no file is left then that was not there.
    pub fn create(
        path: &Path,
        meta: Meta,
        redactor: Arc<Redactor>,
    ) -> Result<(Self, State), JournalError> {
        let fault = |error| JournalError::io(path, error);
        let file = options().create_new(true).open(path).map_err(fault)?;
        let begun = Self::begin(file, path, meta, redactor);
        if begun.is_err() {
            take_away(path);
        }
        begun
    }

    fn begin(
        file: File,
        path: &Path,
        meta: Meta,
        redactor: Arc<Redactor>,
    ) -> Result<(Self, State), JournalError> {
        lock(&file, path)?;
        sync_name(path)?;
        let mut state = State::default();
        let first = Record::SessionStarted(meta);
        state.apply(&first).expect("a session that has no record takes its first one");
        let mut journal = Self::over(file, path, redactor);
        journal.append(&first)?;
        Ok((journal, state))
    }

    /// Gives the file the name under which it is found.
    pub(super) fn rename(&mut self, path: &Path) -> Result<(), JournalError> {
        std::fs::rename(&self.path, path).map_err(|error| JournalError::io(path, error))?;
        path.clone_into(&mut self.path);
        sync_name(path)
    }

    /// Removes the file of a session that never came to be.
    pub(super) fn discard(self) {
        take_away(&self.path);
    }

    /// Opens the file of a session to go on with it. A torn last line is kept beside it, in a file whose
    /// name ends in `.torn`, and cut off.
    ///
    /// # Errors
    /// When the file is damaged elsewhere, in use, or cannot be read and written. It is unchanged then.
    pub fn open(path: &Path, redactor: Arc<Redactor>) -> Result<(Self, Loaded), JournalError> {
        let fault = |error| JournalError::io(path, error);
        let file = options().open(path).map_err(fault)?;
        lock(&file, path)?;
        let mut loaded = load::read(&file, path)?;
        file.set_permissions(Permissions::from_mode(0o600)).map_err(fault)?;
        let mut journal = Self::over(file, path, redactor);
        journal.seq = loaded.next_seq;
        journal.len = loaded.len;
        match &mut loaded.torn {
            Some(torn) => torn.kept = journal.cut_off(&torn.bytes).map_err(fault)?,
            None if !loaded.ends_in_newline => {
                journal.unsaved.push(b'\n');
                journal.write_unsaved()?;
            }
            None => {}
        }
        Ok((journal, loaded))
    }

    fn over(file: File, path: &Path, redactor: Arc<Redactor>) -> Self {
        let (file, path) = (Arc::new(file), path.to_owned());
        Self { file, path, len: 0, seq: 0, unsaved: Vec::new(), has_a_part: false, redactor }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of bytes in it, records that could not be written left out.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Writes a record, and before it what could not be written earlier. Secrets that are known are
    /// taken out first, except from what only a provider can read.
    ///
    /// # Errors
    /// When it could not be written. The file then ends with a whole record, and the next call tries
    /// again.
    pub fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        let start = self.unsaved.len();
        if let Err(error) = record::write(&mut self.unsaved, self.seq, now(), record) {
            // The part that had a form would stand before the next record.
            self.unsaved.truncate(start);
            return Err(JournalError::io(&self.path, error.into()));
        }
        redact::line(&mut self.unsaved, start, &self.redactor);
        self.seq += 1;
        self.write_unsaved()
    }

    /// Something that makes all that was written survive a loss of power. It blocks.
    pub fn sync(&self) -> impl FnOnce() -> Result<(), JournalError> + Send + 'static {
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        move || file.sync_data().map_err(|error| JournalError::io(&path, error))
    }

    /// Writes what could not be written before.
    ///
    /// # Errors
    /// When it still cannot be written.
    pub fn catch_up(&mut self) -> Result<(), JournalError> {
        if self.unsaved.is_empty() { self.still_there() } else { self.write_unsaved() }
    }

    pub(super) fn fault(&self, error: io::Error) -> JournalError {
        JournalError::io(&self.path, error)
    }

    fn write_unsaved(&mut self) -> Result<(), JournalError> {
        self.take_part_back()?;
        if let Err(error) = (&*self.file).write_all(&self.unsaved) {
            self.has_a_part = true;
            if let Err(error) = self.take_part_back() {
                tracing::warn!(%error, "a half-written record stays in the session's file");
            }
            return Err(JournalError::io(&self.path, error));
        }
        self.len += self.unsaved.len() as u64;
        self.unsaved.clear();
        // One huge record must not cost its memory for ever.
        self.unsaved.shrink_to(1 << 20);
        self.still_there()
    }

    /// Cuts off what a failed write left: no record may be written behind half of one.
    fn take_part_back(&mut self) -> Result<(), JournalError> {
        if self.has_a_part {
            let cut = self.file.set_len(self.len);
            cut.map_err(|error| JournalError::io(&self.path, error))?;
            self.has_a_part = false;
        }
        Ok(())
    }

    /// What is written to a file that was removed is lost with the program.
    fn still_there(&self) -> Result<(), JournalError> {
        match self.file.metadata() {
            Ok(metadata) if metadata.nlink() == 0 => {
                Err(JournalError::Removed { path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Keeps the torn end of the file beside it and cuts it off.
    fn cut_off(&self, torn: &[u8]) -> io::Result<PathBuf> {
        let kept = place_of_torn(&self.path);
        let mut file = options().create(true).open(&kept)?;
        file.write_all(torn)?;
        file.write_all(b"\n")?;
        file.sync_data()?;
        self.file.set_len(self.len)?;
        self.file.sync_data()?;
        Ok(kept)
    }
}

/// How session files are opened: for their user alone, at their end, and never through a link.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600).custom_flags(load::FLAGS);
    options
}

/// Where the torn end of a session's file is kept.
fn place_of_torn(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(".torn");
    name.into()
}

/// Removes a session's file, and the torn end that was kept beside it. What is not there is no error.
///
/// # Errors
/// When one of them cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    for path in [path, &place_of_torn(path)] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes the name of a file survive a loss of power, as its content does.
fn sync_name(path: &Path) -> Result<(), JournalError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| JournalError::io(path, error))
}

/// Removes a file that was just made and never told to anybody.
fn take_away(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "an empty session stays");
    }
}

fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
            Err(JournalError::InUse { path: path.to_owned() })
        }
        Err(error) => Err(JournalError::io(path, error.into())),
    }
}

/// Milliseconds since 1970. Nothing depends on it: the order of records is that of their numbers.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
