//! Sends a model the pastes of a person without the marks they are kept with.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use llm::{ChatRequest, ContentBlock, EventStream, LlmError, Message, Provider, Role, TargetFor};

use crate::paste;

/// A provider that is sent what [`paste`] makes of the user's text.
///
/// It stands outside of retries: a request is expanded once. A message that was expanded is kept, so that
/// later requests send the same one and not a copy that would have to be written anew.
pub struct ExpandPastes {
    inner: Arc<dyn Provider>,
    known: Mutex<Known>,
}

/// What earlier requests told.
#[derive(Default)]
struct Known {
    /// Messages with marks, and what was made of them.
    expanded: Vec<Expanded>,
    /// The number and the last of the messages at the start of a dialogue among which no one has a mark.
    /// A request only goes on behind them, so that they need not be looked through again.
    plain: Option<(usize, Weak<Message>)>,
}

impl Known {
    /// How many messages at the start were looked through before.
    fn plain(&self, messages: &[Arc<Message>]) -> usize {
        let Some((count, last)) = &self.plain else { return 0 };
        let still = count.checked_sub(1).and_then(|at| messages.get(at));
        still.filter(|message| Arc::as_ptr(message) == last.as_ptr()).map_or(0, |_| *count)
    }
}

struct Expanded {
    kept: Arc<Message>,
    sent: Arc<Message>,
}

impl ExpandPastes {
    /// Stands before `inner`.
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self { inner, known: Mutex::default() }
    }

    /// The messages to send; nothing where no message has a mark.
    fn expand(&self, messages: &[Arc<Message>]) -> Option<Vec<Arc<Message>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let plain = known.plain(messages);
        if !messages[plain..].iter().any(|message| has_mark(message)) {
            let last = messages.last();
            known.plain = last.map(|last| (messages.len(), Arc::downgrade(last)));
            known.expanded.clear();
            return None;
        }
        let expanded = &mut known.expanded;
        // What is not said any more is not kept either.
        expanded.retain(|one| messages.iter().any(|message| Arc::ptr_eq(message, &one.kept)));
        let send = |message: &Arc<Message>| {
            if !has_mark(message) {
                return Arc::clone(message);
            }
            if let Some(one) = expanded.iter().find(|one| Arc::ptr_eq(&one.kept, message)) {
                return Arc::clone(&one.sent);
            }
            let sent = Arc::new(without_marks(message));
            expanded.push(Expanded { kept: Arc::clone(message), sent: Arc::clone(&sent) });
            sent
        };
        Some(messages.iter().map(send).collect())
    }
}

fn has_mark(message: &Message) -> bool {
    message.role() == Role::User
        && message.content().iter().any(
            |block| matches!(block, ContentBlock::Text { text, .. } if text.contains(paste::MARK)),
        )
}

/// A message as a model reads it.
pub fn without_marks(message: &Message) -> Message {
    let mut sent = message.clone();
    for block in sent.content_mut() {
        if let ContentBlock::Text { text, .. } = block {
            *text = paste::expand(text).into_owned();
        }
    }
    sent
}

#[async_trait]
impl Provider for ExpandPastes {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn target(&self) -> Option<TargetFor> {
        self.inner.target()
    }

    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        match self.expand(&req.messages) {
            None => self.inner.stream(req).await,
            Some(messages) => {
                let sent = ChatRequest {
                    model: req.model.clone(),
                    system: req.system.clone(),
                    messages,
                    tools: req.tools.clone(),
                    max_tokens: req.max_tokens,
                    temperature: req.temperature,
                    tool_choice: req.tool_choice,
                    effort: req.effort,
                    thinking_budget: req.thinking_budget,
                    cache: req.cache.clone(),
                };
                self.inner.stream(&sent).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use llm::testing::{ScriptedProvider, script};

    use super::*;

    fn said(text: &str) -> Arc<Message> {
        Arc::new(Message::new(Role::User, vec![ContentBlock::text(text)]))
    }

    #[tokio::test]
    async fn the_model_is_sent_the_paste_and_the_same_message_each_time() {
        let script = ScriptedProvider::new(vec![script::text("1"), script::text("2")]);
        let provider = Arc::new(script);
        let expanding = ExpandPastes::new(Arc::clone(&provider) as _);
        let kept = said(&format!("see {}", paste::embed("a\nb")));
        let mut request = ChatRequest { messages: vec![Arc::clone(&kept)], ..Default::default() };
        drop(expanding.stream(&request).await.unwrap());
        request.max_tokens = 9;
        drop(expanding.stream(&request).await.unwrap());
        let requests = provider.requests();
        assert_eq!(requests[0].messages[0].text(), "see a\nb");
        assert!(Arc::ptr_eq(&requests[0].messages[0], &requests[1].messages[0]));
        assert_eq!(requests[1].max_tokens, 9);
        assert!(kept.text().contains(paste::MARK));
        assert_eq!(expanding.name(), provider.name());
    }

    #[tokio::test]
    async fn a_paste_behind_messages_that_were_sent_before_is_expanded_too() {
        let script = (0..3).map(|_| script::text("x")).collect();
        let provider = Arc::new(ScriptedProvider::new(script));
        let expanding = ExpandPastes::new(Arc::clone(&provider) as _);
        let mut messages = vec![said("one"), said("two")];
        let send = |messages: &[Arc<Message>]| {
            let request = ChatRequest { messages: messages.to_vec(), ..Default::default() };
            let expanding = &expanding;
            async move { drop(expanding.stream(&request).await.unwrap()) }
        };
        send(&messages).await;
        messages.push(said(&paste::embed("three")));
        send(&messages).await;
        // Another dialogue of the same length, as after one was cleared.
        send(&[said(&paste::embed("anew")), said("two")]).await;
        let texts: Vec<Vec<String>> = provider
            .requests()
            .iter()
            .map(|request| request.messages.iter().map(|message| message.text()).collect())
            .collect();
        assert_eq!(texts, [vec!["one", "two"], vec!["one", "two", "three"], vec!["anew", "two"]]);
    }

    #[tokio::test]
    async fn a_message_without_a_mark_is_sent_itself() {
        let provider = Arc::new(ScriptedProvider::new(vec![script::text("1")]));
        let expanding = ExpandPastes::new(Arc::clone(&provider) as _);
        let message = said("plain");
        let request = ChatRequest { messages: vec![Arc::clone(&message)], ..Default::default() };
        drop(expanding.stream(&request).await.unwrap());
        assert!(Arc::ptr_eq(&provider.requests()[0].messages[0], &message));
    }
}
