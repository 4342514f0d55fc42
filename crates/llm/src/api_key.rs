//! A key that is sent and never shown.

use std::borrow::Cow;
use std::fmt;

use crate::error::LlmError;

/// Shorter keys are removed from texts only where they stand alone: a key `x` is no reason to take
/// every x out of a sentence.
const ANYWHERE_FROM: usize = 8;

/// An API key. Its `Debug` says only that there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes a key as people paste it: white space around it is dropped.
    ///
    /// # Errors
    /// `Config` when it is empty or holds a character that a header cannot carry; the message does
    /// not repeat it.
    pub fn new(text: &str) -> Result<Self, LlmError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(LlmError::Config("the API key is empty".to_owned()));
        }
        if let Some(at) = text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            return Err(LlmError::Config(format!(
                "the API key holds a character at byte {at} that no key has: paste it again, without quotes or line breaks"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The key itself, for the header it is sent in.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The text without the key: servers echo it in error messages.
    pub fn erase_from<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !text.contains(&self.0) {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before: Option<char> = None;
        while let Some(at) = rest.find(&self.0) {
            let (head, after) = (&rest[..at], &rest[at + self.0.len()..]);
            let left = head.chars().next_back().or(before);
            out.push_str(head);
            let alone = !is_word(left) && !is_word(after.chars().next());
            let secret = self.0.len() >= ANYWHERE_FROM || alone;
            out.push_str(if secret { "[key removed]" } else { &self.0 });
            before = self.0.chars().next_back();
            rest = after;
        }
        out.push_str(rest);
        Cow::Owned(out)
    }
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphanumeric)
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(set)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = ApiKey::new(" sk-secret-0123456789\n").unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey(set)");
        assert_eq!(key.expose(), "sk-secret-0123456789");
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused_without_repeating_it() {
        for wrong in ["", "  ", "sk-se cret", "sk-se\ncret", "sk-sécret"] {
            let message = ApiKey::new(wrong).unwrap_err().to_string();
            assert!(!message.contains("cret"), "{message}");
        }
    }

    #[test]
    fn an_echoed_key_is_taken_out_of_a_text() {
        let key = ApiKey::new("sk-secret-0123456789").unwrap();
        let text = "bad header: Bearer sk-secret-0123456789, sk-secret-0123456789x";
        let clean = key.erase_from(text);
        assert_eq!(clean, "bad header: Bearer [key removed], [key removed]x");
        assert_eq!(key.erase_from("nothing here"), "nothing here");
    }

    #[test]
    fn a_short_key_is_removed_only_where_it_stands_alone() {
        let key = ApiKey::new("x").unwrap();
        assert_eq!(
            key.erase_from("invalid x-api-key 'x' xx x"),
            "invalid [key removed]-api-key '[key removed]' xx [key removed]"
        );
    }
}
