//! The conformance suite: over streams in all four dialects, against servers and models that
//! misbehave, and (ignored, with a key) against the real ones.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use llm::capability::Preset;
use llm::conformance::{Report, Scenario, Verdict, conformance};
use llm::providers::{Connection, connect, openai_chat};
use llm::testing::{Answer, ScriptedProvider, script};
use llm::{ApiKey, Dialect, FinishReason, LlmError, StreamEvent, TargetFor, Usage};
use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// Answers each scenario with its stream; which one it is, the request tells.
struct Streams {
    family: &'static str,
}

impl Respond for Streams {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body = std::str::from_utf8(&request.body).unwrap();
        let has = |text| body.contains(text);
        let name = match () {
            () if has("Reply with exactly") => "text",
            () if has("Oslo and Lima") => "two_calls",
            () if has("-3°C, snow") => "answer",
            () => "call",
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conformance");
        let stream = std::fs::read(folder.join(self.family).join(format!("{name}.sse"))).unwrap();
        ResponseTemplate::new(200).set_body_raw(stream, "text/event-stream")
    }
}

#[tokio::test]
async fn every_dialect_passes_over_streams_that_are_good() {
    for dialect in Dialect::ALL {
        let server = MockServer::start().await;
        let streams = Streams { family: dialect.name() };
        Mock::given(method("POST")).respond_with(streams).mount(&server).await;
        let provider = connect(Connection::new(dialect, server.uri())).unwrap();
        let report = conformance(provider, "test").await;
        for (scenario, verdict) in &report.verdicts {
            assert_eq!(*verdict, Verdict::Passed, "{} {}", dialect.name(), scenario.name());
        }
        assert_eq!(report.verdicts.len(), Scenario::ALL.len());
        assert_eq!(server.received_requests().await.unwrap().len(), 4);
    }
}

fn counted(events: Vec<StreamEvent>) -> Answer {
    let usage = Usage { input: Some(21), output: Some(9), ..Usage::default() };
    script::with_usage(events, usage).into()
}

fn calls(calls: &[(&str, Value)]) -> Answer {
    let calls: Vec<_> = calls.iter().map(|(id, args)| (*id, "get_weather", args.clone())).collect();
    counted(script::tool_calls(&calls))
}

/// What a good model answers, one place of which `change` spoils.
async fn report(change: impl FnOnce(&mut Vec<Answer>)) -> Report {
    let (oslo, lima) = (json!({"city": "Oslo"}), json!({"city": "Lima"}));
    let mut answers = vec![
        counted(script::text("Pong")),
        calls(&[("a", oslo.clone())]),
        counted(script::text("It snows in Oslo.")),
        calls(&[("b", oslo), ("c", lima)]),
    ];
    change(&mut answers);
    conformance(Arc::new(ScriptedProvider::playing(answers)), "m").await
}

#[track_caller]
fn failed(report: &Report, scenario: Scenario, reason: &str) {
    let verdict = report.of(scenario).unwrap();
    assert!(matches!(verdict, Verdict::Failed(why) if why.contains(reason)), "{verdict}");
    assert!(!report.is_good());
}

#[tokio::test]
async fn a_good_model_passes_all_of_it() {
    let report = report(|_| {}).await;
    assert!(report.verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Passed), "{report:?}");
}

#[tokio::test]
async fn a_text_that_is_another_or_does_not_end_on_its_own_fails() {
    let other = report(|answers| answers[0] = counted(script::text("ping"))).await;
    failed(&other, Scenario::Text, "said \"ping\"");
    let cut = counted(script::cut_text("pong", FinishReason::MaxTokens));
    failed(&report(|answers| answers[0] = cut).await, Scenario::Text, "ended at the token limit");
}

#[tokio::test]
async fn a_call_that_is_none_is_another_or_breaks_the_schema_fails_and_leaves_nothing_to_answer() {
    let other = counted(script::tool_call("a", "weather", json!({"city": "Oslo"})));
    let late = counted(script::cut_calls(
        &[("a", "get_weather", json!({"city": "Oslo"}))],
        FinishReason::EndTurn,
    ));
    for (answer, reason) in [
        (counted(script::text("Cold.")), "ended with text"),
        (other, "'weather', which nobody offered"),
        (late, "ended with text"),
        (calls(&[("a", json!({"town": "Oslo"}))]), "do not follow the schema"),
        (calls(&[("a", json!({"city": 1}))]), "do not follow the schema"),
        (calls(&[("a", json!("{\"city"))]), "do not follow the schema"),
        (calls(&[("a", json!({"city": "Oslo"})), ("b", json!({"city": "Oslo"}))]), "2 came"),
    ] {
        let report = report(|answers| {
            answers[1] = answer;
            // Nothing is asked about an answer that is no call.
            answers.remove(2);
        })
        .await;
        failed(&report, Scenario::Tools, reason);
        assert!(matches!(report.of(Scenario::RoundTrip), Some(Verdict::Skipped(_))));
        assert_eq!(report.of(Scenario::Parallel), Some(&Verdict::Passed));
    }
}

#[tokio::test]
async fn an_answer_that_ignores_the_result_fails() {
    let ignorant = report(|answers| answers[2] = counted(script::text("I cannot know."))).await;
    failed(&ignorant, Scenario::RoundTrip, "does not use the result");
    let again = report(|answers| answers[2] = calls(&[("z", json!({"city": "Oslo"}))])).await;
    failed(&again, Scenario::RoundTrip, "ended with a call");
}

#[tokio::test]
async fn one_call_at_a_time_is_told_and_tolerated_and_equal_ids_are_not() {
    let serial = report(|answers| answers[3] = calls(&[("b", json!({"city": "Oslo"}))])).await;
    assert!(matches!(serial.of(Scenario::Parallel), Some(Verdict::Soft(_))), "{serial:?}");
    assert!(serial.is_good());
    let twins = [("b", json!({"city": "Oslo"})), ("b", json!({"city": "Lima"}))];
    failed(&report(|answers| answers[3] = calls(&twins)).await, Scenario::Parallel, "the id 'b'");
}

#[tokio::test]
async fn answers_without_counts_fail_and_cached_input_counts() {
    let uncounted = report(|answers| answers[0] = script::text("pong").into()).await;
    failed(&uncounted, Scenario::Usage, "1 of 4 answers");
    let cached = Usage { input: Some(0), output: Some(1), cache_read: Some(8), cache_write: None };
    let answer = script::with_usage(script::text("pong"), cached);
    assert!(report(|answers| answers[0] = answer.into()).await.is_good());
}

#[tokio::test]
async fn a_server_that_refuses_everything_fails_everything_with_its_words() {
    let refuse = || Answer::Refuse(LlmError::Config("no such model".to_owned()));
    let report = report(|answers| *answers = vec![refuse(), refuse(), refuse()]).await;
    for scenario in [Scenario::Text, Scenario::Tools, Scenario::Parallel] {
        failed(&report, scenario, "no such model");
    }
    failed(&report, Scenario::Usage, "no answer came");
}

/// Asks a real server, if its key is there. The model is `ANVIL_TEST_MODEL`, else `model`, else the
/// first one that the server lists.
async fn check_live(name: &str, model: Option<&str>) {
    let preset = llm::capability::preset(name).unwrap();
    let Some(key) = live_key(preset) else { return };
    let base_url = preset.base_url.unwrap();
    let model = match std::env::var("ANVIL_TEST_MODEL").ok().or(model.map(str::to_owned)) {
        Some(model) => model,
        None => match first_model(key.clone(), base_url).await {
            Some(model) => model,
            None => return,
        },
    };
    let target = TargetFor::new(preset.dialect, Some(name), base_url);
    let connection = Connection { key, target, ..Connection::new(preset.dialect, base_url) };
    let report = conformance(connect(connection).unwrap(), &model).await;
    for (scenario, verdict) in &report.verdicts {
        println!("{name}:{model} {:<11} {verdict}", scenario.name());
    }
    assert!(report.is_good());
}

/// The key, or none for a server that wants none; says so when one is missing.
#[expect(clippy::option_option, reason = "a missing key is not the same as a key nobody wants")]
fn live_key(preset: &Preset) -> Option<Option<ApiKey>> {
    let Some(var) = preset.api_key_env else { return Some(None) };
    match std::env::var(var) {
        Ok(key) if !key.is_empty() => Some(Some(ApiKey::new(&key).unwrap())),
        _ => {
            eprintln!("NOT TESTED: {var} is not set, so '{}' was not asked", preset.name);
            None
        }
    }
}

async fn first_model(key: Option<ApiKey>, base_url: &str) -> Option<String> {
    let listed = openai_chat::list_models(key, base_url, Duration::from_secs(5)).await;
    match listed.map(|models| models.into_iter().next()) {
        Ok(Some(model)) => Some(model),
        Ok(None) => {
            eprintln!("NOT TESTED: {base_url} lists no model");
            None
        }
        Err(error) => {
            eprintln!("NOT TESTED: {base_url} does not list its models: {error}");
            None
        }
    }
}

#[tokio::test]
#[ignore = "asks a real server: needs ANTHROPIC_API_KEY"]
async fn live_anthropic() {
    check_live("anthropic", Some("claude-sonnet-5")).await;
}

#[tokio::test]
#[ignore = "asks a real server: needs OPENAI_API_KEY"]
async fn live_openai() {
    check_live("openai", Some("gpt-5.5")).await;
}

#[tokio::test]
#[ignore = "asks a real server: needs OPENAI_API_KEY"]
async fn live_openai_chat() {
    check_live("openai-chat", Some("gpt-5.5")).await;
}

#[tokio::test]
#[ignore = "asks a real server: needs GEMINI_API_KEY"]
async fn live_gemini() {
    check_live("gemini", Some("gemini-3.1-pro-preview")).await;
}

#[tokio::test]
#[ignore = "asks a real server: needs OPENROUTER_API_KEY"]
async fn live_openrouter() {
    check_live("openrouter", Some("anthropic/claude-sonnet-5")).await;
}

#[tokio::test]
#[ignore = "asks a local server"]
async fn live_ollama() {
    check_live("ollama", None).await;
}
