//! What the terminal can show, and how it was before anvil came.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::Pid;

use crate::render::Extent;
use crate::render::style::Style;
use crate::render::text::Look;
use crate::signals::Stop;

/// Widest line that is used for one-liners, however wide the terminal is.
const MAX_WIDTH: usize = 80;

/// Narrowest width that is taken seriously.
const MIN_WIDTH: usize = 10;

/// Longest time between a stop signal and the stop.
const STOPPING: Duration = Duration::from_millis(50);

/// Bracketed paste off, cursor visible, colours off.
const PLAIN: &str = "\x1b[?2004l\x1b[?25h\x1b[0m";

/// What the user wants of the looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    /// No colours, whatever the terminal could show.
    pub(crate) is_plain: bool,
    /// Reasoning and longer previews.
    pub(crate) is_verbose: bool,
}

/// How output looks on this terminal, if it is one.
pub(crate) fn look(Wishes { is_plain, is_verbose }: Wishes) -> Look {
    let style = |is_terminal: bool| Style { is_on: is_terminal && !is_plain };
    let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
    Look { out: style(out), err: style(err), width: width(), is_verbose }
}

/// How wide the terminal on standard output is, if it is one.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// How large the terminal on standard output is; without any room where nobody can tell.
pub(crate) fn extent() -> Extent {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
    Extent { columns: usize::from(columns), rows: usize::from(rows) }
}

/// How many columns lines may have.
pub(crate) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    match size {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col).clamp(MIN_WIDTH, MAX_WIDTH),
        _ => MAX_WIDTH,
    }
}

/// Whether the terminal on standard input was taken away.
pub(crate) fn is_gone() -> bool {
    matches!(tcgetattr(io::stdin()), Err(Errno::EIO))
}

/// What ended the work when standard output failed like this: reading and writing a terminal that
/// was taken away gives an I/O error.
pub(crate) fn stop_for(error: &io::Error) -> Stop {
    match error.raw_os_error() {
        Some(number) if number == Errno::EIO as i32 => Stop::HungUp,
        _ => Stop::OutputClosed,
    }
}

/// Keeps Ctrl-Z from this thread and from those that it starts.
///
/// The line editor gives the terminal back before it stops the program, and takes it again
/// afterwards. That works only if the stop meets the editor's own thread: another one would let the
/// editor run on for a moment and take the terminal too early.
pub(crate) fn leave_suspension_to_the_editor() {
    let suspend = SigSet::from(Signal::SIGTSTP);
    suspend.thread_block().expect("a mask of a known signal can be set");
}

/// Takes Ctrl-Z on this thread; see [`leave_suspension_to_the_editor`].
pub(crate) fn take_suspension() {
    let suspend = SigSet::from(Signal::SIGTSTP);
    suspend.thread_unblock().expect("a mask of a known signal can be set");
}

/// Stops the program until somebody goes on with it, as Ctrl-Z does. The caller has put the terminal
/// back, and everything that shares it stops as well.
pub(crate) fn suspend() {
    if let Err(error) = kill(Pid::from_raw(0), Signal::SIGTSTP) {
        tracing::debug!(%error, "the program cannot be stopped");
    }
    // The stop meets the editor's thread, and this one must not take the terminal before it. There is
    // no event to wait for: where nobody could continue the program, it is not stopped at all.
    std::thread::sleep(STOPPING);
}

/// The state of the terminal at the start, to be put back whatever the line editor was doing.
pub(crate) struct Saved {
    modes: Option<Termios>,
    is_plain: bool,
}

impl Saved {
    /// Remembers the terminal on standard input.
    pub(crate) fn take(is_plain: bool) -> Self {
        Self { modes: tcgetattr(io::stdin()).ok(), is_plain }
    }

    /// Puts it back. Does nothing where there is no terminal (any more).
    pub(crate) fn restore(&self) {
        let Some(modes) = &self.modes else { return };
        let restored = tcsetattr(io::stdin(), SetArg::TCSANOW, modes).map_err(io::Error::from);
        // Written past the library's lock, which a blocked thread may hold.
        let written = match io::stdout().is_terminal() && !self.is_plain {
            true => duplicate_stdout().and_then(|mut out| out.write_all(PLAIN.as_bytes())),
            false => Ok(()),
        };
        if let Err(error) = restored.and(written) {
            tracing::debug!(%error, "the terminal cannot be restored");
        }
    }
}

fn duplicate_stdout() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd as _;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}
