//! Compound commands: reserved words, `case`, tests, arrays, and what a parenthesis opens.

use super::{Frame, Line, Quoting, Scanner, Token, expand};
use crate::permissions::shell::Word;

/// Reserved words before a command.
const SKIPPED: &[&str] =
    &["if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}"];

/// Words that open a compound command.
const OPENERS: &[&str] = &["{", "if", "while", "until", "for", "select", "case", "[["];

impl Scanner<'_> {
    /// An opening parenthesis: arithmetic, a function's empty list, an array, a subshell.
    pub(super) fn open(&mut self, line: &mut Line, frames: &mut Vec<Frame>) {
        if self.sees("((") && (line.words.is_empty() || line.loops || line.coprocess) {
            let start = self.at;
            self.at += 2;
            let inner = self.at;
            if self.matched(b'(', b')', Quoting::Bare) && self.peek() == Some(b')') {
                self.at += 1;
                self.found.evaluates = true;
                self.perhaps_script(&self.text[inner..self.at - 2]);
                return self.end(line);
            }
            if self.at < self.bytes.len() || !self.found.incomplete {
                self.at = start;
            }
            if *self.left == 0 {
                return self.abort();
            }
        }
        self.at = (self.at + 1).min(self.bytes.len());
        let before = self.at;
        self.skip_blanks();
        // The name of a function is no command.
        if self.peek() == Some(b')') && line.words.len() == 1 {
            line.words.clear();
        }
        self.at = before;
        self.end(line);
        frames.push(Frame::Parenthesis);
    }

    /// The values of an array. They may be a command that is run as `"${x[@]}"` later.
    pub(super) fn array(&mut self) {
        self.at += 1;
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return self.abort(),
                Some(b')') => break,
                Some(b'\n') => self.inner_newline(),
                Some(b'#') => self.skip_comment(),
                Some(byte)
                    if b";&|(".contains(&byte)
                        || (b"<>".contains(&byte) && !self.substitutes()) =>
                {
                    self.gives_up();
                    self.at += 1;
                }
                Some(_) => words.push(self.word(false).word),
            }
        }
        self.at += 1;
        // What follows at once is a part of the same word.
        if self.peek().is_some_and(|byte| !b" \t\n;&|()<>".contains(&byte)) {
            self.gives_up();
            self.word(false);
        }
        if matches!(words.first(), Some(Word::Literal(_))) {
            self.found.commands.push(words);
        }
    }

    /// A newline inside a construct. Shells do not agree whether the body of a here-document begins there.
    fn inner_newline(&mut self) {
        if !self.pending.is_empty() {
            self.gives_up();
        }
        self.at += 1;
    }

    pub(super) fn patterns(&mut self, byte: u8, frames: &mut Vec<Frame>) {
        match byte {
            b'\n' | b'(' | b'|' => {
                self.at += 1;
                if byte == b'\n' {
                    self.here_documents();
                }
            }
            b'#' => self.skip_comment(),
            b')' => {
                self.at += 1;
                frames.pop();
                frames.push(Frame::Branch);
            }
            b';' | b'&' | b'<' | b'>' => {
                self.gives_up();
                self.at += 1;
            }
            _ => {
                let token = self.word(false);
                if token.raw == "esac" {
                    frames.pop();
                }
            }
        }
    }

    /// A word between `[[` and `]]`.
    pub(super) fn in_test(&mut self, token: Token, line: &mut Line, in_test: &mut bool) {
        if token.raw == "]]" {
            *in_test = false;
        }
        // A shell that does not know `[[` takes it for a program, and what follows for commands.
        if line.words.is_empty() && SKIPPED.contains(&token.raw.as_str()) {
            return;
        }
        line.words.push(token.word);
        if token.raw == "=~" {
            self.skip_blanks();
            self.pattern_of_test();
        }
    }

    /// A word of a command, or one that is reserved; tells that it opens `[[`.
    pub(super) fn take(
        &mut self,
        token: Token,
        start: usize,
        line: &mut Line,
        frames: &mut Vec<Frame>,
    ) -> bool {
        let raw = token.raw.as_str();
        if matches!(self.peek(), Some(b'<' | b'>')) && is_descriptor(raw) {
            return false;
        }
        if line.words.is_empty() {
            match raw {
                _ if token.is_assignment => line.prefixed = true,
                _ if line.timed && matches!(raw, "-p" | "--") => {}
                // No option of the reserved word, but perhaps one of the program of that name.
                _ if line.timed && raw.starts_with('-') => {
                    line.words = vec![Word::Literal("time".to_owned()), token.word];
                }
                _ if line.prefixed => line.words.push(token.word),
                _ if SKIPPED.contains(&raw) => {}
                "time" if !line.piped => line.timed = true,
                "coproc" => line.coprocess = true,
                "esac" if frames.last() == Some(&Frame::Branch) => drop(frames.pop()),
                "case" => self.case(frames),
                "function" => {
                    self.skip_blanks();
                    self.word(false);
                }
                _ => {
                    line.loops = matches!(raw, "for" | "select");
                    line.words.push(token.word);
                    return raw == "[[";
                }
            }
            return false;
        }
        let second = line.words.len() == 1;
        if line.loops && line.words.len() == 2 && matches!(raw, "do" | "{") {
            *line = Line::default();
        } else if line.coprocess && second && OPENERS.contains(&raw) {
            *line = Line::default();
            self.at = start;
        } else {
            line.words.push(token.word);
        }
        false
    }

    /// `case WORD in`, of which `case` is read.
    fn case(&mut self, frames: &mut Vec<Frame>) {
        self.skip_blanks();
        self.word(false);
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'\n') => self.inner_newline(),
                Some(b'#') => self.skip_comment(),
                _ => break,
            }
        }
        match self.word(false).raw == "in" {
            true => frames.push(Frame::Patterns),
            false => self.gives_up(),
        }
    }
}

/// What before a redirection says which descriptor it is about: a number, or a variable for one.
fn is_descriptor(raw: &str) -> bool {
    let variable = raw.strip_prefix('{').and_then(|raw| raw.strip_suffix('}'));
    variable.is_some_and(expand::is_name) || raw.bytes().all(|byte| byte.is_ascii_digit())
}
