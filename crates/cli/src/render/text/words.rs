//! What is said about a turn and its calls, without how it looks.

use std::time::Duration;

use agent::{TurnOutcome, TurnSummary};
use llm::{Phase, Usage};

/// Where a request stands, `elapsed` after that began.
pub(super) fn phase(phase: &Phase, elapsed: Duration) -> String {
    match phase {
        Phase::Connecting => "connecting".to_owned(),
        Phase::Waiting => "waiting for the model".to_owned(),
        Phase::Streaming => "streaming".to_owned(),
        Phase::Retrying { attempt, of, delay, reason } => {
            let left = delay.saturating_sub(elapsed);
            // Rounded up: a wait that is told must not turn out longer.
            let left = left.as_secs() + u64::from(left.subsec_nanos() > 0);
            format!("retry {attempt}/{of} in {}: {reason}", seconds(left))
        }
    }
}

/// A time in words short enough for a line.
pub(super) fn seconds(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Why a turn did not end the ordinary way, and how to go on.
pub(super) fn why(summary: &TurnSummary) -> Option<String> {
    if let (TurnOutcome::Refused, Some(error)) = (summary.outcome, &summary.error) {
        return Some(format!("the model refused: {}", error.message));
    }
    if let Some(error) = &summary.error {
        return Some(format!("error: {}", error.message));
    }
    let text = match summary.outcome {
        TurnOutcome::Done => return None,
        TurnOutcome::Failed => "the turn failed".to_owned(),
        TurnOutcome::MaxSteps => format!(
            "stopped after {} {}, the most allowed: raise it with --max-steps",
            summary.steps,
            if summary.steps == 1 { "step" } else { "steps" }
        ),
        TurnOutcome::MaxTokens => {
            "the answer was cut off by the token limit; calls in it were not run".to_owned()
        }
        TurnOutcome::Refused => "the model refused".to_owned(),
        TurnOutcome::ProtocolStopped => {
            "the server ended the answer in a way that cannot be trusted".to_owned()
        }
        TurnOutcome::VerificationFailed => "the result was not verified".to_owned(),
        TurnOutcome::BudgetExceeded => {
            "stopped: the time limit is over (see --max-wall-time)".to_owned()
        }
        TurnOutcome::Cancelled => "cancelled".to_owned(),
    };
    Some(text)
}

/// What a turn took: tokens, money where the price is known, requests, time.
pub(super) fn usage(summary: &TurnSummary) -> String {
    let TurnSummary { usage, steps, duration_ms, .. } = summary;
    let count = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), thousands);
    let rate = hit_rate(&usage.counts).map_or_else(|| "n/a".to_owned(), |rate| format!("{rate} %"));
    let cached = match usage.counts.cache_read {
        Some(tokens) => format!(" (+{} cached, {rate})", thousands(tokens)),
        // Not told is not zero.
        None => format!(" (cached: {rate})"),
    };
    // What no server told is left out rather than shown as a question.
    let tokens = match (usage.counts.input, usage.counts.output) {
        (None, None) => String::new(),
        (input, output) => format!("{} tokens in{cached}, {} out · ", count(input), count(output)),
    };
    let cost = summary.cost_usd.map(|cost| format!("{} · ", dollars(cost))).unwrap_or_default();
    let steps = if *steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
    format!("{tokens}{cost}{steps} · {}.{} s", duration_ms / 1000, duration_ms % 1000 / 100)
}

/// What is told about old results that gave way.
pub(super) fn cleared(results: usize, before: u64, after: u64) -> String {
    let (before, after) = (thousands(before), thousands(after));
    format!("{results} old results cleared from the context: about {before} → {after} tokens")
}

/// What is told about a dialogue that became a summary.
pub(super) fn compacted(before: u64, after: u64, is_summary: bool) -> String {
    let (before, after) = (thousands(before), thousands(after));
    let what = if is_summary { "summarised" } else { "cut down without a summary" };
    format!("the conversation was {what}: about {before} → {after} tokens")
}

/// An amount in US dollars; of a small one more places, since most requests cost less than a cent.
fn dollars(amount: f64) -> String {
    let places = if amount < 1.0 { 4 } else { 2 };
    format!("${amount:.places$}")
}

/// How much of what was sent came out of a cache, in percent, rounded down: what was not all cached is
/// not shown as if it were. Unknown without the count of what was not.
fn hit_rate(counts: &Usage) -> Option<u64> {
    let read = counts.cache_read?;
    read.saturating_mul(100).checked_div(counts.sent()?)
}

fn thousands(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{}.{}k", number / 1000, number % 1000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}
