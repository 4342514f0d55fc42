//! Token counts of generateContent, normalised to uncached input; pure.

use serde::Deserialize;

use crate::providers::counts::uncached;
use crate::providers::loose::Count;
use crate::stream::Usage;

/// `usageMetadata`: running totals of which each chunk tells some.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Counts {
    prompt_token_count: Count,
    /// What server-side tools fed to the model; not part of the prompt count.
    tool_use_prompt_token_count: Count,
    /// Part of the prompt count.
    cached_content_token_count: Count,
    candidates_token_count: Count,
    /// Not part of the candidates' count.
    thoughts_token_count: Count,
}

impl Counts {
    /// Takes every count that `later` tells.
    pub(super) fn absorb(&mut self, later: Self) {
        let newer = |known: &mut Count, told: Count| known.0 = told.0.or(known.0);
        newer(&mut self.prompt_token_count, later.prompt_token_count);
        newer(&mut self.tool_use_prompt_token_count, later.tool_use_prompt_token_count);
        newer(&mut self.cached_content_token_count, later.cached_content_token_count);
        newer(&mut self.candidates_token_count, later.candidates_token_count);
        newer(&mut self.thoughts_token_count, later.thoughts_token_count);
    }

    /// The canonical counts.
    pub(super) fn usage(self) -> Usage {
        let cache_read = self.cached_content_token_count.0;
        let fed = self.tool_use_prompt_token_count.0.unwrap_or(0);
        let prompt = self.prompt_token_count.0.map(|prompt| prompt.saturating_add(fed));
        let output = match (self.candidates_token_count.0, self.thoughts_token_count.0) {
            (None, None) => None,
            (shown, thought) => Some(shown.unwrap_or(0).saturating_add(thought.unwrap_or(0))),
        };
        Usage {
            input: prompt.map(|prompt| uncached(prompt, cache_read, None)),
            output,
            cache_read,
            cache_write: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(chunks: &[&str], input: Option<u64>, output: Option<u64>, cache_read: Option<u64>) {
        let mut counts = Counts::default();
        for json in chunks {
            counts.absorb(serde_json::from_str(json).unwrap());
        }
        let want = Usage { input, output, cache_read, cache_write: None };
        assert_eq!(counts.usage(), want, "{chunks:?}");
    }

    #[test]
    fn cached_input_is_taken_off_and_thoughts_are_added() {
        check(
            &[r#"{"promptTokenCount":100,"candidatesTokenCount":7,"thoughtsTokenCount":30,
                  "cachedContentTokenCount":60,"totalTokenCount":137}"#],
            Some(40),
            Some(37),
            Some(60),
        );
        check(&[r#"{"promptTokenCount":9,"thoughtsTokenCount":5}"#], Some(9), Some(5), None);
    }

    #[test]
    fn what_server_side_tools_fed_counts_as_input() {
        let json = r#"{"promptTokenCount":70,"toolUsePromptTokenCount":390}"#;
        check(&[json], Some(460), None, None);
    }

    #[test]
    fn a_later_chunk_corrects_what_it_tells_and_keeps_what_it_does_not() {
        check(
            &[
                r#"{"promptTokenCount":46,"candidatesTokenCount":51,"thoughtsTokenCount":101}"#,
                r#"{"promptTokenCount":46,"totalTokenCount":46,"candidatesTokenCount":null}"#,
                r#"{"promptTokenCount":40,"candidatesTokenCount":60}"#,
            ],
            Some(40),
            Some(161),
            None,
        );
        check(&[r#"{"trafficType":"ON_DEMAND"}"#], None, None, None);
    }

    #[test]
    fn hostile_counts_do_not_overflow() {
        let max = u64::MAX;
        let json = format!(
            r#"{{"promptTokenCount":{max},"toolUsePromptTokenCount":{max},
                "candidatesTokenCount":{max},"thoughtsTokenCount":{max}}}"#
        );
        check(&[&json], Some(max), Some(max), None);
    }
}
