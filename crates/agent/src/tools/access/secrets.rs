//! What masked files hold, so that it can be taken out of whatever repeats it.

use std::path::{Path, PathBuf};

use super::{FileAccess, Masks, open};
use crate::secrets::known;

/// How deep masked files are looked for: at the top, and in the packages of a repository of several.
const MAX_DEPTH: usize = 3;
/// Most entries that are looked at.
const MAX_ENTRIES: usize = 4_000;
/// Most masked files that are read.
const MAX_FILES: usize = 64;
/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// Folders that hold what was fetched or built, and many of it.
const SKIPPED: &[&str] = &[".git", "node_modules", "target", "vendor", ".venv", "dist", "build"];

impl FileAccess {
    /// The secrets in the masked files near the top of a workspace, each under the name that its file gives
    /// it or under the file's own. What cannot be read is left out, and so is all beyond some thousand entries.
    ///
    /// `masked` says which files those are, as in [`AccessRules`](super::AccessRules).
    pub fn secrets_in_masked_files(workspace: &Path, masked: &[String]) -> Vec<(String, String)> {
        let Ok(masks) = Masks::new(masked) else { return Vec::new() };
        masked_files(workspace, &masks).iter().flat_map(|file| secrets_in(file)).collect()
    }
}

/// Masked files, those of folders further up first.
fn masked_files(workspace: &Path, masks: &Masks) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![workspace.to_owned()];
    let mut seen = 0;
    for _ in 0..MAX_DEPTH {
        let mut deeper = Vec::new();
        let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES || files.len() == MAX_FILES {
                return files;
            }
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            let relative = path.strip_prefix(workspace).unwrap_or(&path);
            if kind.is_file() && masks.hide(relative) {
                files.push(path);
            } else if kind.is_dir() && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                deeper.push(path);
            }
        }
        folders = deeper;
    }
    files
}

fn secrets_in(file: &Path) -> Vec<(String, String)> {
    let Some(text) = small_text(file) else { return Vec::new() };
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if text.contains("-----BEGIN ") {
        return vec![(name, text)];
    }
    let variables = match serde_json::from_str(&text) {
        Ok(value) => known::variables_in_json(&value),
        Err(_) => known::variables_in(&text),
    };
    let variables = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut secrets = known::secrets_among(variables);
    secrets.extend(known::passwords_in(&name, &text));
    secrets
}

fn small_text(file: &Path) -> Option<String> {
    use std::io::Read as _;

    let real = file.canonicalize().ok()?;
    let folder = open::root(real.parent()?).ok()?;
    let mut bytes = Vec::new();
    let opened = open::regular(&folder, Path::new(real.file_name()?)).ok()?;
    opened.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tools::access::AccessRules;

    fn masked() -> Vec<String> {
        AccessRules::workspace("/").masked
    }

    #[test]
    fn what_masked_files_hold_is_known_by_the_names_they_give_it() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(".env", "APP_NAME=my-own-server\nDB_PASSWORD=\"hunter2-hunter2\"\nPORT=3000\n");
        write("apps/web/.env.local", "export SESSION_SECRET=keyboard-cat-9\n");
        write(".npmrc", "//registry.example/:_authToken=npm-Token-4711\n");
        write(
            "key.pem",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----\n",
        );
        write(".netrc", "machine h\n  login u\n  password netrc-pass-1\n");
        write(".docker/config.json", r#"{"auths":{"h":{"auth":"dXNlcjpsb25nLXBhc3M="}}}"#);
        write("settings.txt", "API_KEY=not-in-a-masked-file\n");
        write("node_modules/x/.env", "API_KEY=somebody-elses-example\n");
        let mut found = FileAccess::secrets_in_masked_files(dir.path(), &masked());
        found.sort();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                ".netrc",
                "//registry.example/:_authToken",
                "DB_PASSWORD",
                "SESSION_SECRET",
                "auth",
                "key.pem"
            ]
        );
        assert_eq!(found[2].1, "hunter2-hunter2");
    }

    #[test]
    fn a_folder_that_is_not_there_holds_nothing() {
        assert!(
            FileAccess::secrets_in_masked_files(Path::new("/does/not/exist"), &masked()).is_empty()
        );
    }
}
