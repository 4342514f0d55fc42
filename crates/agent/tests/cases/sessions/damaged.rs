//! What a case does to the file of its session.

use std::fs;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use serde_json::{Value, json};

use super::Damage;
use super::written::Written;

impl Written {
    /// Does to the file what a case says. False where that is no matter of the file.
    pub(super) fn damage(&self, damage: &Damage) -> bool {
        let mut bytes = self.bytes();
        let decoded = |b64: &str| base64::engine::general_purpose::STANDARD.decode(b64).unwrap();
        match damage {
            Damage::PrependBytes { b64 } => bytes = [decoded(b64), bytes].concat(),
            Damage::AppendBytes { b64 } => bytes.extend(decoded(b64)),
            Damage::TruncateBytesFromEnd { n } => bytes.truncate(bytes.len() - n),
            Damage::InsertBytesAfterLine { line, b64 } => {
                let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
                let end = ends.map(|(at, _)| at + 1).nth(line - 1).unwrap();
                bytes.splice(end..end, decoded(b64));
            }
            Damage::ReplaceLine { line, text, with_ } => {
                let change = |whole: &str| match (text, with_.as_deref()) {
                    (Some(text), None) => text.clone(),
                    (None, Some("prefix_of_line+whole_line")) => {
                        format!("{}{whole}", &whole[..whole.len() / 2])
                    }
                    other => panic!("the adapter does not know this line: {other:?}"),
                };
                bytes = self.with_line(*line, change);
            }
            Damage::DuplicateLine { line } => {
                bytes = self.with_line(*line, |whole| format!("{whole}\n{whole}"));
            }
            Damage::SetVersion { version } => bytes = self.with_field("v", |_| json!(version)),
            Damage::TimestampsDecreasing => {
                bytes = self.with_field("ts", |line| json!(1_000_000 - line));
            }
            Damage::TimestampsInFuture => {
                bytes = self.with_field("ts", |line| json!(9_999_999_999_999_u64 + line));
            }
            _ => return false,
        }
        fs::write(self.path(), bytes).unwrap();
        if matches!(damage, Damage::TimestampsInFuture) {
            let file = fs::File::options().append(true).open(self.path()).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(1_000_000)).unwrap();
        }
        true
    }

    /// The file with one line changed; lines count from 1.
    fn with_line(&self, line: usize, change: impl Fn(&str) -> String) -> Vec<u8> {
        let text = self.text();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[line - 1] = change(&lines[line - 1]);
        (lines.join("\n") + "\n").into_bytes()
    }

    /// The file with a field of every line set to what `value` makes of the line's number.
    fn with_field(&self, field: &str, value: impl Fn(u64) -> Value) -> Vec<u8> {
        let mut changed = String::new();
        for (number, line) in (0..).zip(self.text().lines()) {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line[field] = value(number);
            changed.push_str(&line.to_string());
            changed.push('\n');
        }
        changed.into_bytes()
    }
}
