//! Names that carry authority, compared the way the laxest file system would. [pure]

use std::ffi::OsStr;
use std::path::Path;

/// Whether a name is `.git` for some file system.
pub(super) fn is_git(name: &OsStr) -> bool {
    authority(name) == Some(".git")
}

/// `.git` or `.anvil`, when `name` is one of them for some file system.
pub(crate) fn authority(name: &OsStr) -> Option<&'static str> {
    const HELD: [&str; 2] = [".git", ".anvil"];
    // Every file of a walk comes by here, so the common case allocates nothing.
    let bytes = name.as_encoded_bytes();
    if bytes.is_ascii() {
        let end =
            bytes.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |at| at + 1);
        return HELD.into_iter().find(|held| bytes[..end].eq_ignore_ascii_case(held.as_bytes()));
    }
    let folded = fold(name);
    HELD.into_iter().find(|held| folded == *held)
}

/// Whether other programs run or obey what a file of this name holds, so that writing one hands them
/// commands: servers, tasks of an editor, shells that enter the folder, and where git fetches from and
/// what it filters with.
pub(crate) fn is_acted_upon(path: &Path) -> bool {
    let mut above = path.components().rev().map(|part| fold(part.as_os_str()));
    match above.next().as_deref() {
        Some(".mcp.json" | ".envrc" | ".gitmodules" | ".gitattributes") => true,
        // With a few more beside it, it makes its folder a repository, whose settings name programs.
        Some("head") => true,
        Some("tasks.json") => above.next().as_deref() == Some(".vscode"),
        _ => false,
    }
}

/// Whether `path` is `folder` or lies below it, without regard to letter case.
pub(crate) fn lies_under(path: &Path, folder: &Path) -> bool {
    let mut parts = path.components();
    folder.components().all(|held| {
        parts.next().is_some_and(|part| fold(part.as_os_str()) == fold(held.as_os_str()))
    })
}

/// A name as a file system sees it that ignores letter case, the invisible characters that HFS+
/// skips, and the dots and blanks at the end that Windows file systems drop.
fn fold(name: &OsStr) -> String {
    let visible: String = name.to_string_lossy().chars().filter(|&c| !is_ignorable(c)).collect();
    visible.to_lowercase().trim_end_matches(['.', ' ']).to_owned()
}

/// Characters that HFS+ leaves out when it compares names (Apple TN1150).
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, want: Option<&str>) {
        assert_eq!(authority(OsStr::new(name)), want, "{name:?}");
    }

    #[test]
    fn authority_is_recognised_in_every_spelling_some_file_system_accepts() {
        check(".git", Some(".git"));
        check(".GIT", Some(".git"));
        check(".g\u{200c}it", Some(".git"));
        check(".git.", Some(".git"));
        check(".Git ", Some(".git"));
        check(".Anvil", Some(".anvil"));
    }

    #[test]
    fn names_that_only_resemble_authority_are_ordinary() {
        for name in [".gitignore", ".github", "git", "x.git", "\u{ff0e}anvil", ".", "..", " "] {
            check(name, None);
        }
    }

    #[test]
    fn files_that_other_programs_run_or_obey_are_known_in_any_folder_and_spelling() {
        for name in [
            ".mcp.json",
            "sub/.MCP.json",
            ".vscode/tasks.json",
            "a/.VSCode/Tasks.json",
            ".envrc",
            ".env\u{200c}rc",
            ".gitmodules",
            "deep/er/.gitattributes",
            "vendor/Head",
        ] {
            assert!(is_acted_upon(Path::new(name)), "{name}");
        }
        for name in [
            "",
            "head.md",
            "tasks.json",
            ".vscode/settings.json",
            "mcp.json",
            ".envrc/x",
            ".gitignore",
        ] {
            assert!(!is_acted_upon(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn a_sibling_with_a_longer_name_does_not_lie_under() {
        assert!(lies_under(Path::new("/h/.Config/x"), Path::new("/h/.config")));
        assert!(lies_under(Path::new("/h/.config"), Path::new("/h/.config")));
        assert!(!lies_under(Path::new("/h/.config-old/x"), Path::new("/h/.config")));
        assert!(!lies_under(Path::new("/h"), Path::new("/h/.config")));
    }
}
