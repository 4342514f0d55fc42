//! Whether a failed attempt is followed by another one, and when.

use std::time::Duration;

use crate::error::{Deadline, ErrorClass, GaveUp, LlmError};

/// How often and how long the same request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most attempts, the first one included; at least one is made.
    pub max_attempts: u32,
    /// The delay before the second attempt where the server asks for none; it doubles with each
    /// attempt. Jitter shortens it by up to a quarter.
    pub base: Duration,
    /// The longest such delay.
    pub cap: Duration,
    /// The time from the first attempt within which the last one must begin. It does not cut an
    /// attempt short: how long an answer may take is said by [`Deadlines`](crate::Deadlines).
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    /// 5 attempts within 300 s, 0.5 s apart at first and 8 s at most, as the vendors' own clients are.
    fn default() -> Self {
        Self {
            max_attempts: 5,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(8),
            deadline: Duration::from_secs(300),
        }
    }
}

/// A failed attempt and what came before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    /// Which attempt it was, from 1.
    pub(super) attempt: u32,
    /// The time since the first one began.
    pub(super) elapsed: Duration,
    /// Whether a part of the answer was handed on.
    pub(super) has_begun: bool,
    /// Whether an unusable call was sampled anew before.
    pub(super) has_resampled: bool,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Another attempt after this delay.
    Again(Duration),
    /// The error is the last word, for a reason that it does not tell itself where one is given.
    Final(Option<GaveUp>),
}

impl Failure {
    /// Judges the failure; `jitter` lies between 0 and 1.
    pub(super) fn judge(self, error: &LlmError, policy: &RetryPolicy, jitter: f64) -> Verdict {
        if self.has_begun {
            return Verdict::Final(Some(GaveUp::Begun));
        }
        let delay = if error.is_retryable() {
            self.delay(error, policy, jitter)
        } else if is_bad_sample(error) && !self.has_resampled {
            // The request was fine and no server is short of anything: nothing to wait for.
            Delay { time: Duration::ZERO, is_told: false }
        } else {
            return Verdict::Final(self.many_attempts());
        };
        if self.attempt >= policy.max_attempts {
            return Verdict::Final(self.many_attempts());
        }
        let left = policy.deadline.saturating_sub(self.elapsed);
        if delay.time > left || left.is_zero() {
            let Delay { time: wanted, is_told } = delay;
            return Verdict::Final(Some(GaveUp::Deadline { wanted, is_told, left }));
        }
        Verdict::Again(delay.time)
    }

    /// The server's own wish, or else a delay that doubles with each attempt. A server that wishes no
    /// delay at all is not hammered for that.
    fn delay(self, error: &LlmError, policy: &RetryPolicy, jitter: f64) -> Delay {
        if let Some(time) = error.retry_after().filter(|time| !time.is_zero()) {
            return Delay { time, is_told: true };
        }
        let doubled = 2_u32.saturating_pow(self.attempt.saturating_sub(1));
        let longest = policy.base.saturating_mul(doubled).min(policy.cap);
        let time = longest.mul_f64(1.0 - JITTER * jitter.clamp(0.0, 1.0));
        Delay { time, is_told: false }
    }

    fn many_attempts(self) -> Option<GaveUp> {
        (self.attempt > 1).then_some(GaveUp::Attempts(self.attempt))
    }
}

/// By which part jitter shortens a delay at most; what the vendors' own clients do.
const JITTER: f64 = 0.25;

struct Delay {
    time: Duration,
    is_told: bool,
}

/// Whether the model, not the request, made the server refuse.
fn is_bad_sample(error: &LlmError) -> bool {
    let is_refused = matches!(error, LlmError::Http { should_retry: Some(false), .. });
    error.class() == Some(ErrorClass::BadToolCall) && !is_refused
}

/// What went wrong, in a word or two.
pub(super) fn reason(error: &LlmError) -> String {
    let word = match error {
        LlmError::Deadline { deadline: Deadline::Connect, .. } => "no connection",
        LlmError::Deadline { .. } => "no answer in time",
        LlmError::Transport(error) if error.is_connect() => "no connection",
        LlmError::Transport(_) | LlmError::UnexpectedEof => "the connection broke",
        LlmError::Http { .. } | LlmError::Api { .. } => return answered(error),
        LlmError::Recording(_) => "a failure that was recorded",
        LlmError::Decode(_)
        | LlmError::Config(_)
        | LlmError::Transcript(_)
        | LlmError::GaveUp { .. } => error.kind(),
    };
    word.to_owned()
}

/// The same for a failure that the server reported.
fn answered(error: &LlmError) -> String {
    /// What one service answers when it has too much to do.
    const OVERLOADED: u16 = 529;
    let is_overload = match error {
        LlmError::Api { kind, .. } => kind.contains("overloaded"),
        _ => false,
    };
    match (error.class(), error.status()) {
        _ if is_overload => "overloaded".to_owned(),
        (Some(ErrorClass::RateLimit), _) => "rate limit".to_owned(),
        (Some(ErrorClass::BadToolCall), _) => "unusable tool call".to_owned(),
        (_, Some(OVERLOADED)) => "overloaded".to_owned(),
        (_, Some(status)) => format!("HTTP {status}"),
        (_, None) => "the server has trouble".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorAnswer;

    const FIRST: Failure =
        Failure { attempt: 1, elapsed: Duration::ZERO, has_begun: false, has_resampled: false };

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> LlmError {
        let body = body.as_bytes();
        ErrorAnswer { status, headers, body, now: Duration::ZERO, key: None }.into_error()
    }

    fn judge(failure: Failure, error: &LlmError) -> Verdict {
        failure.judge(error, &RetryPolicy::default(), 0.0)
    }

    fn millis(time: u64) -> Verdict {
        Verdict::Again(Duration::from_millis(time))
    }

    #[test]
    fn a_delay_doubles_up_to_its_cap_and_jitter_takes_up_to_a_quarter() {
        let busy = answer(529, &[], "busy");
        let of = |attempt, jitter| {
            let policy = RetryPolicy { max_attempts: 99, ..RetryPolicy::default() };
            Failure { attempt, ..FIRST }.judge(&busy, &policy, jitter)
        };
        for (attempt, delay) in [(1, 500), (2, 1_000), (3, 2_000), (5, 8_000), (98, 8_000)] {
            assert_eq!(of(attempt, 0.0), millis(delay), "{attempt}");
            assert_eq!(of(attempt, 1.0), millis(delay * 3 / 4), "{attempt}");
        }
    }

    #[test]
    fn the_servers_wish_comes_before_any_backoff_and_is_kept_to_the_millisecond() {
        let told = answer(429, &[("retry-after", "2")], "slow down");
        assert_eq!(FIRST.judge(&told, &RetryPolicy::default(), 1.0), millis(2_000));
        let precise = answer(429, &[("retry-after-ms", "1250"), ("retry-after", "2")], "");
        assert_eq!(judge(FIRST, &precise), millis(1_250));
        let none = answer(429, &[("retry-after", "0")], "slow down");
        assert_eq!(judge(FIRST, &none), millis(500));
    }

    #[test]
    fn a_wish_beyond_the_deadline_ends_it_with_both_times() {
        let wanted = Duration::from_secs(100);
        let told = answer(429, &[("retry-after", "100")], "slow down");
        let at = |elapsed| judge(Failure { elapsed: Duration::from_secs(elapsed), ..FIRST }, &told);
        assert_eq!(at(200), Verdict::Again(wanted));
        let left = Duration::from_secs(99);
        let why = GaveUp::Deadline { wanted, is_told: true, left };
        assert_eq!(at(201), Verdict::Final(Some(why)));
    }

    #[test]
    fn no_attempt_begins_after_the_deadline_whatever_its_delay() {
        let elapsed = RetryPolicy::default().deadline;
        let policy = RetryPolicy { base: Duration::ZERO, ..RetryPolicy::default() };
        let busy = answer(529, &[], "busy");
        let verdict = Failure { elapsed, ..FIRST }.judge(&busy, &policy, 0.0);
        assert!(matches!(verdict, Verdict::Final(Some(GaveUp::Deadline { .. }))), "{verdict:?}");
    }

    #[test]
    fn what_no_repetition_mends_is_final_at_once() {
        let per_minute =
            "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000";
        for (status, body) in [
            (401, r#"{"error":{"message":"bad key"}}"#.to_owned()),
            (429, r#"{"error":{"message":"m","code":"insufficient_quota"}}"#.to_owned()),
            (402, r#"{"error":{"message":"Insufficient Balance"}}"#.to_owned()),
            (413, format!(r#"{{"error":{{"message":"{per_minute}"}}}}"#)),
            (429, format!(r#"{{"error":{{"message":"{per_minute}"}}}}"#)),
            (400, r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#.to_owned()),
            (500, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#.to_owned()),
        ] {
            for headers in [&[][..], &[("x-should-retry", "true")]] {
                let is_told = !headers.is_empty() && status == 401;
                let error = answer(status, headers, &body);
                let want = if is_told { millis(500) } else { Verdict::Final(None) };
                assert_eq!(judge(FIRST, &error), want, "{error}");
            }
        }
    }

    #[test]
    fn the_server_says_itself_whether_to_come_back() {
        let no = answer(529, &[("x-should-retry", "false")], "busy");
        assert_eq!(judge(FIRST, &no), Verdict::Final(None));
        let yes = answer(400, &[("x-should-retry", "true")], "odd");
        assert_eq!(judge(FIRST, &yes), millis(500));
    }

    #[test]
    fn an_unusable_call_is_sampled_anew_once_and_without_delay() {
        let body =
            r#"{"error":{"message":"m","code":"tool_use_failed","failed_generation":"<f>"}}"#;
        let bad = answer(400, &[], body);
        assert_eq!(judge(FIRST, &bad), millis(0));
        let again = Failure { attempt: 2, has_resampled: true, ..FIRST };
        assert_eq!(judge(again, &bad), Verdict::Final(Some(GaveUp::Attempts(2))));
    }

    #[test]
    fn an_answer_that_began_is_never_asked_for_again() {
        let begun = Failure { has_begun: true, ..FIRST };
        assert_eq!(judge(begun, &LlmError::UnexpectedEof), Verdict::Final(Some(GaveUp::Begun)));
    }

    #[test]
    fn the_reason_is_short_enough_for_a_line() {
        let in_stream = |kind: &str| LlmError::Api {
            kind: kind.to_owned(),
            message: "m".to_owned(),
            status: None,
        };
        for (error, want) in [
            (answer(529, &[], "x"), "overloaded"),
            (in_stream("overloaded_error"), "overloaded"),
            (answer(429, &[], "x"), "rate limit"),
            (answer(503, &[], "x"), "HTTP 503"),
            (in_stream("api_error"), "the server has trouble"),
            (LlmError::UnexpectedEof, "the connection broke"),
        ] {
            assert_eq!(reason(&error), want);
        }
    }
}
