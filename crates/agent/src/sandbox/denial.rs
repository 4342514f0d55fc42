//! Recognises in what a command printed that the sandbox held it back, so that nobody looks elsewhere. [pure]
//!
//! A guess from the words of the C library: it adds a line to a result and decides nothing.

use std::path::Path;

/// What a file system says that is read-only.
const READ_ONLY: &[&str] =
    &["Read-only file system", "read-only file system", "os error 30", "EROFS"];
/// All that git says when it would stash.
const NO_INDEX: &str = "error: could not write index";
/// What programs say that find no network.
const NO_NETWORK: &[&str] = &[
    "Could not resolve host",
    "Couldn't resolve host",
    "Name or service not known",
    "Network is unreachable",
    "network is unreachable",
    "Temporary failure in name resolution",
    "Temporary failure resolving",
    "UnknownHostException",
    "failed to lookup address information",
    "unable to resolve host",
    "getaddrinfo EAI_AGAIN",
    "getaddrinfo ENOTFOUND",
    // Cargo, which is told so by the variable that says that there is none.
    "using offline mode (--offline)",
    "--offline was specified",
];
const REFUSED: &[&str] = &["Permission denied", "Operation not permitted"];

/// How the command was confined.
pub(super) struct Held<'a> {
    /// Folders that it could write.
    pub(super) writable: &'a [&'a Path],
    /// Toolchains and caches that it could only read.
    pub(super) readable: &'a [&'a Path],
    /// Files and folders that it could not see.
    pub(super) hidden: &'a [&'a Path],
    /// Whether it could reach the network.
    pub(super) has_network: bool,
    /// Whether the workspace is another user's, over whose files root has no power without capabilities.
    pub(super) is_foreign: bool,
    /// Whether Landlock held it, which says the same of everything it refuses.
    pub(super) by_landlock: bool,
}

/// The line that tells what was held back, if `printed` says that something was.
pub(super) fn denial(printed: &str, held: &Held<'_>) -> Option<String> {
    let lines = || printed.lines();
    let says = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    let is_of_git = |line: &str| {
        line == NO_INDEX || (says(line, READ_ONLY) && says(line, &["/.git/", "'.git/"]))
    };
    if lines().any(is_of_git) {
        return Some(
            "The sandbox held it back: no command writes .git, so staging, committing, fetching and switching \
             branches are left to the user. This is on purpose."
                .to_owned(),
        );
    }
    if lines().any(|line| says(line, READ_ONLY)) {
        let names = |line: &str, path: &Path| path.to_str().is_some_and(|path| line.contains(path));
        if let Some(cache) = held.readable.iter().find(|path| lines().any(|line| names(line, path)))
        {
            let cache = cache.display();
            return Some(format!(
                "The sandbox held it back: {cache} can only be read. This is on purpose: ask the user to run what \
                 fills it, or to open it (--add-dir {cache})."
            ));
        }
        let writable: Vec<String> =
            held.writable.iter().map(|dir| dir.display().to_string()).collect();
        let where_to = match writable.is_empty() {
            true => "only in /tmp, which is empty at each command".to_owned(),
            false => {
                format!("only below {} and, for as long as it runs, in /tmp", writable.join(", "))
            }
        };
        return Some(format!(
            "The sandbox held it back: a command writes {where_to}, and neither .git nor .anvil. This is on purpose."
        ));
    }
    if !held.has_network && lines().any(|line| says(line, NO_NETWORK)) {
        return Some(
            "The sandbox held it back: commands have no network. This is on purpose: ask the user to fetch what is \
             missing, or to open it (--network)."
                .to_owned(),
        );
    }
    if held.is_foreign && lines().any(|line| says(line, REFUSED)) {
        return Some(
            "The workspace belongs to another user, and in the sandbox root has no power over the files of others: \
             the user has to start anvil as their owner."
                .to_owned(),
        );
    }
    if held.by_landlock && lines().any(|line| says(line, REFUSED)) {
        let network = if held.has_network { "" } else { " and has no network" };
        return Some(format!(
            "Perhaps the sandbox held it back: a command reads the system and the workspace, writes the workspace and \
             $TMPDIR (not /tmp), makes no sockets of its own{network}, and makes, removes and renames nothing in a \
             folder that holds .git, .anvil or credentials, only in its subfolders. This is on purpose."
        ));
    }
    let names_hidden = |line: &str| {
        let names = held.hidden.iter().filter_map(|path| path.file_name()?.to_str());
        names.into_iter().any(|name| line.contains(name))
    };
    lines().any(|line| says(line, REFUSED) && names_hidden(line)).then(|| {
        "The sandbox held it back: files with credentials cannot be read. This is on purpose."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(printed: &str, has_network: bool, want: Option<&str>) {
        let held = Held {
            writable: &[Path::new("/w")],
            readable: &[Path::new("/h/.cargo/registry")],
            hidden: &[Path::new("/w/.env")],
            has_network,
            is_foreign: false,
            by_landlock: false,
        };
        let said = denial(printed, &held);
        assert_eq!(said.is_some(), want.is_some(), "{said:?}");
        assert!(said.unwrap_or_default().contains(want.unwrap_or_default()));
    }

    #[test]
    fn what_was_held_back_is_told_in_one_line() {
        check("touch: cannot touch '/etc/x': Read-only file system", false, Some("only below /w"));
        check("curl: (6) Could not resolve host: example.com", false, Some("no network"));
        check("cat: .env: Permission denied", false, Some("credentials"));
    }

    #[test]
    fn what_the_user_has_to_do_instead_is_told_where_it_is_known() {
        let locked = "fatal: Unable to create '/w/.git/index.lock': Read-only file system";
        let git = Some("switching branches are left to the user");
        check(locked, false, git);
        check("error: cannot open '.git/FETCH_HEAD': Read-only file system", true, git);
        check("error: could not write index", true, git);
        let cached = "error: failed to open `/h/.cargo/registry/cache/x.crate`\n\nCaused by:\n  \
                      Read-only file system (os error 30)";
        check(cached, true, Some("--add-dir /h/.cargo/registry"));
        let npm = "npm error rofs EROFS: read-only file system, open '/h/x'";
        check(npm, true, Some("only below /w"));
        let offline = "As a reminder, you're using offline mode (--offline) which can sometimes";
        check(offline, false, Some("--network"));
        check("ModuleNotFoundError: No module named 'x'", false, None);
    }

    #[test]
    fn a_workspace_of_somebody_else_is_told_as_such() {
        let held = Held {
            writable: &[],
            readable: &[],
            hidden: &[],
            has_network: false,
            is_foreign: true,
            by_landlock: false,
        };
        let said = denial("touch: cannot touch 'x': Permission denied", &held).unwrap();
        assert!(said.contains("belongs to another user"), "{said}");
    }

    #[test]
    fn landlock_is_suspected_of_every_refusal() {
        let held = Held {
            writable: &[],
            readable: &[],
            hidden: &[],
            has_network: false,
            is_foreign: false,
            by_landlock: true,
        };
        let said = denial("touch: cannot touch 'x': Permission denied", &held).unwrap();
        assert!(said.contains("in its subfolders") && said.contains("no network"), "{said}");
        assert_eq!(denial("error[E0308]: mismatched types", &held), None);
    }

    #[test]
    fn an_ordinary_failure_is_left_alone() {
        check("curl: (6) Could not resolve host: example.com", true, None);
        check("bash: ./run.sh: Permission denied", false, None);
        check("error[E0308]: mismatched types", false, None);
    }
}
