//! What the writers of all dialects share: a body joined from remembered pieces, ids that a server
//! accepts, and stand-ins for what a wire format cannot say.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Number, Value, json};

use crate::capability::{CacheHintKind, CallIdRule, Target};
use crate::types::{ChatRequest, ImageData, ToolChoice};

/// Stands in a message of which nothing is left on this wire (reasoning of another provider, blank
/// text). An empty message is refused everywhere; leaving the message out would put two messages of
/// one role beside each other, which strict chat templates refuse.
pub(crate) const NOTHING_TO_SHOW: &str = "(no visible content)";

/// Writes `head` with the messages as its last field: `{…head…,"LIST":[…items…]}`.
///
/// Messages come last, so that one request is nearly a prefix of the next. `items` is what stands between the
/// brackets, in parts that follow each other as they are.
pub(crate) fn join_body(head: &impl Serialize, list: &str, items: &[&[u8]]) -> Vec<u8> {
    let mut head = to_json(head);
    debug_assert!(head.starts_with(b"{") && head.ends_with(b"}"), "a head is an object");
    head.pop();
    let comma = if head.len() > 1 { "," } else { "" };
    let open = format!("{comma}\"{list}\":[");
    const CLOSE: &[u8] = b"]}";
    let size = items.iter().map(|part| part.len()).sum::<usize>();
    let mut body = Vec::with_capacity(head.len() + open.len() + size + CLOSE.len());
    body.extend_from_slice(&head);
    body.extend_from_slice(open.as_bytes());
    for part in items {
        body.extend_from_slice(part);
    }
    body.extend_from_slice(CLOSE);
    body
}

/// Serialises our own wire types, which have only string keys and no failing writer.
pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("wire types have string keys and write to memory")
}

/// The items of a list without its brackets, for a message that is several items on this wire.
pub(crate) fn to_json_items(items: &[impl Serialize]) -> Vec<u8> {
    let mut list = to_json(&items);
    list.pop();
    list.drain(..1);
    list
}

/// The same as a value.
pub(crate) fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("wire types have string keys")
}

/// A temperature as a server should read it: 0.7, not 0.699999988079071, and no NaN.
pub(crate) fn temperature(told: Option<f32>) -> Option<Number> {
    told?.to_string().parse().ok().and_then(Number::from_f64)
}

/// The key under which requests with the same beginning are kept together, for a target that asks for
/// one.
pub(crate) fn cache_key(req: &ChatRequest, target: Target) -> Option<&str> {
    let hint = req.cache.as_ref()?;
    (target.cache_hint == CacheHintKind::PromptCacheKey).then_some(hint.key.as_str())
}

/// The choice of tools in the words that several dialects share. A call is not demanded where the
/// target refuses that: the model is left to choose.
pub(crate) fn tool_choice(req: &ChatRequest, target: Target) -> Option<ToolChoice> {
    req.tool_choice.map(|choice| match choice {
        ToolChoice::Required if !target.tool_choice_required => ToolChoice::Auto,
        choice => choice,
    })
}

/// A call's arguments as the object that every server wants.
///
/// Text that never became JSON goes back inside an object: servers parse the arguments of earlier
/// calls, and a transcript that holds one they cannot parse could never be sent again.
pub(crate) fn arguments(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        broken => Cow::Owned(json!({ "unparsed_arguments": broken })),
    }
}

/// A picture as an address that holds it.
pub(crate) fn data_url(image: &ImageData) -> String {
    format!("data:{};base64,{}", image.media_type, image.data)
}

/// The text of a result in a dialect that has no other sign for a failure.
pub(crate) fn result_text(content: &str, is_error: bool) -> Cow<'_, str> {
    match is_error {
        true => Cow::Owned(format!("ERROR: {content}")),
        false => Cow::Borrowed(content),
    }
}

impl CallIdRule {
    /// The id as this server accepts it: itself where it can be, else a stand-in that depends on
    /// nothing but the id, so that a call and its result agree wherever they stand.
    pub(crate) fn map(self, id: &str) -> Cow<'_, str> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let fits = match self {
            Self::UpTo40 => id.chars().nth(40).is_none(),
            Self::UpTo64 => id.chars().nth(64).is_none(),
            Self::WordCharacters => id.chars().all(is_word),
            Self::NineAlphanumeric => {
                id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
            }
        };
        if fits && !id.is_empty() {
            return Cow::Borrowed(id);
        }
        let hash = hash(id);
        Cow::Owned(match self {
            Self::NineAlphanumeric => base36(hash, 9),
            // A readable start, and a hash that keeps two ids with the same start apart.
            Self::UpTo40 | Self::UpTo64 | Self::WordCharacters => {
                let word: String =
                    id.chars().take(26).map(|c| if is_word(c) { c } else { '_' }).collect();
                format!("{word}_{}", base36(hash, 13))
            }
        })
    }
}

/// FNV-1a: not secret, only the same everywhere and for ever, because ids are part of a cached
/// prompt.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn base36(mut number: u64, digits: usize) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut out = vec![b'0'; digits];
    for digit in out.iter_mut().rev() {
        *digit = DIGITS[(number % 36) as usize];
        number /= 36;
    }
    out.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_a_server_accepts_stays_as_it_is() {
        assert_eq!(CallIdRule::WordCharacters.map("toolu_01-aB"), "toolu_01-aB");
        assert_eq!(CallIdRule::UpTo40.map("functions.bash:0"), "functions.bash:0");
        assert_eq!(CallIdRule::NineAlphanumeric.map("abcDEF123"), "abcDEF123");
    }

    #[test]
    fn a_foreign_id_becomes_an_accepted_one_and_always_the_same() {
        let mapped = CallIdRule::WordCharacters.map("functions.bash:0");
        assert_eq!(mapped, "functions_bash_0_1waaatgzhligk");
        assert_eq!(mapped, CallIdRule::WordCharacters.map("functions.bash:0"));
        let long = "chatcmpl-tool-0123456789abcdef0123456789abcdef";
        let mapped = CallIdRule::UpTo40.map(long);
        assert!(mapped.len() <= 40 && mapped.starts_with("chatcmpl-tool-"), "{mapped}");
        let nine = CallIdRule::NineAlphanumeric.map("call_abc");
        assert!(nine.len() == 9 && nine.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{nine}");
    }

    #[test]
    fn ids_that_differ_only_at_their_end_stay_apart() {
        for rule in [
            CallIdRule::UpTo40,
            CallIdRule::UpTo64,
            CallIdRule::WordCharacters,
            CallIdRule::NineAlphanumeric,
        ] {
            let start = "a.".repeat(40);
            assert_ne!(rule.map(&format!("{start}1")), rule.map(&format!("{start}2")));
        }
        assert_ne!(CallIdRule::WordCharacters.map("a:b"), CallIdRule::WordCharacters.map("a.b"));
    }

    #[test]
    fn a_body_is_joined_without_stray_commas() {
        #[track_caller]
        fn check(head: &Value, items: &[&str], want: &str) {
            let items: Vec<&[u8]> = items.iter().map(|part| part.as_bytes()).collect();
            let body = join_body(head, "messages", &items);
            assert_eq!(body.capacity(), body.len());
            assert_eq!(String::from_utf8(body).unwrap(), want);
        }
        let head = json!({"model": "m"});
        check(&head, &[], r#"{"model":"m","messages":[]}"#);
        check(&head, &["0", ",", "1,2"], r#"{"model":"m","messages":[0,1,2]}"#);
        check(&json!({}), &["0"], r#"{"messages":[0]}"#);
    }

    #[test]
    fn a_temperature_reads_as_it_was_written() {
        assert_eq!(temperature(Some(0.7)).unwrap().to_string(), "0.7");
        assert_eq!(temperature(Some(f32::NAN)), None);
        assert_eq!(temperature(None), None);
    }

    #[test]
    fn arguments_that_never_became_an_object_go_back_inside_one() {
        let broken = Value::String("{\"a\": ".into());
        assert_eq!(*arguments(&broken), json!({"unparsed_arguments": "{\"a\": "}));
        let whole = json!({"a": 1});
        assert!(matches!(arguments(&whole), Cow::Borrowed(_)));
    }
}
