//! Whatever was said, a legal and smaller context can be made of it.

use llm::{ImageData, Tail, validate_transcript};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What one step of a made-up dialogue is.
#[derive(Debug, Clone)]
struct Step {
    said: String,
    results: Vec<(String, usize)>,
    asked: Option<String>,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zäöü€😀 \n]{0,80}",
        1 => ("[a-z€😀]{1,9}", 1usize..4_000).prop_map(|(piece, times)| piece.repeat(times)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let results = prop::collection::vec((text(), 0usize..3), 0..3);
    (text(), results, prop::option::of(text())).prop_map(|(said, results, asked)| Step {
        said,
        results,
        asked,
    })
}

/// A legal dialogue of any shape.
fn dialogue(first: &str, steps: &[Step]) -> Vec<Arc<Message>> {
    let mut messages = vec![Message::user_text(first)];
    for (number, step) in steps.iter().enumerate() {
        let id = |at: usize| format!("c{number}-{at}");
        let call = |at: usize| ContentBlock::ToolCall {
            id: id(at),
            name: "write_file".into(),
            arguments: json!({"file_path": format!("f{at}"), "content": step.said}),
            meta: None,
        };
        let calls = (0..step.results.len()).map(call);
        let said = [ContentBlock::text(&step.said)].into_iter().chain(calls).collect();
        messages.push(Message::new(Role::Assistant, said));
        let picture = ImageData { media_type: "image/png".into(), data: "AA==".into() };
        let result =
            |(at, (content, images)): (usize, &(String, usize))| ContentBlock::ToolResult {
                call_id: id(at),
                content: content.clone(),
                is_error: false,
                images: vec![picture.clone(); *images],
            };
        let mut back: Vec<ContentBlock> = step.results.iter().enumerate().map(result).collect();
        if let Some(asked) = &step.asked {
            back.push(ContentBlock::text(asked));
        }
        if back.is_empty() {
            back.push(ContentBlock::text("go on"));
        }
        messages.push(Message::new(Role::User, back));
    }
    messages.into_iter().map(Arc::new).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_legal_dialogue_can_be_made_to_fit_without_a_model(
        first in text(),
        steps in prop::collection::vec(step(), 0..12),
        most in 500u64..20_000,
        summary in text(),
    ) {
        let messages = dialogue(&first, &steps);
        validate_transcript(&messages, Tail::Settled).unwrap();
        let todos = json!([{"text": first}]);
        for message in [
            digested(&messages, Some(&todos), most),
            summarised(&summary, &messages, Some(&todos), most),
        ] {
            prop_assert!(size(&message) <= most, "{} of {most}", size(&message));
            validate_transcript(&[message], Tail::Settled).unwrap();
        }
        for attempt in Attempt::ALL {
            let request = summary_request(&messages, attempt, Some("tests"));
            validate_transcript(&request, Tail::Settled).unwrap();
        }
    }
}

fn simple(texts: &[&str]) -> Vec<Arc<Message>> {
    let steps: Vec<Step> = texts[1..]
        .iter()
        .map(|asked| Step { said: "ok".into(), results: vec![], asked: Some((*asked).to_owned()) })
        .collect();
    dialogue(texts[0], &steps)
}

#[test]
fn the_last_words_of_the_user_stay_as_they_were_said_and_in_their_order() {
    let messages = simple(&["never touch main.rs", "use tabs", "now the tests"]);
    for message in [summarised("S", &messages, None, 9_000), digested(&messages, None, 9_000)] {
        let text = message.text();
        let at = |part: &str| text.find(part).unwrap();
        assert!(at("never touch main.rs") < at("use tabs") && at("use tabs") < at("now the tests"));
    }
}

#[test]
fn a_second_compaction_does_not_take_the_first_summary_for_the_users_words() {
    let messages = simple(&["the goal"]);
    let first = summarised("FIRST", &messages, None, 9_000);
    let again =
        vec![first, Arc::new(Message::assistant_text("x")), Arc::new(Message::user_text("more"))];
    let second = summarised("SECOND", &again, None, 9_000).text();
    assert!(!second.contains("FIRST") && second.contains("more"), "{second}");
    // Without a model what the first one knew is not lost.
    assert!(digested(&again, None, 9_000).text().contains("FIRST"));
}

#[test]
fn later_attempts_ask_for_less() {
    let step = Step { said: "s".into(), results: vec![("r".repeat(9_000), 0)], asked: None };
    let messages = dialogue("first", &vec![step; 8]);
    let sizes = Attempt::ALL.map(|attempt| tokens_of(&summary_request(&messages, attempt, None)));
    assert!(sizes[0] > 2 * sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
}

#[test]
fn files_that_were_changed_are_told_from_our_own_records() {
    let step = Step { said: "s".into(), results: vec![("done".into(), 0)], asked: None };
    let text = summarised("S", &dialogue("x", &[step]), Some(&json!(["do it"])), 9_000).text();
    assert!(text.contains("changed") && text.contains("f0") && text.contains("do it"), "{text}");
}
