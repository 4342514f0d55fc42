//! What names mean, which keys are needed, and what is said when there is nothing to ask.

use std::collections::BTreeMap;

use super::*;
use crate::config::{FromVariable, Layers, Project, Request, Sources, environment, parse};

fn registry(user: &str, set: &[(&str, &str)]) -> Registry {
    with_project(user, "", set)
}

fn with_project(user: &str, project: &str, set: &[(&str, &str)]) -> Registry {
    let set: BTreeMap<String, String> =
        set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let variables: Variables = Arc::new(move |name| set.get(name).cloned());
    let user = parse("user", user).expect("a good file");
    let parsed = parse("project", project).expect("a good file");
    let request = Request::of(&parsed.leaves, BTreeMap::new());
    let project = Project::new(parsed, &request, None);
    let environment: Vec<FromVariable> = environment(&*variables);
    let (user, project) = (Some(&user), Some(&project));
    let layers = Layers::merge(Sources { user, project, environment, ..Sources::default() });
    let settings = Settings::new(layers, None).expect("good settings");
    Registry::new(Arc::new(settings), variables)
}

#[track_caller]
fn fault(registry: &Registry, name: &str) -> String {
    registry.resolve(name).expect_err("it cannot be resolved").to_string()
}

async fn default_label(registry: &Registry) -> Result<String, String> {
    let named = registry.find_or_default(None).await.map_err(|error| error.to_string())?;
    Ok(format!("{}:{}", named.provider, named.id))
}

#[test]
fn a_missing_key_is_named_with_the_provider_that_needs_it() {
    let none = registry("", &[]);
    for (name, want) in [
        ("anthropic:x", "ANTHROPIC_API_KEY is not set (needed by provider 'anthropic')"),
        ("gemini", "GEMINI_API_KEY is not set (needed by provider 'gemini')"),
        ("openrouter:a/b", "OPENROUTER_API_KEY is not set (needed by provider 'openrouter')"),
        ("sonnet", "ANTHROPIC_API_KEY is not set (needed by provider 'anthropic')"),
    ] {
        let error = none.resolve(name).unwrap_err();
        assert!(matches!(&error, LlmError::Config(text) if text == want), "{error}");
    }
}

#[test]
fn a_name_without_a_meaning_is_told_with_what_was_probably_meant() {
    let registry = registry("[models.q]\nprovider = \"nope\"\nid = \"x\"", &[]);
    for (name, want) in [
        ("sonet", "there is no model 'sonet': did you mean 'sonnet'? Otherwise write one of"),
        ("antropic:m:1", "there is no model 'antropic:m:1': did you mean 'anthropic:m:1'?"),
        ("gpt-5.4", "there is no model 'gpt-5.4': did you mean 'openai:gpt-5.4'?"),
        (
            "deepseek:m",
            "there is no model 'deepseek:m': add [providers.deepseek] with preset = \"deepseek\", \
             api_key_env = \"DEEPSEEK_API_KEY\" to your configuration. Otherwise",
        ),
        (
            "azure:m",
            "there is no model 'azure:m': add [providers.azure] with preset = \"azure\", \
             api_key_env = \"AZURE_OPENAI_API_KEY\", base_url = \"https://…\" to",
        ),
        ("zork", "there is no model 'zork': write one of the aliases gemini-flash, "),
        ("q", "there is no provider 'nope': it is one of anthropic, "),
    ] {
        assert!(fault(&registry, name).starts_with(want), "{}", fault(&registry, name));
    }
}

#[test]
fn a_local_model_works_without_an_entry_and_with_cautious_limits() {
    let model = registry("", &[]).resolve("ollama:qwen3:8b").unwrap();
    assert_eq!((model.label.as_str(), model.id.as_str()), ("ollama:qwen3:8b", "qwen3:8b"));
    assert_eq!(model.limits, Limits::CAUTIOUS);
    assert_eq!((model.max_tokens, model.price), (0, None));
    assert_eq!(model.provider.name(), "ollama");
}

#[test]
fn an_unknown_alias_lists_the_available_ones() {
    let registry = registry("[models.mine]\nprovider = \"ollama\"\nid = \"x\"", &[]);
    let error = fault(&registry, "sonet");
    for known in ["mine", "sonnet", "haiku", "anthropic, gemini, ollama, openai, openai-chat"] {
        assert!(error.contains(known), "{error}");
    }
    assert!(fault(&registry, "nobody:x").contains("PROVIDER:MODEL-ID"));
    assert!(fault(&registry, "ollama:").contains("names no model"));
    assert!(fault(&registry, "openrouter").contains("openrouter:MODEL-ID"));
}

#[test]
fn an_alias_says_all_about_its_model() {
    let user = r#"
        [models.deep]
        provider = "anthropic"
        id = "claude-sonnet-5"
        context = 500_000
        max_output = 64_000
        effort = "high"
        price = { input = 1.0, output = 2.0, as_of = "2026-11-30" }
    "#;
    let registry = registry(user, &[("ANTHROPIC_API_KEY", "k")]);
    let model = registry.resolve("deep").unwrap();
    assert_eq!(model.limits, Limits { context: 500_000, max_output: 64_000 });
    assert_eq!((model.max_tokens, model.effort), (64_000, Some(Effort::High)));
    assert_eq!(model.price.map(|price| price.output), Some(2.0));
    let by_id = registry.resolve("anthropic:claude-sonnet-5").unwrap();
    assert_eq!(by_id.limits.context, 500_000, "the same model under its own name");
    assert_eq!(by_id.effort, None, "which is said for the alias");
}

#[test]
fn long_answers_are_asked_for_only_where_the_model_is_known_to_give_them() {
    let registry = registry("", &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")]);
    for (name, want) in [
        ("anthropic", USUAL_OUTPUT),
        ("anthropic:claude-sonnet-5", USUAL_OUTPUT),
        ("anthropic:of-tomorrow", Limits::CAUTIOUS.max_output),
        ("openai:gpt-5.5", 0),
        ("ollama:tiny", 0),
    ] {
        assert_eq!(registry.resolve(name).unwrap().max_tokens, want, "{name}");
    }
}

#[test]
fn the_built_in_row_of_a_model_tells_limits_and_price() {
    let registry = registry("", &[("ANTHROPIC_API_KEY", "k")]);
    let model = registry.resolve("sonnet").unwrap();
    assert_eq!(model.limits.context, 1_000_000);
    assert!(model.price.is_some());
}

#[test]
fn a_service_is_known_by_its_address_under_any_name() {
    let user = "[providers.mine]\nkind = \"openai-chat\"\nbase_url = \"https://api.openai.com/v1\"";
    let registry = registry(user, &[("OPENAI_API_KEY", "k")]);
    for name in ["mine:gpt-5.5", "openai-chat:gpt-5.5", "openai:gpt-5.5"] {
        assert!(registry.resolve(name).unwrap().price.is_some(), "{name}");
    }
    assert_eq!(registry.resolve("ollama:gpt-5.5").unwrap().price, None);
}

#[tokio::test]
async fn the_first_provider_whose_key_is_set_answers_by_default() {
    for (set, want) in [
        (
            &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"][..],
            "anthropic:claude-sonnet-5",
        ),
        (&["OPENAI_API_KEY", "GEMINI_API_KEY"], "openai:gpt-5.5"),
        (&["GEMINI_API_KEY"], "gemini:gemini-3.1-pro-preview"),
        (&["GOOGLE_API_KEY", "OPENROUTER_API_KEY"], "gemini:gemini-3.1-pro-preview"),
    ] {
        let set: Vec<(&str, &str)> = set.iter().map(|name| (*name, "k")).collect();
        assert_eq!(default_label(&registry("", &set)).await.unwrap(), want);
    }
}

#[tokio::test]
async fn without_key_and_server_the_error_names_the_ways_to_go_on() {
    for set in [
        &[("OLLAMA_HOST", "127.0.0.1:1")][..],
        &[("OLLAMA_HOST", "127.0.0.1:1"), ("OPENROUTER_API_KEY", "k")],
    ] {
        let error = default_label(&registry("", set)).await.unwrap_err();
        for way in
            ["_API_KEY", "Ollama", "-m PROVIDER:MODEL-ID", "anvil demo", "ollama at 127.0.0.1:1: "]
        {
            assert!(error.contains(way), "{error}");
        }
    }
    let moved = registry("", &[("OLLAMA_HOST", "127.0.0.1:1"), ("OPENAI_BASE_URL", "http://h/v1")]);
    let error = default_label(&moved).await.unwrap_err();
    assert!(error.contains("OPENAI_BASE_URL is set but OPENAI_API_KEY is not"), "{error}");
}

#[tokio::test]
async fn what_is_secret_in_an_address_is_not_shown() {
    for host in ["http://me:hunter2@127.0.0.1:1", "me:hunter2@127.0.0.1:1"] {
        let error = default_label(&registry("", &[("OLLAMA_HOST", host)])).await.unwrap_err();
        assert!(error.contains("at 127.0.0.1:1: ") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn an_address_that_is_none_names_the_variable_it_comes_from() {
    for wrong in ["localhost:1234", "ftp://x", "http://", "nothing"] {
        let error = fault(&registry("", &[("OPENAI_BASE_URL", wrong)]), "openai-chat:m");
        assert!(error.starts_with("$OPENAI_BASE_URL: "), "{wrong}: {error}");
    }
}

#[test]
fn a_compatible_server_of_ones_own_needs_no_key() {
    let own = registry("", &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]);
    assert_eq!(own.resolve("openai-chat:m").unwrap().label, "openai-chat:m");
    let other = registry("", &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")]);
    assert!(fault(&other, "anthropic:m").contains("ANTHROPIC_API_KEY is not set"));
    let configured = registry(
        "[providers.gate]\nkind = \"openai-chat\"\nbase_url = \"http://h/v1\"\napi_key_env = \"GATE_KEY\"",
        &[],
    );
    assert_eq!(fault(&configured, "gate:m"), "GATE_KEY is not set (needed by provider 'gate')");
}

#[test]
fn a_preset_says_the_rest_of_a_provider() {
    let registry =
        registry("[providers.deepseek]\npreset = \"deepseek\"", &[("DEEPSEEK_API_KEY", "k")]);
    let connection = registry.connection("deepseek", KeyRule::Needed).unwrap();
    assert_eq!(connection.base_url, "https://api.deepseek.com");
    assert!(connection.key.is_some());
    assert!(connection.target.of("deepseek-chat").empty_reasoning);
}

#[test]
fn a_key_of_a_presets_service_is_not_sent_to_another_address() {
    let user = "[providers.p]\npreset = \"deepseek\"\nbase_url = \"http://elsewhere.example\"";
    let registry = registry(user, &[("DEEPSEEK_API_KEY", "k")]);
    assert!(registry.connection("p", KeyRule::Needed).unwrap().key.is_none());
}

#[test]
fn single_peculiarities_override_the_row_of_a_server() {
    let user = "[providers.p]\nkind = \"openai-chat\"\nbase_url = \"http://h/v1\"\nmax_tokens_field = \"max_completion_tokens\"\nimages = false";
    let target = registry(user, &[]).resolve("p:m").unwrap().target;
    assert!(!target.images);
    assert_eq!(target.max_tokens_field, crate::capability::MaxTokensField::MaxCompletionTokens);
}

#[test]
fn a_provider_that_is_half_configured_says_what_is_missing() {
    for (user, want) in [
        ("[providers.p]\nkind = \"gemini\"", "provider 'p' has no address"),
        ("[providers.p]\nbase_url = \"http://h\"", "provider 'p' has no kind"),
    ] {
        assert!(fault(&registry(user, &[]), "p:m").contains(want), "{user}");
    }
    assert!(fault(&registry("[models.m]\nid = \"x\"", &[]), "m").contains("has no provider"));
}

#[test]
fn a_repositorys_alias_uses_the_users_provider_and_what_the_user_says_of_the_model() {
    let user = "[models.own]\nprovider = \"ollama\"\nid = \"x\"\ncontext = 9000";
    let project = "[models.quick]\nprovider = \"ollama\"\nid = \"x\"\ncontext = 1";
    let model = with_project(user, project, &[]).resolve("quick").unwrap();
    assert_eq!((model.label.as_str(), model.limits.context), ("ollama:x", 9000));
}

#[test]
fn retries_are_as_configured() {
    let policy = registry("[retry]\nmax_attempts = 2\ndeadline_s = 7", &[]).retry_policy();
    assert_eq!((policy.max_attempts, policy.deadline), (2, Duration::from_secs(7)));
}

#[tokio::test]
async fn a_recording_leads_nobody_to_the_server_it_names_and_has_no_key() {
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    foreign.set_nonblocking(true).expect("a socket");
    let address = format!("http://{}/v1", foreign.local_addr().expect("an address"));
    let header = serde_json::json!({
        "type": "recording", "version": 1, "model": "ollama:x", "base_url": address
    });
    let player = crate::recording::Player::new(&format!("{header}\n")).expect("a recording");
    let user = "[providers.ollama]\napi_key_env = \"OWN_KEY\"";
    let registry =
        registry(user, &[("OWN_KEY", "k")]).with_tape(Some(Tape::Replay(Arc::new(player))));
    let connection = registry.connection("ollama", KeyRule::Needed).expect("no key is needed");
    assert_eq!((connection.base_url, connection.key.is_none()), (address, true));
    for name in [Some("ollama"), None] {
        let error = registry.find_or_default(name).await.expect_err("nobody is asked").to_string();
        assert!(error.contains("a replay asks no server"), "{error}");
    }
    assert!(foreign.accept().is_err(), "somebody came");
}
