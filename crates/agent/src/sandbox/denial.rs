//! Recognises in what a command printed that the sandbox held it back, so that nobody looks elsewhere. [pure]
//!
//! A guess from the words of the C library: it adds a line to a result and decides nothing.

use std::path::Path;

/// What a file system says that is read-only.
const READ_ONLY: &[&str] = &["Read-only file system", "os error 30", "EROFS"];
/// What programs say that find no network.
const NO_NETWORK: &[&str] = &[
    "Could not resolve host",
    "Couldn't resolve host",
    "Name or service not known",
    "Network is unreachable",
    "Temporary failure in name resolution",
    "getaddrinfo EAI_AGAIN",
    "getaddrinfo ENOTFOUND",
];
const REFUSED: &[&str] = &["Permission denied", "Operation not permitted"];

/// How the command was confined.
pub(super) struct Held<'a> {
    /// Folders that it could write.
    pub(super) writable: &'a [&'a Path],
    /// Files and folders that it could not see.
    pub(super) hidden: &'a [&'a Path],
    /// Whether it could reach the network.
    pub(super) has_network: bool,
    /// Whether the workspace is another user's, over whose files root has no power without capabilities.
    pub(super) is_foreign: bool,
}

/// The line that tells what was held back, if `printed` says that something was.
pub(super) fn denial(printed: &str, held: &Held<'_>) -> Option<String> {
    let lines = || printed.lines();
    let says = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    if lines().any(|line| says(line, READ_ONLY)) {
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
            "The sandbox held it back: commands have no network. This is on purpose; the user can open it."
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
            hidden: &[Path::new("/w/.env")],
            has_network,
            is_foreign: false,
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
    fn a_workspace_of_somebody_else_is_told_as_such() {
        let held = Held { writable: &[], hidden: &[], has_network: false, is_foreign: true };
        let said = denial("touch: cannot touch 'x': Permission denied", &held).unwrap();
        assert!(said.contains("belongs to another user"), "{said}");
    }

    #[test]
    fn an_ordinary_failure_is_left_alone() {
        check("curl: (6) Could not resolve host: example.com", true, None);
        check("bash: ./run.sh: Permission denied", false, None);
        check("error[E0308]: mismatched types", false, None);
    }
}
