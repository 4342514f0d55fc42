//! `tools.jsonl`: the schema of a tool that someone else wrote, and what each target gets of it.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use llm::schema::{SchemaDialect, SchemaError, compile};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::Report;

/// Cases that wait for something, with the reason. None does.
const PENDING: &[(&str, &str)] = &[];

/// A line of the file. The schema is kept as text: one is too deep for the JSON reader.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case<'a> {
    id: String,
    #[serde(borrow)]
    schema: &'a RawValue,
    expect: Value,
    #[serde(rename = "notes")]
    _notes: String,
    #[serde(rename = "topic")]
    _topic: String,
}

/// Drives every case of a folder.
pub(crate) fn run(folder: &Path) -> Report {
    let mut report = Report::default();
    let Ok(lines) = fs::read_to_string(folder.join("tools.jsonl")) else { return report };
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str::<Case<'_>>(line) {
            Ok(case) => report.settle(&case.id, PENDING, drive(&case)),
            Err(error) => report.settle(line, &[], Err(error.to_string())),
        }
    }
    report
}

/// What became of one schema.
struct Compiled<'a> {
    schema: &'a Value,
    full: Result<Value, SchemaError>,
    plain_root: Result<Value, SchemaError>,
    limited: Result<Value, SchemaError>,
}

fn drive(case: &Case<'_>) -> Result<(), String> {
    let schema: Value = match serde_json::from_str(case.schema.get()) {
        Ok(schema) => schema,
        // Whatever brings such a tool cannot read it either.
        Err(_) if case.expect == json!({"no_panic": true}) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let under = |dialect| compile(&schema, dialect).map(Cow::into_owned);
    let compiled = Compiled {
        schema: &schema,
        full: under(SchemaDialect::Full),
        plain_root: under(SchemaDialect::PlainRoot),
        limited: under(SchemaDialect::Limited),
    };
    for (field, want) in case.expect.as_object().ok_or("no expectation")? {
        if !holds(field, want, &compiled)? {
            let Compiled { full, limited, .. } = &compiled;
            return Err(format!("{field}: expected {want}, got {full:?} and {limited:?}"));
        }
    }
    Ok(())
}

fn holds(field: &str, want: &Value, compiled: &Compiled<'_>) -> Result<bool, String> {
    let Compiled { schema, full, plain_root, limited } = compiled;
    let refused = || limited.as_ref().is_err_and(|error| !error.to_string().is_empty());
    Ok(match (field, want.as_str()) {
        ("full_schema", Some("unchanged")) => full.as_ref() == Ok(*schema),
        ("legacy", Some("reject")) => refused(),
        ("legacy", Some("reject_or_inlined")) => {
            refused() || limited.as_ref().is_ok_and(|schema| !has_key(schema, "$ref"))
        }
        ("legacy", Some("const_to_enum_or_reject")) => {
            let constant = json!([schema["properties"]["k"]["const"]]);
            refused() || property(limited, "k").is_some_and(|k| k["enum"] == constant)
        }
        ("legacy", Some("reject_or_kept")) => {
            refused() || property(limited, "n") == Some(&schema["properties"]["n"])
        }
        ("legacy", None) => limited.as_ref() == Ok(want),
        // The place of a refusal, where it is one.
        ("path", Some(path)) => limited.as_ref().err().is_none_or(|error| error.path == path),
        ("properties_kept", _) => everywhere(compiled, |schema| {
            let names: Option<Vec<&String>> =
                schema["properties"].as_object().map(|properties| properties.keys().collect());
            json!(names) == *want
        }),
        ("required_kept", _) => everywhere(compiled, |schema| schema["required"] == *want),
        ("sent_as", _) => everywhere(compiled, |schema| schema == want),
        // The alternative to being sent, which is checked.
        ("or_tool_left_out" | "tool_left_out", _) => *want == true && (refused() || full.is_ok()),
        // A refusal is an error with a text, which whoever leaves the tool out has to pass on.
        ("warns", _) => *want == refused(),
        // Getting here shows it.
        ("no_panic" | "no_infinite_loop", _) => *want == true,
        // About targets that restrict the names of properties or what stands at the root.
        ("some_targets" | "note", Some(_)) => full.is_ok() && plain_root.is_err(),
        (unknown, _) => return Err(format!("the adapter does not know {unknown}: {want}")),
    })
}

/// Whether it holds for every target that takes the schema; only the one with a plain root may not.
fn everywhere(compiled: &Compiled<'_>, holds: impl Fn(&Value) -> bool) -> bool {
    let Compiled { full, plain_root, limited, .. } = compiled;
    plain_root.as_ref().map_or(true, &holds)
        && [full, limited].iter().all(|schema| schema.as_ref().is_ok_and(&holds))
}

fn property<'a>(schema: &'a Result<Value, SchemaError>, name: &str) -> Option<&'a Value> {
    schema.as_ref().ok()?["properties"].get(name)
}

fn has_key(value: &Value, name: &str) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| has_key(item, name)),
        Value::Object(fields) => {
            fields.iter().any(|(key, field)| key == name || has_key(field, name))
        }
        _ => false,
    }
}
