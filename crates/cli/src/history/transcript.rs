//! A session as people read it: who said what, which tools ran and what they gave.

use std::fmt::Write as _;

use agent::paste;
use agent::session::reduce::{CallState, State};
use llm::{ContentBlock, Message, Role};

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

/// The transcript for a terminal or a pipe.
pub(super) fn text(state: &State, pasted: Pasted) -> String {
    let mut text = String::new();
    let mut pastes = 0;
    for message in state.messages() {
        for block in message.content() {
            match (block, message.role()) {
                (ContentBlock::Text { text: said, .. }, Role::User) => {
                    let said = match pasted {
                        Pasted::Chips => paste::chips(said, &mut pastes),
                        Pasted::Whole => paste::expand(said),
                    };
                    for (at, line) in said.lines().enumerate() {
                        add(&mut text, if at == 0 { "> " } else { "  " }, line);
                    }
                }
                (ContentBlock::Text { text: said, .. }, Role::Assistant) => {
                    add(&mut text, "", said)
                }
                (ContentBlock::ToolCall { name, arguments, .. }, _) => {
                    add(&mut text, "* ", &format!("{name} {arguments}"));
                }
                (ContentBlock::ToolResult { content, is_error, .. }, _) => {
                    let mark = if *is_error { "  ! " } else { "  | " };
                    shortened(content).iter().for_each(|line| add(&mut text, mark, line));
                }
                (ContentBlock::Image(_), _) => add(&mut text, "", "[a picture]"),
                (ContentBlock::Reasoning { .. } | ContentBlock::Opaque { .. }, _) => {}
            }
        }
        text.push('\n');
    }
    open(&mut text, state);
    text
}

/// The calls that have no result, and how far they came.
fn open(text: &mut String, state: &State) {
    for call in state.calls() {
        let reached = match call.state {
            CallState::Decided => "had not begun",
            CallState::Started { .. } => "had begun, and nobody knows its end",
            CallState::Finished { .. } => "had finished",
        };
        add(text, "(", &format!("when the session ended, call {} {reached})", call.id));
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
pub(super) fn markdown(state: &State) -> String {
    let meta = state.meta().cloned().unwrap_or_default();
    let mut text = format!("# Session {}\n", meta.id);
    for message in state.messages() {
        let who = if message.role() == Role::User { "User" } else { "Assistant" };
        if has_words(message) {
            add(&mut text, "\n## ", who);
        }
        for block in message.content() {
            match block {
                ContentBlock::Text { text: said, .. } => add(&mut text, "\n", &paste::expand(said)),
                ContentBlock::ToolCall { name, arguments, .. } => {
                    fenced(&mut text, &format!("Call of `{name}`"), &format!("{arguments:#}"));
                }
                ContentBlock::ToolResult { content, is_error, .. } => {
                    fenced(&mut text, if *is_error { "Error" } else { "Result" }, content);
                }
                ContentBlock::Image(_) => add(&mut text, "\n", "*(a picture)*"),
                ContentBlock::Reasoning { .. } | ContentBlock::Opaque { .. } => {}
            }
        }
    }
    text
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
