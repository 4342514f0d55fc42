//! What a command line does, as far as it can be told without running it. [pure]

use std::path::Path;

use super::paths::Territory;
use super::shell::{Reading, Redirect, RedirectKind, Simple, Word, programs};
use super::{Place, Programs};

/// A command line, read once for all questions about it.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// As the model wrote it.
    pub(super) text: &'a str,
    /// What is in it.
    pub(super) reading: Reading,
}

impl<'a> Line<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, reading: Reading::of(text) }
    }

    /// The files that it writes by redirection, as far as they are known.
    pub(super) fn written(&self) -> impl Iterator<Item = &Path> {
        let commands = self.reading.strict().unwrap_or_default();
        let redirects = commands.iter().flat_map(|one| &one.redirects);
        redirects.filter(|one| writes(one)).map(|one| Path::new(&one.target))
    }

    /// A command in it that is of no use without the network.
    pub(super) fn needs_network(&self) -> Option<String> {
        self.reading.commands().iter().find_map(|found| {
            let words = found.words.iter();
            let argv: Vec<String> =
                words.map(|word| word.literal().unwrap_or_default().to_owned()).collect();
            programs::network(&argv).then(|| shown(&found.words))
        })
    }
}

/// Whether the redirection changes a file.
pub(super) fn writes(redirect: &Redirect) -> bool {
    let is_write = matches!(redirect.kind, RedirectKind::Write | RedirectKind::Append);
    is_write && !redirect.is_harmless()
}

/// The ways in which rules may know a command: by the path it is started by, and by the name of the
/// program that lies there. None for a name that leads to a program which anybody could have put there.
pub(super) fn spellings(argv: &[String], machine: &dyn Programs) -> Vec<Vec<String>> {
    let Some((program, arguments)) = argv.split_first() else { return Vec::new() };
    let place = machine.place(program);
    if !program.contains('/') {
        return match place {
            Place::Untrusted(_) => Vec::new(),
            Place::Trusted(_) | Place::NotFound => vec![argv.to_vec()],
        };
    }
    let mut spellings = vec![argv.to_vec()];
    if matches!(place, Place::Trusted(_)) {
        let name = super::shell::base_name(program).to_owned();
        spellings.push(std::iter::once(name).chain(arguments.iter().cloned()).collect());
    }
    spellings
}

/// Whether the command is known to read and nothing else, of files that are `open` to it.
pub(super) fn is_read_only(
    command: &Simple,
    territory: &Territory,
    is_confined: bool,
    machine: &dyn Programs,
) -> bool {
    let is_known = |argv: &Vec<String>| !argv[0].contains('/') && programs::is_read_only(argv);
    spellings(&command.argv, machine).iter().any(is_known)
        // What a sandbox does not hide may be read in it.
        && (is_confined || !names_outside(&command.argv[1..], territory, machine))
}

/// Whether an argument may name something outside the roots.
fn names_outside(arguments: &[String], territory: &Territory, machine: &dyn Programs) -> bool {
    arguments.iter().any(|word| {
        let value = match word.starts_with('-') {
            true => word.split_once('=').map(|(_, value)| value),
            false => Some(word.as_str()),
        };
        value.is_some_and(|value| !territory.holds(&territory.named(Path::new(value), machine)))
    })
}

/// Words as a person reads them.
pub(super) fn shown(words: &[Word]) -> String {
    let words = words.iter().map(|word| word.literal().unwrap_or("…"));
    words.collect::<Vec<_>>().join(" ")
}
