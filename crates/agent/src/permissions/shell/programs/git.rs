//! What a rule for a sub-command of `git` covers.
//!
//! Options before the sub-command choose settings and programs and are covered by no rule. Sub-commands
//! that mostly list also create, move and delete; a rule for one is meant for listing.

use super::Refusal;
use crate::permissions::shell::options::{Argument, Grammar, abbreviates, read};

/// A rule for the sub-command covers this call; `words` are the arguments of `git`.
pub(super) fn covers(words: &[&str]) -> Result<(), Refusal> {
    let Some((&sub, rest)) = words.split_first() else { return Ok(()) };
    match sub {
        "--version" | "--help" | "version" | "help" => return Ok(()),
        _ if sub.starts_with('-') => {
            return Err("an option before the sub-command changes what git runs");
        }
        _ => {}
    }
    let call = Call::of(sub, rest);
    call.refuse(ALWAYS)?;
    match sub {
        "branch" => call.only_lists(BRANCH_CHANGES, BRANCH_LISTS),
        "tag" => call.only_lists(TAG_CHANGES, TAG_LISTS),
        "remote" => match rest.iter().find(|word| !word.starts_with('-')) {
            None | Some(&("show" | "get-url")) => Ok(()),
            Some(_) => Err("changes the servers that git talks to"),
        },
        "stash" => match rest.first() {
            Some(&("list" | "show")) => Ok(()),
            _ => Ok(()),
        },
        "config" => config(rest, &call),
        "grep" => call.refuse(&[
            ("O", "runs a pager"),
            ("--open-files-in-pager", "runs a pager"),
            ("--ext-grep", "runs another program"),
        ]),
        "reflog" => match rest.first() {
            Some(&("expire" | "delete" | "drop" | "write")) => Err("deletes history"),
            _ => Ok(()),
        },
        "bisect" if rest.first() == Some(&"run") => Err("runs another program"),
        "submodule" if rest.contains(&"foreach") => Err("runs another program"),
        "rebase" => {
            call.refuse(&[("x", "runs another program"), ("--exec", "runs another program")])
        }
        "filter-branch" | "difftool" | "mergetool" | "send-email" | "instaweb" | "web--browse"
        | "citool" | "gui" => Err("runs another program"),
        "archive" | "format-patch" => call.refuse(&[("o", WRITES), ("--remote", "asks a server")]),
        "clone" => call.refuse(&[
            ("c", "takes settings that may name programs"),
            ("u", "runs another program"),
        ]),
        _ => Ok(()),
    }
}

const WRITES: Refusal = "writes a file that the rule does not name";

/// Options that run a program or write a file whatever the sub-command is.
const ALWAYS: &[(&str, Refusal)] = &[
    ("--output", WRITES),
    ("--output-directory", "writes files elsewhere"),
    ("--ext-diff", "runs a program from the settings"),
    ("--textconv", "runs a program from the settings"),
    ("--filters", "runs a program from the settings"),
    ("--show-signature", "runs a program from the settings"),
    ("--upload-pack", "runs another program"),
    ("--receive-pack", "runs another program"),
    ("--exec", "runs another program"),
    ("--exec-path", "runs other programs of git"),
    ("--config", "takes settings that may name programs"),
    ("--template", "takes hooks from elsewhere"),
    ("--contents", "reads another file"),
    ("--no-index", "reads files outside the repository"),
];

const BRANCH_LISTS: &[&str] = &[
    "--list",
    "l",
    "a",
    "--all",
    "r",
    "--remotes",
    "v",
    "--verbose",
    "--show-current",
    "--contains",
    "--no-contains",
    "--merged",
    "--no-merged",
    "--points-at",
    "--format",
    "--sort",
    "q",
    "--column",
    "--no-column",
    "--color",
    "--no-color",
    "i",
    "--ignore-case",
    "--abbrev",
    "--no-abbrev",
];
const BRANCH_CHANGES: Refusal = "creates, moves or deletes branches";

const TAG_LISTS: &[&str] = &[
    "--list",
    "l",
    "n",
    "--contains",
    "--no-contains",
    "--merged",
    "--no-merged",
    "--points-at",
    "--format",
    "--sort",
    "--column",
    "--no-column",
    "--color",
    "i",
    "--ignore-case",
];
const TAG_CHANGES: Refusal = "creates or deletes tags";

struct Call<'a> {
    arguments: Vec<Argument<'a>>,
}

impl<'a> Call<'a> {
    fn of(sub: &str, words: &[&'a str]) -> Self {
        const LONG: &[&str] = &["output", "exec", "config", "upload-pack", "receive-pack"];
        let grammar = match sub {
            "log" | "diff" | "show" => {
                Grammar::gnu("lSGnLU", &["output", "format", "author", "since", "until"])
                    .attached("OMCBX")
            }
            "grep" => Grammar::gnu("efABCmO", &["max-depth", "threads"]).attached("O"),
            "branch" | "tag" => Grammar::gnu("umF", &["format", "sort", "points-at"]).attached("n"),
            "clone" => Grammar::gnu("ocbuj", &["config", "upload-pack", "template"]),
            "archive" | "format-patch" => Grammar::gnu("ov", &["output", "remote", "exec"]),
            "commit" | "merge" | "notes" => Grammar::gnu("mCcF", LONG),
            "stash" if matches!(words.first(), Some(&("push" | "save"))) => Grammar::gnu("m", LONG),
            // The same letter takes the next word in one and is a flag in another: none does.
            _ => Grammar::gnu("", LONG),
        };
        // After `--` stand paths, which the reader tells from options.
        let words: Vec<Option<&str>> = words.iter().map(|word| Some(*word)).collect();
        Self { arguments: read(&grammar, &words) }
    }

    fn refuse(&self, refused: &[(&str, Refusal)]) -> Result<(), Refusal> {
        for argument in &self.arguments {
            if let Some((_, why)) = refused.iter().find(|(option, _)| is(argument, option)) {
                return Err(why);
            }
        }
        Ok(())
    }

    /// Nothing but options that list; names only where an option makes them patterns.
    fn only_lists(&self, why: Refusal, lists: &[&str]) -> Result<(), Refusal> {
        let mut patterns = false;
        let mut named = false;
        for argument in &self.arguments {
            match argument {
                Argument::Operand(_) => named = true,
                // A digit is the number of lines that `-n` shows.
                Argument::Short(letter, _) if letter.is_ascii_digit() => {}
                Argument::Short(letter, _) => {
                    let mut text = [0; 4];
                    if !lists.contains(&&*letter.encode_utf8(&mut text)) {
                        return Err(why);
                    }
                    patterns |= matches!(letter, 'l' | 'n');
                }
                // Abbreviated names could mean another option.
                Argument::Long(name, _) => {
                    if !lists.iter().any(|list| list.strip_prefix("--") == Some(name)) {
                        return Err(why);
                    }
                    patterns |= matches!(
                        *name,
                        "list" | "contains" | "no-contains" | "merged" | "no-merged" | "points-at"
                    );
                }
            }
        }
        if named && !patterns { Err(why) } else { Ok(()) }
    }
}

/// Reading settings is covered; setting one can name a program that git then runs.
fn config(words: &[&str], call: &Call<'_>) -> Result<(), Refusal> {
    const READS: &[&str] =
        &["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"];
    let elsewhere =
        call.arguments.iter().any(|argument| is(argument, "f") || is(argument, "--file"));
    let reads =
        words.first().is_some_and(|word| READS.contains(word) || ["get", "list"].contains(word));
    if reads && !elsewhere {
        Ok(())
    } else {
        Err("changes the settings of git, which may name programs")
    }
}

fn is(argument: &Argument<'_>, option: &str) -> bool {
    match argument {
        Argument::Short(letter, _) => option.len() == 1 && option.starts_with(*letter),
        // A beginning that means two options is an error of its own.
        Argument::Long(given, _) => {
            option.strip_prefix("--").is_some_and(|name| abbreviates(given, name))
        }
        Argument::Operand(_) => false,
    }
}
