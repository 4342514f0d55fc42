//! Drives a decoder in the tests of its dialect.

use std::fmt::Display;

use crate::builder::{Completion, MessageBuilder};
use crate::error::LlmError;
use crate::http::AnswerDecoder;
use crate::sse::{SseDecoder, SseFrame};
use crate::stream::{IdSource, StreamEvent};

/// Names calls `made_1`, `made_2`, ….
pub(super) fn made_ids() -> IdSource {
    let mut made = 0;
    Box::new(move || {
        made += 1;
        format!("made_{made}")
    })
}

/// The events of payloads without names; what was emitted before an error is lost.
pub(super) fn events(
    mut decoder: impl AnswerDecoder,
    payloads: &[impl Display],
) -> Result<Vec<StreamEvent>, LlmError> {
    let mut out = Vec::new();
    for payload in payloads {
        decoder.on_sse(SseFrame { event: None, data: &payload.to_string() }, &mut out)?;
    }
    decoder.on_end(&mut out)?;
    Ok(out)
}

/// The completion of payloads without names.
pub(super) fn complete(
    decoder: impl AnswerDecoder,
    payloads: &[impl Display],
) -> Result<Completion, LlmError> {
    built(&events(decoder, payloads)?)
}

/// The completion of a body, through the whole path from its bytes.
pub(super) fn replay(mut decoder: impl AnswerDecoder, body: &[u8]) -> Result<Completion, LlmError> {
    let (mut sse, mut out) = (SseDecoder::default(), Vec::new());
    sse.feed(body, |frame| decoder.on_sse(frame, &mut out))?;
    decoder.on_end(&mut out)?;
    built(&out)
}

fn built(events: &[StreamEvent]) -> Result<Completion, LlmError> {
    let mut builder = MessageBuilder::default();
    events.iter().try_for_each(|event| builder.push(event))?;
    builder.finish()
}
