//! The two forms for programs: one object at the end, or one event per line.

use std::io::{self, Write};

use agent::event::{Accounting, TurnUsage};
use agent::sanitize::json;
use agent::{AgentEvent, ErrorInfo, TurnOutcome, TurnSummary};
use llm::{Phase, Usage};
use serde::Serialize;
use serde_json::Value;

use super::Render;

/// Version of both forms.
const SCHEMA_VERSION: u32 = 1;

/// Writes one object when the turn is over.
pub(crate) struct Json<O> {
    out: O,
    session_id: String,
}

impl<O: Write> Json<O> {
    pub(crate) fn new(out: O, session_id: String) -> Self {
        Self { out, session_id }
    }
}

impl<O: Write + Send> Render for Json<O> {
    fn event(&mut self, event: &AgentEvent) -> io::Result<()> {
        // The object has no place for it, and nobody may believe that the session is kept.
        if let AgentEvent::SessionTrouble { message } = event {
            crate::complain(&format!("anvil: {message}\n"));
        }
        let AgentEvent::TurnFinished(summary) = event else { return Ok(()) };
        write_line(&mut self.out, &Report::new(summary, &self.session_id, None))
    }
}

/// Writes each event on a line of its own, as soon as it happens.
pub(crate) struct StreamJson<O> {
    out: O,
    session_id: String,
    seq: u64,
}

impl<O: Write> StreamJson<O> {
    pub(crate) fn new(out: O, session_id: String) -> Self {
        Self { out, session_id, seq: 0 }
    }
}

impl<O: Write + Send> Render for StreamJson<O> {
    fn event(&mut self, event: &AgentEvent) -> io::Result<()> {
        // That a request is on its way says little to a program; that an attempt failed does.
        if let AgentEvent::Phase(phase) = event
            && !matches!(phase, Phase::Retrying { .. })
        {
            return Ok(());
        }
        let seq = self.seq;
        self.seq += 1;
        if let AgentEvent::TurnFinished(summary) = event {
            return write_line(&mut self.out, &Report::new(summary, &self.session_id, Some(seq)));
        }
        let line = numbered(&serde_json::to_string(event)?, seq, &self.session_id);
        self.out.write_all(json(&line).as_bytes())?;
        self.out.flush()
    }
}

/// An event's JSON with `seq` and `session_id` behind its tag, and a line feed.
///
/// The tag is always the first field and its value a plain word, so the place is the first comma or
/// the closing brace.
fn numbered(event: &str, seq: u64, session_id: &str) -> String {
    let tag_end = event.find([',', '}']).expect("an event is an object with a tag");
    let (tag, rest) = event.split_at(tag_end);
    format!("{tag},\"seq\":{seq},\"session_id\":{}{rest}\n", Value::from(session_id))
}

/// What both forms say about a finished turn, in the documented order.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    schema_version: u32,
    outcome: TurnOutcome,
    text: &'a str,
    session_id: &'a str,
    model: &'a str,
    steps: u32,
    duration_ms: u64,
    usage: &'a TurnUsage,
    cost_usd: Option<f64>,
    verification: &'a Option<Value>,
    error: &'a Option<ErrorInfo>,
}

impl<'a> Report<'a> {
    fn new(summary: &'a TurnSummary, session_id: &'a str, seq: Option<u64>) -> Self {
        Self {
            kind: seq.map(|_| "turn_finished"),
            seq,
            schema_version: SCHEMA_VERSION,
            outcome: summary.outcome,
            text: &summary.text,
            session_id,
            model: &summary.model,
            steps: summary.steps,
            duration_ms: summary.duration_ms,
            usage: &summary.usage,
            cost_usd: summary.cost_usd,
            verification: &summary.verification,
            error: &summary.error,
        }
    }
}

fn write_line(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    let line = serde_json::to_string(report)? + "\n";
    out.write_all(json(&line).as_bytes())?;
    out.flush()
}

/// The end of a turn that could not begin.
pub(crate) fn never_began(outcome: TurnOutcome, error: Option<ErrorInfo>) -> AgentEvent {
    let none = Some(0);
    let counts = Usage { input: none, output: none, cache_read: none, cache_write: none };
    AgentEvent::TurnFinished(TurnSummary {
        outcome,
        text: String::new(),
        model: String::new(),
        steps: 0,
        duration_ms: 0,
        // No request was made, so nothing about them is unknown.
        usage: TurnUsage { counts, accounting: Accounting::Reported },
        cost_usd: None,
        verification: None,
        error,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn no_character_that_acts_on_a_terminal_is_printed_and_none_is_lost() {
        let text = "a\u{9b}2J\u{202e}b".to_owned();
        let line = lines(&[AgentEvent::TextDelta { text: text.clone() }]).remove(0);
        assert!(line.contains(r"a\u009b2J\u202eb"), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["text"], text);
    }

    fn summary() -> TurnSummary {
        TurnSummary {
            outcome: TurnOutcome::Done,
            text: "4\n".into(),
            model: "anthropic:m".into(),
            steps: 2,
            duration_ms: 17,
            usage: TurnUsage {
                counts: Usage { input: Some(10), output: Some(2), ..Usage::default() },
                accounting: Accounting::Reported,
            },
            cost_usd: None,
            verification: None,
            error: None,
        }
    }

    fn lines(events: &[AgentEvent]) -> Vec<String> {
        let mut out = Vec::new();
        let mut renderer = StreamJson::new(&mut out, "s-1".into());
        for event in events {
            renderer.event(event).unwrap();
        }
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_object_has_the_documented_keys_in_the_documented_order() {
        let mut out = Vec::new();
        Json::new(&mut out, "s-1".into()).event(&AgentEvent::TurnFinished(summary())).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"schema_version":1,"outcome":"done","text":"4\n","session_id":"s-1","#,
                r#""model":"anthropic:m","steps":2,"duration_ms":17,"usage":{"input_tokens":10,"#,
                r#""output_tokens":2,"cache_read_tokens":null,"cache_write_tokens":null,"#,
                r#""accounting":"reported"},"cost_usd":null,"verification":null,"error":null}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_count_that_nobody_told_is_null_and_one_of_zero_is_zero() {
        let mut told = summary();
        told.usage.counts.cache_read = Some(0);
        let end = AgentEvent::TurnFinished(told);
        let mut out = Vec::new();
        Json::new(&mut out, "s-1".into()).event(&end).unwrap();
        for text in [String::from_utf8(out).unwrap(), lines(&[end]).remove(0)] {
            assert!(text.contains(r#""cache_read_tokens":0,"cache_write_tokens":null"#), "{text}");
        }
    }

    #[test]
    fn every_line_is_numbered_without_gaps_and_names_its_session() {
        let call = AgentEvent::ToolCallStarted {
            id: "c".into(),
            name: "calculator".into(),
            args: json!({"a": 1, "text": "x,}\n"}),
        };
        let lines = lines(&[AgentEvent::StepStarted { step: 1 }, call.clone()]);
        assert_eq!(lines[0], r#"{"type":"step_started","seq":0,"session_id":"s-1","step":1}"#);
        let mut second: Value = serde_json::from_str(&lines[1]).unwrap();
        assert_eq!(second["seq"], 1);
        let fields = second.as_object_mut().unwrap();
        fields.remove("seq");
        fields.remove("session_id");
        assert_eq!(second, serde_json::to_value(&call).unwrap());
    }

    #[test]
    fn of_the_phases_of_a_request_only_a_failed_attempt_is_a_line() {
        let retrying = Phase::Retrying {
            attempt: 2,
            of: 5,
            delay: Duration::from_secs(12),
            reason: "overloaded".into(),
        };
        let phases = [Phase::Connecting, retrying, Phase::Waiting, Phase::Streaming];
        assert_eq!(
            lines(&phases.map(AgentEvent::Phase)),
            [concat!(
                r#"{"type":"phase","seq":0,"session_id":"s-1","phase":"retrying","attempt":2,"#,
                r#""of":5,"delay_ms":12000,"reason":"overloaded"}"#
            )]
        );
    }

    #[test]
    fn the_last_line_has_the_fields_of_the_object() {
        let lines = lines(&[AgentEvent::TurnFinished(summary())]);
        let mut object = Vec::new();
        Json::new(&mut object, "s-1".into()).event(&AgentEvent::TurnFinished(summary())).unwrap();
        let mut last: Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(last["type"], "turn_finished");
        let fields = last.as_object_mut().unwrap();
        fields.remove("type");
        fields.remove("seq");
        assert_eq!(last, serde_json::from_slice::<Value>(&object).unwrap());
    }

    #[test]
    fn an_event_without_fields_of_its_own_can_be_numbered() {
        assert_eq!(
            numbered(r#"{"type":"x"}"#, 3, "s"),
            "{\"type\":\"x\",\"seq\":3,\"session_id\":\"s\"}\n"
        );
    }
}
