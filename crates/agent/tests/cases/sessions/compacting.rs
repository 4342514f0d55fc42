//! What compacting makes of the session of a case: by hand, in the middle of an answer, and in a window that
//! leaves no room for any dialogue.

use agent::agent::compaction::CompactError;
use agent::event::AgentEvent;
use agent::session::SystemText;
use agent::session::journal::load;
use agent::{AgentConfig, ModelRef};
use llm::testing::{Answer, ScriptedProvider, script};
use llm::{LlmError, StreamEvent};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::going_on::{GoingOn, legal};
use super::written::Written;
use super::{Damage, Expect};
use crate::agents::{self, CONFIG};
use crate::support::ensure;

/// Carries out one of the operations about compacting, and holds what comes of it to the case.
pub(super) async fn hold(written: &Written, what: &Damage, expect: &Expect) -> Result<(), String> {
    match what {
        Damage::Compact { provider } => by_hand(written, provider, expect).await,
        Damage::CompactWhileStreaming => while_streaming(written, expect).await,
        Damage::RunTurns { n, window, fixed_overhead_tokens } => {
            without_room(written, *n, (*window, *fixed_overhead_tokens), expect).await
        }
        other => Err(format!("{other:?} compacts nothing")),
    }
}

fn overflow() -> LlmError {
    let message = "prompt is too long: 9000 tokens > 2000 maximum".into();
    LlmError::Api { kind: "invalid_request_error".into(), message, status: None }
}

async fn by_hand(written: &Written, provider: &str, expect: &Expect) -> Result<(), String> {
    let answer = || match provider {
        "answers 400 context overflow to the summary request" => Ok(Answer::Refuse(overflow())),
        "answers with a tool call" => {
            Ok(Answer::Events(script::tool_call("s", "bash", json!({"command": "ls"}))))
        }
        other => Err(format!("the adapter does not know a provider that {other}")),
    };
    let answers = (0..9).map(|_| answer()).collect::<Result<Vec<_>, _>>()?;
    let mut going_on = GoingOn::answered(written.path(), answers)?;
    let before = going_on.agent.transcript().to_vec();
    let revision = going_on.agent.state().revision();
    let error = match going_on.agent.compact(None, CancellationToken::new()).await {
        Err(error @ CompactError::Failed(_)) => error.to_string(),
        other => return Err(format!("compacting gave {other:?}")),
    };
    let attempts = going_on.provider.asked();
    let most = expect.attempts_max.unwrap_or(usize::MAX);
    ensure((1..=most).contains(&attempts), format!("{attempts} attempts"))?;
    if let Some(hint) = &expect.message_hint {
        ensure(error.contains(hint.as_str()), format!("'{hint}' is not in: {error}"))?;
    }
    let now = going_on.agent.transcript();
    if let Some(count) = expect.failed_attempts_in_context {
        let more = now.len() - before.len();
        ensure(more == count, format!("{more} messages of attempts are in the context"))?;
    }
    if expect.context_unchanged == Some(true) {
        ensure(now == before, "the dialogue changed")?;
        ensure(going_on.agent.state().revision() == revision, "the context was replaced")?;
        let kept = load(written.path()).map_err(|error| error.to_string())?.state;
        ensure(kept.messages() == before, "another dialogue is in the file")?;
    }
    let runs = going_on.runs();
    ensure(expect.tool_runs.is_none_or(|most| runs == most), format!("a tool ran {runs} times"))
}

/// The answer that streams turns out to be too long for the server, which is what compacts in its middle.
async fn while_streaming(written: &Written, expect: &Expect) -> Result<(), String> {
    let part = StreamEvent::Text { block: 0, text: "HALF AN ANSWER".into() };
    let answers = vec![
        Answer::Break(vec![part], overflow()),
        Answer::Events(script::text("THE SUMMARY")),
        Answer::Events(script::text("the whole answer")),
    ];
    let mut going_on = GoingOn::answered(written.path(), answers)?;
    going_on.say(&"so much ".repeat(500)).await?;
    let live = going_on.agent.transcript().to_vec();
    if expect.valid_transcript == Some(true) {
        legal(&live)?;
        let told: String = live.iter().map(|message| message.text()).collect();
        ensure(told.contains("THE SUMMARY") && told.contains("the whole answer"), told.clone())?;
        ensure(!told.contains("HALF AN ANSWER"), "an answer that broke off is in the dialogue")?;
    }
    let compactions = compactions(going_on.reported().await);
    let wanted = expect.compactions;
    ensure(wanted.is_none_or(|count| count == compactions), format!("{compactions} times"))?;
    let kept = load(written.path()).map_err(|error| error.to_string())?.state;
    ensure(kept.messages() == live, "another dialogue is in the file")
}

async fn without_room(
    written: &Written,
    turns: usize,
    (window, fixed): (u64, usize),
    expect: &Expect,
) -> Result<(), String> {
    let answers = (0..2 * turns).map(|_| script::text("ok")).collect();
    let model = ModelRef { context: Some(window), ..agents::model("scripted:m") };
    let config = AgentConfig { system: Some(SystemText::from(&*"word".repeat(fixed))), ..CONFIG };
    let provider = ScriptedProvider::new(answers);
    let mut going_on = GoingOn::with(written.path(), provider, model, config)?;
    let mut told = Vec::new();
    for turn in 0..turns {
        told.extend(going_on.say(&format!("and {turn}?")).await.err());
        legal(going_on.agent.transcript())?;
    }
    if let Some(hint) = &expect.message_hint {
        let is_told = told.iter().any(|error| error.contains(hint.as_str()));
        ensure(is_told, format!("'{hint}' is not in: {told:?}"))?;
    }
    let compactions = compactions(going_on.reported().await);
    let most = expect.compactions_max.unwrap_or(usize::MAX);
    ensure(compactions <= most, format!("{compactions} times"))
}

fn compactions(events: Vec<AgentEvent>) -> usize {
    events.iter().filter(|event| matches!(event, AgentEvent::Compacted { .. })).count()
}
