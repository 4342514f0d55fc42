//! Understands command lines: which commands are in one, and whether that is all there is to it.
//!
//! Two readings serve opposite ends. The strict one accepts only lines in which nothing is left to the
//! shell ([`Reading::strict`]); only it can let a command run unasked. The other one finds every command
//! anywhere, also in substitutions, functions and behind wrappers ([`Reading::commands`]); it serves deny
//! and ask rules, which must not be fooled. A line that the strict reading accepts needs no other one:
//! its commands are known exactly, and only what wrappers hide in their arguments is still looked for.
//! Both are made once per call, from the text alone.

mod ansi_c;
mod invisible;
mod options;
pub mod programs;
mod propose;
mod scan;
mod strict;
mod walk;
mod words;
mod wrappers;

pub use propose::propose;

/// A command line, read.
#[derive(Debug, Clone)]
pub struct Reading {
    text: String,
    strict: Result<Vec<Simple>, Unknown>,
    patterns: Option<Vec<Simple>>,
    found: Vec<Found>,
    more: Vec<More>,
    complete: bool,
}

/// A command of which every byte is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Simple {
    /// The program and its arguments, after quoting; never empty.
    pub argv: Vec<String>,
    /// Variables set for this command only; none that could change what runs.
    pub assignments: Vec<(String, String)>,
    /// Where its input and output go.
    pub redirects: Vec<Redirect>,
}

/// A redirection whose target is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The descriptor: 0, 1 or 2.
    pub fd: u8,
    /// Standard output and standard error together (`&>`).
    pub both: bool,
    /// What is done with the target.
    pub kind: RedirectKind,
    /// A path, or a descriptor for [`RedirectKind::Duplicate`].
    pub target: String,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectKind {
    /// `<`: reads a file.
    Read,
    /// `>`, `>|`, `&>`: empties and writes a file.
    Write,
    /// `>>`, `&>>`: appends to a file.
    Append,
    /// `2>&1`: joins descriptors.
    Duplicate,
}

impl Redirect {
    /// It touches no file: joins descriptors, or reads or writes `/dev/null`.
    pub fn is_harmless(&self) -> bool {
        self.kind == RedirectKind::Duplicate || self.target == "/dev/null"
    }
}

/// A found command that may run more than what is found: asked once and not for every rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct More {
    /// Which of the found commands.
    at: usize,
    /// What it runs may come through its input.
    is_runner: bool,
}

/// What the strict reading does not understand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Where, in bytes of the line.
    pub at: usize,
    /// What it is.
    pub what: &'static str,
}

/// A command found somewhere in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The program and its arguments; never empty.
    pub words: Vec<Word>,
}

/// A word of a found command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// It stands for this.
    Literal(String),
    /// Only the shell knows: it holds an expansion or a pattern.
    Unknown,
}

impl Word {
    /// What it stands for, where that is known.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Word::Literal(text) => Some(text),
            Word::Unknown => None,
        }
    }
}

impl Found {
    /// The base name of the program; `None` where the shell computes it.
    pub fn program(&self) -> Option<&str> {
        self.words.first()?.literal().map(base_name)
    }

    /// What else it may run is in its arguments or its input.
    fn may_run_more(&self) -> bool {
        let words = self.words.iter().map(|word| word.literal().unwrap_or_default().to_owned());
        let argv: Vec<String> = words.collect();
        self.program().is_some_and(programs::is_runner) || programs::covers(&argv).is_err()
    }
}

/// What follows the last slash, as deny rules know programs.
pub fn base_name(program: &str) -> &str {
    program.rsplit_once('/').map_or(program, |(_, name)| name)
}

impl Reading {
    /// Reads a line both ways.
    pub fn of(command: &str) -> Self {
        let strict = strict::read(command);
        let (found, complete) = match &strict {
            Ok(simples) => walk::behind(simples),
            Err(_) => walk::everywhere(command),
        };
        let has_patterns = strict.is_err() && command.contains(['*', '?']);
        let patterns = has_patterns.then(|| strict::read_patterns(command).ok()).flatten();
        let more = (found.iter().enumerate())
            .filter(|(_, found)| found.may_run_more())
            .map(|(at, found)| More {
                at,
                is_runner: found.program().is_some_and(programs::is_runner),
            })
            .collect();
        Self { text: command.to_owned(), strict, patterns, found, more, complete }
    }

    /// The commands of a line that consists of nothing else, in order; the only basis for allowing.
    ///
    /// # Errors
    ///
    /// The first thing that is not understood; also for a line that runs nothing.
    pub fn strict(&self) -> Result<&[Simple], &Unknown> {
        self.strict.as_deref()
    }

    /// The commands of a line that consists of nothing else and leaves to the shell only which files the
    /// `*` and `?` in arguments of programs mean that read and print whatever these are. Good for knowing
    /// that a line only reads where a sandbox hides what must not be read; no basis for a rule to allow it.
    pub fn reading_patterns(&self) -> Option<&[Simple]> {
        self.patterns.as_deref().filter(|_| self.complete)
    }

    /// Every command anywhere in the line: wrappers themselves and what they run.
    pub fn commands(&self) -> &[Found] {
        &self.found
    }

    /// Nothing escaped [`commands`](Self::commands). Where it is false (the line cannot be parsed, nests
    /// or grows beyond what is looked at, or computes which program runs), deny rules also match any
    /// line that [mentions](Self::mentions) their program, and nothing is allowed.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// A program that runs what its arguments, its input or its environment say may be told to run a
    /// command of these words, in a language or by an option that is not followed.
    pub fn may_hide(&self, wanted: &[String]) -> bool {
        let names_all = |text: &dyn Fn(&str) -> bool| {
            wanted.iter().all(|word| !word.is_empty() && text(base_name(word)))
        };
        let line = |word: &str| words::names(&self.text, word);
        let in_words = |found: &Found| {
            let literals = || found.words[1..].iter().filter_map(Word::literal);
            names_all(&|word| literals().any(|text| words::names(text, word)))
        };
        let is_fed = self.text.contains(['|', '<']);
        let sets = matches!(&self.strict, Err(unknown) if unknown.what == strict::ASSIGNMENT);
        (sets && names_all(&line))
            || self.more.iter().any(|More { at, is_runner }| {
                in_words(&self.found[*at]) || (is_fed && *is_runner && names_all(&line))
            })
    }

    /// The text holds this name, read as it is or without quotes, backslashes and continued lines.
    pub fn mentions(&self, name: &str) -> bool {
        words::mentions(&self.text, name)
    }
}

/// Why a line cannot be split into simple commands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of the command is not understood: {what}")]
pub struct Unsplittable {
    /// Where, in bytes of the line.
    pub at: usize,
    /// What it is.
    pub what: &'static str,
}

/// The simple commands of a line, each as one line that means the same to the shell.
///
/// # Errors
///
/// Whatever the strict reading does not understand.
pub fn split_shell(command: &str) -> Result<Vec<String>, Unsplittable> {
    let simples =
        strict::read(command).map_err(|Unknown { at, what }| Unsplittable { at, what })?;
    Ok(simples.iter().map(|simple| words::quoted_line(&simple.argv)).collect())
}

#[cfg(test)]
mod tests;
