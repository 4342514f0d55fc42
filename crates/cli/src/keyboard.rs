//! The keyboard while a question is open or a turn runs: key by key and without echo.
//!
//! For the answer to a question no key from before counts. Beside the work every key does, and Ctrl-C stays
//! a signal: it has to arrive also while nobody reads.

pub(crate) mod keys;
pub(crate) mod line;
pub(crate) mod reader;

use std::fs::File;
use std::io::{self, IsTerminal as _, PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::_POSIX_VDISABLE;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{
    FlushArg, InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcflush, tcgetattr,
    tcsetattr,
};
use nix::unistd::{getpgrp, tcgetpgrp};

/// How long nothing may come before a question is ready for its answer: keys of before, and the rest of
/// a paste that began before, come closer together.
const QUIET: Duration = Duration::from_millis(100);

/// How long an escape may stand alone before it is the key, and how soon after a line's end more would
/// come if nobody typed it.
pub(crate) const BURST: Duration = Duration::from_millis(40);

/// The terminal on standard input, taken over. Put back when this is dropped.
pub(crate) struct Keyboard {
    before: Termios,
    wanted: For,
}

/// What the keys are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// The answer to a question.
    Answer,
    /// Lines beside the work.
    Work,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Bytes.
    Bytes(Vec<u8>),
    /// None in the time that was given.
    Nothing,
    /// The end of the terminal.
    Gone,
}

impl Keyboard {
    /// Takes the terminal over for an answer and throws away what was typed before.
    ///
    /// # Errors
    /// When there is no terminal.
    pub(crate) fn for_an_answer() -> io::Result<Self> {
        Self::open(For::Answer)
    }

    /// Takes the terminal over while a turn runs; what was typed before stays.
    ///
    /// # Errors
    /// When there is no terminal, or another program has it: to take it from there would stop this one.
    pub(crate) fn beside_work() -> io::Result<Self> {
        if tcgetpgrp(io::stdin())? != getpgrp() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Self::open(For::Work)
    }

    fn open(wanted: For) -> io::Result<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let keyboard = Self { before: tcgetattr(&stdin)?, wanted };
        keyboard.take()?;
        Ok(keyboard)
    }

    /// Keys come one by one, Ctrl-Z too, and nothing is echoed.
    fn take(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::IEXTEN);
        modes.input_flags.remove(InputFlags::ICRNL);
        modes.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        modes.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        match self.wanted {
            For::Answer => {
                modes.local_flags.remove(LocalFlags::ISIG);
                modes.input_flags.remove(InputFlags::IXON);
                // What was typed before goes with the change.
                tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &modes)?;
            }
            For::Work => {
                // Ctrl-C throws nothing away, and Ctrl-Z waits until the terminal is put back.
                modes.local_flags.insert(LocalFlags::NOFLSH);
                modes.control_chars[SpecialCharacterIndices::VSUSP as usize] = _POSIX_VDISABLE;
                tcsetattr(io::stdin(), SetArg::TCSADRAIN, &modes)?;
            }
        }
        Ok(())
    }

    fn give_back(&self) -> io::Result<()> {
        Ok(tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.before)?)
    }

    /// Lets `stop` happen with the terminal as it was before, and takes it over again.
    pub(crate) fn away(&self, stop: impl FnOnce()) -> io::Result<()> {
        self.give_back()?;
        stop();
        self.take()
    }

    /// Waits until nothing comes any more; what comes until then is gone, but for a Ctrl-C in it.
    pub(crate) async fn settled(&self) -> Settled {
        loop {
            match self.read(Some(QUIET)).await {
                Heard::Bytes(bytes) if bytes.contains(&0x03) => return Settled::Interrupted,
                Heard::Bytes(_) => {}
                Heard::Nothing => return Settled::Quiet,
                Heard::Gone => return Settled::Gone,
            }
        }
    }

    /// Waits for bytes, no longer than `most`. Dropping the future calls the wait off.
    pub(crate) async fn read(&self, most: Option<Duration>) -> Heard {
        let Ok((called_off, alive)) = io::pipe() else { return Heard::Gone };
        let heard = tokio::task::spawn_blocking(move || read(&called_off, most)).await;
        // Held until here: dropping this future closes it, which wakes the thread.
        drop(alive);
        heard.unwrap_or(Heard::Gone)
    }

    /// Throws away what has come and was not read.
    pub(crate) fn flush(&self) {
        if let Err(error) = tcflush(io::stdin(), FlushArg::TCIFLUSH) {
            tracing::debug!(%error, "the terminal cannot be flushed");
        }
    }
}

/// How the wait before a question ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Quiet,
    Interrupted,
    Gone,
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            tracing::debug!(%error, "the terminal cannot be put back");
        }
    }
}

/// Reads what is there, unless `called_off` says first that nobody wants it any more.
fn read(called_off: &PipeReader, most: Option<Duration>) -> Heard {
    let stdin = io::stdin();
    // The library's own buffer is left out: it would keep what comes after.
    let Ok(input) = stdin.as_fd().try_clone_to_owned() else { return Heard::Gone };
    let wait = most.map_or(PollTimeout::NONE, |most| {
        PollTimeout::try_from(most).expect("waits here are shorter than a second")
    });
    loop {
        let mut watched = [
            PollFd::new(called_off.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut watched, wait) {
            Err(Errno::EINTR) => continue,
            Err(_) => return Heard::Gone,
            Ok(0) => return Heard::Nothing,
            Ok(_) if watched[0].any() != Some(false) => return Heard::Gone,
            Ok(_) => {}
        }
        let mut piece = [0; 4096];
        return match File::from(input).read(&mut piece) {
            Ok(0) | Err(_) => Heard::Gone,
            Ok(read) => Heard::Bytes(piece[..read].to_vec()),
        };
    }
}
