//! Log lines go to a file, never to the terminal; the file appears with its first line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::redaction;

/// Starts logging to `file`: warnings and errors, or what `filter` (the text of `ANVIL_LOG`) names.
/// Where the file cannot be written, lines are dropped and the run goes on.
///
/// # Errors
/// What is wrong with `filter`.
pub(crate) fn start(file: Option<PathBuf>, filter: Option<&str>) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(LazyFile::new(file));
    match filter {
        // Parsing a filter builds a regular expression; the ordinary start does without.
        None => subscriber.with_max_level(LevelFilter::WARN).init(),
        Some(text) => {
            let filter = EnvFilter::try_new(text)
                .map_err(|error| format!("ANVIL_LOG='{text}' is not a log filter: {error}"))?;
            subscriber.with_env_filter(filter).init();
        }
    }
    Ok(())
}

/// The bytes from which the log begins a new file. It is older than the configuration.
static LIMIT: AtomicU64 = AtomicU64::new(16 << 20);

/// Begins a new file of the log where it has this many megabytes; without a number it stays as it is.
pub(crate) fn limit(megabytes: Option<NonZeroU32>) {
    if let Some(megabytes) = megabytes {
        LIMIT.store(u64::from(megabytes.get()) << 20, Ordering::Relaxed);
    }
}

/// What a new file says about the ones before it, since nothing goes silently.
const BEGINS_ANEW: &str = "the log was at its limit (sessions.max_log_mb): lines of before are in anvil.log.1, older ones are gone\n";

/// Creates `dir` and its parents for this user alone; an existing folder is left as it is.
///
/// # Errors
/// When a folder cannot be created.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// A file that is opened when something is written to it.
struct LazyFile {
    path: PathBuf,
    file: Mutex<Option<Open>>,
}

/// The open file and the bytes in it.
struct Open {
    file: File,
    len: u64,
}

impl LazyFile {
    fn new(path: PathBuf) -> Self {
        Self { path, file: Mutex::new(None) }
    }

    fn open(&self) -> io::Result<Open> {
        if let Some(dir) = self.path.parent() {
            private_dir(dir)?;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        let len = file.metadata()?.len();
        Ok(Open { file, len })
    }

    /// The file for a further line: a new one where the old one has `limit` bytes. The old one goes
    /// beside it, in place of the one that was kept there. Another program that has it open writes on
    /// into that.
    fn with_room(&self, open: &mut Option<Open>, limit: u64) -> io::Result<()> {
        if open.is_none() {
            *open = Some(self.open()?);
        }
        if open.as_ref().is_some_and(|open| open.len >= limit) {
            let mut before = self.path.clone().into_os_string();
            before.push(".1");
            std::fs::rename(&self.path, before)?;
            let mut anew = self.open()?;
            anew.file.write_all(BEGINS_ANEW.as_bytes())?;
            anew.len += BEGINS_ANEW.len() as u64;
            *open = Some(anew);
        }
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LazyFile {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { target: self }
    }
}

/// One log line on its way to the file.
struct Line<'a> {
    target: &'a LazyFile,
}

impl Write for Line<'_> {
    /// The subscriber writes a line at a time, whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let redactor = redaction::current();
        let line = redactor.redact_bytes(bytes);
        let mut file = self.target.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A data folder that cannot be written must not disturb the run, nor be reported on a terminal
        // where the subscriber would report it: it costs lines and nothing else.
        let written =
            self.target.with_room(&mut file, LIMIT.load(Ordering::Relaxed)).and_then(|()| {
                let Some(open) = file.as_mut() else { return Ok(()) };
                open.len += line.len() as u64;
                open.file.write_all(&line)
            });
        written.or(Ok(())).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_appears_with_its_first_line_and_belongs_to_the_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let target = LazyFile::new(home.path().join("logs/anvil.log"));
        let mut line = target.make_writer();
        assert!(!target.path.exists());
        line.write_all(b"x\n").unwrap();
        target.make_writer().write_all(b"y\n").unwrap();
        assert_eq!(std::fs::read_to_string(&target.path).unwrap(), "x\ny\n");
        assert_eq!(std::fs::metadata(&target.path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_log_at_its_limit_begins_anew_and_says_where_its_lines_are() {
        let home = tempfile::tempdir().unwrap();
        let target = LazyFile::new(home.path().join("anvil.log"));
        let mut open = None;
        std::fs::write(&target.path, "old line\n").unwrap();
        target.with_room(&mut open, 10).unwrap();
        assert_eq!(std::fs::read_to_string(&target.path).unwrap(), "old line\n");
        target.with_room(&mut open, 9).unwrap();
        assert_eq!(std::fs::read_to_string(home.path().join("anvil.log.1")).unwrap(), "old line\n");
        assert_eq!(std::fs::read_to_string(&target.path).unwrap(), BEGINS_ANEW);
    }

    #[test]
    fn a_log_line_holds_no_secret() {
        let home = tempfile::tempdir().unwrap();
        let target = LazyFile::new(home.path().join("anvil.log"));
        let line = b"WARN refused: bad key sk-test-0123456789abcdef0123\n";
        target.make_writer().write_all(line).unwrap();
        let written = std::fs::read_to_string(&target.path).unwrap();
        assert_eq!(written, "WARN refused: bad key «redacted:api-key»\n");
    }

    #[test]
    fn a_place_that_cannot_be_written_costs_the_lines_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("logs"), "a file where a folder should be").unwrap();
        let target = LazyFile::new(home.path().join("logs/anvil.log"));
        assert_eq!(target.make_writer().write(b"x\n").unwrap(), 2);
    }
}
