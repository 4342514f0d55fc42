//! Ties a person's yes to the very call that was shown: one number over all that was asked about and
//! all that would run. [pure]

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::digest::{Digest, Hasher};
use crate::tool::{Effects, Grants};

/// The number. Two calls have the same one only if nothing that matters differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Binding(Digest);

/// All that a question is about.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'a> {
    /// The call's id.
    pub call_id: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// Its arguments.
    pub args: &'a Value,
    /// Where it would run.
    pub cwd: &'a Path,
    /// What it may touch.
    pub effects: &'a Effects,
    /// What a yes opens.
    pub grants: &'a Grants,
    /// The policy's [revision](crate::Policy::revision).
    pub revision: u64,
    /// What was shown of what it would do.
    pub preview: Option<&'a str>,
}

impl Binding {
    /// The number of a question.
    pub fn of(bound: &Bound<'_>) -> Self {
        let Bound { call_id, tool, args, cwd, effects, grants, revision, preview } = bound;
        let mut hasher = Hasher::default();
        hasher.part(call_id.as_bytes());
        hasher.part(tool.as_bytes());
        hasher.part(canonical(args).as_bytes());
        hasher.part(cwd.as_os_str().as_encoded_bytes());
        hasher.part(format!("{effects:?}").as_bytes());
        hasher.part(format!("{grants:?}").as_bytes());
        hasher.part(&revision.to_le_bytes());
        hasher.part(&[u8::from(preview.is_some())]);
        hasher.part(preview.unwrap_or_default().as_bytes());
        Self(hasher.finish())
    }
}

/// The value as JSON with the keys of each object in order: the same arguments are the same text.
fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in fields {
                write!(out, "{}:", Value::from(key.as_str())).expect("a String takes every write");
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        other => write!(out, "{other}").expect("a String takes every write"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::{GrantedPath, PathSet};

    #[test]
    fn every_part_of_a_question_counts_and_the_order_of_arguments_does_not() {
        let args = json!({"command": "ls", "more": [{"b": 1, "a": 2}]});
        let (effects, grants) = (Effects::command(), Grants::default());
        let asked = Bound {
            call_id: "1",
            tool: "bash",
            args: &args,
            cwd: Path::new("/w"),
            effects: &effects,
            grants: &grants,
            revision: 3,
            preview: None,
        };
        let other_args = json!({"command": "ls ", "more": [{"b": 1, "a": 2}]});
        let other_effects = Effects::writes(PathSet::Workspace);
        let path = GrantedPath { path: "/etc".into(), write: false };
        let other_grants = Grants { paths: vec![path], ..Grants::default() };
        let others = [
            Bound { call_id: "2", ..asked },
            Bound { tool: "bush", ..asked },
            Bound { args: &other_args, ..asked },
            Bound { cwd: Path::new("/v"), ..asked },
            Bound { effects: &other_effects, ..asked },
            Bound { grants: &other_grants, ..asked },
            Bound { revision: 4, ..asked },
            Bound { preview: Some(""), ..asked },
        ];
        for other in others {
            assert_ne!(Binding::of(&asked), Binding::of(&other), "{other:?}");
        }
        let same = json!({"more": [{"a": 2, "b": 1}], "command": "ls"});
        assert_eq!(Binding::of(&asked), Binding::of(&Bound { args: &same, ..asked }));
    }
}
