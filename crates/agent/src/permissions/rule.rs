//! One permission rule: `tool` or `tool(pattern)`.
//!
//! The tool is a name or a selector with `*` in it, such as `mcp__github__*`; a `*` that is not the
//! last character stays within one part of a name, so that it never crosses `__`. What is wrong with a
//! rule is found when it is read, and told with the place in its text.

use super::paths::Territory;
use super::pattern::{Certainty, Pattern, Subject};
use super::shell::{Word, programs};
use crate::tool::SubjectKind;

/// What a rule does with the calls it speaks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// They run without a question.
    Allow,
    /// A person is asked.
    Ask,
    /// They never run.
    Deny,
}

impl Effect {
    /// Its name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A rule as it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The rule.
    pub text: String,
    /// Whether it is wide on purpose. What `not_match` names is then left out of what it matches.
    pub is_unsafe: bool,
    /// Commands, paths or names that it has to match.
    pub matches: Vec<String>,
    /// Those that it must not match.
    pub not_matches: Vec<String>,
    /// Where it was written, for people.
    pub origin: String,
}

/// What is known of the tools that rules can be about.
pub type KnownTools<'a> = &'a [(&'a str, Option<SubjectKind>)];

/// A rule that can be held against calls.
#[derive(Debug, Clone)]
pub struct Rule {
    text: String,
    origin: String,
    selector: String,
    pattern: Option<Pattern>,
    is_unsafe: bool,
    left_out: Vec<Pattern>,
}

/// Something wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct RuleError {
    /// Where, in bytes of its text.
    pub at: usize,
    /// What.
    pub fault: RuleFault,
}

/// What can be wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// There is nothing.
    #[error("the rule is empty: expected one such as bash(cargo test:*) or read_file(src/**)")]
    Empty,
    /// A parenthesis is missing.
    #[error("expected ')' at the end of the rule")]
    Unclosed,
    /// No tool can be called like that.
    #[error(
        "'{0}' is no name of a tool: expected letters, digits, '_', '-', and '*' for any of them"
    )]
    BadName(String),
    /// No tool is called like that.
    #[error("there is no tool '{name}'{}: expected one of {known}, or mcp__SERVER__TOOL", hint(.near))]
    UnknownTool {
        /// The name.
        name: String,
        /// The tool that was probably meant.
        near: Option<String>,
        /// The tools that there are.
        known: String,
    },
    /// Nothing between the parentheses.
    #[error(
        "the pattern is empty: write {0} for every call of it, or what it may be about in parentheses"
    )]
    EmptyPattern(String),
    /// The calls of the tool have no text to match.
    #[error("{0} takes no pattern: write {0} alone")]
    NoSubject(String),
    /// The selector chooses tools that take different patterns.
    #[error("{0} chooses tools whose patterns differ in kind: write a rule for each of them")]
    Mixed(String),
    /// A path with `:*`.
    #[error("':*' is for commands: write a path pattern such as src/** here")]
    PrefixOnPath,
    /// More than one command, or one with a redirection or a variable.
    #[error("expected the words of one command, without redirections and variables")]
    NotOneCommand,
    /// Something in a command that only the shell understands.
    #[error(
        "{what}: expected a plain command, or its first words with ':*' behind them such as bash(cargo test:*)"
    )]
    NotPlain {
        /// Where, in bytes of the pattern.
        at: usize,
        /// What.
        what: &'static str,
    },
    /// A path pattern without a name.
    #[error("expected a path pattern such as src/**, /docs/*.md, //etc/** or ~/notes/**")]
    EmptyPath,
    /// A path pattern with `..`.
    #[error("'..' leads out of where a pattern begins: write an absolute one with //")]
    ParentInPath,
    /// No path pattern.
    #[error("not a path pattern: {0}")]
    BadPath(String),
    /// It would allow nearly everything.
    #[error(
        "{0}: write a narrower one, or add unsafe = true (on the command line a '!' at the end) if that is meant"
    )]
    TooWide(String),
    /// An example that it has to match and does not.
    #[error("it does not match '{0}', as 'match' says it has to")]
    Misses(String),
    /// An example that it must not match and does.
    #[error("it matches '{0}', which 'not_match' says it must not")]
    Catches(String),
}

fn hint(near: &Option<String>) -> String {
    near.as_ref().map(|name| format!(", did you mean '{name}'?")).unwrap_or_default()
}

impl Rule {
    /// Reads a rule and checks that it makes sense for the tools there are.
    ///
    /// # Errors
    /// See [`RuleFault`].
    pub fn new(effect: Effect, written: Written, tools: KnownTools<'_>) -> Result<Self, RuleError> {
        let text = written.text.as_str();
        let (selector, inner) = split(text)?;
        let chosen = chosen(selector, tools)?;
        let kind = kind_of(selector, &chosen, inner.is_some())?;
        let at = selector.len() + 1;
        let pattern = inner.map(|inner| pattern(selector, inner, kind).map_err(|e| e.behind(at)));
        let mut rule = Self {
            text: text.to_owned(),
            selector: selector.to_owned(),
            pattern: pattern.transpose()?,
            is_unsafe: written.is_unsafe,
            origin: written.origin.clone(),
            left_out: Vec::new(),
        };
        if effect == Effect::Allow && !rule.is_unsafe {
            rule.check_width()
                .map_err(|what| RuleError { at: 0, fault: RuleFault::TooWide(what) })?;
        }
        rule.check_examples(effect, &written, kind)?;
        Ok(rule)
    }

    /// Reads a rule that a person chose while being asked. It is about calls of a tool that is there.
    ///
    /// # Errors
    /// When the text is no rule.
    pub(super) fn chosen(text: &str, origin: &str) -> Result<Self, RuleError> {
        let (selector, inner) = split(text)?;
        let at = selector.len() + 1;
        let pattern = inner.map(|inner| pattern(selector, inner, None).map_err(|e| e.behind(at)));
        Ok(Self {
            text: text.to_owned(),
            selector: selector.to_owned(),
            pattern: pattern.transpose()?,
            is_unsafe: false,
            origin: origin.to_owned(),
            left_out: Vec::new(),
        })
    }

    /// The rule as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it was written.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The rule's path pattern as a mask, where one can say the same.
    pub(super) fn mask(&self) -> Option<String> {
        self.pattern.as_ref().filter(|_| self.left_out.is_empty())?.mask()
    }

    /// Whether it is about calls of this tool.
    pub(super) fn is_about(&self, tool: &str) -> bool {
        selects(&self.selector, tool)
    }

    /// How sure it is that the rule, which takes away, means a call of a tool that it is about.
    pub(super) fn could_mean(
        &self,
        subject: Option<&Subject<'_>>,
        territory: &Territory,
    ) -> Certainty {
        let (Some(pattern), Some(subject)) = (&self.pattern, subject) else {
            // Without a pattern it means every call; without a subject there is nothing to doubt.
            return self.pattern.is_none().into();
        };
        match self.leaves_out(subject, territory) {
            true => Certainty::No,
            false => pattern.could_mean(subject, territory),
        }
    }

    /// A rule that takes away leaves out only what it is certain about.
    fn leaves_out(&self, subject: &Subject<'_>, territory: &Territory) -> bool {
        !self.left_out.is_empty()
            && match subject {
                Subject::Command(line) => line.reading.strict().is_ok_and(|commands| {
                    let is_left_out = |argv: &[String]| {
                        self.left_out.iter().any(|pattern| pattern.means_command(argv))
                    };
                    commands.iter().all(|one| is_left_out(&one.argv))
                }),
                _ => self.left_out.iter().any(|pattern| pattern.means(subject, territory)),
            }
    }

    /// Whether the rule, which permits, means the whole call of a tool that it is about.
    pub(super) fn permits(&self, subject: Option<&Subject<'_>>, territory: &Territory) -> bool {
        match (&self.pattern, subject) {
            (None, None | Some(Subject::Path(_) | Subject::Name(_))) => true,
            (Some(pattern), Some(subject)) => {
                pattern.means(subject, territory) && !self.excludes(subject, territory)
            }
            (None, Some(Subject::Command(_))) | (Some(_), None) => false,
        }
    }

    /// Whether the rule, which permits, means this command of a line.
    ///
    /// # Errors
    /// An option that makes the program do more than the rule is about.
    pub(super) fn permits_command(&self, argv: &[String]) -> Result<bool, &'static str> {
        let is_meant = self.pattern.as_ref().is_none_or(|pattern| pattern.means_command(argv));
        if !is_meant || self.leaves_out_command(argv) {
            return Ok(false);
        }
        match self.pattern {
            Some(Pattern::Prefix(_)) => programs::covers(argv).map(|()| true),
            // Who writes a whole command has seen what it does, and who allows every one does not mind.
            Some(Pattern::Text(_) | Pattern::Everything) | None => Ok(true),
        }
    }

    /// Whether the rule is wide on purpose.
    pub(super) fn is_unsafe(&self) -> bool {
        self.is_unsafe
    }

    fn leaves_out_command(&self, argv: &[String]) -> bool {
        if self.left_out.is_empty() {
            return false;
        }
        let words: Vec<Word> = argv.iter().cloned().map(Word::Literal).collect();
        self.left_out.iter().any(|one| one.could_mean_command(&words) != Certainty::No)
    }

    /// How sure it is that the rule, which takes away, means this one command.
    pub(super) fn could_mean_command(&self, words: &[Word]) -> Certainty {
        self.pattern.as_ref().map_or(Certainty::Yes, |pattern| pattern.could_mean_command(words))
    }

    /// What a rule that permits leaves out, it leaves out also where that is no more than possible.
    fn excludes(&self, subject: &Subject<'_>, territory: &Territory) -> bool {
        let is_left_out = |one: &Pattern| one.could_mean(subject, territory) != Certainty::No;
        self.left_out.iter().any(is_left_out)
    }

    /// Says why the rule would allow nearly everything, if it would.
    fn check_width(&self) -> Result<(), String> {
        if matches!(self.selector.as_str(), "*" | "mcp__*") || self.selector.starts_with("mcp__*") {
            return Err(format!("{} allows tools of any kind", self.selector));
        }
        let is_shell = selects(&self.selector, "bash");
        match &self.pattern {
            None | Some(Pattern::Everything) if is_shell => {
                Err(format!("{} allows every command", self.text))
            }
            Some(Pattern::Prefix(words)) => check_prefix(words),
            _ => Ok(()),
        }
    }

    fn check_examples(
        &mut self,
        effect: Effect,
        written: &Written,
        kind: Option<SubjectKind>,
    ) -> Result<(), RuleError> {
        let wrong = |fault| RuleError { at: 0, fault };
        for example in &written.not_matches {
            if self.is_unsafe {
                let left_out = match kind {
                    Some(SubjectKind::Command) => Pattern::parse(&format!("{example}:*"), kind),
                    _ => Pattern::parse(example, kind),
                };
                self.left_out.push(left_out.map_err(wrong)?);
            } else if self.is_example(effect, example, kind) {
                return Err(wrong(RuleFault::Catches(example.clone())));
            }
        }
        let missed = written.matches.iter().find(|one| !self.is_example(effect, one, kind));
        match missed {
            Some(example) => Err(wrong(RuleFault::Misses(example.clone()))),
            None => Ok(()),
        }
    }

    /// Whether the rule alone would do with `example` what it is there for.
    fn is_example(&self, effect: Effect, example: &str, kind: Option<SubjectKind>) -> bool {
        super::decide::is_example(self, effect, example, kind)
    }
}

impl RuleError {
    fn behind(self, bytes: usize) -> Self {
        Self { at: self.at + bytes, ..self }
    }
}

/// The tool and what is between the parentheses.
fn split(text: &str) -> Result<(&str, Option<&str>), RuleError> {
    let error = |at, fault| Err(RuleError { at, fault });
    if text.trim().is_empty() {
        return error(0, RuleFault::Empty);
    }
    let (selector, inner) = match text.split_once('(') {
        None => (text, None),
        Some((selector, rest)) => match rest.strip_suffix(')') {
            Some(inner) => (selector, Some(inner)),
            None => return error(text.len(), RuleFault::Unclosed),
        },
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
    match selector.find(|c| !is_name(c)) {
        Some(at) => error(at, RuleFault::BadName(selector.to_owned())),
        None if selector.is_empty() => error(0, RuleFault::BadName(selector.to_owned())),
        None => Ok((selector, inner)),
    }
}

fn pattern(selector: &str, inner: &str, kind: Option<SubjectKind>) -> Result<Pattern, RuleError> {
    if inner.trim().is_empty() || inner == ":*" {
        let fault = RuleFault::EmptyPattern(selector.to_owned());
        return Err(RuleError { at: 0, fault });
    }
    Pattern::parse(inner, kind).map_err(|fault| {
        let at = match fault {
            RuleFault::NotPlain { at, .. } => at,
            _ => 0,
        };
        RuleError { at, fault }
    })
}

/// The tools that a selector chooses. Those of tool servers are not known when rules are read.
fn chosen<'a>(
    selector: &str,
    tools: KnownTools<'a>,
) -> Result<Vec<(&'a str, Option<SubjectKind>)>, RuleError> {
    let chosen: Vec<_> =
        tools.iter().filter(|(name, _)| selects(selector, name)).copied().collect();
    if !chosen.is_empty() || selector.starts_with("mcp__") {
        return Ok(chosen);
    }
    let names = || tools.iter().map(|(name, _)| *name);
    let near = llm::config::key::nearest(selector, names()).map(str::to_owned);
    let known = names().collect::<Vec<_>>().join(", ");
    let fault = RuleFault::UnknownTool { name: selector.to_owned(), near, known };
    Err(RuleError { at: 0, fault })
}

/// The kind of pattern that all of the chosen tools take.
fn kind_of(
    selector: &str,
    chosen: &[(&str, Option<SubjectKind>)],
    has_pattern: bool,
) -> Result<Option<SubjectKind>, RuleError> {
    let mut kinds = chosen.iter().filter_map(|(_, kind)| *kind);
    let first = kinds.next();
    let at = selector.len();
    if !has_pattern {
        return Ok(first);
    }
    if kinds.any(|kind| Some(kind) != first) {
        return Err(RuleError { at, fault: RuleFault::Mixed(selector.to_owned()) });
    }
    match first {
        Some(kind) => Ok(Some(kind)),
        None => Err(RuleError { at, fault: RuleFault::NoSubject(selector.to_owned()) }),
    }
}

/// Prefixes that leave open what runs.
fn check_prefix(words: &[String]) -> Result<(), String> {
    let shown = words.join(" ");
    match words {
        [program] if programs::is_interpreter(program) => Err(format!(
            "{program} runs whatever its arguments say, so '{shown}:*' allows nearly everything"
        )),
        words => programs::covers(words).map_err(|what| format!("'{shown}:*' {what}")),
    }
}

/// Whether a selector chooses a tool. A `*` that is not the last character never crosses `__`.
pub(super) fn selects(selector: &str, tool: &str) -> bool {
    let mut parts = selector.split('*').peekable();
    let Some(rest) = parts.next().and_then(|head| tool.strip_prefix(head)) else { return false };
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    // What may still follow, in each way in which the stars so far can be read.
    let mut rests = vec![rest];
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        if is_last && part.is_empty() {
            return !rests.is_empty();
        }
        let mut next: Vec<&str> = rests.iter().flat_map(|rest| after_star(rest, part)).collect();
        next.sort_unstable_by_key(|rest| rest.len());
        next.dedup_by_key(|rest| rest.len());
        rests = next;
    }
    rests.iter().any(|rest| rest.is_empty())
}

/// What follows `part` wherever a star before it may end.
fn after_star<'a>(text: &'a str, part: &'a str) -> impl Iterator<Item = &'a str> {
    let ends = (0..=text.len()).filter(|end| text.is_char_boundary(*end));
    ends.take_while(|end| !text[..*end].contains("__"))
        .filter_map(move |end| text[end..].strip_prefix(part))
}

#[cfg(test)]
mod tests;
