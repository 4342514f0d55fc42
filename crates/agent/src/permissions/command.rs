//! What a command line does, as far as it can be told without running it. [pure]

use std::path::{Path, PathBuf};

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
    /// Where its commands may work, from the workspace on; none where only the shell knows.
    folders: Option<Vec<PathBuf>>,
}

/// More folders than this are not followed.
const FOLDERS: usize = 8;

impl<'a> Line<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let reading = Reading::of(text);
        let folders = folders(&reading);
        Self { text, reading, folders }
    }

    /// The files that it writes by redirection, as far as they are known.
    pub(super) fn written(&self) -> impl Iterator<Item = PathBuf> {
        let commands = self.reading.strict().unwrap_or_default();
        let redirects = commands.iter().flat_map(|one| &one.redirects);
        redirects.filter(|one| writes(one)).flat_map(|one| {
            self.places(&one.target).unwrap_or_else(|| vec![PathBuf::from(&one.target)])
        })
    }

    /// The files that a word may name, since a line can change the folder it works in; none where only
    /// the shell knows.
    pub(super) fn places(&self, word: &str) -> Option<Vec<PathBuf>> {
        let path = Path::new(word);
        if path.is_absolute() {
            return Some(vec![path.to_owned()]);
        }
        Some(self.folders.as_ref()?.iter().map(|dir| dir.join(path)).collect())
    }

    /// Whether no folder that it may work in is set up to make `program` start others.
    fn works_unset(&self, program: &str, territory: &Territory, machine: &dyn Programs) -> bool {
        self.folders.as_ref().is_some_and(|folders| {
            let mut folders = folders.iter().map(|folder| territory.workspace.join(folder));
            folders.all(|folder| !machine.is_set_to_start(program, &folder))
        })
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

/// The folders that a line may come to, whichever of its changes of folder take place.
fn folders(reading: &Reading) -> Option<Vec<PathBuf>> {
    let mut folders = vec![PathBuf::new()];
    for found in reading.commands() {
        let to = match found.program() {
            Some("cd" | "pushd") => match &found.words[1..] {
                [Word::Literal(dir)] if !dir.starts_with(['-', '+']) && !dir.is_empty() => dir,
                _ => return None,
            },
            _ => continue,
        };
        let further: Vec<PathBuf> = folders.iter().map(|from| from.join(to)).collect();
        folders.extend(further);
        if folders.len() > FOLDERS {
            return None;
        }
    }
    Some(folders)
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
    line: &Line<'_>,
    territory: &Territory,
    is_confined: bool,
    machine: &dyn Programs,
) -> bool {
    let is_known = |argv: &Vec<String>| {
        let is_fixed = || is_confined || !programs::is_chosen_by_folder(&argv[0]);
        !argv[0].contains('/') && programs::is_read_only(argv) && is_fixed()
    };
    spellings(&command.argv, machine).iter().any(is_known)
        // What a sandbox does not hide may be read in it.
        && (is_confined || line.works_unset(&command.argv[0], territory, machine))
        && (is_confined || command.argv[1..].iter().all(|word| is_open(word, line, territory, machine)))
}

/// Whether an argument names nothing but what is open in the roots, whatever it means.
fn is_open(word: &str, line: &Line<'_>, territory: &Territory, machine: &dyn Programs) -> bool {
    values(word).all(|value| {
        let places = line.places(value);
        places.is_some_and(|places| {
            places.iter().all(|path| {
                let named = territory.named(path, machine);
                territory.holds(&named) && !territory.hides(&named)
            })
        })
    })
}

/// What of an argument may be a path: all of it, or what follows the letter or the sign of an option.
fn values(word: &str) -> impl Iterator<Item = &str> {
    let is_option = word.len() > 1 && word.starts_with('-');
    let after_sign = word.split_once('=').map(|(_, value)| value).filter(|_| is_option);
    let is_letters = is_option && !word.starts_with("--");
    // Whichever of the letters takes the value.
    let starts = word.char_indices().skip(2).filter(|(_, c)| matches!(c, '/' | '.'));
    let attached = starts.map(|(at, _)| &word[at..]).filter(move |_| is_letters);
    (!is_option).then_some(word).into_iter().chain(after_sign).chain(attached)
}

/// Words as a person reads them.
pub(super) fn shown(words: &[Word]) -> String {
    let words = words.iter().map(|word| word.literal().unwrap_or("…"));
    words.collect::<Vec<_>>().join(" ")
}
