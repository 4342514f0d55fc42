//! Follows references inside one schema, bounded and never in a circle; pure.

use serde_json::Value;

use super::SchemaError;

/// The most that one compiled schema may come to, in bytes. Ten definitions that each use the next
/// one ten times would stand for ten thousand million places.
const MAX_BYTES: usize = 1 << 20;

/// What a place comes to besides its texts.
const PLACE_BYTES: usize = 64;

/// Deeper than any tool's schema goes, far from what the stack takes.
const MAX_DEPTH: usize = 64;

/// Where the walk through a schema stands.
pub(super) struct Walk<'a> {
    root: &'a Value,
    /// The references that led here; meeting one of them again would never end.
    followed: Vec<&'a str>,
    depth: usize,
    bytes: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, followed: Vec::new(), depth: 0, bytes: 0 }
    }

    /// Goes into a place, does `inside` there and comes back out of it and of every reference that
    /// was followed on the way.
    ///
    /// # Errors
    /// When the schema is too deep or too large, and what `inside` fails with.
    pub(super) fn enter<T>(
        &mut self,
        path: &str,
        inside: impl FnOnce(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<T, SchemaError> {
        self.spend(PLACE_BYTES, path)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SchemaError::new(path, format!("is more than {MAX_DEPTH} levels deep")));
        }
        let followed = self.followed.len();
        let done = inside(self);
        self.followed.truncate(followed);
        self.depth -= 1;
        done
    }

    /// Counts what the compiled schema takes at `path`.
    ///
    /// # Errors
    /// When it has become too large.
    pub(super) fn spend(&mut self, bytes: usize, path: &str) -> Result<(), SchemaError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            let reason = format!("is beyond {MAX_BYTES} bytes with its references followed");
            return Err(SchemaError::new(path, reason));
        }
        Ok(())
    }

    /// What `reference` stands for.
    ///
    /// # Errors
    /// When it leads out of the schema, to nothing, or back to where it came from.
    pub(super) fn follow(
        &mut self,
        reference: &'a Value,
        path: &str,
    ) -> Result<&'a Value, SchemaError> {
        let Some(text) = reference.as_str() else {
            return Err(SchemaError::new(path, "has a $ref that is no text"));
        };
        let Some(pointer) = text.strip_prefix('#') else {
            return Err(SchemaError::new(path, format!("refers to another document ({text})")));
        };
        if self.followed.contains(&text) {
            return Err(SchemaError::new(path, format!("refers to itself ({text})")));
        }
        self.followed.push(text);
        let target = self.root.pointer(&percent_decoded(pointer));
        target
            .ok_or_else(|| SchemaError::new(path, format!("refers to {text}, which is not there")))
    }
}

/// A pointer in a URL fragment may have any of its characters as `%XX`.
fn percent_decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
