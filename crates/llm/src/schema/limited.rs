//! JSON Schema → the subset after OpenAPI 3.0; pure.
//!
//! Kept: one `type` a place (`null` beside it becomes `nullable`), `properties`, `required`, `items`,
//! enumerations and constants of strings, bounds, `pattern`, `description`, the formats that the
//! subset names. References are replaced by what they stand for. Left out is what says nothing
//! about which arguments are sound (titles, defaults, examples, comments, unknown formats) and
//! `additionalProperties` as a yes or no: undeclared properties are the tool's to refuse. Everything
//! else is refused.

use serde_json::{Map, Value, json};

use super::refs::Walk;
use super::{SchemaError, below};

/// Keywords that say nothing about which arguments are sound.
const ANNOTATIONS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "default",
    "definitions",
    "deprecated",
    "description",
    "example",
    "examples",
    "format",
    "readOnly",
    "title",
    "writeOnly",
];

/// Keywords that are read by name below.
const READ: &[&str] = &[
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "items",
    "nullable",
    "oneOf",
    "properties",
    "required",
    "type",
];

/// Keywords that lead to another layer; each layer has its own.
const STRUCTURE: &[&str] = &["$ref", "allOf", "anyOf", "oneOf", "nullable"];

/// More schemas than any tool has joined at one place.
const MAX_LAYERS: usize = 32;

/// The whole schema in the subset.
pub(super) fn compile(root: &Value) -> Result<Value, SchemaError> {
    place(&mut Walk::new(root), root, "")
}

/// One place of the schema.
fn place<'a>(walk: &mut Walk<'a>, schema: &'a Value, path: &str) -> Result<Value, SchemaError> {
    walk.enter(path, |walk| {
        let mut said = Said::default();
        said.gather(walk, schema, path)?;
        said.refuse_unknown(path)?;
        let kind = said.kind(path)?;
        let mut out = Map::new();
        out.insert("type".to_owned(), json!(kind.name));
        if said.nullable {
            out.insert("nullable".to_owned(), json!(true));
        }
        out.extend(said.kept(walk, "description", path)?);
        let format = said.get("format").and_then(Value::as_str).unwrap_or_default();
        if kind.formats.contains(&format) {
            out.insert("format".to_owned(), json!(format));
        }
        for bound in kind.bounds {
            out.extend(said.kept(walk, bound, path)?);
        }
        match kind.name {
            "object" => object(walk, &said, path, &mut out)?,
            "array" => {
                let items = said.get("items").filter(|items| items.is_object());
                let Some(items) = items else {
                    return Err(SchemaError::new(path, "is a list whose items have no schema"));
                };
                out.insert("items".to_owned(), place(walk, items, &below(path, "items"))?);
            }
            _ => out.extend(said.choices(walk, kind, path)?),
        }
        Ok(Value::Object(out))
    })
}

fn object<'a>(
    walk: &mut Walk<'a>,
    said: &Said<'a>,
    path: &str,
    out: &mut Map<String, Value>,
) -> Result<(), SchemaError> {
    match said.get("additionalProperties") {
        None | Some(Value::Bool(_)) => {}
        Some(Value::Object(any)) if any.is_empty() => {}
        Some(_) => {
            let path = below(path, "additionalProperties");
            return Err(SchemaError::new(&path, "has a schema, which is not supported there"));
        }
    }
    let mut properties = Map::new();
    if let Some(told) = said.get("properties") {
        let path = below(path, "properties");
        let Some(told) = told.as_object() else {
            return Err(SchemaError::new(&path, "is no object"));
        };
        for (name, schema) in told {
            properties.insert(name.clone(), place(walk, schema, &below(&path, name))?);
        }
    }
    if let Some((name, required)) = said.kept(walk, "required", path)? {
        let known =
            |entry: &Value| entry.as_str().is_some_and(|name| properties.contains_key(name));
        if !required.as_array().is_some_and(|entries| entries.iter().all(known)) {
            let reason = "names something else than properties of this place";
            return Err(SchemaError::new(&below(path, "required"), reason));
        }
        out.insert(name, required);
    }
    out.insert("properties".to_owned(), Value::Object(properties));
    Ok(())
}

/// A type of the subset, and what may be said about its values.
struct Kind {
    name: &'static str,
    /// Go along unchanged.
    bounds: &'static [&'static str],
    /// Servers refuse others.
    formats: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind { name: "object", bounds: &["minProperties", "maxProperties"], formats: &[] },
    Kind { name: "array", bounds: &["minItems", "maxItems"], formats: &[] },
    Kind {
        name: "string",
        bounds: &["minLength", "maxLength", "pattern"],
        formats: &["date-time"],
    },
    Kind { name: "integer", bounds: &["minimum", "maximum"], formats: &["int32", "int64"] },
    Kind { name: "number", bounds: &["minimum", "maximum"], formats: &["float", "double"] },
    Kind { name: "boolean", bounds: &[], formats: &[] },
];

/// Everything that is said about one place: by its own schema, then by those it refers to.
#[derive(Default)]
struct Said<'a> {
    layers: Vec<&'a Map<String, Value>>,
    nullable: bool,
}

impl<'a> Said<'a> {
    fn gather(
        &mut self,
        walk: &mut Walk<'a>,
        schema: &'a Value,
        path: &str,
    ) -> Result<(), SchemaError> {
        let Some(layer) = schema.as_object() else {
            return Err(SchemaError::new(path, "is no object with a type"));
        };
        if self.layers.len() == MAX_LAYERS {
            return Err(SchemaError::new(path, "lies behind too many references"));
        }
        self.layers.push(layer);
        self.nullable |= layer.get("nullable") == Some(&Value::Bool(true));
        if let Some(reference) = layer.get("$ref") {
            let target = walk.follow(reference, path)?;
            self.gather(walk, target, path)?;
        }
        if let Some(all) = layer.get("allOf") {
            match all.as_array().map(Vec::as_slice) {
                Some([one]) => self.gather(walk, one, path)?,
                _ => {
                    let reason = "joins several schemas, which is not supported";
                    return Err(SchemaError::new(&below(path, "allOf"), reason));
                }
            }
        }
        for name in ["anyOf", "oneOf"] {
            let Some(union) = layer.get(name) else { continue };
            let entries = union.as_array().map_or(&[][..], Vec::as_slice);
            let (nulls, rest): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| is_null(entry));
            let [one] = rest[..] else {
                let reason = "is a union, which is not supported";
                return Err(SchemaError::new(&below(path, name), reason));
            };
            self.nullable |= !nulls.is_empty();
            self.gather(walk, one, path)?;
        }
        Ok(())
    }

    /// What the nearest layer says.
    fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.layers.iter().find_map(|layer| layer.get(keyword))
    }

    /// The same as a field of the result.
    fn kept(
        &self,
        walk: &mut Walk<'a>,
        keyword: &str,
        path: &str,
    ) -> Result<Option<(String, Value)>, SchemaError> {
        let Some(value) = self.get(keyword) else { return Ok(None) };
        walk.spend(keyword.len() + bytes(value), path)?;
        Ok(Some((keyword.to_owned(), value.clone())))
    }

    /// Refuses keywords that the subset has nothing for, and two layers that both restrict.
    fn refuse_unknown(&self, path: &str) -> Result<(), SchemaError> {
        for (at, layer) in self.layers.iter().enumerate() {
            for (keyword, value) in *layer {
                if ANNOTATIONS.contains(&keyword.as_str()) || keyword.starts_with("x-") {
                    continue;
                }
                let bound = KINDS.iter().any(|kind| kind.bounds.contains(&keyword.as_str()));
                if !bound && !READ.contains(&keyword.as_str()) {
                    return Err(SchemaError::new(&below(path, keyword), "is not supported"));
                }
                let other = self.layers[at + 1..].iter().find_map(|layer| layer.get(keyword));
                let differs = |other: &Value| !value.is_string() || other != value;
                if !STRUCTURE.contains(&keyword.as_str()) && other.is_some_and(differs) {
                    let reason = "restricts what is referred to, which is not supported";
                    return Err(SchemaError::new(&below(path, keyword), reason));
                }
            }
        }
        Ok(())
    }

    /// The type; what else the place may be is refused, except null.
    fn kind(&mut self, path: &str) -> Result<&'static Kind, SchemaError> {
        let choices = self.get("enum").or(self.get("const"));
        let names: Vec<&str> = match (self.get("type"), choices) {
            (Some(Value::String(name)), _) => vec![name],
            (Some(Value::Array(names)), _) => names.iter().filter_map(Value::as_str).collect(),
            (Some(_), _) => Vec::new(),
            // Choices that are all strings say the type; others are refused later.
            (None, Some(_)) => vec!["string", "null"],
            (None, None) => return Err(SchemaError::new(path, "has no type")),
        };
        let (nulls, rest): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| **name == "null");
        let named = |choices: &Value| choices.as_array().is_some_and(|c| c.contains(&Value::Null));
        self.nullable |= !nulls.is_empty() && choices.is_none_or(named);
        let path = below(path, "type");
        match rest[..] {
            [one] => KINDS
                .iter()
                .find(|kind| kind.name == one)
                .ok_or_else(|| SchemaError::new(&path, format!("is the unknown type {one:?}"))),
            [] => Err(SchemaError::new(&path, "names no type but null")),
            _ => Err(SchemaError::new(&path, "is a union, which is not supported")),
        }
    }

    /// The values that a place may have, when it names them.
    fn choices(
        &self,
        walk: &mut Walk<'a>,
        kind: &Kind,
        path: &str,
    ) -> Result<Option<(String, Value)>, SchemaError> {
        let keyword = if self.get("const").is_some() { "const" } else { "enum" };
        let Some((_, told)) = self.kept(walk, keyword, path)? else { return Ok(None) };
        let mut choices = match (keyword, told) {
            ("enum", Value::Array(list)) => list,
            (_, only) => vec![only],
        };
        choices.retain(|choice| !choice.is_null());
        let strings = !choices.is_empty() && choices.iter().all(Value::is_string);
        if kind.name != "string" || !strings {
            let reason = "names other values than strings, which is not supported";
            return Err(SchemaError::new(&below(path, keyword), reason));
        }
        Ok(Some(("enum".to_owned(), Value::Array(choices))))
    }
}

/// Roughly what a copy of a value takes.
fn bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(|entry| size_of::<Value>() + bytes(entry)).sum(),
        _ => size_of::<Value>(),
    }
}

/// Whether a schema is for null alone.
fn is_null(schema: &Value) -> bool {
    schema["type"] == "null" || schema["const"].is_null() && schema.get("const").is_some()
}
