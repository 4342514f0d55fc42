//! What a parser of the shell's language has to tell, whichever parser it is.

/// Everything of a script that runs or is expanded, without its order: deny rules ask whether something
/// is there, not when.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// The simple commands, in compound ones and functions too.
    pub(super) commands: Vec<RawCommand>,
    /// Texts that are expanded and belong to no command's words.
    pub(super) texts: Vec<RawText>,
}

/// A simple command as it is written.
#[derive(Debug, Default)]
pub(super) struct RawCommand {
    /// `NAME=value` before the program.
    pub(super) assignments: Vec<String>,
    /// The program and its arguments.
    pub(super) words: Vec<RawWord>,
}

/// A word as it is written.
#[derive(Debug)]
pub(super) enum RawWord {
    /// With its quotes.
    Text(String),
    /// A process substitution, whose commands stand in the script.
    Substitution,
}

/// A text that is expanded.
#[derive(Debug)]
pub(super) enum RawText {
    /// A word: the target of a redirection, an assigned value, what a loop goes through, a pattern.
    Word(String),
    /// The body of a here-document, in which quotes mean nothing.
    HereDocument(String),
    /// Arithmetic; some parsers take `( (a) )` for it.
    Arithmetic(String),
}

/// Why a text has no syntax tree.
#[derive(Debug)]
pub(super) struct NotParsed;

/// A parser of the shell's language.
///
/// Implementations may recurse as deep as the text nests and may panic; who calls them sees to that.
pub(super) trait ShellAst {
    /// The script that `text` is.
    fn parse(&self, text: &str) -> Result<Script, NotParsed>;

    /// What stands in a word that the shell expands.
    fn expansions(&self, text: &str, quotes: Quotes) -> Result<Vec<Piece>, NotParsed>;
}

/// Whether quotes have their meaning in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// As in a word.
    Quote,
    /// As in a here-document.
    Literal,
}

/// A part of a word.
#[derive(Debug)]
pub(super) enum Piece {
    /// It stands for this.
    Literal(String),
    /// It stands for what only the shell knows: a variable without more, a home folder.
    Computed,
    /// Text without quotes in which the shell looks for patterns and braces.
    Bare(String),
    /// A command substitution: the script.
    Commands(String),
    /// An expansion with text of its own that is expanded again.
    Nested(String),
    /// Arithmetic.
    Arithmetic(String),
}
