//! What is said about a rule that makes no sense, and what selectors choose.

use super::*;

const TOOLS: KnownTools<'static> = &[
    ("read_file", Some(SubjectKind::Path)),
    ("edit_file", Some(SubjectKind::Path)),
    ("bash", Some(SubjectKind::Command)),
    ("skill", Some(SubjectKind::Name)),
    ("calculator", None),
];

fn read(effect: Effect, text: &str) -> Result<Rule, RuleError> {
    Rule::new(effect, Written { text: text.to_owned(), ..Written::default() }, TOOLS)
}

#[track_caller]
fn fault(effect: Effect, text: &str, at: usize, says: &str) {
    let error = read(effect, text).expect_err(text);
    assert_eq!(error.at, at, "{text}: {error}");
    assert!(error.to_string().contains(says), "{text}: {error}");
}

#[test]
fn what_is_wrong_with_a_rule_is_told_with_its_place() {
    fault(Effect::Deny, "", 0, "the rule is empty");
    fault(Effect::Deny, "bash(rm", 7, "expected ')'");
    fault(Effect::Deny, "(rm)", 0, "'' is no name of a tool");
    fault(Effect::Deny, "Bash cargo", 4, "is no name of a tool");
    fault(Effect::Deny, "bahs(curl:*)", 0, "there is no tool 'bahs', did you mean 'bash'?");
    fault(Effect::Deny, "Write(src/**)", 0, "expected one of read_file, edit_file, bash");
    fault(Effect::Deny, "w*(src/**)", 0, "there is no tool 'w*'");
    fault(Effect::Deny, "bash()", 5, "the pattern is empty: write bash for every call");
    fault(Effect::Deny, "bash(:*)", 5, "the pattern is empty");
    fault(Effect::Deny, "calculator(2+2)", 10, "calculator takes no pattern");
    fault(Effect::Deny, "mcp__github__*(main)", 14, "takes no pattern");
    fault(Effect::Deny, "*(x)", 1, "patterns differ in kind");
    fault(Effect::Deny, "read_file(src:*)", 10, "':*' is for commands");
    fault(Effect::Deny, "read_file(../x)", 10, "'..' leads out");
    fault(Effect::Deny, "read_file(a[)", 10, "not a path pattern");
    fault(Effect::Deny, "read_file(//)", 10, "expected a path pattern");
    fault(Effect::Deny, "bash(rm *)", 8, "expected a plain command");
    fault(Effect::Deny, "bash(a && b)", 5, "the words of one command");
    fault(Effect::Deny, "bash(a > b)", 5, "without redirections");
}

#[test]
fn a_rule_that_would_allow_nearly_everything_has_to_say_so() {
    let wide = [
        "bash",
        "bash(*)",
        "*",
        "mcp__*",
        "bash(bash:*)",
        "bash(python3:*)",
        "bash(env:*)",
        "bash(sudo:*)",
        "bash(sudo rm:*)",
        "bash(xargs:*)",
        "bash(git:*)",
        "bash(npx:*)",
    ];
    for text in wide {
        fault(Effect::Allow, text, 0, "unsafe = true");
        let written = Written { text: text.into(), is_unsafe: true, ..Written::default() };
        assert!(Rule::new(Effect::Allow, written, TOOLS).is_ok(), "{text}");
        for effect in [Effect::Ask, Effect::Deny] {
            assert!(read(effect, text).is_ok(), "{text} in {effect:?}");
        }
    }
    let narrow = [
        "bash(cargo test:*)",
        "bash(find:*)",
        "bash(git log:*)",
        "bash(env)",
        "edit_file",
        "mcp__github__*",
    ];
    for text in narrow {
        assert!(read(Effect::Allow, text).is_ok(), "{text}: {:?}", read(Effect::Allow, text).err());
    }
}

#[test]
fn a_selector_stays_within_the_parts_of_a_name() {
    let rows = [
        ("mcp__github__*", "mcp__github__create_issue", true),
        ("mcp__github__*", "mcp__github__a__b", true),
        ("mcp__github__*", "mcp__gitlab__create_issue", false),
        ("mcp__github__*", "mcp__github_evil__create_issue", false),
        ("mcp__github__*", "xmcp__github__create_issue", false),
        ("mcp__*__list", "mcp__github__list", true),
        ("mcp__*__list", "mcp__a__b__list", false),
        ("mcp__*__list", "mcp__github__list_all", false),
        ("*_file", "read_file", true),
        ("*_file", "read_files", false),
        ("*", "anything", true),
        ("bash", "bash", true),
        ("bash", "bash2", false),
        ("a**b", "axb", true),
    ];
    for (selector, tool, want) in rows {
        assert_eq!(selects(selector, tool), want, "{selector} on {tool}");
    }
    // As many stars as fit cost no more than the name is long.
    assert!(!selects(&"*a".repeat(500), &"a".repeat(64)));
}

#[test]
fn examples_are_held_against_the_rule() {
    let with = |text: &str, is_unsafe, matches: &[&str], not_matches: &[&str]| {
        let own = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect();
        let written = Written {
            text: text.into(),
            is_unsafe,
            matches: own(matches),
            not_matches: own(not_matches),
            ..Written::default()
        };
        Rule::new(Effect::Allow, written, TOOLS).map_err(|error| error.fault)
    };
    assert!(with("bash(cargo test:*)", false, &["cargo test --lib"], &["cargo testx"]).is_ok());
    assert!(with("edit_file(src/**)", false, &["src/a/b.rs"], &["build.rs", "x/src/a"]).is_ok());
    let missed = with("bash(cargo test:*)", false, &["cargo check"], &[]).err();
    assert_eq!(missed, Some(RuleFault::Misses("cargo check".into())));
    let caught = with("bash(cargo:*)", false, &[], &["cargo publish"]).err();
    assert_eq!(caught, Some(RuleFault::Catches("cargo publish".into())));
    // A rule that is wide on purpose leaves out what it must not match.
    let git = with("bash(git:*)", true, &["git status"], &["git push"]).unwrap();
    let permits = |line: &str| {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        git.permits_command(&argv)
    };
    assert_eq!(permits("git commit -m x"), Ok(true));
    assert_eq!(permits("git push origin main"), Ok(false));
    assert_eq!(permits("git -C elsewhere push"), Ok(false));
}

#[test]
fn a_path_pattern_is_a_mask_where_one_can_say_the_same() {
    let rows = [
        ("read_file(secrets/**)", Some("/secrets/**")),
        ("read_file(/secrets/)", Some("/secrets")),
        ("read_file(*.key)", Some("*.key")),
        ("read_file(**/x/*.key)", Some("**/x/*.key")),
        // No rule may make visible what is masked.
        ("read_file(!.env)", Some("\\!.env")),
        ("read_file(#x)", Some("\\#x")),
        ("read_file(a\n!.env)", None),
        ("read_file(*.{key,pem})", None),
        ("read_file(//etc/**)", None),
        ("read_file(~/x)", None),
        ("read_file(*)", None),
        ("read_file", None),
    ];
    for (text, want) in rows {
        assert_eq!(read(Effect::Deny, text).unwrap().mask().as_deref(), want, "{text}");
    }
}
