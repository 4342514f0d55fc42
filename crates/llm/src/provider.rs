//! The seam between the agent and every model server.

use std::pin::Pin;

use async_trait::async_trait;
use futures::{Stream, StreamExt as _};

use crate::builder::{Completion, MessageBuilder};
use crate::capability::TargetFor;
use crate::error::LlmError;
use crate::integrity::IntegrityError;
use crate::providers::tools;
use crate::schema::SchemaDialect;
use crate::stream::{IdSource, StreamEvent};
use crate::types::ChatRequest;

/// An answer as it arrives. It owns all it needs; dropping it closes the connection.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, LlmError>> + Send>>;

/// Something that answers a [`ChatRequest`]: a server, a script, or a wrapper around one.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The name people configured it under.
    fn name(&self) -> &str;

    /// What the server's models take, where that is known; a script takes anything.
    fn target(&self) -> Option<TargetFor> {
        None
    }

    /// Sends the request and returns its answer as a stream.
    ///
    /// # Errors
    /// What went wrong before the first byte of a successful answer; later faults arrive in the
    /// stream, which ends after them.
    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError>;
}

/// What every provider looks at before it sends a request to a target of this dialect.
///
/// # Errors
/// `Transcript` when there is nothing to answer.
pub(crate) fn check(req: &ChatRequest, dialect: SchemaDialect) -> Result<(), LlmError> {
    if req.messages.is_empty() {
        return Err(IntegrityError::Empty.into());
    }
    for (tool, error) in tools::left_out(req, dialect) {
        tracing::warn!(tool, %error, "the model is not offered this tool");
    }
    Ok(())
}

/// Names calls that a server left unnamed, unlike any other in any conversation.
pub fn random_call_ids() -> IdSource {
    Box::new(|| format!("call_{}", uuid::Uuid::new_v4().simple()))
}

/// Reads an answer to its end.
///
/// # Errors
/// The stream's own error, an order of events that no answer can have, or `UnexpectedEof` when the
/// stream ends without `Finish`.
pub async fn collect(mut stream: EventStream) -> Result<Completion, LlmError> {
    let mut builder = MessageBuilder::default();
    while let Some(event) = stream.next().await {
        builder.push(&event?)?;
    }
    builder.finish()
}
