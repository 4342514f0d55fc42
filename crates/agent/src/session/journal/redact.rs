//! Takes secrets out of a line before it is written.

use serde_json::Value;

use crate::secrets::Redactor;

/// Fields that are compared byte for byte later, or that only a provider can read.
const UNTOUCHED: [&str; 7] = ["meta", "id", "call_id", "call_ids", "digest", "before", "after"];

/// Redacts the line that begins at `start` and ends `out`.
pub(super) fn line(out: &mut Vec<u8>, start: usize, redactor: &Redactor) {
    let Ok(text) = std::str::from_utf8(&out[start..]) else { return };
    // Nearly every line has nothing to take out, and then it is not taken apart.
    if matches!(redactor.redact(text), std::borrow::Cow::Borrowed(_)) {
        return;
    }
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return };
    within(&mut value, redactor);
    out.truncate(start);
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'\n');
}

fn within(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => {
            if let std::borrow::Cow::Owned(clean) = redactor.redact(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| within(item, redactor)),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if !UNTOUCHED.contains(&name.as_str()) {
                    within(field, redactor);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
