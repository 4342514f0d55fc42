//! Whatever a repository writes into its file: what it may never reach.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use llm::Registry;
use llm::config::file::{Network, SandboxMode};
use llm::config::{
    CredentialOrigin, Grant, Layers, Origin, Project, Request, Settings, Sources, environment,
    parse,
};
use llm::registry::KeyRule;
use proptest::prelude::*;

const USER: &str = r#"
    [providers.ours]
    kind = "openai-chat"
    base_url = "https://gate.example/v1"
    api_key_env = "GATE_KEY"
    [providers.vendor]
    preset = "deepseek"
    [providers.half]
    kind = "openai-chat"
    preset = "groq"
    api_key_env = "HALF_KEY"
    [sandbox]
    network = ["crates.io"]
    env_passthrough = ["CARGO_HOME"]
"#;

fn settings(project: &str, is_granted: bool) -> Settings {
    let user = parse("user", USER).expect("a good file");
    let parsed = parse("project", project).expect(project);
    let request = Request::of(&parsed.leaves, BTreeMap::new());
    let grant = Grant { digest: request.digest(), ..Grant::default() };
    let project = Project::new(parsed, &request, is_granted.then_some(&grant));
    let (user, project) = (Some(&user), Some(&project));
    let environment = environment(&|_| None);
    let sources = Sources { user, project, environment, ..Sources::default() };
    Settings::new(Layers::merge(sources), None).expect("every file of it is good")
}

/// Where every key would go that is sent anywhere.
fn pairs(settings: &Settings) -> BTreeSet<CredentialOrigin> {
    let registry = Registry::new(Arc::new(settings.clone()), Arc::new(|_: &str| Some("k".into())));
    let mut pairs = BTreeSet::new();
    for provider in settings.layers.provider_names() {
        let Ok(connection) = registry.connection(&provider, KeyRule::Needed) else { continue };
        if connection.key.is_some() {
            let (variable, _) = registry.key_variable(&provider).expect("a key has a variable");
            let origin = Origin::of(&connection.base_url).expect("it was connected to");
            pairs.insert(CredentialOrigin { variable, origin });
        }
    }
    pairs
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(words)
}

/// One line of a provider's table.
fn provider_line() -> impl Strategy<Value = (String, String)> {
    let name =
        one_of(&["anthropic", "openai", "gemini", "ollama", "ours", "vendor", "half", "new"]);
    let line = prop_oneof![
        one_of(&[
            "http://127.0.0.1:9",
            "https://api.anthropic.com",
            "https://gate.example/x",
            "https://api.groq.com"
        ])
        .prop_map(|address| format!("base_url = \"{address}\"")),
        one_of(&["ANTHROPIC_API_KEY", "GATE_KEY", "HOME", "DEEPSEEK_API_KEY", "HALF_KEY"])
            .prop_map(|variable| format!("api_key_env = \"{variable}\"")),
        one_of(&["anthropic", "openai-chat", "openai-responses", "gemini"])
            .prop_map(|kind| format!("kind = \"{kind}\"")),
        one_of(&["deepseek", "groq", "mistral", "vllm", "azure"])
            .prop_map(|preset| format!("preset = \"{preset}\"")),
        Just("key_header = \"api-key\"".to_owned()),
    ];
    (name, line).prop_map(|(name, line)| (format!("providers.{name}"), line))
}

fn other_line() -> impl Strategy<Value = (String, String)> {
    let pairs: &[(&str, &str)] = &[
        ("permissions", "mode = \"bypass\""),
        ("permissions", "allow = [\"bash\"]"),
        ("permissions", "deny = [\"bash(curl:*)\"]"),
        ("sandbox", "mode = \"full-access\""),
        ("sandbox", "mode = \"external\""),
        ("sandbox", "mode = \"read-only\""),
        ("sandbox", "backend = \"landlock\""),
        ("sandbox", "backend = \"bubblewrap\""),
        ("sandbox", "network = true"),
        ("sandbox", "network = []"),
        ("sandbox", "network = [\"crates.io\", \"evil.example\"]"),
        ("sandbox", "env_passthrough = [\"AWS_SECRET_ACCESS_KEY\"]"),
        ("sandbox", "env_passthrough = []"),
        ("mcp.x", "command = \"sh\""),
        ("mcp.x", "env_passthrough = [\"TOKEN\"]"),
        ("hooks", "stop = [{ command = \"x\", purpose = \"required\" }]"),
        ("hooks", "session_start = [{ command = \"x\" }]"),
        ("models.sonnet", "id = \"other\""),
        ("models.sonnet", "price = { input = 0.0, output = 0.0 }"),
        ("models.new", "provider = \"ours\""),
        ("models.new", "id = \"x\""),
        ("agent", "max_steps = 100000"),
        ("retry", "deadline_s = 100000"),
    ];
    let of = |(table, line): (&str, &str)| (table.to_owned(), line.to_owned());
    proptest::sample::select(pairs).prop_map(of)
}

/// A file of such lines, no key twice.
fn file() -> impl Strategy<Value = String> {
    let line = prop_oneof![provider_line(), other_line()];
    proptest::collection::vec(line, 0..12).prop_map(|lines| {
        let mut tables: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (table, line) in lines {
            let key = line.split(" = ").next().unwrap_or_default().to_owned();
            tables.entry(table).or_default().insert(key, line);
        }
        let table = |(name, lines): (String, BTreeMap<String, String>)| {
            let lines: Vec<String> = lines.into_values().collect();
            format!("[{name}]\n{}\n", lines.join("\n"))
        };
        tables.into_iter().map(table).collect()
    })
}

proptest! {
    #[test]
    fn without_a_grant_nothing_that_bears_authority_changes_but_what_is_taken_away(text in file()) {
        let (untouched, with) = (settings("", false), settings(&text, false));
        let (mut own, mut got) = (untouched.runtime.clone(), with.runtime.clone());
        let (wide, narrow) = (std::mem::take(&mut own.sandbox), std::mem::take(&mut got.sandbox));
        prop_assert_eq!(own, got);
        let mode = |mode: Option<SandboxMode>| mode.expect("it has a built-in value");
        prop_assert!(mode(narrow.mode) <= mode(wide.mode));
        let network = |network: &Option<Network>| network.clone().expect("it is configured");
        prop_assert!(network(&narrow.network).is_within(&network(&wide.network)));
        let wide = wide.env_passthrough.unwrap_or_default();
        prop_assert!(narrow.env_passthrough.unwrap_or_default().iter().all(|name| wide.contains(name)));
        prop_assert_eq!(pairs(&untouched), pairs(&with));
        prop_assert!(with.instructions.agent.max_steps <= untouched.instructions.agent.max_steps);
        prop_assert!(with.instructions.retry.deadline_s <= untouched.instructions.retry.deadline_s);
    }

    #[test]
    fn a_grant_for_the_folder_sends_no_key_to_a_server_it_does_not_belong_to(text in file()) {
        let belongs = pairs(&settings("", false));
        let sent = pairs(&settings(&text, true));
        prop_assert!(sent.is_subset(&belongs), "{sent:?}");
    }

    #[test]
    fn what_is_asked_for_is_listed(text in file()) {
        let with = settings(&text, false);
        let is_harmless = with.layers.refused().next().is_none();
        prop_assert_eq!(with.asked().is_empty(), is_harmless);
        if text.contains("[mcp.x]") {
            prop_assert!(with.asked().contains(&"mcp x".to_owned()));
        }
    }
}
