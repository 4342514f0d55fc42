//! Runs a case in a process of its own: as an ordinary user where root would prove nothing, or alone
//! where its memory is measured.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::scratch;

/// Names the file with the one case that a process is for.
const ONE_CASE: &str = "ANVIL_TEST_ONE_CASE";

/// Somebody who owns nothing.
const NOBODY: &str = "65534";

/// Who runs a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum User {
    Same,
    Ordinary,
}

/// Whether this process is root, whom permission bits do not stop.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The case that this process is for, if it is for one only.
pub(super) fn own_case() -> Option<Value> {
    let file = PathBuf::from(std::env::var_os(ONE_CASE)?);
    Some(serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap())
}

/// Runs the test called `test` again for `case` alone.
pub(super) fn run_alone(case: &Value, test: &str, user: User) -> Result<(), String> {
    let dir = scratch();
    let file = dir.path().join("case.json");
    fs::write(&file, case.to_string()).unwrap();
    let own = std::env::current_exe().unwrap();
    let mut command = match user {
        User::Same => Command::new(own),
        User::Ordinary => {
            // The build folder may be closed to others.
            let copy = dir.path().join("cases");
            // By another program: a file that this one has written cannot be run while a child that another
            // case starts at this moment has it open.
            assert!(Command::new("cp").arg(own).arg(&copy).status().unwrap().success());
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(copy);
            command
        }
    };
    let output = command.args(["--exact", test, "--nocapture"]).env(ONE_CASE, &file).output();
    let output = output.map_err(|error| {
        format!(
            "no process for it ({error}): setpriv of util-linux is needed when tests run as root"
        )
    })?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() && said.contains("1 passed") {
        Ok(())
    } else {
        Err(format!("in a process of its own: {said}"))
    }
}
