//! Answers requests from a recording, in its order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;

use super::clean::{self, Cleaner};
use super::difference::Difference;
use super::error::RecordingError;
use super::format::{self, End, Exchange, Header};
use super::moved::Moved;
use super::{Asked, MadeIds};
use crate::capability::Dialect;

/// A recording that is answered from.
pub struct Player {
    header: Header,
    exchanges: Vec<Exchange>,
    moved: Vec<Moved>,
    cleaner: Option<Cleaner>,
    next: AtomicUsize,
    made_ids: MadeIds,
}

/// A recorded answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Replayed {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) ended: Ended,
}

/// Whether the end of an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It did.
    Properly,
    /// The connection failed, or nobody waited for it.
    Broken,
}

impl Player {
    /// Reads a recording.
    ///
    /// # Errors
    /// When the text is no recording, of another version, or damaged.
    pub fn new(recording: &str) -> Result<Self, RecordingError> {
        let (header, exchanges) = format::parse(recording)?;
        Ok(Self {
            header,
            exchanges,
            moved: Vec::new(),
            cleaner: None,
            next: AtomicUsize::new(0),
            made_ids: Arc::new(AtomicU64::new(0)),
        })
    }

    /// What the recording is of.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The same for a run in another folder and another session.
    #[must_use]
    pub fn moved_to(mut self, cwd: &str, session_id: &str) -> Self {
        let pairs = [(&self.header.cwd, cwd), (&self.header.session_id, session_id)];
        let moved = pairs.iter().filter_map(|(from, to)| Moved::new(from.as_deref()?, to));
        self.moved = moved.collect();
        self
    }

    /// The same, compared without what `cleaner` takes out: a recording that was cleaned holds markers
    /// where the requests of this run hold what they stand for.
    #[must_use]
    pub fn cleaned_by(self, cleaner: Cleaner) -> Self {
        Self { cleaner: Some(cleaner), ..self }
    }

    /// The wire format of the first request, where it is one that this program speaks.
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        let first = self.exchanges.first()?;
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == first.dialect)
    }

    pub(super) fn made_ids(&self) -> MadeIds {
        Arc::clone(&self.made_ids)
    }

    /// The answer to the next request, if it is the recorded one.
    pub(crate) fn answer(&self, asked: &Asked<'_>) -> Result<Replayed, RecordingError> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let exchange = self
            .exchanges
            .get(at)
            .ok_or(RecordingError::Over { requests: self.exchanges.len() as u64 })?;
        let request = at as u64 + 1;
        let recorded = place(&exchange.dialect, &exchange.method, &exchange.path);
        let now = place(asked.dialect.name(), asked.method, asked.path);
        if recorded != now {
            return Err(RecordingError::Elsewhere { request, recorded, asked: now });
        }
        if let Some(body) = &exchange.body {
            let clean = |bytes: &[u8]| clean::whole(bytes, None, self.cleaner.as_ref());
            let (recorded, now) = (clean(&self.rename(body)), clean(asked.body));
            if let Some(difference) = Difference::between(&recorded, &now) {
                return Err(RecordingError::Differs { request, difference });
            }
        }
        self.replay(exchange)
    }

    fn replay(&self, exchange: &Exchange) -> Result<Replayed, RecordingError> {
        let Some((status, headers)) = exchange.answer.clone() else {
            let (message, is_retryable) = match &exchange.end {
                End::Failed(failure) => (failure.message.clone(), failure.is_retryable),
                End::Open | End::Complete => ("no answer came".to_owned(), false),
            };
            return Err(RecordingError::Failed { message, is_retryable });
        };
        let chunks = exchange.chunks.iter().map(|chunk| Bytes::from(self.rename(chunk))).collect();
        let ended = match exchange.end {
            End::Complete => Ended::Properly,
            End::Open | End::Failed(_) => Ended::Broken,
        };
        Ok(Replayed { status, headers, chunks, ended })
    }

    /// The bytes with the names of this run.
    fn rename(&self, bytes: &[u8]) -> Vec<u8> {
        self.moved.iter().fold(bytes.to_vec(), |bytes, moved| moved.apply(&bytes).into_owned())
    }
}

/// Where a request goes, in the words of an error.
fn place(dialect: &str, method: &str, path: &str) -> String {
    format!("{method} {path} in the format '{dialect}'")
}
