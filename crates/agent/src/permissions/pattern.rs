//! The part of a rule between its parentheses, and which subjects it matches. [pure]
//!
//! Two questions are asked of a pattern. A rule that takes away asks whether it could mean this call
//! ([`Pattern::could_mean`]): programs are known by their base name, options in between are passed over,
//! what the shell computes could be anything, letter case does not matter. A rule that permits asks
//! whether it means exactly this ([`Pattern::means`]).

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::command::Line;
use super::paths::{Named, Territory};
use super::rule::RuleFault;
use super::shell::{Reading, Word, base_name};
use crate::tool::SubjectKind;

/// What of a call a pattern is held against.
#[derive(Debug)]
pub(super) enum Subject<'a> {
    /// A command line.
    Command(&'a Line<'a>),
    /// A path.
    Path(&'a Named),
    /// A name.
    Name(&'a str),
}

/// How sure it is that a rule which takes away means a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// It does not.
    No,
    /// What the shell computes may make it so.
    Maybe,
    /// It does.
    Yes,
}

/// The part of a rule between its parentheses.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// `*`.
    Everything,
    /// `words:*`: commands that begin with these words.
    Prefix(Vec<String>),
    /// A command as it is, or a path.
    Text(Box<Text>),
}

/// A pattern whose meaning depends on what it is held against.
#[derive(Debug, Clone)]
pub(super) struct Text {
    text: String,
    /// Its words, where it is one plain command.
    argv: Option<Vec<String>>,
    glob: Option<Glob>,
}

#[derive(Debug, Clone)]
struct Glob {
    start: Start,
    /// The pattern from there on.
    from_start: String,
    exact: GlobMatcher,
    any_case: GlobMatcher,
}

/// Where a path pattern begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Anywhere,
    Workspace,
    Root,
    Home,
}

impl Pattern {
    /// Reads a pattern for subjects of `kind`; of any kind where that is not known.
    pub(super) fn parse(text: &str, kind: Option<SubjectKind>) -> Result<Self, RuleFault> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        if let Some(words) = text.strip_suffix(":*")
            && kind.is_none_or(|kind| kind == SubjectKind::Command)
        {
            return plain_words(words).map(Self::Prefix);
        }
        let argv = plain_words(text);
        let glob = Glob::parse(text);
        match kind {
            Some(SubjectKind::Path) if text.ends_with(":*") => return Err(RuleFault::PrefixOnPath),
            Some(SubjectKind::Command) => drop(argv.clone()?),
            Some(SubjectKind::Path | SubjectKind::Name) => drop(glob.clone()?),
            None => {}
        }
        let text = Text { text: text.to_owned(), argv: argv.ok(), glob: glob.ok() };
        Ok(Self::Text(Box::new(text)))
    }

    /// The path pattern as a line of `.gitignore`, where one can say the same.
    pub(super) fn mask(&self) -> Option<String> {
        let Self::Text(text) = self else { return None };
        let glob = text.glob.as_ref()?;
        // Alternatives are unknown there, and a line end would begin another line.
        if glob.from_start.contains(['{', '\n', '\r']) {
            return None;
        }
        match glob.start {
            // A leading sign would take a mask back.
            Start::Anywhere if glob.from_start.starts_with(['!', '#']) => {
                Some(format!("\\{}", glob.from_start))
            }
            Start::Anywhere => Some(glob.from_start.clone()),
            Start::Workspace => Some(format!("/{}", glob.from_start)),
            Start::Root | Start::Home => None,
        }
    }

    /// Whether a rule that takes away means this call.
    pub(super) fn could_mean(&self, subject: &Subject<'_>, territory: &Territory) -> Certainty {
        match (self, subject) {
            (Self::Everything, _) => Certainty::Yes,
            (Self::Prefix(words), Subject::Command(line)) => {
                line_could_be(line, words, Extent::Beginning)
            }
            (Self::Text(text), Subject::Command(line)) => text.could_be_command(line),
            (Self::Text(text), Subject::Path(named)) => text.could_be_path(named, territory),
            (Self::Text(text), Subject::Name(name)) => text.is_name(name, true).into(),
            (Self::Prefix(_), Subject::Path(_) | Subject::Name(_)) => Certainty::No,
        }
    }

    /// Whether a rule that permits means this call, where that is no matter of single commands.
    pub(super) fn means(&self, subject: &Subject<'_>, territory: &Territory) -> bool {
        match (self, subject) {
            (Self::Everything, Subject::Path(_) | Subject::Name(_)) => true,
            (Self::Text(text), Subject::Command(line)) => text.text.trim() == line.text.trim(),
            (Self::Text(text), Subject::Path(named)) => text.is_path(named, territory),
            (Self::Text(text), Subject::Name(name)) => text.is_name(name, false),
            (Self::Everything | Self::Prefix(_), _) => false,
        }
    }

    /// Whether a rule that permits means this one command of a line.
    pub(super) fn means_command(&self, argv: &[String]) -> bool {
        match self {
            Self::Everything => true,
            Self::Prefix(words) => argv.starts_with(words),
            Self::Text(text) => text.argv.as_deref() == Some(argv),
        }
    }
}

impl Pattern {
    /// Whether a rule that takes away means this one command.
    pub(super) fn could_mean_command(&self, command: &[Word]) -> Certainty {
        let (words, extent) = match self {
            Self::Everything => return Certainty::Yes,
            Self::Prefix(words) => (words, Extent::Beginning),
            Self::Text(text) => match &text.argv {
                Some(words) => (words, Extent::Whole),
                None => return Certainty::No,
            },
        };
        let split = words.split_first();
        split.map_or(Certainty::No, |(program, rest)| could_be(command, program, rest, extent))
    }
}

/// The words of a text that is one plain command.
fn plain_words(text: &str) -> Result<Vec<String>, RuleFault> {
    let reading = Reading::of(text);
    match reading.strict() {
        Ok([one]) if one.redirects.is_empty() && one.assignments.is_empty() => Ok(one.argv.clone()),
        Ok(_) => Err(RuleFault::NotOneCommand),
        Err(unknown) => Err(RuleFault::NotPlain { at: unknown.at, what: unknown.what }),
    }
}

impl From<bool> for Certainty {
    fn from(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }
}

/// How much of a command a rule speaks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Its beginning.
    Beginning,
    /// All of it.
    Whole,
}

/// The best that any command of a line gives for these words.
fn line_could_be(line: &Line<'_>, words: &[String], extent: Extent) -> Certainty {
    let Some((program, arguments)) = words.split_first() else { return Certainty::No };
    // Where commands may have been missed, a name anywhere in the text counts.
    if !line.reading.is_complete() && line.reading.mentions(base_name(program)) {
        return Certainty::Yes;
    }
    let found = line.reading.commands().iter();
    let best = found.map(|one| could_be(&one.words, program, arguments, extent)).max();
    match best.unwrap_or(Certainty::No) {
        Certainty::No if line.reading.may_hide(words) => Certainty::Maybe,
        best => best,
    }
}

fn could_be(command: &[Word], program: &str, arguments: &[String], extent: Extent) -> Certainty {
    let Some((name, words)) = command.split_first() else { return Certainty::No };
    match name {
        Word::Unknown => Certainty::Maybe,
        Word::Literal(name) if is_same_program(name, program) => match extent {
            Extent::Beginning => begins_with(words, arguments),
            Extent::Whole => is_all_of(words, arguments),
        },
        Word::Literal(_) => Certainty::No,
    }
}

/// File systems without regard to letter case start the same program for `RM`.
fn is_same_program(name: &str, wanted: &str) -> bool {
    base_name(name).eq_ignore_ascii_case(base_name(wanted))
}

/// Whether arguments begin with `wanted`, options and what may belong to them passed over: `git -C x
/// push` is a `git push`. One pass for each wanted word, whatever is written.
fn begins_with(words: &[Word], wanted: &[String]) -> Certainty {
    // Whether everything wanted so far was found before this word.
    let mut reached = vec![false; words.len() + 1];
    reached[0] = true;
    let mut is_computed = false;
    for wanted in wanted {
        let mut next = vec![false; words.len() + 1];
        for (at, word) in words.iter().enumerate() {
            if !reached[at] {
                continue;
            }
            match word {
                // It may stand for no word, one, or several.
                Word::Unknown => is_computed = true,
                Word::Literal(text) => {
                    if text.starts_with(['-', '+']) {
                        reached[at + 1] = true;
                        if let Some(behind_value) = reached.get_mut(at + 2) {
                            *behind_value = true;
                        }
                    }
                    next[at + 1] |= text == wanted;
                }
            }
        }
        reached = next;
    }
    match (reached.contains(&true), is_computed) {
        (true, _) => Certainty::Yes,
        (false, true) => Certainty::Maybe,
        (false, false) => Certainty::No,
    }
}

/// Whether arguments are `wanted` and nothing else.
fn is_all_of(words: &[Word], wanted: &[String]) -> Certainty {
    let same = words.iter().zip(wanted).take_while(|(word, want)| word.literal() == Some(want));
    let same = same.count();
    match words.get(same) {
        None if same == wanted.len() => Certainty::Yes,
        Some(Word::Unknown) => Certainty::Maybe,
        _ => Certainty::No,
    }
}

impl Text {
    fn could_be_command(&self, line: &Line<'_>) -> Certainty {
        if self.text.trim() == line.text.trim() {
            return Certainty::Yes;
        }
        let argv = self.argv.as_deref().unwrap_or_default();
        line_could_be(line, argv, Extent::Whole)
    }

    fn could_be_path(&self, named: &Named, territory: &Territory) -> Certainty {
        let Some(glob) = &self.glob else { return Certainty::No };
        // What is in a folder goes with it.
        let is_meant = |path: &Path| {
            path.ancestors().any(|path| glob.is_match(&glob.any_case, path, territory))
        };
        named.ways().any(is_meant).into()
    }

    fn is_path(&self, named: &Named, territory: &Territory) -> bool {
        let Some(glob) = &self.glob else { return false };
        named.ways().all(|path| glob.is_match(&glob.exact, path, territory))
    }

    fn is_name(&self, name: &str, any_case: bool) -> bool {
        let is_pattern = || {
            self.glob.as_ref().is_some_and(|glob| match any_case {
                true => glob.any_case.is_match(name),
                false => glob.exact.is_match(name),
            })
        };
        self.text == name || is_pattern()
    }
}

impl Glob {
    fn parse(text: &str) -> Result<Self, RuleFault> {
        let text = text.trim_end_matches('/');
        let (start, rest) = match text {
            _ if text.starts_with("//") => (Start::Root, &text[1..]),
            _ if text.starts_with("~/") => (Start::Home, &text[2..]),
            _ if text.starts_with("./") => (Start::Workspace, &text[2..]),
            _ if text.starts_with('/') => (Start::Workspace, &text[1..]),
            _ if text.starts_with("**/") || !text.contains('/') => (Start::Anywhere, text),
            _ => (Start::Workspace, text),
        };
        if rest.is_empty() {
            return Err(RuleFault::EmptyPath);
        }
        if Path::new(rest).components().any(|part| part == std::path::Component::ParentDir) {
            return Err(RuleFault::ParentInPath);
        }
        let anywhere = start == Start::Anywhere && !rest.starts_with("**/");
        let whole = if anywhere { format!("**/{rest}") } else { rest.to_owned() };
        let build = |any_case: bool| {
            GlobBuilder::new(&whole)
                .literal_separator(true)
                .case_insensitive(any_case)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|error| RuleFault::BadPath(error.kind().to_string()))
        };
        Ok(Self {
            start,
            from_start: rest.to_owned(),
            exact: build(false)?,
            any_case: build(true)?,
        })
    }

    fn is_match(&self, matcher: &GlobMatcher, path: &Path, territory: &Territory) -> bool {
        let below = |dir: &Path| path.strip_prefix(dir).is_ok_and(|rest| matcher.is_match(rest));
        match self.start {
            Start::Anywhere | Start::Root => matcher.is_match(path),
            Start::Workspace => below(&territory.workspace),
            Start::Home => territory.home.as_deref().is_some_and(below),
        }
    }
}
