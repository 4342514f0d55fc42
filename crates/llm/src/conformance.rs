//! Whether a model behind a provider does what an agent needs, found out by asking it.
//!
//! Five short conversations, judged by canonical output alone, so that one suite serves every
//! dialect, server and model.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::builder::Completion;
use crate::error::LlmError;
use crate::integrity::{Tail, validate_transcript};
use crate::provider::{Provider, collect};
use crate::stream::{FinishReason, Usage};
use crate::types::{ChatRequest, ContentBlock, Message, Role, ToolSpec};

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// A plain answer that ends on its own.
    Text,
    /// One call with arguments that follow the schema.
    Tools,
    /// The result of that call finds its way into an answer.
    RoundTrip,
    /// Two calls in one answer.
    Parallel,
    /// Token counts.
    Usage,
}

impl Scenario {
    /// All, in the order they are tried.
    pub const ALL: [Self; 5] =
        [Self::Text, Self::Tools, Self::RoundTrip, Self::Parallel, Self::Usage];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Tools => "tools",
            Self::RoundTrip => "round trip",
            Self::Parallel => "parallel",
            Self::Usage => "usage",
        }
    }
}

/// What came of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Passed,
    /// It does not, and an agent can do without it.
    Soft(String),
    /// It does not work, for this reason.
    Failed(String),
    /// It could not be tried, because of another failure.
    Skipped(&'static str),
}

impl Verdict {
    /// Whether an agent cannot work like that.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    fn of(checked: Result<(), String>) -> Self {
        checked.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("ok"),
            Self::Soft(why) => write!(f, "no: {why}"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::Skipped(why) => write!(f, "not tried: {why}"),
        }
    }
}

/// What came of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Each scenario with its verdict, in the order of [`Scenario::ALL`].
    pub verdicts: Vec<(Scenario, Verdict)>,
}

impl Report {
    /// Whether nothing failed.
    pub fn is_good(&self) -> bool {
        !self.verdicts.iter().any(|(_, verdict)| verdict.is_failure())
    }

    /// The verdict of one scenario.
    pub fn of(&self, scenario: Scenario) -> Option<&Verdict> {
        self.verdicts.iter().find(|(known, _)| *known == scenario).map(|(_, verdict)| verdict)
    }
}

/// Enough for a model that reasons before it says one word, and as little as any model allows.
const MAX_TOKENS: u32 = 4_096;

/// Tries every scenario on `model`; four requests.
pub async fn conformance(provider: Arc<dyn Provider>, model: &str) -> Report {
    let mut bench = Bench { provider, model: model.to_owned(), usages: Vec::new() };
    let text = Verdict::of(bench.text().await);
    let (tools, round_trip) = match bench.call().await {
        Ok(called) => (Verdict::Passed, Verdict::of(bench.round_trip(called).await)),
        Err(why) => (Verdict::Failed(why), Verdict::Skipped("there is no call to answer")),
    };
    let parallel = bench.parallel().await;
    let usage = Verdict::of(bench.usage());
    let verdicts = [text, tools, round_trip, parallel, usage];
    Report { verdicts: Scenario::ALL.into_iter().zip(verdicts).collect() }
}

/// The model under test and what it said about its tokens.
struct Bench {
    provider: Arc<dyn Provider>,
    model: String,
    usages: Vec<Usage>,
}

impl Bench {
    async fn ask(
        &mut self,
        messages: Vec<Arc<Message>>,
        tools: Vec<ToolSpec>,
    ) -> Result<Completion, String> {
        let request = ChatRequest {
            model: self.model.clone(),
            messages,
            tools,
            max_tokens: MAX_TOKENS,
            ..ChatRequest::default()
        };
        let answer = async { collect(self.provider.stream(&request).await?).await };
        let completion = answer.await.map_err(|error: LlmError| match error.advice() {
            Some(advice) => format!("{error}; {advice}"),
            None => error.to_string(),
        })?;
        self.usages.push(completion.usage);
        Ok(completion)
    }

    async fn text(&mut self) -> Result<(), String> {
        let prompt = said_by_user("Reply with exactly: pong");
        let completion = self.ask(vec![prompt], Vec::new()).await?;
        expect_finish(&completion, &FinishReason::EndTurn)?;
        let text = said(completion);
        expect(text.to_lowercase().contains("pong"), || {
            format!("it was to say pong and said {text:?}")
        })
    }

    /// The question and the message with the call.
    async fn call(&mut self) -> Result<[Arc<Message>; 2], String> {
        let question = said_by_user("Weather in Oslo?");
        let completion = self.ask(vec![question.clone()], vec![get_weather()]).await?;
        expect_finish(&completion, &FinishReason::ToolUse)?;
        let message = completion.commit().unwrap_or_else(|| Message::new(Role::Assistant, vec![]));
        let calls: Vec<_> = message.tool_calls().collect();
        let [call] = calls[..] else {
            return Err(format!("one call was due and {} came", calls.len()));
        };
        expect(call.name == "get_weather", || {
            format!("it called '{}', which nobody offered", call.name)
        })?;
        expect(has_city(call.arguments), || {
            format!("the arguments do not follow the schema: {}", call.arguments)
        })?;
        Ok([question, Arc::new(message)])
    }

    async fn round_trip(&mut self, called: [Arc<Message>; 2]) -> Result<(), String> {
        let id = called[1].tool_calls().next().map(|call| call.id.to_owned()).unwrap_or_default();
        let result = ContentBlock::tool_result(id, "-3°C, snow", false);
        let mut messages = Vec::from(called);
        messages.push(Arc::new(Message::new(Role::User, vec![result])));
        let completion = self.ask(messages.clone(), vec![get_weather()]).await?;
        expect_finish(&completion, &FinishReason::EndTurn)?;
        let answer = completion.commit();
        let text = answer.as_ref().map(Message::text).unwrap_or_default();
        messages.extend(answer.map(Arc::new));
        validate_transcript(&messages, Tail::Settled).map_err(|error| error.to_string())?;
        let lower = text.to_lowercase();
        // Some models write the minus sign of typographers.
        let mentions = ["-3", "\u{2212}3", "snow"].iter().any(|word| lower.contains(word));
        expect(mentions, || format!("the answer does not use the result: {text:?}"))
    }

    async fn parallel(&mut self) -> Verdict {
        let question = said_by_user("Weather in Oslo and Lima?");
        let completion = match self.ask(vec![question], vec![get_weather()]).await {
            Ok(completion) => completion,
            Err(why) => return Verdict::Failed(why),
        };
        if let Err(why) = expect_finish(&completion, &FinishReason::ToolUse) {
            return Verdict::Failed(why);
        }
        let message = completion.commit().unwrap_or_else(|| Message::new(Role::Assistant, vec![]));
        let calls: Vec<_> = message.tool_calls().collect();
        match calls[..] {
            [_] => Verdict::Soft("it makes one call at a time".to_owned()),
            [first, second] if first.id == second.id => {
                Verdict::Failed(format!("both calls have the id '{}'", first.id))
            }
            [first, second] => {
                Verdict::of(expect(has_city(first.arguments) && has_city(second.arguments), || {
                    format!(
                        "the arguments do not follow the schema: {} {}",
                        first.arguments, second.arguments
                    )
                }))
            }
            _ => Verdict::Failed(format!("two calls were due and {} came", calls.len())),
        }
    }

    /// Judges the counts of all answers that came.
    fn usage(&self) -> Result<(), String> {
        expect(!self.usages.is_empty(), || "no answer came".to_owned())?;
        let is_counted = |usage: &Usage| {
            let input = [usage.input, usage.cache_read, usage.cache_write];
            input.into_iter().flatten().sum::<u64>() > 0
                && usage.output.is_some_and(|tokens| tokens > 0)
        };
        let missing = self.usages.iter().filter(|usage| !is_counted(usage)).count();
        expect(missing == 0, || {
            format!("{missing} of {} answers came without token counts", self.usages.len())
        })
    }
}

fn said_by_user(text: &str) -> Arc<Message> {
    Arc::new(Message::user_text(text))
}

fn get_weather() -> ToolSpec {
    ToolSpec {
        name: "get_weather".to_owned(),
        description: "Tells the weather in a city right now.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The city's name."}},
            "required": ["city"],
            "additionalProperties": false,
        }),
    }
}

fn has_city(arguments: &Value) -> bool {
    arguments.get("city").is_some_and(Value::is_string)
}

fn said(completion: Completion) -> String {
    completion.commit().map(|message| message.text()).unwrap_or_default()
}

fn expect_finish(completion: &Completion, want: &FinishReason) -> Result<(), String> {
    expect(completion.finish == *want, || {
        format!("it was to end {} and ended {}", in_words(want), in_words(&completion.finish))
    })
}

/// How an answer ended, to stand behind "ended".
fn in_words(finish: &FinishReason) -> Cow<'static, str> {
    Cow::Borrowed(match finish {
        FinishReason::EndTurn => "with text",
        FinishReason::ToolUse => "with a call",
        FinishReason::MaxTokens => "at the token limit",
        FinishReason::StopSequence => "at a stop sequence",
        FinishReason::Refusal => "with a refusal",
        FinishReason::PauseTurn => "with a pause",
        FinishReason::ContextWindow => "with a full context",
        FinishReason::Other(reason) => return Cow::Owned(format!("with '{reason}'")),
    })
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
