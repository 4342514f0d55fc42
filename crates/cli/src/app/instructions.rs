//! The instructions that a prompt carries: the user's own, then the repository's.

use std::path::Path;

use agent::context::instructions::{Found, discover};
use agent::tools::access::{AccessRules, FileAccess};

use super::StartError;
use super::config::{self, Places};

/// What the user's own file is called, beside the configuration file.
const OWN: &str = "AGENTS.md";

/// The user's instructions, and those of the repository for work in `cwd`, the widest first.
///
/// # Errors
/// When the root of the repository cannot be entered.
pub(super) fn gather(
    places: &Places,
    cwd: &Path,
    masks: &[String],
) -> Result<(Found, Found), StartError> {
    let mut own = Found::default();
    if let Some(path) = places.user_file.as_ref().map(|file| file.with_file_name(OWN)) {
        let name = path.display().to_string();
        match config::read_if_there(&path) {
            Ok(Some(text)) => own.add(&name, text.as_bytes()),
            Ok(None) => {}
            Err(error) => own.notices.push(format!("{name} is not read: {error}")),
        }
    }
    let access = FileAccess::new(AccessRules::workspace(&places.root).masking(masks))
        .map_err(|error| StartError::Config(error.to_string()))?;
    Ok((own, discover(&access, cwd)))
}
