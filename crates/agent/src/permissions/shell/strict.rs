//! Reads a command line only where every byte of it is understood.
//!
//! What comes out is exactly what bash would run: the words after quoting, the redirections, the
//! operators. Whatever an expansion could change (a variable, a glob, a brace, a tilde, a substitution),
//! every compound command, every control character ends the reading. Only this may let a command run
//! unasked, so that not knowing something costs a question and never a command. `tests/shell_oracle.rs`
//! holds it against bash itself.

use super::invisible::is_unseen;
use super::{Redirect, RedirectKind, Simple, Unknown, programs};

/// Words that open or close a compound command where the name of a program is expected.
const RESERVED: &[&str] = &[
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while", "{", "}",
];

const EXPANDS: &str = "a character that the shell may expand";
/// What is said of a variable that is set before a command.
pub(super) const ASSIGNMENT: &str = "an assignment that may change what runs";

/// The simple commands of a line that consists of nothing else.
///
/// # Errors
///
/// The first thing that is not understood; also a line without a command.
pub(super) fn read(text: &str) -> Result<Vec<Simple>, Unknown> {
    read_with(text, false)
}

/// The same, where arguments may also hold `*` and `?` as long as their program does nothing but read,
/// whatever files they turn out to name and however these are called. The words hold the patterns.
///
/// # Errors
///
/// The first thing that is not understood.
pub(super) fn read_patterns(text: &str) -> Result<Vec<Simple>, Unknown> {
    read_with(text, true)
}

fn read_with(text: &str, patterns: bool) -> Result<Vec<Simple>, Unknown> {
    if let Some((at, _)) = text.char_indices().find(|(_, c)| is_unseen(*c)) {
        return Err(Unknown { at, what: "a character that nobody sees" });
    }
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, patterns, pattern: None };
    let mut commands = Vec::new();
    reader.skip_blank_lines();
    loop {
        commands.push(reader.simple()?);
        match reader.operator()? {
            Operator::End => return Ok(commands),
            Operator::Joining => reader.skip_blank_lines(),
            Operator::Separator => {
                reader.skip_blank_lines();
                if reader.peek().is_none() {
                    return Ok(commands);
                }
            }
        }
    }
}

enum Operator {
    /// `;` or the end of a line; the text may end here.
    Separator,
    /// `&&`, `||` or `|`: another command has to follow.
    Joining,
    End,
}

/// A word after quoting.
struct Token {
    text: String,
    at: usize,
    /// Bytes of `text` before anything quoted or escaped; all of them only where nothing was.
    bare: usize,
    quoted: bool,
    /// A line was continued inside it.
    continued: bool,
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Patterns are understood.
    patterns: bool,
    /// Where the first pattern of the command is that is read now.
    pattern: Option<usize>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn sees(&self, text: &str) -> bool {
        self.bytes[self.at..].starts_with(text.as_bytes())
    }

    fn unknown<T>(&self, what: &'static str) -> Result<T, Unknown> {
        Err(Unknown { at: self.at, what })
    }

    /// Skips blanks, continued lines and a comment; stops at a newline.
    fn skip_blanks(&mut self) {
        let mut apart = self.at == 0 || b" \t\n;&|".contains(&self.bytes[self.at - 1]);
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => {
                    self.at += 1;
                    apart = true;
                }
                Some(b'\\') if self.sees("\\\n") => self.at += 2,
                Some(b'#') if apart => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn skip_blank_lines(&mut self) {
        self.skip_blanks();
        while self.peek() == Some(b'\n') {
            self.at += 1;
            self.skip_blanks();
        }
    }

    fn operator(&mut self) -> Result<Operator, Unknown> {
        let (operator, length) = match self.peek() {
            None => return Ok(Operator::End),
            _ if self.sees("&&") || self.sees("||") => (Operator::Joining, 2),
            Some(b'|') if !self.sees("|&") => (Operator::Joining, 1),
            Some(b';') if !self.sees(";;") && !self.sees(";&") => (Operator::Separator, 1),
            Some(b'\n') => (Operator::Separator, 1),
            _ => return self.unknown("an operator other than && || | ;"),
        };
        self.at += length;
        Ok(operator)
    }

    /// One simple command, up to the operator that ends it.
    fn simple(&mut self) -> Result<Simple, Unknown> {
        let mut simple = Simple::default();
        self.pattern = None;
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'<' | b'>') => simple.redirects.push(self.redirect(None)?),
                Some(b'&') if self.sees("&>") => simple.redirects.push(self.redirect(None)?),
                None | Some(b'\n' | b';' | b'|' | b'&') => break,
                Some(_) => self.word_or_descriptor(&mut simple)?,
            }
        }
        match (simple.argv.first(), self.pattern) {
            (None, _) => self.unknown("no command where one is expected"),
            (Some(program), Some(at)) if !programs::takes_any_words(program) => {
                Err(Unknown { at, what: EXPANDS })
            }
            (Some(_), _) => Ok(simple),
        }
    }

    fn word_or_descriptor(&mut self, simple: &mut Simple) -> Result<(), Unknown> {
        let (begins, before) = (self.at, self.pattern);
        let token = self.word()?;
        // Nor the program, nor a variable that is set for it.
        if simple.argv.is_empty() && self.pattern != before {
            return Err(Unknown { at: begins, what: EXPANDS });
        }
        if matches!(self.peek(), Some(b'<' | b'>')) {
            if token.continued || token.text.contains(['{', '}']) {
                return self.unknown("a redirection that the word before it may belong to");
            }
            if !token.quoted && token.text.bytes().all(|byte| byte.is_ascii_digit()) {
                let [fd @ b'0'..=b'2'] = token.text.as_bytes() else {
                    return self.unknown("a redirection of an unusual descriptor");
                };
                simple.redirects.push(self.redirect(Some(fd - b'0'))?);
                return Ok(());
            }
        }
        add(token, simple)
    }

    /// A redirection; `fd` is the descriptor before its sign.
    fn redirect(&mut self, fd: Option<u8>) -> Result<Redirect, Unknown> {
        const SIGNS: &[(&str, RedirectKind)] = &[
            ("&>>", RedirectKind::Append),
            ("&>", RedirectKind::Write),
            (">&", RedirectKind::Duplicate),
            (">>", RedirectKind::Append),
            (">|", RedirectKind::Write),
            (">", RedirectKind::Write),
            ("<", RedirectKind::Read),
        ];
        if self.sees("<<") || self.sees("<>") || self.sees("<&") {
            return self.unknown("a here-document or an unusual redirection");
        }
        let (sign, kind) =
            *SIGNS.iter().find(|(sign, _)| self.sees(sign)).expect("a sign was seen");
        self.at += sign.len();
        self.skip_blanks();
        if self.peek().is_none_or(|byte| b"\n;|&<>".contains(&byte)) {
            return self.unknown("a redirection without a target");
        }
        let (begins, before) = (self.at, self.pattern.take());
        let target = self.word()?;
        if self.pattern.is_some() {
            return Err(Unknown { at: begins, what: EXPANDS });
        }
        self.pattern = before;
        let is_number = target.text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && matches!(self.peek(), Some(b'<' | b'>')) {
            return self.unknown("a number between two redirections");
        }
        let is_descriptor = !target.quoted && matches!(target.text.as_str(), "0" | "1" | "2");
        if kind == RedirectKind::Duplicate && !is_descriptor {
            return self.unknown("a redirection to an unusual descriptor");
        }
        if ["/dev/tcp/", "/dev/udp/"].iter().any(|device| target.text.starts_with(device)) {
            return self.unknown("a redirection to the network");
        }
        let fd = fd.unwrap_or(u8::from(kind != RedirectKind::Read));
        Ok(Redirect { fd, both: sign.starts_with('&'), kind, target: target.text })
    }

    /// A word up to the blank or operator that ends it.
    fn word(&mut self) -> Result<Token, Unknown> {
        let mut token =
            Token { text: String::new(), at: self.at, bare: 0, quoted: false, continued: false };
        let mut braces = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>' => break,
                b'\\' if self.sees("\\\n") => {
                    self.at += 2;
                    token.continued = true;
                }
                b'\\' | b'\'' | b'"' => {
                    self.quoted(byte, &mut token.text)?;
                    token.quoted = true;
                }
                _ => {
                    braces |= matches!(byte, b'{' | b'}');
                    self.bare(&mut token)?;
                }
            }
        }
        // Quoted commas count too: one reading less, and no rule about what quoting does to braces.
        if braces && (token.text.contains(',') || token.text.contains("..")) {
            return self.unknown("braces that expand");
        }
        Ok(token)
    }

    /// One character that stands without quotes.
    fn bare(&mut self, token: &mut Token) -> Result<(), Unknown> {
        let c = self.text[self.at..].chars().next().expect("a byte was seen here");
        let previous = token.text.chars().next_back().filter(|_| !token.quoted);
        let starts = token.text.is_empty() && !token.quoted;
        let next = self.bytes.get(self.at + 1);
        let is_literal = match c {
            '_' | '.' | '/' | ',' | ':' | '@' | '%' | '+' | '=' | '-' | '^' | ']' | '!' | '{'
            | '}' => true,
            '#' => !starts,
            // The program `[`; anything longer is a pattern.
            '[' => starts && next.is_none_or(|byte| b" \t\n".contains(byte)),
            // Somebody's home at the start of a word and of what follows `=` or `:`.
            '~' => previous.is_some_and(|c| c.is_ascii_alphanumeric() || "^/._-".contains(c)),
            '*' | '?' if self.patterns => {
                self.pattern.get_or_insert(self.at);
                true
            }
            _ => c.is_alphanumeric(),
        };
        if !is_literal {
            return self.unknown(EXPANDS);
        }
        token.text.push(c);
        self.at += c.len_utf8();
        if !token.quoted {
            token.bare = token.text.len();
        }
        Ok(())
    }

    /// A quoted part or an escaped character, which starts with `quote`.
    fn quoted(&mut self, quote: u8, into: &mut String) -> Result<(), Unknown> {
        let opened = self.at;
        self.at += 1;
        match quote {
            b'\\' => match self.peek() {
                Some(byte @ b' '..=b'~') => {
                    into.push(char::from(byte));
                    self.at += 1;
                    Ok(())
                }
                _ => self.unknown("a backslash before something unusual"),
            },
            b'\'' => match self.text[self.at..].find('\'') {
                Some(length) => {
                    into.push_str(&self.text[self.at..self.at + length]);
                    self.at += length + 1;
                    Ok(())
                }
                None => Err(Unknown { at: opened, what: "a quote that nothing closes" }),
            },
            _ => self.double_quoted(opened, into),
        }
    }

    fn double_quoted(&mut self, opened: usize, into: &mut String) -> Result<(), Unknown> {
        while let Some(byte) = self.peek() {
            let next = self.bytes.get(self.at + 1).copied();
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'`' => return self.unknown("a substitution"),
                // As the end of a pattern it stands for itself.
                b'$' if !next.is_some_and(|byte| b"\" |)/,.".contains(&byte)) => {
                    return self.unknown("an expansion");
                }
                b'\\' if next == Some(b'\n') => self.at += 2,
                b'\\' if next.is_some_and(|byte| b"$`\"\\".contains(&byte)) => {
                    into.push(char::from(next.expect("it was looked at")));
                    self.at += 2;
                }
                _ => {
                    let rest = &self.text[self.at..];
                    let c = rest.chars().next().expect("a byte was seen here");
                    into.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        Err(Unknown { at: opened, what: "a quote that nothing closes" })
    }
}

/// Puts a word where it belongs: an assignment before the program, or the next argument.
fn add(token: Token, simple: &mut Simple) -> Result<(), Unknown> {
    let unknown = |what| Err(Unknown { at: token.at, what });
    if !simple.argv.is_empty() {
        simple.argv.push(token.text);
        return Ok(());
    }
    if let Some((name, value)) = token.text.split_once('=') {
        if name.len() >= token.bare || !is_name(name) {
            return unknown("a program's name with an equals sign");
        }
        if !programs::is_harmless_variable(name) {
            return unknown(ASSIGNMENT);
        }
        simple.assignments.push((name.to_owned(), value.to_owned()));
        return Ok(());
    }
    if !token.quoted && RESERVED.contains(&token.text.as_str()) {
        return unknown("a compound command");
    }
    if token.text.is_empty() || token.text.starts_with(['-', '%']) {
        return unknown("a name that no program has");
    }
    simple.argv.push(token.text);
    Ok(())
}

/// What a variable may be called.
fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
