//! The models people use now, with limits and prices of a date; pure.
//!
//! Facts only: each vendor's published limits and prices, as two public lists had them on the dates
//! below (models.dev for limits, genai-prices for the newest prices). A value that no list tells is
//! `None`. A model that is not here works all the same, with cautious limits and without a price.

use super::{Above, ModelRow, Price};
use std::borrow::Cow;

/// The day of the newest price list.
const NOV: &str = "2026-11-30";

/// The day of the list that also tells limits; prices that only it has.
const JUL: &str = "2026-07-02";

/// Provider, id, context, longest answer, day of the price, then USD per million tokens:
/// [input, output], [cache read, cache write].
#[rustfmt::skip]
pub(super) static TABLE: &[ModelRow] = &[
    row("anthropic", "claude-opus-5-5", Some(1_000_000), None, NOV, [4.0, 20.0], [Some(0.2), Some(5.0)]),
    row("anthropic", "claude-opus-5", Some(1_000_000), None, NOV, [5.0, 25.0], [Some(0.5), Some(6.25)]),
    row("anthropic", "claude-opus-4-8", Some(1_000_000), Some(128_000), NOV, [5.0, 25.0], [Some(0.5), Some(6.25)]),
    row("anthropic", "claude-opus-4-7", Some(1_000_000), Some(128_000), NOV, [5.0, 25.0], [Some(0.5), Some(6.25)]),
    row("anthropic", "claude-opus-4-6", Some(1_000_000), Some(128_000), NOV, [5.0, 25.0], [Some(0.5), Some(6.25)]),
    row("anthropic", "claude-opus-4-5", Some(200_000), Some(64_000), NOV, [5.0, 25.0], [Some(0.5), Some(6.25)]),
    row("anthropic", "claude-opus-4-1", Some(200_000), Some(32_000), NOV, [15.0, 75.0], [Some(1.5), Some(18.75)]),
    row("anthropic", "claude-sonnet-5-5", Some(1_000_000), None, NOV, [2.0, 10.0], [Some(0.1), Some(2.5)]),
    row("anthropic", "claude-sonnet-5", Some(1_000_000), Some(128_000), NOV, [2.0, 10.0], [Some(0.2), Some(2.5)]),
    row("anthropic", "claude-sonnet-4-6", Some(1_000_000), Some(64_000), NOV, [3.0, 15.0], [Some(0.3), Some(3.75)]),
    row("anthropic", "claude-sonnet-4-5", Some(200_000), Some(64_000), NOV, [3.0, 15.0], [Some(0.3), Some(3.75)]).above(200_000, [6.0, 22.5], [Some(0.6), Some(7.5)]),
    row("anthropic", "claude-haiku-5-5", Some(1_000_000), None, NOV, [0.1, 0.5], [Some(0.01), Some(0.125)]).above(100_000, [0.5, 2.5], [Some(0.05), Some(0.625)]),
    row("anthropic", "claude-haiku-4-5", Some(200_000), Some(64_000), NOV, [1.0, 5.0], [Some(0.1), Some(1.25)]),
    row("anthropic", "claude-fable-5-2", Some(1_000_000), None, NOV, [8.0, 40.0], [Some(0.2), Some(10.0)]),
    row("anthropic", "claude-fable-5", Some(1_000_000), Some(128_000), NOV, [10.0, 50.0], [Some(1.0), Some(12.5)]),
    row("anthropic", "claude-mythos-5-2", Some(1_000_000), None, NOV, [8.0, 40.0], [Some(0.2), Some(10.0)]),
    row("openai", "gpt-5.6-sol", Some(1_050_000), None, NOV, [4.0, 20.0], [Some(0.4), Some(5.0)]).above(272_000, [8.0, 30.0], [Some(0.8), Some(10.0)]),
    row("openai", "gpt-5.6-terra", Some(1_050_000), None, NOV, [2.0, 12.0], [Some(0.2), Some(2.5)]).above(272_000, [4.0, 18.0], [Some(0.4), Some(5.0)]),
    row("openai", "gpt-5.6-luna", Some(1_050_000), None, NOV, [0.2, 1.2], [Some(0.02), Some(0.25)]).above(272_000, [0.4, 1.8], [Some(0.04), Some(0.5)]),
    row("openai", "gpt-5.5", Some(1_050_000), Some(128_000), NOV, [5.0, 30.0], [Some(0.5), None]).above(272_000, [10.0, 45.0], [Some(1.0), None]),
    row("openai", "gpt-5.5-pro", Some(1_050_000), Some(128_000), NOV, [30.0, 180.0], [None, None]).above(272_000, [60.0, 270.0], [None, None]),
    row("openai", "gpt-5.4", Some(1_050_000), Some(128_000), NOV, [2.5, 15.0], [Some(0.25), None]).above(272_000, [5.0, 22.5], [Some(0.5), None]),
    row("openai", "gpt-5.4-mini", Some(400_000), Some(128_000), NOV, [0.75, 4.5], [Some(0.075), None]),
    row("openai", "gpt-5.4-nano", Some(400_000), Some(128_000), NOV, [0.2, 1.25], [Some(0.02), None]),
    row("openai", "gpt-5.3-codex", Some(400_000), Some(128_000), NOV, [1.75, 14.0], [Some(0.175), None]),
    row("openai", "gpt-5.2", Some(400_000), Some(128_000), NOV, [1.75, 14.0], [Some(0.175), None]),
    row("openai", "gpt-5.2-codex", Some(400_000), Some(128_000), JUL, [1.75, 14.0], [Some(0.175), None]),
    row("openai", "gpt-5.1", Some(400_000), Some(128_000), NOV, [1.25, 10.0], [Some(0.125), None]),
    row("openai", "gpt-5.1-codex-max", Some(400_000), Some(128_000), JUL, [1.25, 10.0], [Some(0.125), None]),
    row("openai", "gpt-5", Some(400_000), Some(128_000), NOV, [1.25, 10.0], [Some(0.125), None]),
    row("openai", "gpt-5-mini", Some(400_000), Some(128_000), NOV, [0.25, 2.0], [Some(0.025), None]),
    row("openai", "gpt-5-nano", Some(400_000), Some(128_000), NOV, [0.05, 0.4], [Some(0.005), None]),
    row("openai", "gpt-4.1", Some(1_047_576), Some(32_768), JUL, [2.0, 8.0], [Some(0.5), None]),
    row("openai", "gpt-4.1-mini", Some(1_047_576), Some(32_768), JUL, [0.4, 1.6], [Some(0.1), None]),
    row("openai", "gpt-4o", Some(128_000), Some(16_384), JUL, [2.5, 10.0], [Some(1.25), None]),
    row("openai", "gpt-4o-mini", Some(128_000), Some(16_384), JUL, [0.15, 0.6], [Some(0.075), None]),
    row("openai", "o3", Some(200_000), Some(100_000), NOV, [2.0, 8.0], [Some(0.5), None]),
    row("openai", "o4-mini", Some(200_000), Some(100_000), NOV, [1.1, 4.4], [Some(0.275), None]),
    row("gemini", "gemini-3.1-pro-preview", Some(1_048_576), Some(65_536), NOV, [2.0, 12.0], [Some(0.2), None]).above(200_000, [4.0, 18.0], [Some(0.4), None]),
    row("gemini", "gemini-3-pro-preview", Some(1_048_576), Some(65_536), NOV, [2.0, 12.0], [Some(0.2), None]).above(200_000, [4.0, 18.0], [Some(0.4), None]),
    row("gemini", "gemini-3.8-flash", None, None, NOV, [1.5, 7.5], [Some(0.15), None]),
    row("gemini", "gemini-3.7-flash", Some(1_000_000), None, NOV, [1.5, 7.5], [Some(0.15), None]),
    row("gemini", "gemini-3.6-flash", Some(1_000_000), None, NOV, [1.5, 7.5], [Some(0.15), None]),
    row("gemini", "gemini-3.5-flash", Some(1_048_576), Some(65_536), NOV, [1.5, 9.0], [Some(0.15), None]),
    row("gemini", "gemini-3.5-flash-lite", Some(1_000_000), None, NOV, [0.3, 2.5], [Some(0.03), None]),
    row("gemini", "gemini-3.1-flash-lite", Some(1_048_576), Some(65_536), NOV, [0.25, 1.5], [Some(0.025), None]),
    row("gemini", "gemini-3-flash-preview", Some(1_048_576), Some(65_536), NOV, [0.5, 3.0], [Some(0.05), None]),
    row("gemini", "gemini-2.5-pro", Some(1_048_576), Some(65_536), NOV, [1.25, 10.0], [Some(0.125), None]).above(200_000, [2.5, 15.0], [Some(0.25), None]),
    row("gemini", "gemini-2.5-flash", Some(1_048_576), Some(65_536), NOV, [0.3, 2.5], [Some(0.03), None]),
    row("gemini", "gemini-2.5-flash-lite", Some(1_048_576), Some(65_536), NOV, [0.1, 0.4], [Some(0.01), None]),
    row("deepseek", "deepseek-v4-pro", Some(1_000_000), Some(384_000), NOV, [1.32, 3.96], [Some(0.044), None]).text_only(),
    row("deepseek", "deepseek-v4-flash", Some(1_000_000), Some(384_000), NOV, [0.3, 1.2], [Some(0.006), None]).text_only(),
    row("xai", "grok-4.7", Some(500_000), None, NOV, [2.0, 6.0], [Some(0.5), None]).above(199_999, [4.0, 12.0], [Some(1.0), None]).images_untold(),
    row("xai", "grok-4.6", Some(500_000), None, NOV, [2.0, 6.0], [Some(0.5), None]).above(199_999, [4.0, 12.0], [Some(1.0), None]).images_untold(),
    row("xai", "grok-4.5", Some(500_000), None, NOV, [2.0, 6.0], [Some(0.3), None]).above(199_999, [4.0, 12.0], [Some(0.6), None]).images_untold(),
    row("xai", "grok-4.3", Some(1_000_000), Some(30_000), NOV, [1.25, 2.5], [Some(0.2), None]).above(199_999, [2.5, 5.0], [Some(0.4), None]),
    row("xai", "grok-code-fast-1", Some(256_000), None, NOV, [0.2, 1.5], [Some(0.02), None]).text_only(),
    row("moonshot", "kimi-k3", Some(1_048_576), None, NOV, [3.0, 15.0], [Some(0.3), Some(3.0)]).images_untold(),
    row("moonshot", "kimi-k3.1-pro", Some(1_048_576), None, NOV, [2.0, 10.0], [Some(0.2), Some(2.0)]).images_untold(),
    row("moonshot", "kimi-k2.7-code", Some(262_144), Some(262_144), NOV, [0.95, 4.0], [Some(0.19), None]),
    row("moonshot", "kimi-k2.6", Some(262_144), Some(262_144), NOV, [0.95, 4.0], [Some(0.16), None]),
    row("moonshot", "kimi-k2.5", Some(262_144), Some(262_144), NOV, [0.6, 3.0], [Some(0.1), None]),
    row("moonshot", "kimi-k2-thinking", Some(262_144), Some(262_144), NOV, [0.6, 2.5], [Some(0.15), None]).text_only(),
    row("zai", "glm-5.2", Some(1_000_000), Some(131_072), JUL, [1.4, 4.4], [Some(0.26), Some(0.0)]).text_only(),
    row("zai", "glm-5.1", Some(200_000), Some(131_072), JUL, [1.4, 4.4], [Some(0.26), Some(0.0)]).text_only(),
    row("zai", "glm-5", Some(204_800), Some(131_072), JUL, [1.0, 3.2], [Some(0.2), Some(0.0)]).text_only(),
    row("zai", "glm-4.7", Some(204_800), Some(131_072), JUL, [0.6, 2.2], [Some(0.11), Some(0.0)]).text_only(),
    row("zai", "glm-4.6", Some(204_800), Some(131_072), JUL, [0.6, 2.2], [Some(0.11), Some(0.0)]).text_only(),
    row("mistral", "mistral-large-4", Some(1_048_576), None, NOV, [0.7, 2.1], [Some(0.07), None]).images_untold(),
    row("mistral", "mistral-large-2512", Some(262_144), Some(262_144), NOV, [0.5, 1.5], [Some(0.05), None]),
    row("mistral", "mistral-medium-latest", Some(262_144), Some(262_144), NOV, [1.5, 7.5], [Some(0.15), None]),
    row("mistral", "mistral-small-2603", Some(262_144), Some(256_000), NOV, [0.15, 0.6], [Some(0.015), None]),
    row("mistral", "devstral-2512", Some(262_144), Some(262_144), NOV, [0.4, 2.0], [Some(0.04), None]).text_only(),
    row("mistral", "codestral-2508", Some(256_000), None, NOV, [0.3, 0.9], [Some(0.03), None]).text_only(),
    row("groq", "openai/gpt-oss-120b", Some(131_072), Some(65_536), NOV, [0.15, 0.6], [Some(0.075), None]).text_only(),
    row("groq", "openai/gpt-oss-20b", Some(131_072), Some(65_536), NOV, [0.075, 0.3], [Some(0.0375), None]).text_only(),
    row("groq", "qwen/qwen3-32b", Some(131_072), Some(40_960), NOV, [0.29, 0.59], [None, None]).text_only(),
    row("dashscope", "qwen3.7-max", Some(1_000_000), Some(65_536), JUL, [2.5, 7.5], [Some(0.5), Some(3.125)]).text_only(),
    row("dashscope", "qwen3.7-plus", Some(1_000_000), Some(65_536), JUL, [0.5, 3.0], [Some(0.05), Some(0.625)]).above(256_000, [2.0, 6.0], [Some(0.2), Some(2.5)]),
    row("dashscope", "qwen3-coder-plus", Some(1_048_576), Some(65_536), JUL, [1.0, 5.0], [None, None]).text_only(),
    row("dashscope", "qwen3-coder-flash", Some(1_000_000), Some(65_536), JUL, [0.3, 1.5], [None, None]).text_only(),
];

const fn row(
    provider: &'static str,
    id: &'static str,
    context: Option<u64>,
    max_output: Option<u32>,
    as_of: &'static str,
    [input, output]: [f64; 2],
    [cache_read, cache_write]: [Option<f64>; 2],
) -> ModelRow {
    let as_of = Some(Cow::Borrowed(as_of));
    let price = Price { input, output, cache_read, cache_write, above: None, as_of };
    ModelRow { provider, id, context, max_output, images: Some(true), price }
}

impl ModelRow {
    const fn above(
        mut self,
        input_tokens: u64,
        [input, output]: [f64; 2],
        [cache_read, cache_write]: [Option<f64>; 2],
    ) -> Self {
        self.price.above = Some(Above { input_tokens, input, output, cache_read, cache_write });
        self
    }

    const fn text_only(mut self) -> Self {
        self.images = Some(false);
        self
    }

    const fn images_untold(mut self) -> Self {
        self.images = None;
        self
    }
}
