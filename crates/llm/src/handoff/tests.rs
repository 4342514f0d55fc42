//! Every pair of dialects, in the middle of a step and behind it.

use serde_json::{Value, json};

use super::*;
use crate::capability::{Effort, TargetOverrides, target};
use crate::integrity::{Tail, validate_transcript};
use crate::providers::to_wire;
use crate::types::ProviderMeta;

const SEALED: &str = "U0VBTEVE";

fn author(dialect: Dialect, model: &str) -> String {
    format!("{}:{model}", dialect.name())
}

fn reader(dialect: Dialect, foreign_calls: bool) -> Reader {
    let told = TargetOverrides { foreign_calls: Some(foreign_calls), ..TargetOverrides::NONE };
    let target = target(dialect, None, "", "new").with(&told);
    Reader { author: author(dialect, "new"), dialect, target }
}

fn meta(dialect: Dialect, data: Value) -> Option<ProviderMeta> {
    Some(ProviderMeta { provider: dialect.name().into(), data })
}

/// Reasoning as the dialect seals it.
fn reasoning(dialect: Dialect) -> ContentBlock {
    let data = match dialect {
        Dialect::Anthropic => json!({"type": "thinking", "signature": SEALED}),
        Dialect::OpenaiChat => {
            json!({"field": "reasoning", "reasoning_details": [{"signature": SEALED}]})
        }
        Dialect::OpenaiResponses => {
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEALED})
        }
        Dialect::Gemini => json!({"thoughtSignature": SEALED}),
    };
    ContentBlock::Reasoning { text: "private thought".into(), meta: meta(dialect, data) }
}

fn step(dialect: Dialect, id: &str, text: &str) -> [Arc<Message>; 2] {
    let signed = match dialect {
        Dialect::Gemini => meta(dialect, json!({"thoughtSignature": SEALED, "id": "g1"})),
        Dialect::OpenaiResponses => meta(dialect, json!({"id": "fc_1"})),
        Dialect::Anthropic | Dialect::OpenaiChat => None,
    };
    let call = ContentBlock::ToolCall {
        id: id.into(),
        name: "bash".into(),
        arguments: json!({"command": format!("run {id}")}),
        meta: signed,
    };
    let blocks = vec![reasoning(dialect), ContentBlock::text(text), call];
    let result = ContentBlock::tool_result(id, format!("output of {id}"), id == "c2");
    [
        Arc::new(Message::new(Role::Assistant, blocks).by(author(dialect, "old"))),
        Arc::new(Message::new(Role::User, vec![result])),
    ]
}

/// A finished turn of one step, and one that is in the middle of its two steps.
fn dialogue(dialect: Dialect) -> ChatRequest {
    let mut messages = vec![Arc::new(Message::user_text("begin"))];
    messages.extend(step(dialect, "c0", "I begin."));
    let answer = vec![reasoning(dialect), ContentBlock::text("Done.")];
    messages.push(Arc::new(Message::new(Role::Assistant, answer).by(author(dialect, "old"))));
    messages.push(Arc::new(Message::user_text("more")));
    messages.extend(step(dialect, "c1", ""));
    messages.extend(step(dialect, "c2", "And again."));
    ChatRequest { model: "new".into(), messages, max_tokens: 9_000, ..ChatRequest::default() }
}

/// What the reader is sent, which has to be a legal dialogue.
fn sent(req: &ChatRequest, reader: &Reader) -> (Handoff, String) {
    let handoff = prepare(req, reader);
    assert_eq!(validate_transcript(&handoff.messages, Tail::Settled), Ok(()));
    let req = ChatRequest { messages: handoff.messages.clone(), ..req.clone() };
    let wire = to_wire(reader.dialect, &req, reader.target).to_string();
    (handoff, wire)
}

fn pairs() -> impl Iterator<Item = (Dialect, Dialect)> {
    Dialect::ALL.into_iter().flat_map(|from| Dialect::ALL.map(|to| (from, to)))
}

#[test]
fn no_reasoning_and_no_state_of_another_model_is_sent_in_any_pair_of_dialects() {
    for (from, to) in pairs() {
        for foreign_calls in [true, false] {
            let (_, wire) = sent(&dialogue(from), &reader(to, foreign_calls));
            for private in [SEALED, "private thought", "rs_1", "fc_1", "\"g1\""] {
                assert!(!wire.contains(private), "{from:?} → {to:?}: {wire}");
            }
        }
    }
}

#[test]
fn where_foreign_calls_are_taken_they_stay_calls_with_their_results() {
    for (from, to) in pairs() {
        let req = dialogue(from);
        let (handoff, wire) = sent(&req, &reader(to, true));
        assert_eq!(handoff.calls_told, 0, "{from:?} → {to:?}");
        let calls = |messages: &[Arc<Message>]| -> Vec<String> {
            let calls = messages.iter().flat_map(|message| message.tool_calls());
            calls.map(|call| call.id.to_owned()).collect()
        };
        assert_eq!(calls(&handoff.messages), ["c0", "c1", "c2"]);
        for said in ["run c1", "output of c1", "And again.", "Done."] {
            assert!(wire.contains(said), "{from:?} → {to:?}: {wire}");
        }
    }
}

#[test]
fn where_they_are_refused_the_open_step_is_told_in_words_and_older_calls_stay_calls() {
    for (from, to) in pairs() {
        let (handoff, wire) = sent(&dialogue(from), &reader(to, false));
        assert_eq!(handoff.calls_told, 2, "{from:?} → {to:?}");
        let calls = handoff.messages.iter().flat_map(|message| message.tool_calls());
        assert_eq!(calls.map(|call| call.id).collect::<Vec<_>>(), ["c0"]);
        assert!(wire.contains("output of c2"), "{from:?} → {to:?}: {wire}");
        let texts: Vec<String> = handoff.messages[5..].iter().map(|m| m.text()).collect();
        assert_eq!(
            texts,
            [
                CALLED,
                "[The model before you called the tool bash with {\"command\":\"run c1\"}. It \
                 answered:]\noutput of c1\n[That was all of it.]",
                "And again.",
                "[The model before you called the tool bash with {\"command\":\"run c2\"}. It failed \
                 with:]\noutput of c2\n[That was all of it.]",
            ]
        );
    }
}

#[test]
fn a_model_gets_its_own_dialogue_as_it_is() {
    for dialect in Dialect::ALL {
        let req = dialogue(dialect);
        for foreign_calls in [true, false] {
            let own = Reader { author: author(dialect, "old"), ..reader(dialect, foreign_calls) };
            let handoff = prepare(&req, &own);
            let shared = handoff.messages.iter().zip(&req.messages).all(|(a, b)| Arc::ptr_eq(a, b));
            assert!(shared && handoff.messages.len() == req.messages.len(), "{dialect:?}");
            assert_eq!(handoff.calls_told, 0);
        }
    }
}

#[test]
fn a_finished_turn_is_told_in_words_nowhere() {
    for (from, to) in pairs() {
        let mut req = dialogue(from);
        req.messages.truncate(4);
        assert_eq!(sent(&req, &reader(to, false)).0.calls_told, 0);
        req.messages.push(Arc::new(Message::user_text("go on")));
        assert_eq!(sent(&req, &reader(to, false)).0.calls_told, 0);
    }
}

#[test]
fn in_a_step_of_two_models_each_gets_its_own_calls_back_as_calls() {
    let (old, new) = (Dialect::Gemini, Dialect::Anthropic);
    let mut req = dialogue(old);
    let [call, result] = step(new, "c3", "Mine.");
    let mine = Message::new(Role::Assistant, call.content().to_vec()).by(author(new, "new"));
    req.messages.extend([Arc::new(mine), result]);
    let (handoff, wire) = sent(&req, &reader(new, false));
    assert_eq!(handoff.calls_told, 2);
    assert!(wire.contains(SEALED) && wire.contains("\"tool_use\""), "{wire}");
    let back = Reader { author: author(old, "old"), ..reader(old, false) };
    let (handoff, wire) = sent(&req, &back);
    assert_eq!(handoff.calls_told, 1);
    assert!(wire.contains("run c3") && wire.contains(SEALED), "{wire}");
}

#[test]
fn a_model_with_a_budget_minds_foreign_calls_only_while_it_thinks() {
    let row = target(Dialect::Anthropic, None, "", "claude-haiku-4-5");
    let reader = Reader { target: row, ..reader(Dialect::Anthropic, false) };
    let told =
        |effort| prepare(&ChatRequest { effort, ..dialogue(Dialect::Gemini) }, &reader).calls_told;
    assert_eq!(told(None), 0);
    assert_eq!(told(Some(Effort::None)), 0);
    assert_eq!(told(Some(Effort::Low)), 2);
}

#[test]
fn a_message_from_before_there_were_authors_is_judged_by_the_state_in_it() {
    for (from, to) in pairs() {
        let mut req = dialogue(from);
        for message in &mut req.messages {
            *message = Arc::new(Message::new(message.role(), message.content().to_vec()));
        }
        let calls_told = prepare(&req, &reader(to, false)).calls_told;
        assert_eq!(calls_told, if from == to { 0 } else { 2 }, "{from:?} → {to:?}");
    }
}

#[test]
fn pictures_and_later_words_of_the_user_follow_what_is_told() {
    let mut req = dialogue(Dialect::OpenaiChat);
    let picture = crate::types::ImageData { media_type: "image/png".into(), data: "AA==".into() };
    let result = ContentBlock::ToolResult {
        call_id: "c2".into(),
        content: "see".into(),
        is_error: false,
        images: vec![picture.clone()],
    };
    req.messages.pop();
    let last = vec![result, ContentBlock::text("and?")];
    req.messages.push(Arc::new(Message::new(Role::User, last)));
    let (handoff, _) = sent(&req, &reader(Dialect::Anthropic, false));
    let blocks = handoff.messages.last().unwrap().content();
    assert!(matches!(&blocks[0], ContentBlock::Text { text, .. } if text.contains("]\nsee\n[")));
    assert_eq!(blocks[1..], [ContentBlock::Image(picture), ContentBlock::text("and?")]);
}
