//! Loading a file gives the session as it was when its last record was written.

use std::sync::Arc;

use agent::session::journal::{Journal, load};
use agent::session::record::{
    Basis, Change, ClearedResult, Record, ReplaceReason, StampReason, StandIn,
};
use agent::session::reduce::State;
use agent::session::{Opening, Session};
use llm::{ContentBlock, Message, Tail, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{calls, create, finished, results, says, started, user};

/// What is tried next; much of it does not fit, and then nothing changes.
#[derive(Debug, Clone)]
enum Try {
    User(String),
    Extend(String),
    Say(String),
    Call(u8),
    Start(u8),
    Finish(u8, String),
    Answer { all: bool, extra: bool },
    Clear(u8),
    Compact { part: u8, stale: bool },
    Forget,
    Model(String),
    Stamp(String),
    Todos,
    Usage(u64),
    Delivered(u8),
}

fn attempt() -> impl Strategy<Value = Try> {
    let text = "[a-zé\\n\"\\\\]{0,12}";
    prop_oneof![
        text.prop_map(Try::User),
        text.prop_map(Try::Extend),
        text.prop_map(Try::Say),
        (1u8..4).prop_map(Try::Call),
        (0u8..3).prop_map(Try::Start),
        (0u8..3, text).prop_map(|(at, text)| Try::Finish(at, text)),
        (any::<bool>(), any::<bool>()).prop_map(|(all, extra)| Try::Answer { all, extra }),
        any::<u8>().prop_map(Try::Clear),
        (any::<u8>(), any::<bool>()).prop_map(|(part, stale)| Try::Compact { part, stale }),
        Just(Try::Forget),
        text.prop_map(Try::Model),
        text.prop_map(Try::Stamp),
        Just(Try::Todos),
        any::<u64>().prop_map(Try::Usage),
        any::<u8>().prop_map(Try::Delivered),
    ]
}

fn replace(revision: u64, change: Change) -> Record {
    let (before_tokens, after_tokens) = (Some(9), None);
    let reason = ReplaceReason::Compacted;
    Record::ContextReplaced { revision, reason, change, before_tokens, after_tokens }
}

fn record(what: Try, state: &State, number: usize) -> Record {
    let id = |at: u8| {
        state
            .calls()
            .get(usize::from(at))
            .map_or_else(|| format!("none{at}"), |call| call.id.clone())
    };
    match what {
        Try::User(text) => user(&text),
        Try::Extend(text) => {
            Record::MessageExtended { content: vec![ContentBlock::text(text)], notices: vec![] }
        }
        Try::Say(text) => says(&text),
        Try::Call(count) => {
            calls(&(0..count).map(|at| format!("c{number}-{at}")).collect::<Vec<_>>())
        }
        Try::Start(at) => started(&id(at)),
        Try::Finish(at, text) => finished(&id(at), &text),
        Try::Answer { all, extra } => {
            let ids: Vec<&str> = state.calls().iter().map(|call| call.id.as_str()).collect();
            let ids = if all { &ids[..] } else { &ids[..ids.len() / 2] };
            let Record::ResultsAppended { call_ids, .. } = results(ids) else { unreachable!() };
            let (extra, notices) = match extra {
                true => (vec![ContentBlock::text("by the way")], vec![format!("n{number}")]),
                false => (vec![], vec![]),
            };
            Record::ResultsAppended { call_ids, extra, notices }
        }
        Try::Clear(at) => {
            let found: Vec<String> = state
                .messages()
                .iter()
                .flat_map(|message| message.content())
                .filter_map(|block| match block {
                    ContentBlock::ToolResult { call_id, .. } => Some(call_id.clone()),
                    _ => None,
                })
                .collect();
            let call_id = found.get(usize::from(at)).or(found.first());
            let call_id = call_id.cloned().unwrap_or_else(|| "none".to_owned());
            let cleared = vec![ClearedResult { call_id, content: "[cleared]".to_owned() }];
            replace(state.revision(), Change::Results { cleared })
        }
        Try::Compact { part, stale } => {
            let revision = state.revision() + u64::from(stale);
            let upto = usize::from(part) % (state.messages().len() + 2);
            let messages = vec![
                Arc::new(Message::user_text("so far")),
                Arc::new(Message::assistant_text("yes")),
            ];
            let stand_in = (part % 2 == 0).then(|| StandIn {
                blocks: 1,
                said: vec![0..1, 1..1],
                files: vec![format!("f{part}")],
            });
            replace(revision, Change::Head { upto, messages, stand_in })
        }
        Try::Forget => {
            let upto = state.messages().len();
            replace(state.revision(), Change::Head { upto, messages: vec![], stand_in: None })
        }
        Try::Model(model) => Record::ModelChanged { model },
        Try::Stamp(text) => {
            let basis = Some(Basis { sandbox: text.clone(), repository: None });
            Record::SystemStamped { text, digest: "d".into(), reason: StampReason::Trust, basis }
        }
        Try::Todos => Record::TodosChanged { todos: json!([{"text": "x"}]) },
        Try::Usage(input) => {
            let usage = Usage { input: Some(input), ..Usage::default() };
            Record::Usage { step: 1, revision: state.revision(), usage, cost_usd: Some(0.25) }
        }
        Try::Delivered(id) => Record::MessageExtended {
            content: vec![ContentBlock::text("psst")],
            notices: vec![format!("d{id}")],
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn replaying_the_file_equals_the_live_state_after_each_record(
        tries in prop::collection::vec(attempt(), 1..40)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, mut state) = create(dir.path());
        for (number, what) in tries.into_iter().enumerate() {
            let record = record(what, &state, number);
            let before = state.clone();
            if let Err(error) = state.apply(&record) {
                prop_assert!(state == before, "{error}: {record:?}");
                continue;
            }
            journal.append(&record).unwrap();
            let loaded = load(journal.path()).unwrap();
            prop_assert!(loaded.state == state, "{record:?}");
            llm::validate_transcript(state.messages(), Tail::MayBePending)
                .or_else(|error| if state.messages().is_empty() { Ok(()) } else { Err(error) })
                .map_err(|error| TestCaseError::fail(format!("{error}: {record:?}")))?;
        }
    }
}

#[test]
fn merged_user_text_survives_a_restart_exactly_once() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, state) = create(dir.path());
    let path = journal.path().to_owned();
    let opening = Opening { state, journal: Some(journal), trouble: None };
    let mut session = Session::new(opening, Vec::new());
    session.add_user(vec![ContentBlock::text("first ")]).unwrap();
    session.add_user(vec![ContentBlock::text("second")]).unwrap();
    drop(session);
    let (journal, loaded) = Journal::open(&path, Arc::default()).unwrap();
    let opening = Opening { state: loaded.state, journal: Some(journal), trouble: None };
    let session = Session::new(opening, Vec::new());
    assert_eq!(session.messages().len(), 1);
    assert_eq!(session.messages()[0].text(), "first second");
    assert_eq!(session.request().unwrap().messages, session.messages());
}

#[test]
fn a_file_of_the_first_version_loads_for_ever() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session/version-1.jsonl");
    let loaded = load(path.as_ref()).unwrap();
    let told: Vec<String> = loaded.state.messages().iter().map(|message| message.text()).collect();
    assert_eq!(told, ["The summary.", "Yes.", "and now?"]);
    assert_eq!((loaded.records, loaded.left_out), (19, 1));
    assert_eq!(loaded.state.model(), Some("other:n"));
    assert_eq!(loaded.state.system().unwrap().as_ref(), "Be brief.");
    assert_eq!(loaded.state.cost_usd(), Some(0.5));
    assert!(loaded.state.was_delivered("n1") && loaded.state.turns() == 1);
    // What nobody told then is all of the message.
    assert_eq!(loaded.state.stand_in().map(|stand_in| stand_in.blocks), Some(1));
    assert!(loaded.state.stand_in().unwrap().said.is_empty());
}

proptest! {
    #[test]
    fn numbers_come_back_to_the_last_bit(bits in any::<u64>(), cost in 0.0f64..1e6) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, mut state) = create(dir.path());
        let usage = Usage::default();
        for record in [
            Record::TodosChanged { todos: json!(number) },
            Record::Usage { step: 1, revision: 0, usage, cost_usd: Some(cost) },
        ] {
            state.apply(&record).unwrap();
            journal.append(&record).unwrap();
        }
        prop_assert!(load(journal.path()).unwrap().state == state, "{number:e} {cost:e}");
    }
}

/// A list in a list in a list, as deep as an answer may be: what is deeper was no call.
fn deepest() -> Value {
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let read = |depth| serde_json::from_str::<Value>(&deep(depth)).ok();
    (1..=256).rev().find_map(read).unwrap()
}

#[test]
fn whatever_depth_a_model_nests_its_arguments_to_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let secret = "sk-test-0123456789abcdef0123";
    let path = dir.path().join("s.jsonl");
    let redactor = Arc::new(agent::secrets::Redactor::new([("KEY", secret)]));
    let (mut journal, mut state) = Journal::create(&path, super::meta(), redactor).unwrap();
    let call = |id: &str, arguments| {
        let (id, name) = (id.to_owned(), "t".to_owned());
        ContentBlock::ToolCall { id, name, arguments, meta: None }
    };
    let message = |blocks| Arc::new(Message::new(llm::Role::Assistant, blocks));
    let record = Record::MessageAppended {
        message: message(vec![call("c", json!({ "a \\\" [": deepest()[0] }))]),
        notices: Vec::new(),
    };
    for record in [user("q"), record, finished_early("c"), results(&["c"]), says("a")] {
        state.apply(&record).unwrap();
        journal.append(&record).unwrap();
    }
    assert!(load(&path).unwrap().state == state);
    let kept = vec![Arc::new(Message::user_text("so far")), Arc::clone(&state.messages()[1])];
    let upto = 2;
    let compacted =
        replace(state.revision(), Change::Head { upto, messages: kept, stand_in: None });
    state.apply(&compacted).unwrap();
    journal.append(&compacted).unwrap();
    assert!(load(&path).unwrap().state == state);
    // A secret is found there too.
    let told = message(vec![call("d", json!({ "a": deepest()[0], "key": secret }))]);
    for record in [user("q"), Record::MessageAppended { message: told, notices: Vec::new() }] {
        state.apply(&record).unwrap();
        journal.append(&record).unwrap();
    }
    assert!(!std::fs::read_to_string(&path).unwrap().contains(secret));
    assert_eq!(load(&path).unwrap().state.messages().len(), state.messages().len());
}

#[test]
fn nesting_without_reason_is_damage_and_overflows_no_stack() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = create(dir.path());
    let mut text = std::fs::read_to_string(journal.path()).unwrap();
    let deep = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
    text += &format!("{{\"v\":1,\"seq\":1,\"type\":\"todos_changed\",\"todos\":{deep}}}\n");
    std::fs::write(journal.path(), text).unwrap();
    assert_eq!(load(journal.path()).unwrap_err().line(), Some(2));
}

fn finished_early(id: &str) -> Record {
    let result = ContentBlock::tool_result(id, "no", true);
    Record::ToolFinished { call_id: id.into(), result, how: agent::session::record::How::Refused }
}
