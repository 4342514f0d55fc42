//! What a provider remembers of the requests it sent last: their messages as they were written.
//!
//! A session sends the same messages with every step and a few more at the end. With the written ones
//! remembered, a step serialises what is new and copies the rest at once; whether a message is the same is
//! told by its address, so that the thousands before it are not touched.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::capability::Target;
use crate::types::{ChatRequest, Message};

/// How many requests are remembered: a session and those that its subagents have beside it.
const MOST: usize = 4;

/// The written messages of the last requests.
#[derive(Debug, Default)]
pub struct Joined(Mutex<Vec<Written>>);

/// The messages of one request, written one after the other.
#[derive(Debug)]
struct Written {
    dialect: &'static str,
    model: String,
    target: Target,
    /// Each message, and where it ends in `bytes`. Messages are not kept alive for this; as long as it
    /// is pointed to, no other one can have the same address.
    messages: Vec<(Weak<Message>, usize)>,
    /// Items of a list without its brackets.
    bytes: Vec<u8>,
}

impl Joined {
    /// The messages of `req` as the items of a list without its brackets, given to `with`.
    ///
    /// `write` is asked for the items of the message at a place in `req`, one or several or none, where that was
    /// not written before. It must depend on nothing but the dialect, the model, the target, and the messages
    /// up to that place.
    pub(super) fn items<T>(
        &self,
        (dialect, req, target): (&'static str, &ChatRequest, Target),
        write: impl Fn(usize) -> Vec<u8>,
        with: impl FnOnce(&[u8]) -> T,
    ) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A conversation that was cleared or compacted is never sent again.
        all.retain(|written| written.messages.first().is_some_and(|(first, _)| is_alive(first)));
        let same = |written: &Written| {
            let is_for_it =
                (written.dialect, &written.model, written.target) == (dialect, &req.model, target);
            if is_for_it { written.shared_with(&req.messages) } else { 0 }
        };
        let best = (0..all.len()).map(|at| (same(&all[at]), at)).max().filter(|(n, _)| *n > 0);
        let mut written = match best {
            Some((shared, at)) => {
                let mut written = all.remove(at);
                written.cut_to(shared);
                written
            }
            None => {
                let model = req.model.clone();
                Written { dialect, model, target, messages: Vec::new(), bytes: Vec::new() }
            }
        };
        for at in written.messages.len()..req.messages.len() {
            written.push(&req.messages[at], &write(at));
        }
        let made = with(&written.bytes);
        if all.len() == MOST {
            all.remove(0);
        }
        all.push(written);
        made
    }
}

fn is_alive(message: &Weak<Message>) -> bool {
    message.strong_count() > 0
}

impl Written {
    /// How many messages at the beginning are the same ones.
    fn shared_with(&self, messages: &[Arc<Message>]) -> usize {
        let pairs = self.messages.iter().zip(messages);
        pairs.take_while(|((known, _), message)| known.as_ptr() == Arc::as_ptr(message)).count()
    }

    fn cut_to(&mut self, count: usize) {
        self.messages.truncate(count);
        self.bytes.truncate(self.messages.last().map_or(0, |(_, end)| *end));
    }

    fn push(&mut self, message: &Arc<Message>, items: &[u8]) {
        if !self.bytes.is_empty() && !items.is_empty() {
            self.bytes.push(b',');
        }
        self.bytes.extend_from_slice(items);
        self.messages.push((Arc::downgrade(message), self.bytes.len()));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::capability::{Dialect, target};

    /// The list as it was given out, and the places that were written for it.
    fn list(joined: &Joined, model: &str, messages: &[Arc<Message>]) -> (String, Vec<usize>) {
        let req =
            ChatRequest { model: model.into(), messages: messages.to_vec(), ..Default::default() };
        let row = target(Dialect::OpenaiChat, None, "", model);
        let asked = RefCell::new(Vec::new());
        let write = |at: usize| {
            asked.borrow_mut().push(at);
            req.messages[at].text().into_bytes()
        };
        let text = joined
            .items(("d", &req, row), write, |items| String::from_utf8(items.to_vec()).unwrap());
        (text, asked.into_inner())
    }

    fn said(text: &str) -> Arc<Message> {
        Arc::new(Message::user_text(text))
    }

    #[test]
    fn only_what_is_new_is_written() {
        let joined = Joined::default();
        let [a, none, b, c] = ["a", "", "b", "c"].map(said);
        let mut messages = vec![Arc::clone(&a), none, b];
        assert_eq!(list(&joined, "m", &messages), ("a,b".into(), vec![0, 1, 2]));
        messages.push(c);
        assert_eq!(list(&joined, "m", &messages), ("a,b,c".into(), vec![3]));
        assert_eq!(list(&joined, "m", &messages[..1]), ("a".into(), vec![]));
        assert_eq!(list(&joined, "m", &[a, said("d")]), ("a,d".into(), vec![1]));
    }

    #[test]
    fn an_equal_message_that_is_another_one_and_another_model_are_written_anew() {
        let joined = Joined::default();
        let messages = [said("a")];
        assert_eq!(list(&joined, "m", &messages).1, [0]);
        assert_eq!(list(&joined, "m", &[said("a")]).1, [0]);
        assert_eq!(list(&joined, "n", &messages).1, [0]);
        assert!(list(&joined, "m", &messages).1.is_empty());
    }

    #[test]
    fn conversations_side_by_side_are_all_remembered_up_to_a_number_of_them() {
        let joined = Joined::default();
        let talks: Vec<_> = (0..=MOST).map(|number| [said(&number.to_string())]).collect();
        for talk in &talks[..MOST] {
            assert_eq!(list(&joined, "m", talk).1, [0]);
        }
        assert!(list(&joined, "m", &talks[0]).1.is_empty());
        assert_eq!(list(&joined, "m", &talks[MOST]).1, [0]);
        assert!(list(&joined, "m", &talks[0]).1.is_empty(), "it was not the oldest");
        assert_eq!(list(&joined, "m", &talks[1]).1, [0]);
    }

    #[test]
    fn what_nobody_holds_any_more_is_forgotten() {
        let joined = Joined::default();
        list(&joined, "m", &[said("gone")]);
        list(&joined, "m", &[said("here")]);
        assert_eq!(joined.0.lock().unwrap().len(), 1);
    }
}
