//! The syntax tree of `brush-parser`, flattened to what [`ast`](super::ast) asks for.

use brush_parser::ast::{
    AndOr, AssignmentValue, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand,
    CompoundList, ExtendedTestExpr, IoFileRedirectTarget, IoRedirect, Pipeline, RedirectList,
    SimpleCommand,
};
use brush_parser::word::{self, ParameterExpr, WordPiece, WordPieceWithSource};
use brush_parser::{ParserOptions, parse_tokens, uncached_tokenize_str};

use super::ansi_c;
use super::ast::{NotParsed, Piece, Quotes, RawCommand, RawText, RawWord, Script, ShellAst};

/// The parser, with the options that bash starts with.
pub(super) struct Brush(ParserOptions);

impl Brush {
    pub(super) fn new() -> Self {
        Self(ParserOptions::default())
    }
}

impl ShellAst for Brush {
    fn parse(&self, text: &str) -> Result<Script, NotParsed> {
        let tokens = uncached_tokenize_str(text, &self.0.tokenizer_options());
        let program =
            parse_tokens(&tokens.map_err(|_| NotParsed)?, &self.0).map_err(|_| NotParsed)?;
        let mut script = Script::default();
        for list in &program.complete_commands {
            script.list(list);
        }
        Ok(script)
    }

    fn expansions(&self, text: &str, quotes: Quotes) -> Result<Vec<Piece>, NotParsed> {
        let pieces = match quotes {
            Quotes::Quote => word::parse(text, &self.0),
            Quotes::Literal => word::parse_heredoc(text, &self.0),
        };
        let mut found = Vec::new();
        for piece in &pieces.map_err(|_| NotParsed)? {
            push_piece(piece, text, Place::Outside, &mut found)?;
        }
        Ok(found)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Outside,
    InDoubleQuotes,
}

fn push_piece(
    piece: &WordPieceWithSource,
    source: &str,
    place: Place,
    found: &mut Vec<Piece>,
) -> Result<(), NotParsed> {
    found.push(match &piece.piece {
        WordPiece::Text(text) if place == Place::InDoubleQuotes => Piece::Literal(text.clone()),
        WordPiece::Text(text) => Piece::Bare(text.clone()),
        WordPiece::SingleQuotedText(text) => Piece::Literal(text.clone()),
        WordPiece::AnsiCQuotedText(text) => match ansi_c::decode(text) {
            Some(text) => Piece::Literal(text),
            None => Piece::Computed,
        },
        WordPiece::EscapeSequence(text) => match text.strip_prefix('\\') {
            Some("\n") => return Ok(()),
            Some(escaped) => Piece::Literal(escaped.to_owned()),
            None => return Err(NotParsed),
        },
        WordPiece::DoubleQuotedSequence(pieces)
        | WordPiece::GettextDoubleQuotedSequence(pieces) => {
            // Empty quotes make a word of their own.
            found.push(Piece::Literal(String::new()));
            for inner in pieces {
                push_piece(inner, source, Place::InDoubleQuotes, found)?;
            }
            return Ok(());
        }
        WordPiece::TildeExpansion(_) => Piece::Computed,
        WordPiece::CommandSubstitution(text) => Piece::Commands(text.clone()),
        WordPiece::BackquotedCommandSubstitution(text) => Piece::Commands(text.clone()),
        WordPiece::ArithmeticExpression(expression) => Piece::Arithmetic(expression.value.clone()),
        WordPiece::ParameterExpansion(ParameterExpr::Parameter { indirect: false, parameter })
            if is_plain(parameter) =>
        {
            Piece::Computed
        }
        WordPiece::ParameterExpansion(_) => {
            let text = source.get(piece.start_index..piece.end_index).ok_or(NotParsed)?;
            let inner = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
            Piece::Nested(inner.ok_or(NotParsed)?.to_owned())
        }
    });
    Ok(())
}

/// A variable whose name is all there is to it.
fn is_plain(parameter: &word::Parameter) -> bool {
    use word::Parameter::{Named, NamedWithAllIndices, NamedWithIndex, Positional, Special};
    match parameter {
        Named(_) | NamedWithAllIndices { .. } | Positional(_) | Special(_) => true,
        NamedWithIndex { .. } => false,
    }
}

impl Script {
    fn word(&mut self, text: &str) {
        self.texts.push(RawText::Word(text.to_owned()));
    }

    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            self.pipeline(&item.0.first);
            for next in &item.0.additional {
                match next {
                    AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline),
                }
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        for command in &pipeline.seq {
            self.command(command);
        }
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                self.compound(compound);
                self.redirects(redirects.as_ref());
            }
            Command::Function(function) => {
                self.word(&function.fname.value);
                self.compound(&function.body.0);
                self.redirects(function.body.1.as_ref());
            }
            Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr);
                self.redirects(redirects.as_ref());
            }
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) {
        let mut command = RawCommand::default();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                Item::AssignmentWord(assignment, word) => {
                    command.assignments.push(word.value.clone());
                    self.assigned(&assignment.value);
                }
                item => self.item(item, &mut command),
            }
        }
        if let Some(word) = &simple.word_or_name {
            command.words.push(RawWord::Text(word.value.clone()));
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut command);
        }
        self.commands.push(command);
    }

    fn assigned(&mut self, value: &AssignmentValue) {
        match value {
            AssignmentValue::Scalar(word) => self.word(&word.value),
            AssignmentValue::Array(elements) => {
                for (key, value) in elements {
                    key.iter().for_each(|key| self.word(&key.value));
                    self.word(&value.value);
                }
            }
        }
    }

    fn item(&mut self, item: &Item, command: &mut RawCommand) {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect),
            Item::Word(word) => command.words.push(RawWord::Text(word.value.clone())),
            Item::AssignmentWord(assignment, word) => {
                command.words.push(RawWord::Text(word.value.clone()));
                self.assigned(&assignment.value);
            }
            Item::ProcessSubstitution(_, subshell) => {
                command.words.push(RawWord::Substitution);
                self.list(&subshell.list);
            }
        }
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>) {
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect);
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect) {
        match redirect {
            IoRedirect::File(_, _, target) => match target {
                IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                    self.word(&word.value);
                }
                IoFileRedirectTarget::Fd(_) => {}
                IoFileRedirectTarget::ProcessSubstitution(_, subshell) => self.list(&subshell.list),
            },
            IoRedirect::HereString(_, word) | IoRedirect::OutputAndError(word, _) => {
                self.word(&word.value);
            }
            IoRedirect::HereDocument(_, document) if document.requires_expansion => {
                self.texts.push(RawText::HereDocument(document.doc.value.clone()));
            }
            IoRedirect::HereDocument(..) => {}
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => self.arithmetic(&arithmetic.expr.value),
            CompoundCommand::ArithmeticForClause(clause) => {
                let parts = [&clause.initializer, &clause.condition, &clause.updater];
                for part in parts.into_iter().flatten() {
                    self.arithmetic(&part.value);
                }
                self.list(&clause.body.list);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            CompoundCommand::ForClause(clause) => {
                self.word(&clause.variable_name);
                for value in clause.values.iter().flatten() {
                    self.word(&value.value);
                }
                self.list(&clause.body.list);
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value.value);
                for case in &clause.cases {
                    case.patterns.iter().for_each(|pattern| self.word(&pattern.value));
                    case.cmd.iter().for_each(|list| self.list(list));
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for branch in clause.elses.iter().flatten() {
                    branch.condition.iter().for_each(|list| self.list(list));
                    self.list(&branch.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            CompoundCommand::Coprocess(clause) => {
                clause.name.iter().for_each(|name| self.word(&name.value));
                self.command(&clause.body);
            }
        }
    }

    fn arithmetic(&mut self, text: &str) {
        self.texts.push(RawText::Arithmetic(text.to_owned()));
    }

    /// Operands may be arithmetic (`-eq`) and run what their indices substitute.
    fn test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left);
                self.test(right);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner)
            }
            ExtendedTestExpr::UnaryTest(_, word) => self.word(&word.value),
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.word(&left.value);
                self.word(&right.value);
            }
        }
    }
}
