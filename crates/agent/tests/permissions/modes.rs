//! What a mode lets run, where no rule or every rule says so: roots, the sandbox, and what only a person
//! opens.

use agent::PermissionMode::{AcceptEdits, Auto, Bypass, Default as Standard, Plan};
use agent::permissions::{Confinement, Decision};

use super::Verdict::{Allow, Ask, Deny};
use super::rows::{NO_RULES, check};
use super::{Situation, decide, policy, workspace};

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
