//! A terminal that the test can take away, the way a closed window does: nothing else holds its
//! other side open.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

use super::Home;
use super::model::Model;

/// A conversation on such a terminal.
pub struct Fragile {
    child: Child,
    master: Option<File>,
}

impl Fragile {
    /// Starts it, with `setsid` of util-linux to give the program a session and the terminal.
    pub fn start(home: &Home, model: &Model, args: &[&str]) -> Self {
        // Nothing of it may leak into programs that other tests start at this moment.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let other_side = File::options().read(true).write(true).open(ptsname_r(&master).unwrap());
        let slave = other_side.unwrap();
        let confined = home.anvil_with(model);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(confined.get_program()).args(args);
        command
            .env_clear()
            .envs(confined.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(home.work()).env("TERM", "xterm");
        let copy = || slave.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = command.spawn().expect("setsid of util-linux can be started");
        Self { child, master: Some(File::from(OwnedFd::from(master))) }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.master.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` was shown.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let started = Instant::now();
        let mut shown = Vec::new();
        while !String::from_utf8_lossy(&shown).contains(text) {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "no {text:?} in {:?}",
                String::from_utf8_lossy(&shown)
            );
            let master = self.master.as_mut().unwrap();
            let mut watched = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
            if poll(&mut watched, PollTimeout::from(100_u8)).unwrap() > 0 {
                let mut piece = [0; 1024];
                let read = master.read(&mut piece).unwrap();
                shown.extend_from_slice(&piece[..read]);
            }
        }
    }

    /// Takes the terminal away and returns the exit code.
    #[track_caller]
    pub fn hang_up(mut self) -> Option<i32> {
        self.master = None;
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        // A test that failed must not leave the program behind.
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
