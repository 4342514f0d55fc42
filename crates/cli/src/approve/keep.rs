//! Keeps a rule in the user's own configuration file: everything else in it stays as it was written.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Value};

use crate::logs::private_dir;

/// A file that is larger was not written by hand.
const MAX_FILE: u64 = 1 << 20;

/// Why a rule was not kept. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// The file cannot be understood.
    #[error("{0}: repair it first")]
    Broken(String),
    /// Something else than a list stands where the rules belong.
    #[error("{0}: permissions.allow is no list of rules")]
    NoList(String),
    /// The file belongs to the repository.
    #[error("{0} belongs to the repository, where no permission is kept")]
    Repository(String),
    /// Somebody else wrote the file just now.
    #[error("{0} was changed at this moment: try again")]
    Changed(String),
    /// The file system refused.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

/// Adds `rule` to what `file` allows, and creates the file where there is none. `repository` is the
/// folder of the repository's own file, a canonical path.
///
/// # Errors
/// See [`KeepError`].
pub(crate) fn keep(file: &Path, repository: &Path, rule: &str) -> Result<(), KeepError> {
    let name = file.display().to_string();
    let failed = |error| KeepError::Io(name.clone(), error);
    let real = real_path(file).map_err(failed)?;
    if real.starts_with(repository) {
        return Err(KeepError::Repository(name));
    }
    let before = read(&real).map_err(failed)?;
    let text = with_rule(before.as_deref().unwrap_or_default(), &name, rule)?;
    let Some(text) = text else { return Ok(()) };
    let dir = real.parent().unwrap_or(Path::new("/"));
    private_dir(dir).map_err(failed)?;
    let mut new = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
    if let Ok(metadata) = fs::metadata(&real) {
        let mode = fs::Permissions::from_mode(metadata.permissions().mode() & 0o777);
        new.as_file().set_permissions(mode).map_err(failed)?;
    }
    new.write_all(text.as_bytes()).map_err(failed)?;
    new.as_file().sync_all().map_err(failed)?;
    if read(&real).map_err(failed)? != before {
        return Err(KeepError::Changed(name));
    }
    new.persist(&real).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Where the file really is: people keep a link to it there.
fn real_path(file: &Path) -> io::Result<PathBuf> {
    match file.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if file.symlink_metadata().is_ok() {
                return Err(io::Error::other("it is a link that leads nowhere"));
            }
            std::path::absolute(file)
        }
        found => found,
    }
}

fn read(file: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    match fs::File::open(file) {
        Ok(open) => open.take(MAX_FILE + 1).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match text.len() as u64 > MAX_FILE {
        true => Err(io::Error::other("it is larger than 1 MiB")),
        false => Ok(Some(text)),
    }
}

/// The text of the file with the rule in it; nothing when it is there already.
fn with_rule(text: &str, name: &str, rule: &str) -> Result<Option<String>, KeepError> {
    // Read as anvil reads it, so that a fault is told with its place and in the usual words.
    llm::config::parse(name, text).map_err(|fault| KeepError::Broken(fault.to_string()))?;
    let broken = |error: toml_edit::TomlError| KeepError::Broken(format!("{name}: {error}"));
    let mut document: DocumentMut = text.parse().map_err(broken)?;
    if document.get("permissions").is_none() {
        let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let rule = Value::from(rule);
        return Ok(Some(format!("{text}{end}{gap}[permissions]\nallow = [{rule}]\n")));
    }
    let no_list = || KeepError::NoList(name.to_owned());
    let table = document["permissions"].as_table_like_mut().ok_or_else(no_list)?;
    let rules = table.entry("allow").or_insert_with(|| Item::Value(Array::new().into()));
    let rules = rules.as_array_mut().ok_or_else(no_list)?;
    if rules.iter().any(|known| known.as_str() == Some(rule)) {
        return Ok(None);
    }
    push(rules, rule);
    Ok(Some(document.to_string()))
}

/// Adds a rule the way the others are written: below them where each has a line of its own.
fn push(rules: &mut Array, rule: &str) {
    let decor = |value: &Value| {
        let text = |part: Option<&toml_edit::RawString>| {
            part.and_then(|part| part.as_str()).unwrap_or_default().to_owned()
        };
        (text(value.decor().prefix()), text(value.decor().suffix()))
    };
    let Some((prefix, suffix)) = rules.iter().last().map(decor) else { return rules.push(rule) };
    let mut value = Value::from(rule);
    // A comment before the last rule is that rule's own.
    match prefix.rsplit_once('\n') {
        Some((_, indent)) => value.decor_mut().set_prefix(format!("\n{indent}")),
        None => value.decor_mut().set_prefix(" "),
    }
    // What stands between the last rule and the bracket stays there.
    if !rules.trailing_comma()
        && let Some(last) = rules.iter_mut().last()
    {
        last.decor_mut().set_suffix("");
        value.decor_mut().set_suffix(suffix);
    }
    rules.push_formatted(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, want: &str) {
        let after = with_rule(before, "config.toml", "bash(x:*)").unwrap();
        assert_eq!(after.as_deref(), Some(want));
        assert_eq!(with_rule(want, "config.toml", "bash(x:*)").unwrap(), None, "only once");
    }

    #[test]
    fn a_rule_is_added_and_every_other_character_stays() {
        check("", "[permissions]\nallow = [\"bash(x:*)\"]\n");
        check(
            "# mine\ndefault_model  =  'a' # why\n",
            "# mine\ndefault_model  =  'a' # why\n\n[permissions]\nallow = [\"bash(x:*)\"]\n",
        );
        check(
            "[permissions] # all\nmode = \"plan\"\nallow = [ \"glob\" ] # some\n\n[agent]\nmax_steps = 3\n",
            "[permissions] # all\nmode = \"plan\"\nallow = [ \"glob\", \"bash(x:*)\" ] # some\n\n[agent]\nmax_steps = 3\n",
        );
        check(
            "permissions.mode = \"plan\"\n",
            "permissions.mode = \"plan\"\npermissions.allow = [\"bash(x:*)\"]\n",
        );
    }

    #[test]
    fn a_list_with_a_line_for_each_rule_gets_another_line() {
        check(
            "[permissions]\nallow = [\n    # tests\n    \"glob\", # all\n    \"grep\",\n]\n",
            "[permissions]\nallow = [\n    # tests\n    \"glob\", # all\n    \"grep\",\n    \"bash(x:*)\",\n]\n",
        );
        check(
            "[permissions]\nallow = [\n  \"glob\"\n]\n",
            "[permissions]\nallow = [\n  \"glob\",\n  \"bash(x:*)\"\n]\n",
        );
    }

    #[test]
    fn a_broken_file_is_refused_with_the_place_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        fs::write(&file, "[permissions]\nallow = [\n").unwrap();
        let error = keep(&file, Path::new("/nowhere"), "glob").unwrap_err().to_string();
        assert!(error.contains("config.toml:") && error.contains("repair"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "[permissions]\nallow = [\n");
        for text in ["permissions = 3\n", "[permissions]\nallow = \"glob\"\n"] {
            fs::write(&file, text).unwrap();
            keep(&file, Path::new("/nowhere"), "glob").unwrap_err();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn the_file_is_created_for_its_user_alone_and_keeps_the_mode_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("anvil/config.toml");
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        keep(&file, Path::new("/nowhere"), "glob").unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        keep(&file, Path::new("/nowhere"), "grep").unwrap();
        assert_eq!(mode(), 0o644);
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, "[permissions]\nallow = [\"glob\", \"grep\"]\n");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_kept_in_the_file_of_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let (project, home) = (dir.path().join("work/.anvil"), dir.path().join("home"));
        fs::create_dir_all(&project).unwrap();
        fs::create_dir_all(&home).unwrap();
        fs::write(project.join("config.toml"), "").unwrap();
        let link = home.join("config.toml");
        std::os::unix::fs::symlink(project.join("config.toml"), &link).unwrap();
        for file in [project.join("config.toml"), link] {
            let error = keep(&file, &project.canonicalize().unwrap(), "glob").unwrap_err();
            assert!(matches!(error, KeepError::Repository(_)), "{error}");
        }
        assert_eq!(fs::read_to_string(project.join("config.toml")).unwrap(), "");
    }

    #[test]
    fn a_link_to_the_file_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("dotfiles.toml"), "# mine\n").unwrap();
        let link = dir.path().join("config.toml");
        std::os::unix::fs::symlink("dotfiles.toml", &link).unwrap();
        keep(&link, Path::new("/nowhere"), "glob").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(
            fs::read_to_string(dir.path().join("dotfiles.toml")).unwrap().starts_with("# mine")
        );
    }
}
