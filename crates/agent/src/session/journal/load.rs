//! A session out of its file, line by line, with no more in memory than the session itself.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::LoadError;
use crate::session::record::{self, Envelope, LineError, Record};
use crate::session::reduce::State;

/// How much is read at once.
const CHUNK: usize = 1 << 18;

/// What a file holds.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The session.
    pub state: State,
    /// How many records there are, those included that were left out.
    pub records: u64,
    /// How many of them a later version added, which could be left out.
    pub left_out: u64,
    /// The end of the file, if it is no whole record.
    pub torn: Option<Torn>,
    pub(super) next_seq: u64,
    /// Bytes up to the end of the last whole record.
    pub(super) len: u64,
    pub(super) ends_in_newline: bool,
}

/// A last line that was never finished.
#[derive(Debug, Default)]
pub struct Torn {
    /// Which line, from 1.
    pub line: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where they are kept, once they were cut off.
    pub kept: PathBuf,
}

/// Reads a session and changes nothing.
///
/// # Errors
/// When it cannot be read, or is damaged anywhere but at its end.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    load_each(path, |_| {})
}

/// The same; `each` gets all records in their order, also those of what no model reads any more.
///
/// # Errors
/// As for [`load`]. Records before the damage were told to `each` then.
pub fn load_each(path: &Path, each: impl FnMut(&Record)) -> Result<Loaded, LoadError> {
    let file =
        open_to_read(path).map_err(|error| LoadError::Io { path: path.to_owned(), error })?;
    read_each(&file, path, each)
}

/// How a session's file is opened: never through a link, and without waiting for the other end of a pipe.
pub(super) const FLAGS: i32 = (OFlags::NOFOLLOW.union(OFlags::NONBLOCK)).bits().cast_signed();

/// Opens a session's file and changes nothing.
pub(in crate::session) fn open_to_read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(FLAGS).open(path)
}

/// The same for an open file.
pub(super) fn read(file: &File, path: &Path) -> Result<Loaded, LoadError> {
    read_each(file, path, |_| {})
}

fn read_each(file: &File, path: &Path, mut each: impl FnMut(&Record)) -> Result<Loaded, LoadError> {
    let fault = |error| LoadError::Io { path: path.to_owned(), error };
    if !file.metadata().map_err(fault)?.is_file() {
        return Err(fault(io::Error::other("it is not a file")));
    }
    let mut reader = BufReader::with_capacity(CHUNK, file);
    let mut loaded = Loaded::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        line.shrink_to(4 * CHUNK);
        if reader.read_until(b'\n', &mut line).map_err(fault)? == 0 {
            break;
        }
        let is_whole = line.last() == Some(&b'\n');
        let text = if is_whole { &line[..line.len() - 1] } else { &line[..] };
        match record::read(text) {
            // Only what was cut off can be missing its end; a newer version is never a torn line.
            Err(LineError::NotARecord(_)) if !is_whole => {
                if loaded.records == 0 {
                    return Err(LoadError::Empty { path: path.to_owned() });
                }
                loaded.torn = Some(Torn { line: number, bytes: line, ..Torn::default() });
                return Ok(loaded);
            }
            Err(error) => {
                return Err(LoadError::Line { path: path.to_owned(), line: number, error });
            }
            Ok(envelope) => {
                loaded.take(&envelope, path, number)?;
                envelope.record.iter().for_each(&mut each);
            }
        }
        loaded.len += line.len() as u64;
        loaded.ends_in_newline = is_whole;
    }
    if loaded.records == 0 {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    Ok(loaded)
}

impl Loaded {
    fn take(&mut self, envelope: &Envelope, path: &Path, line: u64) -> Result<(), LoadError> {
        if envelope.seq != self.next_seq {
            let (found, expected) = (envelope.seq, self.next_seq);
            return Err(LoadError::Sequence { path: path.to_owned(), line, found, expected });
        }
        match &envelope.record {
            Some(record) => self.state.apply(record).map_err(|error| LoadError::Record {
                path: path.to_owned(),
                line,
                error,
            })?,
            None => self.left_out += 1,
        }
        self.records += 1;
        self.next_seq += 1;
        Ok(())
    }
}
