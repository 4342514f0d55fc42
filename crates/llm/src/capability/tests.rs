//! The rows, as the servers and models are known.

use super::Effort::{High, Low, Max, Medium};
use super::*;

fn chat(base_url: &str, model: &str) -> Target {
    target(Dialect::OpenaiChat, None, base_url, model)
}

fn of(dialect: Dialect, preset: &str, model: &str) -> Target {
    target(dialect, Some(preset), "", model)
}

#[test]
fn a_server_is_known_by_its_name_or_else_by_its_address() {
    let by_name = of(Dialect::OpenaiChat, "deepseek", "m");
    assert_eq!(by_name, chat("https://API.DeepSeek.com", "m"));
    assert_eq!(by_name.reasoning_replay, ReasoningReplay::ReasoningContent);
    assert!(by_name.empty_reasoning && !by_name.images && !by_name.tool_choice_required);
    let mistral = chat("https://api.mistral.ai/v1", "m");
    assert_eq!(mistral.call_ids, CallIdRule::NineAlphanumeric);
    let router = chat("https://openrouter.ai/api/v1", "m");
    assert_eq!(router.reasoning_replay, ReasoningReplay::ReasoningDetails);
    // The name wins: the address may be that of a gateway.
    let gateway = target(Dialect::OpenaiChat, Some("mistral"), "https://openrouter.ai/api/v1", "m");
    assert_eq!(gateway, mistral);
}

#[test]
fn an_unknown_server_is_a_cautious_one_of_its_dialect() {
    for base_url in ["http://127.0.0.1:8080/v1", "https://notapi.openai.com.example/v1", "nonsense"]
    {
        assert_eq!(chat(base_url, "m"), presets::cautious(Dialect::OpenaiChat), "{base_url}");
    }
    let unknown =
        TargetFor::new(Dialect::OpenaiChat, Some("of tomorrow"), "https://api.openai.com");
    assert_eq!(unknown.of("m"), presets::cautious(Dialect::OpenaiChat));
    let cautious = chat("", "gpt-5.5");
    assert_eq!(cautious.max_tokens_field, MaxTokensField::MaxTokens);
    assert_eq!(cautious.cache_hint, CacheHintKind::None);
    assert_eq!(cautious.thinking, ThinkingStyle::None);
}

#[test]
fn one_address_has_a_row_for_each_dialect_that_is_spoken_there() {
    for (base_url, preset) in [
        ("https://api.openai.com/v1", "openai"),
        ("https://me.openai.azure.com/openai/v1", "azure"),
    ] {
        let chat = chat(base_url, "gpt-4.1");
        assert_eq!(chat.max_tokens_field, MaxTokensField::MaxCompletionTokens);
        assert_eq!(chat.reasoning_replay, ReasoningReplay::None);
        let responses = target(Dialect::OpenaiResponses, None, base_url, "gpt-4.1");
        assert!(responses.obfuscation_flag, "{base_url}");
        assert_eq!(responses, of(Dialect::OpenaiResponses, preset, "gpt-4.1"));
    }
    assert_eq!(of(Dialect::OpenaiChat, "azure", "m").key_header, KeyHeader::ApiKey);
    assert!(target(Dialect::OpenaiResponses, None, "https://api.deepseek.com", "m").calls_last);
    assert!(!target(Dialect::OpenaiResponses, None, "http://localhost:1234/v1", "m").calls_last);
}

#[test]
fn the_generation_of_a_model_tells_which_signatures_it_wants() {
    #[track_caller]
    fn check(model: &str, signatures: Signatures, result_images: ResultImages) {
        let row = target(Dialect::Gemini, None, "", model);
        assert_eq!((row.signatures, row.result_images), (signatures, result_images), "{model}");
        assert_eq!(row.tool_schema, SchemaDialect::Full, "{model}");
    }
    check("gemini-3.1-pro-preview", Signatures::Demanded, ResultImages::Inside);
    check("gemini-3-flash", Signatures::Demanded, ResultImages::Inside);
    check("gemini-2.5-flash", Signatures::Expected, ResultImages::Beside);
    check("models/gemini-2.5-pro", Signatures::Expected, ResultImages::Beside);
    check("gemini-2.0-flash", Signatures::Unknown, ResultImages::Beside);
    check("Gemini-1.5-Pro", Signatures::Unknown, ResultImages::Beside);
    check("gemma-3-27b-it", Signatures::Unknown, ResultImages::Beside);
    // An unknown model is taken for one of the newest.
    for model in ["gemini-flash-latest", "gemini-11-pro", "tunedModels/mine", ""] {
        check(model, Signatures::Demanded, ResultImages::Inside);
    }
}

#[test]
fn a_model_tells_how_it_is_asked_to_think() {
    #[track_caller]
    fn check(
        dialect: Dialect,
        preset: &str,
        model: &str,
        style: ThinkingStyle,
        efforts: &[Effort],
    ) {
        let row = of(dialect, preset, model);
        assert_eq!((row.thinking, row.efforts), (style, Efforts::of(efforts)), "{model}");
    }
    use ThinkingStyle::{Adaptive, Budget, Level, Toggle};
    let claude =
        |model, style, efforts| check(Dialect::Anthropic, "anthropic", model, style, efforts);
    claude("claude-haiku-4-5", Budget, &[]);
    claude("claude-sonnet-4-5-20250929", Budget, &[]);
    claude("claude-opus-4-20250514", Budget, &[]);
    claude("claude-opus-4-5", Budget, &[Low, Medium, High]);
    claude("claude-sonnet-4-6", Adaptive, &[Low, Medium, High, Max]);
    claude("claude-opus-4-8", Adaptive, &[Low, Medium, High, Effort::Xhigh, Max]);
    claude("claude-opus-5-5", Adaptive, &[Low, Medium, High, Effort::Xhigh, Max]);
    claude("claude-3-haiku-20240307", ThinkingStyle::None, &[]);
    claude("glm-5.2", ThinkingStyle::None, &[]);
    check(Dialect::Gemini, "gemini", "gemini-3-pro-preview", Level, &[Low, High]);
    check(Dialect::OpenaiChat, "deepseek", "deepseek-v4-pro", Toggle, &[Low, High, Max]);
    check(Dialect::OpenaiChat, "moonshot", "kimi-k2.7-code", ThinkingStyle::None, &[]);
    let openai = [Dialect::OpenaiChat, Dialect::OpenaiResponses];
    for dialect in openai {
        check(
            dialect,
            "openai",
            "gpt-5-mini",
            ThinkingStyle::Effort,
            &[Effort::Minimal, Low, Medium, High],
        );
        check(
            dialect,
            "azure",
            "gpt-5.1",
            ThinkingStyle::Effort,
            &[Effort::None, Low, Medium, High],
        );
        check(dialect, "openai", "gpt-4.1", ThinkingStyle::None, &[]);
    }
}

#[test]
fn pictures_go_only_to_models_that_are_known_to_look_at_them() {
    let sees = |dialect, preset, model| of(dialect, preset, model).images;
    let chat = Dialect::OpenaiChat;
    assert!(sees(Dialect::Anthropic, "anthropic", "claude-of-tomorrow"));
    let gateway = |model| target(Dialect::Anthropic, None, "https://gateway.example", model).images;
    assert!(gateway("claude-haiku-4-5") && gateway("claude-3-haiku") && !gateway("glm-5.2"));
    assert!(sees(chat, "azure", "gpt-5.5"));
    assert!(sees(chat, "mistral", "mistral-large-2512"));
    assert!(!sees(chat, "mistral", "devstral-2512"));
    assert!(!sees(chat, "deepseek", "deepseek-v4-pro"));
    assert!(!sees(chat, "mistral", "of-tomorrow"));
    assert!(sees(chat, "openrouter", "anthropic/claude-sonnet-4.6"));
    assert!(sees(chat, "openrouter", "openai/gpt-5.5"));
    assert!(!sees(chat, "openrouter", "deepseek/deepseek-v4-pro"));
    assert!(!sees(chat, "ollama", "llava"));
    let told = TargetOverrides { images: Some(true), ..TargetOverrides::NONE };
    assert!(TargetFor::new(chat, Some("ollama"), "").with(&told).of("llava").images);
}

#[test]
fn models_that_take_no_temperature_are_known() {
    let takes = |dialect, preset, model| of(dialect, preset, model).temperature;
    assert!(!takes(Dialect::Anthropic, "anthropic", "claude-opus-4-8"));
    assert!(takes(Dialect::Anthropic, "anthropic", "claude-haiku-4-5"));
    assert!(!takes(Dialect::OpenaiResponses, "openai", "gpt-5.5"));
    assert!(takes(Dialect::OpenaiChat, "openai-chat", "gpt-4.1"));
    assert!(!takes(Dialect::OpenaiChat, "moonshot", "kimi-k2.5"));
}

#[test]
fn a_version_may_be_written_with_dots() {
    let dotted = of(Dialect::Anthropic, "openrouter", "anthropic/claude-haiku-4.5");
    assert_eq!(dotted.thinking, ThinkingStyle::Budget);
    let marked = |model| of(Dialect::OpenaiChat, "openrouter", model).cache_hint;
    assert_eq!(marked("anthropic/claude-sonnet-4.6"), CacheHintKind::CacheControl);
    assert_eq!(marked("openai/gpt-5.5"), CacheHintKind::None);
}

#[test]
fn what_someone_told_wins_over_what_is_known() {
    let told = TargetOverrides {
        max_tokens_field: Some(MaxTokensField::MaxCompletionTokens),
        temperature: Some(true),
        ..TargetOverrides::NONE
    };
    let row = TargetFor::new(Dialect::OpenaiChat, Some("moonshot"), "").with(&told).of("kimi-k2.5");
    assert_eq!(row, of(Dialect::OpenaiChat, "moonshot", "kimi-k2.5").with(&told));
    assert!(row.temperature && row.empty_reasoning);
    let later = TargetOverrides { temperature: Some(false), ..TargetOverrides::NONE };
    let both = told.then(&later);
    assert_eq!((both.temperature, both.max_tokens_field), (Some(false), told.max_tokens_field));
}

#[test]
fn overrides_are_read_under_the_names_of_the_columns() {
    let told: TargetOverrides = serde_json::from_str(
        r#"{"max_tokens_field": "max_completion_tokens", "reasoning_replay": "reasoning_content",
            "tool_choice_required": false, "cache_hint": "prompt_cache_key", "efforts": ["low"],
            "key_header": "x-api-key", "tool_schema": "limited", "call_ids": "nine_alphanumeric"}"#,
    )
    .unwrap();
    assert_eq!(
        told,
        TargetOverrides {
            max_tokens_field: Some(MaxTokensField::MaxCompletionTokens),
            reasoning_replay: Some(ReasoningReplay::ReasoningContent),
            tool_choice_required: Some(false),
            cache_hint: Some(CacheHintKind::PromptCacheKey),
            efforts: Some(Efforts::of(&[Low])),
            key_header: Some(KeyHeader::XApiKey),
            tool_schema: Some(SchemaDialect::Limited),
            call_ids: Some(CallIdRule::NineAlphanumeric),
            ..TargetOverrides::NONE
        }
    );
    let all = TargetOverrides::from(presets::cautious(Dialect::OpenaiChat));
    let written = serde_json::to_value(all).unwrap();
    let names: Vec<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, TargetOverrides::FIELDS);
    assert_eq!(serde_json::to_string(&TargetOverrides::NONE).unwrap(), "{}");
}

#[test]
fn every_column_stands_in_the_documented_configuration() {
    let documented = include_str!("../../../../docs/config.toml");
    for field in TargetOverrides::FIELDS {
        assert!(documented.contains(&format!("\n{field} = ")), "{field}");
    }
}

#[test]
fn every_preset_has_a_name_of_its_own_and_an_address_that_leads_to_it() {
    for preset in PRESETS {
        let same = PRESETS.iter().filter(|other| other.name == preset.name);
        assert_eq!(same.count(), 1, "{}", preset.name);
        if let Some(base_url) = preset.base_url {
            assert!(base_url.starts_with("http"), "{base_url}");
            let by_address = target(preset.dialect, None, base_url, "m");
            let by_name = target(preset.dialect, Some(preset.name), "", "m");
            // A server on one's own machine is told apart by nothing but its name.
            assert!(base_url.contains("localhost") || by_address == by_name, "{base_url}");
        }
    }
}

#[test]
fn a_dialect_is_written_as_it_is_named() {
    for dialect in Dialect::ALL {
        assert_eq!(serde_json::to_value(dialect).unwrap(), dialect.name());
    }
}
