//! What kind of failure a server reports, read from its status, its codes and its words.
//!
//! Servers agree on little: the same refusal comes as a status, as a code, or only as a sentence.
//! The sentences below are those that servers were seen to send; a new one is a new row.

/// The kind of failure that a server's error answer stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The key is missing or not accepted.
    Auth,
    /// The key is good, but this account, place or origin is not served.
    Forbidden,
    /// The server does not have the model.
    ModelNotFound,
    /// There is nothing at this address.
    NotFound,
    /// Too many requests for now.
    RateLimit,
    /// One request alone is above a per-minute allowance: waiting does not help.
    RateTooSmall,
    /// The account has no money or no allowance left.
    Quota,
    /// The conversation is longer than the model's context window.
    ContextOverflow,
    /// The model wrote a call that its own server refuses.
    BadToolCall,
    /// The model or its server cannot use tools.
    ToolsUnsupported,
    /// The server refuses the request as it is.
    InvalidRequest,
    /// The server has trouble of its own, or is overloaded.
    Server,
    /// The server sends the client to another address.
    Redirect,
}

impl ErrorClass {
    /// Judges an answer by its status (if there was one), its codes and its message.
    ///
    /// `codes` are the answer's `type`, `code` and `status` fields, whichever it has.
    pub fn of(status: Option<u16>, codes: &[impl AsRef<str>], message: &str) -> Self {
        let codes: Vec<String> = codes.iter().map(|code| code.as_ref().to_lowercase()).collect();
        let text = message.to_lowercase();
        let status = status.or_else(|| codes.iter().find_map(|code| status_in(code)));
        let has = |list: &[&str]| codes.iter().any(|code| list.contains(&code.as_str()));
        let says = |list: &[&str]| list.iter().any(|part| text.contains(part));

        if has(QUOTA_CODES) || says(QUOTA_TEXTS) || status == Some(402) {
            return Self::Quota;
        }
        if is_per_minute(&text) {
            return if exceeds_allowance(&text) { Self::RateTooSmall } else { Self::RateLimit };
        }
        if has(RATE_CODES) || status == Some(429) {
            return Self::RateLimit;
        }
        if is_overflow(status, has(OVERFLOW_CODES), &codes, &text) {
            return Self::ContextOverflow;
        }
        if has(&["tool_use_failed"]) {
            return Self::BadToolCall;
        }
        if says(TOOLS_TEXTS) {
            return Self::ToolsUnsupported;
        }
        if has(FORBIDDEN_CODES) || says(&["country, region, or territory not supported"]) {
            return Self::Forbidden;
        }
        if has(AUTH_CODES) || says(AUTH_TEXTS) || matches!(status, Some(401 | 403)) {
            return Self::Auth;
        }
        if has(MODEL_CODES) || is_unknown_model(status, &text) {
            return Self::ModelNotFound;
        }
        Self::of_status(status, has(SERVER_CODES))
    }

    fn of_status(status: Option<u16>, server_code: bool) -> Self {
        match status {
            Some(404) => Self::NotFound,
            Some(300..=399) => Self::Redirect,
            Some(408 | 409 | 500..=599) => Self::Server,
            None if server_code => Self::Server,
            _ => Self::InvalidRequest,
        }
    }

    /// A short name that stays the same, for machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Forbidden => "forbidden",
            Self::ModelNotFound => "model_not_found",
            Self::NotFound => "not_found",
            Self::RateLimit => "rate_limit",
            Self::RateTooSmall => "rate_too_small",
            Self::Quota => "quota",
            Self::ContextOverflow => "context_overflow",
            Self::BadToolCall => "bad_tool_call",
            Self::ToolsUnsupported => "tools_unsupported",
            Self::InvalidRequest => "invalid_request",
            Self::Server => "server",
            Self::Redirect => "redirect",
        }
    }

    /// What a person can do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Auth => "check that the API key is set, complete and meant for this endpoint",
            Self::Forbidden => "the server does not serve this account or this place",
            Self::ModelNotFound => {
                "check the model's name; a local server may have to pull or load it first"
            }
            Self::NotFound => "check the base URL: there is no such API at this address",
            Self::RateLimit => "wait, or use another model or key",
            Self::RateTooSmall => {
                "this one request is above the account's tokens per minute: send less, or raise the limit"
            }
            Self::Quota => "check the plan and the balance of the account",
            Self::ContextOverflow => {
                "the conversation is too long for the model: shorten it, or use a model with a larger context window"
            }
            Self::BadToolCall => "the model wrote an unusable tool call: try again",
            Self::ToolsUnsupported => {
                "this model or its server cannot use tools: choose another model, or enable tools in the server"
            }
            Self::InvalidRequest => "the server refuses this request: its message says why",
            Self::Server => "the server has trouble: try again later",
            Self::Redirect => {
                "keys are not sent to other addresses: if the new one is trusted, make it the base URL"
            }
        }
    }
}

const QUOTA_CODES: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_balance",
    "insufficient_credits",
    "quota_exhausted",
];
// Google says "exceeded your current quota" about limits per minute too, so that sentence is no sign.
const QUOTA_TEXTS: &[&str] = &[
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "billing hard limit",
    "account is not active",
];
const RATE_CODES: &[&str] = &[
    "rate_limit_error",
    "rate_limit_exceeded",
    "ratelimitreached",
    "too_many_requests",
    "resource_exhausted",
];
const OVERFLOW_CODES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "too_many_prompt_tokens",
    "model_context_window_exceeded",
];
const OVERFLOW_TEXTS: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "exceed context limit",
    "exceeds the context window",
    "exceeds context window",
    "exceeds the maximum number of tokens",
    "maximum context length",
    "max context length",
    "available context size",
    "maximum prompt length is",
    "reduce the length of the messages",
    "reduce the length of the prompt",
    "maximum allowed input length",
    "longer than the maximum model length",
    "maximum model length",
    "tokens to keep from the initial prompt",
    "when context the overflows",
    "loaded with context length",
    "input is too long for requested model",
    "exceeded model token limit",
];
// Both halves must occur: each alone is said about other things too.
const OVERFLOW_PAIRS: &[(&str, &str)] = &[
    ("too large for model with", "maximum context length"),
    ("prompt token count of", "exceeds the limit of"),
    ("input token count", "exceeds the maximum"),
];
const TOOLS_TEXTS: &[&str] = &[
    "does not support tools",
    "does not support tool use",
    "does not support function calling",
    "no endpoints found that support tool use",
    "requires --jinja",
    "--enable-auto-tool-choice",
];
const FORBIDDEN_CODES: &[&str] = &["unsupported_country_region_territory"];
const AUTH_CODES: &[&str] = &[
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "invalid_authentication",
    "unauthorized",
    "unauthenticated",
    "permission_denied",
    "api_key_invalid",
];
const AUTH_TEXTS: &[&str] = &[
    "api key not valid",
    "incorrect api key",
    "invalid api key",
    "invalid x-api-key",
    "missing authentication",
];
const MODEL_CODES: &[&str] = &["model_not_found", "model_not_available", "invalid_model"];
/// Codes of trouble on the server's side, as they come inside a stream without a status.
const SERVER_CODES: &[&str] = &[
    // A reason to end an answer, or an error without any kind of its own: nothing blames the request.
    "error",
    "overloaded_error",
    "overloaded",
    "api_error",
    "server_error",
    "internal_server_error",
    "internal_error",
    "internal",
    "unavailable",
    "service_unavailable",
    "deadline_exceeded",
    "timeout",
    "timeout_error",
    "network_error",
    "engine_overloaded_error",
    "insufficient_system_resource",
    // A sample that came out wrong; the same request may well succeed.
    "malformed_function_call",
    "malformed_response",
    "unexpected_tool_call",
    "too_many_tool_calls",
];

fn status_in(code: &str) -> Option<u16> {
    code.parse().ok().filter(|number| (400..600).contains(number))
}

fn is_per_minute(text: &str) -> bool {
    text.contains("tokens per min") || text.contains("(tpm)")
}

/// Whether the message says that this request alone asks for more than the whole allowance.
fn exceeds_allowance(text: &str) -> bool {
    if text.contains("request too large") {
        return true;
    }
    match (number_after(text, "limit"), number_after(text, "requested")) {
        (Some(limit), Some(requested)) => requested > limit,
        _ => false,
    }
}

fn number_after(text: &str, word: &str) -> Option<u64> {
    text.match_indices(word).find_map(|(at, _)| {
        let rest = text[at + word.len()..].trim_start_matches([' ', ':']);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

fn is_overflow(status: Option<u16>, by_code: bool, codes: &[String], text: &str) -> bool {
    if by_code {
        return true;
    }
    // "max_tokens is too large … maximum context length" is about the answer, not the history.
    let about_the_answer = text.contains("max_tokens' or 'max_completion_tokens' is too large")
        || text.starts_with("max_tokens:")
        || text.starts_with("'max_tokens'");
    if about_the_answer {
        return false;
    }
    let said = OVERFLOW_TEXTS.iter().any(|part| text.contains(part))
        || OVERFLOW_PAIRS.iter().any(|(a, b)| text.contains(a) && text.contains(b));
    let too_large = status == Some(413)
        && (text.is_empty() || codes.iter().any(|code| code == "request_too_large"));
    // Some servers refuse a prompt that does not fit with nothing but the status.
    let silent = status == Some(400) && text.is_empty() && codes.is_empty();
    said || too_large || silent
}

fn is_unknown_model(status: Option<u16>, text: &str) -> bool {
    let absent = ["not found", "not exist", "unknown model", "no such model", "invalid model"]
        .iter()
        .any(|part| text.contains(part));
    match status {
        Some(404) => text.contains("model"),
        Some(400) | None => text.contains("model") && absent && !text.contains("previous response"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, codes: &[&str], message: &str, want: ErrorClass) {
        assert_eq!(ErrorClass::of(Some(status), codes, message), want, "{status} {message}");
    }

    #[test]
    fn every_known_overflow_sentence_is_recognised() {
        for sentence in [
            "prompt is too long: 3333404 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "Your input exceeds the context window of this model. Please adjust your input",
            "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
            "This model's maximum context length is 1048565 tokens. However, you requested 1250025",
            "This endpoint's maximum context length is 200000 tokens. However, you requested about 9",
            "prompt too long; exceeded max context length by 1119046 tokens",
            "request (2009 tokens) exceeds the available context size (512 tokens), try increasing",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens",
            "Please reduce the length of the messages or completion.",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "the number of tokens to keep from the initial prompt is greater than the context length",
            "prompt token count of 140000 exceeds the limit of 128000",
            "Input is too long for requested model.",
            "Your request exceeded model token limit: 262144 (requested: 300000)",
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192",
        ] {
            check(400, &["invalid_request_error"], sentence, ErrorClass::ContextOverflow);
        }
        check(400, &["too_many_prompt_tokens"], "no", ErrorClass::ContextOverflow);
        check(413, &["request_too_large"], "Request exceeds the size", ErrorClass::ContextOverflow);
        check(413, &[], "", ErrorClass::ContextOverflow);
        check(400, &[], "", ErrorClass::ContextOverflow);
    }

    #[test]
    fn a_message_about_answer_tokens_is_no_overflow() {
        let message = "max_tokens: 128000 > 64000, which is the maximum allowed number of output";
        check(400, &["invalid_request_error"], message, ErrorClass::InvalidRequest);
        let message = "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's \
                       maximum context length is 32768 tokens";
        check(400, &["BadRequestError"], message, ErrorClass::InvalidRequest);
    }

    #[test]
    fn a_limit_per_minute_is_a_wait_unless_the_request_alone_is_above_it() {
        let small = "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, \
                     Requested 1500. Please try again in 1.898s.";
        check(429, &["tokens", "rate_limit_exceeded"], small, ErrorClass::RateLimit);
        let large = "Request too large on tokens per minute (TPM): Limit 6000, Requested 9001";
        check(413, &["tokens", "rate_limit_exceeded"], large, ErrorClass::RateTooSmall);
        let large = "limit on tokens per min: Limit: 6000, Requested: 9001";
        check(429, &["tokens"], large, ErrorClass::RateTooSmall);
    }

    #[test]
    fn an_empty_account_is_not_a_rate_limit() {
        let message = "You exceeded your current quota, please check your plan";
        check(429, &["insufficient_quota"], message, ErrorClass::Quota);
        check(402, &[], "Insufficient Balance", ErrorClass::Quota);
        let message = "Your credit balance is too low to access the API";
        check(400, &["invalid_request_error"], message, ErrorClass::Quota);
        // Google's words for a limit per minute are the same, its code is not.
        let message = "You exceeded your current quota, please check your plan and billing";
        check(429, &["RESOURCE_EXHAUSTED"], message, ErrorClass::RateLimit);
    }

    #[test]
    fn a_stream_error_is_judged_by_its_code_alone() {
        let of = |code: &str| ErrorClass::of(None, &[code], "m");
        assert_eq!(of("overloaded_error"), ErrorClass::Server);
        assert_eq!(of("UNAVAILABLE"), ErrorClass::Server);
        assert_eq!(of("502"), ErrorClass::Server);
        assert_eq!(of("429"), ErrorClass::RateLimit);
        assert_eq!(of("invalid_request_error"), ErrorClass::InvalidRequest);
        assert_eq!(of("missing_thought_signature"), ErrorClass::InvalidRequest);
        assert_eq!(of("authentication_error"), ErrorClass::Auth);
    }

    #[test]
    fn a_missing_page_is_not_a_missing_model() {
        check(404, &[], "404 page not found", ErrorClass::NotFound);
        check(404, &["api_error"], "model \"x\" not found", ErrorClass::ModelNotFound);
    }
}
