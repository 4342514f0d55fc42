//! `anvil demo`: the real loop, the real tools and a real repair, with a script as the model.
//!
//! The model's side is a recording in a provider's wire format that ships in the binary and goes
//! through that provider's decoder, the way `--replay` does. Everything else happens: commands run, a file is edited in a
//! temporary folder, and at the end the project's own test decides whether the demo worked.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::agent::{AgentConfig, AgentParts, ModelRef};
use agent::permissions::ByName;
use agent::process::{self, Keep, Spec, Status};
use agent::secrets::child_env;
use agent::session::Opening;
use agent::tools::access::AccessRules;
use agent::{Agent, AllowAll, PermissionMode, Policy, TurnOutcome};
use llm::recording::Player;
use llm::{ContentBlock, Provider};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::app::{self, StartError};
use crate::exit::Exit;
use crate::headless::output_failed;
use crate::redaction;
use crate::render::text::{Audience, Text};
use crate::say::say;
use crate::signals::{self, Signals};
use crate::terminal::{self, Wishes};
use crate::ui::Ui;

/// What the model says, as a recording in a real wire format.
const SCRIPT: &str = include_str!("../assets/demo/recording.jsonl");

/// The project that is broken.
const PROJECT: [(&str, &str); 2] = [
    ("total.sh", include_str!("../assets/demo/project/total.sh")),
    ("test.sh", include_str!("../assets/demo/project/test.sh")),
];

const PROMPT: &str =
    "The test of this project fails. Find out why, repair it, and show that it passes.";

const CLOSING: &str = "\
What was real: the agent loop, the tools, the commands, the files, and the
test, which anvil itself ran again just now.
What was scripted: the model's words and calls; they are stored in the program.

To work with a real model, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start
Ollama. Then run `anvil` in your project, or `anvil -p \"what to do\"` for a
single task.
";

/// Longest time for the test that decides.
const TEST_TIME: Duration = Duration::from_secs(30);

/// Runs the demo; done only if the project's test passes afterwards.
pub(crate) async fn run(
    session_id: String,
    is_plain: bool,
    signals: &Signals,
) -> Result<Exit, StartError> {
    let project = make_project()
        .map_err(|error| StartError::Config(format!("no temporary folder can be made: {error}")))?;
    let cwd = project.path().canonicalize().map_err(|error| {
        StartError::Config(format!("{} cannot be used: {error}", project.path().display()))
    })?;
    let opening = format!(
        "A small project with a failing test was made in {} (removed at the end).\n\n> {PROMPT}\n\n",
        cwd.display()
    );
    if let Err(error) = say(&opening) {
        return Ok(output_failed(&error));
    }
    // Beside the project, so that its commands see the project alone.
    let kept = tempfile::Builder::new()
        .prefix("anvil-demo-session-")
        .tempdir()
        .map_err(|error| StartError::Config(format!("no temporary folder can be made: {error}")))?;
    let opening = app::demo_session(kept.path(), &cwd, &session_id);
    let (outcome, shown) = turn(&cwd, (&session_id, opening), is_plain, signals).await?;
    if let Err(error) = shown {
        return Ok(output_failed(&error));
    }
    if outcome != TurnOutcome::Done {
        return Ok(Exit::of(outcome, signals.stop()));
    }
    let verdict = test(&cwd, &session_id).await;
    let text = match &verdict {
        Ok(()) => format!("\nThe project's test passes.\n\n{CLOSING}"),
        Err(why) => format!("\nThe demo did not work: {why}\n"),
    };
    Ok(match (say(&text), verdict) {
        (Err(error), _) => output_failed(&error),
        (Ok(()), Ok(())) => Exit::Done,
        (Ok(()), Err(_)) => Exit::Failed,
    })
}

fn make_project() -> io::Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("anvil-demo-").tempdir()?;
    for (name, text) in PROJECT {
        fs::write(dir.path().join(name), text)?;
    }
    Ok(dir)
}

/// The turn, and whether all of it could be shown.
async fn turn(
    cwd: &Path,
    (session_id, opening): (&str, Opening),
    is_plain: bool,
    signals: &Signals,
) -> Result<(TurnOutcome, io::Result<()>), StartError> {
    let (commands, note) = app::demo_commands(cwd);
    if let Some(note) = note
        && let Err(error) = say(&format!("{note}\n\n"))
    {
        return Ok((TurnOutcome::Done, Err(error)));
    }
    let (events, receiver) = agent::channel::channel();
    let receiver = receiver.redacting(redaction::current());
    let look = terminal::look(Wishes { is_plain, is_verbose: false });
    let renderer = Text::new(io::stdout(), io::stderr(), Audience::Demo, look);
    let (_, no_questions) = mpsc::channel(1);
    let ui = Ui::start(Box::new(renderer), receiver, no_questions, signals.clone())
        .map_err(|error| StartError::Config(format!("no thread can be started: {error}")))?;
    let mut agent = Agent::new(AgentParts {
        provider: script()?,
        model: ModelRef {
            label: app::DEMO_MODEL.to_owned(),
            id: "script".to_owned(),
            ..ModelRef::default()
        },
        tools: app::builtin_tools(AccessRules::workspace(cwd), commands)?,
        // The folder is thrown away, so nothing in it needs a person's word.
        policy: Policy::of_mode(PermissionMode::Bypass),
        programs: Arc::new(ByName),
        approver: Arc::new(AllowAll),
        events: events.clone(),
        cwd: cwd.to_owned(),
        opening,
        steering: Arc::new(agent::steering::Unsteered),
        session_id: session_id.to_owned(),
        config: AgentConfig {
            max_steps: 20,
            max_wall_time: None,
            system: None,
            compact_at: AgentConfig::COMPACT_AT,
        },
    });
    signals::watch_output(signals.clone());
    let cancel = signals.begin_turn();
    let result = agent.run_turn(vec![ContentBlock::text(PROMPT)], cancel).await;
    drop((agent, events));
    // What went wrong is part of the turn's last event.
    Ok((result.unwrap_or(TurnOutcome::Failed), ui.join().await))
}

/// Runs the project's test as anvil itself, past model and tools.
async fn test(cwd: &Path, session_id: &str) -> Result<(), String> {
    let spec = Spec {
        program: "sh".into(),
        arg0: None,
        args: vec!["test.sh".into()],
        cwd: cwd.to_owned(),
        env: child_env(session_id, &[]),
        timeout: TEST_TIME,
        cancel: CancellationToken::new(),
        keep: Keep { head: 4096, tail: 4096 },
        output: None,
        descriptors: Vec::new(),
        confines: false,
        restriction: None,
    };
    let child = process::spawn(spec).map_err(|error| error.to_string())?;
    let finished = child.wait().await.map_err(|error| error.to_string())?;
    match finished.status {
        Status::Exited(0) => Ok(()),
        Status::Exited(code) => Err(format!("the project's test ends with {code}")),
        Status::Signaled(signal) => Err(format!("signal {signal} ended the project's test")),
        Status::Unknown => Err("the project's test does not end".to_owned()),
    }
}

/// A model that says what is written down.
fn script() -> Result<Arc<dyn Provider>, StartError> {
    let player = Player::new(SCRIPT).expect("the script is a recording");
    let provider = llm::providers::replay("demo", Arc::new(player));
    provider.map_err(|error| StartError::Config(error.to_string()))
}

#[cfg(test)]
mod tests {
    use llm::{ChatRequest, FinishReason, Message};

    use super::*;

    #[tokio::test]
    async fn every_answer_of_the_script_is_whole_and_only_the_last_one_ends_the_turn() {
        let script = script().unwrap();
        let request = ChatRequest {
            messages: vec![Arc::new(Message::user_text(PROMPT))],
            ..ChatRequest::default()
        };
        let mut finishes = Vec::new();
        for _ in 0..5 {
            let answer = llm::collect(script.stream(&request).await.unwrap()).await.unwrap();
            finishes.push(answer.finish);
        }
        let mut want = vec![FinishReason::ToolUse; 4];
        want.push(FinishReason::EndTurn);
        assert_eq!(finishes, want);
        let error = script.stream(&request).await.err().unwrap().to_string();
        assert_eq!(error, "the recording ends after 5 requests, and one more was made");
    }

    #[test]
    fn the_project_is_really_broken_before_the_demo() {
        let project = make_project().unwrap();
        let ran = std::process::Command::new("sh")
            .arg("test.sh")
            .current_dir(project.path())
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(1));
        let out = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(out.matches("FAIL").count(), 1, "{out}");
    }
}
