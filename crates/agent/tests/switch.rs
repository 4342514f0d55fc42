//! Another model goes on: what it is sent of the dialogue, and what stays in the transcript.

mod support;

use std::sync::Arc;

use agent::tools::calculator::Calculator;
use agent::{Agent, AgentConfig, AgentParts, TurnOutcome};
use llm::testing::{ScriptedProvider, script};
use llm::{
    ContentBlock, Dialect, Message, ProviderMeta, StreamEvent, Tail, TargetFor, TargetOverrides,
    validate_transcript,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::support::{CONFIG, model, parts, registry};

/// Thinks, and calls the calculator.
fn thoughtful_call(id: &str) -> Vec<StreamEvent> {
    let data = json!({"type": "thinking", "signature": "c2lnbmVk"});
    let meta = ProviderMeta { provider: Dialect::Anthropic.name().into(), data };
    let mut events = vec![
        StreamEvent::Reasoning { block: 0, text: "private thought".into() },
        StreamEvent::ReasoningDone { block: 0, meta: Some(meta) },
    ];
    events.extend(script::tool_call(id, "calculator", json!({"a": 2, "op": "add", "b": 2})));
    for event in &mut events {
        if let StreamEvent::ToolStart { block, .. } = event {
            *block = 1;
        }
    }
    events
}

fn server(script: Vec<Vec<StreamEvent>>, foreign_calls: bool) -> Arc<ScriptedProvider> {
    let told = TargetOverrides { foreign_calls: Some(foreign_calls), ..TargetOverrides::NONE };
    let target = TargetFor::new(Dialect::Anthropic, None, "").with(&told);
    Arc::new(ScriptedProvider::new(script).as_if(target))
}

/// An agent whose first turn ends at the step limit, in the middle of its calls.
async fn interrupted() -> Agent {
    let (parts, _receiver) = parts(server(vec![thoughtful_call("a")], true));
    let mut agent = Agent::new(AgentParts {
        model: model("scripted:old"),
        tools: registry([Arc::new(Calculator) as _]),
        config: AgentConfig { max_steps: 1, ..CONFIG },
        ..parts
    });
    assert_eq!(say(&mut agent, "2+2").await, TurnOutcome::MaxSteps);
    agent
}

async fn say(agent: &mut Agent, prompt: &str) -> TurnOutcome {
    let input = vec![ContentBlock::text(prompt)];
    let outcome = agent.run_turn(input, CancellationToken::new()).await.expect("a turn");
    assert_eq!(validate_transcript(agent.transcript(), Tail::Settled), Ok(()));
    outcome
}

fn kinds(message: &Message) -> Vec<&'static str> {
    message.content().iter().map(ContentBlock::kind).collect()
}

#[tokio::test]
async fn a_model_that_refuses_foreign_calls_is_told_them_in_words_and_nothing_stored_changes() {
    let mut agent = interrupted().await;
    let before = agent.transcript().to_vec();
    let next = server(vec![script::text("It was 4.")], false);
    assert_eq!(agent.switch_model(Arc::clone(&next) as _, model("scripted:new")), 1);
    assert_eq!(agent.transcript(), before);
    assert_eq!(say(&mut agent, "so?").await, TurnOutcome::Done);

    let sent = &next.requests()[0].messages;
    assert_eq!(validate_transcript(sent, Tail::Settled), Ok(()));
    assert_eq!(kinds(&sent[1]), ["text"]);
    assert_eq!(kinds(&sent[2]), ["text", "text"]);
    let told = sent[2].text();
    assert!(told.contains("calculator") && told.contains("answered:]\n4\n"), "{told}");
    assert!(told.ends_with("so?"), "{told}");

    let stored = agent.transcript();
    assert_eq!(kinds(&stored[1]), ["reasoning", "tool_call"]);
    assert_eq!(kinds(&stored[2]), ["tool_result", "text"]);
    let authors: Vec<_> = stored.iter().map(|message| message.author()).collect();
    assert_eq!(authors, [None, Some("scripted:old"), None, Some("scripted:new")]);
}

#[tokio::test]
async fn a_model_that_takes_foreign_calls_gets_them_without_the_reasoning_behind_them() {
    let mut agent = interrupted().await;
    let next = server(vec![script::text("It was 4.")], true);
    assert_eq!(agent.switch_model(Arc::clone(&next) as _, model("scripted:new")), 0);
    say(&mut agent, "so?").await;
    let sent = &next.requests()[0].messages;
    assert_eq!(kinds(&sent[1]), ["tool_call"]);
    assert_eq!(kinds(&sent[2]), ["tool_result", "text"]);
}

#[tokio::test]
async fn the_model_that_began_gets_everything_back_when_it_goes_on() {
    let mut agent = interrupted().await;
    agent.switch_model(server(Vec::new(), false), model("scripted:new"));
    let again = server(vec![script::text("It was 4.")], false);
    assert_eq!(agent.switch_model(Arc::clone(&again) as _, model("scripted:old")), 0);
    say(&mut agent, "so?").await;
    let sent = &again.requests()[0].messages;
    assert_eq!(kinds(&sent[1]), ["reasoning", "tool_call"]);
    assert_eq!(kinds(&sent[2]), ["tool_result", "text"]);
}
