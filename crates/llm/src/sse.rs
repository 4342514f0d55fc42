//! Turns bytes of a `text/event-stream` into events; pure, with a line limit and an event limit.
//!
//! The grammar is the WHATWG one ("Server-sent events", HTML standard 9.2.6) with its three line
//! ends, in chunks cut anywhere. `id` and `retry` are ignored: an answer is never resumed. Invalid
//! UTF-8 becomes U+FFFD, as that standard asks, line by line and never chunk by chunk, so that a
//! character cut in two survives.

use std::borrow::Cow;

use memchr::memchr2;

/// One event, borrowed from the chunk it arrived in where that holds the whole event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseFrame<'a> {
    /// The last non-empty `event:` field, if there was one.
    pub event: Option<&'a str>,
    /// The `data:` fields joined with line feeds.
    pub data: &'a str,
}

/// One event that owns its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The last non-empty `event:` field, if there was one.
    pub event: Option<String>,
    /// The `data:` fields joined with line feeds.
    pub data: String,
}

impl SseEvent {
    /// The same event as a frame.
    pub fn frame(&self) -> SseFrame<'_> {
        SseFrame { event: self.event.as_deref(), data: &self.data }
    }
}

impl From<SseFrame<'_>> for SseEvent {
    fn from(frame: SseFrame<'_>) -> Self {
        Self { event: frame.event.map(str::to_owned), data: frame.data.to_owned() }
    }
}

/// How large a line and an event may become, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseLimits {
    /// The longest line without its end, comments included.
    pub line: usize,
    /// The most that the data and the name of one event may hold together.
    pub event: usize,
}

impl Default for SseLimits {
    /// 8 MiB a line and 16 MiB an event: a whole picture as base64 passes, a runaway line does not.
    fn default() -> Self {
        Self { line: 8 << 20, event: 16 << 20 }
    }
}

/// A stream that outgrew its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One line is longer than [`SseLimits::line`].
    #[error("a line of the event stream is longer than {limit} bytes")]
    LineTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// One event is larger than [`SseLimits::event`].
    #[error("an event of the stream is larger than {limit} bytes")]
    EventTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// An incremental decoder. What it holds between chunks is one unfinished event, within the limits.
#[derive(Debug, Default)]
pub struct SseDecoder {
    limits: SseLimits,
    /// Whether a byte order mark may still come.
    start: Start,
    /// The last chunk ended with CR: a LF at the start of the next one belongs to it.
    after_cr: bool,
    /// A line that the last chunk left unfinished.
    line: Vec<u8>,
    /// What finished lines of earlier chunks, or several `data` lines, have put together.
    unfinished: Unfinished,
    failed: Option<SseError>,
}

/// Where a byte order mark may still come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// So many bytes of it have been seen and nothing else.
    Bom(usize),
    Passed,
}

impl Default for Start {
    fn default() -> Self {
        Self::Bom(0)
    }
}

/// The parts of an event that could not be left in their chunk.
#[derive(Debug, Default)]
struct Unfinished {
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

/// The parts of an event that still lie in the current chunk.
#[derive(Default)]
struct InChunk<'a> {
    /// Overrides the unfinished name; empty when a later `event:` took the name back.
    name: Option<&'a [u8]>,
    data: Option<&'a [u8]>,
}

enum Field<'a> {
    Data(&'a [u8]),
    Event(&'a [u8]),
    Ignored,
}

impl SseDecoder {
    /// A decoder with other limits than the default ones.
    pub fn with_limits(limits: SseLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes the next bytes and hands every event they complete to `on_frame`, in order.
    ///
    /// An event that lies whole in `chunk` and has one `data` line is borrowed from it; nothing is
    /// copied. The cost is linear in the bytes however they are cut.
    ///
    /// # Errors
    /// What `on_frame` returns, or a limit that was passed; events before that point have been
    /// handed out. After an error the rest of the stream must be dropped.
    pub fn feed<E: From<SseError>>(
        &mut self,
        chunk: &[u8],
        mut on_frame: impl FnMut(SseFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        let mut rest = self.after_bom(chunk);
        if !self.line.is_empty() {
            match self.complete_line(rest)? {
                Some(after) => rest = after,
                None => return Ok(()),
            }
        }
        let mut event = InChunk::default();
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let line = &rest[..end];
            rest = self.after_line_end(rest, end);
            if line.is_empty() {
                self.dispatch(&mut event, &mut on_frame)?;
            } else {
                self.take_line(line, &mut event)?;
            }
        }
        self.keep(rest, event)?;
        Ok(())
    }

    /// Takes the next bytes and returns the events that they complete.
    ///
    /// # Errors
    /// A limit that was passed; the events before it are lost with the stream.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<SseEvent>, SseError> {
        let mut events = Vec::new();
        self.feed(chunk, |frame| {
            events.push(frame.into());
            Ok::<(), SseError>(())
        })?;
        Ok(events)
    }

    /// Ends the stream: what has no blank line after it is discarded, never completed.
    ///
    /// Returns how many bytes that were, without line ends and field names of finished lines.
    pub fn finish(self) -> usize {
        self.line.len() + self.unfinished.name.len() + self.unfinished.data.len()
    }

    /// Skips the byte order mark that may open the stream, and the LF of a CR in the last chunk.
    fn after_bom<'a>(&mut self, mut chunk: &'a [u8]) -> &'a [u8] {
        if let Start::Bom(mut seen) = self.start {
            while seen < BOM.len() && chunk.first() == Some(&BOM[seen]) {
                seen += 1;
                chunk = &chunk[1..];
            }
            self.start = if seen == BOM.len() {
                Start::Passed
            } else if chunk.is_empty() {
                Start::Bom(seen)
            } else {
                self.line.extend_from_slice(&BOM[..seen]);
                Start::Passed
            };
        }
        if self.after_cr && !chunk.is_empty() {
            self.after_cr = false;
            chunk = chunk.strip_prefix(b"\n").unwrap_or(chunk);
        }
        chunk
    }

    /// What follows the line end at `end`: LF, CR LF, or CR.
    fn after_line_end<'a>(&mut self, rest: &'a [u8], end: usize) -> &'a [u8] {
        let after = &rest[end + 1..];
        if rest[end] == b'\n' {
            return after;
        }
        self.after_cr = after.is_empty();
        after.strip_prefix(b"\n").unwrap_or(after)
    }

    /// Finishes the line that began in an earlier chunk; `None` when this chunk does not end it.
    fn complete_line<'a>(&mut self, rest: &'a [u8]) -> Result<Option<&'a [u8]>, SseError> {
        let end = memchr2(b'\n', b'\r', rest);
        self.check_line(self.line.len() + end.unwrap_or(rest.len()))?;
        self.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        let Some(end) = end else { return Ok(None) };
        let after = self.after_line_end(rest, end);
        let mut line = std::mem::take(&mut self.line);
        match field(&line) {
            Field::Data(value) => self.append(value)?,
            Field::Event(value) => self.rename(value)?,
            Field::Ignored => {}
        }
        line.clear();
        self.line = line;
        Ok(Some(after))
    }

    /// Files a line that lies whole in the chunk, leaving its value there where that is possible.
    fn take_line<'a>(&mut self, line: &'a [u8], event: &mut InChunk<'a>) -> Result<(), SseError> {
        self.check_line(line.len())?;
        match field(line) {
            Field::Data(value) if event.data.is_none() && !self.unfinished.has_data => {
                let name = event.name.map_or(self.unfinished.name.len(), <[u8]>::len);
                self.check_event(name + value.len())?;
                event.data = Some(value);
            }
            Field::Data(value) => {
                if let Some(name) = event.name.take() {
                    self.rename(name)?;
                }
                if let Some(first) = event.data.take() {
                    self.append(first)?;
                }
                self.append(value)?;
            }
            Field::Event(value) => {
                let data = event.data.map_or(self.unfinished.data.len(), <[u8]>::len);
                self.check_event(data + value.len())?;
                event.name = Some(value);
            }
            Field::Ignored => {}
        }
        Ok(())
    }

    /// A blank line: hands out the event if it has data, and forgets it.
    fn dispatch<E>(
        &mut self,
        event: &mut InChunk<'_>,
        on_frame: &mut impl FnMut(SseFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let InChunk { name, data } = std::mem::take(event);
        let name = text(name.unwrap_or(&self.unfinished.name));
        let data = match data {
            Some(data) => Some(text(data)),
            None => self.unfinished.has_data.then(|| text(&self.unfinished.data)),
        };
        let result = match &data {
            Some(data) => {
                on_frame(SseFrame { event: Some(&*name).filter(|name| !name.is_empty()), data })
            }
            None => Ok(()),
        };
        self.unfinished.clear();
        result
    }

    /// Keeps what the chunk left unfinished.
    fn keep(&mut self, rest: &[u8], event: InChunk<'_>) -> Result<(), SseError> {
        self.check_line(rest.len())?;
        self.line.extend_from_slice(rest);
        if let Some(name) = event.name {
            self.rename(name)?;
        }
        if let Some(data) = event.data {
            self.append(data)?;
        }
        Ok(())
    }

    /// Adds one `data` line to the unfinished event.
    fn append(&mut self, value: &[u8]) -> Result<(), SseError> {
        let Unfinished { name, data, has_data } = &self.unfinished;
        let separator = usize::from(*has_data);
        self.check_event(name.len() + data.len() + separator + value.len())?;
        let unfinished = &mut self.unfinished;
        if unfinished.has_data {
            unfinished.data.push(b'\n');
        }
        unfinished.data.extend_from_slice(value);
        unfinished.has_data = true;
        Ok(())
    }

    /// Sets the name of the unfinished event; the last one counts.
    fn rename(&mut self, value: &[u8]) -> Result<(), SseError> {
        self.check_event(self.unfinished.data.len() + value.len())?;
        self.unfinished.name.clear();
        self.unfinished.name.extend_from_slice(value);
        Ok(())
    }

    fn check_line(&mut self, bytes: usize) -> Result<(), SseError> {
        let limit = self.limits.line;
        if bytes > limit { Err(self.fail(SseError::LineTooLong { limit })) } else { Ok(()) }
    }

    fn check_event(&mut self, bytes: usize) -> Result<(), SseError> {
        let limit = self.limits.event;
        if bytes > limit { Err(self.fail(SseError::EventTooLarge { limit })) } else { Ok(()) }
    }

    /// Remembers the error and lets go of what was held.
    fn fail(&mut self, error: SseError) -> SseError {
        self.failed = Some(error);
        self.line = Vec::new();
        self.unfinished = Unfinished::default();
        error
    }
}

impl Unfinished {
    fn clear(&mut self) {
        self.name.clear();
        self.data.clear();
        self.has_data = false;
    }
}

/// Splits a non-empty line at its first colon; one space after that is not part of the value.
fn field(line: &[u8]) -> Field<'_> {
    if let Some(value) = value_of(line, b"data") {
        return Field::Data(value);
    }
    value_of(line, b"event").map_or(Field::Ignored, Field::Event)
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    // `from_utf8_lossy` alone would walk valid text byte by byte.
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests;
