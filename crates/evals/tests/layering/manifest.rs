//! Which member may depend on which, read from what Cargo itself makes of the manifests.

use serde_json::Value;

use crate::rules::Offence;

/// What each member may use of the others.
const MAY_USE: &[(&str, &[&str])] =
    &[("llm", &[]), ("agent", &["llm"]), ("cli", &["llm", "agent"]), ("evals", &["llm", "agent"])];

/// Members whose errors are typed.
const LIBRARIES: &[&str] = &["llm", "agent"];

/// Every offence in one manifest: `package` is its entry in `cargo metadata`, `text` the file.
pub(crate) fn judge(package: &Value, text: &str) -> Vec<Offence> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, may_use)) = MAY_USE.iter().find(|(member, _)| *member == name) else {
        let text = format!("`{name}` is not one of the four members of the floor plan");
        return vec![Offence { file: format!("{name}/Cargo.toml"), line: 1, text }];
    };
    dependencies(package)
        .filter_map(|dependency| {
            let is_member = MAY_USE.iter().any(|(member, _)| *member == dependency);
            // A crate's own tests switch its features on through a dependency on itself.
            let is_forbidden =
                is_member && dependency != name && !may_use.contains(&dependency.as_str());
            let is_untyped = dependency == "anyhow" && LIBRARIES.contains(&name);
            let reason = match (is_forbidden, is_untyped) {
                (true, _) => format!("`{name}` may not depend on `{dependency}`"),
                (_, true) => format!("`{name}` is a library; anyhow is for the binaries"),
                _ => return None,
            };
            let line = line_of(text, &dependency);
            Some(Offence { file: format!("{name}/Cargo.toml"), line, text: reason })
        })
        .collect()
}

/// The names of a package's dependencies of every kind.
pub(crate) fn dependencies(package: &Value) -> impl Iterator<Item = String> {
    let list = package["dependencies"].as_array().cloned().unwrap_or_default();
    list.into_iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned))
}

/// The first line of the manifest that speaks of the dependency, or 1.
fn line_of(text: &str, dependency: &str) -> usize {
    let speaks = |line: &str| {
        line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
            .any(|word| word == dependency)
    };
    let in_dependencies = |index: usize, line: &str| {
        speaks(line) && !line.starts_with("name") && !line.starts_with("description") && index > 0
    };
    text.lines()
        .enumerate()
        .find(|(index, line)| in_dependencies(*index, line))
        .map_or(1, |(index, _)| index + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(name: &str, dependency: &str, want: Option<&str>) {
        let package = json!({ "name": name, "dependencies": [{ "name": dependency }] });
        let text = format!(
            "[package]\nname = \"{name}\"\n\n[dependencies]\n{dependency}.workspace = true\n"
        );
        let found: Vec<String> = judge(&package, &text).iter().map(ToString::to_string).collect();
        assert_eq!(found, Vec::from_iter(want), "{name} on {dependency}");
    }

    #[test]
    fn a_dependency_against_the_direction_is_named_with_its_line() {
        check("llm", "agent", Some("crates/llm/Cargo.toml:5: `llm` may not depend on `agent`"));
        check("agent", "cli", Some("crates/agent/Cargo.toml:5: `agent` may not depend on `cli`"));
        check("evals", "cli", Some("crates/evals/Cargo.toml:5: `evals` may not depend on `cli`"));
        check(
            "agent",
            "anyhow",
            Some("crates/agent/Cargo.toml:5: `agent` is a library; anyhow is for the binaries"),
        );
        check(
            "helpers",
            "serde",
            Some(
                "crates/helpers/Cargo.toml:1: `helpers` is not one of the four members of the floor plan",
            ),
        );
    }

    #[test]
    fn a_dependency_along_the_direction_is_fine() {
        check("agent", "llm", None);
        check("cli", "agent", None);
        check("cli", "anyhow", None);
        check("llm", "llm", None);
        check("llm", "serde", None);
    }
}
