//! What Landlock promises to hold, and that nothing runs where it cannot.

use std::fs;
use std::os::unix::net::{UnixDatagram, UnixListener};

use agent::permissions::Confinement;
use agent::sandbox::{Backend, Layout, Sandbox, SandboxPolicy, probe_landlock};
use agent::tool::{GrantedPath, Grants};

use crate::attacks::{check, check_as_root, system_call};
use crate::stage::{Stage, output};

/// A stage where attacks can be made. Where the kernel has no Landlock, none: then no command runs, which is
/// what is seen to here.
fn stage() -> Option<Stage> {
    let stage = Stage::by_landlock();
    let Some(problem) = probe_landlock().problem else { return Some(stage) };
    let said = stage.confined("touch here");
    assert!(said.contains("no command can run") && said.contains(&problem.what), "{said}");
    assert!(!stage.workspace().join("here").exists());
    eprintln!("SKIPPED, since Landlock does not work here: {}; {}", problem.what, problem.remedy);
    None
}

#[test]
fn a_command_writes_the_workspace_and_not_the_home() {
    let Some(stage) = stage() else { return };
    let command = "touch ~/escape; echo $?; touch ./ok; echo $?; mkdir d && echo t > d/f && mv d/f g && cat g";
    assert_eq!(output(&stage.confined(command)), "1\n0\nt\n");
    assert!(!stage.home().join("escape").exists() && stage.workspace().join("ok").exists());
    check(&stage, "echo t > ~/x && echo written", "written");
    check(&stage, "echo t > ../x && echo written", "written");
    check(&stage, "ln -sfn ~ link && echo t > link/x && echo written", "written");
    check(&stage, "mv ok ~/moved && echo written; mv ~/moved ok", "written");
    check(&stage, "truncate -s 0 ~/x && echo written", "written");
    check(&stage, "ln ~/x hard && echo written; rm -f hard", "written");
}

#[test]
fn programs_are_built_and_run() {
    let Some(stage) = stage() else { return };
    stage.make("repository");
    stage.write("src/a.c", "int main(void) { return 7; }");
    let said = stage.confined("cc -o src/a src/a.c && src/a; echo $?; git status --short");
    assert_eq!(output(&said), "7\n?? src/\n", "{said}");
}

#[test]
fn keys_and_credentials_are_not_read() {
    let Some(stage) = stage() else { return };
    stage.write_home(".ssh/id_ed25519", "PRIVATE");
    stage.write(".env", "PRIVATE");
    stage.write("sub/deep/.env", "PRIVATE");
    stage.write("sub/open.txt", "open");
    for attack in [
        "cat ~/.ssh/id_*",
        "cat .env",
        "cat sub/deep/.env",
        "cat sub/../.env /proc/self/cwd/.env",
        "mkdir -p src; ln .env src/a; cat src/a; rm -f src/a",
        "mkdir -p src; mv sub/deep src/ && cat src/deep/.env; mv src/deep sub/",
    ] {
        check(&stage, attack, "PRIVATE");
    }
    check(&stage, "ls ~ && echo listed", "listed");
    assert_eq!(output(&stage.confined("cat sub/open.txt")), "open");
    check_as_root(&stage, "head -c 4 /etc/shadow >/dev/null && echo read", "read");
    check(&stage, "grep -qz . /proc/$PPID/environ && echo read", "read");
    // The first user reads it, and more, by a capability alone.
    assert!(stage.confined("cat /proc/self/status").contains("CapEff:\t0000000000000000"));
}

#[test]
fn what_has_authority_is_neither_written_nor_replaced() {
    let Some(stage) = stage() else { return };
    stage.make("repository");
    stage.write("a/b/.git/config", "[core]\n");
    stage.write("a/b/src/lib.rs", "");
    for attack in [
        "touch .git/hooks/x && echo changed",
        "echo >> .git/config && echo changed",
        "mv .git g && echo changed && mv g .git",
        "mkdir -p a/b/src; mv .git a/b/src/ && echo changed && mv a/b/src/.git .",
        "touch a/b/.git/x && echo changed",
        "mv a/b c && echo changed && mv c a/b",
        "mv a c && echo changed && mv c a",
        "mkdir .anvil && echo changed; rm -rf .anvil",
        "ln .git/config a/b/src/c && echo changed; rm -f a/b/src/c",
    ] {
        check(&stage, attack, "changed");
    }
    // What holds nothing of the kind can be changed as ever, and files where they are.
    stage.write("top.txt", "");
    let said = stage.confined(
        "echo t > a/b/src/new && mkdir a/b/src/d && rm -r a/b/src/d && echo t > top.txt; echo $?; touch fresh",
    );
    assert_eq!(output(&said), "0\n", "{said}");
    assert!(said.contains("Perhaps the sandbox held it back"), "{said}");
}

#[test]
fn authority_that_appears_is_moved_away() {
    let Some(stage) = stage() else { return };
    let said = stage.confined("git init -q . && echo made");
    assert!(said.contains("which only the user may") && output(&said).contains("made"), "{said}");
    assert!(!stage.workspace().join(".git").exists());
}

#[test]
fn no_socket_leads_out_unless_the_network_is_open() {
    let Some(stage) = stage() else { return };
    let (port, visitors) = stage.listen();
    let command = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo rc=$?");
    check(&stage, &command, "rc=0");
    assert_eq!(visitors(), 1, "the control");
    assert!(stage.with_network(&command).contains("rc=0"));
    assert!(stage.granted_network(&command).contains("rc=0"));
    let datagram = "/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print(\"let through\")'";
    check(&stage, datagram, "let through");
    let said = stage.with_network(datagram);
    assert!(said.contains("let through"), "{said}");
}

#[test]
fn daemons_of_the_machine_are_not_reached_even_with_the_network() {
    let Some(stage) = stage() else { return };
    let path = stage.beside("daemon.sock");
    let _daemon = UnixListener::bind(&path).unwrap();
    let attack = format!(
        "/usr/bin/python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"{}\"); print(\"reached\")'",
        path.display()
    );
    check(&stage, &attack, "reached");
    assert!(!output(&stage.with_network(&attack)).contains("reached"));
    let path = stage.beside("datagram.sock");
    let _daemon = UnixDatagram::bind(&path).unwrap();
    let attack = format!(
        "/usr/bin/python3 -c 'import socket; s,_=socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); \
         s.sendto(b\"x\", \"{}\"); print(\"reached\")'",
        path.display()
    );
    check(&stage, &attack, "reached");
    // Pairs of one's own are what runtimes are made with.
    let pair = "/usr/bin/python3 -c 'import socket; socket.socketpair(); print(\"made\")'";
    let said = stage.confined(pair);
    assert_eq!(output(&said), "made\n", "{said}");
}

#[test]
fn other_processes_are_left_alone() {
    let Some(stage) = stage() else { return };
    if probe_landlock().version >= Some(6) {
        check(&stage, "kill -0 $PPID && echo signalled", "signalled");
    } else {
        eprintln!("SKIPPED: this version of Landlock holds no signals, and does not promise to");
    }
    check(&stage, "prlimit --pid $PPID --core=0:0 && echo limited", "limited");
    check(&stage, "chown $(id -u) . && echo owned", "owned");
    // ptrace, of the process that started it.
    let attack = system_call(101, "16,0,0,0").replace("python3", "/usr/bin/python3");
    check(&stage, &attack, "let through");
}

#[test]
fn temporary_files_are_each_commands_own_and_go_with_it() {
    let Some(stage) = stage() else { return };
    let said = stage.confined("f=$(mktemp) && echo t > $f && cat $f; echo $TMPDIR");
    let (text, dir) = output(&said).trim_end().split_once('\n').unwrap();
    assert_eq!(text, "t");
    assert!(fs::metadata(dir).is_err(), "{dir} is still there");
    check(&stage, "f=$(mktemp -p /tmp) && echo written && rm $f", "written");
}

#[test]
fn nothing_is_written_where_reading_is_all_that_is_allowed() {
    let Some(stage) = stage() else { return };
    let said = stage.read_only("touch ./x; echo $?; echo t > $TMPDIR/t && cat $TMPDIR/t");
    assert_eq!(output(&said), "1\nt\n");
}

#[test]
fn a_granted_path_is_open_to_one_command_as_far_as_it_was_granted() {
    let Some(stage) = stage() else { return };
    stage.write_home("notes/a.txt", "text");
    let command = "cat ~/notes/a.txt; rm -f ~/notes/new; echo t > ~/notes/new; echo $?";
    let grant = |write| Grants {
        paths: vec![GrantedPath { path: stage.home().join("notes"), write }],
        ..Grants::default()
    };
    assert_eq!(output(&stage.granted(command, grant(false))), "text1\n");
    assert_eq!(output(&stage.granted(command, grant(true))), "text0\n");
    assert_eq!(output(&stage.confined(command)), "1\n");
}

#[test]
fn it_does_not_count_as_enough_to_run_commands_unasked_and_says_what_it_does_not_hold() {
    let dir = tempfile::tempdir().unwrap();
    let held = |policy| Sandbox::new(policy, Layout::workspace(dir.path())).by(Backend::Landlock);
    let sandbox = held(SandboxPolicy::WorkspaceWrite { network: false });
    let promise = sandbox.promise().unwrap();
    if probe_landlock().problem.is_some() {
        assert_eq!(sandbox.confinement(), Confinement::None);
        assert!(promise.starts_with("no command can run: "), "{promise}");
    } else {
        assert_eq!(sandbox.confinement(), Confinement::Partial);
        assert!(
            promise.contains("less than bubblewrap") && promise.contains("Not held:"),
            "{promise}"
        );
    }
    assert_eq!(held(SandboxPolicy::FullAccess).promise(), None);
    assert_eq!(held(SandboxPolicy::External).confinement(), Confinement::External);
}
