//! The transcript of a session and the one path by which it changes.
//!
//! Every mutation keeps the dialogue legal: what would break a rule is refused before it happens.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use llm::handoff::{self, Reader};
use llm::{
    CacheHint, ChatRequest, ContentBlock, IntegrityError, Message, Provider, Role, Tail, ToolSpec,
    TranscriptChecker,
};

use crate::agent::ModelRef;

/// A conversation, held as the request it becomes, so that a step sends what is already there.
#[derive(Debug, Default)]
pub struct Session {
    /// What is said, whoever is asked.
    messages: Vec<Arc<Message>>,
    /// The request for the model that is asked now. Its messages are those above but for what only
    /// another model can read.
    request: ChatRequest,
    /// What that model's messages are marked with.
    author: Option<String>,
    checker: TranscriptChecker,
    /// The next suffix for a call id that a server gave again.
    renamed: HashMap<String, u32>,
}

impl Session {
    /// An empty session with what stays the same in every request.
    pub fn new(system: Option<String>, tools: Vec<ToolSpec>) -> Self {
        let request = ChatRequest { system, tools, ..ChatRequest::default() };
        Self { request, ..Self::default() }
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The request for the next sample.
    ///
    /// # Errors
    /// When the transcript is not in a state that may be sent.
    pub fn request(&self) -> Result<&ChatRequest, IntegrityError> {
        self.checker.finish(Tail::Settled)?;
        Ok(&self.request)
    }

    /// Sends later requests to this model of `provider`, with what it is asked for. Returns how many
    /// calls of another model it is told in words, because it would not go on with them.
    ///
    /// What was said stays as it is; only what is sent is fitted ([`handoff`]).
    pub fn set_model(&mut self, model: &ModelRef, provider: &dyn Provider) -> usize {
        self.request.model = model.id.clone();
        self.request.max_tokens = model.max_tokens;
        self.request.effort = model.effort;
        self.request.thinking_budget = model.thinking_budget;
        self.request.messages.clone_from(&self.messages);
        let author = format!("{}:{}", provider.name(), model.id);
        self.author = Some(author.clone());
        let Some(target) = provider.target() else { return 0 };
        let (dialect, target) = (target.dialect(), target.of(&model.id));
        let handoff = handoff::prepare(&self.request, &Reader { author, dialect, target });
        self.request.messages = handoff.messages;
        handoff.calls_told
    }

    /// Says in later requests that they begin alike; `key` is the same for all of them and tells
    /// nothing about the user.
    pub fn set_cache_key(&mut self, key: &str) {
        let key = key.chars().take(CacheHint::LONGEST_KEY).collect();
        self.request.cache = Some(CacheHint { key });
    }

    /// Forgets the dialogue; model, system text and tools stay.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.request.messages.clear();
        self.checker = TranscriptChecker::default();
        self.renamed.clear();
    }

    /// Adds what the user says. After a turn that ended early it joins the waiting user message, so
    /// that roles keep alternating.
    ///
    /// # Errors
    /// `NotUserContent` when a block is not text or an image; nothing is added then.
    pub fn add_user(&mut self, content: Vec<ContentBlock>) -> Result<(), AddUserError> {
        if let Some(block) = content
            .iter()
            .find(|block| !matches!(block, ContentBlock::Text { .. } | ContentBlock::Image(_)))
        {
            return Err(AddUserError::NotUserContent { kind: block.kind() });
        }
        if content.is_empty() {
            return Err(AddUserError::Empty);
        }
        match (self.messages.last_mut(), self.request.messages.last_mut()) {
            // Text and images cannot break a rule that the message already satisfied.
            (Some(said), Some(sent)) if said.role() == Role::User => {
                if Arc::ptr_eq(said, sent) {
                    Arc::make_mut(said).content_mut().extend(content);
                    *sent = Arc::clone(said);
                } else {
                    Arc::make_mut(sent).content_mut().extend(content.clone());
                    Arc::make_mut(said).content_mut().extend(content);
                }
                Ok(())
            }
            _ => Ok(self.push(Message::new(Role::User, content))?),
        }
    }

    /// Commits an assistant message. Call ids that the transcript already holds are renamed first:
    /// some servers number their calls anew in every response.
    ///
    /// # Errors
    /// When the message breaks a rule; it is not added then.
    pub fn commit_assistant(
        &mut self,
        mut message: Message,
    ) -> Result<Arc<Message>, IntegrityError> {
        self.rename_known_ids(&mut message);
        let message = match &self.author {
            Some(author) => message.by(author),
            None => message,
        };
        self.push(message)?;
        Ok(Arc::clone(self.messages.last().expect("pushed in the line above")))
    }

    /// Commits the results of the last message's calls, in the order of the calls.
    ///
    /// # Errors
    /// When they do not answer exactly those calls; nothing is added then.
    pub fn commit_results(&mut self, results: Vec<ContentBlock>) -> Result<(), IntegrityError> {
        self.push(Message::new(Role::User, results))
    }

    fn push(&mut self, message: Message) -> Result<(), IntegrityError> {
        self.checker.push(&message)?;
        let message = Arc::new(message);
        self.messages.push(Arc::clone(&message));
        self.request.messages.push(message);
        Ok(())
    }

    fn rename_known_ids(&mut self, message: &mut Message) {
        let mut own = HashSet::new();
        let is_fresh = |id: &str, own: &mut HashSet<String>| {
            !self.checker.knows_call(id) && own.insert(id.to_owned())
        };
        if message.tool_calls().all(|call| is_fresh(call.id, &mut own)) {
            return;
        }
        own.clear();
        for block in message.content_mut() {
            let ContentBlock::ToolCall { id, .. } = block else { continue };
            if is_fresh(id, &mut own) {
                continue;
            }
            // The number goes on where it stopped, so that a thousandth repetition costs no more.
            let next = self.renamed.entry(id.clone()).or_insert(2);
            loop {
                let candidate = format!("{id}-{next}");
                *next += 1;
                if is_fresh(&candidate, &mut own) {
                    *id = candidate;
                    break;
                }
            }
        }
    }
}

/// Why the user's input was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddUserError {
    /// There is nothing to add.
    #[error("the prompt is empty")]
    Empty,
    /// Only text and images come from a user.
    #[error("a prompt consists of text and images, not of a {kind} block")]
    NotUserContent {
        /// The block's kind.
        kind: &'static str,
    },
    /// The transcript is not in a state that takes input.
    #[error(transparent)]
    Transcript(#[from] IntegrityError),
}

#[cfg(test)]
mod tests {
    use llm::Effort;
    use llm::testing::ScriptedProvider;
    use serde_json::json;

    use super::*;

    fn session() -> Session {
        Session::new(None, Vec::new())
    }

    fn calls(ids: &[&str]) -> Message {
        let block = |id: &&str| ContentBlock::ToolCall {
            id: (*id).to_owned(),
            name: "t".into(),
            arguments: json!({}),
            meta: None,
        };
        Message::new(Role::Assistant, ids.iter().map(block).collect())
    }

    fn ids(message: &Message) -> Vec<&str> {
        message.tool_calls().map(|call| call.id).collect()
    }

    #[test]
    fn input_after_an_unanswered_prompt_joins_it() {
        let mut session = session();
        session.add_user(vec![ContentBlock::text("one")]).unwrap();
        session.add_user(vec![ContentBlock::text("two")]).unwrap();
        assert_eq!(session.messages().len(), 1);
        assert_eq!(session.messages()[0].text(), "onetwo");
    }

    #[test]
    fn input_never_carries_results_or_calls() {
        let error =
            session().add_user(vec![ContentBlock::tool_result("a", "x", false)]).unwrap_err();
        assert_eq!(error, AddUserError::NotUserContent { kind: "tool_result" });
    }

    #[test]
    fn a_pending_call_keeps_the_request_from_being_sent() {
        let mut session = session();
        session.add_user(vec![ContentBlock::text("go")]).unwrap();
        session.commit_assistant(calls(&["a"])).unwrap();
        assert!(session.request().is_err());
        session.commit_results(vec![ContentBlock::tool_result("a", "ok", false)]).unwrap();
        assert_eq!(session.request().unwrap().messages.len(), 3);
    }

    #[test]
    fn a_repeated_call_id_is_renamed_for_call_and_result_alike() {
        let mut session = session();
        session.add_user(vec![ContentBlock::text("go")]).unwrap();
        session.commit_assistant(calls(&["f:0"])).unwrap();
        session.commit_results(vec![ContentBlock::tool_result("f:0", "ok", false)]).unwrap();
        let second = session.commit_assistant(calls(&["f:0", "f:0"])).unwrap();
        assert_eq!(ids(&second), ["f:0-2", "f:0-3"]);
    }

    #[test]
    fn input_is_refused_while_calls_wait_for_results() {
        let mut session = session();
        session.add_user(vec![ContentBlock::text("go")]).unwrap();
        session.commit_assistant(calls(&["a"])).unwrap();
        assert!(session.add_user(vec![ContentBlock::text("more")]).is_err());
        assert_eq!(session.messages().len(), 2);
    }

    #[test]
    fn a_request_carries_what_the_model_is_asked_for_and_a_key_that_stays() {
        let mut session = session();
        session.add_user(vec![ContentBlock::text("go")]).unwrap();
        session.set_cache_key(&"k".repeat(70));
        let id = "m".to_owned();
        let model =
            ModelRef { id, max_tokens: 7, effort: Some(Effort::Low), ..ModelRef::default() };
        session.set_model(&model, &ScriptedProvider::new(Vec::new()));
        let key = |session: &Session| session.request().unwrap().cache.clone().unwrap().key;
        assert_eq!(key(&session), "k".repeat(64));
        let request = session.request().unwrap();
        let told = (request.model.as_str(), request.max_tokens, request.effort);
        assert_eq!(told, ("m", 7, Some(Effort::Low)));
        let model = ModelRef { thinking_budget: Some(9), ..ModelRef::default() };
        session.set_model(&model, &ScriptedProvider::new(Vec::new()));
        let request = session.request().unwrap();
        assert_eq!((request.effort, request.thinking_budget), (None, Some(9)));
        assert_eq!(key(&session), "k".repeat(64));
    }

    #[test]
    fn clearing_forgets_ids_too() {
        let mut session = session();
        session.add_user(vec![ContentBlock::text("go")]).unwrap();
        session.commit_assistant(calls(&["a"])).unwrap();
        session.clear();
        session.add_user(vec![ContentBlock::text("go")]).unwrap();
        assert_eq!(ids(&session.commit_assistant(calls(&["a"])).unwrap()), ["a"]);
    }
}
