//! What differs between the servers and models that speak one dialect; pure.
//!
//! A [`Target`] says for one model on one server what its requests may hold, one column for each
//! thing that differs. Rows are data: what is known of servers stands in [`presets`], what is known
//! of models in `models`. The writers of requests read columns and never ask who the server is.

mod address;
mod effort;
mod models;
pub mod presets;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use effort::{Effort, Efforts};
pub use presets::{PRESETS, Preset, preset};

use crate::schema::SchemaDialect;

/// The wire protocols; in a configuration the `kind` of a provider.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Gemini generateContent.
    Gemini,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Anthropic, Self::OpenaiChat, Self::OpenaiResponses, Self::Gemini];

    /// The name in configurations and in [`ProviderMeta::provider`](crate::ProviderMeta::provider).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }
}

/// Writes the columns once: as a row, as a row in which every column may be left open, and as what
/// the second makes of the first.
macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// One row: what a request to one model on one server may hold. Columns that a dialect has
        /// no use for are ignored by it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Target {
            $($(#[$doc])* pub $name: $kind,)*
        }

        /// A row in which only some columns are told, as a person writes it into a configuration.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct TargetOverrides {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$kind>,)*
        }

        impl TargetOverrides {
            /// Every column left open.
            pub const NONE: Self = Self { $($name: None,)* };

            /// The names of the columns, as they are written in a configuration.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($name),)*];

            /// This with `other` where it tells a column.
            #[must_use]
            pub fn then(self, other: &Self) -> Self {
                Self { $($name: other.$name.or(self.$name),)* }
            }
        }

        impl Target {
            /// The row with what `told` says of it.
            #[must_use]
            pub const fn with(self, told: &TargetOverrides) -> Self {
                Self { $($name: match told.$name { Some(value) => value, None => self.$name },)* }
            }
        }

        impl From<Target> for TargetOverrides {
            fn from(row: Target) -> Self {
                Self { $($name: Some(row.$name),)* }
            }
        }
    };
}

columns! {
    /// The field that limits the answer (Chat Completions).
    max_tokens_field: MaxTokensField,
    /// How reasoning goes back. The dialects whose reasoning is sealed send it as it came or not at
    /// all.
    reasoning_replay: ReasoningReplay,
    /// Whether a message with calls has the field for reasoning even when there was none (Chat
    /// Completions, with `reasoning_replay = "reasoning_content"`).
    empty_reasoning: bool,
    /// Whether a call may be demanded. Where it may not, the model is left to choose.
    tool_choice_required: bool,
    /// Whether tools say that their schema is not strict: original services take the absence for the
    /// opposite, or servers do not know the field (Chat Completions, Responses).
    strict_field: bool,
    /// Whether the model looks at pictures. A text stands in for them where it does not, and where
    /// nobody said that it does.
    images: bool,
    /// The largest picture in bytes of base64; a text stands in for a larger one.
    max_image_bytes: u32,
    /// Where pictures go that a tool produced.
    result_images: ResultImages,
    /// Whether `stream_options.include_usage` is sent, without which most servers count nothing (Chat
    /// Completions).
    usage_flag: bool,
    /// Under which role the system text goes (Chat Completions).
    system_role: SystemRole,
    /// Which call ids the server accepts. Gemini's are the server's own.
    call_ids: CallIdRule,
    /// How a depth of thought is asked for.
    thinking: ThinkingStyle,
    /// The depths that can be asked for by name; empty where only on and off or a budget exist.
    efforts: Efforts,
    /// Whether a temperature may be sent.
    temperature: bool,
    /// How a request says that its beginning will come again.
    cache_hint: CacheHintKind,
    /// How the arguments of tools are described.
    tool_schema: SchemaDialect,
    /// Whether calls go back signed (Gemini).
    signatures: Signatures,
    /// Whether the server has the flag against filler that hides the length of events, which is then
    /// turned off (Responses).
    obfuscation_flag: bool,
    /// Whether the calls of an answer go behind everything else in it, for a server that refuses any
    /// item between two calls (Responses).
    calls_last: bool,
    /// Whether the model goes on in the middle of calls that another one made; with a budget for
    /// thought, while it thinks. Where it does not, such a chain is told in words
    /// ([`handoff`](crate::handoff)).
    foreign_calls: bool,
    /// The header that carries the key.
    key_header: KeyHeader,
}

/// The field that limits the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// The old name, which most compatible servers want.
    MaxTokens,
    /// The name that the original service gave it later.
    MaxCompletionTokens,
}

/// How reasoning goes back to the server that streamed it.
///
/// The original Chat Completions service hides its reasoning and so has nothing to take back. Servers
/// that imitate it differ: most ignore the field, some refuse a call without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningReplay {
    /// Not at all.
    None,
    /// In the form it came in; in Chat Completions only on messages with calls. What a server
    /// streams it also takes: the choice where nothing else is known.
    AsReceived,
    /// As `reasoning_content` on messages with calls.
    ReasoningContent,
    /// As `reasoning` on messages with calls.
    Reasoning,
    /// As `reasoning_details` on every assistant message that has them, unmodified: they are signed.
    ReasoningDetails,
}

/// Where pictures go that a tool produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultImages {
    /// Inside the result.
    Inside,
    /// After the results, as the user's, with a line that names their origin.
    Beside,
}

/// The role of the system text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// The role that every server knows.
    System,
    /// The role that the original service gave it for models that reason.
    Developer,
}

/// Which call ids a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallIdRule {
    /// Any text of at most 40 characters, the limit of the original Chat Completions service.
    #[serde(rename = "up_to_40")]
    UpTo40,
    /// Any text of at most 64 characters, the limit of the Responses service.
    #[serde(rename = "up_to_64")]
    UpTo64,
    /// Letters, digits, `_` and `-`.
    WordCharacters,
    /// Exactly nine letters or digits.
    NineAlphanumeric,
}

/// How a depth of thought is asked for. A style of another dialect asks for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingStyle {
    /// It cannot be asked for.
    None,
    /// `reasoning_effort` in Chat Completions, `reasoning.effort` in Responses.
    Effort,
    /// `reasoning` with an effort or a budget (Chat Completions, as routers have it).
    Reasoning,
    /// `thinking.type` enabled or disabled, and `reasoning_effort` where efforts are named (Chat
    /// Completions).
    Toggle,
    /// `enable_thinking` and `thinking_budget` (Chat Completions).
    EnableThinking,
    /// `thinking.type` adaptive and `output_config.effort` (Anthropic).
    Adaptive,
    /// A budget in tokens: `thinking.budget_tokens` (Anthropic) or `thinkingBudget` (Gemini).
    Budget,
    /// `thinkingLevel` (Gemini).
    Level,
}

/// How a request says that its beginning will come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheHintKind {
    /// It does not.
    None,
    /// A key that routes requests with the same beginning to the same machine.
    PromptCacheKey,
    /// Marks where a cached beginning ends; in Chat Completions one for the whole request.
    CacheControl,
}

/// Whether calls go back signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Signatures {
    /// The model refuses a step whose first call has no signature.
    Demanded,
    /// The model signs its calls as it likes and wants them back as they were. What another model
    /// called is a stranger's, and marked as such.
    Expected,
    /// The model does not know signatures.
    Unknown,
}

/// The header that carries the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHeader {
    /// `authorization: Bearer …`
    Bearer,
    /// `x-api-key`
    XApiKey,
    /// `api-key`
    ApiKey,
    /// `x-goog-api-key`
    XGoogApiKey,
}

/// The row of each model on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetFor {
    dialect: Dialect,
    preset: Option<&'static Preset>,
    told: TargetOverrides,
}

impl TargetFor {
    /// What is known of the server that is called `preset` in [`PRESETS`]; without a name, of the one
    /// at `base_url`. An unknown server is taken for a cautious one of its dialect.
    pub fn new(dialect: Dialect, preset: Option<&str>, base_url: &str) -> Self {
        let preset = match preset {
            Some(name) => presets::preset(name),
            None => address::known(base_url),
        };
        Self { dialect, preset, told: TargetOverrides::NONE }
    }

    /// The same with columns that someone told; they win over everything that is known.
    #[must_use]
    pub fn with(mut self, told: &TargetOverrides) -> Self {
        self.told = self.told.then(told);
        self
    }

    /// The dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The row of the model with this id. Whether a model of a known vendor looks at pictures stands in
    /// the [table of models](crate::models).
    pub fn of(&self, model: &str) -> Target {
        let server = presets::row(self.preset, self.dialect);
        let name = self.preset.map(|preset| preset.name);
        let vendor = self.preset.map(Preset::vendor);
        let listed = vendor.and_then(|vendor| crate::models::builtin(vendor, model));
        let images = listed.and_then(|row| row.images);
        models::refine(server, self.dialect, name, model)
            .with(&TargetOverrides { images, ..TargetOverrides::NONE })
            .with(&self.told)
    }
}

/// What is known of one model on one server: by the name of a preset, or else by the address, or
/// else cautiously.
pub fn target(dialect: Dialect, preset: Option<&str>, base_url: &str, model: &str) -> Target {
    TargetFor::new(dialect, preset, base_url).of(model)
}

#[cfg(test)]
mod tests;
