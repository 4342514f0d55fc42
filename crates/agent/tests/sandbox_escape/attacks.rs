//! What was tried elsewhere and worked, and what the kernel lets through when nobody thinks of it.

use std::fs;
use std::os::unix::net::UnixListener;

use crate::stage::{Stage, output};

/// An attack that prints `mark` where it succeeds: it must without a sandbox, and must not in one.
#[track_caller]
pub(crate) fn check(stage: &Stage, attack: &str, mark: &str) {
    let said = stage.confined(attack);
    assert!(said.starts_with("Exit code: "), "it did not run: {said}");
    assert!(!output(&said).contains(mark), "{said}");
    let control = stage.unconfined(attack);
    assert!(output(&control).contains(mark), "the control failed: {control}");
}

/// The same for attacks that only the first user can make at all.
#[track_caller]
pub(crate) fn check_as_root(stage: &Stage, attack: &str, mark: &str) {
    if rustix::process::geteuid().is_root() {
        check(stage, attack, mark);
    } else {
        assert!(!output(&stage.confined(attack)).contains(mark));
    }
}

/// A few lines of Python that make a system call and print what became of it.
pub(crate) fn system_call(number: u64, arguments: &str) -> String {
    format!(
        "python3 -c 'import ctypes,errno; l=ctypes.CDLL(None,use_errno=True); r=l.syscall({number},{arguments}); \
         e=ctypes.get_errno(); print(\"refused\" if r<0 and e==errno.EPERM else \"let through\")'"
    )
}

#[test]
fn an_outer_folder_of_a_protected_one_cannot_be_renamed() {
    let stage = Stage::new();
    stage.write("a/b/.git/config", "[core]\n");
    check(
        &stage,
        "mv a/b c && mkdir -p a/b/.git/hooks && echo x > a/b/.git/hooks/pre-commit && echo replaced; \
         [ -e c ] && { rm -rf a/b; mv c a/b; }",
        "replaced",
    );
    check(&stage, "mv a c && echo renamed && mv c a", "renamed");
    assert_eq!(fs::read_to_string(stage.workspace().join("a/b/.git/config")).unwrap(), "[core]\n");
}

#[test]
fn a_protected_folder_is_neither_written_nor_removed() {
    let stage = Stage::new();
    stage.make("repository");
    let attack = "touch .git/hooks/x && echo written; mv .git g && echo moved && mv g .git; \
                  rm -rf .git/hooks; [ -e .git/hooks ] || echo removed";
    for mark in ["written", "moved", "removed"] {
        stage.write(".git/hooks/pre-push.sample", "");
        let said = stage.confined(attack);
        assert!(!output(&said).contains(mark), "{said}");
    }
    let control = stage.unconfined(attack);
    assert_eq!(output(&control), "written\nmoved\nremoved\n");
}

#[test]
fn a_linked_worktree_is_protected_wherever_its_parts_lie() {
    let stage = Stage::new();
    stage.make("worktree");
    let attack = "d=$(git rev-parse --git-dir); c=$(git rev-parse --git-common-dir); \
                  for p in $d/config.worktree $c/hooks/post-checkout $c/config; do (echo >> $p) && echo written; done; \
                  cp .git g && mv g .git && echo replaced";
    let said = stage.confined(attack);
    assert_eq!(output(&said), "", "{said}");
    assert_eq!(output(&stage.unconfined(attack)), "written\nwritten\nwritten\nreplaced\n");
}

#[test]
fn git_works_in_a_work_tree_whose_repository_lies_elsewhere() {
    let stage = Stage::new();
    stage.make("worktree");
    let other = stage.beside("other");
    fs::write(&other, "of the other work tree").unwrap();
    let said = stage.confined(&format!(
        "git rev-parse --is-inside-work-tree && git status --short && git log --format=%s -1; \
         cat {}",
        other.display()
    ));
    assert_eq!(output(&said), "true\nfirst\n", "{said}");
}

#[test]
fn a_file_that_calls_itself_a_link_to_a_repository_shows_no_folder() {
    let stage = Stage::new();
    stage.write_home("private/note", "secret");
    stage.write_home("private/HEAD", "secret");
    let private = stage.home().join("private");
    stage.write(".git", &format!("gitdir: {}\n", private.display()));
    let read = "cat ~/private/note";
    assert!(!stage.confined(read).contains("secret"));
    // Nor by way of one in the workspace that names it as what it shares.
    stage.write(".git", "gitdir: own\n");
    stage.write("own/gitdir", &format!("{}\n", stage.workspace().join(".git").display()));
    stage.write("own/commondir", &format!("{}\n", private.display()));
    assert!(!stage.confined(read).contains("secret"));
    assert!(stage.unconfined(read).contains("secret"));
}

#[test]
fn a_link_in_the_place_of_authority_leads_where_it_led() {
    let stage = Stage::new();
    stage.write("sub/config.toml", "real");
    std::os::unix::fs::symlink("sub", stage.workspace().join(".anvil")).unwrap();
    let attack = "echo x > sub/config.toml && echo through; rm .anvil; mkdir .anvil; echo own > .anvil/config.toml";
    let said = stage.confined(attack);
    assert!(!output(&said).contains("through"), "{said}");
    assert!(said.contains("is the link again that it was."), "{said}");
    let config = stage.workspace().join(".anvil/config.toml");
    assert_eq!(fs::read_to_string(&config).unwrap(), "real");
    stage.unconfined(attack);
    assert_eq!(fs::read_to_string(&config).unwrap(), "own\n");
}

#[test]
fn a_repository_that_a_command_makes_has_no_effect() {
    for attack in ["git init -q .", "git init -q --bare x; mv x/* .; rmdir x"] {
        let stage = Stage::new();
        let is_repository = || {
            let asked = stage
                .unconfined("GIT_CEILING_DIRECTORIES=$HOME git rev-parse --git-dir && echo yes");
            output(&asked).contains("yes")
        };
        let said = stage.confined(attack);
        assert!(said.contains("is not in effect."), "{attack}: {said}");
        assert!(!is_repository(), "{attack}");
        // What was made is kept.
        assert!(stage.listing().contains("hooks"), "{attack}");
        stage.unconfined(attack);
        assert!(is_repository(), "the control failed: {attack}");
    }
}

#[test]
fn nothing_is_mounted_anew() {
    let stage = Stage::new();
    check(&stage, "mkdir m; unshare -Urm mount -t tmpfs none m && echo mounted", "mounted");
    let said =
        stage.confined("mount -o remount,rw,bind /; touch /usr/anvil-escape && echo written");
    assert_eq!(output(&said), "");
    assert!(!std::path::Path::new("/usr/anvil-escape").exists());
}

#[test]
fn no_sandbox_is_made_inside_a_sandbox() {
    let stage = Stage::new();
    check(&stage, "bwrap --ro-bind / / true && echo nested", "nested");
}

#[test]
fn no_device_is_made() {
    let stage = Stage::new();
    check_as_root(&stage, "mknod d b 254 0 && echo made; rm -f d", "made");
}

#[test]
fn no_file_gets_the_rights_of_its_owner() {
    let stage = Stage::new();
    let python = "python3 -c 'import os; os.close(os.open(\"s\", os.O_CREAT|os.O_WRONLY, 0o4755))'";
    check(&stage, "cp /bin/true x; chmod u+s x; [ -u x ] && echo set; rm x", "set");
    check(&stage, &format!("{python}; [ -u s ] && echo set; rm -f s"), "set");
}

#[test]
fn a_hidden_file_is_not_reached_by_another_way() {
    let stage = Stage::new();
    stage.write_home("secret", "PRIVATE");
    stage.write(".env", "PRIVATE");
    for way in [
        "cat /proc/self/root$HOME/secret",
        "cat /proc/1/root$HOME/secret; cat $HOME/secret",
        "cat .env",
        "cp .env copy && cat copy",
        "ln .env copy && cat copy; cat .env",
        "mv .env moved; cat moved .env",
        "python3 -c 'print(open(\".env\").read())'",
        "grep -r PRIVATE .",
    ] {
        stage.unconfined("rm -f copy; [ ! -e moved ] || mv moved .env");
        check(&stage, way, "PRIVATE");
    }
}

#[test]
fn the_socket_of_a_daemon_is_out_of_reach_even_with_the_network() {
    let stage = Stage::new();
    let run = std::path::Path::new("/run/anvil-test-docker.sock");
    let mut sockets = vec![stage.home().join("docker.sock"), stage.beside("agent.sock")];
    if rustix::process::geteuid().is_root() {
        sockets.push(run.to_owned());
    }
    for socket in sockets {
        let listener = UnixListener::bind(&socket).unwrap();
        let attack = format!(
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\"); print(\"connected\")'",
            socket.display()
        );
        check(&stage, &attack, "connected");
        assert!(!output(&stage.with_network(&attack)).contains("connected"));
        drop(listener);
        fs::remove_file(&socket).unwrap();
    }
}

#[test]
fn the_wrapper_tells_nothing_about_the_environment() {
    let stage = Stage::new();
    let said = stage.confined("cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -c SESSION_ID; tr '\\0' '\\n' < /proc/1/environ");
    let lines: Vec<&str> = output(&said).lines().collect();
    assert!(lines[0].parse::<u32>().is_ok_and(|count| count > 0), "the control failed: {said}");
    assert!(lines[1..].iter().all(|line| line.starts_with("ANVIL_CALL_ID=")), "{said}");
}

#[test]
fn no_process_outside_is_seen() {
    let stage = Stage::new();
    let own = std::env::current_exe().unwrap();
    let (id, name) = (std::process::id(), own.file_name().unwrap().to_str().unwrap());
    check(&stage, &format!("grep -q {name} /proc/{id}/cmdline && echo seen"), "seen");
}

#[test]
fn calls_that_reach_around_namespaces_are_refused() {
    let stage = Stage::new();
    let io_uring = system_call(425, "1,0");
    check(&stage, &io_uring, "let through");
    let keyctl = system_call(if cfg!(target_arch = "x86_64") { 250 } else { 219 }, "0,-3,0");
    check(&stage, &keyctl, "let through");
    let socket = if cfg!(target_arch = "x86_64") { 41 } else { 198 };
    // The kernel's ciphers, the machine around a virtual one, the kernel's announcements.
    for arguments in ["38,5,0", "40,1,0", "16,3,15"] {
        check(&stage, &system_call(socket, arguments), "let through");
    }
    // A program may ask for its own addresses.
    assert!(stage.confined(&system_call(socket, "16,3,0")).contains("let through"));
    // Typing into a terminal is refused before it is found that there is none.
    let typing = "python3 -c 'import fcntl; fcntl.ioctl(0,0x5412,b\"x\")'";
    assert!(stage.confined(typing).contains("Operation not permitted"));
    assert!(stage.unconfined(typing).contains("Inappropriate ioctl"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn programs_with_other_numbers_for_the_same_calls_get_nowhere() {
    let stage = Stage::new();
    // getpid of x32; this kernel may not have it at all, but then says so.
    check(&stage, &system_call(0x4000_0000 + 39, "0"), "let through");
}

#[test]
fn the_kernels_settings_and_the_machines_files_stay_as_they_are() {
    let stage = Stage::new();
    let same =
        "h=$(cat /proc/sys/kernel/hostname); echo $h > /proc/sys/kernel/hostname && echo written";
    check_as_root(&stage, same, "written");
    for dir in
        ["/", "/etc", "/usr", "/var/lib", "/var/log", "/sys", "/dev", "/proc", "/opt", "/run/.."]
    {
        let said = stage.confined(&format!("touch {dir}/anvil-escape && echo written"));
        assert_eq!(output(&said), "", "{dir}");
    }
    // The same words where it is allowed.
    assert_eq!(output(&stage.confined("touch ./anvil-escape && echo written")), "written\n");
}

#[test]
fn passwords_of_the_machine_are_not_read() {
    let stage = Stage::new();
    check_as_root(&stage, "cat /etc/shadow | grep -q root && echo read", "read");
}

#[test]
fn a_workspace_has_whatever_name_it_has() {
    for name in ["with space", "quote'\"", "line\nbreak", "-dash", "ünïcode", "$(touch x)"] {
        let stage = Stage::in_folder(name);
        stage.write("a/.git/config", "");
        let said = stage.confined("touch ok && touch a/.git/x; cat ok && pwd");
        assert!(said.starts_with("Exit code: 0"), "{name:?}: {said}");
        assert!(
            stage.workspace().join("ok").exists() && !stage.workspace().join("a/.git/x").exists()
        );
    }
}

#[test]
fn temporary_files_are_private_and_gone_afterwards() {
    let stage = Stage::new();
    let said =
        stage.confined("echo x > /tmp/anvil-t; echo $TMPDIR; mktemp -d; ls -A /tmp /var/tmp /run");
    assert!(output(&said).starts_with("/tmp\n/tmp/tmp."), "{said}");
    let said = stage.confined("ls /tmp/anvil-t && echo there");
    assert!(!output(&said).contains("there"));
}

#[test]
fn a_fresh_folder_in_memory_has_a_limit() {
    let stage = Stage::new();
    let said = stage.confined("df -k --output=size /dev/shm /run | tail -n 2 | tr -d ' '");
    assert_eq!(output(&said), "524288\n65536\n");
}

#[test]
fn commands_side_by_side_do_not_disturb_each_other() {
    let stage = Stage::new();
    stage.write(".git/config", "");
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|n| {
                let stage = &stage;
                scope.spawn(move || stage.confined(&format!("echo {n} > f{n}; ls .git; cat f{n}")))
            })
            .collect();
        for (n, run) in runs.into_iter().enumerate() {
            assert_eq!(output(&run.join().unwrap()), format!("config\n{n}\n"));
        }
    });
}

#[test]
fn a_workspace_of_another_user_is_told_as_such() {
    let stage = Stage::new();
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can have the workspace of another user");
        return;
    }
    std::os::unix::fs::chown(stage.workspace(), Some(65534), Some(65534)).unwrap();
    let said = stage.confined("touch x");
    assert!(said.contains("The workspace belongs to another user"), "{said}");
    assert!(said.contains("Permission denied") && !stage.workspace().join("x").exists());
    assert!(stage.unconfined("touch x").starts_with("Exit code: 0"));
}
