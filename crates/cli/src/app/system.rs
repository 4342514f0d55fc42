//! The system prompt: a base, instructions from files, the machine's facts, what the user adds.

use std::fs;
use std::path::Path;

use super::StartError;

const BASE: &str = include_str!("../../assets/base.md");

/// The whole text. The same inputs give the same bytes, so that a server's cache can hold it.
///
/// # Errors
/// When `file` cannot be read as text.
pub(super) fn text(
    file: Option<&Path>,
    instructions: &str,
    append: Option<&str>,
    cwd: &Path,
) -> Result<String, StartError> {
    let base = match file {
        None => BASE.to_owned(),
        Some(file) => fs::read_to_string(file).map_err(|error| {
            StartError::Config(format!("--system-file {}: {error}", file.display()))
        })?,
    };
    let mut text = format!("{}\n{instructions}", base.trim_end());
    text.push_str(&format!(
        "\nWorkspace: {}\nPlatform: {} {}\n",
        cwd.display(),
        std::env::consts::OS,
        std::env::consts::ARCH
    ));
    if let Some(append) = append {
        text.push('\n');
        text.push_str(append.trim_end());
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_small_and_the_same_inputs_give_the_same_text() {
        assert!(BASE.len() < 2048 && BASE.lines().count() < 60);
        let make = || text(None, "", Some("Answer in verse."), Path::new("/w")).unwrap();
        assert_eq!(make(), make());
        assert!(make().starts_with(BASE.trim_end()));
        assert!(make().ends_with("\nAnswer in verse.\n"), "{}", make());
    }

    #[test]
    fn a_file_replaces_the_base_and_a_missing_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("system.md");
        fs::write(&file, "Be a poet.\n").unwrap();
        assert!(
            text(Some(&file), "", None, Path::new("/w")).unwrap().starts_with("Be a poet.\n\n")
        );
        let missing = text(Some(&dir.path().join("nope.md")), "", None, Path::new("/w"));
        assert!(missing.unwrap_err().to_string().contains("nope.md"));
    }
}
