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
use llm::providers::{anthropic, anthropic::Anthropic, openai_chat, openai_chat::OpenAiChat};
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
    provider: Box<dyn Provider>,
    model: &'static str,
}

fn target() -> Result<Target, Box<dyn Error>> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(key) = set("ANTHROPIC_API_KEY") {
        let base_url = set("ANTHROPIC_BASE_URL").unwrap_or(anthropic::BASE_URL.to_owned());
        let provider = Anthropic::with_base_url(ApiKey::new(&key)?, &base_url)?;
        return Ok(Target { provider: Box::new(provider), model: "claude-sonnet-5" });
    }
    let key = set("OPENAI_API_KEY").map(|key| ApiKey::new(&key)).transpose()?;
    let base_url = set("OPENAI_BASE_URL");
    if key.is_none() && base_url.is_none() {
        return Err("set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL".into());
    }
    let base_url = base_url.unwrap_or(openai_chat::BASE_URL.to_owned());
    let provider = OpenAiChat::with_base_url(key, &base_url)?;
    Ok(Target { provider: Box::new(provider), model: "gpt-5.5" })
}
