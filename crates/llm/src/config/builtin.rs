//! What holds before anybody configured anything, and what the user's environment adds to it.

use serde_json::{Value, json};

use super::key::Key;
use crate::capability::{self, Preset};
use crate::models;

/// A provider that needs no file. What it is like is said by the preset of the same name.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinProvider {
    /// What it is called.
    pub name: &'static str,
    /// Variables that may hold its key where the preset's own is not set.
    pub further_keys: &'static [&'static str],
    /// The variable that says it is elsewhere.
    pub url_variable: Option<&'static str>,
    /// The model that is asked when only the provider is named.
    pub model: Option<&'static str>,
}

/// The built-in providers. The first whose key is set answers when no model is configured, if it
/// has a model of its own.
pub const PROVIDERS: [BuiltinProvider; 6] = [
    BuiltinProvider {
        name: "anthropic",
        further_keys: &[],
        url_variable: Some("ANTHROPIC_BASE_URL"),
        model: Some("claude-sonnet-5"),
    },
    BuiltinProvider {
        name: "openai",
        further_keys: &[],
        url_variable: Some("OPENAI_BASE_URL"),
        model: Some("gpt-5.5"),
    },
    BuiltinProvider {
        name: "openai-chat",
        further_keys: &[],
        url_variable: Some("OPENAI_BASE_URL"),
        model: Some("gpt-5.5"),
    },
    BuiltinProvider {
        name: "gemini",
        further_keys: &["GOOGLE_API_KEY"],
        url_variable: Some("GEMINI_BASE_URL"),
        model: Some("gemini-3.1-pro-preview"),
    },
    BuiltinProvider { name: "openrouter", further_keys: &[], url_variable: None, model: None },
    BuiltinProvider {
        name: LOCAL,
        further_keys: &[],
        url_variable: Some("OLLAMA_HOST"),
        model: None,
    },
];

/// How a person gives the models of [`LOCAL`] more context.
pub const MORE_CONTEXT: &str = "start the server with OLLAMA_CONTEXT_LENGTH=32768 or more";

/// The provider that is asked for its first model when no key is set.
pub const LOCAL: &str = "ollama";

impl BuiltinProvider {
    /// What is known of its server.
    pub fn preset(&self) -> &'static Preset {
        capability::preset(self.name).expect("every built-in provider is a preset")
    }
}

/// What to do when there is no model to ask; `why` says what became of the local server.
pub fn no_model(why: &str) -> String {
    format!(
        "no model is configured ({why}): set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or start \
         Ollama with a model, or name one with -m PROVIDER:MODEL-ID, or see `anvil demo`, which needs none"
    )
}

/// The built-in provider of this name.
pub fn provider(name: &str) -> Option<&'static BuiltinProvider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// The lowest layer.
pub(super) fn settings() -> Vec<(Key, Value)> {
    let mut all = vec![
        (Key::of(["agent", "max_steps"]), json!(100)),
        (Key::of(["agent", "compact_at"]), json!(0.80)),
        (Key::of(["agent", "ask_programs"]), json!(true)),
        (Key::of(["permissions", "mode"]), json!("default")),
        (Key::of(["sandbox", "mode"]), json!("workspace-write")),
        (Key::of(["sandbox", "network"]), json!(false)),
        (Key::of(["retry", "max_attempts"]), json!(5)),
        (Key::of(["retry", "deadline_s"]), json!(300)),
        (Key::of(["sessions", "max_file_mb"]), json!(512)),
        (Key::of(["sessions", "max_total_mb"]), json!(4096)),
        (Key::of(["sessions", "max_log_mb"]), json!(16)),
    ];
    for provider in &PROVIDERS {
        let key = |field| Key::of(["providers", provider.name, field]);
        let preset = provider.preset();
        all.push((key("kind"), json!(preset.dialect)));
        if let Some(address) = preset.base_url {
            all.push((key("base_url"), json!(address)));
        }
        if let Some(variable) = preset.api_key_env {
            all.push((key("api_key_env"), json!(variable)));
        }
    }
    for (alias, provider, id) in models::ALIASES {
        let key = |field| Key::of(["models", alias, field]);
        all.push((key("provider"), json!(provider)));
        all.push((key("id"), json!(id)));
    }
    all
}

/// A value that a variable of the user's own environment sets.
#[derive(Debug, Clone, PartialEq)]
pub struct FromVariable {
    /// The variable.
    pub variable: &'static str,
    /// What it sets.
    pub key: Key,
    /// To what.
    pub value: Value,
}

/// What the user's environment sets. `read` gives a variable that is set and not empty.
pub fn environment(read: &dyn Fn(&str) -> Option<String>) -> Vec<FromVariable> {
    let mut all = Vec::new();
    if let Some(name) = read("ANVIL_MODEL") {
        let key = Key::of(["default_model"]);
        all.push(FromVariable { variable: "ANVIL_MODEL", key, value: json!(name) });
    }
    if let Some(said) = read("ANVIL_ASK_PROGRAMS") {
        let key = Key::of(["agent", "ask_programs"]);
        let value = json!(!matches!(&*said, "0" | "false" | "no" | "off"));
        all.push(FromVariable { variable: "ANVIL_ASK_PROGRAMS", key, value });
    }
    for provider in &PROVIDERS {
        let key = |field| Key::of(["providers", provider.name, field]);
        if let Some(variable) = provider.url_variable
            && let Some(address) = read(variable)
        {
            let address = match variable {
                "OLLAMA_HOST" => ollama_base(&address),
                _ => address,
            };
            all.push(FromVariable { variable, key: key("base_url"), value: json!(address) });
        }
        // The first one is what the lowest layer says already.
        if provider.preset().api_key_env.is_some_and(|variable| read(variable).is_some()) {
            continue;
        }
        let further = provider.further_keys.iter().find(|variable| read(variable).is_some());
        if let Some(variable) = further {
            let value = json!(variable);
            all.push(FromVariable { variable, key: key("api_key_env"), value });
        }
    }
    all
}

/// The base address for `OLLAMA_HOST`, read the way Ollama itself reads it: `[scheme://][user:password@]host[:port]`
/// with a port of 11434 where neither scheme nor port is given. An address to listen on everywhere
/// is reached on the loopback.
fn ollama_base(host: &str) -> String {
    let host = host.trim();
    let (scheme, rest, port) = match host.split_once("://") {
        None => ("http", host, ":11434"),
        Some((scheme, rest)) => (scheme, rest, ""),
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, authority) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    let (name, given) = split_port(authority);
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1".to_owned(),
        "[::]" | "::" => "[::1]".to_owned(),
        bare if bare.contains(':') && !bare.starts_with('[') => format!("[{bare}]"),
        other => other.to_owned(),
    };
    let path = path.trim_end_matches('/').trim_end_matches("/v1");
    format!("{scheme}://{user}{name}{}{path}/v1", given.unwrap_or(port))
}

/// A host and its port with the colon. An IPv6 address without brackets has no port.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rfind(':') {
        Some(at) if authority[at..].contains(']') => (authority, None),
        Some(at) if authority[..at].contains(':') && !authority.starts_with('[') => {
            (authority, None)
        }
        Some(at) if at + 1 < authority.len() => (&authority[..at], Some(&authority[at..])),
        Some(at) => (&authority[..at], None),
        None => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_hosts_are_read_the_way_ollama_reads_them() {
        for (host, base) in [
            ("127.0.0.1", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
            (":8080", "http://127.0.0.1:8080/v1"),
            ("gpu-box", "http://gpu-box:11434/v1"),
            ("gpu-box:80/", "http://gpu-box:80/v1"),
            ("https://gpu.example", "https://gpu.example/v1"),
            ("http://gpu:1234/ollama/", "http://gpu:1234/ollama/v1"),
            ("http://gpu:1234/v1", "http://gpu:1234/v1"),
            ("[::]:1", "http://[::1]:1/v1"),
            ("::1", "http://[::1]:11434/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
            ("me:secret@gpu-box", "http://me:secret@gpu-box:11434/v1"),
            ("https://me:secret@gpu:1", "https://me:secret@gpu:1/v1"),
        ] {
            assert_eq!(ollama_base(host), base, "{host}");
        }
    }

    #[test]
    fn a_further_key_variable_counts_only_where_the_first_is_not_set() {
        let key = Key::of(["providers", "gemini", "api_key_env"]);
        let with = |set: &'static [&'static str]| {
            let read = |name: &str| set.contains(&name).then(|| "k".to_owned());
            environment(&read).into_iter().find(|one| one.key == key).map(|one| one.value)
        };
        assert_eq!(with(&["GOOGLE_API_KEY"]), Some(json!("GOOGLE_API_KEY")));
        assert_eq!(with(&["GEMINI_API_KEY", "GOOGLE_API_KEY"]), None);
        assert_eq!(with(&[]), None);
    }
}
