//! Where a fault in a file is, and in which words it is told.

use serde_json::json;

use super::*;

#[track_caller]
fn fault(text: &str) -> String {
    parse("config.toml", text).expect_err(text).to_string()
}

#[test]
fn a_value_of_a_wrong_type_is_told_with_its_place_and_what_was_expected() {
    for (text, want) in [
        (
            "[agent]\nmax_steps = \"x\"",
            "config.toml:2:13: invalid type: string \"x\", expected a whole number from 1",
        ),
        ("agent = 3", "config.toml:1:9: invalid type: integer `3`, expected a table"),
        ("mcp = 3", "config.toml:1:7: invalid type: integer `3`, expected a table"),
        (
            "[hooks.stop]\ncommand = \"x\"",
            "config.toml:1:1: invalid type: a table, expected a list",
        ),
        ("default_model = 3", "config.toml:1:17: invalid type: integer `3`, expected a string"),
        (
            "[sandbox]\nnetwork = 3",
            "config.toml:2:11: expected true, false or a list of host names",
        ),
        ("[agent]\ncompact_at = 7", "config.toml:2:14: compact_at is a share from 0.1 to 1"),
    ] {
        assert_eq!(fault(text), want);
    }
    assert!(
        fault("[providers.x]\nkind = \"openai\"")
            .starts_with("config.toml:2:8: unknown variant `openai`, expected one of `anthropic`")
    );
    assert!(fault("[providers.x]\nbase_url = \"localhost:1\"").contains(
        "2:12: base_url: 'localhost' is neither http nor https: it looks like https://host/path"
    ));
    assert!(fault("[permissions]\ndeny = [3]").contains("expected a rule such as"));
}

#[test]
fn a_key_where_its_variable_was_due_is_told_and_not_repeated() {
    for key in ["sk-ant-hunter2", "gsk_Hunter2abcdefghijklmnop", "AIzaHunter2abcdefghijkl"] {
        let told = fault(&format!("[providers.x]\napi_key_env = \"{key}\""));
        assert!(told.starts_with("config.toml:2:15: api_key_env is the name of"), "{told}");
        assert!(!told.to_lowercase().contains("hunter2"), "{told}");
    }
    for name in ["", "K", "_key2", "MY_COMPANYS_GATEWAY_KEY_2", "https_proxy_user_secret"] {
        parse("config.toml", &format!("[providers.x]\napi_key_env = \"{name}\"")).unwrap();
    }
}

#[test]
fn a_number_that_means_nothing_is_told_with_its_place() {
    for (text, want) in [
        ("models.m.price = { input = nan, output = 1.0 }", ":1:28: this number is out of range"),
        ("models.m.price = { input = 1, output = inf }", ":1:40: this number is out of range"),
        ("models.m.price = { input = -1, output = 1 }", ":1:28: input is a price, from 0"),
        ("models.m.context = 18446744073709551615", ":1:20: this number is out of range"),
        ("models.m.context = 0", ":1:20: context is at least 1"),
        ("retry.deadline_s = 0xFFFFFFFFFFFFFFFF", ":1:20: this number is out of range"),
        ("agent.compact_at = nan", ":1:20: this number is out of range"),
    ] {
        assert_eq!(fault(text), format!("config.toml{want}"), "{text}");
    }
    let most = parse("config.toml", "models.m.context = 9_223_372_036_854_775_807").unwrap();
    assert_eq!(most.leaves[0].value, json!(i64::MAX));
}

#[test]
fn bad_syntax_is_told_with_its_place() {
    assert!(
        fault("[permissions\n").starts_with("config.toml:1:13: "),
        "{}",
        fault("[permissions\n")
    );
    assert!(fault("a = 1\na = 2").starts_with("config.toml:2:1: "));
    assert!(fault("x = \"é\" 3").starts_with("config.toml:1:9: "));
}

#[test]
fn a_file_of_more_values_than_anybody_writes_is_refused_before_it_costs_time() {
    let lines = |count: usize, line: &dyn Fn(usize) -> String| -> String {
        (0..count).map(|at| line(at) + "\n").collect()
    };
    let model = |at| format!("[models.m{at}]\nprovider = \"ollama\"");
    assert_eq!(parse("config.toml", &lines(10_000, &model)).unwrap().leaves.len(), 10_000);
    let want = "config.toml:19999:9: there are more than 10000 values";
    assert_eq!(fault(&lines(10_001, &model)), want);
    for line in
        [&|at| format!("k{at} = 1"), &|_| "[[hooks.stop]]\ncommand = \"x\"\nz = 1".to_owned()]
            as [&dyn Fn(usize) -> String; 2]
    {
        assert!(fault(&lines(10_001, line)).contains("more than 10000 values"));
    }
}

#[test]
fn a_name_that_no_table_could_show_is_refused_and_not_repeated() {
    let (most, more) = ("n".repeat(256), "n".repeat(257));
    for text in [
        "default_model = \"NAME\"",
        "[models.NAME]",
        "[models.m]\nid = \"NAME\"",
        "[models.m]\nprovider = \"NAME\"",
        "[providers.NAME]\nkind = \"anthropic\"",
        "[hooks]\nNAME = 1",
    ] {
        parse("config.toml", &text.replace("NAME", &most)).expect(text);
        let told = fault(&text.replace("NAME", &more));
        assert!(told.ends_with(": this name is longer than 256 bytes"), "{told}");
    }
}

#[test]
fn unknown_keys_are_told_with_their_place_and_the_nearest_known_name() {
    let text = r#"
[permisions]
deny = ["bash(curl:*)"]
[providers.anthropic]
base_urll = "x"
[models.m]
privider = "x"
price = { inputs = 1.0, input = 1.0, output = 1.0 }
[[hooks.stop]]
command = "x"
comand = "y"
[telemetry]
x = 1
"#;
    let parsed = parse("config.toml", text).unwrap();
    let told: Vec<String> = parsed.unknown.iter().map(ToString::to_string).collect();
    for want in [
        "config.toml:2:2: unknown key 'permisions': did you mean 'permissions'?",
        "config.toml:5:1: unknown key 'providers.anthropic.base_urll': did you mean 'base_url'?",
        "config.toml:7:1: unknown key 'models.m.privider': did you mean 'provider'?",
        "config.toml:8:11: unknown key 'models.m.price.inputs': did you mean 'input'?",
        "config.toml:11:1: unknown key 'hooks.stop.comand': did you mean 'command'?",
        "config.toml:12:2: unknown key 'telemetry'",
    ] {
        assert!(told.iter().any(|line| line == want), "{want}\n{told:#?}");
    }
    assert_eq!(told.len(), 6, "{told:#?}");
    assert!(parsed.leaves.iter().all(|leaf| leaf.key != Key::of(["permisions", "deny"])));
}

#[test]
fn each_rule_of_a_list_has_the_place_of_its_first_character() {
    let text = "[permissions]\nask = [\"ä\", 'bash(a)']\ndeny = [\n  \"bash(rm:*)\",  # why\n  { unsafe = true, \
                rule = \"x\" },\n  \"\"\"long\"\"\",\n]\nallow = []\n";
    let file = parse("config.toml", text).unwrap();
    let rules = crate::config::rules_in(&file);
    let places: Vec<(String, usize)> =
        rules.iter().map(|rule| (rule.place.to_string(), rule.column)).collect();
    let wanted = [(2, 9), (2, 14), (4, 4), (5, 28), (6, 6)];
    let wanted = wanted.map(|(line, column)| (format!("config.toml:{line}"), column));
    assert_eq!(places, wanted);
}
