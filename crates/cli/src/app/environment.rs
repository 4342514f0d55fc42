//! What the process's environment says.

use std::env;
use std::path::PathBuf;

/// What the environment says, read once.
pub(crate) struct Environment {
    /// `ANVIL_LOG`.
    pub(super) log: Option<String>,
    /// Where sessions, logs and history go; nowhere without a home folder.
    pub(super) data_dir: Option<PathBuf>,
    /// Where the user's own file is.
    pub(super) config_dir: Option<PathBuf>,
    /// Folders of anvil's own, which no tool may write.
    pub(super) own_dirs: Vec<PathBuf>,
    /// Whether colours are unwanted or impossible.
    pub(super) is_plain: bool,
}

impl Environment {
    /// Reads the process's environment. An empty variable counts as unset.
    pub(super) fn read() -> Self {
        let has_home = var("HOME").is_some() || var("XDG_DATA_HOME").is_some();
        let (data_dir, config_dir) = match var("ANVIL_HOME") {
            Some(home) => {
                let home = absolute(PathBuf::from(home));
                (Some(home.join("data")), Some(home.join("config")))
            }
            None => {
                let own = |dir: PathBuf| dir.join("anvil");
                let data_dir = dirs::data_dir().filter(|_| has_home).map(own);
                (data_dir, dirs::config_dir().map(own))
            }
        };
        Self {
            log: var("ANVIL_LOG"),
            own_dirs: data_dir.iter().chain(&config_dir).cloned().collect(),
            data_dir,
            config_dir,
            is_plain: var("NO_COLOR").is_some() || var("TERM").as_deref() == Some("dumb"),
        }
    }
}

/// The path as seen from the folder anvil was started in, whatever becomes of that folder.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// A variable of the process; an empty one counts as unset.
pub(super) fn var(name: &str) -> Option<String> {
    let value = env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}
