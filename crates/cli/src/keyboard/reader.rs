//! Keys that are read beside other work, on a thread of their own.

use std::io::{self, PipeWriter};

use tokio::sync::mpsc;

use super::{Heard, Keyboard, read};

/// Pieces that are read ahead of whoever takes them.
const AHEAD: usize = 16;

/// The thread as others see it. The terminal is put back when this is dropped.
pub(crate) struct Reader {
    keyboard: Keyboard,
    heard: mpsc::Receiver<Vec<u8>>,
    /// The thread reads as long as this is open.
    alive: PipeWriter,
}

impl Reader {
    /// Takes the terminal over and starts to read.
    ///
    /// # Errors
    /// When there is no terminal to take, or no thread can be started.
    pub(crate) fn start() -> io::Result<Self> {
        let (called_off, alive) = io::pipe()?;
        let (sender, heard) = mpsc::channel(AHEAD);
        let keyboard = Keyboard::beside_work()?;
        std::thread::Builder::new().name("keys".into()).spawn(move || {
            while let Heard::Bytes(bytes) = read(&called_off, None) {
                if sender.blocking_send(bytes).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { keyboard, heard, alive })
    }

    /// The next bytes; nothing when the terminal is gone. Dropping the future loses none.
    pub(crate) async fn read(&mut self) -> Option<Vec<u8>> {
        self.heard.recv().await
    }

    /// Puts the terminal back. Returns what had come and was not taken; later bytes are for others.
    pub(crate) async fn stop(self) -> Vec<u8> {
        let Self { keyboard, mut heard, alive } = self;
        drop(alive);
        let mut rest = Vec::new();
        // The thread's end closes the channel.
        while let Some(bytes) = heard.recv().await {
            rest.extend(bytes);
        }
        drop(keyboard);
        rest
    }
}
