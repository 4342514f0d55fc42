//! Bounds what a decoder keeps back until it can be emitted; pure.

use crate::error::LlmError;

/// Far above any signature or server-side result, far below a machine's memory.
const MAX_BYTES: usize = 32 << 20;

/// What an open block or call costs beside its content, so that their number is bounded too.
pub(super) const ENTRY: usize = 128;

/// Bytes kept back so far in one answer.
#[derive(Debug, Default)]
pub(super) struct Held(usize);

impl Held {
    /// Counts `bytes` more.
    ///
    /// # Errors
    /// `Decode` when the answer keeps back more than a decoder may hold.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), LlmError> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 > MAX_BYTES {
            return Err(LlmError::Decode(format!(
                "the answer holds more than {MAX_BYTES} bytes of provider state"
            )));
        }
        Ok(())
    }
}
