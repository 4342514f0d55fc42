//! Keeps blocking file work off the runtime's threads.

use tokio_util::sync::CancellationToken;

use crate::tool::ToolError;

/// Does file work on a blocking thread. A cancelled call returns at once; the work, which changes
/// nothing, ends by itself.
pub(super) async fn off_runtime<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ToolError::Cancelled("cancelled".to_owned())),
        done = finish_off_runtime(work) => done,
    }
}

/// Does file work on a blocking thread and waits for its end, so that the result says what became of
/// a change. Work that was queued and never started, because the program ends, has changed nothing.
pub(super) async fn finish_off_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::Cancelled("cancelled; nothing was done".to_owned())),
        },
    }
}
