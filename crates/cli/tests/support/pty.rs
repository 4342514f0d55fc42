//! The real binary on a terminal of its own.

use std::io::{Read, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use nix::sys::termios::LocalFlags;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::Home;
use super::model::Model;

/// Longest a test waits for something to appear.
const PATIENCE: Duration = Duration::from_secs(20);

/// A conversation.
pub struct Pty {
    pub child: Box<dyn Child + Send + Sync>,
    pub master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    screen: Arc<Screen>,
    /// How much of the screen earlier expectations have used up.
    seen: usize,
}

/// What the user said, as each request's last user message.
pub fn prompts(model: &Model) -> Vec<String> {
    model.requests().iter().map(super::model::user_text).collect()
}

/// Sends a prompt, waits for the whole answer and the next prompt.
#[track_caller]
pub fn ask(pty: &mut Pty, prompt: &str, answer: &str) {
    pty.send(&format!("{prompt}\r"));
    pty.expect(answer);
    pty.expect("step");
    pty.expect_prompt();
}

#[derive(Default)]
struct Screen {
    bytes: Mutex<(Vec<u8>, bool)>,
    changed: Condvar,
}

/// How the terminal and the program's environment are.
pub struct Setup {
    pub program: &'static str,
    pub rows: u16,
    pub columns: u16,
    pub env: Vec<(&'static str, Option<String>)>,
    pub args: Vec<&'static str>,
}

impl Default for Setup {
    fn default() -> Self {
        let env = vec![("TERM", Some("xterm-256color".to_owned()))];
        let program = env!("CARGO_BIN_EXE_anvil");
        Self { program, rows: 24, columns: 80, env, args: Vec::new() }
    }
}

impl Setup {
    pub fn with_env(mut self, name: &'static str, value: Option<&str>) -> Self {
        self.env.push((name, value.map(str::to_owned)));
        self
    }

    pub fn with_args(mut self, args: &[&'static str]) -> Self {
        self.args = args.to_vec();
        self
    }
}

impl Pty {
    pub fn start(home: &Home, model: &Model) -> Self {
        Self::start_with(home, model, Setup::default())
    }

    pub fn start_with(home: &Home, model: &Model, setup: Setup) -> Self {
        let size = PtySize { rows: setup.rows, cols: setup.columns, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).unwrap();
        // The confined command says what environment and folder belong to the test.
        let confined = home.anvil_with(model);
        let mut command = CommandBuilder::new(setup.program);
        command.env_clear();
        for (name, value) in confined.get_envs() {
            command.env(name, value.unwrap());
        }
        for (name, value) in setup.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            }
        }
        command.args(setup.args);
        command.cwd(home.work());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        let screen = Arc::new(Screen::default());
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            loop {
                let read = reader.read(&mut piece).unwrap_or(0);
                let mut bytes = shown.bytes.lock().unwrap();
                bytes.0.extend_from_slice(&piece[..read]);
                bytes.1 = read == 0;
                shown.changed.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Self { child, master: pair.master, writer, screen, seen: 0 }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Waits until `text` appears after all that was expected before, and returns what stands
    /// before it.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        self.expect_first(&[text]).1
    }

    /// Waits until one of `texts` appears after all that was expected before; which one came first,
    /// and what stands before it.
    #[track_caller]
    pub fn expect_first(&mut self, texts: &[&str]) -> (usize, String) {
        let started = Instant::now();
        let mut bytes = self.screen.bytes.lock().unwrap();
        loop {
            let new = &bytes.0[self.seen..];
            let place =
                |text: &str| new.windows(text.len()).position(|part| part == text.as_bytes());
            let places =
                texts.iter().enumerate().filter_map(|(which, text)| Some((place(text)?, which)));
            if let Some((at, which)) = places.min() {
                let before = String::from_utf8_lossy(&new[..at]).into_owned();
                self.seen += at + texts[which].len();
                return (which, before);
            }
            let left = PATIENCE.saturating_sub(started.elapsed());
            assert!(
                !left.is_zero() && !bytes.1,
                "no {texts:?} in {:?}",
                String::from_utf8_lossy(new)
            );
            bytes = self.screen.changed.wait_timeout(bytes, left).unwrap().0;
        }
    }

    /// Waits for the prompt.
    #[track_caller]
    pub fn expect_prompt(&mut self) -> String {
        self.expect("> ")
    }

    /// All that was ever shown.
    pub fn all(&self) -> String {
        String::from_utf8_lossy(&self.screen.bytes.lock().unwrap().0).into_owned()
    }

    /// Whether the terminal edits lines itself and echoes keys, as it does outside a line editor.
    pub fn is_cooked(&self) -> bool {
        let modes = self.master.get_termios().unwrap();
        LocalFlags::from_bits_truncate(modes.local_flags.bits())
            .contains(LocalFlags::ECHO | LocalFlags::ICANON)
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = i32::try_from(self.child.process_id().unwrap()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for the end and returns the exit code.
    #[track_caller]
    pub fn code(&mut self) -> u32 {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(started.elapsed() < PATIENCE, "does not end: {}", self.all());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // A test that failed must not leave the program behind.
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
        }
    }
}
