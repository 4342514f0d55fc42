//! Takes out of a recording what nobody should read in it: the key in use, and what the program names.

use std::sync::Arc;

use crate::api_key::ApiKey;

/// Takes private text out of bytes that come in pieces, wherever they are cut.
pub trait Clean: Send {
    /// What can be kept now that these bytes came.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8>;

    /// What was held back, when nothing more comes.
    fn finish(&mut self) -> Vec<u8>;
}

/// Makes a [`Clean`] for one request or answer.
pub type Cleaner = Arc<dyn Fn() -> Box<dyn Clean> + Send + Sync>;

/// The bytes without the key and what the cleaner takes out.
pub(super) fn whole(bytes: &[u8], key: Option<&ApiKey>, cleaner: Option<&Cleaner>) -> Vec<u8> {
    let erased = erase(bytes, key);
    let Some(cleaner) = cleaner else { return erased };
    let mut clean = cleaner();
    let mut out = clean.push(&erased);
    out.extend(clean.finish());
    out
}

/// The text without what the cleaner takes out.
pub(super) fn text(text: &str, cleaner: Option<&Cleaner>) -> String {
    String::from_utf8_lossy(&whole(text.as_bytes(), None, cleaner)).into_owned()
}

/// What stands where the key stood.
const ERASED: &[u8] = b"[key removed]";

/// The bytes without the key.
fn erase(bytes: &[u8], key: Option<&ApiKey>) -> Vec<u8> {
    let Some(key) = key else { return bytes.to_vec() };
    if let Ok(text) = std::str::from_utf8(bytes) {
        return key.erase_from(text).into_owned().into_bytes();
    }
    let secret = key.expose().as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for at in memchr::memmem::find_iter(bytes, secret) {
        out.extend_from_slice(&bytes[done..at]);
        out.extend_from_slice(ERASED);
        done = at + secret.len();
    }
    out.extend_from_slice(&bytes[done..]);
    out
}

/// Takes the key out of bytes that come in pieces, also where it is cut in two.
pub(crate) struct Eraser {
    key: Option<ApiKey>,
    /// The end of what came, as far as it may be the beginning of the key.
    held: Vec<u8>,
    /// What else is taken out.
    clean: Option<Box<dyn Clean>>,
}

impl Eraser {
    pub(super) fn new(key: Option<ApiKey>, cleaner: Option<&Cleaner>) -> Self {
        Self { key, held: Vec::new(), clean: cleaner.map(|cleaner| cleaner()) }
    }

    /// What can be kept now that these bytes came.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let erased = self.erase(bytes);
        match &mut self.clean {
            Some(clean) => clean.push(&erased),
            None => erased,
        }
    }

    fn erase(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(key) = &self.key else { return bytes.to_vec() };
        self.held.extend_from_slice(bytes);
        // A whole key at the end is replaced before the beginning of another one is looked for.
        let mut ready = erase(&self.held, Some(key));
        let secret = key.expose().as_bytes();
        let longest = ready.len().min(secret.len() - 1);
        let beginning =
            (1..=longest).rev().find(|length| ready.ends_with(&secret[..*length])).unwrap_or(0);
        self.held = ready.split_off(ready.len() - beginning);
        ready
    }

    /// What was held back, when nothing more comes.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.held);
        let Some(clean) = &mut self.clean else { return rest };
        let mut out = clean.push(&rest);
        out.extend(clean.finish());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-test-0123456789abcdef0123";

    fn key() -> Option<ApiKey> {
        Some(ApiKey::new(KEY).unwrap())
    }

    #[test]
    fn a_key_is_erased_wherever_the_bytes_are_cut() {
        let text = format!("data: é {KEY} and sk-test-01 and {KEY}{KEY}");
        let want = "data: é [key removed] and sk-test-01 and [key removed][key removed]";
        let bytes = text.as_bytes();
        for first in 0..bytes.len() {
            for second in [first, (first + 9).min(bytes.len()), bytes.len()] {
                let mut eraser = Eraser::new(key(), None);
                let mut kept = eraser.push(&bytes[..first]);
                kept.extend(eraser.push(&bytes[first..second]));
                kept.extend(eraser.push(&bytes[second..]));
                kept.extend(eraser.finish());
                assert_eq!(String::from_utf8(kept).unwrap(), want, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_key_among_bytes_that_are_no_text_is_erased_too() {
        let bytes = [b"\xff".as_slice(), KEY.as_bytes(), b"\xfe"].concat();
        assert_eq!(erase(&bytes, key().as_ref()), b"\xff[key removed]\xfe");
    }

    /// Takes out every `x`, and keeps the last byte back.
    #[derive(Default)]
    struct NoX(Option<u8>);

    impl Clean for NoX {
        fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
            let bytes = bytes.iter().copied().filter(|byte| *byte != b'x');
            let mut all: Vec<u8> = self.0.take().into_iter().chain(bytes).collect();
            self.0 = all.pop();
            all
        }

        fn finish(&mut self) -> Vec<u8> {
            self.0.take().into_iter().collect()
        }
    }

    #[test]
    fn what_the_program_names_is_taken_out_beside_the_key() {
        let cleaner: Cleaner = Arc::new(|| Box::new(NoX::default()));
        let text = format!("axb {KEY} cx");
        assert_eq!(whole(text.as_bytes(), key().as_ref(), Some(&cleaner)), b"ab [key removed] c");
        let mut eraser = Eraser::new(key(), Some(&cleaner));
        let mut kept = Vec::new();
        for byte in text.as_bytes() {
            kept.extend(eraser.push(&[*byte]));
        }
        kept.extend(eraser.finish());
        assert_eq!(kept, b"ab [key removed] c");
    }
}
