//! `anvil doctor`: what works on this machine and in this folder, and what to do about the rest.

use std::fmt::Write as _;

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) name: &'static str,
    /// How it stands.
    pub(crate) state: State,
    /// What was found.
    pub(crate) text: String,
    /// What a person can do about it.
    pub(crate) remedy: Option<String>,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Works, and a person may want to know.
    Note,
    /// Something will not work until it is mended.
    Problem,
}

impl Check {
    /// Something that is as it should be.
    pub(crate) fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, state: State::Ok, text: text.into(), remedy: None }
    }

    /// Something that works, with what to do if it is not what a person wants.
    pub(crate) fn note(
        name: &'static str,
        text: impl Into<String>,
        remedy: impl Into<Option<String>>,
    ) -> Self {
        Self { name, state: State::Note, text: text.into(), remedy: remedy.into() }
    }

    /// Something that does not work, with what to do.
    pub(crate) fn problem(
        name: &'static str,
        text: impl Into<String>,
        remedy: impl Into<Option<String>>,
    ) -> Self {
        Self { name, state: State::Problem, text: text.into(), remedy: remedy.into() }
    }
}

/// Whether something will not work.
pub(crate) fn has_problem(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.state == State::Problem)
}

/// The checks for a person, one line each and the remedy below it.
pub(crate) fn page(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let mut page = String::new();
    for Check { name, state, text, remedy } in checks {
        let state = match state {
            State::Ok => "ok",
            State::Note => "note",
            State::Problem => "PROBLEM",
        };
        // A fault in a file comes with the line that has it.
        let text = text.replace('\n', &format!("\n{:<8} {:<width$}  ", "", ""));
        writeln!(page, "{state:<8} {name:<width$}  {text}").expect("a text takes everything");
        if let Some(remedy) = remedy {
            writeln!(page, "{:<8} {:<width$}  -> {remedy}", "", "")
                .expect("a text takes everything");
        }
    }
    page
}

/// The checks for a program: one object.
pub(crate) fn json(checks: &[Check]) -> String {
    let object = serde_json::json!({ "schema_version": 1, "checks": checks });
    object.to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_stands_out_and_its_remedy_stands_below() {
        let checks = [
            Check::ok("git", "2.47.3"),
            Check::problem("sandbox", "bubblewrap is not installed", "install it".to_owned()),
        ];
        assert_eq!(
            page(&checks),
            "ok       git      2.47.3\n\
             PROBLEM  sandbox  bubblewrap is not installed\n\
             \x20                 -> install it\n"
        );
        assert!(has_problem(&checks) && !has_problem(&checks[..1]));
        let told: serde_json::Value = serde_json::from_str(&json(&checks)).unwrap();
        assert_eq!(told["checks"][1]["state"], "problem");
        assert_eq!(told["checks"][0]["remedy"], serde_json::Value::Null);
    }
}
