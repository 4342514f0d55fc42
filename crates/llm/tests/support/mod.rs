//! Drives the decoders the way the network code does, with chunks cut anywhere.

#![allow(dead_code, unreachable_pub, reason = "each test target uses its part of this module")]

pub use llm::Dialect;
use llm::providers::anthropic::decode::StreamState;
use llm::providers::gemini::decode::GeminiStreamState;
use llm::providers::openai_chat::decode::ChatStreamState;
use llm::providers::openai_responses::decode::ResponsesStreamState;
use llm::sse::{SseDecoder, SseFrame};
use llm::{Completion, ContentBlock, IdSource, LlmError, MessageBuilder, StreamEvent, Usage};

/// The model that is asked in every test.
pub const MODEL: &str = "m";

/// A dialect by the name that fixture folders and cases use.
pub fn named(name: &str) -> Option<Dialect> {
    Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
}

fn decoder(dialect: Dialect, ids: IdSource) -> Box<dyn Decoder> {
    match dialect {
        Dialect::Anthropic => Box::new(StreamState::new(ids)),
        Dialect::OpenaiChat => Box::new(ChatStreamState::new(ids)),
        Dialect::OpenaiResponses => Box::new(ResponsesStreamState::new(ids)),
        Dialect::Gemini => Box::new(GeminiStreamState::new(ids).of_model(MODEL)),
    }
}

/// What all decoders can do; each has these functions of its own.
trait Decoder {
    fn on_sse(&mut self, frame: SseFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError>;
    fn on_end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), LlmError>;
    fn is_finished(&self) -> bool;
}

macro_rules! decoders {
    ($($state:ty),*) => {
        $(impl Decoder for $state {
            fn on_sse(
                &mut self,
                frame: SseFrame<'_>,
                out: &mut Vec<StreamEvent>,
            ) -> Result<(), LlmError> {
                self.on_sse(frame, out)
            }
            fn on_end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
                self.on_end(out)
            }
            fn is_finished(&self) -> bool {
                self.is_finished()
            }
        })*
    };
}

decoders!(StreamState, ChatStreamState, ResponsesStreamState, GeminiStreamState);

/// One way of cutting a body into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// One chunk.
    Whole,
    /// A chunk for every byte.
    Bytes,
    /// Two chunks; the first has so many bytes.
    At(usize),
}

impl Cut {
    /// The chunks of `body`.
    pub fn chunks(self, body: &[u8]) -> Vec<&[u8]> {
        match self {
            Self::Whole => vec![body],
            Self::Bytes => body.chunks(1).collect(),
            Self::At(at) => vec![&body[..at], &body[at..]],
        }
    }
}

/// What a body was decoded to.
#[derive(Debug)]
pub struct Decoded {
    /// Every event, also those before an error.
    pub events: Vec<StreamEvent>,
    /// How the stream ended.
    pub end: Result<(), LlmError>,
    /// Whether the protocol's end mark came.
    pub marked: bool,
}

impl Decoded {
    /// The completion, or the error that the decoder or the builder ended with.
    pub fn completion(self) -> Result<Completion, LlmError> {
        let mut builder = MessageBuilder::default();
        self.events.iter().try_for_each(|event| builder.push(event))?;
        self.end?;
        builder.finish()
    }

    /// The blocks and counts so far, of a stream that may have broken off.
    pub fn partial(&self) -> (Vec<ContentBlock>, Usage) {
        let mut builder = MessageBuilder::default();
        for event in &self.events {
            builder.push(event).expect("the decoders emit no impossible order");
        }
        let usage = *builder.usage();
        (builder.into_blocks(), usage)
    }

    /// Everything that must not depend on how the body was cut.
    pub fn fingerprint(&self) -> String {
        format!("{self:?}")
    }
}

/// Decodes `body` from chunks as `cut` makes them. Made ids are `made_0`, `made_1`, ….
pub fn decode(dialect: Dialect, body: &[u8], cut: Cut) -> Decoded {
    let mut made = 0;
    let ids: IdSource = Box::new(move || {
        made += 1;
        format!("made_{}", made - 1)
    });
    let mut decoder = decoder(dialect, ids);
    let mut sse = SseDecoder::default();
    let mut events = Vec::new();
    let mut end = cut
        .chunks(body)
        .into_iter()
        .try_for_each(|chunk| sse.feed(chunk, |frame| decoder.on_sse(frame, &mut events)));
    let mut marked = decoder.is_finished();
    if end.is_ok() {
        end = decoder.on_end(&mut events);
    }
    if dialect == Dialect::Gemini {
        // It has no end mark. Expectations take the reason of an answer for one, but not that of a
        // refused prompt.
        marked = matches!(
            events.last(),
            Some(StreamEvent::Finish { raw: Some(raw), .. }) if !raw.starts_with("promptFeedback")
        );
    }
    Decoded { events, end, marked }
}
