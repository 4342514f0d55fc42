//! What is known of servers, one row each; pure.
//!
//! A row begins as the cautious one of its dialect and tells what differs. Servers that are reached
//! under one address in several dialects have a row for each.

use super::Effort::{High, Low, Max, Medium, Minimal, None as Off, Xhigh};
use super::{
    CacheHintKind, CallIdRule, Dialect, Efforts, KeyHeader, MaxTokensField, ReasoningReplay,
    ResultImages, Signatures, SystemRole, Target, TargetOverrides, ThinkingStyle,
};
use crate::schema::SchemaDialect;

/// A server that people can name instead of telling what it is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// The dialect that is spoken with it unless someone says otherwise.
    pub dialect: Dialect,
    /// Where it answers; nothing where everyone has an address of his own.
    pub base_url: Option<&'static str>,
    /// The variable that usually holds its key; nothing where it wants none.
    pub api_key_env: Option<&'static str>,
    /// The domains by which it is known; what lies below them counts as well.
    pub domains: &'static [&'static str],
    /// What it takes in that dialect.
    pub target: Target,
}

impl Preset {
    /// Whose models it serves, in the words of the [table of models](crate::models).
    pub(super) fn vendor(&self) -> &'static str {
        match self.name {
            "openai-chat" | "azure" => "openai",
            name => name,
        }
    }
}

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// The row of a server in a dialect; the cautious one of the dialect for an unknown server and for a
/// dialect that it is not known to speak.
pub(super) fn row(preset: Option<&Preset>, dialect: Dialect) -> Target {
    let Some(preset) = preset else { return cautious(dialect) };
    if preset.dialect == dialect {
        return preset.target;
    }
    let other =
        OTHER_DIALECTS.iter().find(|(name, spoken, _)| *name == preset.name && *spoken == dialect);
    other.map_or(cautious(dialect), |(_, _, target)| *target)
}

/// A server of which only the dialect is known.
pub(super) const fn cautious(dialect: Dialect) -> Target {
    match dialect {
        Dialect::Anthropic => ANTHROPIC,
        Dialect::OpenaiChat => CHAT,
        Dialect::OpenaiResponses => RESPONSES,
        Dialect::Gemini => GEMINI,
    }
}

const NONE: TargetOverrides = TargetOverrides::NONE;

const CHAT: Target = Target {
    max_tokens_field: MaxTokensField::MaxTokens,
    reasoning_replay: ReasoningReplay::AsReceived,
    empty_reasoning: false,
    tool_choice_required: true,
    strict_field: false,
    // Refused, or answered by an error that nobody understands, where the model is of another kind.
    images: false,
    max_image_bytes: u32::MAX,
    result_images: ResultImages::Beside,
    usage_flag: true,
    system_role: SystemRole::System,
    call_ids: CallIdRule::UpTo40,
    thinking: ThinkingStyle::None,
    efforts: Efforts::EMPTY,
    temperature: true,
    cache_hint: CacheHintKind::None,
    tool_schema: SchemaDialect::Full,
    signatures: Signatures::Unknown,
    obfuscation_flag: false,
    calls_last: false,
    foreign_calls: true,
    key_header: KeyHeader::Bearer,
};

const RESPONSES: Target = Target {
    strict_field: true,
    result_images: ResultImages::Inside,
    call_ids: CallIdRule::UpTo64,
    thinking: ThinkingStyle::Effort,
    efforts: LOW_TO_HIGH,
    ..CHAT
};

const ANTHROPIC: Target = Target {
    result_images: ResultImages::Inside,
    call_ids: CallIdRule::WordCharacters,
    cache_hint: CacheHintKind::CacheControl,
    tool_schema: SchemaDialect::PlainRoot,
    key_header: KeyHeader::XApiKey,
    ..CHAT
};

/// One of the newest models; older ones are told apart by their ids.
const GEMINI: Target = Target {
    images: true,
    result_images: ResultImages::Inside,
    thinking: ThinkingStyle::Level,
    efforts: LOW_TO_HIGH,
    signatures: Signatures::Demanded,
    key_header: KeyHeader::XGoogApiKey,
    ..CHAT
};

pub(super) const LOW_TO_HIGH: Efforts = Efforts::of(&[Low, Medium, High]);

/// The original services hide their reasoning in Chat Completions. Depths are the models' matter.
const OPENAI_CHAT: Target = Target {
    images: true,
    max_tokens_field: MaxTokensField::MaxCompletionTokens,
    reasoning_replay: ReasoningReplay::None,
    cache_hint: CacheHintKind::PromptCacheKey,
    ..CHAT
};

const OPENAI_RESPONSES: Target = Target {
    images: true,
    cache_hint: CacheHintKind::PromptCacheKey,
    obfuscation_flag: true,
    thinking: ThinkingStyle::None,
    efforts: Efforts::EMPTY,
    ..RESPONSES
};

/// Thinks between calls and refuses a call that comes back without its reasoning. In that mode no
/// call may be demanded.
const THINKING_CHAT: Target = Target {
    reasoning_replay: ReasoningReplay::ReasoningContent,
    empty_reasoning: true,
    tool_choice_required: false,
    thinking: ThinkingStyle::Toggle,
    ..CHAT
};

const AZURE_KEY: TargetOverrides = TargetOverrides { key_header: Some(KeyHeader::ApiKey), ..NONE };

/// Rows of servers in a dialect that is not the one of their preset.
const OTHER_DIALECTS: &[(&str, Dialect, Target)] = &[
    ("openai", Dialect::OpenaiChat, OPENAI_CHAT),
    ("openai-chat", Dialect::OpenaiResponses, OPENAI_RESPONSES),
    ("azure", Dialect::OpenaiChat, OPENAI_CHAT.with(&AZURE_KEY)),
    ("deepseek", Dialect::OpenaiResponses, Target { calls_last: true, ..RESPONSES }),
];

/// The servers that are known by name.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "anthropic",
        dialect: Dialect::Anthropic,
        base_url: Some("https://api.anthropic.com"),
        api_key_env: Some("ANTHROPIC_API_KEY"),
        domains: &["api.anthropic.com"],
        target: Target { images: true, max_image_bytes: 5 << 20, ..ANTHROPIC },
    },
    Preset {
        name: "openai",
        dialect: Dialect::OpenaiResponses,
        base_url: Some("https://api.openai.com/v1"),
        api_key_env: Some("OPENAI_API_KEY"),
        domains: &["api.openai.com"],
        target: OPENAI_RESPONSES,
    },
    Preset {
        name: "openai-chat",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://api.openai.com/v1"),
        api_key_env: Some("OPENAI_API_KEY"),
        domains: &["api.openai.com"],
        target: OPENAI_CHAT,
    },
    Preset {
        name: "gemini",
        dialect: Dialect::Gemini,
        base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        api_key_env: Some("GEMINI_API_KEY"),
        domains: &["generativelanguage.googleapis.com"],
        target: GEMINI,
    },
    Preset {
        name: "openrouter",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://openrouter.ai/api/v1"),
        api_key_env: Some("OPENROUTER_API_KEY"),
        domains: &["openrouter.ai"],
        target: Target {
            reasoning_replay: ReasoningReplay::ReasoningDetails,
            thinking: ThinkingStyle::Reasoning,
            efforts: Efforts::of(&[Off, Minimal, Low, Medium, High, Xhigh]),
            ..CHAT
        },
    },
    Preset {
        name: "ollama",
        dialect: Dialect::OpenaiChat,
        base_url: Some("http://localhost:11434/v1"),
        api_key_env: None,
        domains: &["ollama.com"],
        target: Target {
            thinking: ThinkingStyle::Effort,
            efforts: Efforts::of(&[Off, Low, Medium, High]),
            ..CHAT
        },
    },
    Preset {
        name: "azure",
        dialect: Dialect::OpenaiResponses,
        base_url: None,
        api_key_env: Some("AZURE_OPENAI_API_KEY"),
        domains: &["openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"],
        target: OPENAI_RESPONSES.with(&AZURE_KEY),
    },
    Preset {
        name: "llama.cpp",
        dialect: Dialect::OpenaiChat,
        base_url: Some("http://localhost:8080/v1"),
        api_key_env: None,
        domains: &[],
        target: CHAT,
    },
    Preset {
        name: "vllm",
        dialect: Dialect::OpenaiChat,
        base_url: Some("http://localhost:8000/v1"),
        api_key_env: None,
        domains: &[],
        target: CHAT,
    },
    Preset {
        name: "lm-studio",
        dialect: Dialect::OpenaiChat,
        base_url: Some("http://localhost:1234/v1"),
        api_key_env: None,
        domains: &[],
        target: CHAT,
    },
    Preset {
        name: "deepseek",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://api.deepseek.com"),
        api_key_env: Some("DEEPSEEK_API_KEY"),
        domains: &["api.deepseek.com"],
        target: Target { images: false, efforts: Efforts::of(&[Low, High, Max]), ..THINKING_CHAT },
    },
    Preset {
        name: "groq",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://api.groq.com/openai/v1"),
        api_key_env: Some("GROQ_API_KEY"),
        domains: &["api.groq.com"],
        target: CHAT,
    },
    Preset {
        name: "mistral",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://api.mistral.ai/v1"),
        api_key_env: Some("MISTRAL_API_KEY"),
        domains: &["api.mistral.ai"],
        target: Target {
            reasoning_replay: ReasoningReplay::None,
            // It counts in every answer, and refuses fields that it does not know.
            usage_flag: false,
            call_ids: CallIdRule::NineAlphanumeric,
            ..CHAT
        },
    },
    Preset {
        name: "xai",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://api.x.ai/v1"),
        api_key_env: Some("XAI_API_KEY"),
        domains: &["api.x.ai"],
        target: CHAT,
    },
    Preset {
        name: "together",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://api.together.xyz/v1"),
        api_key_env: Some("TOGETHER_API_KEY"),
        domains: &["api.together.xyz", "api.together.ai"],
        target: CHAT,
    },
    Preset {
        name: "moonshot",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://api.moonshot.ai/v1"),
        api_key_env: Some("MOONSHOT_API_KEY"),
        domains: &["api.moonshot.ai", "api.moonshot.cn"],
        target: THINKING_CHAT,
    },
    Preset {
        name: "zai",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://api.z.ai/api/paas/v4"),
        api_key_env: Some("ZAI_API_KEY"),
        domains: &["api.z.ai"],
        target: Target {
            reasoning_replay: ReasoningReplay::ReasoningContent,
            thinking: ThinkingStyle::Toggle,
            ..CHAT
        },
    },
    Preset {
        name: "dashscope",
        dialect: Dialect::OpenaiChat,
        base_url: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        api_key_env: Some("DASHSCOPE_API_KEY"),
        domains: &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"],
        target: Target {
            tool_choice_required: false,
            thinking: ThinkingStyle::EnableThinking,
            ..CHAT
        },
    },
];
