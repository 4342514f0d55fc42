//! Which calls a rule means: commands and their parts, paths, tools of servers; and which rule outweighs
//! which.

use agent::PermissionMode::{AcceptEdits, Auto, Bypass, Default as Standard};
use agent::permissions::Confinement;

use super::Verdict::{Allow, Ask, Deny};
use super::rows::{Row, check};

#[test]
fn a_prefix_covers_whole_words_of_plain_commands() {
    const RULES: &[&str] =
        &["allow bash(cargo test:*)", "allow bash(grep:*)", "allow bash(make lint)"];
    check(
        Standard,
        Confinement::Workspace,
        RULES,
        &[
            ("bash", "cargo test", Allow, "bash(cargo test:*)"),
            ("bash", "cargo test --lib", Allow, "bash(cargo test:*)"),
            ("bash", "  cargo   test  ", Allow, "bash(cargo test:*)"),
            ("bash", "cargo test \\\n  --lib", Allow, "bash(cargo test:*)"),
            ("bash", "cargo 'test' \"--lib\"", Allow, "bash(cargo test:*)"),
            ("bash", "cargo test 2>&1", Allow, "bash(cargo test:*)"),
            ("bash", "cargo test 2>/dev/null", Allow, "bash(cargo test:*)"),
            ("bash", "cargo test | grep FAILED", Allow, "bash(grep:*)"),
            ("bash", "cargo test && cargo test --doc", Allow, "bash(cargo test:*)"),
            ("bash", "cargo test | cat", Allow, "bash(cargo test:*)"),
            ("bash", "/usr/bin/cargo test", Allow, "bash(cargo test:*)"),
            ("bash", "make lint", Allow, "bash(make lint)"),
            ("bash", "make lint FIX=1", Ask, "no rule allows"),
            ("bash", "cargo testx", Ask, "no rule allows"),
            ("bash", "cargo test-all", Ask, "no rule allows"),
            ("bash", "cargo", Ask, "no rule allows"),
            ("bash", "cargo --config x test", Ask, "no rule allows"),
            ("bash", "./cargo test", Ask, "no rule allows"),
            ("bash", "/proc/self/root/usr/bin/cargo test", Ask, "no rule allows"),
            ("bash", "{WS}/cargo test", Ask, "no rule allows"),
            ("bash", "CARGO TEST", Ask, "no rule allows"),
            ("bash", "cargo test; rm x", Ask, "no rule allows 'rm x'"),
            ("bash", "cargo test & rm x", Ask, "left to the shell"),
            ("bash", "cargo test | sh", Ask, "decided while it runs"),
            ("bash", "cargo test\nrm x", Ask, "no rule allows 'rm x'"),
            ("bash", "cargo test\r\nrm x", Ask, "left to the shell"),
            ("bash", "cargo test $(rm x)", Ask, "left to the shell"),
            ("bash", "cargo test `rm x`", Ask, "left to the shell"),
            ("bash", "cargo test <(rm x)", Ask, "left to the shell"),
            ("bash", "cargo test ${X@P}", Ask, "left to the shell"),
            ("bash", "cargo te$X", Ask, "left to the shell"),
            ("bash", "cargo test *", Ask, "left to the shell"),
            ("bash", "cargo test {a,b}", Ask, "left to the shell"),
            ("bash", "cargo test ~", Ask, "left to the shell"),
            ("bash", "cargo test <<E\nx\nE", Ask, "left to the shell"),
            ("bash", "(cargo test)", Ask, "left to the shell"),
            ("bash", "if cargo test; then ls; fi", Ask, "left to the shell"),
            ("bash", "cargo() { rm x; }; cargo test", Ask, "left to the shell"),
            ("bash", "PATH=. cargo test", Ask, "left to the shell"),
            ("bash", "LD_PRELOAD=./x.so cargo test", Ask, "left to the shell"),
            ("bash", "cargo test > log", Ask, "a redirection writes log"),
            ("bash", "cargo test 2> log", Ask, "a redirection writes log"),
            ("bash", "cargo test >> log", Ask, "a redirection writes log"),
            ("bash", "grep x < notes", Allow, "bash(grep:*)"),
            ("bash", "grep x < /etc/shadow", Ask, "a redirection reads /etc/shadow"),
            ("bash", "", Ask, "left to the shell"),
            ("bash", "   ", Ask, "left to the shell"),
            ("bash", "# cargo test", Ask, "left to the shell"),
            ("bash", "&& cargo test", Ask, "left to the shell"),
            ("bash", "cargo test |", Ask, "left to the shell"),
            ("bash", "cargo test 'x", Ask, "left to the shell"),
            ("bash", "cargo\u{200b} test", Ask, "left to the shell"),
            ("bash", "cargo\u{a0}test", Ask, "left to the shell"),
            ("bash", "cargo test \u{1b}[2K", Ask, "left to the shell"),
            ("bash", "timeout 5 cargo test", Ask, "no rule allows"),
            ("bash", "env cargo test", Ask, "no rule allows"),
        ],
    );
}

#[test]
fn a_program_that_anybody_could_have_put_there_is_covered_by_no_rule_for_its_name() {
    const RULES: &[&str] =
        &["allow bash(planted:*)", "allow bash(unheard:*)", "allow bash(./run.sh:*)"];
    check(
        Standard,
        Confinement::Workspace,
        RULES,
        &[
            ("bash", "planted x", Ask, "anybody could have put there"),
            ("bash", "unheard x", Allow, "bash(unheard:*)"),
            ("bash", "./run.sh x", Allow, "bash(./run.sh:*)"),
            ("bash", "run.sh x", Ask, "no rule allows"),
            ("bash", "././run.sh x", Ask, "no rule allows"),
        ],
    );
}

#[test]
fn options_that_make_a_program_do_more_are_not_covered() {
    const RULES: &[&str] =
        &["allow bash(find:*)", "allow bash(find . -delete)", "allow bash(xargs:*)!"];
    check(
        Standard,
        Confinement::Workspace,
        RULES,
        &[
            ("bash", "find . -name '*.rs' -type f", Allow, "bash(find:*)"),
            ("bash", "find . -exec touch p {} +", Ask, "does not cover"),
            ("bash", "find . -ex\\ec touch p {} +", Ask, "does not cover"),
            ("bash", "find . -'exec' touch p {} +", Ask, "does not cover"),
            ("bash", "find . {-exec,id}", Ask, "left to the shell"),
            ("bash", "find . -ex?c id", Ask, "left to the shell"),
            ("bash", "find . -delete -print", Ask, "does not cover"),
            // Who wrote the whole command has seen what it does.
            ("bash", "find . -delete", Allow, "bash(find . -delete)"),
            ("bash", "xargs -n1 rm", Ask, "no rule allows 'rm'"),
            ("bash", "xargs -n1 find . -type f", Allow, "bash(xargs:*)"),
            ("bash", "xargs -I{} sh -c '{}'", Ask, "would run a command"),
        ],
    );
}

#[test]
fn a_denied_program_is_found_wherever_it_hides() {
    const RULES: &[&str] = &["allow bash(*)!", "deny bash(rm:*)"];
    let hidden = [
        "rm x",
        "/bin/rm x",
        "./rm x",
        "RM x",
        "r\\m x",
        "'rm' x",
        "r''m x",
        "rm\tx",
        "cargo test; rm x",
        "cargo test && rm x",
        "cargo test || rm x",
        "cargo test | rm x",
        "cargo test & rm x",
        "cargo test\nrm x",
        "cargo test;rm x",
        "cargo test # x\nrm x",
        "(rm x)",
        "{ rm x; }",
        "! rm x",
        "time rm x",
        "coproc rm x",
        "if true; then rm x; fi",
        "for f in a; do rm $f; done",
        "while true; do rm x; done",
        "case x in x) rm x;; esac",
        "f() { rm x; }; f",
        "echo $(rm x)",
        "echo `rm x`",
        "echo \"$(rm x)\"",
        "cat <(rm x)",
        "cat <<E\n$(rm x)\nE",
        "echo ${x:-$(rm x)}",
        "echo $((1 + $(rm x)))",
        "X=1 rm x",
        "X=$(rm x) true",
        "[[ a = $(rm x) ]]",
        "env rm x",
        "env -i A=1 rm x",
        "sudo rm x",
        "sudo -u root rm x",
        "nohup rm x",
        "nice -n 5 rm x",
        "timeout 5 rm x",
        "timeout -k 1 5 rm x",
        "setsid rm x",
        "stdbuf -o0 rm x",
        "xargs rm < l",
        "xargs -n 1 rm < l",
        "watch rm x",
        "exec rm x",
        "command rm x",
        "builtin rm x",
        "eval rm x",
        "eval 'rm x'",
        "bash -c 'rm x'",
        "sh -c \"rm x\"",
        "bash -lc 'rm x'",
        "env A=1 bash -c 'cd /; rm x'",
        "find . -exec rm {} +",
        "find . -exec rm {} \\;",
        "parallel rm ::: x",
        "trap 'rm x' EXIT",
        "sudo env nice rm x",
        "X=rm; $X y",
        "rm x > log",
        "2>/dev/null rm x",
    ];
    let rows: Vec<Row> = hidden.iter().map(|&line| ("bash", line, Deny, "bash(rm:*)")).collect();
    for mode in [Standard, AcceptEdits, Auto, Bypass] {
        check(mode, Confinement::Workspace, RULES, &rows);
    }
    check(
        Standard,
        Confinement::Workspace,
        RULES,
        &[
            ("bash", "cargo test", Allow, "bash(*)"),
            ("bash", "rmdir x", Allow, "bash(*)"),
            ("bash", "echo rm", Allow, "bash(*)"),
            ("bash", "cp rm x", Allow, "bash(*)"),
            // What the shell computes may be anything.
            ("bash", "/bin/r? x", Ask, "bash(rm:*)"),
            ("bash", "$1 x", Ask, "bash(rm:*)"),
        ],
    );
}

#[test]
fn options_before_a_denied_word_hide_nothing() {
    const RULES: &[&str] = &[
        "allow bash(*)!",
        "deny bash(git push:*)",
        "deny bash(npm publish)",
        "ask bash(git commit:*)",
    ];
    check(
        Standard,
        Confinement::None,
        RULES,
        &[
            ("bash", "git push", Deny, "bash(git push:*)"),
            ("bash", "git push origin main", Deny, "bash(git push:*)"),
            ("bash", "git -C elsewhere push", Deny, "bash(git push:*)"),
            ("bash", "git --no-pager -c a.b=c push", Deny, "bash(git push:*)"),
            ("bash", "git --git-dir=x push", Deny, "bash(git push:*)"),
            ("bash", "git $X push", Ask, "bash(git commit:*)"),
            ("bash", "git pu$X", Ask, "bash(git commit:*)"),
            ("bash", "git commit -m 'push it'", Ask, "bash(git commit:*)"),
            ("bash", "A=1 git commit -m x", Ask, "bash(git commit:*)"),
            ("bash", "git pushed", Allow, "bash(*)"),
            ("bash", "git add push", Allow, "bash(*)"),
            ("bash", "npm publish", Deny, "bash(npm publish)"),
            ("bash", "npm publish --dry-run", Allow, "bash(*)"),
            ("bash", "cd pkg && npm publish", Deny, "bash(npm publish)"),
            ("bash", "npm publish $X", Ask, "bash(npm publish)"),
        ],
    );
}

#[test]
fn paths_are_matched_from_where_their_pattern_begins() {
    const RULES: &[&str] = &[
        "deny read_file(secrets/)",
        "deny *_file(*.pem)",
        "deny read_file(/etc/**)",
        "deny read_file(//opt/x/**)",
        "deny read_file(~/notes/**)",
        "ask edit_file(Cargo.toml)",
        "allow edit_file(src/**)",
        "allow write_file(./docs/*.md)",
    ];
    check(
        Standard,
        Confinement::Workspace,
        RULES,
        &[
            ("read_file", "secrets/key", Deny, "read_file(secrets/)"),
            ("read_file", "secrets/deep/key", Deny, "read_file(secrets/)"),
            ("read_file", "SECRETS/key", Deny, "read_file(secrets/)"),
            ("read_file", "src/../secrets/key", Deny, "read_file(secrets/)"),
            ("read_file", "{WS}/secrets/key", Deny, "read_file(secrets/)"),
            ("read_file", "leads-to-secret", Deny, "read_file(secrets/)"),
            ("read_file", "secretsx/key", Allow, "changes nothing"),
            ("edit_file", "secrets/key", Ask, "would change files"),
            ("read_file", "deep/down/x.pem", Deny, "*_file(*.pem)"),
            ("edit_file", "src/x.pem", Deny, "*_file(*.pem)"),
            ("read_file", "etc/x", Deny, "read_file(/etc/**)"),
            ("read_file", "/etc/x", Ask, "outside the folders"),
            ("read_file", "/opt/x/y", Deny, "read_file(//opt/x/**)"),
            ("read_file", "/home/example/notes/a", Deny, "read_file(~/notes/**)"),
            ("edit_file", "src/a/b.rs", Allow, "edit_file(src/**)"),
            ("edit_file", "x/src/b.rs", Ask, "would change files"),
            ("edit_file", "src/../build.rs", Ask, "would change files"),
            ("edit_file", "SRC/b.rs", Ask, "would change files"),
            ("write_file", "src/b.rs", Ask, "would change files"),
            ("write_file", "docs/a.md", Allow, "write_file(./docs/*.md)"),
            ("write_file", "docs/a/b.md", Ask, "would change files"),
            ("edit_file", "src/Cargo.toml", Ask, "edit_file(Cargo.toml)"),
        ],
    );
}

#[test]
fn selectors_of_tool_servers_choose_no_other_server() {
    const RULES: &[&str] = &["allow mcp__github__*", "deny mcp__*__delete_repo"];
    check(
        Standard,
        Confinement::Workspace,
        RULES,
        &[
            ("mcp__github__create_issue", "", Allow, "mcp__github__*"),
            ("mcp__gitlab__create_issue", "", Ask, "use the network"),
        ],
    );
    check(
        Bypass,
        Confinement::Workspace,
        &["deny mcp__*"],
        &[
            ("mcp__github__create_issue", "", Deny, "mcp__*"),
            ("calculator", "", Allow, "touches nothing"),
        ],
    );
}

#[test]
fn deny_outweighs_ask_and_ask_outweighs_allow() {
    const RULES: &[&str] = &[
        "allow bash(make:*)",
        "ask bash(make install:*)",
        "deny bash(make install-all:*)",
        "allow edit_file",
        "ask edit_file(a/**)",
        "deny edit_file(a/b/**)",
    ];
    check(
        Standard,
        Confinement::None,
        RULES,
        &[
            ("bash", "make test", Allow, "bash(make:*)"),
            ("bash", "make install", Ask, "bash(make install:*)"),
            ("bash", "make install && make install-all", Deny, "bash(make install-all:*)"),
            ("edit_file", "x", Allow, "edit_file"),
            ("edit_file", "a/x", Ask, "edit_file(a/**)"),
            ("edit_file", "a/b/x", Deny, "edit_file(a/b/**)"),
        ],
    );
}

#[test]
fn a_denied_program_in_what_another_one_is_told_to_run_is_asked_about() {
    let asks: Vec<Row> = [
        "gosu root curl x",
        "setpriv --reuid 1 --regid 1 curl x",
        "bwrap --dev-bind / / curl x",
        "tmux new -d 'curl x'",
        "perf stat curl x",
        "echo 'curl x' | at now",
        "ed <<< '!curl x'",
        "git config alias.x '!curl x'",
        "git -c core.sshCommand='curl x' fetch",
        "GIT_SSH_COMMAND='curl x' git fetch",
        "RUSTC_WRAPPER=curl cargo build",
        "git rebase --exec='curl x' HEAD",
        "git rebase -xcurl HEAD",
        "make SHELL=curl",
        "tar -I 'curl x' -xf y",
        "rsync -e 'curl x' a b:",
        "sed '1e curl x' f",
        "vim -c '!curl x'",
        "perl -e 'system(\"curl x\")'",
        "npx curl",
        "uv run curl x",
        "docker run x curl y",
        "su nobody -- -c 'curl x'",
    ]
    .map(|line| ("bash", line, Ask, "bash(curl:*)"))
    .to_vec();
    check(Bypass, Confinement::None, &["deny bash(curl:*)"], &asks);
    check(
        Bypass,
        Confinement::None,
        &["deny bash(curl:*)", "deny bash(git push:*)"],
        &[
            ("bash", "ld.so /usr/bin/curl x", Deny, "bash(curl:*)"),
            ("bash", "setarch -R curl x", Deny, "bash(curl:*)"),
            ("bash", "hash -p /usr/bin/curl foo; foo x", Deny, "bash(curl:*)"),
            ("bash", "bash /dev/stdin <<< 'curl x'", Deny, "bash(curl:*)"),
            ("bash", ". /dev/stdin <<< 'curl x'", Deny, "bash(curl:*)"),
            ("bash", "BASH_CMDS[foo]=/usr/bin/curl; foo x", Deny, "bash(curl:*)"),
            ("bash", "echo use curl", Allow, "read and nothing else"),
            ("bash", "git commit -m 'call curl'", Allow, "everything runs"),
            ("bash", "timeout 5 git status", Allow, "everything runs"),
            ("bash", "python3 curl_test.py", Allow, "everything runs"),
            ("bash", "tmux new -d 'git fetch'", Allow, "everything runs"),
            ("bash", "tmux new -d 'git push'", Ask, "bash(git push:*)"),
        ],
    );
}
