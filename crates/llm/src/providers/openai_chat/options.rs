//! What differs between the servers that speak Chat Completions.

use super::decode::DIALECT;
use crate::providers::pieces::CallIdRule;
use crate::providers::servers;
use crate::types::WireKey;

/// How reasoning goes back to the server that streamed it.
///
/// The original service hides its reasoning and so has nothing to take back. Servers that imitate it
/// differ: most ignore the field, some refuse a call without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReasoningReplay {
    /// Not at all.
    #[default]
    None,
    /// In the field it came in, on messages with calls: what a server streams it also takes. The
    /// choice for a compatible server of which nothing else is known.
    AsReceived,
    /// As `reasoning_content` on every message with calls, empty where there was none: servers that
    /// think between calls refuse the conversation otherwise.
    ReasoningContent,
    /// As `reasoning` on messages with calls.
    Reasoning,
    /// As `reasoning_details` on every assistant message that has them, unmodified: they are signed.
    ReasoningDetails,
}

/// What differs between servers that speak this dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChatOptions {
    /// Sends `max_tokens`, which most compatible servers want, instead of `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// How reasoning goes back.
    pub reasoning: ReasoningReplay,
    /// Which call ids the server accepts.
    pub call_ids: CallIdRule,
}

impl ChatOptions {
    /// What changes the bytes of a message; `legacy_max_tokens` stands in the head.
    pub(crate) fn key(self) -> WireKey {
        WireKey { dialect: DIALECT, options: self.reasoning as u64 | (self.call_ids as u64) << 8 }
    }

    /// What is known about the server at this address; the cautious choice for one that is not.
    ///
    /// Servers of this dialect accept the same fields under different names and refuse each other's,
    /// and a person who only sets a base URL should not have to know.
    pub fn for_base_url(base_url: &str) -> Self {
        servers::known(SERVERS, base_url).unwrap_or(Self::COMPATIBLE)
    }

    /// A compatible server of which nothing else is known.
    pub const COMPATIBLE: Self = Self {
        legacy_max_tokens: true,
        reasoning: ReasoningReplay::AsReceived,
        call_ids: CallIdRule::UpTo40,
    };

    /// The original service, which renamed the limit and hides its reasoning.
    const ORIGINAL: Self = Self {
        legacy_max_tokens: false,
        reasoning: ReasoningReplay::None,
        call_ids: CallIdRule::UpTo40,
    };

    /// Thinks between calls and refuses a call that comes back without its reasoning.
    const THINKING: Self =
        Self { reasoning: ReasoningReplay::ReasoningContent, ..Self::COMPATIBLE };
}

/// Servers whose requests differ from [`ChatOptions::COMPATIBLE`], by domain.
const SERVERS: &[(&str, ChatOptions)] = &[
    ("api.openai.com", ChatOptions::ORIGINAL),
    ("openai.azure.com", ChatOptions::ORIGINAL),
    ("api.deepseek.com", ChatOptions::THINKING),
    ("api.moonshot.ai", ChatOptions::THINKING),
    ("api.moonshot.cn", ChatOptions::THINKING),
    (
        "openrouter.ai",
        ChatOptions { reasoning: ReasoningReplay::ReasoningDetails, ..ChatOptions::COMPATIBLE },
    ),
    (
        "api.mistral.ai",
        ChatOptions {
            reasoning: ReasoningReplay::None,
            call_ids: CallIdRule::NineAlphanumeric,
            ..ChatOptions::COMPATIBLE
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base_url: &str, want: ChatOptions) {
        assert_eq!(ChatOptions::for_base_url(base_url), want, "{base_url}");
    }

    #[test]
    fn the_address_of_a_server_tells_what_it_accepts() {
        check("https://api.openai.com/v1", ChatOptions::ORIGINAL);
        check("https://me.openai.azure.com/openai/v1", ChatOptions::ORIGINAL);
        check("https://API.DeepSeek.com", ChatOptions::THINKING);
        assert_eq!(
            ChatOptions::for_base_url("https://openrouter.ai/api/v1").reasoning,
            ReasoningReplay::ReasoningDetails
        );
        assert_eq!(
            ChatOptions::for_base_url("https://api.mistral.ai/v1").call_ids,
            CallIdRule::NineAlphanumeric
        );
    }

    #[test]
    fn an_unknown_server_is_a_compatible_one() {
        check("http://localhost:11434/v1", ChatOptions::COMPATIBLE);
        check("http://127.0.0.1:8080/v1", ChatOptions::COMPATIBLE);
        check("https://notapi.openai.com.example/v1", ChatOptions::COMPATIBLE);
        check("https://evilapi.deepseek.com/", ChatOptions::COMPATIBLE);
        check("nonsense", ChatOptions::COMPATIBLE);
    }
}
