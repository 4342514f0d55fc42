//! `anvil config`: what is set, by whom, and whether that counts.

use std::fmt::Write as _;
use std::path::Path;

use llm::config::{Key, Layers, Setting, json_schema, shown};
use serde_json::Value;

use crate::app::StartError;
use crate::app::config::Places;

/// Every value that holds, as TOML with its origin behind it; then what was asked for in vain.
pub(crate) fn show(layers: &Layers, is_set: &dyn Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for (key, _) in layers.chains() {
        let deciding = layers.deciding(key);
        let Some(value) = layers.value(key) else { continue };
        let from: Vec<String> = deciding.iter().map(|one| origin(one)).collect();
        line(&mut text, &format!("{key} = {}", toml(key, &value)), &from.join("; "), {
            note(key, &value, is_set)
        });
    }
    let refused: Vec<(&Key, &Setting)> = layers
        .chains()
        .flat_map(|(key, chain)| chain.iter().map(move |one| (key, one)))
        .filter(|(_, one)| one.refused.is_some())
        .collect();
    if !refused.is_empty() {
        text.push_str("\n# asked for by the repository and not applied; see `anvil trust`\n");
    }
    for (key, one) in refused {
        let why = one.refused.as_deref().unwrap_or_default();
        let value = toml(key, &one.value);
        line(&mut text, &format!("# {key} = {value}"), &origin(one), &format!(": {why}"));
    }
    text
}

/// The values of one key, or of all keys in a table, the lowest layer first.
pub(crate) fn explain(
    layers: &Layers,
    key: &str,
    is_set: &dyn Fn(&str) -> bool,
) -> Result<String, StartError> {
    let unknown =
        || StartError::Usage(format!("'{key}' is set nowhere: `anvil config show` lists the keys"));
    let wanted = Key::parse(key).ok_or_else(unknown)?;
    let mut text = String::new();
    for (key, chain) in layers.chains().filter(|(key, _)| wanted.contains(key)) {
        text.push_str(&format!("{key}\n"));
        let deciding = layers.deciding(key);
        for one in chain {
            let state = match &one.refused {
                Some(why) => format!(": refused, {why}"),
                None if deciding.contains(&one) => {
                    format!(": holds{}", note(key, &one.value, is_set))
                }
                None => ": overridden".to_owned(),
            };
            line(&mut text, &format!("  {}", toml(key, &one.value)), &origin(one), &state);
        }
    }
    if text.is_empty() { Err(unknown()) } else { Ok(text) }
}

/// The JSON Schema of a file.
pub(crate) fn schema() -> String {
    let schema = serde_json::to_string_pretty(json_schema());
    schema.expect("a schema is made of texts") + "\n"
}

/// Where the files are.
pub(crate) fn paths(places: &Places) -> String {
    let mut text = String::new();
    let mut add = |what: &str, path: Option<&Path>| {
        let shown = match path {
            None => "nowhere, because HOME is not set".to_owned(),
            Some(path) if path.exists() => path.display().to_string(),
            Some(path) => format!("{} (not there)", path.display()),
        };
        text.push_str(&format!("{what:<8} {shown}\n"));
    };
    add("user", places.user_file.as_deref());
    add("project", Some(&places.project_file));
    add("trust", places.trust_file.as_deref());
    text
}

fn origin(one: &Setting) -> String {
    format!("{}, {}, {}", one.layer.name(), one.place, one.trust.name())
}

/// Whether the variable that a provider's key is in is set; its value is nobody's business.
fn note(key: &Key, value: &Value, is_set: &dyn Fn(&str) -> bool) -> &'static str {
    match (key.names().as_slice(), value.as_str()) {
        (["providers", _, "api_key_env"], Some(variable)) if is_set(variable) => " (set)",
        (["providers", _, "api_key_env"], Some(_)) => " (not set)",
        _ => "",
    }
}

/// A value as TOML; what an address may hide is left out.
fn toml(key: &Key, value: &Value) -> String {
    match value {
        Value::Object(pairs) => {
            let pairs = pairs.iter();
            let pairs: Vec<String> = pairs
                .map(|(name, value)| format!("{} = {}", Key::of([name]), toml(key, value)))
                .collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| toml(key, item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(address) if key.names().last() == Some(&"base_url") => {
            Value::from(shown(address)).to_string()
        }
        other => other.to_string(),
    }
}

fn line(text: &mut String, setting: &str, origin: &str, note: &str) {
    writeln!(text, "{setting}  # {origin}{note}").expect("a string takes what is written to it");
}
