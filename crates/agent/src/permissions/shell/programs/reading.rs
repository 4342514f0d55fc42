//! Which calls only read, by what is known of a program and its options.

use super::covers;

/// The call only reads and prints: by its program, which is on a short list under its bare name, and by
/// its options. Says nothing about *which* files it reads.
pub fn is_read_only(argv: &[String]) -> bool {
    // To page or not to page is no difference to what does not see a terminal.
    if let [git, pager, rest @ ..] = argv
        && (git.as_str(), pager.as_str()) == ("git", "--no-pager")
    {
        let plain: Vec<String> = std::iter::once(git).chain(rest).cloned().collect();
        return rest.first().is_some_and(|word| !word.starts_with('-')) && is_read_only(&plain);
    }
    let Some((program, arguments)) = argv.split_first() else { return false };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let name = program.as_str();
    let listed = match name {
        "git" => git(&words),
        "cargo" => matches!(words.as_slice(), ["--version" | "-V" | "version"]),
        "rustc" | "node" | "python3" | "npm" | "go" => {
            matches!(words.as_slice(), ["--version" | "-V" | "version"])
        }
        // Follows what is written without end.
        "tail" => !words
            .iter()
            .any(|word| word.starts_with("-f") || word.starts_with("--f") || *word == "-F"),
        "ps" => !words.iter().any(|word| shows_environment(word)),
        "command" => matches!(words.as_slice(), ["-v" | "-V", _]),
        _ => PROGRAMS.contains(&name),
    };
    listed && (name == "command" || covers(argv).is_ok())
}

/// `ps` shows what every process was given in its environment, for a letter without a dash or, elsewhere, a
/// capital one with it. A value that could be such letters counts as them.
fn shows_environment(word: &str) -> bool {
    match word.strip_prefix('-') {
        Some(letters) => !letters.starts_with('-') && letters.contains('E'),
        None => word.contains('e') && word.chars().all(|c| c.is_ascii_alphabetic()),
    }
}

/// Which program of this name runs is chosen by a file of the folder, such as `rust-toolchain.toml`.
pub fn is_chosen_by_folder(program: &str) -> bool {
    ["cargo", "rustc", "go"].contains(&program)
}

/// Whether the program reads and prints whatever its arguments are, so that also a file whose name looks
/// like an option makes it do nothing else: it has none that writes a file, runs a program, evaluates a
/// word or moves the shell.
pub fn takes_any_words(program: &str) -> bool {
    const SUCH: &[&str] = &[
        "basename",
        "cat",
        "cksum",
        "cmp",
        "cut",
        "dirname",
        "du",
        "echo",
        "egrep",
        "fgrep",
        "grep",
        "head",
        "ls",
        "md5sum",
        "nl",
        "sha1sum",
        "sha256sum",
        "stat",
        "tail",
        "wc",
    ];
    SUCH.contains(&program)
}

const PROGRAMS: &[&str] = &[
    "[",
    "base64",
    "basename",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "column",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "expand",
    "expr",
    "false",
    "fgrep",
    "file",
    "find",
    "fmt",
    "fold",
    "grep",
    "groups",
    "head",
    "hostname",
    "id",
    "join",
    "jq",
    "ls",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "sed",
    "seq",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "sort",
    "stat",
    "strings",
    "tac",
    "test",
    "tr",
    "tree",
    "true",
    "type",
    "uname",
    "unexpand",
    "uniq",
    "uptime",
    "wc",
    "which",
    "whoami",
];

fn git(words: &[&str]) -> bool {
    let Some((sub, rest)) = words.split_first() else { return false };
    // Asked for a signature, git runs the program of its settings that checks it.
    if words.iter().any(|word| word.contains("%G") || word.contains("%(signature")) {
        return false;
    }
    match *sub {
        // Asks the server.
        "remote" => !rest.contains(&"show"),
        "stash" => matches!(rest.first(), Some(&("list" | "show"))),
        "worktree" => rest == ["list"],
        sub => GIT.contains(&sub),
    }
}

/// Sub-commands that only read in every form that [`covers`] lets pass.
const GIT: &[&str] = &[
    "blame",
    "branch",
    "cat-file",
    "check-attr",
    "check-ignore",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-tree",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "reflog",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-ref",
    "status",
    "tag",
    "var",
];
