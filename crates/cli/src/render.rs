//! Events in, bytes out: one renderer for each way of watching a turn, each over plain writers.

pub(crate) mod json;
pub(crate) mod style;
pub(crate) mod text;

use std::io;

use agent::sanitize::Visible;
use agent::{AgentEvent, ApprovalRequest};

/// How much of what is to be approved stands on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All of it.
    Whole,
    /// Its beginning and its end, and how much is missing.
    Collapsed,
}

/// Columns before the line in [`Typing`].
pub(crate) const PROMPT_COLUMNS: usize = 2;

/// What a person types while a turn runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Typing {
    /// Lines that the model has not read, oldest first.
    pub(crate) queued: Vec<Visible<'static>>,
    /// Something about the last key.
    pub(crate) hint: Option<&'static str>,
    /// The line so far, and the column in it at which the cursor stands; none where nothing is shown.
    pub(crate) line: Option<(Visible<'static>, usize)>,
}

/// How large a screen is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// In columns.
    pub(crate) columns: usize,
    /// In rows.
    pub(crate) rows: usize,
}

/// Shows a turn.
pub(crate) trait Render: Send {
    /// Shows one event.
    ///
    /// # Errors
    /// When standard output does not take it; a closed standard error is not an error.
    fn event(&mut self, event: &AgentEvent) -> io::Result<()>;

    /// Shows what a person is asked to approve. Only renderers of conversations are asked to, here and
    /// in what follows.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn question(&mut self, _request: &ApprovalRequest) -> io::Result<Asked> {
        Ok(Asked::Whole)
    }

    /// Shows all of it, however long.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn whole(&mut self, _request: &ApprovalRequest) -> io::Result<()> {
        Ok(())
    }

    /// Says with which keys the question is answered; `can_keep` if a rule can come of it.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn keys(&mut self, _asked: Asked, _can_keep: bool) -> io::Result<()> {
        Ok(())
    }

    /// Shows a numbered choice of rules.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn choices(&mut self, _rules: &[String]) -> io::Result<()> {
        Ok(())
    }

    /// Says something about the question.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn note(&mut self, _text: &str) -> io::Result<()> {
        Ok(())
    }

    /// Shows a line that is being typed behind `prompt`, in the place of what it was before; the cursor
    /// stands that many columns behind the prompt.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn draw(&mut self, _prompt: &str, _line: &Visible<'_>, _cursor: usize) -> io::Result<()> {
        Ok(())
    }

    /// The line was entered, or given up.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn answered(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// From now on (or no longer) the terminal marks what is pasted.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn take_keys(&mut self, _is_taken: bool) -> io::Result<()> {
        Ok(())
    }

    /// Shows what is being typed below all else, until something else is shown or it is shown anew.
    ///
    /// # Errors
    /// As for [`Render::event`].
    fn typing(&mut self, _typing: &Typing, _screen: Extent) -> io::Result<()> {
        Ok(())
    }

    /// The screen has so many columns now, which what is typed has to be taken away from.
    fn resized(&mut self, _columns: usize) {}

    /// Others wrote to the screen meanwhile and left the cursor at the start of a line.
    fn came_back(&mut self) {}

    /// Whether [`Render::typing`] shows anything.
    fn can_show_typing(&self) -> bool {
        false
    }

    /// Lines have this many columns from now on.
    fn fit_to(&mut self, _columns: usize) {}

    /// How many columns a line has.
    fn columns(&self) -> usize {
        80
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
}
