//! Reads what was piped in, without ever waiting for a pipe that nobody will write to.

pub(crate) mod pipe;

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use self::pipe::Outside;

/// The most that is read.
pub(crate) const LIMIT: usize = 10 * 1024 * 1024;

/// How long a silent pipe is waited for before its writers are looked at.
const SILENCE: Duration = Duration::from_secs(3);

/// How long silence is borne where the writers cannot be found out.
const BLIND_SILENCE: Duration = Duration::from_secs(10);

/// Why standard input could not become part of a prompt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StdinError {
    /// Too much of it.
    #[error(
        "standard input is larger than {} MiB: write it to a file and name the file in the prompt",
        LIMIT / (1024 * 1024)
    )]
    TooLarge,
    /// It is not text.
    #[error(
        "standard input is not valid UTF-8 (byte offset {offset}): convert it, or use --no-stdin"
    )]
    NotUtf8 {
        /// The first byte that is part of no character.
        offset: usize,
    },
    /// Reading failed.
    #[error("standard input cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// What standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A terminal, `/dev/null` or another device: not read.
    Nothing,
    /// A regular file: read to its end.
    File,
    /// A pipe whose writers can be looked for.
    Pipe,
    /// A socket, or anything else with an unknown other side.
    Blind,
}

/// What standard input is, from its file type.
///
/// # Errors
/// When it is a folder, which is not something to read.
pub(crate) fn source() -> Result<Source, StdinError> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(Source::Nothing);
    }
    let kind = duplicate(&stdin)?.metadata()?.file_type();
    Ok(if kind.is_file() {
        Source::File
    } else if kind.is_fifo() {
        if pipe::can_look() { Source::Pipe } else { Source::Blind }
    } else if kind.is_socket() {
        Source::Blind
    } else if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    } else {
        Source::Nothing
    })
}

/// Reads standard input to its end, or returns `None` when it stays silent with nobody to write to
/// it. `say` receives a line for the person now and then.
///
/// Dropping the future leaves a thread behind that waits for input; it ends with the process.
///
/// # Errors
/// See [`StdinError`].
pub(crate) async fn read(
    source: Source,
    mut say: impl FnMut(&str),
) -> Result<Option<String>, StdinError> {
    match source {
        Source::Nothing => Ok(None),
        Source::File => gather(chunks()?, Vec::new()).await.map(Some),
        Source::Pipe => read_pipe(pipe::outside_writer, &mut say).await,
        Source::Blind => read_pipe(|| Outside::Unknown, &mut say).await,
    }
}

async fn read_pipe(
    look: impl Fn() -> Outside,
    say: &mut dyn FnMut(&str),
) -> Result<Option<String>, StdinError> {
    let mut chunks = chunks()?;
    match first_chunk(&mut chunks, look, say).await? {
        First::Bytes(bytes) => gather(chunks, bytes).await.map(Some),
        First::End => Ok(Some(String::new())),
        First::Silent { secs, because } => {
            say(&format!(
                "standard input stayed silent for {secs} s and {because}: going on without it \
                 (--no-stdin skips the wait)"
            ));
            Ok(None)
        }
    }
}

enum First {
    Bytes(Vec<u8>),
    End,
    Silent { secs: u64, because: &'static str },
}

async fn first_chunk(
    chunks: &mut Chunks,
    look: impl Fn() -> Outside,
    say: &mut dyn FnMut(&str),
) -> Result<First, StdinError> {
    let mut told = false;
    let began = Instant::now();
    let blind = began + BLIND_SILENCE;
    let mut until = began + SILENCE;
    loop {
        match timeout_at(until, chunks.recv()).await {
            Ok(Some(chunk)) => return Ok(First::Bytes(chunk?)),
            Ok(None) => return Ok(First::End),
            Err(_) => {}
        }
        let silent = |because| First::Silent { secs: began.elapsed().as_secs(), because };
        match look() {
            Outside::Nobody => return Ok(silent("nobody is there to write to it")),
            Outside::Unknown if until >= blind => {
                return Ok(silent("whether anybody will write to it cannot be found out"));
            }
            // Looked at again meanwhile: who is hidden now may be gone then.
            Outside::Unknown => until = blind.min(until + SILENCE),
            Outside::Writer(writer) => {
                if !told {
                    say(&format!("waiting for standard input from {writer} (--no-stdin skips it)"));
                    told = true;
                }
                until += SILENCE;
            }
        }
    }
}

type Chunks = mpsc::Receiver<io::Result<Vec<u8>>>;

/// Standard input in pieces. A thread reads them, since a read cannot be called off.
fn chunks() -> io::Result<Chunks> {
    let (sender, receiver) = mpsc::channel(4);
    let mut input = duplicate(&io::stdin())?;
    std::thread::Builder::new().name("stdin".into()).spawn(move || {
        loop {
            let mut chunk = vec![0; 64 * 1024];
            let read = match input.read(&mut chunk) {
                Ok(0) => return,
                Ok(read) => {
                    chunk.truncate(read);
                    Ok(chunk)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let last = read.is_err();
            if sender.blocking_send(read).is_err() || last {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// A second descriptor for standard input, so that nothing is lost in the library's own buffer.
fn duplicate(stdin: &io::Stdin) -> io::Result<File> {
    use std::os::fd::AsFd as _;
    Ok(stdin.as_fd().try_clone_to_owned()?.into())
}

async fn gather(mut chunks: Chunks, mut bytes: Vec<u8>) -> Result<String, StdinError> {
    while let Some(chunk) = chunks.recv().await {
        bytes.extend_from_slice(&chunk?);
        if bytes.len() > LIMIT {
            return Err(StdinError::TooLarge);
        }
    }
    String::from_utf8(bytes)
        .map_err(|error| StdinError::NotUtf8 { offset: error.utf8_error().valid_up_to() })
}

#[cfg(test)]
mod tests {
    use super::pipe::Writer;
    use super::*;

    fn feed(pieces: Vec<Vec<u8>>) -> Chunks {
        let (sender, receiver) = mpsc::channel(pieces.len().max(1));
        for piece in pieces {
            sender.try_send(Ok(piece)).unwrap();
        }
        receiver
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_named_by_their_offset_across_pieces() {
        let error = gather(feed(vec![b"ab\xc3".to_vec(), b"\xa9\xff!".to_vec()]), Vec::new()).await;
        assert!(matches!(error, Err(StdinError::NotUtf8 { offset: 4 })), "{error:?}");
    }

    #[tokio::test]
    async fn input_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
        let full = gather(feed(vec![vec![b'x'; LIMIT]]), Vec::new()).await;
        assert_eq!(full.unwrap().len(), LIMIT);
        let over = gather(feed(vec![vec![b'x'; LIMIT], vec![b'y']]), Vec::new()).await;
        assert!(matches!(over, Err(StdinError::TooLarge)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_pipe_is_waited_for_only_while_somebody_can_write_to_it() {
        let (_open, mut chunks) = mpsc::channel(1);
        let mut looks = 0;
        let looks = std::cell::RefCell::new(&mut looks);
        let writer = || {
            **looks.borrow_mut() += 1;
            let alive = **looks.borrow() < 4;
            match alive {
                true => Outside::Writer(Writer { pid: 7, command: "cargo test".into() }),
                false => Outside::Nobody,
            }
        };
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let first = first_chunk(&mut chunks, writer, &mut say).await.unwrap();
        assert!(matches!(first, First::Silent { secs: 12, .. }));
        assert_eq!(
            said,
            ["waiting for standard input from `cargo test` (process 7) (--no-stdin skips it)"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_can_be_seen_and_nobody_ruled_out_the_wait_is_longer() {
        let (_open, mut chunks) = mpsc::channel(1);
        for (outside, wait) in [(Outside::Nobody, 3), (Outside::Unknown, 10)] {
            let look = || outside.clone();
            let first = first_chunk(&mut chunks, look, &mut |_| {}).await.unwrap();
            assert!(matches!(first, First::Silent { secs, .. } if secs == wait), "{outside:?}");
        }
    }
}
