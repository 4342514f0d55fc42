//! How long a server asks to wait, from its headers, its body or its words.
//!
//! The order follows what servers were seen to mean: milliseconds when above zero (Azure sends
//! `retry-after-ms: 0` beside `retry-after: 1`), seconds or a date, Google's `RetryInfo`, the reset
//! times of rate limits, and last a hint in the sentence.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

/// Longer waits than this are all the same: nobody waits a year. Keeps sums far from overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Headers with lower-case names, in the order they came.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

/// A moment as the time since 1970.
pub type UnixTime = Duration;

/// The first header of this lower-case name.
pub fn header<'a>(headers: Headers<'a>, name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Finds the wait that an error answer asks for; `None` leaves it to the caller's own backoff.
///
/// `now` stands in for a missing `Date` header, against which times of day are measured: the local
/// clock may be wrong, the server's own is not.
pub fn retry_delay(
    status: u16,
    headers: Headers<'_>,
    json: Option<&Value>,
    message: &str,
    now: UnixTime,
) -> Option<Duration> {
    let header = |name| header(headers, name);
    let now = header("date").and_then(http_date).unwrap_or(now);
    let told = header("retry-after-ms")
        .and_then(|text| seconds(text, 1e-3))
        .filter(|wait| !wait.is_zero())
        .or_else(|| header("retry-after").and_then(|text| seconds_or_date(text, now)))
        .or_else(|| json.and_then(retry_info))
        .map(|wait| wait.min(LONGEST));
    if told.is_some() || !(status == 429 || status >= 500) {
        return told;
    }
    // Reset times come with every answer of some servers; they mean a wait only for a rate limit.
    let reset = (status == 429).then(|| rate_limit_reset(headers, now)).flatten();
    reset.or_else(|| hint_in(message)).map(|wait| wait.min(LONGEST))
}

fn seconds_or_date(text: &str, now: UnixTime) -> Option<Duration> {
    seconds(text, 1.0).or_else(|| http_date(text).map(|date| until(date, now)))
}

fn http_date(text: &str) -> Option<UnixTime> {
    httpdate::parse_http_date(text.trim()).ok()?.duration_since(UNIX_EPOCH).ok()
}

/// The wait until a moment; none at all when it has passed.
fn until(moment: UnixTime, now: UnixTime) -> Duration {
    moment.saturating_sub(now).min(LONGEST)
}

/// Digits with an optional fraction, and nothing else: `0x10` and `1e3` are no waits.
fn seconds(text: &str, unit: f64) -> Option<Duration> {
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    Some(Duration::try_from_secs_f64(value * unit).unwrap_or(Duration::MAX))
}

/// Google's `error.details[]` entry of type `RetryInfo`.
fn retry_info(json: &Value) -> Option<Duration> {
    let details = json.pointer("/error/details")?.as_array()?;
    details.iter().find_map(|entry| {
        let kind = entry.get("@type")?.as_str()?;
        kind.ends_with("RetryInfo").then(|| span(entry.get("retryDelay")?.as_str()?)).flatten()
    })
}

/// The longest reset time among the limits that are used up; of all, when none says it is.
///
/// Every limit has its own pair of headers, named `…ratelimit-remaining-tokens` and
/// `…ratelimit-reset-tokens`, or `…ratelimit-tokens-remaining` and `…ratelimit-tokens-reset`.
fn rate_limit_reset(headers: Headers<'_>, now: UnixTime) -> Option<Duration> {
    let resets = headers.iter().filter_map(|(name, value)| {
        if !(name.contains("ratelimit") && name.contains("reset")) {
            return None;
        }
        let used_up = header(headers, &name.replace("reset", "remaining")) == Some("0");
        Some((
            used_up,
            span(value)
                .map(|wait| since_epoch(wait, now))
                .or_else(|| rfc3339(value).map(|moment| until(moment, now)))?,
        ))
    });
    resets.max().map(|(_, wait)| wait)
}

/// Some servers give the moment of the reset as seconds or milliseconds since 1970; no wait is that
/// long.
fn since_epoch(told: Duration, now: UnixTime) -> Duration {
    const YEAR_2001: u64 = 1_000_000_000;
    match told.as_secs() {
        0..YEAR_2001 => told.min(LONGEST),
        seconds @ YEAR_2001..1_000_000_000_000 => until(Duration::from_secs(seconds), now),
        milliseconds => until(Duration::from_millis(milliseconds), now),
    }
}

/// A wait named in a sentence: "try again in 1.898s", "retry in 48.9s", "retry after 26 seconds".
fn hint_in(message: &str) -> Option<Duration> {
    let text = message.to_lowercase();
    ["try again in ", "retry in ", "retry after ", "wait "].iter().find_map(|lead| {
        text.match_indices(lead).find_map(|(at, _)| leading_span(&text[at + lead.len()..]))
    })
}

/// A whole text that is one span: `12ms`, `6m0s`, `1h2m3.5s`, or plain seconds.
fn span(text: &str) -> Option<Duration> {
    let text = text.trim();
    seconds(text, 1.0).or_else(|| {
        let (wait, rest) = read_span(text)?;
        rest.is_empty().then_some(wait)
    })
}

/// The span that a text begins with; a number without a unit is no wait here.
fn leading_span(text: &str) -> Option<Duration> {
    read_span(text).map(|(wait, _)| wait)
}

/// Reads number–unit pairs until something else comes.
fn read_span(text: &str) -> Option<(Duration, &str)> {
    let mut total = None;
    let mut rest = text;
    while let Some((wait, after)) = read_pair(rest) {
        total = Some(total.unwrap_or(Duration::ZERO).saturating_add(wait));
        rest = after;
    }
    total.map(|wait| (wait, rest))
}

fn read_pair(text: &str) -> Option<(Duration, &str)> {
    let number_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let after = text[number_end..].trim_start_matches(' ');
    let unit_end = after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len());
    let unit = match &after[..unit_end] {
        "ms" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Some((seconds(&text[..number_end], unit)?, &after[unit_end..]))
}

/// `2026-10-21T07:28:30Z`, with a fraction or an offset if there is one.
fn rfc3339(text: &str) -> Option<UnixTime> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let separators = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    if separators.iter().any(|(at, mark)| text.get(*at..at + 1) != Some(*mark)) {
        return None;
    }
    let days = days_since_1970(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let time = number(11, 13)? * 3_600 + number(14, 16)? * 60 + number(17, 19)?;
    let zone = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            let zone_at = text.len() - zone.len();
            if zone.len() != 6 || text.get(zone_at + 3..zone_at + 4) != Some(":") {
                return None;
            }
            let (hours, minutes) =
                (number(zone_at + 1, zone_at + 3)?, number(zone_at + 4, zone_at + 6)?);
            sign * (hours * 3_600 + minutes * 60)
        }
    };
    let since = days * 86_400 + time - offset;
    Some(Duration::from_secs(u64::try_from(since).ok()?))
}

/// Days of the proleptic Gregorian calendar, counted in years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "Wed, 21 Oct 2026 07:28:00 GMT";

    fn delay(status: u16, headers: &[(&str, &str)], message: &str) -> Option<Duration> {
        retry_delay(status, headers, None, message, http_date(NOW).unwrap())
    }

    #[test]
    fn an_offset_of_any_other_length_is_no_time() {
        for (zone, want) in [
            ("Z", Some(1_792_567_710)),
            ("+02:00", Some(1_792_567_710 - 7_200)),
            ("-00:30", Some(1_792_567_710 + 1_800)),
            ("+9999999999999999:00", None),
            ("+2:00", None),
            ("+02:0é", None),
            ("", None),
        ] {
            let got = rfc3339(&format!("2026-10-21T07:28:30{zone}"));
            assert_eq!(got.map(|time| time.as_secs()), want, "{zone}");
        }
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], want_ms: Option<u64>) {
        assert_eq!(delay(429, headers, ""), want_ms.map(Duration::from_millis), "{headers:?}");
    }

    #[test]
    fn seconds_may_have_a_fraction_and_nothing_else() {
        check(&[("retry-after", "2")], Some(2_000));
        check(&[("retry-after", " 1.5 ")], Some(1_500));
        for wrong in ["", "0x10", "1e3", "-1", "+1", "1.", ".5", "inf", "NaN", "1,5", "soon"] {
            check(&[("retry-after", wrong)], None);
        }
        check(&[("retry-after", "99999999999999999999999")], Some(LONGEST.as_millis() as u64));
    }

    #[test]
    fn a_date_is_measured_against_the_servers_own_clock() {
        let later = ("retry-after", "Wed, 21 Oct 2026 09:00:30 GMT");
        check(&[("date", "Wed, 21 Oct 2026 09:00:00 GMT"), later], Some(30_000));
        check(&[("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], Some(30_000));
        check(&[("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT")], Some(0));
        check(&[("retry-after", "Wednesday, 21-Oct-26 07:28:10 GMT")], Some(10_000));
    }

    #[test]
    fn zero_milliseconds_give_way_to_the_seconds_beside_them() {
        check(&[("retry-after-ms", "0"), ("retry-after", "1")], Some(1_000));
        check(&[("retry-after-ms", "250"), ("retry-after", "1")], Some(250));
        check(&[("retry-after-ms", "0")], None);
    }

    #[test]
    fn googles_retry_info_is_read_from_the_body() {
        let body = json!({"error": {"details": [
            {"@type": "type.googleapis.com/google.rpc.Help"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48.5s"},
        ]}});
        let got = retry_delay(429, &[], Some(&body), "retry in 9s", Duration::ZERO);
        assert_eq!(got, Some(Duration::from_millis(48_500)));
    }

    #[test]
    fn the_limit_that_is_used_up_says_how_long() {
        check(&[("x-ratelimit-reset-requests", "12ms")], Some(12));
        check(&[("x-ratelimit-reset-tokens", "6m0s")], Some(360_000));
        check(&[("x-ratelimit-reset-tokens", "1h2m3.5s")], Some(3_723_500));
        check(&[("x-ratelimit-reset-tokens", "7")], Some(7_000));
        let epoch = http_date(NOW).unwrap().as_secs() + 30;
        check(&[("x-ratelimit-reset", &epoch.to_string())], Some(30_000));
        check(&[("x-ratelimit-reset", &format!("{epoch}250"))], Some(30_250));
        let both = [
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "2s"),
            ("x-ratelimit-remaining-tokens", "500"),
            ("x-ratelimit-reset-tokens", "1h"),
        ];
        check(&both, Some(2_000));
        let wait = delay(500, &both, "");
        assert_eq!(wait, None, "a failing server is no rate limit");
    }

    #[test]
    fn a_reset_may_be_a_time_of_day() {
        let at = |text| check(&[("vendor-ratelimit-tokens-reset", text)], Some(30_000));
        at("2026-10-21T07:28:30Z");
        at("2026-10-21T07:28:30.250Z");
        at("2026-10-21T09:28:30+02:00");
        for wrong in ["2026-10-21", "2026-10-21 07:28", "2026/10/21T07:28:30Z", "é026-10-21T07:28"]
        {
            check(&[("vendor-ratelimit-tokens-reset", wrong)], None);
        }
    }

    #[test]
    fn a_sentence_is_the_last_resort() {
        let hint = |text| delay(429, &[], text).map(|wait| wait.as_millis());
        assert_eq!(hint("Please try again in 1.898s. Visit"), Some(1_898));
        assert_eq!(hint("Please retry in 48.939935699s."), Some(48_939));
        assert_eq!(hint("Please try again in 6m0s."), Some(360_000));
        assert_eq!(hint("Please retry after 26 seconds."), Some(26_000));
        assert_eq!(hint("wait a while, then try again in 20ms"), Some(20));
        assert_eq!(hint("Please retry shortly"), None);
        assert_eq!(hint("retry in 5 apples"), None);
        assert_eq!(delay(400, &[], "try again in 2s"), None, "the request itself is wrong");
    }

    #[test]
    fn days_are_counted_across_leap_years() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(2000, 2, 29), 11_016);
        assert_eq!(days_since_1970(2026, 10, 21), 20_747);
    }
}
