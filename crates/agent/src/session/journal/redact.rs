//! Takes secrets out of a line before it is written.
//!
//! What only a provider can read stays byte for byte, even where it looks like a secret: sealed bytes may
//! look like anything. But where a secret stood in what an assistant's message says openly, the message is
//! not any more what its provider sealed. It is then marked as said by nobody that is asked again, so that
//! it goes on as plain words, and nothing in it is spared.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::secrets::Redactor;
use crate::session::record;

/// Fields of a record that are compared byte for byte later.
const COMPARED: [&str; 6] = ["id", "call_id", "call_ids", "digest", "before", "after"];

/// What only a provider can read.
const SEALED: &str = "meta";

/// Fields that hold whatever a model or a tool made up: their names inside mean nothing to a record.
const FREE: [&str; 3] = ["arguments", "todos", "data"];

/// In the place of the author of a message that was sealed and is not whole any more.
const NOBODY: &str = "redacted";

/// Redacts the line that begins at `start` and ends `out`.
pub(super) fn line(out: &mut Vec<u8>, start: usize, redactor: &Redactor) {
    let Ok(text) = std::str::from_utf8(&out[start..]) else { return };
    // Nearly every line has nothing to take out, and then it is not taken apart.
    let Cow::Owned(plain) = redactor.redact(text) else { return };
    let clean = match record::parse::<Value>(text.as_bytes()) {
        Ok(mut value) => {
            within(&mut value, redactor);
            value.to_string() + "\n"
        }
        // Rather a line that may not be read again than a secret in it.
        Err(_) => plain,
    };
    out.truncate(start);
    out.extend_from_slice(clean.as_bytes());
}

/// Redacts a record or a part of one. Returns whether anything was taken out.
fn within(value: &mut Value, redactor: &Redactor) -> bool {
    match value {
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, item| within(item, redactor) | found)
        }
        Value::Object(fields) => {
            let mut found = false;
            for (name, field) in fields.iter_mut() {
                found |= match name.as_str() {
                    SEALED => false,
                    name if COMPARED.contains(&name) => false,
                    name if FREE.contains(&name) => everywhere(field, redactor),
                    _ => within(field, redactor),
                };
            }
            if found && is_sealed(fields) {
                unseal(fields, redactor);
            }
            found
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
            everywhere(value, redactor)
        }
    }
}

/// Redacts every text in a value, names of fields too.
fn everywhere(value: &mut Value, redactor: &Redactor) -> bool {
    match value {
        Value::String(text) => match redactor.redact(text) {
            Cow::Owned(clean) => {
                *text = clean;
                true
            }
            Cow::Borrowed(_) => false,
        },
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, item| everywhere(item, redactor) | found)
        }
        Value::Object(fields) => {
            let mut found = false;
            let each = std::mem::take(fields).into_iter();
            *fields = each
                .map(|(name, mut field)| {
                    found |= everywhere(&mut field, redactor);
                    let clean = redactor.redact_owned(name.clone());
                    found |= clean != name;
                    (clean, field)
                })
                .collect();
            found
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether it is a message with something in it that only a provider can read.
fn is_sealed(fields: &Map<String, Value>) -> bool {
    let blocks = fields.get("content").and_then(Value::as_array);
    fields.get("role").is_some_and(|role| role == "assistant")
        && blocks.is_some_and(|blocks| {
            blocks.iter().any(|block| block.get(SEALED).is_some_and(|meta| !meta.is_null()))
        })
}

fn unseal(message: &mut Map<String, Value>, redactor: &Redactor) {
    message.insert("author".to_owned(), NOBODY.into());
    let blocks = message.get_mut("content").and_then(Value::as_array_mut);
    for data in blocks.into_iter().flatten().filter_map(|block| block.get_mut(SEALED)) {
        everywhere(data, redactor);
    }
}
