//! What a model's id tells beyond its server; pure.
//!
//! The first rule that fits counts. A rule for some servers fits on these alone: elsewhere the same
//! name may be another model behind another program.

use super::Effort::{High, Low, Max, Medium, Minimal, None as Off, Xhigh};
use super::presets::LOW_TO_HIGH;
use super::{
    CacheHintKind, Dialect, Efforts, ResultImages, Signatures, SystemRole, Target, TargetOverrides,
    ThinkingStyle,
};

/// The row of a server with what is known of one of its models.
pub(super) fn refine(row: Target, dialect: Dialect, server: Option<&str>, model: &str) -> Target {
    let name = model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let rule = RULES.iter().find(|rule| {
        rule.dialects.contains(&dialect)
            && (rule.servers.is_empty() || server.is_some_and(|name| rule.servers.contains(&name)))
            && rule.starts.iter().any(|start| starts_with(&name, start))
    });
    rule.map_or(row, |rule| row.with(&rule.told))
}

/// Versions are written with dots or with hyphens, depending on who sells the model.
fn starts_with(name: &str, start: &str) -> bool {
    let same = |a: u8, b: u8| a == b || matches!((a, b), (b'.', b'-') | (b'-', b'.'));
    name.len() >= start.len() && name.bytes().zip(start.bytes()).all(|(a, b)| same(a, b))
}

struct Rule {
    dialects: &'static [Dialect],
    /// Names of presets; empty for every server.
    servers: &'static [&'static str],
    /// How the id begins, behind the last slash and in lower case.
    starts: &'static [&'static str],
    told: TargetOverrides,
}

const NONE: TargetOverrides = TargetOverrides::NONE;
const CLAUDE: &[Dialect] = &[Dialect::Anthropic];
const GEMINI: &[Dialect] = &[Dialect::Gemini];
const CHAT: &[Dialect] = &[Dialect::OpenaiChat];
const OPENAI: &[Dialect] = &[Dialect::OpenaiChat, Dialect::OpenaiResponses];
const OPENAI_SERVERS: &[&str] = &["openai", "openai-chat", "azure"];

/// Models that think in steps, and refuse to go on with a call that they did not think about.
const fn budget(efforts: Efforts) -> TargetOverrides {
    TargetOverrides {
        thinking: Some(ThinkingStyle::Budget),
        efforts: Some(efforts),
        foreign_calls: Some(false),
        ..NONE
    }
}

const fn adaptive(efforts: Efforts, temperature: bool) -> TargetOverrides {
    TargetOverrides {
        thinking: Some(ThinkingStyle::Adaptive),
        efforts: Some(efforts),
        temperature: Some(temperature),
        ..NONE
    }
}

/// Models of the original service that reason: no temperature, and a role of its own for the system.
const fn reasons(efforts: &[super::Effort]) -> TargetOverrides {
    TargetOverrides {
        thinking: Some(ThinkingStyle::Effort),
        efforts: Some(Efforts::of(efforts)),
        temperature: Some(false),
        system_role: Some(SystemRole::Developer),
        ..NONE
    }
}

const fn effort(efforts: Efforts) -> TargetOverrides {
    TargetOverrides { thinking: Some(ThinkingStyle::Effort), efforts: Some(efforts), ..NONE }
}

const fn efforts(efforts: Efforts) -> TargetOverrides {
    TargetOverrides { efforts: Some(efforts), ..NONE }
}

const NO_THINKING: TargetOverrides =
    TargetOverrides { thinking: Some(ThinkingStyle::None), ..NONE };

const fn old_gemini(
    signatures: Signatures,
    thinking: ThinkingStyle,
    efforts: Efforts,
) -> TargetOverrides {
    TargetOverrides {
        result_images: Some(ResultImages::Beside),
        signatures: Some(signatures),
        thinking: Some(thinking),
        efforts: Some(efforts),
        ..NONE
    }
}

const fn openai(starts: &'static [&'static str], efforts: &[super::Effort]) -> Rule {
    Rule { dialects: OPENAI, servers: OPENAI_SERVERS, starts, told: reasons(efforts) }
}

/// On any server, since gateways serve them under their own names. All of them look at pictures.
const fn claude(starts: &'static [&'static str], told: TargetOverrides) -> Rule {
    let told = TargetOverrides { images: Some(true), ..told };
    Rule { dialects: CLAUDE, servers: &[], starts, told }
}

const fn gemini(starts: &'static [&'static str], told: TargetOverrides) -> Rule {
    Rule { dialects: GEMINI, servers: &[], starts, told }
}

const fn chat(
    servers: &'static [&'static str],
    starts: &'static [&'static str],
    told: TargetOverrides,
) -> Rule {
    Rule { dialects: CHAT, servers, starts, told }
}

const RULES: &[Rule] = &[
    claude(
        &["claude-opus-4-6", "claude-sonnet-4-6"],
        adaptive(Efforts::of(&[Low, Medium, High, Max]), true),
    ),
    claude(&["claude-opus-4-5"], budget(LOW_TO_HIGH)),
    claude(
        &[
            "claude-3-7",
            "claude-opus-4-0",
            "claude-opus-4-1",
            "claude-opus-4-2025",
            "claude-sonnet-4-0",
            "claude-sonnet-4-2025",
            "claude-sonnet-4-5",
            "claude-haiku-4-5",
        ],
        budget(Efforts::EMPTY),
    ),
    claude(&["claude-3", "claude-2", "claude-instant"], NONE),
    claude(&["claude-"], NEWEST_CLAUDE),
    gemini(
        &["gemini-2.5-pro"],
        old_gemini(
            Signatures::Expected,
            ThinkingStyle::Budget,
            Efforts::of(&[Minimal, Low, Medium, High, Xhigh, Max]),
        ),
    ),
    gemini(
        &["gemini-2.5"],
        old_gemini(
            Signatures::Expected,
            ThinkingStyle::Budget,
            Efforts::of(&[Off, Minimal, Low, Medium, High, Xhigh]),
        ),
    ),
    gemini(
        &["gemini-1.", "gemini-2.", "gemini-pro-vision", "gemma", "learnlm"],
        old_gemini(Signatures::Unknown, ThinkingStyle::None, Efforts::EMPTY),
    ),
    gemini(&["gemini-3-pro"], efforts(Efforts::of(&[Low, High]))),
    gemini(&["gemini-3.1-pro", "gemini-3.7-flash"], efforts(LOW_TO_HIGH)),
    gemini(&["gemini-3"], efforts(Efforts::of(&[Minimal, Low, Medium, High]))),
    openai(&["gpt-5-pro"], &[High]),
    openai(&["gpt-5.1-chat", "gpt-5.2-chat"], &[Medium]),
    Rule {
        dialects: OPENAI,
        servers: OPENAI_SERVERS,
        starts: &["gpt-5-chat", "gpt-5.3-chat"],
        told: NONE,
    },
    openai(&["gpt-5.2-pro", "gpt-5.4-pro", "gpt-5.5-pro"], &[Medium, High, Xhigh]),
    openai(&["gpt-5.1-codex-max", "gpt-5.2-codex"], &[Low, Medium, High, Xhigh]),
    openai(&["gpt-5-codex", "gpt-5.1-codex", "o1", "o3", "o4"], &[Low, Medium, High]),
    openai(&["gpt-5.1"], &[Off, Low, Medium, High]),
    openai(&["gpt-5.2", "gpt-5.3", "gpt-5.4", "gpt-5.5"], &[Off, Low, Medium, High, Xhigh]),
    openai(&["gpt-5.6"], &[Off, Low, Medium, High, Xhigh, Max]),
    openai(&["gpt-5"], &[Minimal, Low, Medium, High]),
    chat(&["groq", "together", "vllm", "lm-studio"], &["gpt-oss"], effort(LOW_TO_HIGH)),
    chat(
        &["openrouter"],
        &["claude"],
        TargetOverrides {
            cache_hint: Some(CacheHintKind::CacheControl),
            images: Some(true),
            ..NONE
        },
    ),
    chat(
        &["openrouter"],
        &["gemini-", "gpt-4.1", "gpt-4o", "gpt-5", "grok-4"],
        TargetOverrides { images: Some(true), ..NONE },
    ),
    chat(&["xai"], &["grok-4.3"], effort(Efforts::of(&[Off, Low, Medium, High]))),
    chat(&["xai"], &["grok-3-mini"], effort(Efforts::of(&[Low, High]))),
    chat(
        &["mistral"],
        &["mistral-medium-2604", "mistral-small-2603", "mistral-small-latest"],
        effort(Efforts::of(&[Off, High])),
    ),
    chat(&["zai"], &["glm-5.3"], efforts(Efforts::of(&[Low, High, Max]))),
    chat(&["zai"], &["glm-5.2"], efforts(Efforts::of(&[High, Max]))),
    // Thinking cannot be turned off.
    chat(
        &["moonshot"],
        &["kimi-k2.7"],
        TargetOverrides { temperature: Some(false), ..NO_THINKING },
    ),
    chat(&["moonshot"], &["kimi-k2-thinking"], NO_THINKING),
    chat(&["moonshot"], &["kimi-k2.5"], TargetOverrides { temperature: Some(false), ..NONE }),
    chat(&["dashscope"], &["qwen3-coder", "qwen3-max", "qwen-max", "qwen2"], NO_THINKING),
];

const NEWEST_CLAUDE: TargetOverrides =
    adaptive(Efforts::of(&[Low, Medium, High, Xhigh, Max]), false);
