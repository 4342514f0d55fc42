//! `anvil models test NAME` against servers that can, and cannot, serve an agent.

mod support;

use serde_json::json;

use support::model::{Answer, Model};
use support::{Home, run};

fn weather(cities: &[&str]) -> Answer {
    let calls = cities.iter().map(|city| ("get_weather", json!({"city": city}))).collect();
    Answer::Calls(String::new(), calls)
}

#[test]
fn a_model_that_can_do_everything_ends_with_zero_and_a_line_for_each_ability() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::text("pong"),
            weather(&["Oslo"]),
            Answer::text("It snows."),
            weather(&["Oslo", "Lima"]),
        ]),
    );
    let ran = run(home.anvil_with(&model).args(["models", "test", "anthropic:some-model"]));
    ran.assert_code(0);
    assert_eq!(
        ran.out,
        "anthropic:some-model\n  text        ok\n  tools       ok\n  round trip  ok\n  \
         parallel    ok\n  usage       ok\n  context     n/a\n"
    );
    assert_eq!(ran.err, "");
    assert_eq!(model.requests()[0]["model"], "some-model");
}

#[test]
fn a_model_that_calls_no_tool_ends_with_one_and_says_what_failed() {
    let (home, model) = (Home::new(), Model::new([Answer::text("Pong? I call nobody.")]));
    let ran = run(home.anvil_with(&model).args(["models", "test", "anthropic:some-model"]));
    ran.assert_code(1);
    for line in ["  text        ok\n", "  tools       FAILED: ", "  round trip  not tried: "] {
        assert!(ran.out.contains(line), "{ran:?}");
    }
}

#[test]
fn a_model_that_has_no_name_or_no_key_is_a_configuration_error() {
    let home = Home::new();
    let ran = run(home.anvil().args(["models", "test", "nobody:x"]));
    assert!(ran.assert_code(78).err.contains("nobody"), "{ran:?}");
    let ran = run(home.anvil().args(["models", "test", "anthropic:x"]));
    assert!(ran.assert_code(78).err.contains("ANTHROPIC_API_KEY"), "{ran:?}");
}
