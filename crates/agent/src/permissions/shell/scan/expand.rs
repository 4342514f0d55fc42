//! Words with their quotes and expansions.

use super::{Ends, MAX_DEPTH, Quoting, Scanner, Token};
use crate::permissions::shell::{Word, ansi_c, words};

impl Scanner<'_> {
    /// The character here; moves past it.
    pub(super) fn push_char(&mut self, into: &mut String) {
        // A position inside a character comes from a backslash before it and is passed byte by byte.
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => {
                into.push(c);
                self.at += c.len_utf8();
            }
            None => self.at = (self.at + 1).min(self.bytes.len()),
        }
    }

    fn push(&mut self, literal: &mut Option<String>) {
        let mut text = String::new();
        self.push_char(&mut text);
        if let Some(literal) = literal {
            literal.push_str(&text);
        }
    }

    /// A word up to the blank or operator that ends it.
    pub(super) fn word(&mut self, may_assign: bool) -> Token {
        let start = self.at;
        let mut literal = Some(String::new());
        let mut is_assignment = false;
        let (mut braces, mut brackets, mut equals) = (false, false, false);
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' => break,
                b'<' | b'>' if self.substitutes() => {
                    self.at += 2;
                    literal = None;
                    self.list(Ends::WithParenthesis);
                }
                b'<' | b'>' => break,
                b'\\' if self.sees("\\\n") => self.at += 2,
                // As the last character it stands for itself.
                b'\\' => {
                    self.at += usize::from(self.at + 1 < self.bytes.len());
                    self.push(&mut literal);
                }
                b'\'' => self.single_quoted(&mut literal),
                b'"' => self.double_quoted(&mut literal),
                b'$' => self.dollar(&mut literal, Quoting::Bare),
                b'`' => {
                    literal = None;
                    self.backquoted(Quoting::Bare);
                }
                b'[' if may_assign && !brackets && is_name(&joined(&self.text[start..self.at])) => {
                    brackets = true;
                    self.index();
                }
                _ => {
                    braces |= matches!(byte, b'{' | b'}');
                    brackets |= byte == b'[';
                    let raw = &self.text[start..self.at];
                    // Only the first sign can be one of assignment.
                    if byte == b'=' && may_assign && !equals {
                        equals = true;
                        is_assignment = is_assignable(&joined(raw));
                    }
                    let tilde = byte == b'~' && (raw.is_empty() || raw.ends_with(['=', ':']));
                    if tilde || matches!(byte, b'*' | b'?') {
                        literal = None;
                    }
                    self.push(&mut literal);
                }
            }
        }
        let raw = joined(&self.text[start..self.at]);
        let expands = |text: &String| {
            (braces && (text.contains(',') || text.contains("..")))
                || (brackets && raw != "[" && raw != "[[" && raw.contains(']'))
        };
        let word = match literal.filter(|text| !expands(text)) {
            Some(text) => Word::Literal(text),
            None => Word::Unknown,
        };
        if let Word::Literal(text) = &word {
            self.found.sleeping |= words::substitutes(text);
        }
        Token { word, raw, is_assignment }
    }

    fn single_quoted(&mut self, literal: &mut Option<String>) {
        self.at += 1;
        let rest = &self.text[self.at..];
        let Some(length) = rest.find('\'') else { return self.abort() };
        self.found.sleeping |= words::substitutes(&rest[..length]);
        if let Some(literal) = literal {
            literal.push_str(&rest[..length]);
        }
        self.at += length + 1;
    }

    fn double_quoted(&mut self, literal: &mut Option<String>) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            let next = self.bytes.get(self.at + 1).copied();
            match byte {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'\\' if next == Some(b'\n') => self.at += 2,
                b'\\' if next.is_some_and(|byte| b"$`\"\\".contains(&byte)) => {
                    self.at += 1;
                    self.push(literal);
                }
                b'$' => self.dollar(literal, Quoting::Double),
                b'`' => {
                    *literal = None;
                    self.backquoted(Quoting::Double);
                }
                _ => self.push(literal),
            }
        }
        self.abort();
    }

    /// A dollar sign and what it begins. Whatever nests comes past here, or is a list.
    pub(super) fn dollar(&mut self, literal: &mut Option<String>, quoting: Quoting) {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => self.abort(),
            false => self.expansion(literal, quoting),
        }
        self.depth -= 1;
    }

    fn expansion(&mut self, literal: &mut Option<String>, quoting: Quoting) {
        let rest = &self.bytes[self.at..];
        match (rest.get(1), rest.get(2)) {
            (Some(b'('), Some(b'(')) => {
                *literal = None;
                self.at += 2;
                self.arithmetic(b'(', b')', quoting);
            }
            (Some(b'('), _) => {
                *literal = None;
                self.at += 2;
                self.list(Ends::WithParenthesis);
            }
            (Some(b'['), _) => {
                *literal = None;
                self.at += 2;
                self.arithmetic(b'[', b']', quoting);
            }
            (Some(b'{'), _) => {
                *literal = None;
                self.at += 2;
                self.parameter(quoting);
            }
            (Some(b'\''), _) if quoting == Quoting::Bare => {
                self.at += 2;
                self.ansi_quoted(literal);
            }
            (Some(b'"'), _) if quoting == Quoting::Bare => {
                self.at += 1;
                self.double_quoted(literal);
            }
            (Some(next), _) if next.is_ascii_alphanumeric() || b"_@*#?-$!".contains(next) => {
                *literal = None;
                self.at += 2;
            }
            // The shell joins a continued line before it looks what the sign begins.
            (Some(b'\\'), Some(b'\n')) => {
                *literal = None;
                self.gives_up();
                self.at += 1;
            }
            _ => self.push(literal),
        }
    }

    fn ansi_quoted(&mut self, literal: &mut Option<String>) {
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => self.at = (self.at + 2).min(self.bytes.len()),
                b'\'' => {
                    let decoded = self.text.get(start..self.at).and_then(ansi_c::decode);
                    self.at += 1;
                    self.found.sleeping |= decoded.as_deref().is_none_or(words::substitutes);
                    *literal = match (literal.take(), decoded) {
                        (Some(before), Some(text)) => Some(before + &text),
                        _ => None,
                    };
                    return;
                }
                _ => self.at += 1,
            }
        }
        self.abort();
    }

    /// Arithmetic, whose opening sign is read; bash takes `$((` for commands where it is none.
    fn arithmetic(&mut self, open: u8, close: u8, quoting: Quoting) {
        self.found.evaluates = true;
        let start = self.at;
        if !self.matched(open, close, quoting) {
            return self.abort();
        }
        let Some(text) = self.text.get(start..self.at - 1).filter(|_| open == b'(') else { return };
        match is_one_group(text) {
            true => self.perhaps_script(text),
            false => self.inner_script(text),
        }
    }

    /// Moves past the sign that closes what is open here, over quotes and substitutions; tells whether
    /// there is one.
    pub(super) fn matched(&mut self, open: u8, close: u8, quoting: Quoting) -> bool {
        let start = self.at;
        let mut depth = 1usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => self.at = (self.at + 2).min(self.bytes.len()),
                // Whether it quotes depends on the version of the shell.
                b'\'' if quoting == Quoting::Double => {
                    self.gives_up();
                    self.at += 1;
                }
                b'\'' => self.single_quoted(&mut None),
                b'"' => self.double_quoted(&mut None),
                b'$' => self.dollar(&mut None, quoting),
                b'`' => self.backquoted(quoting),
                _ => {
                    self.at += 1;
                    if byte == open {
                        depth += 1;
                    } else if byte == close {
                        depth -= 1;
                        if depth == 0 {
                            return true;
                        }
                    }
                }
            }
        }
        // What was passed in vain is read again.
        *self.left = self.left.saturating_sub(self.at - start);
        false
    }

    /// What stands between `${` and its brace.
    fn parameter(&mut self, quoting: Quoting) {
        let start = self.at;
        // Newer shells run what follows these.
        if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|')) {
            self.gives_up();
        }
        while let Some(byte) = self.peek() {
            match byte {
                b'}' => {
                    let plain = self.text[start..self.at]
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b == b'_');
                    self.found.evaluates |= !plain;
                    self.at += 1;
                    return;
                }
                b'\\' => self.at = (self.at + 2).min(self.bytes.len()),
                b'\'' if quoting == Quoting::Double => {
                    self.gives_up();
                    self.at += 1;
                }
                b'\'' => self.single_quoted(&mut None),
                b'"' => self.double_quoted(&mut None),
                b'$' => self.dollar(&mut None, quoting),
                b'`' => self.backquoted(quoting),
                b'<' | b'>' if quoting == Quoting::Bare && self.substitutes() => {
                    self.at += 2;
                    self.list(Ends::WithParenthesis);
                }
                _ => self.at += 1,
            }
        }
        self.abort();
    }

    /// The index of an array before its assignment. Elsewhere it is words, and is read as those too.
    fn index(&mut self) {
        let start = self.at;
        self.at += 1;
        self.found.evaluates = true;
        if self.matched(b'[', b']', Quoting::Bare) {
            if let Some(text) = self.text.get(start + 1..self.at - 1) {
                self.perhaps_script(text);
            }
        } else {
            self.at = start + 1;
            if *self.left == 0 {
                self.abort();
            }
        }
    }

    /// A substitution in backquotes; backslashes in it protect from the outer reading only.
    pub(super) fn backquoted(&mut self, quoting: Quoting) {
        self.at += 1;
        let mut inner = String::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'`' => {
                    self.at += 1;
                    return self.inner_script(&inner);
                }
                b'\\' => {
                    let next = self.bytes.get(self.at + 1).copied();
                    let protects = next.is_some_and(|byte| b"`\\$".contains(&byte))
                        || (next == Some(b'"') && quoting == Quoting::Double);
                    self.at += 1;
                    if !protects {
                        inner.push('\\');
                    }
                    self.push_char(&mut inner);
                }
                _ => self.push_char(&mut inner),
            }
        }
        self.abort();
    }

    /// The word after `=~`, or what is left of a pattern, in which parentheses and bars are text.
    pub(super) fn pattern_of_test(&mut self) {
        loop {
            self.word(false);
            match self.peek() {
                Some(b'|') => self.at += 1,
                Some(b'(') => {
                    self.at += 1;
                    let start = self.at;
                    if !self.matched(b'(', b')', Quoting::Bare) {
                        return self.abort();
                    }
                    if let Some(text) = self.text.get(start..self.at - 1) {
                        self.perhaps_script(text);
                    }
                }
                _ => return,
            }
        }
    }
}

/// The text without the marks of continued lines.
fn joined(raw: &str) -> String {
    raw.replace("\\\n", "")
}

/// The parenthesis at the start is closed by the one at the end, and no quote makes that doubtful.
fn is_one_group(text: &str) -> bool {
    let mut depth = 0usize;
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    inner.is_some_and(|inner| {
        inner.bytes().all(|byte| match byte {
            b'(' => {
                depth += 1;
                true
            }
            b')' => {
                let closes = depth > 0;
                depth = depth.saturating_sub(1);
                closes
            }
            byte => !b"'\"\\#".contains(&byte),
        })
    })
}

pub(super) fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What may stand before the equals sign of an assignment.
fn is_assignable(text: &str) -> bool {
    let text = text.strip_suffix('+').unwrap_or(text);
    let name = text.split_once('[').filter(|_| text.ends_with(']')).map_or(text, |(name, _)| name);
    is_name(name)
}
