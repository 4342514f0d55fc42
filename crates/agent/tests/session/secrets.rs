//! Secrets stay out of the file, and what only a provider can read stays as it came.

use std::fs;
use std::sync::Arc;

use agent::secrets::Redactor;
use agent::session::journal::{Journal, load};
use agent::session::record::{Change, Record, ReplaceReason};
use agent::session::reduce::CallState;
use llm::handoff::{self, Reader};
use llm::{ChatRequest, ContentBlock, Message, ProviderMeta, Role};
use serde_json::{Value, json};

use super::{calls, finished, meta, started, user};

const SECRET: &str = "sk-test-0123456789abcdef0123";

fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new([("KEY", SECRET)]))
}

fn sealed(text: &str, data: Value) -> Message {
    let meta = Some(ProviderMeta { provider: "anthropic".into(), data });
    let thought = ContentBlock::Reasoning { text: text.into(), meta };
    Message::new(Role::Assistant, vec![thought, ContentBlock::text("Done.")]).by("p:m")
}

fn appended(message: Message) -> Record {
    Record::MessageAppended { message: Arc::new(message), notices: Vec::new() }
}

#[test]
fn what_only_a_provider_can_read_comes_back_byte_for_byte_whatever_it_looks_like() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let (mut journal, mut state) = Journal::create(&path, meta(), redactor()).unwrap();
    let data =
        json!({"thoughtSignature": "sk-test-0123456789abcdef0123==", "n": 1.0, "b": [null, "é"]});
    let meta = Some(ProviderMeta { provider: "gemini".into(), data });
    let call =
        ContentBlock::ToolCall { id: "c".into(), name: "t".into(), arguments: json!({}), meta };
    let message = Arc::new(Message::new(Role::Assistant, vec![call]));
    for record in [user("q"), Record::MessageAppended { message, notices: Vec::new() }] {
        state.apply(&record).unwrap();
        journal.append(&record).unwrap();
    }
    let text = fs::read_to_string(journal.path()).unwrap();
    let line = text.lines().last().unwrap();
    let (before, after) = line.split_once("\"ts\":").unwrap();
    let stable = format!("{before}\"ts\":0{}", &after[after.find(',').unwrap()..]);
    insta::assert_snapshot!(stable);
    let loaded = load(journal.path()).unwrap().state;
    assert_eq!(loaded.messages()[1].content(), state.messages()[1].content());
}

#[test]
fn a_known_secret_is_in_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let (mut journal, _) = Journal::create(&path, meta(), redactor()).unwrap();
    for record in [
        user(&format!("use {SECRET}")),
        calls(&["c1".to_owned()]),
        started("c1"),
        finished("c1", &format!("KEY={SECRET}\n")),
    ] {
        journal.append(&record).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    let loaded = load(&path).unwrap();
    assert!(matches!(loaded.state.calls()[0].state, CallState::Finished { .. }));
}

#[test]
fn a_name_that_means_something_in_a_record_hides_no_secret_in_what_a_model_made_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let (mut journal, _) = Journal::create(&path, meta(), redactor()).unwrap();
    let mut arguments = serde_json::Map::new();
    for name in ["id", "call_id", "meta", "digest", "before", "after", "data", SECRET] {
        arguments.insert(name.to_owned(), json!({ "meta": [SECRET] }));
    }
    let (arguments, id) = (Value::Object(arguments), "c".to_owned());
    let call =
        ContentBlock::ToolCall { id, name: "t".into(), arguments: arguments.clone(), meta: None };
    journal.append(&user("q")).unwrap();
    journal.append(&appended(Message::new(Role::Assistant, vec![call]))).unwrap();
    journal.append(&Record::TodosChanged { todos: arguments.clone() }).unwrap();
    journal.append(&Record::CheckpointRecorded { id: "c".into(), data: arguments }).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    assert_eq!(load(&path).unwrap().records, 5);
}

#[test]
fn a_sealed_message_in_which_a_secret_was_said_goes_on_as_plain_words() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let (mut journal, _) = Journal::create(&path, meta(), redactor()).unwrap();
    let details =
        json!({"signature": "c2VhbGVk", "details": [{"text": format!("it is {SECRET}")}]});
    let said = sealed(&format!("The key is {SECRET}."), details);
    let whole = sealed("Nothing secret.", json!({"signature": "c2VhbGVk"}));
    let replaced = Record::ContextReplaced {
        revision: 0,
        reason: ReplaceReason::Compacted,
        change: Change::Head {
            upto: 4,
            messages: vec![Arc::new(Message::user_text("so far")), Arc::new(said.clone())],
            stand_in: None,
        },
        before_tokens: None,
        after_tokens: None,
    };
    for record in [user("q"), appended(said), user("and?"), appended(whole), replaced] {
        journal.append(&record).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(SECRET), "{text}");
    let before: Vec<&str> = text.lines().take(5).collect();
    fs::write(&path, before.join("\n") + "\n").unwrap();
    for (file_of, thoughts) in [(before.join("\n") + "\n", 1), (text.clone(), 0)] {
        fs::write(&path, file_of).unwrap();
        let messages = load(&path).unwrap().state.messages().to_vec();
        let request = ChatRequest { messages, ..ChatRequest::default() };
        let dialect = llm::Dialect::Anthropic;
        let target = llm::TargetFor::new(dialect, Some("anthropic"), "").of("m");
        let reader = Reader { author: "p:m".into(), dialect, target };
        let sent = handoff::prepare(&request, &reader).messages;
        let blocks = sent.iter().flat_map(|message| message.content());
        let found: Vec<&ContentBlock> =
            blocks.filter(|block| matches!(block, ContentBlock::Reasoning { .. })).collect();
        assert_eq!(found.len(), thoughts, "{sent:?}");
        llm::validate_transcript(&sent, llm::Tail::Settled).unwrap();
    }
}
