//! A confined command before it is started: what it is made of, and what will tell how it went.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::pread;

use super::mounts::{Ground, Mount};

/// Open files with the numbers under which a program finds them.
pub(super) type Files = Vec<(OwnedFd, i32)>;

/// What a command is to find.
#[cfg_attr(
    not(target_os = "linux"),
    expect(
        dead_code,
        reason = "a profile takes the ground and leaves folder and environment alone"
    )
)]
pub(super) struct Inside<'a> {
    pub(super) ground: &'a Ground,
    pub(super) may_write: bool,
    /// What `ground` and `may_write` come to.
    pub(super) mounts: &'a [Mount],
    pub(super) has_network: bool,
    pub(super) cwd: &'a Path,
    pub(super) env: &'a [(OsString, OsString)],
}

/// The beginning of a command line: what confines, up to the command.
pub(super) struct Start {
    /// The arguments before the command.
    pub(super) args: Vec<OsString>,
    /// The environment of what confines, if it is not the command's.
    pub(super) env: Option<Vec<(OsString, OsString)>>,
    /// The files that the arguments speak of.
    pub(super) files: Files,
    /// Where it will be said how it went.
    pub(super) report: Report,
}

/// A file in which is said how it went; without one nothing is known.
#[derive(Debug)]
pub(super) struct Report(pub(super) Option<OwnedFd>);

impl Report {
    /// Whether the command was started, once all is over, as far as is known. Then its exit is told.
    pub(super) fn tells_of_a_command(&self) -> bool {
        let Some(file) = &self.0 else { return true };
        let mut text = [0; 512];
        let length = pread(file, &mut text, 0).unwrap_or_default();
        String::from_utf8_lossy(&text[..length]).contains("\"exit-code\"")
    }
}
