//! The task that owns one child: drains its pipes, hears its end, and ends what it started.

use std::pin::Pin;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::capture::Capture;
use super::exit::Exit;
use super::family::{Deaths, Family};
use super::{Ended, Finished, OutputSeen, Spec, Status, Stream};

/// How long what a child left behind may go on once the child has exited: time for the last words of a
/// process substitution or of a background process about to end anyway.
const SETTLE: Duration = Duration::from_millis(200);
/// How long a process may take to clean up after SIGTERM.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long the kernel may take to remove a process after SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// Bytes read at once; the default capacity of a Linux pipe.
const READ: usize = 64 * 1024;
/// Bytes read at most from a pipe after the end: its largest capacity for a user without privileges.
const LAST_WORDS: usize = 1024 * 1024;

/// Everything one child needs until nothing of it is left.
pub(super) struct Owner {
    exit: Exit,
    exited: Option<Status>,
    family: Family,
    stdout: Drain,
    stderr: Drain,
    output: Option<OutputSeen>,
    stop: CancellationToken,
    started: Instant,
    timeout: Duration,
    /// See [`Spec::confines`].
    confines: bool,
    /// How many of the processes that had to be ended are the sandbox's own.
    own: usize,
    done: bool,
}

/// What woke the owner.
#[derive(PartialEq)]
enum Event {
    Output,
    Exited,
    FamilyChanged,
    Alarm,
    Stop,
}

/// What the owner listens for besides its child and the pipes.
struct Watch {
    alarm: Pin<Box<Sleep>>,
    deaths: Deaths,
    hears_stop: bool,
}

impl Owner {
    /// The owner of a child that was just started.
    pub(super) fn new(
        exit: Exit,
        family: Family,
        [stdout, stderr]: [Receiver; 2],
        spec: Spec,
        stop: CancellationToken,
    ) -> Self {
        Self {
            exit,
            exited: None,
            family,
            stdout: Drain::new(stdout, Capture::new(spec.keep)),
            stderr: Drain::new(stderr, Capture::new(spec.keep)),
            output: spec.output,
            stop,
            started: Instant::now(),
            timeout: spec.timeout,
            confines: spec.confines,
            own: 0,
            done: false,
        }
    }

    /// Runs until the child and all that it started has gone, or cannot be ended.
    pub(super) async fn run(mut self) -> Finished {
        let ended = self.until_its_end().await;
        let nothing_left = ended == Ended::Completed && self.settle().await;
        let unended = if nothing_left { 0 } else { self.end_all().await };
        self.read_last_words();
        self.done = true;
        Finished {
            status: self.exited.unwrap_or(Status::Unknown),
            ended,
            stdout: self.stdout.capture.take(),
            stderr: self.stderr.capture.take(),
            stragglers: self.family.ended().saturating_sub(self.own),
            unended,
            duration: self.started.elapsed(),
        }
    }

    async fn until_its_end(&mut self) -> Ended {
        let mut watch = Watch {
            alarm: Box::pin(sleep_until(self.started + self.timeout)),
            deaths: Deaths::of_orphans(),
            hears_stop: true,
        };
        loop {
            match self.next(&mut watch).await {
                Event::Exited => return Ended::Completed,
                Event::Alarm => return Ended::TimedOut,
                Event::Stop => return Ended::Cancelled,
                Event::FamilyChanged => self.family.reap(),
                Event::Output => {}
            }
        }
    }

    /// Gives what the child left behind a moment to end by itself, and says whether it did. Costs nothing
    /// when nothing is left.
    async fn settle(&mut self) -> bool {
        self.read_last_words();
        if self.is_quiet() {
            return true;
        }
        let mut watch = Watch::until(SETTLE);
        watch.hears_stop = true;
        while !self.is_quiet() {
            if matches!(self.next(&mut watch).await, Event::Alarm | Event::Stop) {
                return false;
            }
        }
        true
    }

    /// Asks every process of the family to end, then forces it. Returns how many are left.
    async fn end_all(&mut self) -> usize {
        let leader_runs = self.exited.is_none();
        self.family.remember(leader_runs);
        if self.confines {
            // The first process inside, and until it exits the command, which is otherwise the leader.
            self.own = 1 + usize::from(leader_runs);
        }
        for (signal, grace) in [(Signal::TERM, TERM_GRACE), (Signal::KILL, KILL_GRACE)] {
            let mut watch = Watch::until(grace);
            // The wrapper would end without its first process, which in turn hears nothing but SIGKILL.
            let only_inside = self.confines && signal == Signal::TERM;
            if !only_inside {
                self.family.signal_group(signal, self.exited.is_none());
            }
            loop {
                match only_inside {
                    true => self.family.signal_inside(signal, self.exited.is_none()),
                    false => self.family.signal_orphans(signal),
                }
                if self.is_gone() {
                    return 0;
                }
                match self.next_but_output(&mut watch).await {
                    Event::Alarm => break,
                    Event::Output | Event::Exited | Event::FamilyChanged | Event::Stop => {}
                }
            }
        }
        self.family.survivors().len() + usize::from(self.exited.is_none())
    }

    /// Whether no process of the family runs.
    fn is_gone(&mut self) -> bool {
        self.exited.is_some() && self.family.survivors().is_empty()
    }

    /// Whether no process of the family runs and nobody holds a pipe.
    fn is_quiet(&mut self) -> bool {
        if self.stdout.pipe.is_some() || self.stderr.pipe.is_some() || self.exited.is_none() {
            return false;
        }
        let left = self.family.survivors();
        left.is_empty() || (self.confines && self.family.leave_the_empty_sandbox(&left))
    }

    async fn next_but_output(&mut self, watch: &mut Watch) -> Event {
        loop {
            let event = self.next(watch).await;
            if event != Event::Output {
                return event;
            }
        }
    }

    /// Waits for the next thing to happen; output is already taken in when it returns.
    async fn next(&mut self, watch: &mut Watch) -> Event {
        let Self { exit, exited, family, stdout, stderr, output, stop, .. } = self;
        // The order matters: what has ended was not cancelled, and a flood of output delays nothing.
        tokio::select! {
            biased;
            status = exit.wait(family.leader()), if exited.is_none() => {
                *exited = Some(status);
                Event::Exited
            }
            () = stop.cancelled(), if watch.hears_stop => Event::Stop,
            () = watch.alarm.as_mut() => Event::Alarm,
            () = watch.deaths.next() => Event::FamilyChanged,
            () = read_either(stdout, stderr, output) => Event::Output,
        }
    }

    /// Takes what is in the pipes now, without waiting for more.
    fn read_last_words(&mut self) {
        self.stdout.read_now(Stream::Stdout, &mut self.output);
        self.stderr.read_now(Stream::Stderr, &mut self.output);
    }
}

impl Drop for Owner {
    /// The runtime is shutting down: what cannot be awaited any more is at least killed.
    fn drop(&mut self) {
        if !self.done {
            self.family.kill_at_once(self.exited.is_none());
        }
    }
}

impl Watch {
    fn until(grace: Duration) -> Self {
        Self { alarm: Box::pin(sleep(grace)), deaths: Deaths::listen(), hears_stop: false }
    }
}

/// Reads a piece from whichever pipe has one; neither can starve the other.
async fn read_either(stdout: &mut Drain, stderr: &mut Drain, output: &mut Option<OutputSeen>) {
    tokio::select! {
        read = stdout.read() => stdout.take_in(read, Stream::Stdout, output),
        read = stderr.read() => stderr.take_in(read, Stream::Stderr, output),
    }
}

/// One pipe, read until its end into bounded memory.
struct Drain {
    /// Gone once it has ended.
    pipe: Option<Receiver>,
    buffer: Vec<u8>,
    capture: Capture,
}

impl Drain {
    fn new(pipe: Receiver, capture: Capture) -> Self {
        Self { pipe: Some(pipe), buffer: Vec::with_capacity(READ), capture }
    }

    /// Waits for bytes; the count is zero at the end. Nothing is lost when the future is dropped.
    async fn read(&mut self) -> usize {
        match &mut self.pipe {
            // A pipe fails to read only when it is closed, which is its end.
            Some(pipe) => pipe.read_buf(&mut self.buffer).await.unwrap_or_default(),
            None => std::future::pending().await,
        }
    }

    fn take_in(&mut self, read: usize, stream: Stream, output: &mut Option<OutputSeen>) {
        if read == 0 {
            self.pipe = None;
            return;
        }
        if let Some(seen) = output {
            seen(stream, &self.buffer);
        }
        self.capture.push(&self.buffer);
        self.buffer.clear();
    }

    /// Reads what the pipe holds at this moment, past the runtime's idea of its readiness.
    fn read_now(&mut self, stream: Stream, output: &mut Option<OutputSeen>) {
        let mut left = LAST_WORDS;
        while let Some(pipe) = &self.pipe
            && left > 0
        {
            match rustix::io::read(pipe, rustix::buffer::spare_capacity(&mut self.buffer)) {
                Ok(read) => {
                    left = left.saturating_sub(read);
                    self.take_in(read, stream, output);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}
