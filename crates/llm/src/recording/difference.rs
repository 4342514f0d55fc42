//! Where two bodies part, in words that lead to the cause.

use std::fmt;

use serde_json::Value;

/// The first difference between a recorded body and one that is sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The first byte that differs.
    pub offset: usize,
    /// What stands there in the JSON document, such as `messages[2].content`; absent where one of the
    /// bodies is no JSON.
    pub path: Option<String>,
    /// The recorded bytes around it.
    pub recorded: String,
    /// The same place now.
    pub sent: String,
}

/// How many bytes are shown before and after the place.
const BEFORE: usize = 30;
const AFTER: usize = 50;

impl Difference {
    /// The first difference, if there is one.
    pub(super) fn between(recorded: &[u8], sent: &[u8]) -> Option<Self> {
        if recorded == sent {
            return None;
        }
        let same = recorded.iter().zip(sent).take_while(|(one, other)| one == other).count();
        let path = match (serde_json::from_slice(recorded), serde_json::from_slice(sent)) {
            (Ok(recorded), Ok(sent)) => first_path(&recorded, &sent),
            _ => None,
        };
        Some(Self {
            offset: same,
            path,
            recorded: around(recorded, same),
            sent: around(sent, same),
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "they part at byte {}", self.offset)?;
        if let Some(path) = &self.path {
            write!(f, " ({path})")?;
        }
        write!(f, ": recorded `{}`, sent `{}`", self.recorded, self.sent)
    }
}

/// The text around a place; characters that are cut are left out.
fn around(bytes: &[u8], at: usize) -> String {
    let start = at.saturating_sub(BEFORE);
    let end = bytes.len().min(at + AFTER);
    let text = String::from_utf8_lossy(&bytes[start..end]);
    let text = text.trim_matches('\u{fffd}');
    let dots = |is_cut: bool| if is_cut { "…" } else { "" };
    format!("{}{text}{}", dots(start > 0), dots(end < bytes.len()))
}

/// The place of the first difference in document order.
fn first_path(recorded: &Value, sent: &Value) -> Option<String> {
    let mut path = String::new();
    descend(recorded, sent, &mut path).then(|| path.trim_start_matches('.').to_owned())
}

/// Goes down to the first difference; false when there is none.
fn descend(recorded: &Value, sent: &Value, path: &mut String) -> bool {
    let length = path.len();
    match (recorded, sent) {
        (Value::Object(one), Value::Object(other)) => {
            for ((key, value), (other_key, other_value)) in one.iter().zip(other) {
                path.push('.');
                path.push_str(key);
                if key != other_key || descend(value, other_value, path) {
                    return true;
                }
                path.truncate(length);
            }
            one.len() != other.len()
        }
        (Value::Array(one), Value::Array(other)) => {
            for (at, (value, other_value)) in one.iter().zip(other).enumerate() {
                path.push_str(&format!("[{at}]"));
                if descend(value, other_value, path) {
                    return true;
                }
                path.truncate(length);
            }
            if one.len() == other.len() {
                return false;
            }
            path.push_str(&format!("[{}]", one.len().min(other.len())));
            true
        }
        (one, other) => one != other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(recorded: &str, sent: &str) -> Option<Difference> {
        Difference::between(recorded.as_bytes(), sent.as_bytes())
    }

    #[track_caller]
    fn check(recorded: &str, sent: &str, offset: usize, path: Option<&str>) {
        let difference = between(recorded, sent).unwrap();
        assert_eq!((difference.offset, difference.path.as_deref()), (offset, path));
    }

    #[test]
    fn equal_bodies_have_no_difference() {
        assert_eq!(between(r#"{"a":1}"#, r#"{"a":1}"#), None);
    }

    #[test]
    fn the_place_is_told_by_byte_and_by_path() {
        check(
            r#"{"m":"x","messages":[{"text":"ping"},{"text":"b"}]}"#,
            r#"{"m":"x","messages":[{"text":"pong"},{"text":"c"}]}"#,
            31,
            Some("messages[0].text"),
        );
        check(r#"{"a":[1]}"#, r#"{"a":[1,2]}"#, 7, Some("a[1]"));
        check(r#"{"a":1}"#, r#"{"b":1}"#, 2, Some("a"));
        check(r#"{"a":1}"#, r#"{"a":{"b":1}}"#, 5, Some("a"));
        check("1", "2", 0, Some(""));
        check("not JSON", "not json", 4, None);
        check(r#"{"a":1}"#, r#"{"a": 1}"#, 5, None);
    }

    #[test]
    fn the_surroundings_are_shown_and_cut_between_characters() {
        let long = format!("{}é{}", "a".repeat(BEFORE - 1), "b".repeat(200));
        let difference = between(&long, &long.replace("é", "è")).unwrap();
        assert!(difference.recorded.starts_with("aaa"), "{difference}");
        assert!(difference.recorded.ends_with("b…"), "{difference}");
        let short = between("{\"a\":\"x\n\"}", "{\"a\":\"y\n\"}").unwrap().to_string();
        assert_eq!(
            short,
            "they part at byte 6: recorded `{\"a\":\"x\n\"}`, sent `{\"a\":\"y\n\"}`"
        );
    }
}
