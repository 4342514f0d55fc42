//! Arguments that come in pieces, each with its place as a JSON path; pure.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::chunk::PartialArg;
use crate::error::LlmError;
use crate::providers::held::Held;
use crate::providers::loose::read_part;

/// Deeper than any tool's arguments; the reader of the whole takes no more either.
const MAX_DEPTH: usize = 100;

/// The arguments of one call so far.
pub(super) struct Arguments {
    object: Value,
    /// Paths of strings that go on.
    unfinished: HashSet<String>,
}

impl Arguments {
    /// Begins with what came with the call's name.
    ///
    /// # Errors
    /// `Decode` when the answer keeps back too much.
    pub(super) fn new(whole: Option<&RawValue>, held: &mut Held) -> Result<Self, LlmError> {
        let object = match whole {
            Some(whole) => {
                held.add(whole.get().len())?;
                read_part(whole)?
            }
            None => Value::Object(Map::new()),
        };
        Ok(Self { object, unfinished: HashSet::new() })
    }

    /// Puts one piece in its place.
    ///
    /// # Errors
    /// `Decode` when the path is none or leads through something that is no container, or when the
    /// answer keeps back too much.
    pub(super) fn put(&mut self, piece: &PartialArg<'_>, held: &mut Held) -> Result<(), LlmError> {
        let path = piece.json_path.as_str();
        let goes_on = self.unfinished.contains(path);
        if let Some(value) = value_of(piece)? {
            held.add(path.len() + value_bytes(&value))?;
            let place = self.place(path, held)?;
            match (place, value) {
                (Value::String(known), Value::String(more)) if goes_on => known.push_str(&more),
                (place, value) => *place = value,
            }
        }
        if piece.will_continue.0 {
            self.unfinished.insert(path.to_owned());
        } else if goes_on {
            self.unfinished.remove(path);
        }
        Ok(())
    }

    /// The whole as JSON text.
    pub(super) fn into_json(self) -> String {
        self.object.to_string()
    }

    fn place(&mut self, path: &str, held: &mut Held) -> Result<&mut Value, LlmError> {
        let steps = steps(path).ok_or_else(|| refuse("is no path into an object", path))?;
        let mut place = &mut self.object;
        for step in steps {
            place = match step {
                Step::Name(name) => match object(place) {
                    Some(fields) => fields.entry(name).or_insert(Value::Null),
                    None => return Err(refuse("leads through something that is no object", path)),
                },
                Step::Index(index) => {
                    let Some(items) = list(place) else {
                        return Err(refuse("leads through something that is no list", path));
                    };
                    let missing = index.saturating_add(1).saturating_sub(items.len());
                    if missing > 0 {
                        held.add(missing.saturating_mul(size_of::<Value>()))?;
                        items.resize(items.len() + missing, Value::Null);
                    }
                    &mut items[index]
                }
            };
        }
        Ok(place)
    }
}

/// The fields of a place, which becomes an object when nothing is there yet.
fn object(place: &mut Value) -> Option<&mut Map<String, Value>> {
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    place.as_object_mut()
}

/// The items of a place, which becomes a list when nothing is there yet.
fn list(place: &mut Value) -> Option<&mut Vec<Value>> {
    if place.is_null() {
        *place = Value::Array(Vec::new());
    }
    place.as_array_mut()
}

fn value_of(piece: &PartialArg<'_>) -> Result<Option<Value>, LlmError> {
    if let Some(text) = &piece.string_value.0 {
        return Ok(Some(Value::String(text.clone().into_owned())));
    }
    match piece.number_value.or(piece.bool_value) {
        Some(raw) => read_part(raw).map(Some),
        None => Ok(piece.null_value.0.then_some(Value::Null)),
    }
}

fn value_bytes(value: &Value) -> usize {
    size_of::<Value>() + value.as_str().map_or(0, str::len)
}

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
}

/// The steps of `$.a.b[0]['c']`; `None` when it is no such path or too deep.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = match rest.strip_prefix('.') {
            Some(name) => {
                let end = name.find(['.', '[']).unwrap_or(name.len());
                (Step::Name(name[..end].to_owned()), &name[end..])
            }
            None => bracketed(rest.strip_prefix('[')?)?,
        };
        if steps.len() == MAX_DEPTH {
            return None;
        }
        steps.push(step);
    }
    (!steps.is_empty()).then_some(steps)
}

/// The step inside of brackets, and what follows them.
fn bracketed(text: &str) -> Option<(Step, &str)> {
    let quote = text.chars().next()?;
    if quote != '\'' && quote != '"' {
        let (index, rest) = text.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), rest));
    }
    let inside = &text[1..];
    let mut name = Cow::Borrowed("");
    let mut chars = inside.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => name.to_mut().push(chars.next()?.1),
            _ if char == quote => {
                let rest = inside[at + 1..].strip_prefix(']')?;
                return Some((Step::Name(name.into_owned()), rest));
            }
            _ => name.to_mut().push(char),
        }
    }
    None
}

fn refuse(why: &str, path: &str) -> LlmError {
    LlmError::Decode(format!("a piece of a call's arguments {why}: {path:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(pieces: &[&str]) -> Result<String, LlmError> {
        let mut held = Held::default();
        let mut arguments = Arguments::new(None, &mut held)?;
        for piece in pieces {
            arguments.put(&serde_json::from_str(piece).unwrap(), &mut held)?;
        }
        Ok(arguments.into_json())
    }

    #[track_caller]
    fn check(pieces: &[&str], want: &str) {
        assert_eq!(built(pieces).unwrap(), want);
    }

    #[test]
    fn every_kind_of_value_is_put_in_its_place() {
        check(
            &[
                r#"{"jsonPath":"$.text","stringValue":"a"}"#,
                r#"{"jsonPath":"$.count","numberValue":5}"#,
                r#"{"jsonPath":"$.share","numberValue":0.5}"#,
                r#"{"jsonPath":"$.all","boolValue":true}"#,
                r#"{"jsonPath":"$.none","nullValue":null}"#,
                r#"{"jsonPath":"$.gone","nullValue":"NULL_VALUE"}"#,
                r#"{"jsonPath":"$.nothing"}"#,
            ],
            r#"{"text":"a","count":5,"share":0.5,"all":true,"none":null,"gone":null}"#,
        );
        check(&[], "{}");
    }

    #[test]
    fn a_string_goes_on_until_a_piece_says_that_it_does_not() {
        check(
            &[
                r#"{"jsonPath":"$.a","stringValue":"x","willContinue":true}"#,
                r#"{"jsonPath":"$.b","stringValue":"1","willContinue":true}"#,
                r#"{"jsonPath":"$.a","stringValue":"y","willContinue":true}"#,
                r#"{"jsonPath":"$.a","stringValue":""}"#,
                r#"{"jsonPath":"$.b","willContinue":false}"#,
                r#"{"jsonPath":"$.b","stringValue":"2"}"#,
            ],
            r#"{"a":"xy","b":"2"}"#,
        );
    }

    #[test]
    fn a_path_leads_through_objects_and_lists_and_quoted_names() {
        check(
            &[
                r#"{"jsonPath":"$.edits[0].old","stringValue":"a"}"#,
                r#"{"jsonPath":"$.edits[1]['new.text']","stringValue":"b"}"#,
                r#"{"jsonPath":"$.edits[1][\"it's\"]","numberValue":1}"#,
                r#"{"jsonPath":"$['a\\'b']","numberValue":2}"#,
                r#"{"jsonPath":"$.grid[1][0]","boolValue":false}"#,
            ],
            r#"{"edits":[{"old":"a"},{"new.text":"b","it's":1}],"a'b":2,"grid":[null,[false]]}"#,
        );
    }

    #[test]
    fn a_path_that_leads_nowhere_is_refused() {
        let deep = format!("${}", ".a".repeat(MAX_DEPTH + 1));
        for path in ["", "$", "a", "$a", "$[", "$[x]", "$['a", "$['a'", "$.a[-1]", &deep] {
            let piece = format!(r#"{{"jsonPath":"{path}","boolValue":true}}"#);
            assert!(matches!(built(&[&piece]), Err(LlmError::Decode(_))), "{path}");
        }
        for path in ["$.a.b", "$.a[0]", "$[0]"] {
            let piece = format!(r#"{{"jsonPath":"{path}","boolValue":true}}"#);
            let text = r#"{"jsonPath":"$.a","stringValue":"x"}"#;
            assert!(matches!(built(&[text, &piece]), Err(LlmError::Decode(_))), "{path}");
        }
    }

    #[test]
    fn a_hostile_index_takes_no_memory() {
        for index in ["4294967295", "18446744073709551614", "18446744073709551615"] {
            let piece = format!(r#"{{"jsonPath":"$.a[{index}]","boolValue":true}}"#);
            assert!(matches!(built(&[&piece]), Err(LlmError::Decode(_))), "{index}");
        }
    }

    #[test]
    fn pieces_go_into_what_came_with_the_name() {
        let mut held = Held::default();
        let whole: Box<RawValue> = serde_json::from_str(r#"{"a": 1}"#).unwrap();
        let mut arguments = Arguments::new(Some(&whole), &mut held).unwrap();
        let piece = r#"{"jsonPath":"$.b","numberValue":2}"#;
        arguments.put(&serde_json::from_str(piece).unwrap(), &mut held).unwrap();
        assert_eq!(arguments.into_json(), r#"{"a":1,"b":2}"#);
    }
}
