//! The context of a session replaced: a summary in the place of its head, or lines in the place of results.

use std::sync::Arc;

use llm::{ContentBlock, Message, Tail, TranscriptChecker};

use super::{ReduceError, State};
use crate::session::record::{Change, ReplaceReason, StandIn};

impl State {
    pub(super) fn replace(
        &mut self,
        made_from: u64,
        reason: ReplaceReason,
        change: &Change,
    ) -> Result<(), ReduceError> {
        if made_from != self.revision {
            return Err(ReduceError::Stale { made_from, now: self.revision });
        }
        if !self.calls.is_empty() && !is_whole(change, self.messages.len()) {
            return Err(ReduceError::CallsPending);
        }
        match change {
            Change::Head { upto, messages, stand_in } => {
                self.replace_head(*upto, messages)?;
                self.stand_in = stand_in.clone().or_else(|| whole_stand_in(reason, messages));
                self.cleared.retain(|id| self.checker.knows_call(id));
            }
            Change::Results { cleared } => {
                let mut left: Vec<(&str, &str)> =
                    cleared.iter().map(|one| (&*one.call_id, &*one.content)).collect();
                let mut changed = self.messages.clone();
                for message in &mut changed {
                    if left.is_empty() {
                        break;
                    }
                    clear_results(message, &mut left);
                }
                if let Some((id, _)) = left.first() {
                    return Err(ReduceError::NoSuchCall((*id).to_owned()));
                }
                self.messages = changed;
                self.cleared.extend(cleared.iter().map(|one| one.call_id.clone()));
            }
        }
        self.revise();
        Ok(())
    }

    fn replace_head(&mut self, upto: usize, head: &[Arc<Message>]) -> Result<(), ReduceError> {
        let Some(tail) = self.messages.get(upto..) else {
            return Err(ReduceError::TooMany { upto, messages: self.messages.len() });
        };
        let messages: Vec<Arc<Message>> = head.iter().chain(tail).cloned().collect();
        let mut checker = TranscriptChecker::default();
        for message in &messages {
            checker.push(message)?;
        }
        checker.finish(Tail::Settled)?;
        self.messages = messages;
        self.checker = checker;
        self.calls.clear();
        Ok(())
    }
}

/// What stands for a dialogue where a file from before that was kept does not tell: all of the message.
fn whole_stand_in(reason: ReplaceReason, head: &[Arc<Message>]) -> Option<StandIn> {
    let is_made = matches!(reason, ReplaceReason::Compacted | ReplaceReason::Dropped);
    let blocks = head.first().filter(|_| is_made)?.content().len();
    Some(StandIn { blocks, ..StandIn::default() })
}

/// Whether nothing of the dialogue stays.
fn is_whole(change: &Change, messages: usize) -> bool {
    matches!(change, Change::Head { upto, messages: new, .. } if *upto == messages && new.is_empty())
}

/// Gives the results of `left` that stand in the message their new content, and takes them from `left`.
fn clear_results(message: &mut Arc<Message>, left: &mut Vec<(&str, &str)>) {
    let is_meant = |block: &ContentBlock| {
        matches!(block, ContentBlock::ToolResult { call_id, .. }
            if left.iter().any(|(id, _)| id == call_id))
    };
    if !message.content().iter().any(is_meant) {
        return;
    }
    for block in Arc::make_mut(message).content_mut() {
        let ContentBlock::ToolResult { call_id, content, images, .. } = block else { continue };
        let Some(at) = left.iter().position(|(id, _)| id == call_id) else { continue };
        let (_, new) = left.swap_remove(at);
        new.clone_into(content);
        images.clear();
    }
}
