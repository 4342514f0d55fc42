//! The instructions that lie in a repository: `AGENTS.md` from its root down to the working folder.
//!
//! They are read through [`FileAccess`], so that a link out of the repository and a masked file are as
//! unreadable here as for a tool. What they say is advice: nothing that a model reads decides what it may
//! do.

use std::io::Read as _;
use std::path::Path;

use crate::sanitize::visible;
use crate::tool::Grants;
use crate::tools::access::{AccessError, FileAccess};

/// The names looked for in each folder; the first one that is there is read.
pub const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Most bytes of one file that are told.
pub const MAX_FILE: usize = 20_000;

/// Most bytes of all files together; the ones nearest to the working folder are told first.
const MAX_ALL: usize = 60_000;

/// One file of instructions, safe to show and cut to its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Which file, seen from the root of the repository.
    pub name: String,
    /// What it says; characters that cannot be seen are written as escapes.
    pub text: String,
}

/// What was found, and what a person should know about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The files, the widest first.
    pub instructions: Vec<Instruction>,
    /// Files that were not told, or not as they are.
    pub notices: Vec<String>,
}

impl Found {
    /// Adds a file after those that are already there.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        if let Some(read) = self.read(name, bytes) {
            self.instructions.push(read);
        }
    }

    fn read(&mut self, name: &str, bytes: &[u8]) -> Option<Instruction> {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_FILE)]);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let plain = text.replace("\r\n", "\n");
        let shown = visible(&plain);
        if *shown != *plain {
            self.notices.push(format!(
                "{name} holds invisible or control characters; the model sees them as escapes"
            ));
        }
        let mut text = shown.trim().to_owned();
        if bytes.len() > MAX_FILE {
            text.push_str(&format!(
                "\n[{name} is longer: only its first {MAX_FILE} bytes are here]"
            ));
            self.notices
                .push(format!("{name} is longer than {MAX_FILE} bytes; the rest is not read"));
        }
        (!text.is_empty()).then(|| Instruction { name: name.to_owned(), text })
    }
}

/// Collects the instructions of the folders from the root of `access` down to `cwd`, which lies in it.
pub fn discover(access: &FileAccess, cwd: &Path) -> Found {
    let mut found = Found::default();
    let mut left = MAX_ALL;
    let folders = cwd.ancestors().take_while(|folder| folder.starts_with(access.workspace()));
    let mut nearest_first = Vec::new();
    for folder in folders {
        let Some((name, bytes)) = first_of(access, folder, &mut found.notices) else { continue };
        let told = bytes.len().min(MAX_FILE);
        if told > left {
            found.notices.push(format!(
                "{name} is not read: the instructions nearer to the working folder fill {MAX_ALL} bytes"
            ));
            continue;
        }
        left -= told;
        nearest_first.extend(found.read(&name, &bytes));
    }
    found.instructions.extend(nearest_first.into_iter().rev());
    found
}

/// The file of one folder, up to one byte more than is told of it.
fn first_of(
    access: &FileAccess,
    folder: &Path,
    notices: &mut Vec<String>,
) -> Option<(String, Vec<u8>)> {
    let below = folder.strip_prefix(access.workspace()).unwrap_or(folder);
    for name in NAMES {
        let shown = below.join(name).display().to_string();
        match read(access, folder, name) {
            Ok(bytes) => return Some((shown, bytes)),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                notices.push(format!("{shown} is not read: {error}"));
                return None;
            }
        }
    }
    None
}

fn read(access: &FileAccess, folder: &Path, name: &str) -> Result<Vec<u8>, AccessError> {
    let path = access.for_reading(folder, name, &Grants::default())?;
    let mut bytes = Vec::new();
    let file = access.open(&path)?;
    let read = file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|source| AccessError::Io { path: name.to_owned(), source })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::tools::access::AccessRules;

    struct Repository {
        dir: tempfile::TempDir,
    }

    impl Repository {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = dir.path().join("w").join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            fs::create_dir_all(dir.path().join("w")).unwrap();
            Self { dir }
        }

        fn discover(&self, below: &str) -> Found {
            let root = self.dir.path().join("w").canonicalize().unwrap();
            let access = FileAccess::new(AccessRules::workspace(&root)).unwrap();
            discover(&access, &root.join(below))
        }

        fn names(&self, below: &str) -> Vec<String> {
            self.discover(below).instructions.into_iter().map(|one| one.name).collect()
        }
    }

    #[test]
    fn folders_are_read_from_the_root_down_and_each_has_one_file() {
        let repository = Repository::new(&[
            ("AGENTS.md", "root"),
            ("CLAUDE.md", "hidden by the other"),
            ("a/CLAUDE.md", "fallback"),
            ("a/b/AGENTS.md", "near"),
            ("other/AGENTS.md", "not on the way"),
        ]);
        assert_eq!(repository.names("a/b"), ["AGENTS.md", "a/CLAUDE.md", "a/b/AGENTS.md"]);
        assert_eq!(repository.names(""), ["AGENTS.md"]);
        assert_eq!(repository.discover("a/b").notices, [""; 0]);
    }

    #[test]
    fn a_link_out_of_the_repository_is_told_and_not_read() {
        let repository = Repository::new(&[]);
        fs::write(repository.dir.path().join("secret"), "SECRET").unwrap();
        symlink("../secret", repository.dir.path().join("w/AGENTS.md")).unwrap();
        let found = repository.discover("");
        assert_eq!(found.instructions, []);
        assert!(found.notices[0].contains("AGENTS.md is not read"), "{:?}", found.notices);
    }

    #[test]
    fn characters_nobody_sees_reach_the_model_as_escapes_and_the_person_as_a_notice() {
        let repository =
            Repository::new(&[("AGENTS.md", "\u{feff}Be kind.\u{e0072}\u{e006d}\r\n")]);
        let found = repository.discover("");
        assert_eq!(found.instructions[0].text, "Be kind.\\u{e0072}\\u{e006d}");
        assert!(found.notices[0].contains("invisible"), "{:?}", found.notices);
    }

    #[test]
    fn a_long_file_is_cut_and_many_files_leave_out_the_farthest() {
        let long = "x".repeat(MAX_FILE + 5);
        let repository = Repository::new(&[
            ("AGENTS.md", "root"),
            ("a/AGENTS.md", long.as_str()),
            ("a/b/AGENTS.md", long.as_str()),
            ("a/b/c/AGENTS.md", long.as_str()),
        ]);
        let found = repository.discover("a/b/c");
        let names: Vec<&str> = found.instructions.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a/AGENTS.md", "a/b/AGENTS.md", "a/b/c/AGENTS.md"]);
        let text = &found.instructions[0].text;
        assert!(text.starts_with(&"x".repeat(MAX_FILE)) && text.contains("only its first 20000"));
        assert!(found.notices.iter().any(|one| one.starts_with("AGENTS.md is not read")));
    }

    #[test]
    fn an_empty_file_says_nothing() {
        assert_eq!(Repository::new(&[("AGENTS.md", " \n")]).discover(""), Found::default());
    }
}
