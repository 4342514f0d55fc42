//! Events in, bytes out: one renderer for each way of watching a turn, each over plain writers.

pub(crate) mod json;
pub(crate) mod style;
pub(crate) mod text;

use std::io;

use agent::{AgentEvent, ApprovalRequest};

/// Shows a turn.
pub(crate) trait Render: Send {
    /// Shows one event.
    ///
    /// # Errors
    /// When standard output does not take it; a closed standard error is not an error.
    fn event(&mut self, event: &AgentEvent) -> io::Result<()>;

    /// Shows what a person is asked to approve. Only renderers of conversations are asked to.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn question(&mut self, _request: &ApprovalRequest) -> io::Result<()> {
        Ok(())
    }

    /// Shows `text` without ending its line, for an answer to be typed behind it.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn prompt(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    /// Whether something is shown that changes with time alone, so that [`Render::tick`] is wanted.
    fn is_waiting(&self) -> bool {
        false
    }

    /// A second went by.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The answer to a prompt was typed, its line end included.
    fn answered(&mut self) {}
}
