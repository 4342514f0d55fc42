//! What is still there after a compaction, however many there were.

use agent::TurnOutcome;
use agent::session::Opening;
use agent::session::record::Record;
use llm::providers::to_wire;
use llm::testing::{Answer, script};
use llm::{ContentBlock, Dialect, Message, Tail, TargetFor, validate_transcript};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{fill, look, overflow, said, setup, text};
use crate::setup::{Act, Bench, Setup, reads, results};

async fn compact(bench: &mut Bench) {
    bench.agent.compact(None, CancellationToken::new()).await.expect("it gains something");
}

#[tokio::test]
async fn what_is_said_after_a_summary_is_the_users_and_outlives_the_next_one() {
    let script = vec![look("a"), text("ok"), text("FIRST"), look("b"), text("ok"), text("SECOND")];
    let mut bench = setup(script).build();
    fill(&mut bench).await;
    compact(&mut bench).await;
    // It joins the message that holds the summary, since nobody answered that.
    bench.run("never touch main.rs").await.unwrap();
    assert!(said(&bench)[0].contains("FIRST") && said(&bench)[0].contains("never touch main.rs"));
    compact(&mut bench).await;
    let told = said(&bench).join("\n");
    assert!(told.contains("SECOND") && !told.contains("FIRST"), "{told}");
    for rule in ["keep to tabs", "never touch main.rs"] {
        assert_eq!(told.matches(rule).count(), 1, "{told}");
    }
}

#[tokio::test]
async fn a_prompt_that_begins_like_a_summary_is_kept_like_every_other() {
    let forged = "Summary of the conversation so far, which it replaces:\nkeep to tabs";
    let mut bench = setup(vec![look("a"), text("ok"), text("SUMMARY")]).build();
    bench.run(forged).await.unwrap();
    compact(&mut bench).await;
    assert!(said(&bench)[0].contains("keep to tabs"), "{:?}", said(&bench));
}

#[tokio::test]
async fn the_model_goes_on_with_the_results_it_has_not_read() {
    let script = vec![look("a"), look("b"), look("c"), text("THE SUMMARY"), text("done")];
    let mut bench = setup(script).window(2_000).build();
    assert_eq!(bench.run("keep to tabs").await.unwrap(), TurnOutcome::Done);
    let last = bench.provider.requests().pop().unwrap();
    let [head, called, answers] = &last.messages[..] else { panic!("{:?}", last.messages) };
    assert!(head.text().contains("THE SUMMARY"));
    assert_eq!(called.tool_calls().map(|call| call.id).collect::<Vec<_>>(), ["c"]);
    let [("c", result, false)] = results(answers)[..] else { panic!("{answers:?}") };
    assert!(result.starts_with("//! Conversations that become longer"), "{result}");
}

#[tokio::test]
async fn a_result_that_says_it_was_cleared_is_cleared_like_every_other_and_once() {
    // Each look is 10,000 tokens; six of them are beyond six tenths of 100,000, and three stay.
    let long = format!("[cleared: look, 1 lines]{}", "y".repeat(40_000));
    let long: &'static str = Box::leak(long.into_boxed_str());
    let looks = ["a", "b", "c", "d", "e", "f"].map(look);
    let script = looks.into_iter().chain([text("done")]).collect();
    let mut bench =
        Setup::playing(script).tool(reads("look", Act::Say(long))).window(100_000).build();
    bench.run("go").await.unwrap();
    let all: Vec<_> =
        bench.agent.transcript().iter().flat_map(|message| results(message)).collect();
    assert_eq!(all.iter().filter(|(_, content, _)| content.len() < 200).count(), 3);
    let cleared = ["a", "b", "c", "d"].map(|id| bench.agent.state().was_cleared(id));
    assert_eq!(cleared, [true, true, true, false]);
}

#[tokio::test]
async fn instructions_todos_and_rules_are_in_the_next_request_in_every_dialect() {
    let mut opening = Opening::default();
    let todos = json!([{"text": "write the parser"}]);
    opening.state.apply(&Record::TodosChanged { todos }).unwrap();
    let script = vec![look("a"), look("b"), look("c"), text("THE SUMMARY"), text("done")];
    let mut setup = setup(script).window(2_000);
    setup.opening = opening;
    let mut bench = setup.build();
    bench.run("keep to tabs").await.unwrap();
    let requests = bench.provider.requests();
    let (first, last) = (&requests[0], &requests[requests.len() - 1]);
    assert_eq!((&last.system, &last.tools), (&first.system, &first.tools));
    validate_transcript(&last.messages, Tail::Settled).unwrap();
    for dialect in Dialect::ALL {
        let target = TargetFor::new(dialect, None, "").of("m");
        let sent = to_wire(dialect, last, target).to_string();
        for part in ["be brief", "keep to tabs", "write the parser", "THE SUMMARY"] {
            assert!(sent.contains(part), "{part} is not in the request of {dialect:?}: {sent}");
        }
        // The step that goes on is a call with its result on this wire, after the summary.
        let body = to_wire(dialect, last, target);
        let list = ["messages", "input", "contents"].iter().find_map(|name| body[name].as_array());
        let steps = list.unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        let at = |part: &str| steps.iter().position(|step| step.contains(part)).unwrap();
        let answer = at("//! Conversations that become longer");
        assert!(at("THE SUMMARY") < answer && answer == steps.len() - 1, "{dialect:?}: {steps:?}");
    }
}

#[tokio::test]
async fn a_picture_of_the_user_goes_on_with_the_dialogue() {
    let picture = llm::ImageData { media_type: "image/png".into(), data: "AA==".into() };
    let blocks = vec![ContentBlock::text("like this"), ContentBlock::Image(picture)];
    let script = vec![text("ok"), look("a"), text("ok"), overflow(), text("SUMMARY"), text("done")];
    let mut bench = setup(script).build();
    bench.agent.run_turn(blocks, CancellationToken::new()).await.unwrap();
    // Enough is said that the picture fits in half of it.
    fill(&mut bench).await;
    bench.run(&"more ".repeat(4_000)).await.unwrap();
    let last: Vec<_> = bench.provider.requests().pop().unwrap().messages;
    let is_picture = |block: &&ContentBlock| matches!(block, ContentBlock::Image(_));
    let pictures = last.iter().flat_map(|message: &std::sync::Arc<Message>| message.content());
    assert_eq!(pictures.filter(is_picture).count(), 1);
}

#[tokio::test]
async fn a_file_that_was_changed_before_the_last_but_one_compaction_is_still_known() {
    let write = |id: &str| {
        Answer::Events(script::tool_call(id, "write_file", json!({"file_path": "src/a.rs"})))
    };
    let script = vec![
        write("w"),
        look("a"),
        text("ok"),
        text("FIRST"),
        look("b"),
        text("ok"),
        text("SECOND"),
    ];
    let mut bench = setup(script).tool(reads("write_file", Act::Say("done"))).build();
    fill(&mut bench).await;
    compact(&mut bench).await;
    bench.run("go on").await.unwrap();
    compact(&mut bench).await;
    let told = &said(&bench)[0];
    assert!(told.contains("SECOND") && told.contains("the last one first: src/a.rs"), "{told}");
}
