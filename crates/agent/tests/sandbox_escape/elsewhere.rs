//! The same where things are different: for an ordinary user, and where no sandbox can be made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::Stage;

/// Set inside a sandbox, where there cannot be a further one.
const NESTED: &str = "ANVIL_TEST_NESTED";

/// A copy of this program that everybody may run.
fn copy_to(dir: &Path) -> PathBuf {
    let copy = dir.join("sandbox_escape");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

#[test]
fn every_attack_fails_for_an_ordinary_user_too() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("this run is an ordinary user's, and stands for itself");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let scratch = dir.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    fs::set_permissions(&scratch, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(copy_to(dir.path()))
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &scratch)
        .env("TMPDIR", &scratch)
        .current_dir(&scratch)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let failed = said.split("failures:").nth(1).unwrap_or(&said);
    assert!(ran.status.success() && said.contains(" passed; 0 failed"), "{failed}");
    assert!(said.contains("attacks::nothing_is_mounted_anew ... ok"), "{said}");
}

#[test]
fn where_no_sandbox_can_be_made_nothing_runs() {
    if let Some(folder) = std::env::var_os(NESTED) {
        let problem = agent::sandbox::probe().problem.expect("there is no sandbox in a sandbox");
        assert!(problem.remedy.contains("--sandbox external"), "{problem:?}");
        let said = Stage::unchecked(Path::new(&folder)).confined("touch ran");
        assert!(said.starts_with("no command can run, since none can be confined"), "{said}");
        assert!(said.contains("This is for the user to mend, not for you"), "{said}");
        return;
    }
    let stage = Stage::new();
    let copy = copy_to(&stage.workspace());
    let inner = stage.workspace().join("inner");
    fs::create_dir_all(inner.join("home/project")).unwrap();
    let command = format!(
        "{NESTED}={} {} --exact elsewhere::where_no_sandbox_can_be_made_nothing_runs",
        inner.display(),
        copy.display()
    );
    let said = stage.confined(&command);
    assert!(said.contains("1 passed; 0 failed"), "{said}");
    assert!(!inner.join("home/project/ran").exists());
}
