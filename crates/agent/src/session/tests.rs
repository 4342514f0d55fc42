//! What a session takes, refuses and sends.

use llm::Effort;
use llm::testing::ScriptedProvider;
use serde_json::json;

use super::record::How;
use super::*;

fn session() -> Session {
    Session::new(Opening::default(), Vec::new())
}

fn calls(ids: &[&str]) -> Message {
    let block = |id: &&str| ContentBlock::ToolCall {
        id: (*id).to_owned(),
        name: "t".into(),
        arguments: json!({}),
        meta: None,
    };
    Message::new(Role::Assistant, ids.iter().map(block).collect())
}

fn answer(session: &mut Session, id: &str) {
    let (call_id, result) = (id.to_owned(), ContentBlock::tool_result(id, "ok", false));
    let tool = "t".to_owned();
    let intended = Vec::new();
    session.commit(&Record::ToolStarted { call_id: call_id.clone(), tool, intended }).unwrap();
    session.commit(&Record::ToolFinished { call_id, result, how: How::Ran }).unwrap();
    session.commit_results(Vec::new(), Vec::new()).unwrap();
}

fn ids(message: &Message) -> Vec<&str> {
    message.tool_calls().map(|call| call.id).collect()
}

#[test]
fn input_after_an_unanswered_prompt_joins_it() {
    let mut session = session();
    session.add_user(vec![ContentBlock::text("one")]).unwrap();
    session.add_user(vec![ContentBlock::text("two")]).unwrap();
    assert_eq!(session.messages().len(), 1);
    assert_eq!(session.messages()[0].text(), "onetwo");
}

#[test]
fn input_never_carries_results_or_calls() {
    let error = session().add_user(vec![ContentBlock::tool_result("a", "x", false)]).unwrap_err();
    assert_eq!(error, AddUserError::NotUserContent { kind: "tool_result" });
}

#[test]
fn a_pending_call_keeps_the_request_from_being_sent() {
    let mut session = session();
    session.add_user(vec![ContentBlock::text("go")]).unwrap();
    session.commit_assistant(calls(&["a"])).unwrap();
    assert!(session.request().is_err());
    answer(&mut session, "a");
    assert_eq!(session.request().unwrap().messages.len(), 3);
}

#[test]
fn a_repeated_call_id_is_renamed_for_call_and_result_alike() {
    let mut session = session();
    session.add_user(vec![ContentBlock::text("go")]).unwrap();
    session.commit_assistant(calls(&["f:0"])).unwrap();
    answer(&mut session, "f:0");
    let second = session.commit_assistant(calls(&["f:0", "f:0"])).unwrap();
    assert_eq!(ids(&second), ["f:0-2", "f:0-3"]);
}

#[test]
fn input_is_refused_while_calls_wait_for_results() {
    let mut session = session();
    session.add_user(vec![ContentBlock::text("go")]).unwrap();
    session.commit_assistant(calls(&["a"])).unwrap();
    assert!(session.add_user(vec![ContentBlock::text("more")]).is_err());
    assert_eq!(session.messages().len(), 2);
}

#[test]
fn a_request_carries_what_the_model_is_asked_for_and_a_key_that_stays() {
    let mut session = session();
    session.add_user(vec![ContentBlock::text("go")]).unwrap();
    session.set_cache_key(&"k".repeat(70));
    let id = "m".to_owned();
    let model = ModelRef { id, max_tokens: 7, effort: Some(Effort::Low), ..ModelRef::default() };
    session.set_model(&model, &ScriptedProvider::new(Vec::new()));
    let key = |session: &Session| session.request().unwrap().cache.clone().unwrap().key;
    assert_eq!(key(&session), "k".repeat(64));
    let request = session.request().unwrap();
    let told = (request.model.as_str(), request.max_tokens, request.effort);
    assert_eq!(told, ("m", 7, Some(Effort::Low)));
    let model = ModelRef { thinking_budget: Some(9), ..ModelRef::default() };
    session.set_model(&model, &ScriptedProvider::new(Vec::new()));
    let request = session.request().unwrap();
    assert_eq!((request.effort, request.thinking_budget), (None, Some(9)));
    assert_eq!(key(&session), "k".repeat(64));
}

#[test]
fn clearing_forgets_ids_too() {
    let mut session = session();
    session.add_user(vec![ContentBlock::text("go")]).unwrap();
    session.commit_assistant(calls(&["a"])).unwrap();
    session.clear();
    session.add_user(vec![ContentBlock::text("go")]).unwrap();
    assert_eq!(ids(&session.commit_assistant(calls(&["a"])).unwrap()), ["a"]);
}
