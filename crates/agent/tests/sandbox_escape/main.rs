//! Attacks on the sandbox, made by the real bash tool and the real file tools, and watched from outside.
//!
//! Each attack has a control: the same command succeeds where it is allowed. An attack that fails because
//! a program is missing would pass for one that was held off.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set fails")]

mod attacks;
mod elsewhere;
mod files;
mod landlock;
mod stage;

use agent::tool::{GrantedPath, Grants};
use stage::{Stage, output};

#[test]
fn a_command_writes_the_workspace_and_not_the_home() {
    let stage = Stage::new();
    let said = stage.confined("touch ~/anvil_escape; echo $?; touch ./ok; echo $?");
    assert_eq!(output(&said), "1\n0\n");
    assert!(!stage.home().join("anvil_escape").exists());
    assert!(stage.workspace().join("ok").exists());
    stage.unconfined("touch ~/anvil_escape");
    assert!(stage.home().join("anvil_escape").exists());
}

#[test]
fn keys_in_the_home_are_not_there() {
    let stage = Stage::new();
    stage.write_home(".ssh/id_ed25519", "PRIVATE");
    stage.write_home(".aws/credentials", "PRIVATE");
    let command = "cat ~/.ssh/id_* ~/.aws/credentials; ls -A ~";
    let said = stage.confined(command);
    assert!(!said.contains("PRIVATE") && output(&said) == "project\n", "{said}");
    assert!(stage.unconfined(command).contains("PRIVATE"));
}

#[test]
fn a_link_does_not_get_around_it() {
    let stage = Stage::new();
    let command = "ln -s ~ link && touch link/escape; echo $?";
    assert_eq!(output(&stage.confined(command)), "1\n");
    assert!(!stage.home().join("escape").exists());
    stage.unconfined("touch link/escape");
    assert!(stage.home().join("escape").exists());
}

#[test]
fn no_host_is_reached_unless_the_network_is_open() {
    let stage = Stage::new();
    let (port, visitors) = stage.listen();
    let command = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo rc=$?");
    assert!(!stage.confined(&command).contains("rc=0"));
    assert_eq!(visitors(), 0);
    assert!(stage.with_network(&command).contains("rc=0"));
    assert!(stage.granted_network(&command).contains("rc=0"));
    assert_eq!(visitors(), 2);
    // What was granted once is not granted again.
    assert!(!stage.confined(&command).contains("rc=0"));
}

#[test]
fn nothing_is_written_where_reading_is_all_that_is_allowed() {
    let stage = Stage::new();
    let said = stage.read_only("touch ./x; echo $?; echo t > /tmp/t && cat /tmp/t");
    assert_eq!(output(&said), "1\nt\n");
    assert!(!stage.workspace().join("x").exists());
}

#[test]
fn a_sandbox_leaves_the_tree_as_it_was() {
    for kind in ["plain", "repository", "worktree", "submodule", "linked .git"] {
        let stage = Stage::new();
        stage.make(kind);
        let before = stage.listing();
        let said = stage.confined("true");
        assert!(said.starts_with("Exit code: 0"), "{kind}: {said}");
        assert_eq!(stage.listing(), before, "{kind}");
    }
}

#[test]
fn a_granted_path_is_open_to_one_command_as_far_as_it_was_granted() {
    let stage = Stage::new();
    stage.write_home("notes/a.txt", "text");
    let command = "cat ~/notes/a.txt; touch ~/notes/new; echo $?";
    let grant = |write| Grants {
        paths: vec![GrantedPath { path: stage.home().join("notes"), write }],
        ..Grants::default()
    };
    assert_eq!(output(&stage.granted(command, grant(false))), "text1\n");
    assert_eq!(output(&stage.granted(command, grant(true))), "text0\n");
    let missing = GrantedPath { path: stage.home().join("missing"), write: true };
    let grants = Grants { paths: vec![missing], ..Grants::default() };
    let said = stage.granted("echo x > ~/missing", grants);
    assert!(said.contains("missing was not there") && said.contains("--add-dir"), "{said}");
    assert_eq!(output(&stage.confined(command)), "1\n");
}
