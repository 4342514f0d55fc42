//! Where notices enter the dialogue: with the results of a batch, or when the model would end the turn.

use std::borrow::Cow;

use llm::ContentBlock;

use super::{Agent, Run};
use crate::event::AgentEvent;
use crate::paste;
use crate::steering::Notice;
use crate::turn::{Input, Next};

impl Agent {
    /// How many notices wait that the model has not read.
    pub(super) fn waiting_notices(&self) -> usize {
        self.unread(self.steering.pending()).len()
    }

    /// These notices, from now on on their way to the model.
    pub(super) fn claim_notices(&self) -> Vec<Notice> {
        self.unread(self.steering.claim())
    }

    fn unread(&self, mut notices: Vec<Notice>) -> Vec<Notice> {
        let state = self.session.state();
        notices.retain(|notice| !state.was_delivered(&notice.id));
        notices
    }

    /// A prompt as the session may keep it.
    pub(super) fn sealed(&self, mut prompt: Vec<ContentBlock>) -> Vec<ContentBlock> {
        for block in &mut prompt {
            if let ContentBlock::Text { text, .. } = block
                && let Cow::Owned(sealed) = paste::sealed(text, self.tools.redactor())
            {
                *text = sealed;
            }
        }
        prompt
    }

    /// What the model reads of them, and their ids.
    pub(super) fn blocks_of(&self, notices: &[Notice]) -> (Vec<ContentBlock>, Vec<String>) {
        let redactor = self.tools.redactor();
        notices.iter().map(|notice| (notice.block(redactor), notice.id.clone())).unzip()
    }

    /// Tells that they are in the dialogue.
    pub(super) async fn tell_delivered(&self, notices: Vec<Notice>, run: &Run) {
        if !notices.is_empty() {
            self.emit(AgentEvent::NoticesDelivered { notices }, run).await;
        }
    }

    /// Says what waits, after an answer that would have ended the turn.
    pub(super) async fn deliver(&mut self, run: &mut Run) -> Next {
        if run.cancel.is_cancelled() {
            return run.turn.next(&run.stopped());
        }
        let notices = self.claim_notices();
        if notices.is_empty() {
            return run.turn.next(&Input::Withdrawn);
        }
        let (blocks, ids) = self.blocks_of(&notices);
        if let Err(error) = self.session.add_user_with(blocks, ids) {
            return run.fail(error.into());
        }
        self.tell_trouble(run).await;
        self.tell_delivered(notices, run).await;
        run.turn.next(&Input::Delivered)
    }
}
