//! A session as people read it: who said what, which tools ran and what they gave.

use std::fmt::Write as _;

use agent::paste;
use agent::session::record::ReplaceReason;
use agent::session::reduce::{CallState, State};
use llm::{ContentBlock, Message, Role};

use super::said::Part;

/// The most lines of one result.
const RESULT_LINES: usize = 12;

/// How a long paste is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pasted {
    /// As a chip that tells its size.
    Chips,
    /// All of it.
    Whole,
}

impl Pasted {
    /// What `--expand` asks for.
    pub(crate) fn expanded(is_expanded: bool) -> Self {
        if is_expanded { Self::Whole } else { Self::Chips }
    }
}

/// The transcript for a terminal or a pipe: what was said, and the calls that `state` leaves open.
pub(super) fn text(parts: &[Part], state: &State, pasted: Pasted) -> String {
    let mut text = String::new();
    let mut pastes = 0;
    for part in parts {
        match part {
            Part::Message(message) => said(&mut text, message, pasted, &mut pastes),
            Part::Replaced { reason, summary } => {
                add(&mut text, "", &format!("({})", replaced(*reason)));
                summary.lines().for_each(|line| add(&mut text, "  ~ ", line));
            }
        }
        text.push('\n');
    }
    open(&mut text, state);
    text
}

fn said(text: &mut String, message: &Message, pasted: Pasted, pastes: &mut usize) {
    for block in message.content() {
        match (block, message.role()) {
            (ContentBlock::Text { text: said, .. }, Role::User) => {
                let said = match pasted {
                    Pasted::Chips => paste::chips(said, pastes),
                    Pasted::Whole => paste::expand(said),
                };
                for (at, line) in said.lines().enumerate() {
                    add(text, if at == 0 { "> " } else { "  " }, line);
                }
            }
            (ContentBlock::Text { text: said, .. }, Role::Assistant) => add(text, "", said),
            (ContentBlock::ToolCall { name, arguments, .. }, _) => {
                add(text, "* ", &format!("{name} {arguments}"));
            }
            (ContentBlock::ToolResult { content, is_error, .. }, _) => {
                let mark = if *is_error { "  ! " } else { "  | " };
                shortened(content).iter().for_each(|line| add(text, mark, line));
            }
            (ContentBlock::Image(_), _) => add(text, "", "[a picture]"),
            (ContentBlock::Reasoning { .. } | ContentBlock::Opaque { .. }, _) => {}
        }
    }
}

/// What became of that which stands before.
fn replaced(reason: ReplaceReason) -> &'static str {
    match reason {
        ReplaceReason::Cleared => "from here on the model reads old results of tools no more",
        ReplaceReason::Compacted | ReplaceReason::Dropped => {
            "from here on the model reads a summary of what stands before, and the end of that"
        }
        ReplaceReason::Forgotten => "the conversation was begun anew here",
    }
}

/// The calls that have no result, and how far they came.
fn open(text: &mut String, state: &State) {
    let last = state.messages().last();
    let names = |id: &str| last?.tool_calls().find(|call| call.id == id).map(|call| call.name);
    for (at, call) in state.calls().iter().enumerate() {
        let name = names(&call.id).unwrap_or("tool");
        let which = match state.calls().len() {
            1 => format!("this call of {name}"),
            _ => format!("call {}, of {name},", at + 1),
        };
        let says = match call.state {
            CallState::Decided => format!("before {which} began"),
            CallState::Started { .. } => {
                format!("while {which} ran, and nobody knows how it ended")
            }
            CallState::Finished { .. } => format!("when {which} had finished"),
        };
        add(text, "(", &format!("the session ended {says})"));
    }
}

fn shortened(content: &str) -> Vec<String> {
    let mut lines: Vec<String> = content.lines().take(RESULT_LINES).map(str::to_owned).collect();
    let more = content.lines().count().saturating_sub(RESULT_LINES);
    if more > 0 {
        lines.push(format!("… {more} more lines"));
    }
    lines
}

/// The transcript as Markdown.
pub(super) fn markdown(parts: &[Part], state: &State) -> String {
    let meta = state.meta().cloned().unwrap_or_default();
    let mut text = format!("# Session {}\n", meta.id);
    for part in parts {
        match part {
            Part::Message(message) => said_in_markdown(&mut text, message),
            Part::Replaced { reason, summary } if summary.is_empty() => {
                add(&mut text, "\n", &format!("*({})*", replaced(*reason)));
            }
            Part::Replaced { reason, summary } => fenced(&mut text, replaced(*reason), summary),
        }
    }
    text
}

fn said_in_markdown(text: &mut String, message: &Message) {
    let who = if message.role() == Role::User { "User" } else { "Assistant" };
    if has_words(message) {
        add(text, "\n## ", who);
    }
    for block in message.content() {
        match block {
            ContentBlock::Text { text: said, .. } => add(text, "\n", &paste::expand(said)),
            ContentBlock::ToolCall { name, arguments, .. } => {
                fenced(text, &format!("Call of `{name}`"), &format!("{arguments:#}"));
            }
            ContentBlock::ToolResult { content, is_error, .. } => {
                fenced(text, if *is_error { "Error" } else { "Result" }, content);
            }
            ContentBlock::Image(_) => add(text, "\n", "*(a picture)*"),
            ContentBlock::Reasoning { .. } | ContentBlock::Opaque { .. } => {}
        }
    }
}

fn has_words(message: &Message) -> bool {
    let is_word =
        |block: &ContentBlock| matches!(block, ContentBlock::Text { .. } | ContentBlock::Image(_));
    message.content().iter().any(is_word)
}

/// A block that nothing inside can end.
fn fenced(text: &mut String, title: &str, content: &str) {
    let longest = content.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    add(text, "\n", &format!("{title}:\n\n{fence}\n{}\n{fence}", content.trim_end()));
}

fn add(text: &mut String, mark: &str, line: &str) {
    writeln!(text, "{mark}{}", line.trim_end()).expect("a text takes everything");
}
