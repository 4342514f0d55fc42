//! The form for people: text as it streams, calls as one-liners, results as previews.
//!
//! In a conversation everything goes to standard output as it happens. In a run with `-p` only the
//! committed final answer does; the way there is told on standard error.

mod below;
mod block;
#[cfg(test)]
mod cases;
mod question;
mod status;
#[cfg(test)]
mod tests;
mod words;

use std::io::{self, Write};
use std::time::Duration;

use agent::sanitize::{self, Visible, VisibleStream};
use agent::steering::Notice;
use agent::{AgentEvent, ApprovalRequest, TurnSummary};
use llm::Phase;
use serde_json::Value;

use self::below::Below;
use self::block::{Kind, lay_out};
use self::status::{Status, Wait};
use super::style::{Ink, Paint, Style, call_line, fit, wrap};
use super::{Asked, Extent, Render, Typing};

/// Lines of a result that are shown, of one that failed, and of a diff.
const RESULT_LINES: usize = 6;
const ERROR_LINES: usize = 12;
const DIFF_LINES: usize = 60;
/// Lines of anything with `--verbose`.
const MANY_LINES: usize = 200;

/// Who reads along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// A person in a conversation: everything on standard output, as it happens.
    Conversation,
    /// A pipeline: the final answer on standard output, the rest on standard error.
    Pipeline,
    /// Somebody who watches the demo: as in a conversation, but no tokens are counted.
    Demo,
}

/// How things look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Colours on standard output.
    pub(crate) out: Style,
    /// Colours on standard error.
    pub(crate) err: Style,
    /// Columns of the narrower of the two.
    pub(crate) width: usize,
    /// Whether reasoning and longer previews are shown.
    pub(crate) is_verbose: bool,
}

/// Renders for people.
pub(crate) struct Text<O, E> {
    out: O,
    err: E,
    audience: Audience,
    look: Look,
    visible: VisibleStream,
    /// Text of the running step that has not been shown (a pipeline may still need it as the answer).
    held: String,
    /// Whether the running step has shown text.
    has_streamed: bool,
    is_mid_line: bool,
    is_reasoning: bool,
    status: Status,
    below: Below,
    /// Whether the last thing shown was the result of a call.
    is_after_result: bool,
    /// Calls of the running step that have not finished: their ids and how they were shown.
    open: Vec<(String, Visible<'static>)>,
    /// Whether several calls were open at once, so that a result must say whose it is.
    is_crowded: bool,
}

impl<O: Write, E: Write> Text<O, E> {
    pub(crate) fn new(out: O, err: E, audience: Audience, look: Look) -> Self {
        Self {
            out,
            err,
            audience,
            look,
            visible: VisibleStream::default(),
            held: String::new(),
            has_streamed: false,
            is_mid_line: false,
            is_reasoning: false,
            status: Status::new(),
            below: Below::new(look.width),
            is_after_result: false,
            open: Vec::new(),
            is_crowded: false,
        }
    }

    /// Colours of the stream that tells the way.
    fn style(&self) -> Style {
        match self.audience {
            Audience::Conversation | Audience::Demo => self.look.out,
            Audience::Pipeline => self.look.err,
        }
    }

    /// Writes to the stream that tells the way.
    fn tell(&mut self, ink: &Ink) -> io::Result<()> {
        match self.audience {
            Audience::Conversation | Audience::Demo => {
                self.lift()?;
                self.below.follow(ink);
                self.out.write_all(ink.as_bytes())?;
                self.out.flush()
            }
            Audience::Pipeline => {
                self.tell_apart(ink);
                Ok(())
            }
        }
    }

    /// Takes away what stands below.
    fn lift(&mut self) -> io::Result<()> {
        match self.below.lift() {
            Some(ink) => self.out.write_all(ink.as_bytes()).and_then(|()| self.out.flush()),
            None => Ok(()),
        }
    }

    /// Writes to standard error. Whoever closed it does not want to know.
    fn tell_apart(&mut self, ink: &Ink) {
        let written = self.err.write_all(ink.as_bytes()).and_then(|()| self.err.flush());
        if let Err(error) = written {
            tracing::debug!(%error, "standard error takes nothing");
        }
    }

    /// Takes the status line away and goes to the start of a line.
    fn settle(&mut self) -> io::Result<()> {
        if self.status.take_down() {
            self.tell(&Ink::from("\r\x1b[2K"))?;
        }
        if std::mem::take(&mut self.is_reasoning) && self.style().is_on {
            self.tell(&Ink::from("\x1b[0m"))?;
        }
        if std::mem::take(&mut self.is_mid_line) {
            let rest = self.visible.finish();
            self.tell(Ink::from(&rest).own("\n"))?;
        }
        Ok(())
    }

    /// Shows in a line that the next output overwrites what is being waited for.
    fn wait(&mut self, wait: Wait) -> io::Result<()> {
        if !self.style().is_on || self.is_mid_line {
            return Ok(());
        }
        self.status.put_up(wait);
        self.draw_status()
    }

    fn wait_for(&mut self, what: &str) -> io::Result<()> {
        self.wait(Wait::Other(what.to_owned()))
    }

    fn draw_status(&mut self) -> io::Result<()> {
        let Some(text) = self.status.line() else { return Ok(()) };
        let text = sanitize::one_line(&text);
        let text = fit(&text, self.look.width - 1);
        self.tell(Ink::from("\r\x1b[2K").paint(self.style(), Paint::Dim, &text))
    }

    fn phase(&mut self, phase: &Phase) -> io::Result<()> {
        let is_failure = matches!(phase, Phase::Retrying { .. });
        // A pipeline's log keeps it; where nothing can be overwritten it is a line, too.
        if is_failure && (self.audience == Audience::Pipeline || !self.style().is_on) {
            let text = words::phase(phase, Duration::ZERO);
            return self.line(Paint::Dim, &sanitize::one_line(&text));
        }
        self.wait(Wait::Model(phase.clone()))
    }

    fn line(&mut self, paint: Paint, text: &Visible<'_>) -> io::Result<()> {
        self.settle()?;
        self.tell(self.style().paint(paint, text).own("\n"))
    }

    /// What the person, or something that works beside the turn, said to the model meanwhile.
    fn delivered(&mut self, notices: &[Notice]) -> io::Result<()> {
        for notice in notices {
            let said = sanitize::one_line(&format!("» {}", notice.text)).into_owned();
            for line in wrap(&said, self.look.width) {
                self.line(Paint::Cyan, &line)?;
            }
        }
        Ok(())
    }

    fn text_delta(&mut self, text: &str) -> io::Result<()> {
        if self.audience == Audience::Pipeline {
            self.held.push_str(text);
            return self.wait_for("writing the answer");
        }
        if self.status.is_up() || self.is_reasoning {
            self.settle()?;
        }
        let mut ink = Ink::from(if std::mem::take(&mut self.is_after_result) { "\n" } else { "" });
        let shown = self.visible.push(text);
        self.has_streamed = true;
        self.is_mid_line = !ink.text(&shown).ends_line();
        self.tell(&ink)
    }

    fn reasoning_delta(&mut self, text: &str) -> io::Result<()> {
        if !self.look.is_verbose {
            return self.wait_for("thinking");
        }
        if !self.is_reasoning {
            self.settle()?;
            self.is_reasoning = true;
            if self.style().is_on {
                self.tell(&Ink::from("\x1b[2m"))?;
            }
        }
        self.is_mid_line = true;
        let shown = self.visible.push(text);
        self.tell(&Ink::from(&shown))
    }

    /// Text that turned out to be on the way and not the answer.
    fn show_held(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        let held = sanitize::visible(held.trim());
        if held.is_empty() { Ok(()) } else { self.line(Paint::Plain, &held) }
    }

    fn call_started(&mut self, id: &str, name: &str, args: &Value) -> io::Result<()> {
        self.show_held()?;
        let call = call_line(name, args, self.look.width.saturating_sub(4));
        self.line(Paint::Dim, &sanitize::one_line(&format!("⏺ {call}")))?;
        self.is_crowded |= !self.open.is_empty();
        self.open.push((id.to_owned(), call));
        self.status.restart();
        Ok(())
    }

    fn call_finished(&mut self, id: &str, failed: bool, preview: &str) -> io::Result<()> {
        let call = self.open.iter().position(|(open, _)| open == id);
        let call = call.map_or(Visible::own(""), |at| self.open.remove(at).1);
        let is_diff = preview.lines().any(|line| line.starts_with("@@ "));
        let most = match () {
            () if self.look.is_verbose => MANY_LINES,
            () if is_diff => DIFF_LINES,
            () if failed => ERROR_LINES,
            () => RESULT_LINES,
        };
        if self.is_crowded {
            self.line(Paint::Dim, &sanitize::one_line(&format!("  ⎿ {call}")))?;
        }
        let paint = if failed { Paint::Red } else { Paint::Dim };
        self.block(preview, most, if is_diff { Kind::Diff } else { Kind::Plain(paint) })?;
        self.is_after_result = true;
        Ok(())
    }

    /// Shows text indented below the line before it, cut to `most` lines.
    fn block(&mut self, text: &str, most: usize, kind: Kind) -> io::Result<()> {
        self.settle()?;
        let mut ink = Ink::default();
        for (paint, line) in lay_out(text, self.look.width.saturating_sub(4), most, kind) {
            let is_first = ink.is_empty() && !self.is_crowded;
            ink.own(if is_first { "  ⎿ " } else { "    " });
            ink.paint(self.style(), paint, &line).own("\n");
        }
        self.tell(&ink)
    }

    fn step_failed(&mut self) -> io::Result<()> {
        self.held.clear();
        if std::mem::take(&mut self.has_streamed) {
            let note = Visible::own("(what stands above was cut off and is not kept)");
            self.line(Paint::Dim, &note)?;
        }
        Ok(())
    }

    fn turn_finished(&mut self, summary: &TurnSummary) -> io::Result<()> {
        self.held.clear();
        self.lift()?;
        self.settle()?;
        self.open.clear();
        self.is_after_result = false;
        if self.audience == Audience::Pipeline && !summary.text.is_empty() {
            let mut answer = Ink::from(&sanitize::visible(&summary.text));
            if !answer.ends_line() {
                answer.own("\n");
            }
            self.out.write_all(answer.as_bytes())?;
            self.out.flush()?;
        }
        if let Some(why) = words::why(summary) {
            for piece in wrap(&sanitize::visible(&why), self.look.width.max(40)) {
                self.tell_apart(self.look.err.paint(Paint::Red, &piece).own("\n"));
            }
        }
        if summary.steps > 0 && self.audience != Audience::Demo {
            let counts = sanitize::one_line(&words::usage(summary)).into_owned();
            self.tell_apart(self.look.err.paint(Paint::Dim, &counts).own("\n"));
        }
        Ok(())
    }
}

impl<O: Write + Send, E: Write + Send> Render for Text<O, E> {
    fn event(&mut self, event: &AgentEvent) -> io::Result<()> {
        match event {
            AgentEvent::SessionStarted { .. } | AgentEvent::Usage { .. } => Ok(()),
            AgentEvent::StepStarted { .. } => {
                self.has_streamed = false;
                self.is_crowded = false;
                self.open.clear();
                self.status.restart();
                self.wait_for("waiting for the model")
            }
            AgentEvent::Phase(phase) => self.phase(phase),
            AgentEvent::TextDelta { text } => self.text_delta(text),
            AgentEvent::ReasoningDelta { text } => self.reasoning_delta(text),
            AgentEvent::ToolCallStarted { id, name, args } => self.call_started(id, name, args),
            AgentEvent::ToolOutput { chunk, .. } => match chunk.trim_end().lines().last() {
                Some(last) => self.wait_for(&format!("  ⎿ {last}")),
                None => Ok(()),
            },
            AgentEvent::ToolCallFinished { id, is_error, preview, .. } => {
                self.call_finished(id, *is_error, preview)
            }
            AgentEvent::StepFailed { .. } => self.step_failed(),
            AgentEvent::VerificationFailed { verifier, reason } => {
                self.line(Paint::Red, &sanitize::visible(&format!("{verifier}: {reason}")))
            }
            AgentEvent::ContextCleared { results, before_tokens, after_tokens } => {
                let told = words::cleared(*results, *before_tokens, *after_tokens);
                self.line(Paint::Dim, &sanitize::visible(&told))
            }
            AgentEvent::Compacted { before_tokens, after_tokens, is_summary } => {
                let told = words::compacted(*before_tokens, *after_tokens, *is_summary);
                self.line(Paint::Dim, &sanitize::visible(&told))
            }
            AgentEvent::SessionTrouble { message } => {
                self.line(Paint::Red, &sanitize::visible(message))
            }
            AgentEvent::NoticesDelivered { notices } => self.delivered(notices),
            AgentEvent::TurnFinished(summary) => self.turn_finished(summary),
        }
    }

    fn question(&mut self, request: &ApprovalRequest) -> io::Result<Asked> {
        self.settle()?;
        let (ink, asked) = question::short(request, self.style(), self.look.width);
        self.tell(&ink)?;
        Ok(asked)
    }

    fn whole(&mut self, request: &ApprovalRequest) -> io::Result<()> {
        self.settle()?;
        self.tell(&question::whole(request, self.style(), self.look.width))
    }

    fn keys(&mut self, asked: Asked, can_keep: bool) -> io::Result<()> {
        self.settle()?;
        self.tell(&question::keys(asked, can_keep, self.style(), self.look.width))
    }

    fn choices(&mut self, rules: &[String]) -> io::Result<()> {
        self.settle()?;
        self.tell(&question::choices(rules, self.style(), self.look.width))
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        self.settle()?;
        self.tell(&question::note(text, self.style(), self.look.width))
    }

    fn draw(&mut self, prompt: &str, line: &Visible<'_>, cursor: usize) -> io::Result<()> {
        if self.status.is_up() {
            self.settle()?;
        }
        self.is_mid_line = true;
        let ink = question::typed(prompt, line, cursor, self.style(), self.look.width);
        self.tell(&ink)
    }

    fn answered(&mut self) -> io::Result<()> {
        self.is_mid_line = false;
        self.tell(&Ink::from("\r\n"))
    }

    fn take_keys(&mut self, is_taken: bool) -> io::Result<()> {
        match (self.style().is_on, is_taken) {
            (true, true) => self.tell(&Ink::from("\x1b[?2004h")),
            (true, false) => self.tell(&Ink::from("\x1b[?2004l")),
            (false, _) => Ok(()),
        }
    }

    fn typing(&mut self, typing: &Typing, screen: Extent) -> io::Result<()> {
        self.below.resized(screen.columns);
        self.lift()?;
        if !self.can_show_typing() {
            return Ok(());
        }
        let ink = self.below.put_up(typing, screen, self.look.out);
        if ink.is_empty() {
            return Ok(());
        }
        self.out.write_all(ink.as_bytes())?;
        self.out.flush()
    }

    fn resized(&mut self, columns: usize) {
        self.below.resized(columns);
    }

    fn came_back(&mut self) {
        self.below.restart();
    }

    fn can_show_typing(&self) -> bool {
        self.audience == Audience::Conversation && self.look.out.is_on
    }

    fn fit_to(&mut self, columns: usize) {
        self.look.width = columns;
    }

    fn columns(&self) -> usize {
        self.look.width
    }

    fn is_waiting(&self) -> bool {
        self.status.is_up() || !self.open.is_empty()
    }

    fn tick(&mut self) -> io::Result<()> {
        if !self.status.is_up() && !self.open.is_empty() {
            // A command that prints nothing for a while looks like a program that hangs.
            return self.wait_for("running");
        }
        self.draw_status()
    }
}
