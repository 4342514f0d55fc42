//! What reaches the model while a turn runs: lines of the person, and news of what works beside it.
//!
//! A [`Steering`] is asked at the two places where nothing is cut in two: with the results of a batch of
//! calls, and when the model would end the turn. Asking changes nothing; what is about to be delivered is
//! claimed first, and what was delivered is known by its id from the session's records, so that nothing is
//! delivered twice, a restart in between included.

pub mod notice;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use notice::{Notice, Source};

/// Most lines of a person that wait at a time.
const MAX_WAITING: usize = 50;

/// Where notices come from.
pub trait Steering: Send + Sync {
    /// What waits, oldest first; to ask changes nothing. It may name what was delivered already.
    fn pending(&self) -> Vec<Notice>;

    /// The same, on its way to the model from now on: it cannot be taken back any more.
    fn claim(&self) -> Vec<Notice> {
        self.pending()
    }
}

/// No notices, ever.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unsteered;

impl Steering for Unsteered {
    fn pending(&self) -> Vec<Notice> {
        Vec::new()
    }
}

/// The lines a person enters while a turn runs.
#[derive(Debug, Default)]
pub struct Queue {
    lines: Mutex<Vec<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    notice: Notice,
    /// It is on its way to the model.
    is_claimed: bool,
}

impl Queue {
    /// Adds a line. Returns whether there was room for it.
    pub fn push(&self, text: impl Into<String>) -> bool {
        let mut lines = self.lines();
        if lines.len() >= MAX_WAITING {
            return false;
        }
        let id = uuid::Uuid::new_v4().to_string();
        let notice = Notice { id, source: Source::User, text: text.into() };
        lines.push(Waiting { notice, is_claimed: false });
        true
    }

    /// Takes the last line back, unless it is on its way to the model.
    pub fn take_back(&self) -> Option<String> {
        let last = self.lines().pop_if(|last| !last.is_claimed)?;
        Some(last.notice.text)
    }

    /// The lines that wait, oldest first.
    pub fn waiting(&self) -> Vec<String> {
        self.lines().iter().map(|line| line.notice.text.clone()).collect()
    }

    /// Forgets what was delivered.
    pub fn forget(&self, ids: &[String]) {
        self.lines().retain(|line| !ids.contains(&line.notice.id));
    }

    /// Empties the queue of a turn that is over, but for what `was_delivered`: what the model did not read.
    pub fn left_over(&self, was_delivered: impl Fn(&str) -> bool) -> Vec<String> {
        let left = std::mem::take(&mut *self.lines());
        let missed = left.into_iter().filter(|line| !was_delivered(&line.notice.id));
        missed.map(|line| line.notice.text).collect()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steering for Queue {
    fn pending(&self) -> Vec<Notice> {
        self.lines().iter().map(|line| line.notice.clone()).collect()
    }

    fn claim(&self) -> Vec<Notice> {
        let mut lines = self.lines();
        lines.iter_mut().for_each(|line| line.is_claimed = true);
        lines.iter().map(|line| line.notice.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_takes_nothing_and_the_last_line_can_be_taken_back_until_it_is_claimed() {
        let queue = Queue::default();
        assert!(queue.push("one") && queue.push("two") && queue.push("three"));
        let asked = queue.pending();
        assert_eq!(asked, queue.pending());
        assert_eq!(queue.take_back().as_deref(), Some("three"));
        let first = queue.claim();
        assert_eq!(first, asked[..2]);
        assert_eq!(queue.take_back(), None);
        queue.forget(&[first[0].id.clone()]);
        assert_eq!(queue.waiting(), ["two"]);
        assert_eq!(queue.left_over(|_| false), ["two"]);
        assert_eq!(queue.left_over(|_| false), Vec::<String>::new());
    }

    #[test]
    fn a_full_queue_takes_no_more() {
        let queue = Queue::default();
        assert!((0..MAX_WAITING).all(|n| queue.push(n.to_string())));
        assert!(!queue.push("more"));
        assert_eq!(queue.waiting().len(), MAX_WAITING);
    }
}
