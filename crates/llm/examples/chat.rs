//! The smallest program that streams an answer.
//!
//! `cargo run -p llm --example chat -- "Write a haiku about Rust" [model]`, with
//! `ANTHROPIC_API_KEY` (and `ANTHROPIC_BASE_URL`), or `OPENAI_BASE_URL` (and `OPENAI_API_KEY`) for
//! anything that speaks Chat Completions.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to a person")]

use std::env;
use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use futures::StreamExt as _;
use llm::capability;
use llm::providers::{Connection, connect};
use llm::{ApiKey, ChatRequest, LlmError, Message, Provider, StreamEvent};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match chat().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            if let Some(advice) = error.downcast_ref::<LlmError>().and_then(LlmError::advice) {
                eprintln!("{advice}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn chat() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let prompt = arguments.next().ok_or("say something: chat -- \"Write a haiku about Rust\"")?;
    let Target { provider, model } = target()?;
    let req = ChatRequest {
        model: arguments.next().unwrap_or_else(|| model.to_owned()),
        messages: vec![Arc::new(Message::user_text(prompt))],
        max_tokens: 1_024,
        ..ChatRequest::default()
    };
    let mut stream = provider.stream(&req).await?;
    while let Some(event) = stream.next().await {
        match event? {
            StreamEvent::Text { text, .. } => {
                print!("{text}");
                std::io::stdout().flush()?;
            }
            StreamEvent::Finish { reason, .. } => eprintln!("\n[{reason:?}]"),
            _ => {}
        }
    }
    Ok(())
}

struct Target {
    provider: Arc<dyn Provider>,
    model: &'static str,
}

fn target() -> Result<Target, Box<dyn Error>> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let (name, model) =
        match (set("ANTHROPIC_API_KEY"), set("OPENAI_API_KEY").or(set("OPENAI_BASE_URL"))) {
            (Some(_), _) => ("anthropic", "claude-sonnet-5"),
            (None, Some(_)) => ("openai-chat", "gpt-5.5"),
            (None, None) => {
                return Err("set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL".into());
            }
        };
    let preset = capability::preset(name).ok_or("a built-in provider")?;
    let prefix = name.split('-').next().unwrap_or_default().to_uppercase();
    let base_url = set(&format!("{prefix}_BASE_URL")).or(preset.base_url.map(str::to_owned));
    let mut connection = Connection::new(preset.dialect, base_url.unwrap_or_default());
    connection.key = set(&format!("{prefix}_API_KEY")).map(|key| ApiKey::new(&key)).transpose()?;
    Ok(Target { provider: connect(connection)?, model })
}
