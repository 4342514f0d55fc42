//! What the status line says while nothing else is shown, and for how long that has been so.

use std::time::{Duration, Instant};

use llm::Phase;

use super::words;

/// What is being waited for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Wait {
    /// The model, whose request stands there.
    Model(Phase),
    /// What these words say.
    Other(String),
}

/// The line, whether or not it is up.
pub(super) struct Status {
    /// When the step or the call began that is waited for.
    since: Instant,
    /// What is waited for, and when that began; nothing while the line is down.
    up: Option<(Wait, Instant)>,
}

impl Status {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), up: None }
    }

    /// A step or a call begins.
    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
    }

    pub(super) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Takes the line down; true if it was up.
    pub(super) fn take_down(&mut self) -> bool {
        self.up.take().is_some()
    }

    /// Puts the line up.
    pub(super) fn put_up(&mut self, wait: Wait) {
        match &self.up {
            Some((known, _)) if *known == wait => {}
            _ => self.up = Some((wait, Instant::now())),
        }
    }

    /// The line as it is now; none while it is down.
    pub(super) fn line(&self) -> Option<String> {
        let (wait, began) = self.up.as_ref()?;
        Some(line(wait, self.since.elapsed(), began.elapsed()))
    }
}

/// The line `in_all` after the step or the call began and `in_this` after this wait did.
fn line(wait: &Wait, in_all: Duration, in_this: Duration) -> String {
    let text = match wait {
        // It counts down already.
        Wait::Model(phase @ Phase::Retrying { .. }) => return words::phase(phase, in_this),
        Wait::Model(phase @ (Phase::Connecting | Phase::Waiting | Phase::Streaming)) => {
            words::phase(phase, in_this)
        }
        Wait::Other(text) => text.clone(),
    };
    match in_all.as_secs() {
        0 => text,
        seconds => format!("{text} · {}", words::seconds(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_with_its_time_from_the_first_second_on() {
        let wait = Wait::Model(Phase::Waiting);
        let at = |millis| line(&wait, Duration::from_millis(millis), Duration::ZERO);
        assert_eq!(at(999), "waiting for the model");
        assert_eq!(at(1_000), "waiting for the model · 1 s");
        assert_eq!(at(605_000), "waiting for the model · 10 min 5 s");
    }

    #[test]
    fn the_delay_before_an_attempt_counts_down() {
        let wait = Wait::Model(Phase::Retrying {
            attempt: 2,
            of: 5,
            delay: Duration::from_secs(12),
            reason: "overloaded".into(),
        });
        let at = |millis| line(&wait, Duration::from_secs(99), Duration::from_millis(millis));
        assert_eq!(at(0), "retry 2/5 in 12 s: overloaded");
        assert_eq!(at(2_500), "retry 2/5 in 10 s: overloaded");
        assert_eq!(at(60_000), "retry 2/5 in 0 s: overloaded");
    }
}
