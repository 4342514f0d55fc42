//! Permission rules from files and options, seen from outside: what is told about them and what they do.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::model::{Answer, Model};
use support::{Home, Ran, run};

fn user(home: &Home, text: &str) {
    fs::create_dir_all(home.config()).expect("the home can be written");
    fs::write(home.config().join("config.toml"), text).expect("the home can be written");
}

fn project(home: &Home, text: &str) {
    fs::create_dir_all(home.work().join(".anvil")).expect("the workspace can be written");
    home.write(".anvil/config.toml", text);
}

fn permissions(home: &Home, words: &[&str]) -> Ran {
    run(home.anvil().arg("permissions").args(words))
}

/// What a model is told about a call of `bash` in a run without a person.
fn told(home: &Home, command: &str, words: &[&str]) -> (String, bool) {
    let call = Answer::call("bash", json!({"command": command}));
    let model = Model::new([call, Answer::text("done")]);
    let ran = run(home.anvil_with(&model).args(["-p", "x"]).args(words));
    assert_eq!(ran.code(), 0, "{ran:?}");
    model.last_results().remove(0)
}

#[test]
fn a_wrong_rule_in_the_users_file_ends_the_run_with_its_line_and_column() {
    let rows = [
        (
            "deny = [\"bahs(curl:*)\"]",
            "2:10: permission rule 'bahs(curl:*)': there is no tool 'bahs'",
        ),
        (
            "deny = [\n  \"bash(rm:*)\",\n  \"bash(ls\",\n]",
            "4:11: permission rule 'bash(ls': expected ')'",
        ),
        ("ask = ['bash(rm *)']", "2:17: permission rule 'bash(rm *)': "),
        (
            "ask = [{ rule = \"calculator(x)\" }]",
            "2:28: permission rule 'calculator(x)': calculator takes no",
        ),
        (
            "allow = [\"bash(*)\"]",
            "2:11: permission rule 'bash(*)': bash(*) allows every command: write a",
        ),
        (
            "allow = [{ rule = \"bash(npx:*)\" }]",
            "2:20: permission rule 'bash(npx:*)': npx runs whatever",
        ),
        (
            "allow = [{ rule = \"bash(make:*)\", match = [\"ls\"] }]",
            "2:20: permission rule 'bash(make:*)': it does not match 'ls'",
        ),
        (
            "deny = [\"read_file(a:*)\"]",
            "2:20: permission rule 'read_file(a:*)': ':*' is for commands",
        ),
    ];
    for (rules, wanted) in rows {
        let home = Home::new();
        user(&home, &format!("[permissions]\n{rules}\n"));
        let ran = permissions(&home, &[]);
        assert_eq!(ran.code(), 78, "{ran:?}");
        assert!(ran.err.contains(&format!("config.toml:{wanted}")), "{rules}: {ran:?}");
    }
}

#[test]
fn a_wrong_rule_on_the_command_line_ends_the_run() {
    let home = Home::new();
    for option in ["--allow", "--ask", "--deny"] {
        let ran = permissions(&home, &[option, "bahs(x)"]);
        assert_eq!(ran.code(), 78, "{ran:?}");
        assert!(ran.err.contains(&format!("{option}: permission rule 'bahs(x)'")), "{ran:?}");
    }
}

#[test]
fn a_wrong_rule_of_a_repository_makes_its_file_count_for_nothing_and_everything_ask() {
    let home = Home::new();
    project(&home, "default_model = \"x\"\n[permissions]\ndeny = [\"bahs(curl:*)\"]\n");
    let call = Answer::call("read_file", json!({"file_path": "README.md"}));
    let model = Model::new([call, Answer::text("done")]);
    fs::write(home.work().join("README.md"), "text").unwrap();
    let ran = run(home.anvil_with(&model).args(["-p", "x", "--permission-mode", "bypass"]));
    assert_eq!(ran.code(), 0, "{ran:?}");
    assert!(ran.err.contains(".anvil/config.toml:3:10: permission rule 'bahs(curl:*)'"), "{ran:?}");
    assert!(ran.err.contains("nothing of this file is used"), "{ran:?}");
    let (text, is_error) = model.last_results().remove(0);
    assert!(is_error, "{text}");
}

#[test]
fn a_wrong_rule_of_a_trusted_repository_ends_the_run() {
    let home = Home::new();
    project(&home, "[permissions]\nallow = [\"bash(make:*)\"]\n");
    assert_eq!(run(home.anvil().args(["trust", "grant", "--yes"])).code(), 0);
    project(&home, "[permissions]\nallow = [\"bahs(make:*)\"]\n");
    let ran = permissions(&home, &[]);
    assert_eq!(ran.code(), 78, "{ran:?}");
    assert!(ran.err.contains(".anvil/config.toml:2:11: permission rule"), "{ran:?}");
}

#[test]
fn a_repository_takes_away_unasked_and_permits_only_what_was_granted() {
    let home = Home::new();
    user(&home, "[permissions]\nallow = [\"bash(true:*)\"]\n");
    project(&home, "[permissions]\ndeny = [\"bash(true x:*)\"]\nallow = [\"bash(make:*)\"]\n");
    let decision = |home: &Home, command: &str| {
        let ran = permissions(home, &["test", command, "--output-format", "json"]);
        serde_json::from_str::<Value>(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
    };
    assert_eq!(decision(&home, "true")["decision"], "allow");
    let denied = decision(&home, "true x");
    assert_eq!(denied["decision"], "deny");
    assert_eq!(denied["rule"], "bash(true x:*)");
    assert_eq!(denied["origin"], ".anvil/config.toml:2");
    assert_eq!(decision(&home, "make y")["decision"], "ask");
    assert_eq!(run(home.anvil().args(["trust", "grant", "--yes"])).code(), 0);
    assert_eq!(decision(&home, "make y")["decision"], "allow");
}

#[test]
fn a_command_is_explained_with_the_decision_first() {
    let home = Home::new();
    user(&home, "[permissions]\ndeny = [\"bash(rm:*)\"]\n");
    let words = ["test", "make && rm x", "--allow", "bash(make:*)", "--sandbox", "full-access"];
    let ran = permissions(&home, &words);
    assert_eq!(ran.code(), 0, "{ran:?}");
    let file = home.config().join("config.toml").display().to_string();
    let lines: Vec<&str> = ran.out.lines().collect();
    let wanted = [
        format!("deny     denied by the rule bash(rm:*) ({file}:2)"),
        format!("rule     bash(rm:*)  # {file}:2"),
        "command  make: allow, the rule bash(make:*) (--allow)".to_owned(),
        format!("command  rm x: deny, the rule bash(rm:*) ({file}:2)"),
        "mode     default".to_owned(),
        "sandbox  commands are not confined".to_owned(),
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn the_rules_in_force_are_listed_with_where_they_stand() {
    let home = Home::new();
    user(&home, "[permissions]\nmode = \"auto\"\nask = [\"bash(git push:*)\"]\n");
    project(&home, "[permissions]\ndeny = [\"read_file(secrets/**)\"]\n");
    let ran = permissions(&home, &["--allow", "bash(make:*)", "--sandbox", "full-access"]);
    let file = home.config().join("config.toml").display().to_string();
    let wanted = format!(
        "mode   auto\n\
         deny   read_file(secrets/**)  # .anvil/config.toml:2\n\
         ask    bash(git push:*)  # {file}:3\n\
         allow  bash(make:*)  # --allow\n\
         bash   commands are not confined\n"
    );
    assert_eq!(ran.out, wanted, "{ran:?}");
}

#[test]
fn where_there_are_no_rules_the_list_says_what_decides() {
    let ran = permissions(&Home::new(), &["--sandbox", "external"]);
    let wanted = "mode   default\nrules  none: the mode decides\nbash   what anvil runs in confines commands\n";
    assert_eq!(ran.out, wanted, "{ran:?}");
}

#[test]
fn what_a_command_hides_from_a_screen_is_shown_by_its_explanation() {
    let home = Home::new();
    let ran = permissions(&home, &["test", "true \u{1b}]0;x\u{7}\u{202e}"]);
    assert!(!ran.out.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{ran:?}");
}

#[test]
fn without_a_person_rules_decide_and_the_rest_is_refused_with_the_way_forward() {
    let home = Home::new();
    let (text, is_error) = told(&home, "echo ran > out; cat out", &["--permission-mode", "auto"]);
    assert!(!is_error && text.contains("ran"), "{text}");
    let (text, is_error) = told(&home, "touch x", &["--allow", "bash(touch:*)"]);
    assert!(!is_error && home.work().join("x").exists(), "{text}");
    let (text, is_error) = told(&home, "touch y", &[]);
    assert!(is_error && !home.work().join("y").exists(), "{text}");
    let (text, is_error) =
        told(&home, "touch z", &["--permission-mode", "bypass", "--deny", "bash(touch:*)"]);
    assert!(is_error && text.contains("denied by the rule bash(touch:*) (--deny)"), "{text}");
    assert!(!home.work().join("z").exists());
    let (text, is_error) = told(&home, "curl http://127.0.0.1:9/", &["--allow", "bash(*)!"]);
    assert!(is_error && text.contains("--network"), "{text}");
}

#[test]
fn what_may_not_be_read_is_not_found_by_a_search_and_nothing_becomes_visible_by_a_rule() {
    let home = Home::new();
    project(&home, "[permissions]\ndeny = [\"read_file(plans/**)\", \"read_file(!.env)\"]\n");
    for name in ["plans/next.txt", ".env", "open.txt"] {
        fs::create_dir_all(home.work().join("plans")).unwrap();
        fs::write(home.work().join(name), "needle").unwrap();
    }
    let search = Answer::call("grep", json!({"pattern": "needle"}));
    let model = Model::new([search, Answer::text("done")]);
    assert_eq!(run(home.anvil_with(&model).args(["-p", "x"])).code(), 0);
    let (text, _) = model.last_results().remove(0);
    assert!(text.contains("open.txt") && !text.contains("next.txt"), "{text}");
    assert!(!text.contains(".env"), "{text}");
}

#[test]
fn a_further_folder_is_open_to_the_file_tools_and_to_commands() {
    let home = Home::new();
    let other = tempfile::tempdir().unwrap();
    let dir = other.path().canonicalize().unwrap();
    fs::write(dir.join("seen"), "there").unwrap();
    let shown = dir.display().to_string();
    let read = Answer::call("read_file", json!({"file_path": format!("{shown}/seen")}));
    let write = Answer::call("bash", json!({"command": format!("echo x > {shown}/new")}));
    let model = Model::new([read, write, Answer::text("done")]);
    let words = ["-p", "x", "--permission-mode", "auto", "--add-dir", &shown];
    let ran = run(home.anvil_with(&model).args(words));
    assert_eq!(ran.code(), 0, "{ran:?}");
    let results = model.last_results();
    assert!(results.iter().all(|(_, is_error)| !is_error), "{results:?}");
    assert_eq!(fs::read_to_string(dir.join("new")).unwrap(), "x\n");
    let missing = run(home.anvil().args(["-p", "x", "--add-dir", "/nowhere/at/all"]));
    assert_eq!(missing.code(), 64, "{missing:?}");
}

#[test]
fn options_about_permissions_are_for_turns_and_for_the_command_about_them() {
    let home = Home::new();
    for words in [["models", "--allow", "bash"], ["config", "--add-dir", "/"]] {
        let ran = run(home.anvil().args(words));
        assert_eq!(ran.code(), 64, "{ran:?}");
    }
}
