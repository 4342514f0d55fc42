//! Puts names of the run that replays in the place of those of the run that was recorded.

use std::borrow::Cow;

/// One name and what stands for it now, as both are written inside a JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moved {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Moved {
    /// From one name to another; none where nothing has to be replaced, or the old name is too short
    /// to be told from other texts.
    pub(super) fn new(from: &str, to: &str) -> Option<Self> {
        const SHORTEST: usize = 2;
        let escaped = |name: &str| {
            let text = serde_json::Value::from(name).to_string();
            text.as_bytes()[1..text.len() - 1].to_vec()
        };
        (from.len() >= SHORTEST && from != to)
            .then(|| Self { from: escaped(from), to: escaped(to) })
    }

    /// The bytes with the name replaced wherever it stands alone: `/srv/app` is not in `/srv/apple`.
    pub(super) fn apply<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out = Vec::new();
        let mut done = 0;
        for at in memchr::memmem::find_iter(bytes, &self.from) {
            let end = at + self.from.len();
            let is_alone = !goes_on_before(&bytes[..at]) && !bytes.get(end).is_some_and(is_part);
            if is_alone {
                out.extend_from_slice(&bytes[done..at]);
                out.extend_from_slice(&self.to);
                done = end;
            }
        }
        if done == 0 {
            return Cow::Borrowed(bytes);
        }
        out.extend_from_slice(&bytes[done..]);
        Cow::Owned(out)
    }
}

/// Whether what stands before a name makes it the end of a longer one. The letter of an escape, as in
/// `\n`, does not.
fn goes_on_before(before: &[u8]) -> bool {
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => false,
        [.., last] => is_part(last),
        [] => false,
    }
}

/// Whether a byte beside a name makes it part of a longer one. A backslash does not: it begins an
/// escape.
fn is_part(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        let moved = Moved::new("/srv/app", "/opt/copy").unwrap();
        let got = moved.apply(text.as_bytes());
        assert_eq!(std::str::from_utf8(&got).unwrap(), want);
    }

    #[test]
    fn a_name_is_replaced_where_it_stands_alone() {
        check(r#"in /srv/app\nand /srv/app/src"#, r#"in /opt/copy\nand /opt/copy/src"#);
        check("/srv/app", "/opt/copy");
        check(r#"out:\n/srv/app\n/home/srv/app"#, r#"out:\n/opt/copy\n/home/srv/app"#);
        check("/srv/apple /srv/app2 /srv/app.d", "/srv/apple /srv/app2 /srv/app.d");
        check("/home/srv/app", "/home/srv/app");
        check("nothing", "nothing");
    }

    #[test]
    fn a_name_is_looked_for_as_json_writes_it() {
        let moved = Moved::new(r#"/w/a "b""#, "/x").unwrap();
        assert_eq!(&*moved.apply(br#"{"cwd":"/w/a \"b\""}"#), br#"{"cwd":"/x"}"#);
    }

    #[test]
    fn a_name_that_is_the_same_or_too_short_is_left_alone() {
        assert_eq!(Moved::new("/a/b", "/a/b"), None);
        assert_eq!(Moved::new("/", "/tmp"), None);
        assert_eq!(Moved::new("", "/tmp"), None);
    }
}
