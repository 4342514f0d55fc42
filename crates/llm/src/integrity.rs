//! The rules of a legal dialogue, checked message by message.
//!
//! A server that finds one of these broken refuses the whole conversation, so a session that broke
//! a rule once could never go on. Checking is incremental: a message already accepted is not walked
//! again.

use std::collections::HashSet;

use crate::types::{ContentBlock, Message, Role};

/// A broken rule, with the place where it broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntegrityError {
    /// There is nothing to answer.
    #[error("it has no messages")]
    Empty,
    /// The dialogue opens with the assistant.
    #[error("message 0 is from the assistant; the first message must be from the user")]
    FirstNotUser,
    /// Two messages in a row have the same role.
    #[error("message {message} has the same role as the one before it ({role:?})")]
    RolesDoNotAlternate {
        /// Index of the second one.
        message: usize,
        /// The repeated role.
        role: Role,
    },
    /// A block stands in a message of the wrong role.
    #[error(
        "message {message} ({role:?}) contains a {kind} block ('{id}'), which only the other role may send"
    )]
    WrongRole {
        /// Index of the message.
        message: usize,
        /// Its role.
        role: Role,
        /// The block's kind in the stored format.
        kind: &'static str,
        /// The call id of the block.
        id: String,
    },
    /// A call or a result has no id.
    #[error("message {message} contains a {kind} block with an empty id")]
    EmptyId {
        /// Index of the message.
        message: usize,
        /// The block's kind.
        kind: &'static str,
    },
    /// Two calls share an id.
    #[error("message {message} repeats the tool call id '{id}'")]
    DuplicateCall {
        /// Index of the second call's message.
        message: usize,
        /// The id.
        id: String,
    },
    /// One call has two results.
    #[error("message {message} answers the tool call '{id}' twice")]
    DuplicateResult {
        /// Index of the message.
        message: usize,
        /// The id.
        id: String,
    },
    /// A result answers no call of the message before it.
    #[error(
        "message {message} has a tool_result for '{id}', which the previous message did not call"
    )]
    OrphanResult {
        /// Index of the message.
        message: usize,
        /// The id.
        id: String,
    },
    /// A call was not answered in the next message.
    #[error("the tool call '{id}' of message {message} has no tool_result in the next message")]
    UnansweredCall {
        /// Index of the calling message.
        message: usize,
        /// The id.
        id: String,
    },
}

/// Whether the last assistant message may still wait for its results.
///
/// Which one holds is a fact of the execution state: `MayBePending` only between "the model asked"
/// and "the tools ran".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Every call is answered: the state before each request.
    Settled,
    /// The last message may hold unanswered calls.
    MayBePending,
}

/// Checks a growing transcript one message at a time.
#[derive(Debug, Clone, Default)]
pub struct TranscriptChecker {
    seen: HashSet<String>,
    pending: Vec<String>,
    last_role: Option<Role>,
    len: usize,
}

impl TranscriptChecker {
    /// Accepts the next message or names the rule it breaks; a refused message changes nothing.
    ///
    /// # Errors
    /// The first broken rule, in block order.
    pub fn push(&mut self, message: &Message) -> Result<(), IntegrityError> {
        let index = self.len;
        let role = message.role();
        match (self.last_role, role) {
            (None, Role::Assistant) => return Err(IntegrityError::FirstNotUser),
            (Some(last), role) if last == role => {
                return Err(IntegrityError::RolesDoNotAlternate { message: index, role });
            }
            _ => {}
        }
        let calls = match role {
            Role::Assistant => self.check_calls(index, message)?,
            Role::User => {
                self.check_results(index, message)?;
                Vec::new()
            }
        };
        self.seen.extend(calls.iter().cloned());
        self.pending = calls;
        self.last_role = Some(role);
        self.len += 1;
        Ok(())
    }

    /// Checks that the transcript may end here.
    ///
    /// # Errors
    /// `UnansweredCall` for the first call without a result, unless `tail` allows it.
    pub fn finish(&self, tail: Tail) -> Result<(), IntegrityError> {
        match (tail, self.pending.first()) {
            (Tail::Settled, Some(id)) => {
                Err(IntegrityError::UnansweredCall { message: self.len - 1, id: id.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Whether a call with this id was accepted before.
    pub fn knows_call(&self, id: &str) -> bool {
        self.seen.contains(id)
    }

    /// Calls of the last message that wait for results, in order.
    pub fn pending(&self) -> &[String] {
        &self.pending
    }

    fn check_calls(&self, index: usize, message: &Message) -> Result<Vec<String>, IntegrityError> {
        let mut calls: Vec<String> = Vec::new();
        let mut own: HashSet<&str> = HashSet::new();
        for block in message.content() {
            match block {
                ContentBlock::ToolCall { id, .. } => {
                    require_id(index, block.kind(), id)?;
                    if self.seen.contains(id) || !own.insert(id) {
                        return Err(IntegrityError::DuplicateCall {
                            message: index,
                            id: id.clone(),
                        });
                    }
                    calls.push(id.clone());
                }
                ContentBlock::ToolResult { call_id, .. } => {
                    return Err(wrong_role(index, Role::Assistant, block.kind(), call_id));
                }
                _ => {}
            }
        }
        Ok(calls)
    }

    fn check_results(&self, index: usize, message: &Message) -> Result<(), IntegrityError> {
        let pending: HashSet<&str> = self.pending.iter().map(String::as_str).collect();
        let mut answered: HashSet<&str> = HashSet::new();
        for block in message.content() {
            match block {
                ContentBlock::ToolResult { call_id, .. } => {
                    require_id(index, block.kind(), call_id)?;
                    if !pending.contains(call_id.as_str()) {
                        return Err(IntegrityError::OrphanResult {
                            message: index,
                            id: call_id.clone(),
                        });
                    }
                    if !answered.insert(call_id) {
                        return Err(IntegrityError::DuplicateResult {
                            message: index,
                            id: call_id.clone(),
                        });
                    }
                }
                ContentBlock::ToolCall { id, .. } => {
                    return Err(wrong_role(index, Role::User, block.kind(), id));
                }
                _ => {}
            }
        }
        match self.pending.iter().find(|id| !answered.contains(id.as_str())) {
            Some(id) => Err(IntegrityError::UnansweredCall { message: index - 1, id: id.clone() }),
            None => Ok(()),
        }
    }
}

fn require_id(message: usize, kind: &'static str, id: &str) -> Result<(), IntegrityError> {
    if id.is_empty() { Err(IntegrityError::EmptyId { message, kind }) } else { Ok(()) }
}

fn wrong_role(message: usize, role: Role, kind: &'static str, id: &str) -> IntegrityError {
    IntegrityError::WrongRole { message, role, kind, id: id.to_owned() }
}

/// Checks a whole transcript, from the first message on.
///
/// # Errors
/// The first broken rule.
pub fn validate_transcript<M: AsRef<Message>>(
    messages: &[M],
    tail: Tail,
) -> Result<(), IntegrityError> {
    let mut checker = TranscriptChecker::default();
    for message in messages {
        checker.push(message.as_ref())?;
    }
    checker.finish(tail)
}

impl AsRef<Message> for Message {
    fn as_ref(&self) -> &Message {
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One message in short: who speaks, which ids are called, which are answered.
    type Turn<'a> = (Role, &'a [&'a str], &'a [&'a str]);

    const U: Role = Role::User;
    const A: Role = Role::Assistant;

    fn message(turn: &Turn<'_>) -> Message {
        let (role, calls, results) = *turn;
        let calls = calls.iter().map(|id| ContentBlock::ToolCall {
            id: (*id).to_owned(),
            name: "t".to_owned(),
            arguments: json!({}),
            meta: None,
        });
        let results = results.iter().map(|id| ContentBlock::tool_result(*id, "ok", false));
        Message::new(role, calls.chain(results).chain([ContentBlock::text("x")]).collect())
    }

    fn validate(turns: &[Turn<'_>], tail: Tail) -> Result<(), IntegrityError> {
        let messages: Vec<Message> = turns.iter().map(message).collect();
        validate_transcript(&messages, tail)
    }

    #[track_caller]
    fn passes(turns: &[Turn<'_>]) {
        assert_eq!(validate(turns, Tail::Settled), Ok(()));
    }

    #[track_caller]
    fn fails(turns: &[Turn<'_>], want: IntegrityError) {
        assert_eq!(validate(turns, Tail::Settled), Err(want));
    }

    #[test]
    fn the_user_speaks_first() {
        passes(&[(U, &[], &[])]);
        fails(&[(A, &[], &[])], IntegrityError::FirstNotUser);
    }

    #[test]
    fn roles_alternate() {
        passes(&[(U, &[], &[]), (A, &[], &[]), (U, &[], &[])]);
        let again = |message, role| IntegrityError::RolesDoNotAlternate { message, role };
        fails(&[(U, &[], &[]), (U, &[], &[])], again(1, U));
        fails(&[(U, &[], &[]), (A, &[], &[]), (A, &[], &[])], again(2, A));
    }

    #[test]
    fn every_call_is_answered_in_the_next_message() {
        passes(&[(U, &[], &[]), (A, &["a", "b"], &[]), (U, &[], &["b", "a"])]);
        let unanswered = IntegrityError::UnansweredCall { message: 1, id: "b".into() };
        fails(&[(U, &[], &[]), (A, &["a", "b"], &[]), (U, &[], &["a"])], unanswered);
    }

    #[test]
    fn no_call_is_answered_twice() {
        let twice = IntegrityError::DuplicateResult { message: 2, id: "a".into() };
        fails(&[(U, &[], &[]), (A, &["a"], &[]), (U, &[], &["a", "a"])], twice);
    }

    #[test]
    fn a_result_answers_a_call_of_the_message_before_it() {
        let orphan = |message, id: &str| IntegrityError::OrphanResult { message, id: id.into() };
        fails(&[(U, &[], &["a"])], orphan(0, "a"));
        fails(&[(U, &[], &[]), (A, &["a"], &[]), (U, &[], &["a", "b"])], orphan(2, "b"));
        let late: &[Turn<'_>] =
            &[(U, &[], &[]), (A, &["a"], &[]), (U, &[], &["a"]), (A, &[], &[]), (U, &[], &["a"])];
        fails(late, orphan(4, "a"));
    }

    #[test]
    fn call_ids_are_unique_in_one_message_and_across_steps() {
        passes(&[(U, &[], &[]), (A, &["a"], &[]), (U, &[], &["a"]), (A, &[], &[])]);
        let twice = |message| IntegrityError::DuplicateCall { message, id: "a".into() };
        fails(&[(U, &[], &[]), (A, &["a", "a"], &[]), (U, &[], &["a"])], twice(1));
        let later: &[Turn<'_>] = &[
            (U, &[], &[]),
            (A, &["a"], &[]),
            (U, &[], &["a"]),
            (A, &["a"], &[]),
            (U, &[], &["a"]),
        ];
        fails(later, twice(3));
    }

    #[test]
    fn an_id_is_never_empty() {
        let empty = |message, kind| IntegrityError::EmptyId { message, kind };
        fails(&[(U, &[], &[]), (A, &[""], &[])], empty(1, "tool_call"));
        fails(&[(U, &[], &[]), (A, &["a"], &[]), (U, &[], &[""])], empty(2, "tool_result"));
    }

    #[test]
    fn a_block_in_the_wrong_role_fails_even_when_the_ids_match() {
        let wrong =
            |message, role, kind| IntegrityError::WrongRole { message, role, kind, id: "a".into() };
        fails(&[(U, &["a"], &[]), (A, &[], &["a"])], wrong(0, U, "tool_call"));
        fails(&[(U, &[], &[]), (A, &["a"], &["a"])], wrong(1, A, "tool_result"));
        fails(&[(U, &[], &[]), (A, &["b"], &[]), (U, &["a"], &["b"])], wrong(2, U, "tool_call"));
    }

    #[test]
    fn a_pending_tail_is_legal_only_while_the_tools_run() {
        let asked: &[Turn<'_>] = &[(U, &[], &[]), (A, &["a"], &[])];
        assert_eq!(validate(asked, Tail::MayBePending), Ok(()));
        fails(asked, IntegrityError::UnansweredCall { message: 1, id: "a".into() });
        passes(&[(U, &[], &[]), (A, &["a"], &[]), (U, &[], &["a"])]);
    }

    #[test]
    fn only_the_last_message_may_be_pending() {
        let skipped: &[Turn<'_>] = &[(U, &[], &[]), (A, &["a"], &[]), (U, &[], &[])];
        assert_eq!(
            validate(skipped, Tail::MayBePending),
            Err(IntegrityError::UnansweredCall { message: 1, id: "a".into() })
        );
    }

    #[test]
    fn a_refused_message_changes_nothing() {
        let mut checker = TranscriptChecker::default();
        checker.push(&message(&(U, &[], &[]))).unwrap();
        checker.push(&message(&(A, &["a"], &[]))).unwrap();
        assert!(checker.push(&message(&(U, &[], &["b"]))).is_err());
        assert!(checker.push(&message(&(A, &["c"], &[]))).is_err());
        assert_eq!(checker.pending(), ["a"]);
        assert!(checker.knows_call("a") && !checker.knows_call("c"));
        checker.push(&message(&(U, &[], &["a"]))).unwrap();
        assert_eq!(checker.finish(Tail::Settled), Ok(()));
    }

    #[test]
    fn an_error_names_the_message_the_kind_and_the_id() {
        let error = validate(&[(U, &["a"], &[])], Tail::Settled).unwrap_err();
        assert_eq!(
            error.to_string(),
            "message 0 (User) contains a tool_call block ('a'), which only the other role may send"
        );
    }
}
