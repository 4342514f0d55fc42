//! Old results of tools give way to a line that says what was there.
//!
//! Each change of what was sent costs the server's cache of it, so that much is cleared at once or
//! nothing at all.

use std::collections::HashMap;
use std::sync::Arc;

use llm::{ContentBlock, Message, Role};
use serde_json::Value;

use super::budget::{tokens_of_block, tokens_of_text};
use crate::session::record::ClearedResult;
use crate::truncate;

/// Tools whose results are instructions or plans and stay.
const KEPT: [&str; 3] = ["todo_write", "skill", "plan"];

/// The longest result, in bytes, that is not worth a line in its place.
const SHORT: usize = 200;

/// The most characters of what a call was about.
const SUBJECT: usize = 80;

/// When to look for old results again: a look visits the whole dialogue, which must not happen at each step
/// of one in which there is little to clear.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looks {
    /// The tokens of a request from which on it is worth it.
    again_at: u64,
}

impl Looks {
    /// Whether to look into a dialogue whose request has these tokens.
    pub fn is_due(self, tokens: u64) -> bool {
        tokens >= self.again_at
    }

    /// Notes that a look found fewer than `least` tokens to clear. A quarter of them has to be added before
    /// the next one, so that looking costs in all what was sent a few times over and not its square.
    pub fn found_little(&mut self, tokens: u64, least: u64) {
        self.again_at = tokens.saturating_add(least / 4);
    }

    /// Notes that the dialogue is another one.
    pub fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

/// The results that give way, all but those of the last `keep_last_steps` answers and those that
/// `was_cleared` knows, and how many tokens that frees; nothing where it would be fewer than `least`.
pub fn clear_old_tool_results(
    messages: &[Arc<Message>],
    was_cleared: impl Fn(&str) -> bool,
    keep_last_steps: usize,
    least: u64,
) -> Option<(Vec<ClearedResult>, u64)> {
    let old = before_last_steps(messages, keep_last_steps);
    let mut calls: HashMap<&str, (&str, &Value)> = HashMap::new();
    let (mut cleared, mut freed) = (Vec::new(), 0);
    for block in old.iter().flat_map(|message| message.content()) {
        match block {
            ContentBlock::ToolCall { id, name, arguments, .. } => {
                calls.insert(id, (name, arguments));
            }
            ContentBlock::ToolResult { call_id, content, images, .. } => {
                let Some((name, arguments)) = calls.get(call_id.as_str()) else { continue };
                let is_short = content.len() <= SHORT && images.is_empty();
                if is_short || KEPT.contains(name) || was_cleared(call_id) {
                    continue;
                }
                let line = line(name, arguments, content);
                freed += tokens_of_block(block).saturating_sub(tokens_of_text(&line));
                cleared.push(ClearedResult { call_id: call_id.clone(), content: line });
            }
            _ => {}
        }
    }
    (!cleared.is_empty() && freed >= least).then_some((cleared, freed))
}

/// The messages before the last few answers.
fn before_last_steps(messages: &[Arc<Message>], keep: usize) -> &[Arc<Message>] {
    let answers = messages.iter().enumerate().rev();
    let mut answers = answers.filter(|(_, message)| message.role() == Role::Assistant);
    match keep.checked_sub(1).and_then(|at| answers.nth(at)) {
        Some((at, _)) => &messages[..at],
        None if keep == 0 => messages,
        None => &[],
    }
}

fn line(tool: &str, arguments: &Value, content: &str) -> String {
    let lines = content.lines().count();
    let subject = subject(arguments);
    let gap = if subject.is_empty() { "" } else { " " };
    format!("[cleared: {tool}{gap}{subject}, {lines} lines; call it again if you need it]")
}

/// What a call was about, in a few words.
pub(super) fn subject(arguments: &Value) -> String {
    let named = ["file_path", "path", "command", "pattern", "query", "url", "name"];
    let text = named.iter().find_map(|name| arguments.get(name)?.as_str()).unwrap_or_default();
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    truncate::head(&line, SUBJECT).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `steps` answers with a call each, and its result of `bytes`.
    fn dialogue(steps: usize, tool: &str, bytes: usize) -> Vec<Arc<Message>> {
        let mut messages = vec![Arc::new(Message::user_text("go"))];
        for step in 0..steps {
            let call = ContentBlock::ToolCall {
                id: format!("c{step}"),
                name: tool.to_owned(),
                arguments: json!({"file_path": format!("src/{step}.rs")}),
                meta: None,
            };
            let result =
                ContentBlock::tool_result(format!("c{step}"), "x\n".repeat(bytes / 2), false);
            messages.push(Arc::new(Message::new(Role::Assistant, vec![call])));
            messages.push(Arc::new(Message::new(Role::User, vec![result])));
        }
        messages
    }

    #[test]
    fn all_but_the_last_steps_give_way_to_a_line_that_says_what_was_there() {
        let (cleared, freed) =
            clear_old_tool_results(&dialogue(5, "read_file", 4_000), |_| false, 3, 0).unwrap();
        let ids: Vec<&str> = cleared.iter().map(|one| one.call_id.as_str()).collect();
        assert_eq!(ids, ["c0", "c1"]);
        assert_eq!(
            cleared[1].content,
            "[cleared: read_file src/1.rs, 2000 lines; call it again if you need it]"
        );
        assert!((1_900..2_000).contains(&freed), "{freed}");
    }

    #[test]
    fn a_dialogue_with_little_to_clear_is_looked_into_again_once_it_has_grown() {
        let mut looks = Looks::default();
        assert!(looks.is_due(0));
        looks.found_little(100_000, 20_000);
        assert!(!looks.is_due(104_999) && looks.is_due(105_000));
        looks.begin_anew();
        assert!(looks.is_due(0));
    }

    #[test]
    fn little_gain_plans_and_short_results_are_left_alone() {
        let messages = dialogue(5, "read_file", 4_000);
        assert_eq!(clear_old_tool_results(&messages, |_| false, 3, 2_000), None);
        assert_eq!(clear_old_tool_results(&messages, |_| false, 5, 0), None);
        for tool in KEPT {
            assert_eq!(clear_old_tool_results(&dialogue(5, tool, 4_000), |_| false, 0, 0), None);
        }
        assert_eq!(clear_old_tool_results(&dialogue(5, "bash", 200), |_| false, 0, 0), None);
    }

    #[test]
    fn what_was_cleared_is_known_by_its_call_and_not_by_what_it_says() {
        let mut messages = dialogue(2, "bash", 4_000);
        let says = format!("[cleared: bash, 1 lines]{}", "x\n".repeat(2_000));
        let forged = ContentBlock::tool_result("c1", says, false);
        messages[4] = Arc::new(Message::new(Role::User, vec![forged]));
        let (cleared, _) = clear_old_tool_results(&messages, |id| id == "c0", 0, 0).unwrap();
        assert_eq!(cleared.len(), 1);
        assert_eq!(cleared[0].call_id, "c1");
    }
}
