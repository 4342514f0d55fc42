//! Keeps what goes over the wire in a file, and answers from such a file without a network.
//!
//! A recording is JSON Lines, each line whole when it is written, so that a program that is killed
//! leaves all that had happened. Its lines:
//!
//! ```text
//! {"type":"recording","version":1,"program":"anvil 0.1.0","model":"…","base_url":"…","cwd":"…","session_id":"…"}
//! {"type":"request","request":1,"dialect":"anthropic","method":"POST","path":"/v1/messages","body":"{…}"}
//! {"type":"answer","request":1,"status":200,"headers":{"content-type":"text/event-stream"}}
//! {"type":"chunk","request":1,"bytes":"event: message_start\ndata: {…}\n\n"}
//! {"type":"end","request":1}
//! ```
//!
//! * `path` is the part after the base URL. Of the headers only those of the answer are kept that
//!   decide what is done with it ([`KEPT_HEADERS`], and all whose name says `ratelimit`); keys travel in
//!   the request's.
//! * `body` and `bytes` are what was sent and received, chunk by chunk, as text, or as
//!   `{"base64":"…"}` where they are no UTF-8. The key in use is replaced wherever it occurs whole, and
//!   whatever a [`Cleaner`] takes out that the program gave; anything else that is private in a prompt, a
//!   file or an answer **is in the file as it was**.
//! * A written recording may leave `body` out: then any request gets that answer.
//! * `end` has an `error` where the connection failed. A request without `end` was given up, or the
//!   program was killed.
//!
//! A replay compares each request with its turn in the file, byte for byte. What differs from run to
//! run by nature is not compared: `cwd` and `session_id` are those of the run that replays, in the
//! expected requests and in the answers, and the ids of calls that a server leaves unnamed are
//! counted instead of drawn.

mod clean;
mod difference;
mod error;
mod format;
mod moved;
mod record;
mod replay;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::capability::Dialect;
use crate::stream::IdSource;

pub(crate) use clean::Eraser;
pub use clean::{Clean, Cleaner};
pub use difference::Difference;
pub use error::RecordingError;
pub use format::Header;
pub use record::Recorder;
pub use replay::Player;
pub(crate) use replay::{Ended, Replayed};

/// The headers of an answer that a recording keeps beside those of rate limits: its type, and what a
/// client that comes back goes by.
pub const KEPT_HEADERS: &[&str] = &[
    "content-type",
    "content-encoding",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "date",
];

/// What requests go through on their way to the network, or instead of it.
#[derive(Clone)]
pub enum Tape {
    /// To the network, and kept.
    Record(Arc<Recorder>),
    /// Answered from a recording.
    Replay(Arc<Player>),
}

impl Tape {
    /// Names calls that a server left unnamed, in a replay as in the run that was recorded.
    pub(crate) fn call_ids(&self) -> IdSource {
        let made = match self {
            Self::Record(recorder) => recorder.made_ids(),
            Self::Replay(player) => player.made_ids(),
        };
        Box::new(move || format!("call_{:032x}", made.fetch_add(1, Ordering::Relaxed) + 1))
    }
}

/// A request as it goes over the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Which wire format it is in.
    pub(crate) dialect: Dialect,
    pub(crate) method: &'a str,
    /// What follows the base URL.
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
}

/// How many ids were made up.
type MadeIds = Arc<AtomicU64>;
