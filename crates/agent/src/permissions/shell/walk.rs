//! Finds every command anywhere in a line, for rules that must not be fooled.
//!
//! Where something cannot be told, too much is found rather than too little: a text that may be
//! arithmetic or commands is read as both. What still escapes makes the result incomplete, and no limit
//! ever makes a rule weaker than that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::ast::{NotParsed, Piece, Quotes, RawCommand, RawText, RawWord, ShellAst};
use super::brush::Brush;
use super::wrappers::{self, Inner};
use super::{Found, Simple, Word, words};

/// Scripts within scripts: substitutions, `bash -c`, `eval`.
const MAX_DEPTH: usize = 24;
/// Bytes given to the parser for one line; every level of nesting reads its part again.
const MAX_TEXT: usize = 1 << 20;
/// Commands looked at.
const MAX_COMMANDS: usize = 20_000;
/// Characters that open something in one text; the parser recurses into what they open.
const MAX_OPENED: usize = 200;

/// The commands of a strictly read line with what their wrappers run; tells whether that is all.
pub(super) fn behind(simples: &[Simple]) -> (Vec<Found>, bool) {
    let brush = Brush::new();
    let mut walk = Walk::new(&brush);
    for simple in simples {
        let words = simple.argv.iter().map(|word| Word::Literal(word.clone())).collect();
        walk.found(words, 0);
    }
    walk.finish()
}

/// The commands of any line; tells whether that is all.
pub(super) fn everywhere(text: &str) -> (Vec<Found>, bool) {
    let brush = Brush::new();
    let mut walk = Walk::new(&brush);
    walk.script(text, 0);
    // A carriage return is part of a word for bash and ends a line for others: read it both ways.
    if text.contains('\r') {
        walk.script(&text.replace('\r', "\n"), 0);
    }
    walk.finish()
}

struct Walk<'a> {
    ast: &'a dyn ShellAst,
    found: Vec<Found>,
    complete: bool,
    /// Bytes that may still be parsed.
    left: usize,
    /// A quoted text looks like a substitution.
    sleeping: bool,
    /// Something evaluates the values of variables.
    evaluates: bool,
}

impl<'a> Walk<'a> {
    fn new(ast: &'a dyn ShellAst) -> Self {
        let (found, left) = (Vec::new(), MAX_TEXT);
        Self { ast, found, complete: true, left, sleeping: false, evaluates: false }
    }

    fn finish(self) -> (Vec<Found>, bool) {
        (self.found, self.complete && !(self.sleeping && self.evaluates))
    }

    fn gives_up(&mut self) {
        self.complete = false;
    }

    /// Runs the parser where the text is small enough for it.
    fn parse<T>(
        &mut self,
        text: &str,
        parse: impl FnOnce(&dyn ShellAst, &str) -> Result<T, NotParsed>,
    ) -> Option<T> {
        let opened = text.bytes().filter(|byte| b"({[`\"!".contains(byte)).count();
        if text.len() > self.left || opened > MAX_OPENED {
            return None;
        }
        self.left -= text.len();
        let ast = self.ast;
        // A panic of the parser is one more text that it does not understand.
        catch_unwind(AssertUnwindSafe(|| parse(ast, text))).ok()?.ok()
    }

    fn script(&mut self, text: &str, depth: usize) {
        if depth > MAX_DEPTH || !self.try_script(text, depth) {
            self.gives_up();
        }
    }

    fn try_script(&mut self, text: &str, depth: usize) -> bool {
        let Some(script) = self.parse(text, |ast, text| ast.parse(text)) else { return false };
        for command in script.commands {
            self.command(command, depth);
        }
        for text in script.texts {
            match text {
                RawText::Word(raw) => drop(self.word(&raw, depth)),
                RawText::HereDocument(body) => drop(self.pieces(&body, Quotes::Literal, depth)),
                RawText::Arithmetic(text) => self.arithmetic(&text, depth),
            }
        }
        true
    }

    fn command(&mut self, command: RawCommand, depth: usize) {
        for assignment in &command.assignments {
            self.word(assignment, depth);
        }
        let mut words = Vec::with_capacity(command.words.len());
        for raw in &command.words {
            words.push(match raw {
                RawWord::Text(raw) => self.word(raw, depth),
                RawWord::Substitution => Word::Unknown,
            });
        }
        self.found(words, depth);
    }

    /// Takes down a command, and what it runs in turn.
    fn found(&mut self, words: Vec<Word>, depth: usize) {
        if words.is_empty() {
            return;
        }
        if self.found.len() >= MAX_COMMANDS || depth > MAX_DEPTH {
            return self.gives_up();
        }
        // Which program runs is known only to the shell.
        if words[0] == Word::Unknown {
            self.gives_up();
        }
        let inner = wrappers::inner(&words);
        self.found.push(Found { words });
        for inner in inner {
            match inner {
                Inner::Command(words) => self.found(words, depth + 1),
                Inner::Script(text) => self.script(&text, depth + 1),
                Inner::Evaluated(text) => self.nested(&text, depth),
                Inner::Evaluates => self.evaluates = true,
                Inner::Hidden => self.gives_up(),
            }
        }
    }

    /// What a word stands for; commands in it are taken down.
    fn word(&mut self, raw: &str, depth: usize) -> Word {
        if !raw.contains(['$', '`']) {
            return words::decode(raw).map_or(Word::Unknown, Word::Literal);
        }
        // Nothing is expanded in single quotes.
        if let Some(text) = words::decode(raw) {
            self.sleeping |= words::substitutes(&text);
            return Word::Literal(text);
        }
        self.pieces(raw, Quotes::Quote, depth)
    }

    fn pieces(&mut self, raw: &str, quotes: Quotes, depth: usize) -> Word {
        if !raw.contains(['$', '`']) {
            return Word::Unknown;
        }
        let Some(pieces) = self.parse(raw, |ast, text| ast.expansions(text, quotes)) else {
            self.gives_up();
            return Word::Unknown;
        };
        let mut literal = Some(String::new());
        for piece in pieces {
            let known = match piece {
                Piece::Literal(text) => {
                    self.sleeping |= words::substitutes(&text);
                    Some(text)
                }
                Piece::Bare(text) => {
                    if words::substitutes(&text) {
                        self.gives_up();
                    }
                    words::decode(&text)
                }
                Piece::Computed => None,
                Piece::Commands(script) => {
                    self.script(&script, depth + 1);
                    None
                }
                Piece::Nested(text) => {
                    self.evaluates = true;
                    self.nested(&text, depth);
                    None
                }
                Piece::Arithmetic(text) => {
                    self.arithmetic(&text, depth);
                    None
                }
            };
            match (&mut literal, known) {
                (Some(text), Some(more)) => text.push_str(&more),
                _ => literal = None,
            }
        }
        literal.map_or(Word::Unknown, Word::Literal)
    }

    /// Text inside an expansion; whether its quotes quote depends on what is around it, so that they
    /// are taken for text, which hides nothing.
    fn nested(&mut self, text: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return self.gives_up();
        }
        self.pieces(text, Quotes::Literal, depth + 1);
    }

    /// Arithmetic runs what its indices substitute, those in the values of variables too.
    fn arithmetic(&mut self, text: &str, depth: usize) {
        self.evaluates = true;
        self.nested(text, depth);
        let is_surely = |c: char| c.is_ascii_alphanumeric() || " _+-*/%<>=!,?:\n".contains(c);
        let before = self.complete;
        match self.try_script(text, depth + 1) {
            true => self.complete = before,
            false if text.chars().all(is_surely) => {}
            false => self.gives_up(),
        }
    }
}
