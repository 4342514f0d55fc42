//! Asks the model for a summary of the dialogue, beside the dialogue, and counts what that cost.

use futures::StreamExt as _;
use llm::builder::{Completion, MessageBuilder};
use llm::{ChatRequest, FinishReason, LlmError, StreamEvent, Usage};

use super::{Agent, Run};
use crate::context::compact::{self, Attempt};
use crate::session::record::Record;

/// Why there is no summary.
#[derive(Debug)]
pub(super) struct NoSummary {
    /// In words.
    pub(super) why: String,
    /// Whether the request failed for another reason than its length: a later one may not.
    pub(super) is_refused: bool,
}

impl Agent {
    /// A summary, asked for at most once in each way to ask; else why there is none.
    ///
    /// Every request is counted, one that failed or was cancelled too, as far as its server told.
    pub(super) async fn summarise(
        &mut self,
        focus: Option<&str>,
        run: &mut Run,
    ) -> Result<String, NoSummary> {
        let mut why = NoSummary { why: String::new(), is_refused: false };
        for attempt in Attempt::ALL {
            if run.cancel.is_cancelled() {
                break;
            }
            let mut usage = Usage::default();
            let cancel = run.cancel.clone();
            let asked = tokio::select! {
                biased;
                () = cancel.cancelled() => None,
                asked = self.ask_for_summary(attempt, focus, &mut usage) => Some(asked),
            };
            self.count_aside(Some(&usage).filter(|usage| **usage != Usage::default()), run);
            match asked {
                None => break,
                Some(Ok(completion)) => match text_of(completion) {
                    Ok(text) => return Ok(text),
                    Err(fault) => why = NoSummary { why: fault, is_refused: false },
                },
                Some(Err(error)) => {
                    let is_refused = !error.is_context_overflow();
                    why = NoSummary { why: error.to_string(), is_refused };
                    // Another way to ask does not help against anything but length.
                    if is_refused {
                        break;
                    }
                }
            }
        }
        Err(why)
    }

    /// `usage` is what the server told so far, whatever comes of the request.
    async fn ask_for_summary(
        &self,
        attempt: Attempt,
        focus: Option<&str>,
        usage: &mut Usage,
    ) -> Result<Completion, LlmError> {
        let request = self.session.request()?;
        let is_replaced = self.session.state().stand_in().is_some();
        let request = ChatRequest {
            messages: compact::summary_request(&request.messages, is_replaced, attempt, focus),
            tools: Vec::new(),
            tool_choice: None,
            ..request.clone()
        };
        let mut stream = self.provider.stream(&request).await?;
        let mut builder = MessageBuilder::default();
        while let Some(event) = stream.next().await {
            let event = event?;
            if let StreamEvent::Usage(told) = &event {
                usage.absorb(told);
            }
            builder.push(&event)?;
        }
        builder.finish()
    }

    /// Counts a request that became no step of the dialogue. It is paid for like every other, and says nothing
    /// about the size of the context.
    pub(super) fn count_aside(&mut self, usage: Option<&Usage>, run: &mut Run) {
        let price = self.model.price.as_ref();
        run.count(usage, price);
        let Some(usage) = usage.copied() else { return };
        let cost_usd = price.and_then(|price| price.cost(&usage));
        let revision = self.session.state().revision();
        let record = Record::Usage { step: 0, revision, usage, cost_usd };
        if let Err(error) = self.session.commit(&record) {
            tracing::error!(%error, "a cost did not fit the session");
        }
    }
}

/// The summary in an answer, if it is one.
fn text_of(completion: Completion) -> Result<String, String> {
    let finish = completion.finish.clone();
    if !matches!(finish, FinishReason::EndTurn | FinishReason::StopSequence) {
        return Err(format!("the model ended its summary with {finish:?}"));
    }
    let Some(message) = completion.commit() else {
        return Err("the model answered with nothing".to_owned());
    };
    if message.tool_calls().next().is_some() {
        return Err("the model called a tool instead of writing a summary".to_owned());
    }
    match message.text() {
        text if text.trim().is_empty() => Err("the model answered with nothing".to_owned()),
        text => Ok(text),
    }
}
