//! The forms in which programs write a value. [pure]
//!
//! As it is; in JSON; percent-encoded; in base64 of both alphabets wherever it lies in what is encoded; in
//! hexadecimal; backwards; quoted for a shell; and each line of it by itself.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::secrets::known::is_worth_hiding;

/// Longest piece of a value that is looked for as a whole. No form is more than six times as long.
const MAX_PIECE: usize = 512;

/// Most bytes of one value that are looked for.
const MAX_VALUE: usize = 16 * 1024;

/// Shortest form in base64: what lies around a value blurs its ends, and a short middle is found in any text.
const MIN_BASE64: usize = 10;

/// All forms of a value that is worth hiding, each once.
pub(super) fn of(value: &str) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::new();
    let value = &value[..boundary(value, MAX_VALUE)];
    let trimmed = value.trim_matches(['\n', '\r']);
    for piece in pieces(trimmed) {
        add_forms(piece, &mut forms);
    }
    if trimmed.contains('\n') {
        let lines = trimmed.lines().map(str::trim).filter(|line| is_worth_hiding(line));
        // The line that opens or closes an armoured key is in every such key.
        for line in lines.filter(|line| !line.starts_with("-----")) {
            pieces(line).for_each(|piece| add_forms(piece, &mut forms));
        }
    }
    forms
}

/// The value in pieces that a stream can keep back; one alone of nearly all values.
fn pieces(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut at = boundary(rest, MAX_PIECE);
        // A last piece that is too short to be looked for stays with the one before it.
        if rest.len() - at < MAX_PIECE / 2 {
            at = if rest.len() <= MAX_PIECE { rest.len() } else { boundary(rest, rest.len() / 2) };
        }
        let (piece, after) = rest.split_at(at);
        rest = after;
        Some(piece)
    })
}

/// The last end of a character within `at` bytes.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default()
}

fn add_forms(piece: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let mut add = |form: String| {
        forms.insert(form.into_bytes());
    };
    add(piece.to_owned());
    add(piece.chars().rev().collect());
    add(hexadecimal(piece, "0123456789abcdef"));
    add(hexadecimal(piece, "0123456789ABCDEF"));
    json(piece).into_iter().for_each(&mut add);
    percent(piece).into_iter().for_each(&mut add);
    shell(piece).into_iter().for_each(&mut add);
    for skipped in 0..3 {
        base64(piece.as_bytes(), skipped).into_iter().for_each(&mut add);
    }
}

fn hexadecimal(piece: &str, digits: &str) -> String {
    let digits = digits.as_bytes();
    let pairs = piece.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    pairs.map(|half| char::from(digits[usize::from(half)])).collect()
}

/// Inside a JSON string, as most writers do it, with `\/` and with everything beyond ASCII escaped.
fn json(piece: &str) -> Vec<String> {
    let quoted = serde_json::Value::String(piece.to_owned()).to_string();
    let inner = &quoted[1..quoted.len() - 1];
    let mut units = [0; 2];
    let ascii: String = inner.chars().fold(String::new(), |mut text, c| {
        if c.is_ascii() {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
        text
    });
    vec![inner.replace('/', "\\/"), ascii.replace('/', "\\/"), ascii, inner.to_owned()]
}

/// Percent-encoded: all that RFC 3986 does not call unreserved, in both letter cases; as a form writes it,
/// with `+` for blanks; and with what a path or query may hold left alone.
fn percent(piece: &str) -> Vec<String> {
    let encoded = |kept: &str, upper: bool| {
        piece.bytes().fold(String::new(), |mut text, byte| {
            let c = char::from(byte);
            if c.is_ascii_alphanumeric() || "-._~".contains(c) || kept.contains(c) {
                text.push(c);
            } else if upper {
                text.push_str(&format!("%{byte:02X}"));
            } else {
                text.push_str(&format!("%{byte:02x}"));
            }
            text
        })
    };
    let mut forms = Vec::new();
    for upper in [true, false] {
        let strict = encoded("", upper);
        forms.push(strict.replace("%20", "+"));
        forms.push(strict);
        forms.push(encoded("!$&'()*+,;=:@/?", upper));
    }
    forms
}

/// Inside single quotes, inside double quotes, and with a backslash before every special character.
fn shell(piece: &str) -> Vec<String> {
    let escaped = |special: &dyn Fn(char) -> bool| {
        piece.chars().fold(String::new(), |mut text, c| {
            if special(c) {
                text.push('\\');
            }
            text.push(c);
            text
        })
    };
    vec![
        piece.replace('\'', "'\\''"),
        piece.replace('\'', "'\"'\"'"),
        escaped(&|c| matches!(c, '$' | '`' | '"' | '\\')),
        escaped(&|c| matches!(c, '\'' | '\\')),
        escaped(&|c| c.is_ascii() && !c.is_ascii_alphanumeric() && !"%+,-./:=@_".contains(c)),
        escaped(&|c| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-./_".contains(c)),
    ]
}

/// What of the base64 text depends on the value alone when `skipped` bytes before it share its first group.
fn base64(piece: &[u8], skipped: usize) -> Vec<String> {
    let mut bytes = vec![0; skipped];
    bytes.extend_from_slice(piece);
    let from = (skipped * 8).div_ceil(6);
    let to = bytes.len() * 8 / 6;
    if to < from + MIN_BASE64 {
        return Vec::new();
    }
    let standard = STANDARD.encode(&bytes)[from..to].to_owned();
    let url_safe = URL_SAFE.encode(&bytes)[from..to].to_owned();
    vec![standard, url_safe]
}
