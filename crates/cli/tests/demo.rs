//! `anvil demo` on a bare machine.

mod support;

use std::os::unix::fs::PermissionsExt as _;

use support::{Home, run};

#[test]
fn the_demo_repairs_a_project_without_key_or_network() {
    let home = Home::new();
    let ran = run(home.anvil().arg("demo"));
    ran.assert_code(0);
    let order = [
        "A small project with a failing test",
        "⏺ bash(command=sh test.sh)",
        "FAIL",
        "⏺ edit_file(",
        "-while IFS=, read -r item price count; do",
        "+while IFS=, read -r item price count || [ -n \"$item\" ]; do",
        "ok    no line end after the last line",
        "The project's test passes.",
        "What was real",
        "What was scripted",
        "ANTHROPIC_API_KEY",
    ];
    let mut rest = ran.out.as_str();
    for part in order {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} in {rest}"));
        rest = &rest[at + part.len()..];
    }
    assert!(!ran.out.contains('\x1b'), "colours are for terminals");
    assert_eq!(ran.err, "");
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let home = Home::new();
    let temp = home.work();
    run(home.anvil().arg("demo").env("TMPDIR", &temp)).assert_code(0);
    assert_eq!(std::fs::read_dir(temp).unwrap().count(), 0);
}

#[test]
fn the_demo_needs_no_home_that_can_be_written() {
    let home = Home::new();
    // No folder can be made below a file, whoever tries.
    home.write("file", "");
    let nowhere = home.work().join("file/home");
    let mut command = home.anvil();
    command.arg("demo").env("HOME", nowhere).env_remove("ANVIL_HOME");
    run(&mut command).assert_code(0);
    run(home.anvil().arg("demo").env_remove("HOME").env_remove("ANVIL_HOME")).assert_code(0);
}

#[test]
fn a_demo_whose_test_does_not_pass_in_the_end_is_no_success() {
    // A `sh` that fails whatever it runs: the tool's commands and the last test alike.
    let home = Home::new();
    let bin = home.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let fake = bin.join("sh");
    std::fs::write(&fake, "#!/bin/bash\necho broken\nexit 3\n").unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let ran = run(home.anvil().arg("demo").env("PATH", path));
    ran.assert_code(1);
    assert!(
        ran.out.contains("The demo did not work") && ran.out.contains("ends with 3"),
        "{ran:?}"
    );
}

#[test]
fn a_demo_without_a_place_for_its_project_says_so() {
    let home = Home::new();
    let ran = run(home.anvil().arg("demo").env("TMPDIR", home.work().join("nowhere")));
    ran.assert_code(78);
    assert!(ran.err.contains("temporary folder"), "{ran:?}");
}
