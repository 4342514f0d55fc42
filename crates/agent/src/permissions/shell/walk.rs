//! Finds every command anywhere in a line, for rules that must not be fooled.
//!
//! What [`scan`](super::scan) finds is followed into wrappers, `bash -c` and `eval`. What escapes makes the
//! result incomplete, and no limit ever makes a rule weaker than that.

use super::scan::{self, MAX_DEPTH, Scanned};
use super::wrappers::{self, Inner};
use super::{Found, Simple, Word};

/// Bytes that are read for one line; parts are read again where they may mean two things.
const MAX_TEXT: usize = 1 << 20;
/// What a word of a command behind a wrapper counts in bytes.
const COPIED_WORD: usize = 8;
/// Commands looked at.
const MAX_COMMANDS: usize = 20_000;
/// Settings that change what the rest of a text means, and variables whose values a shell runs.
const OTHER_GRAMMAR: &[&str] = &[
    "extglob",
    "expand_aliases",
    "posix",
    "PS4",
    "BASH_ENV",
    "PROMPT_COMMAND",
    "BASH_CMDS",
    "BASH_ALIASES",
];

/// The commands of a strictly read line with what their wrappers run; tells whether that is all.
pub(super) fn behind(simples: &[Simple]) -> (Vec<Found>, bool) {
    let mut walk = Walk::default();
    for simple in simples {
        let words = simple.argv.iter().map(|word| Word::Literal(word.clone())).collect();
        walk.found(words, 0);
    }
    walk.finish()
}

/// The commands of any line; tells whether that is all.
pub(super) fn everywhere(text: &str) -> (Vec<Found>, bool) {
    let mut walk = Walk::default();
    walk.script(text, 0);
    // A carriage return is part of a word for bash and ends a line for others: read it both ways.
    if text.contains('\r') {
        walk.script(&text.replace('\r', "\n"), 0);
    }
    if OTHER_GRAMMAR.iter().any(|setting| text.contains(setting)) {
        walk.incomplete = true;
    }
    walk.finish()
}

struct Walk {
    found: Vec<Found>,
    incomplete: bool,
    left: usize,
    sleeping: bool,
    evaluates: bool,
}

impl Default for Walk {
    fn default() -> Self {
        let found = Vec::new();
        Self { found, incomplete: false, left: MAX_TEXT, sleeping: false, evaluates: false }
    }
}

impl Walk {
    fn finish(self) -> (Vec<Found>, bool) {
        (self.found, !(self.incomplete || (self.sleeping && self.evaluates)))
    }

    fn script(&mut self, text: &str, depth: usize) {
        let scanned = scan::script(text, depth, &mut self.left);
        self.scanned(scanned, depth);
    }

    fn scanned(&mut self, scanned: Scanned, depth: usize) {
        self.incomplete |= scanned.incomplete;
        self.sleeping |= scanned.sleeping;
        self.evaluates |= scanned.evaluates;
        for words in scanned.commands {
            self.found(words, depth);
        }
    }

    /// Takes down a command, and what it runs in turn.
    fn found(&mut self, words: Vec<Word>, depth: usize) {
        // Wrappers in wrappers are copied level by level, and twice where an option is not known.
        let cost = if depth == 0 { 0 } else { words.len() * COPIED_WORD };
        let Some(left) = self.left.checked_sub(cost) else {
            self.incomplete = true;
            return;
        };
        if self.found.len() >= MAX_COMMANDS || depth > MAX_DEPTH {
            self.incomplete = true;
            return;
        }
        self.left = left;
        // Which program runs is known only to the shell.
        if words[0] == Word::Unknown {
            self.incomplete = true;
        }
        let inner = wrappers::inner(&words);
        self.found.push(Found { words });
        for inner in inner {
            match inner {
                Inner::Command(words) => self.found(words, depth + 1),
                Inner::Script(text) => self.script(&text, depth + 1),
                Inner::Evaluated(text) => {
                    let scanned = scan::expansions(&text, depth + 1, &mut self.left);
                    self.scanned(scanned, depth + 1);
                }
                Inner::Evaluates => self.evaluates = true,
                Inner::Hidden => self.incomplete = true,
            }
        }
    }
}
