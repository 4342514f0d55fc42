//! Finds commands in any text that bash might accept, in time that grows with the text.
//!
//! It knows where words, quotes, substitutions and here-documents begin and end, as bash does, and takes
//! every place where a command may start for one: too much is found rather than too little, and broken
//! syntax hides nothing. A parser with a grammar is the worse tool for this. The maintained one tried
//! first needed seconds for forty nested bytes, since it reads again what it could not place, and another
//! takes half a line for an error and drops it.
//!
//! Where bash itself decides late (`((` may be arithmetic or two subshells) both readings are taken. What
//! is not sure makes the result incomplete.

mod compound;
mod expand;
mod here;

use super::Word;
use here::HereDocument;

/// Substitutions within substitutions that are followed.
pub(super) const MAX_DEPTH: usize = 48;

/// What was found in a text.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// The words of each command.
    pub(super) commands: Vec<Vec<Word>>,
    /// Something was not understood, or is beyond what is looked at.
    pub(super) incomplete: bool,
    /// A quoted text looks like a substitution.
    pub(super) sleeping: bool,
    /// Something evaluates what variables hold.
    pub(super) evaluates: bool,
}

/// Reads `text` as a script; `left` is the number of bytes that may still be read again, over all
/// scans of one line.
pub(super) fn script(text: &str, depth: usize, left: &mut usize) -> Scanned {
    let Some(mut scanner) = Scanner::of(text, depth, left) else { return Scanned::beyond() };
    scanner.list(Ends::WithText);
    scanner.found
}

/// Looks for substitutions in a text in which quotes mean nothing.
pub(super) fn expansions(text: &str, depth: usize, left: &mut usize) -> Scanned {
    let Some(mut scanner) = Scanner::of(text, depth, left) else { return Scanned::beyond() };
    scanner.unquoted_text();
    scanner.found
}

impl Scanned {
    /// Of a text that is not looked at.
    fn beyond() -> Self {
        Self { incomplete: true, ..Self::default() }
    }
}

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    depth: usize,
    left: &'t mut usize,
    /// Here-documents whose bodies begin after the next newline.
    pending: Vec<HereDocument>,
    found: Scanned,
}

/// Where a list of commands ends.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    WithText,
    /// At the parenthesis that closes a substitution.
    WithParenthesis,
}

/// What is open around a command.
#[derive(Clone, Copy, PartialEq)]
enum Frame {
    Parenthesis,
    /// Between `in` or `;;` and the parenthesis after the patterns.
    Patterns,
    /// The commands of a branch of `case`.
    Branch,
}

/// The command that is being read.
#[derive(Default)]
struct Line {
    words: Vec<Word>,
    /// `time` came before it, whose options are no command.
    timed: bool,
    /// An assignment or a redirection came before it, after which no word is reserved.
    prefixed: bool,
    /// It reads from a pipe, where `time` is a program.
    piped: bool,
    /// `coproc` came before it: its first word may be a name.
    coprocess: bool,
    /// The words of `for` and `select`, which may end without a separator.
    loops: bool,
    /// How many words stood before `&>`, which not every shell knows.
    parted: Option<usize>,
}

/// A word as it was read.
struct Token {
    word: Word,
    /// How it is written, continued lines joined.
    raw: String,
    is_assignment: bool,
}

impl<'t> Scanner<'t> {
    /// `None` where the limits leave nothing for the text.
    fn of(text: &'t str, depth: usize, left: &'t mut usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        *left = left.checked_sub(text.len())?;
        let (bytes, pending, found) = (text.as_bytes(), Vec::new(), Scanned::default());
        Some(Self { text, bytes, at: 0, depth, left, pending, found })
    }
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn sees(&self, text: &str) -> bool {
        self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(text.as_bytes()))
    }

    fn gives_up(&mut self) {
        self.found.incomplete = true;
    }

    /// Stops everything: what is left is not looked at.
    fn abort(&mut self) {
        self.gives_up();
        self.at = self.bytes.len();
    }

    /// Takes over what a scan of a part found.
    fn merge(&mut self, inner: Scanned) {
        self.found.commands.extend(inner.commands);
        self.found.incomplete |= inner.incomplete;
        self.found.sleeping |= inner.sleeping;
        self.found.evaluates |= inner.evaluates;
    }

    /// Reads a text that stands in this one as commands.
    fn inner_script(&mut self, text: &str) {
        let inner = script(text, self.depth + 1, self.left);
        self.merge(inner);
    }

    /// Reads arithmetic as commands too, in case it is some: what is found counts, what is not
    /// understood does not.
    fn perhaps_script(&mut self, text: &str) {
        let mut inner = script(text, self.depth + 1, self.left);
        inner.commands.retain(|words| words[0] != Word::Unknown);
        inner.incomplete = false;
        self.merge(inner);
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.sees("\\\n") => self.at += 2,
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    /// Commands up to the end.
    fn list(&mut self, ends: Ends) {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.depth -= 1;
            return self.abort();
        }
        let outer = std::mem::take(&mut self.pending);
        let mut frames: Vec<Frame> = Vec::new();
        let mut line = Line::default();
        // Between `[[` and `]]` no word is reserved.
        let mut in_test = false;
        loop {
            self.skip_blanks();
            let Some(byte) = self.peek() else {
                if ends == Ends::WithParenthesis || !frames.is_empty() {
                    self.gives_up();
                }
                break;
            };
            if frames.last() == Some(&Frame::Patterns) {
                self.patterns(byte, &mut frames);
                continue;
            }
            match byte {
                b'\n' => {
                    self.at += 1;
                    self.end(&mut line);
                    // Whose body comes first is not worth knowing.
                    if !outer.is_empty() {
                        self.gives_up();
                    }
                    self.here_documents();
                }
                b'#' => self.skip_comment(),
                b';' => self.semicolons(&mut line, &mut frames),
                b'&' if self.sees("&>") => {
                    line.prefixed = true;
                    line.parted = Some(line.words.len());
                    self.redirect();
                }
                b'&' | b'|' => self.operator(&mut line),
                b'(' => self.open(&mut line, &mut frames),
                b')' => {
                    if self.close(&mut line, &mut frames, ends) {
                        break;
                    }
                }
                b'<' | b'>' if !self.substitutes() => {
                    line.prefixed = true;
                    self.redirect();
                }
                _ => {
                    let start = self.at;
                    let token = self.word(line.words.is_empty() && !in_test);
                    if token.raw.ends_with('=') && self.peek() == Some(b'(') {
                        self.array();
                    }
                    if in_test && token.raw.ends_with(PATTERN_SIGNS) && self.peek() == Some(b'(') {
                        self.pattern_of_test();
                    }
                    if in_test {
                        self.in_test(token, &mut line, &mut in_test);
                    } else {
                        in_test = self.take(token, start, &mut line, &mut frames);
                    }
                }
            }
        }
        self.end(&mut line);
        if in_test {
            self.gives_up();
        }
        if !self.pending.is_empty() {
            // A body that never comes; bash takes what follows for it.
            self.gives_up();
        }
        self.pending = outer;
        self.depth -= 1;
    }

    fn end(&mut self, line: &mut Line) {
        let line = std::mem::take(line);
        // For a shell that does not know `&>` the line ends at the first of these signs.
        if let Some(rest) = line.parted.and_then(|at| line.words.get(at..))
            && !rest.is_empty()
        {
            self.found.commands.push(rest.to_vec());
        }
        if !line.words.is_empty() {
            self.found.commands.push(line.words);
        }
    }

    /// What ends a command, and perhaps a branch of `case`.
    fn semicolons(&mut self, line: &mut Line, frames: &mut Vec<Frame>) {
        self.end(line);
        let branch_ends = self.sees(";;") || self.sees(";&");
        while matches!(self.peek(), Some(b';' | b'&')) {
            self.at += 1;
        }
        if branch_ends && frames.last() == Some(&Frame::Branch) {
            frames.pop();
            frames.push(Frame::Patterns);
        }
    }

    /// A sign between commands.
    fn operator(&mut self, line: &mut Line) {
        let is_pipe = self.sees("|") && !self.sees("||");
        let is_double = self.sees("||") || self.sees("&&") || self.sees("|&");
        self.at += if is_double { 2 } else { 1 };
        self.end(line);
        line.piped = is_pipe;
    }

    /// A closing parenthesis; tells whether it is the one that closes the list.
    fn close(&mut self, line: &mut Line, frames: &mut Vec<Frame>, ends: Ends) -> bool {
        self.at += 1;
        self.end(line);
        while frames.last() == Some(&Frame::Branch) {
            self.gives_up();
            frames.pop();
        }
        match (frames.pop(), ends) {
            (Some(_), _) => false,
            (None, Ends::WithParenthesis) => true,
            (None, Ends::WithText) => {
                self.gives_up();
                false
            }
        }
    }

    /// A process substitution begins here.
    fn substitutes(&self) -> bool {
        self.bytes.get(self.at + 1) == Some(&b'(')
    }
}

/// What before a parenthesis makes it a part of a pattern.
const PATTERN_SIGNS: [char; 5] = ['?', '*', '+', '@', '!'];

/// Whether a place lies in double quotes.
#[derive(Clone, Copy, PartialEq)]
enum Quoting {
    Bare,
    Double,
}
