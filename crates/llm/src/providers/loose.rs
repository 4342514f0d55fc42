//! Reads JSON fields whose type a server may get wrong, without giving up the rest of the event; pure.
//!
//! Servers that imitate a protocol send `null`, numbers or objects where the original has text. Each
//! type here takes what it understands, borrowed where possible, and treats anything else as absent.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::LlmError;
use crate::providers::fault;

/// One event and its JSON, which lies in `mended` if it holds halves of characters.
///
/// # Errors
/// `Decode` when it is no JSON, or not of the shape `T`.
pub(super) fn read_event<'a, T: Deserialize<'a>>(
    json: &'a str,
    mended: &'a mut String,
) -> Result<(T, &'a str), LlmError> {
    let error = match serde_json::from_str(json) {
        Ok(event) => return Ok((event, json)),
        Err(error) => error,
    };
    *mended = mend_surrogates(json).ok_or_else(|| fault::unreadable(json, &error))?;
    let event = serde_json::from_str(mended).map_err(|error| fault::unreadable(json, &error))?;
    Ok((event, mended))
}

/// The value of a part of an event that was read over before.
///
/// # Errors
/// `Decode` when it is not of the shape `T`.
pub(super) fn read_part<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, LlmError> {
    serde_json::from_str(raw.get()).map_err(|error| fault::unreadable(raw.get(), &error))
}

/// Whether an optional object, list or text says anything.
pub(super) fn is_told(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "false" | "\"\"" | "{}" | "[]")
}

/// A string; anything else is `None`.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Option<Cow<'a, str>>);

impl Text<'_> {
    /// The text, empty when there is none.
    pub(super) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The text, unless it is empty.
    pub(super) fn non_empty(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// The text as a string of its own, unless it is empty.
    pub(super) fn into_non_empty(self) -> Option<String> {
        self.0.filter(|text| !text.is_empty()).map(Cow::into_owned)
    }
}

/// A whole number that is not negative; anything else is `None`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(pub(super) Option<u64>);

/// An object of the shape `T`; anything that is not an object is `None`.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// A list; anything that is not a list is empty.
#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Of a list of alternatives the one with the number 0, or without a number: a client that asks for
/// one answer drops the others. `None` for anything that is not a list.
#[derive(Debug)]
pub(super) struct First<T>(pub(super) Option<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// One of several alternatives.
pub(super) trait Alternative {
    /// Its number, if the server tells it.
    fn number(&self) -> Count;
}

impl<T: Alternative> Alternative for Box<T> {
    fn number(&self) -> Count {
        (**self).number()
    }
}

/// JSON text: a string's content, or the text of any other value but null.
#[derive(Debug, Default)]
pub(super) struct JsonText<'a>(pub(super) Option<Cow<'a, str>>);

impl JsonText<'_> {
    /// The text, empty when there is none.
    pub(super) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The text as a string of its own, empty when there is none.
    pub(super) fn into_string(self) -> String {
        self.0.map(Cow::into_owned).unwrap_or_default()
    }
}

/// Takes every JSON value and makes nothing of it; visitors override what they understand.
macro_rules! absent_by_default {
    ($absent:expr; $($method:ident($type:ty)),*) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any JSON value")
        }
        $(fn $method<E: Error>(self, _: $type) -> Result<Self::Value, E> {
            Ok($absent)
        })*
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($absent)
        }
    };
}

pub(super) use absent_by_default;

/// Reads the rest of a list that nobody wants.
macro_rules! skip_list {
    ($absent:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok($absent)
        }
    };
}

/// Reads the rest of an object that nobody wants.
macro_rules! skip_object {
    ($absent:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
            while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($absent)
        }
    };
}

pub(super) use skip_object;

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            absent_by_default!(
                Text(None);
                visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64)
            );
            skip_list!(Text(None));
            skip_object!(Text(None));
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;
        impl<'de> Visitor<'de> for CountVisitor {
            type Value = Count;
            absent_by_default!(Count(None); visit_bool(bool), visit_i64(i64), visit_str(&str));
            skip_list!(Count(None));
            skip_object!(Count(None));
            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Count(Some(number)))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
                // Servers written in languages without integers send `12.0`. 2^53 is where a float
                // stops telling neighbouring integers apart.
                let whole =
                    number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
                let count = whole.then_some(number as u64);
                Ok(Count(count))
            }
        }
        deserializer.deserialize_any(CountVisitor)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            absent_by_default!(
                Object(None);
                visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str)
            );
            skip_list!(Object(None));
            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(object)).map(|value| Object(Some(value)))
            }
        }
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = List<T>;
            absent_by_default!(
                List::default();
                visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str)
            );
            skip_object!(List::default());
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(List)
            }
        }
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de> + Alternative> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FirstVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Alternative> Visitor<'de> for FirstVisitor<T> {
            type Value = First<T>;
            absent_by_default!(
                First(None);
                visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str)
            );
            skip_object!(First(None));
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut first = None;
                while let Some(item) = list.next_element::<Object<T>>()? {
                    let item = item.0.filter(|item| item.number().0.unwrap_or(0) == 0);
                    first = first.or(item);
                }
                Ok(First(first))
            }
        }
        deserializer.deserialize_any(FirstVisitor(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonTextVisitor;
        impl<'de> Visitor<'de> for JsonTextVisitor {
            type Value = JsonText<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(JsonText(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(JsonText(Some(Cow::Owned(text.to_owned()))))
            }
            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(JsonText(None))
            }
            fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
                Ok(written(&Value::from(value)))
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                Ok(written(&Value::from(value)))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
                Ok(written(&Value::from(value)))
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
                Ok(written(&Value::from(value)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Value::deserialize(SeqAccessDeserializer::new(list)).map(|value| written(&value))
            }
            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
                Value::deserialize(MapAccessDeserializer::new(object)).map(|value| written(&value))
            }
        }
        deserializer.deserialize_any(JsonTextVisitor)
    }
}

fn written(value: &Value) -> JsonText<'static> {
    JsonText(Some(Cow::Owned(value.to_string())))
}

/// `json` with every `\u` escape of a lone surrogate replaced by `\ufffd`, or `None` if it has none.
///
/// A server that cuts text into UTF-16 units sends half a character at the end of one event and the
/// other half in the next; Rust strings cannot hold either, and failing would lose the answer.
fn mend_surrogates(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        let Some(unit) = escaped_unit(bytes, at) else {
            at += 2; // the backslash and what it escapes
            if at >= bytes.len() {
                break;
            }
            continue;
        };
        let low_follows = || matches!(escaped_unit(bytes, at + 6), Some(0xdc00..=0xdfff));
        match unit {
            0xd800..=0xdbff if low_follows() => at += 12,
            0xd800..=0xdfff => {
                mended.push_str(&json[copied..at]);
                mended.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            _ => at += 6,
        }
    }
    if copied == 0 {
        return None;
    }
    mended.push_str(&json[copied..]);
    Some(mended)
}

/// The UTF-16 unit of the `\uXXXX` escape at `at`, if one stands there.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Odd<'a> {
        #[serde(borrow, default)]
        text: Text<'a>,
        #[serde(default)]
        count: Count,
        #[serde(borrow, default)]
        json: JsonText<'a>,
        #[serde(borrow, default)]
        inner: Object<Box<Odd<'a>>>,
        #[serde(default)]
        list: List<Count>,
        #[serde(borrow, default)]
        first: First<Box<Odd<'a>>>,
    }

    impl Alternative for Odd<'_> {
        fn number(&self) -> Count {
            self.count
        }
    }

    fn read(json: &str) -> Odd<'_> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn text_of_another_type_is_absent() {
        for value in ["null", "5", "-5", "1.5", "true", r#"{"a":[1]}"#, r#"["a",{"b":1}]"#] {
            let json = format!(r#"{{"text":{value},"count":7}}"#);
            let odd = read(&json);
            assert_eq!((odd.text.non_empty(), odd.count), (None, Count(Some(7))), "{value}");
        }
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(read(r#"{"text":"a b"}"#).text.0, Some(Cow::Borrowed("a b"))));
        assert!(
            matches!(read(r#"{"text":"a\nb"}"#).text.0, Some(Cow::Owned(text)) if text == "a\nb")
        );
    }

    #[test]
    fn a_count_is_a_whole_number_however_it_is_written() {
        for (value, want) in [
            ("12", Some(12)),
            ("12.0", Some(12)),
            ("0", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("1e30", None),
            ("\"12\"", None),
            ("null", None),
            ("[1]", None),
        ] {
            let json = format!(r#"{{"count":{value}}}"#);
            assert_eq!(read(&json).count, Count(want), "{value}");
        }
    }

    #[test]
    fn json_text_is_a_strings_content_or_the_text_of_another_value() {
        for (value, want) in [
            (r#""{\"a\":""#, r#"{"a":"#),
            (r#"{"a": [1, "b"]}"#, r#"{"a":[1,"b"]}"#),
            ("5", "5"),
            ("null", ""),
        ] {
            let json = format!(r#"{{"json":{value}}}"#);
            assert_eq!(read(&json).json.as_str(), want, "{value}");
        }
    }

    #[test]
    fn an_object_of_another_type_is_absent() {
        assert_eq!(read(r#"{"inner":{"count":3}}"#).inner.0.unwrap().count, Count(Some(3)));
        for value in ["null", "\"x\"", "1", "[{}]", "false"] {
            assert!(read(&format!(r#"{{"inner":{value}}}"#)).inner.0.is_none(), "{value}");
        }
    }

    #[test]
    fn a_list_of_another_type_is_empty() {
        assert_eq!(read(r#"{"list":[1,null]}"#).list.0, [Count(Some(1)), Count(None)]);
        for value in ["null", "\"x\"", "1", r#"{"a":[1]}"#] {
            assert!(read(&format!(r#"{{"list":{value}}}"#)).list.0.is_empty(), "{value}");
        }
    }

    #[test]
    fn the_first_alternative_is_the_one_with_number_0_or_without() {
        #[track_caller]
        fn check(list: &str, want: Option<&str>) {
            let json = format!(r#"{{"first":{list}}}"#);
            let first = read(&json).first.0;
            assert_eq!(first.as_ref().map(|item| item.text.as_str()), want, "{list}");
        }
        check(r#"[{"count":1,"text":"b"},{"count":0,"text":"a"}]"#, Some("a"));
        check(r#"[{"text":"a"},{"text":"b"}]"#, Some("a"));
        check(r#"[null,5,{"text":"a"}]"#, Some("a"));
        for none in ["[]", r#"[{"count":1}]"#, "null", "\"x\"", "{}", "1"] {
            check(none, None);
        }
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character_and_a_pair_stays() {
        for (json, want) in [
            (r#""a\ud83d""#, Some(r#""a\ufffd""#)),
            (r#""\ude80b""#, Some(r#""\ufffdb""#)),
            (r#""\ud83d\ud83d\ude80""#, Some(r#""\ufffd\ud83d\ude80""#)),
            (r#""\ud83d\n\ude80""#, Some(r#""\ufffd\n\ufffd""#)),
            (r#""\ud83d\ude80""#, None),
            (r#""\\ud83d""#, None),
            (r#""\u00e9""#, None),
            (r#""\ud8"#, None),
            ("\"\\", None),
        ] {
            assert_eq!(mend_surrogates(json).as_deref(), want, "{json}");
        }
    }
}
