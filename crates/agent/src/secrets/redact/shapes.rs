//! What looks like a secret whatever its value: keys of well-known services, signed tokens, private keys. [pure]
//!
//! Best effort: the services choose their shapes, and change them.

/// A kind of token: how it begins, what it goes on with, and what makes it one.
struct Shape {
    begins: &'static str,
    /// What a marker calls it.
    name: &'static str,
    goes_on: fn(u8) -> bool,
    /// Fewest bytes after the beginning.
    least: usize,
    /// What else the bytes after the beginning have to be.
    is_one: fn(&[u8]) -> bool,
}

const fn shape(begins: &'static str, name: &'static str, least: usize) -> Shape {
    Shape { begins, name, goes_on: is_word, least, is_one: anything }
}

/// Forms that the services document, or that their own scanners look for.
const SHAPES: &[Shape] = &[
    Shape { is_one: is_dense, ..shape("sk-", "api-key", 20) },
    Shape { is_one: is_dense, ..shape("sk_live_", "api-key", 16) },
    Shape { is_one: is_dense, ..shape("rk_live_", "api-key", 16) },
    Shape { goes_on: is_upper, ..shape("AKIA", "access-key", 16) },
    Shape { goes_on: is_upper, ..shape("ASIA", "access-key", 16) },
    shape("AIza", "api-key", 35),
    Shape { is_one: is_dense, ..shape("ghp_", "token", 30) },
    Shape { is_one: is_dense, ..shape("gho_", "token", 30) },
    Shape { is_one: is_dense, ..shape("ghu_", "token", 30) },
    Shape { is_one: is_dense, ..shape("ghs_", "token", 30) },
    Shape { is_one: is_dense, ..shape("ghr_", "token", 30) },
    Shape { is_one: is_dense, ..shape("github_pat_", "token", 22) },
    Shape { is_one: has_digit, ..shape("glpat-", "token", 20) },
    Shape { is_one: has_digit, ..shape("xoxa-", "token", 10) },
    Shape { is_one: has_digit, ..shape("xoxb-", "token", 10) },
    Shape { is_one: has_digit, ..shape("xoxp-", "token", 10) },
    Shape { is_one: has_digit, ..shape("xoxr-", "token", 10) },
    Shape { is_one: has_digit, ..shape("xoxs-", "token", 10) },
    Shape { is_one: is_dense, ..shape("npm_", "token", 36) },
    Shape { is_one: is_dense, ..shape("hf_", "token", 30) },
    Shape { goes_on: is_word_or_dot, is_one: is_signed, ..shape("eyJ", "signed-token", 30) },
];

/// How an armoured private key begins and ends (RFC 7468); the words between are letters and blanks.
const ARMOUR: &str = "-----BEGIN ";
const ARMOUR_END: &str = "-----END ";
const DASHES: &str = "-----";

/// Longest line that opens or closes an armoured key.
const MAX_ARMOUR_LINE: usize = 64;
/// Most bytes between the line that opens a key and its first long line: headers, line numbers, escapes.
const MAX_BEFORE_BODY: usize = 160;
/// Fewest bytes of base64 in a row that make what follows a key and not a text about keys.
const LEAST_BODY: usize = 32;
/// Most bytes that a key without an end may take along.
const MAX_ARMOURED: usize = 8 * 1024;
/// Longest token whose end is waited for while it might still become one.
const MAX_UNDECIDED: usize = 2048;

/// Longest beginning of a shape, in bytes.
pub(super) const LONGEST_BEGINNING: usize = ARMOUR.len();

/// What stands at a place where a shape begins.
pub(super) enum Seen {
    /// No secret.
    Nothing,
    /// More has to be seen.
    Undecided,
    /// A secret up to `end`, which may go on beyond the text.
    Secret { end: usize, name: &'static str, may_go_on: Option<Open> },
}

/// A secret whose end was not in the text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Open {
    /// Goes on as long as its bytes are of its kind.
    Token(fn(u8) -> bool),
    /// Goes on to the line that closes it, at most so many bytes.
    Armour(usize),
}

/// How shapes begin, in the order that [`judge`] counts them in.
pub(super) fn beginnings() -> impl Iterator<Item = &'static [u8]> {
    SHAPES.iter().map(|shape| shape.begins.as_bytes()).chain([ARMOUR.as_bytes()])
}

/// Whether some shape begins with `text` and is longer. `before` is the byte in front of it.
pub(super) fn goes_on_from(text: &[u8], before: Option<u8>) -> bool {
    let is_in_a_word = before.is_some_and(is_word);
    let tokens = SHAPES.iter().map(|shape| shape.begins).filter(|_| !is_in_a_word);
    let mut beginnings = tokens.chain([ARMOUR]).map(str::as_bytes);
    beginnings.any(|beginning| beginning.len() > text.len() && beginning.starts_with(text))
}

/// What stands at `start`, where the beginning number `which` was found. `before` is the byte in front of it.
pub(super) fn judge(
    which: usize,
    text: &[u8],
    start: usize,
    before: Option<u8>,
    is_end: bool,
) -> Seen {
    let Some(shape) = SHAPES.get(which) else { return armour(text, start, is_end) };
    // In the middle of a word it is part of that word.
    if before.is_some_and(is_word) {
        return Seen::Nothing;
    }
    let body = &text[start + shape.begins.len()..];
    let len = body.iter().position(|&byte| !(shape.goes_on)(byte)).unwrap_or(body.len());
    let is_whole = is_end || len < body.len();
    let body = &body[..len];
    if len >= shape.least && (shape.is_one)(body) {
        let may_go_on = (!is_whole).then_some(Open::Token(shape.goes_on));
        let end = start + shape.begins.len() + len;
        return Seen::Secret { end, name: shape.name, may_go_on };
    }
    if is_whole || len > MAX_UNDECIDED { Seen::Nothing } else { Seen::Undecided }
}

fn armour(text: &[u8], start: usize, is_end: bool) -> Seen {
    let undecided = if is_end { Seen::Nothing } else { Seen::Undecided };
    let line = &text[start + ARMOUR.len()..];
    let label_end = line.iter().position(|&byte| byte != b' ' && !is_upper(byte));
    let Some(label_end) = label_end.or((line.len() > MAX_ARMOUR_LINE).then_some(line.len())) else {
        return undecided;
    };
    if !line[..label_end].ends_with(b"PRIVATE KEY") {
        return Seen::Nothing;
    }
    let after = &line[label_end..];
    if !is_end && DASHES.len() > after.len() && DASHES.as_bytes().starts_with(after) {
        return undecided;
    }
    let Some(after) = after.strip_prefix(DASHES.as_bytes()) else { return Seen::Nothing };
    let near = &after[..after.len().min(MAX_BEFORE_BODY + LEAST_BODY)];
    if !near.windows(LEAST_BODY).any(|run| run.iter().all(|&byte| is_base64(byte))) {
        return if near.len() < MAX_BEFORE_BODY + LEAST_BODY { undecided } else { Seen::Nothing };
    }
    let from = text.len() - after.len();
    let (end, is_closed) = match close(after, MAX_ARMOURED) {
        Closing::Here(len) => (from + len, true),
        Closing::NotYet => (text.len(), false),
        Closing::Never(len) => (from + len, true),
    };
    let left = MAX_ARMOURED.saturating_sub(after.len());
    let may_go_on = (!is_closed).then_some(Open::Armour(left));
    Seen::Secret { end, name: "private-key", may_go_on }
}

/// Where an armoured key ends.
pub(super) enum Closing {
    /// After so many bytes.
    Here(usize),
    /// Not in this text.
    NotYet,
    /// Not within the most bytes that a key may take; so many of them go.
    Never(usize),
}

/// Looks for the line that closes an armoured key, in at most `most` bytes.
pub(super) fn close(text: &[u8], most: usize) -> Closing {
    let near = &text[..text.len().min(most)];
    if let Some(at) = memchr::memmem::find(near, ARMOUR_END.as_bytes()) {
        let label = at + ARMOUR_END.len();
        let line = &text[label..text.len().min(label + MAX_ARMOUR_LINE)];
        if let Some(dashes) = memchr::memmem::find(line, DASHES.as_bytes()) {
            return Closing::Here(label + dashes + DASHES.len());
        }
        if line.len() == MAX_ARMOUR_LINE {
            return Closing::Here(label);
        }
        return Closing::NotYet;
    }
    if text.len() <= most {
        return Closing::NotYet;
    }
    // Up to the end of a character, which may have more bytes.
    let is_inside = |byte: &&u8| **byte & 0xc0 == 0x80;
    Closing::Never(most + text[most..].iter().take(3).take_while(is_inside).count())
}

/// How many bytes at the end of a text may be the beginning of the line that closes a key.
pub(super) const CLOSING_HELD: usize = ARMOUR_END.len() + MAX_ARMOUR_LINE;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_word_or_dot(byte: u8) -> bool {
    is_word(byte) || byte == b'.'
}

fn is_upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn anything(_body: &[u8]) -> bool {
    true
}

fn has_digit(body: &[u8]) -> bool {
    body.iter().any(u8::is_ascii_digit)
}

/// Whether there is a long run without a dash or an underscore that holds a digit. Names of classes and
/// branches consist of words.
fn is_dense(body: &[u8]) -> bool {
    body.split(|byte| !byte.is_ascii_alphanumeric()).any(|run| run.len() >= 16 && has_digit(run))
}

/// Whether it is three parts with dots between, the second an object in base64 too (RFC 7519).
fn is_signed(body: &[u8]) -> bool {
    let mut parts = body.split(|&byte| byte == b'.');
    let (header, payload, signature) = (parts.next(), parts.next(), parts.next());
    header.is_some_and(|part| part.len() >= 8)
        && payload.is_some_and(|part| part.starts_with(b"eyJ"))
        && signature.is_some()
}
