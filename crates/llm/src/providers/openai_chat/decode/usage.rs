//! Token counts of Chat Completions servers, normalised to uncached input; pure.

use serde::Deserialize;

use crate::providers::counts::uncached;
use crate::providers::loose::{Count, Object};
use crate::stream::Usage;

/// `usage`, with the names that different servers use for the same counts.
#[derive(Default, Deserialize)]
pub(super) struct Counts {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    #[serde(default)]
    prompt_tokens_details: Object<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Object<CompletionDetails>,
    /// DeepSeek.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
    /// Together, Kimi.
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    reasoning_tokens: Count,
}

#[derive(Default, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
    #[serde(default)]
    cache_creation_tokens: Count,
}

#[derive(Default, Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

impl Counts {
    /// The canonical counts, or `None` when the object told nothing.
    pub(super) fn usage(self) -> Option<Usage> {
        let details = self.prompt_tokens_details.0.unwrap_or_default();
        let prompt = self.prompt_tokens.0;
        let cache_read =
            details.cached_tokens.0.or(self.prompt_cache_hit_tokens.0).or(self.cached_tokens.0);
        let cache_write = details.cache_write_tokens.0.or(details.cache_creation_tokens.0);
        let reasoning = self.completion_tokens_details.0.unwrap_or_default().reasoning_tokens.0;
        let reasoning = reasoning.or(self.reasoning_tokens.0);
        let usage = Usage {
            input: prompt.map(|prompt| uncached(prompt, cache_read, cache_write)),
            output: output(prompt, self.completion_tokens.0, reasoning, self.total_tokens.0),
            cache_read,
            cache_write,
        };
        (usage != Usage::default()).then_some(usage)
    }
}

fn output(
    prompt: Option<u64>,
    completion: Option<u64>,
    reasoning: Option<u64>,
    total: Option<u64>,
) -> Option<u64> {
    let (Some(prompt), Some(completion), Some(reasoning), Some(total)) =
        (prompt, completion, reasoning, total)
    else {
        return completion;
    };
    // xAI counts reasoning apart from the completion; the total shows it.
    let with_reasoning = completion.saturating_add(reasoning);
    let apart = total == prompt.saturating_add(with_reasoning);
    Some(if apart { with_reasoning } else { completion })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, want: [Option<u64>; 4]) {
        let counts: Counts = serde_json::from_str(json).unwrap();
        let [input, output, cache_read, cache_write] = want;
        let want = Usage { input, output, cache_read, cache_write };
        assert_eq!(counts.usage().unwrap_or_default(), want, "{json}");
    }

    #[test]
    fn input_is_what_no_cache_served_whatever_the_cache_counter_is_called() {
        let want = [Some(40), Some(7), Some(60), None];
        let cached = [
            r#""prompt_tokens_details":{"cached_tokens":60}"#,
            r#""prompt_cache_hit_tokens":60,"prompt_cache_miss_tokens":40"#,
            r#""cached_tokens":60"#,
        ];
        for cached in cached {
            check(&format!(r#"{{"prompt_tokens":100,"completion_tokens":7,{cached}}}"#), want);
        }
        check(
            r#"{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30}}"#,
            [Some(10), None, Some(60), Some(30)],
        );
    }

    #[test]
    fn a_server_that_counts_cached_input_apart_keeps_its_prompt_count() {
        check(
            r#"{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":60}}"#,
            [Some(10), Some(1), Some(60), None],
        );
    }

    #[test]
    fn reasoning_counted_apart_is_added_to_the_output() {
        let details = r#""completion_tokens_details":{"reasoning_tokens":5}"#;
        check(
            &format!(r#"{{"prompt_tokens":10,"completion_tokens":2,"total_tokens":17,{details}}}"#),
            [Some(10), Some(7), None, None],
        );
        check(
            &format!(r#"{{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,{details}}}"#),
            [Some(10), Some(7), None, None],
        );
    }

    #[test]
    fn counts_that_tell_nothing_are_no_usage() {
        for json in ["{}", r#"{"prompt_tokens":null}"#, r#"{"cost":1.5,"total_tokens":3}"#] {
            let counts: Counts = serde_json::from_str(json).unwrap();
            assert_eq!(counts.usage(), None, "{json}");
        }
    }

    #[test]
    fn hostile_counts_do_not_overflow() {
        let max = u64::MAX;
        check(
            &format!(
                r#"{{"prompt_tokens":{max},"completion_tokens":{max},"total_tokens":{max},
                "reasoning_tokens":{max},"prompt_tokens_details":{{"cache_write_tokens":{max}}}}}"#
            ),
            [Some(0), Some(max), None, Some(max)],
        );
    }
}
