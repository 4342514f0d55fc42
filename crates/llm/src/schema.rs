//! Fits the schema of a tool's arguments to what a target takes, or refuses it with the place; pure.
//!
//! A target that takes JSON Schema gets the schema as it is. One that takes only a subset gets an
//! equal schema in that subset; what has no equal there is refused, because a schema that quietly
//! says less makes the model send arguments that the tool then refuses.

mod limited;
mod refs;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What a target takes as the schema of a tool's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SchemaDialect {
    /// JSON Schema.
    #[default]
    Full,
    /// JSON Schema below a root that is a plain object: nothing is composed there, and the names of
    /// its properties have at most 64 letters, digits, `_`, `.` and `-`. One tool that differs makes
    /// the service refuse the whole request.
    PlainRoot,
    /// The subset that older Gemini targets take, after OpenAPI 3.0: one type a place with `nullable`
    /// beside it, enumerations of strings, no references, no unions.
    Limited,
}

/// Why a target cannot take a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its schema cannot be sent: {} {reason}", place(path))]
pub struct SchemaError {
    /// The place as a JSON pointer into the schema, references followed; empty for the root.
    pub path: String,
    /// What is wrong there, as the end of a sentence about the place.
    pub reason: String,
}

impl SchemaError {
    fn new(path: &str, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }
}

fn place(path: &str) -> &str {
    if path.is_empty() { "the root" } else { path }
}

/// The schema as a target of this dialect takes it.
///
/// Arguments are always an object, so a root that leaves its type or its properties open gets them:
/// servers refuse a root without them.
///
/// # Errors
/// Where and why the dialect has no equal schema.
pub fn compile(schema: &Value, dialect: SchemaDialect) -> Result<Cow<'_, Value>, SchemaError> {
    let Some(fields) = schema.as_object() else {
        return Err(SchemaError::new("", "is no object"));
    };
    if !may_be_object(fields) {
        return Err(SchemaError::new("", "does not describe an object"));
    }
    let schema = match object_root(fields) {
        Some(root) => Cow::Owned(root),
        None => Cow::Borrowed(schema),
    };
    match dialect {
        SchemaDialect::Full => Ok(schema),
        SchemaDialect::PlainRoot => plain_root(&schema).map(|()| schema),
        SchemaDialect::Limited => limited::compile(&schema).map(Cow::Owned),
    }
}

fn may_be_object(root: &Map<String, Value>) -> bool {
    match root.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => true,
    }
}

/// Keywords that say elsewhere what a place is.
const ELSEWHERE: &[&str] =
    &["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "enum", "const"];

fn plain_root(root: &Value) -> Result<(), SchemaError> {
    if let Some(keyword) = ELSEWHERE.iter().find(|keyword| root.get(**keyword).is_some()) {
        return Err(SchemaError::new(&below("", keyword), "is not supported at the root"));
    }
    let is_plain = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        (1..=64).contains(&name.len()) && name.bytes().all(plain)
    };
    let mut names = root["properties"].as_object().into_iter().flat_map(Map::keys);
    match names.find(|name| !is_plain(name)) {
        Some(name) => {
            let reason = "has a name that is not supported";
            Err(SchemaError::new(&below("/properties", name), reason))
        }
        None => Ok(()),
    }
}

/// The JSON pointer to `name` below `path`.
fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The root with the type and the properties that it leaves open; `None` when it says enough.
fn object_root(root: &Map<String, Value>) -> Option<Value> {
    let told = |field: &str| root.get(field).is_some_and(|value| !value.is_null());
    let elsewhere = ELSEWHERE.iter().any(|field| told(field));
    // A null is sound nowhere; an absent field only where another one stands in for it.
    let lacks = |field: &str| !told(field) && (!elsewhere || root.contains_key(field));
    let (lacks_type, lacks_properties) = (lacks("type"), lacks("properties"));
    if !lacks_type && !lacks_properties {
        return None;
    }
    let mut fixed = Map::new();
    if lacks_type {
        fixed.insert("type".to_owned(), json!("object"));
    }
    let kept = root.iter().filter(|(name, _)| !lacks(name));
    fixed.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    if lacks_properties {
        fixed.insert("properties".to_owned(), json!({}));
    }
    Some(Value::Object(fixed))
}

#[cfg(test)]
mod tests;
