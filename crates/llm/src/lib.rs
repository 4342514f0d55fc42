//! Asks language models over their wire formats; knows providers and nothing else.
//!
//! A [`ChatRequest`] goes through a provider's `wire` half to JSON, through the one `http` door to
//! the network, and comes back as bytes → [`sse`] events → the provider's `decode` half →
//! [`StreamEvent`]s → [`builder`] → `Completion`. Everything but `http` is a pure function of its
//! input and can be stepped by hand.

pub mod api_key;
pub mod builder;
pub mod capability;
pub mod config;
pub mod conformance;
pub mod error;
pub mod handoff;
pub mod http;
pub mod integrity;
pub mod models;
pub mod provider;
pub mod providers;
pub mod recording;
pub mod registry;
pub mod retry;
pub mod schema;
pub mod sse;
pub mod stream;
#[cfg(feature = "testing")]
pub mod testing;
pub mod types;

pub use api_key::ApiKey;
pub use builder::{Completion, MessageBuilder};
pub use capability::{Dialect, Effort, Target, TargetFor, TargetOverrides};
pub use error::{Deadline, ErrorClass, GaveUp, LlmError};
pub use http::Deadlines;
pub use integrity::{IntegrityError, Tail, TranscriptChecker, validate_transcript};
pub use provider::{EventStream, Provider, collect, random_call_ids};
pub use registry::{Registry, ResolvedModel};
pub use retry::{Retry, RetryPolicy};
pub use stream::{FinishReason, IdSource, Phase, StreamEvent, Usage};
pub use types::{
    CacheHint, ChatRequest, ContentBlock, ImageData, Message, ProviderMeta, Role, ToolCallRef,
    ToolChoice, ToolSpec,
};
