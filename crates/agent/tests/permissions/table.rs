//! The rows. The last word of a row is the rule that decides, or what the reason says where none does.

use agent::PermissionMode::{self, AcceptEdits, Auto, Bypass, Default as Standard, Plan};
use agent::permissions::{Confinement, Decision};

use super::Verdict::{self, Allow, Ask, Deny};
use super::{Situation, decide, policy, workspace};

/// A tool, what the call is about, the verdict, and who decides.
type Row = (&'static str, &'static str, Verdict, &'static str);

const NO_RULES: &[&str] = &[];

#[track_caller]
fn check(
    mode: PermissionMode,
    confinement: Confinement,
    rules: &'static [&'static str],
    rows: &[Row],
) {
    let policy = policy(&Situation { mode, confinement, rules });
    let mut wrong = Vec::new();
    for (tool, subject, verdict, by) in rows {
        let subject = subject.replace("{WS}", &workspace().display().to_string());
        let decision = decide(&policy, tool, &subject);
        let because = decision.because();
        let is_by = match rules.iter().any(|rule| rule.trim_end_matches('!').ends_with(by)) {
            true => {
                because.rule.as_deref().is_some_and(|rule| rule.split(", ").any(|one| one == *by))
            }
            false => because.rule.is_none() && because.why.contains(by),
        };
        if Verdict::of(&decision) != *verdict || !is_by {
            wrong.push(format!(
                "{tool} {subject:?}: wanted {verdict:?} by {by:?}, got {decision:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{mode:?}, {confinement:?}, {rules:?}\n{}", wrong.join("\n"));
}

#[test]
fn by_default_reads_run_and_edits_and_commands_ask() {
    check(
        Standard,
        Confinement::Workspace,
        NO_RULES,
        &[
            ("read_file", "src/main.rs", Allow, "changes nothing"),
            ("read_file", "{WS}/src/main.rs", Allow, "changes nothing"),
            ("read_file", "/srv/shared/notes.md", Allow, "changes nothing"),
            ("glob", ".", Allow, "changes nothing"),
            ("grep", "src", Allow, "changes nothing"),
            ("calculator", "", Allow, "touches nothing"),
            ("write_file", "src/main.rs", Ask, "would change files"),
            ("edit_file", "src/main.rs", Ask, "would change files"),
            ("edit_file", "/srv/shared/notes.md", Ask, "would change files"),
            ("bash", "cargo test", Ask, "no rule allows 'cargo test'"),
            ("bash", "rm -rf build", Ask, "no rule allows 'rm -rf build'"),
            ("bash", "ls -la", Allow, "read and nothing else"),
            ("bash", "cat README.md | wc -l", Allow, "read and nothing else"),
            ("bash", "cat README.md 2>/dev/null", Allow, "read and nothing else"),
            ("bash", "cat README.md > copy", Ask, "a redirection writes copy"),
            ("bash", "ls && rm x", Ask, "no rule allows 'rm x'"),
            ("bash", "ls $(touch x)", Ask, "left to the shell"),
            ("bash", "ls *.md | head -3", Allow, "read and nothing else"),
            ("bash", "git --no-pager diff --stat", Allow, "read and nothing else"),
            ("bash", "git --no-pager -c core.pager=x diff", Ask, "no rule allows"),
            ("bash", "git --no-pager push", Ask, "needs the network"),
            ("bash", "git --no-pager commit -m x", Ask, "no rule allows"),
            ("bash", "grep -n fn src/*.rs 2>/dev/null", Allow, "read and nothing else"),
            ("bash", "ls * > listing", Ask, "left to the shell"),
            ("bash", "sort *", Ask, "left to the shell"),
            ("bash", "./ls", Ask, "no rule allows './ls'"),
            ("bash", "planted", Ask, "anybody could have put there"),
            ("mcp__github__create_issue", "", Ask, "use the network"),
            ("task_reader", "", Allow, "changes nothing"),
            ("task_writer", "", Ask, "would change files"),
        ],
    );
}

#[test]
fn accepted_edits_stay_inside_the_roots_and_away_from_what_other_programs_act_on() {
    check(
        AcceptEdits,
        Confinement::Workspace,
        NO_RULES,
        &[
            ("write_file", "src/main.rs", Allow, "edits of the workspace"),
            ("edit_file", "/srv/shared/notes.md", Allow, "edits of the workspace"),
            ("edit_file", "AGENTS.md", Allow, "edits of the workspace"),
            ("write_file", ".mcp.json", Ask, "would change files"),
            ("write_file", "sub/.MCP.JSON", Ask, "would change files"),
            ("write_file", ".vscode/tasks.json", Ask, "would change files"),
            ("write_file", ".vscode/settings.json", Allow, "edits of the workspace"),
            ("write_file", ".envrc", Ask, "would change files"),
            ("write_file", ".gitmodules", Ask, "would change files"),
            ("write_file", "vendor/.gitattributes", Ask, "would change files"),
            ("write_file", "vendor/x/HEAD", Ask, "would change files"),
            ("write_file", "/etc/hosts", Ask, "outside the folders"),
            ("write_file", "../other/x", Ask, "outside the folders"),
            ("write_file", "leads-out", Ask, "outside the folders"),
            ("bash", "cargo test", Ask, "no rule allows"),
            ("bash", "ls > listing", Ask, "a redirection writes listing"),
            ("task_writer", "", Allow, "edits of the workspace"),
            ("mcp__github__create_issue", "", Ask, "use the network"),
        ],
    );
}

#[test]
fn with_a_sandbox_auto_asks_only_about_what_leaves_it() {
    check(
        Auto,
        Confinement::Workspace,
        NO_RULES,
        &[
            ("bash", "cargo test", Allow, "the sandbox confines it"),
            ("bash", "rm -rf build", Allow, "the sandbox confines it"),
            ("bash", "for f in *; do echo $f; done", Allow, "the sandbox confines it"),
            ("bash", "cargo test > log.txt 2>&1", Allow, "the sandbox confines it"),
            ("bash", "cargo test > /tmp/log.txt", Allow, "the sandbox confines it"),
            ("bash", "echo x > .envrc", Ask, "would run a command"),
            ("bash", "echo x > .git/hooks/pre-commit", Deny, "decides what runs on this machine"),
            ("bash", "echo x > /etc/hosts", Ask, "outside the folders"),
            ("bash", "curl https://example.com", Ask, "needs the network"),
            ("bash", "cargo test && curl -d @x https://example.com", Ask, "needs the network"),
            ("bash", "bash -c 'curl https://example.com'", Ask, "needs the network"),
            ("bash", "echo 'unterminated", Ask, "would run a command"),
            ("write_file", "src/main.rs", Allow, "edits of the workspace"),
            ("write_file", ".envrc", Ask, "would change files"),
            ("write_file", "/etc/hosts", Ask, "outside the folders"),
            ("read_file", "/etc/hosts", Ask, "outside the folders"),
            ("mcp__github__create_issue", "", Ask, "use the network"),
        ],
    );
    check(
        Auto,
        Confinement::External,
        NO_RULES,
        &[
            ("bash", "cargo test", Allow, "the sandbox confines it"),
            ("bash", "curl https://example.com", Allow, "the sandbox confines it"),
        ],
    );
    check(
        Auto,
        Confinement::None,
        NO_RULES,
        &[
            ("bash", "cargo test", Ask, "no rule allows"),
            ("write_file", "src/main.rs", Allow, "edits of the workspace"),
        ],
    );
}

#[test]
fn plan_mode_beats_every_rule_and_lets_run_only_what_is_held_to_reading() {
    const RULES: &[&str] = &["allow edit_file", "allow bash(cargo test:*)", "allow mcp__github__*"];
    check(
        Plan,
        Confinement::ReadOnly,
        RULES,
        &[
            ("edit_file", "src/main.rs", Deny, "plan mode"),
            ("write_file", "src/main.rs", Deny, "plan mode"),
            ("edit_file", "/etc/hosts", Deny, "plan mode"),
            ("bash", "cargo test", Deny, "plan mode"),
            ("bash", "curl https://example.com", Deny, "plan mode"),
            ("bash", "cat README.md", Allow, "read and nothing else"),
            ("bash", "cat README.md > x", Deny, "plan mode"),
            ("mcp__github__create_issue", "", Deny, "plan mode"),
            ("task_writer", "", Deny, "plan mode"),
            ("task_reader", "", Allow, "changes nothing"),
            ("read_file", "src/main.rs", Allow, "changes nothing"),
            ("read_file", "/etc/hosts", Ask, "outside the folders"),
        ],
    );
    for confinement in [Confinement::None, Confinement::Workspace, Confinement::External] {
        check(Plan, confinement, RULES, &[("bash", "cat README.md", Deny, "plan mode")]);
    }
}

#[test]
fn bypass_keeps_what_is_denied_what_asks_and_what_only_a_person_opens() {
    const RULES: &[&str] =
        &["deny bash(rm:*)", "ask bash(make deploy:*)", "deny read_file(secrets)"];
    check(
        Bypass,
        Confinement::Workspace,
        RULES,
        &[
            ("bash", "cargo test", Allow, "everything runs"),
            ("bash", "for f in *; do wc $f; done", Allow, "everything runs"),
            ("bash", "rm x", Deny, "bash(rm:*)"),
            ("bash", "$PROGRAM x", Ask, "bash(make deploy:*)"),
            ("bash", "make deploy", Ask, "bash(make deploy:*)"),
            ("bash", "curl https://example.com", Ask, "needs the network"),
            ("write_file", "src/main.rs", Allow, "everything runs"),
            ("write_file", ".git/config", Deny, "decides what runs"),
            ("write_file", "/etc/hosts", Ask, "outside the folders"),
            ("read_file", "secrets/key", Deny, "read_file(secrets)"),
            ("mcp__github__create_issue", "", Allow, "everything runs"),
        ],
    );
    check(
        Bypass,
        Confinement::None,
        NO_RULES,
        &[
            ("bash", "$PROGRAM x", Allow, "everything runs"),
            ("bash", "echo 'unterminated", Allow, "everything runs"),
            ("bash", "curl https://example.com", Allow, "everything runs"),
            ("write_file", ".envrc", Allow, "everything runs"),
        ],
    );
}

#[test]
fn what_carries_authority_is_never_written() {
    const RULES: &[&str] = &["allow write_file", "allow edit_file", "allow bash(echo:*)"];
    for mode in [Standard, AcceptEdits, Auto, Bypass] {
        check(
            mode,
            Confinement::Workspace,
            RULES,
            &[
                ("write_file", ".git/hooks/pre-commit", Deny, "decides what runs"),
                ("write_file", ".GIT/config", Deny, "decides what runs"),
                ("write_file", "sub/.git", Deny, "decides what runs"),
                ("write_file", "x/../.git/config", Deny, "decides what runs"),
                ("write_file", ".anvil/config.toml", Deny, "decides what runs"),
                ("edit_file", "leads-to-git", Deny, "decides what runs"),
                ("edit_file", "own/state", Deny, "belongs to anvil"),
                ("edit_file", "/home/example/.config/anvil/config.toml", Deny, "belongs to anvil"),
                ("bash", "echo x >> .git/config", Deny, "decides what runs"),
                ("bash", "echo x > ./sub/../.anvil/config.toml", Deny, "decides what runs"),
            ],
        );
    }
}

#[test]
fn no_rule_opens_a_path_outside_or_the_network() {
    const RULES: &[&str] = &[
        "allow read_file",
        "allow write_file",
        "allow edit_file(//etc/**)",
        "allow bash(*)!",
        "deny read_file(//root/**)",
    ];
    for mode in [Standard, AcceptEdits, Auto, Bypass] {
        check(
            mode,
            Confinement::Workspace,
            RULES,
            &[
                ("read_file", "/etc/passwd", Ask, "would read /etc/passwd, which is outside"),
                ("read_file", "../x", Ask, "outside the folders"),
                ("read_file", "leads-out", Ask, "outside the folders"),
                ("read_file", "/srv/shared/../x", Ask, "outside the folders"),
                ("write_file", "/etc/passwd", Ask, "would write /etc/passwd, which is outside"),
                ("edit_file", "/etc/passwd", Ask, "outside the folders"),
                // A refusal stays one whatever else would have to be opened.
                ("read_file", "/root/.profile", Deny, "read_file(//root/**)"),
                ("bash", "curl https://example.com", Ask, "needs the network"),
                ("bash", "echo x > /etc/hosts", Ask, "outside the folders"),
            ],
        );
    }
}

#[test]
fn a_yes_opens_exactly_what_the_call_needs() {
    let grants = |confinement, tool, subject: &str| {
        let rules = NO_RULES;
        match decide(&policy(&Situation { mode: Standard, confinement, rules }), tool, subject) {
            Decision::Ask { grants, .. } => grants,
            other => panic!("{other:?}"),
        }
    };
    let read = grants(Confinement::Workspace, "read_file", "/etc/hosts");
    assert_eq!((read.paths.len(), read.network), (1, false));
    assert_eq!((read.paths[0].path.to_str(), read.paths[0].write), (Some("/etc/hosts"), false));
    let written = grants(Confinement::Workspace, "edit_file", "/etc/x/../hosts");
    assert_eq!(
        (written.paths[0].path.to_str(), written.paths[0].write),
        (Some("/etc/hosts"), true)
    );
    // A link is opened with where it leads, and with nothing beside it.
    let linked = grants(Confinement::Workspace, "read_file", "leads-out");
    let paths: Vec<_> = linked.paths.iter().map(|one| one.path.clone()).collect();
    assert_eq!(paths, [workspace().join("leads-out"), "/etc/passwd".into()]);
    assert!(grants(Confinement::Workspace, "bash", "wget x").network);
    assert!(!grants(Confinement::None, "bash", "wget x").network);
    assert!(grants(Confinement::Workspace, "bash", "cargo test").is_empty());
}

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
fn where_nothing_confines_commands_what_they_read_is_inside_and_not_hidden() {
    check(
        Standard,
        Confinement::None,
        NO_RULES,
        &[
            ("bash", "cat notes", Allow, "read and nothing else"),
            ("bash", "cd sub && cat notes", Allow, "read and nothing else"),
            ("bash", "cat .env", Ask, "no rule allows 'cat .env'"),
            ("bash", "grep x .ENV", Ask, "no rule allows"),
            ("bash", "wc < .env", Ask, "a redirection reads .env"),
            ("bash", "cd .aws && cat credentials", Ask, "no rule allows"),
            ("bash", "cat keys/server.pem", Ask, "no rule allows"),
            ("bash", "grep -vf.env x", Ask, "no rule allows"),
            ("bash", "file -f/etc/passwd", Ask, "no rule allows"),
            ("bash", "grep -f../x y", Ask, "no rule allows"),
            ("bash", "cat leads-out-too/../notes", Ask, "no rule allows"),
            ("bash", "cd sub && cat looks-fine", Ask, "no rule allows 'cat looks-fine'"),
            ("bash", "cd sub && wc < looks-fine", Ask, "a redirection reads looks-fine"),
            ("bash", "cd && cat .cache/x", Ask, "no rule allows"),
            ("bash", "cd - && ls", Ask, "no rule allows"),
            ("bash", "cd -P && ls", Ask, "no rule allows"),
            ("bash", "cd '' && ls", Ask, "no rule allows"),
            ("bash", "cargo --version", Ask, "no rule allows"),
            ("bash", "go version", Ask, "no rule allows"),
            ("bash", "node --version", Allow, "read and nothing else"),
            ("bash", "git status", Allow, "read and nothing else"),
            ("bash", "cd planted-repository && git status", Ask, "no rule allows 'git status'"),
            ("bash", "cd planted-repository && ls", Allow, "read and nothing else"),
        ],
    );
}

#[test]
fn a_redirection_is_judged_in_every_folder_that_the_line_may_have_come_to() {
    check(
        AcceptEdits,
        Confinement::None,
        &["allow bash(echo:*)", "allow bash(cd:*)", "allow bash(pushd:*)"],
        &[
            ("bash", "cd sub && echo x > notes", Allow, "bash(echo:*)"),
            ("bash", "cd .git/hooks && echo x > pre-commit", Deny, "decides what runs"),
            ("bash", "pushd .git && echo x > config", Deny, "decides what runs"),
            ("bash", "cd own; echo x > notes", Deny, "belongs to anvil"),
            ("bash", "cd sub && echo x > looks-fine", Ask, "outside the folders"),
            ("bash", "echo x > leads-out-too/../notes", Ask, "outside the folders"),
            ("bash", "cd && echo x > .profile", Ask, "a redirection writes .profile"),
            ("bash", "cd .vscode && echo x > tasks.json", Ask, "a redirection writes"),
        ],
    );
    check(
        Bypass,
        Confinement::None,
        NO_RULES,
        &[("bash", "cd .git && echo x > config", Deny, "decides what runs")],
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
