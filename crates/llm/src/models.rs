//! What is known about a model by its name: limits, abilities and prices, each price with its day; pure.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stream::Usage;

mod table;

/// How many tokens a model takes and gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most tokens of a request and its answer together.
    pub context: u64,
    /// Most tokens of one answer.
    pub max_output: u32,
}

impl Limits {
    /// For a model of which nothing is known: small enough for almost any.
    pub const CAUTIOUS: Self = Self { context: 32_000, max_output: 4_096 };
}

/// One model of the built-in table. What no list tells is `None`.
#[derive(Debug)]
pub struct ModelRow {
    /// The vendor, by the name of its built-in provider or preset.
    pub provider: &'static str,
    /// The id that requests carry.
    pub id: &'static str,
    /// Most tokens of a request and its answer together.
    pub context: Option<u64>,
    /// Most tokens of one answer.
    pub max_output: Option<u32>,
    /// Whether it looks at pictures.
    pub images: Option<bool>,
    /// What it costs.
    pub price: Price,
}

impl ModelRow {
    /// The limits to work with: what is told, and for the rest [`Limits::CAUTIOUS`].
    pub fn limits(&self) -> Limits {
        Limits {
            context: self.context.unwrap_or(Limits::CAUTIOUS.context),
            max_output: self.max_output.unwrap_or(Limits::CAUTIOUS.max_output),
        }
    }
}

/// What a model costs, in US dollars for a million tokens of each kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// Input that no cache had.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from a cache; absent = not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Input written to a cache; absent = not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// What a long request costs instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<Above>,
    /// The day on which the price was true, `YYYY-MM-DD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Cow<'static, str>>,
}

/// The price of a whole request with more input than `input_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Above {
    /// Input tokens, cached ones included, up to which the usual price holds.
    pub input_tokens: u64,
    /// As in [`Price`].
    pub input: f64,
    /// As in [`Price`].
    pub output: f64,
    /// As in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// As in [`Price`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Price {
    /// What one request cost, in US dollars; `None` where a count or the price of tokens that were
    /// used is not known. `usage` is that of a single request: a sum of several says nothing about
    /// which of them were long.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        let (input, output) = (usage.input?, usage.output?);
        // A server that keeps no count of cached tokens has them all in `input`.
        let read = usage.cache_read.unwrap_or(0);
        let write = usage.cache_write.unwrap_or(0);
        let all = input.saturating_add(read).saturating_add(write);
        let rates = match &self.above {
            Some(above) if all > above.input_tokens => {
                [Some(above.input), Some(above.output), above.cache_read, above.cache_write]
            }
            _ => [Some(self.input), Some(self.output), self.cache_read, self.cache_write],
        };
        let parts = [input, output, read, write].into_iter().zip(rates);
        let dollars = parts.map(|(tokens, rate)| match tokens {
            0 => Some(0.0),
            tokens => rate.map(|rate| tokens as f64 * rate / 1e6),
        });
        dollars.sum()
    }
}

/// The built-in row of the model `id` of a vendor, also under an id that ends in the day of a snapshot.
pub fn builtin(provider: &str, id: &str) -> Option<&'static ModelRow> {
    let of_vendor = || table::TABLE.iter().filter(|row| row.provider == provider);
    of_vendor()
        .find(|row| row.id == id)
        .or_else(|| of_vendor().find(|row| id.strip_prefix(row.id).is_some_and(is_snapshot)))
}

/// All built-in rows, the vendors one after the other, each with its newest models first.
pub fn all() -> &'static [ModelRow] {
    table::TABLE
}

/// Short names that are there without any configuration: the name, the provider, the id.
pub const ALIASES: &[(&str, &str, &str)] = &[
    ("opus", "anthropic", "claude-opus-5-5"),
    ("sonnet", "anthropic", "claude-sonnet-5"),
    ("haiku", "anthropic", "claude-haiku-4-5"),
    ("gpt", "openai", "gpt-5.5"),
    ("gpt-mini", "openai", "gpt-5.4-mini"),
    ("gemini-pro", "gemini", "gemini-3.1-pro-preview"),
    ("gemini-flash", "gemini", "gemini-3.5-flash"),
];

/// Whether a rest of an id is a day: `-20251001` or `-2025-10-01`.
fn is_snapshot(rest: &str) -> bool {
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    let dashes = rest.bytes().filter(|byte| *byte == b'-').count();
    rest.starts_with('-') && digits == 8 && digits + dashes == rest.len() && matches!(dashes, 1 | 3)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn usage(input: u64, output: u64, cache_read: Option<u64>, cache_write: Option<u64>) -> Usage {
        Usage { input: Some(input), output: Some(output), cache_read, cache_write }
    }

    fn cost(id: (&str, &str), usage: Usage) -> Option<f64> {
        let dollars = builtin(id.0, id.1).unwrap().price.cost(&usage)?;
        Some((dollars * 1e6).round() / 1e6)
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let sonnet = ("anthropic", "claude-sonnet-5");
        let one_each = usage(1_000_000, 1_000_000, Some(1_000_000), Some(1_000_000));
        assert_eq!(cost(sonnet, one_each), Some(2.0 + 10.0 + 0.2 + 2.5));
        assert_eq!(cost(sonnet, usage(1_000, 100, None, None)), Some(0.003));
        assert_eq!(cost(sonnet, usage(0, 0, Some(0), Some(0))), Some(0.0));
    }

    #[test]
    fn a_long_request_costs_more_as_a_whole() {
        let gpt = ("openai", "gpt-5.5");
        assert_eq!(cost(gpt, usage(272_000, 0, Some(0), None)), Some(1.36));
        assert_eq!(cost(gpt, usage(272_000, 0, Some(1), None)), Some(2.720001));
    }

    #[test]
    fn what_is_not_known_makes_no_number() {
        let sonnet = &builtin("anthropic", "claude-sonnet-5").unwrap().price;
        assert_eq!(sonnet.cost(&Usage { input: Some(1), ..Usage::default() }), None);
        assert_eq!(sonnet.cost(&Usage::default()), None);
        // No list says what a cache write costs here.
        assert_eq!(cost(("openai", "gpt-5.4-mini"), usage(1, 1, Some(1), Some(1))), None);
        assert!(cost(("openai", "gpt-5.4-mini"), usage(1, 1, Some(1), Some(0))).is_some());
    }

    #[test]
    fn a_snapshot_is_its_model_and_a_longer_name_is_another_one() {
        let found = |provider, id| builtin(provider, id).map(|row| row.id);
        assert_eq!(found("anthropic", "claude-haiku-4-5-20251001"), Some("claude-haiku-4-5"));
        assert_eq!(found("openai", "gpt-4o-2024-11-20"), Some("gpt-4o"));
        assert_eq!(found("openai", "gpt-5.4-mini"), Some("gpt-5.4-mini"));
        assert_eq!(found("openai", "gpt-5.5-chat-latest"), None);
        assert_eq!(found("anthropic", "gpt-5.5"), None);
        assert_eq!(found("anthropic", "claude-haiku-4-5-2025"), None);
    }

    #[test]
    fn no_row_comes_twice_and_every_price_has_its_day() {
        let mut seen = HashSet::new();
        for row in all() {
            assert!(seen.insert((row.provider, row.id)), "{} twice", row.id);
            let day = row.price.as_of.as_deref().unwrap_or_default();
            assert!(is_snapshot(&format!("-{day}")), "{}: {day}", row.id);
            assert!(row.price.input <= row.price.output, "{}", row.id);
            let cached = row.price.cache_read.unwrap_or(0.0);
            assert!(cached <= row.price.input, "{}", row.id);
            let limits = row.limits();
            assert!(u64::from(limits.max_output) <= limits.context, "{}", row.id);
        }
    }

    #[test]
    fn every_alias_leads_to_a_row() {
        for (alias, provider, id) in ALIASES {
            assert!(builtin(provider, id).is_some(), "{alias}");
        }
    }

    #[test]
    fn a_price_is_written_as_in_a_configuration_file() {
        let written = r#"{"input":2.0,"output":10.0,"cache_read":0.2,"as_of":"2026-11-30"}"#;
        let price: Price = serde_json::from_str(written).unwrap();
        assert_eq!(serde_json::to_string(&price).unwrap(), written);
        assert_eq!(price.cache_write, None);
    }
}
