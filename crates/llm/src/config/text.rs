//! The text of a file → its values with their lines, or the place of the first fault.

use std::fmt;
use std::ops::Range;

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::{self, ConfigFile};
use super::key::{Key, nearest};
use super::origin::Origin;
use crate::capability::{self, PRESETS, TargetOverrides};

/// Something wrong at a place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, as it was named.
    pub file: String,
    /// Counted from 1; 0 when the file could not be read at all.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl Fault {
    /// A file that could not be read.
    pub fn unreadable(file: &str, message: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: 0, column: 0, message: message.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message),
        }
    }
}

/// One value of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// Where it stands.
    pub key: Key,
    /// The line of its key, counted from 1.
    pub line: usize,
    /// The value. Lists and prices are values as a whole.
    pub value: Value,
    /// Where the rules in it stand, in their order; empty for all other values.
    pub spots: Vec<Spot>,
}

/// Where a text of a file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
}

/// A file that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The file, as it was named.
    pub file: String,
    /// Its values, in the order of their keys.
    pub leaves: Vec<Leaf>,
    /// Keys that mean nothing, each with the known one that is nearest.
    pub unknown: Vec<Fault>,
}

/// Most values, and most unknown keys, of one file. People write some dozens; a clone that holds a
/// hundred thousand must not keep anvil busy.
const MAX_VALUES: usize = 10_000;

/// Longest name of a table, a key or a model, in bytes. Names are shown in tables and sentences.
const MAX_NAME: usize = 256;

/// Reads a file.
///
/// # Errors
/// The first fault: bad syntax, more than 10,000 values, a value of another type than its key takes, an
/// address that is none.
pub fn parse(file: &str, text: &str) -> Result<Parsed, Fault> {
    let reader = Reader::new(file, text);
    let document = DeTable::parse(text).map_err(|error| reader.fault(&error))?;
    ConfigFile::deserialize(toml::de::Deserializer::from(document.clone()))
        .map_err(|error| reader.fault(&error))?;
    let mut found = Found::default();
    reader.table(reader.known.root, document.get_ref(), &Key::default(), &mut found)?;
    reader.check_values(document.get_ref())?;
    let Found { mut leaves, unknown } = found;
    leaves.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(Parsed { file: file.to_owned(), leaves, unknown })
}

/// What a file holds, in its own order.
#[derive(Default)]
struct Found {
    leaves: Vec<Leaf>,
    unknown: Vec<Fault>,
}

/// The keys that the schema knows.
#[derive(Clone, Copy)]
struct Known<'a> {
    root: &'a Value,
}

impl<'a> Known<'a> {
    /// The parts of a schema after its references: more than one where it is a choice.
    fn parts(self, schema: &'a Value) -> Vec<&'a Value> {
        if let Some(path) = schema["$ref"].as_str() {
            let target = self.root.pointer(path.trim_start_matches('#'));
            return target.map(|target| self.parts(target)).unwrap_or_default();
        }
        match schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            Some(choices) => choices.iter().flat_map(|choice| self.parts(choice)).collect(),
            None => vec![schema],
        }
    }

    /// The schema of the value called `name`, if the table knows the name.
    fn value(self, table: &'a Value, name: &str) -> Option<&'a Value> {
        self.parts(table).into_iter().find_map(|part| {
            let named = part["properties"].get(name);
            named.or_else(|| part.get("additionalProperties").filter(|any| any.is_object()))
        })
    }

    fn names(self, table: &'a Value) -> impl Iterator<Item = &'a str> {
        let tables = self.parts(table).into_iter();
        tables
            .filter_map(|part| part["properties"].as_object())
            .flat_map(Map::keys)
            .map(String::as_str)
    }

    fn items(self, list: &'a Value) -> Option<&'a Value> {
        self.parts(list).into_iter().find_map(|part| part.get("items"))
    }
}

/// One file, and the keys that it may hold.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// The byte at which each line begins.
    line_starts: Vec<usize>,
    known: Known<'static>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str, text: &'a str) -> Self {
        let line_starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(line_starts).collect();
        Self { file, text, line_starts, known: Known { root: file::json_schema() } }
    }

    fn at(&self, span: Range<usize>, message: String) -> Fault {
        let (line, column) = self.place(span.start);
        Fault { file: self.file.to_owned(), line, column, message }
    }

    fn fault(&self, error: &toml::de::Error) -> Fault {
        let span = error.span().unwrap_or(0..0);
        self.at(span, in_plain_words(error.message()))
    }

    /// The line of a byte.
    fn line(&self, byte: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= byte)
    }

    /// Line and column of a byte.
    fn place(&self, byte: usize) -> (usize, usize) {
        let line = self.line(byte);
        let in_line = self.line_starts.get(line - 1).and_then(|start| self.text.get(*start..byte));
        (line, in_line.unwrap_or_default().chars().count() + 1)
    }

    /// Finds the values of a table and of those in it.
    fn table(
        &self,
        schema: &'static Value,
        table: &DeTable<'_>,
        at: &Key,
        found: &mut Found,
    ) -> Result<(), Fault> {
        for (name, value) in table {
            if found.leaves.len().max(found.unknown.len()) >= MAX_VALUES {
                let message = format!("there are more than {MAX_VALUES} values");
                return Err(self.at(name.span(), message));
            }
            self.check_name(name.get_ref(), name.span())?;
            let key = at.child(name.get_ref());
            let Some(schema) = self.known.value(schema, name.get_ref()) else {
                found.unknown.push(self.unknown(&key, name, self.known.names(schema)));
                continue;
            };
            match value.get_ref() {
                DeValue::Table(inner) if !is_whole(&key) => {
                    self.table(schema, inner, &key, found)?;
                }
                whole => {
                    self.unknown_inside(schema, whole, &key, &mut found.unknown)?;
                    self.check_numbers(value)?;
                    let line = self.line(name.span().start);
                    let spots = self.spots(&key, whole);
                    found.leaves.push(Leaf { key, line, value: to_json(whole), spots });
                }
            }
        }
        Ok(())
    }

    /// Where the rules of a list stand. What is wrong with one is found by whoever knows the tools.
    fn spots(&self, key: &Key, value: &DeValue<'_>) -> Vec<Spot> {
        let (true, Some(items)) = (is_rules(key), value.as_array()) else { return Vec::new() };
        let rule = |item: &Spanned<DeValue<'_>>| {
            let rule = item.get_ref().as_table().and_then(|table| table.get("rule"));
            let (span, is_text) = match rule {
                Some(rule) => (rule.span(), rule.get_ref().is_str()),
                None => (item.span(), item.get_ref().is_str()),
            };
            let quotes = self.text.get(span.clone()).map_or(0, |text| match text {
                _ if !is_text => 0,
                _ if text.starts_with("\"\"\"") || text.starts_with("'''") => 3,
                _ => 1,
            });
            let (line, column) = self.place(span.start + quotes);
            Spot { line, column }
        };
        items.iter().map(rule).collect()
    }

    fn check_name(&self, name: &str, span: Range<usize>) -> Result<(), Fault> {
        match name.len() > MAX_NAME {
            true => Err(self.at(span, format!("this name is longer than {MAX_NAME} bytes"))),
            false => Ok(()),
        }
    }

    /// Refuses numbers that the layers cannot hold.
    fn check_numbers(&self, value: &Spanned<DeValue<'_>>) -> Result<(), Fault> {
        let is_number = match value.get_ref() {
            DeValue::Array(items) => {
                return items.iter().try_for_each(|item| self.check_numbers(item));
            }
            DeValue::Table(table) => {
                return table.values().try_for_each(|item| self.check_numbers(item));
            }
            whole @ (DeValue::Integer(_) | DeValue::Float(_)) => to_json(whole).is_number(),
            DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => true,
        };
        match is_number {
            true => Ok(()),
            false => Err(self.at(value.span(), "this number is out of range".to_owned())),
        }
    }

    /// Looks for unknown keys in tables that are part of a value.
    fn unknown_inside(
        &self,
        schema: &'static Value,
        value: &DeValue<'_>,
        key: &Key,
        unknown: &mut Vec<Fault>,
    ) -> Result<(), Fault> {
        // The value counts as a whole, so what stands in it is no value of its own.
        let mut inside = Found { leaves: Vec::new(), unknown: std::mem::take(unknown) };
        match (value, self.known.items(schema)) {
            (DeValue::Table(table), _) => self.table(schema, table, key, &mut inside)?,
            (DeValue::Array(items), Some(schema)) => {
                for item in items.iter().filter_map(|item| item.get_ref().as_table()) {
                    self.table(schema, item, key, &mut inside)?;
                }
            }
            _ => {}
        }
        *unknown = inside.unknown;
        Ok(())
    }

    fn unknown<'k>(
        &self,
        key: &Key,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        known: impl Iterator<Item = &'k str>,
    ) -> Fault {
        let hint = match nearest(name.get_ref(), known) {
            Some(near) => format!(": did you mean '{near}'?"),
            None => String::new(),
        };
        self.at(name.span(), format!("unknown key '{key}'{hint}"))
    }

    /// What a type cannot say.
    fn check_values(&self, document: &DeTable<'_>) -> Result<(), Fault> {
        let table = |name: &str| document.get(name).and_then(|value| value.get_ref().as_table());
        for provider in table("providers").into_iter().flat_map(DeTable::values) {
            let Some(entry) = provider.get_ref().as_table() else { continue };
            TargetOverrides::deserialize(provider.clone().into_deserializer())
                .map_err(|error| self.fault(&error))?;
            if let Some(address) = entry.get("base_url")
                && let Some(Err(why)) = address.get_ref().as_str().map(Origin::of)
            {
                return Err(self.at(address.span(), format!("base_url: {why}")));
            }
            if let Some(variable) = entry.get("api_key_env")
                && variable.get_ref().as_str().is_some_and(|text| !is_variable(text))
            {
                // What was written is a key more often than not, so it is not repeated.
                let message = "api_key_env is the name of the environment variable that holds the \
                               key, not the key";
                return Err(self.at(variable.span(), message.to_owned()));
            }
            if let Some(name) = entry.get("preset")
                && let Some(text) = name.get_ref().as_str()
                && capability::preset(text).is_none()
            {
                let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                let message =
                    format!("unknown preset '{text}', expected one of {}", known.join(", "));
                return Err(self.at(name.span(), message));
            }
        }
        for model in table("models").into_iter().flat_map(DeTable::values) {
            let Some(entry) = model.get_ref().as_table() else { continue };
            for name in ["provider", "id"].into_iter().filter_map(|field| entry.get(field)) {
                self.check_name(name.get_ref().as_str().unwrap_or_default(), name.span())?;
            }
            let number = |value: &DeValue<'_>| to_json(value).as_f64().unwrap_or(1.0);
            if let Some(context) = entry.get("context")
                && number(context.get_ref()) == 0.0
            {
                return Err(self.at(context.span(), "context is at least 1".to_owned()));
            }
            let price = entry.get("price").and_then(|price| price.get_ref().as_table());
            let mut parts = price.into_iter().flat_map(DeTable::iter);
            if let Some((name, part)) = parts.find(|(_, part)| number(part.get_ref()) < 0.0) {
                let message = format!("{} is a price, from 0", name.get_ref());
                return Err(self.at(part.span(), message));
            }
        }
        if let Some(name) = document.get("default_model") {
            self.check_name(name.get_ref().as_str().unwrap_or_default(), name.span())?;
        }
        if let Some(share) = table("agent").and_then(|agent| agent.get("compact_at"))
            && let Some(number) = to_json(share.get_ref()).as_f64()
            && !(0.1..=1.0).contains(&number)
        {
            return Err(self.at(share.span(), "compact_at is a share from 0.1 to 1".to_owned()));
        }
        Ok(())
    }
}

/// Lists of permission rules.
fn is_rules(key: &Key) -> bool {
    matches!(key.names()[..], ["permissions", "allow" | "ask" | "deny"])
}

/// Tables that one layer sets as a whole: half a price of one list and half of another is none.
fn is_whole(key: &Key) -> bool {
    matches!(key.names()[..], ["models", _, "price"])
}

/// Whether a text can be the name of an environment variable and does not look like a key: keys are
/// long and mix small letters, capitals and digits.
fn is_variable(text: &str) -> bool {
    let has = |of: fn(&char) -> bool| text.chars().any(|c| of(&c));
    let is_name = !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    let is_mixed = has(char::is_ascii_lowercase) && has(char::is_ascii_digit);
    is_name && !(text.len() >= 20 && is_mixed)
}

/// The parser speaks of the types of its own language.
fn in_plain_words(message: &str) -> String {
    let message = match message.split_once("struct ") {
        Some((before, name)) => {
            let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
            format!("{before}a table{}", &name[end..])
        }
        None => message.to_owned(),
    };
    let words = [
        ("invalid type: map", "invalid type: a table"),
        ("invalid type: sequence", "invalid type: a list"),
        ("a sequence", "a list"),
        ("a map", "a table"),
        ("a nonzero u32", "a whole number from 1"),
        ("u32", "a whole number"),
        ("u64", "a whole number"),
        ("f64", "a number"),
    ];
    words.iter().fold(message, |text, (theirs, ours)| text.replace(theirs, ours))
}

fn to_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            let digits = number.as_str();
            let parsed = i64::from_str_radix(digits, number.radix());
            parsed.map_or_else(|_| Value::from(digits), Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(value) => Value::from(*value),
        DeValue::Datetime(moment) => Value::from(moment.to_string()),
        DeValue::Array(items) => items.iter().map(|item| to_json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let pairs = table.iter();
            let object =
                pairs.map(|(name, value)| (name.get_ref().to_string(), to_json(value.get_ref())));
            Value::Object(object.collect())
        }
    }
}

#[cfg(test)]
mod tests;
