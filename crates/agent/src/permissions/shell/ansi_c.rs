//! Decodes what stands between `$'` and `'`.

/// The text that `body` stands for; `None` where it depends on the locale or is no text.
pub(super) fn decode(body: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let from_escape = rest;
        let escape = rest.chars().next()?;
        rest = &rest[escape.len_utf8()..];
        let simple = match escape {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '?' => escape as u8,
            'x' => {
                bytes.push(u8::try_from(digits(&mut rest, 16, 2)?).ok()?);
                continue;
            }
            '0'..='7' => {
                rest = from_escape;
                bytes.push((digits(&mut rest, 8, 3)? & 0xff) as u8);
                continue;
            }
            'u' | 'U' => {
                let c = char::from_u32(digits(&mut rest, 16, if escape == 'u' { 4 } else { 8 })?)?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            // Control characters: no program's name holds one.
            'c' => return None,
            // Bash keeps the backslash of what it does not know.
            other => {
                bytes.push(b'\\');
                bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
        };
        bytes.push(simple);
    }
    // A zero byte ends the text for bash.
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    String::from_utf8(bytes).ok()
}

/// Reads up to `most` digits; `None` where there is none.
fn digits(rest: &mut &str, radix: u32, most: usize) -> Option<u32> {
    let count = rest.chars().take(most).take_while(|c| c.is_digit(radix)).count();
    let value = u32::from_str_radix(rest.get(..count)?, radix).ok()?;
    *rest = &rest[count..];
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_every_kind_are_decoded() {
        for (body, want) in [
            ("rm", "rm"),
            (r"\x72\x6d", "rm"),
            (r"\162\155", "rm"),
            (r"\u0072\U0000006d", "rm"),
            (r"a\nb\tc\\\'", "a\nb\tc\\'"),
            (r"\7", "\u{7}"),
            (r"rm\0f", "rm"),
            (r"\z", "\\z"),
        ] {
            assert_eq!(decode(body).as_deref(), Some(want), "{body}");
        }
        assert_eq!(decode(r"\cA"), None);
        assert_eq!(decode(r"\xff"), None);
    }
}
