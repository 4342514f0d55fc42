//! Why a failed attempt was the last one.

use std::fmt;
use std::time::Duration;

/// Why no further attempt was made, where the failure itself does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    /// A part of the answer had been handed on, which a new one would contradict.
    Begun,
    /// So many attempts failed, and no more are allowed.
    Attempts(u32),
    /// The next attempt would come after the time in which attempts may begin.
    Deadline {
        /// The delay before it.
        wanted: Duration,
        /// Whether the server asked for that delay.
        is_told: bool,
        /// What was left of the time.
        left: Duration,
    },
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Begun => f.write_str("the answer broke off after a part of it had arrived"),
            Self::Attempts(count) => write!(f, "no answer after {count} attempts"),
            Self::Deadline { wanted, is_told: true, left } => write!(
                f,
                "the server asks to wait {}, and only {} are left for new attempts",
                seconds(wanted),
                seconds(left)
            ),
            Self::Deadline { wanted, is_told: false, left } => write!(
                f,
                "the next attempt would come in {}, and only {} are left for new attempts",
                seconds(wanted),
                seconds(left)
            ),
        }
    }
}

/// A time in seconds, with a tenth where it is short.
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        10.. => format!("{:.0} s", time.as_secs_f64()),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_too_long_is_told_with_the_time_that_was_left() {
        let why = |is_told| GaveUp::Deadline {
            wanted: Duration::from_secs(86_400),
            is_told,
            left: Duration::from_millis(2_500),
        };
        assert_eq!(
            why(true).to_string(),
            "the server asks to wait 86400 s, and only 2.5 s are left for new attempts"
        );
        assert_eq!(
            why(false).to_string(),
            "the next attempt would come in 86400 s, and only 2.5 s are left for new attempts"
        );
    }
}
