//! Each request of a session begins with the bytes of the one before it, in every dialect, until something
//! is said to change what requests begin with.
//!
//! What is compared is the whole request as a server gets it: its path, then its body without the brackets
//! that close the messages. The messages stand last in every dialect, so that model, system text and tools
//! are compared with them. The one thing left out is the mark of a cached beginning on the last message,
//! which moves on with each request where a server wants it.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod answers;
#[path = "../../../llm/tests/server/mod.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::session::Opening;
use agent::session::journal::Journal;
use agent::session::record::{Meta, StampReason};
use agent::steering::Queue;
use agent::{
    Agent, AgentConfig, AgentParts, Effects, ModelRef, OnCancel, PathSet, Tool, ToolContext,
    ToolError, ToolOutput, TurnOutcome, paste,
};
use async_trait::async_trait;
use llm::providers::{Connection, connect};
use llm::{ContentBlock, Dialect, Provider};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::answers::{Says, streamed};
use self::server::{STREAM_END, STREAM_HEAD, Server, Step};
use self::support::{CONFIG, model, parts, registry};

/// How the mark on the last message stands before what closes it and the list.
const LAST_MARK: &str = r#","cache_control":{"type":"ephemeral"}}]}]}"#;

/// Shows a page; two looks at once run side by side.
struct Look {
    page: String,
}

#[async_trait]
impl Tool for Look {
    fn name(&self) -> &str {
        "look"
    }
    fn description(&self) -> &str {
        "shows a page"
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"at": {"type": "integer"}}})
    }
    fn effects(&self, _args: &Value) -> Effects {
        Effects::reads(PathSet::Workspace)
    }
    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }
    async fn call(&self, _args: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::from(self.page.clone()))
    }
}

/// A model's server, and the file of the session with it.
struct Bench {
    server: Server,
    provider: Arc<dyn Provider>,
    dir: tempfile::TempDir,
    page: String,
    model: ModelRef,
    /// What is entered while a turn runs.
    queue: Arc<Queue>,
}

impl Bench {
    async fn new(dialect: Dialect, answers: &[Says]) -> Self {
        let bodies: Vec<String> = answers.iter().map(|says| streamed(dialect, says)).collect();
        let steps: Vec<[Step<'_>; 3]> =
            bodies.iter().map(|body| [STREAM_HEAD, Step::Piece(body), STREAM_END]).collect();
        let steps: Vec<&[Step<'_>]> = steps.iter().map(|steps| &steps[..]).collect();
        let server = Server::start(&steps).await;
        let provider = connect(Connection::new(dialect, server.url())).unwrap();
        let (dir, page) = (tempfile::tempdir().unwrap(), "a page".to_owned());
        Self { server, provider, dir, page, model: model("x:m"), queue: Arc::default() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("s.jsonl")
    }

    fn begin(&self, config: AgentConfig) -> Talk {
        let meta = Meta { id: "s".into(), model: "x:m".into(), ..Meta::default() };
        let (journal, state) = Journal::create(&self.path(), meta, Arc::default()).unwrap();
        self.talk(Opening { state, journal: Some(journal), trouble: None }, config)
    }

    /// Another process goes on with the file.
    fn resume(&self) -> Talk {
        self.talk(opened(&self.path()), CONFIG)
    }

    fn talk(&self, opening: Opening, config: AgentConfig) -> Talk {
        let (parts, _events) = parts(Arc::clone(&self.provider));
        let agent = Agent::new(AgentParts {
            model: self.model.clone(),
            tools: registry([Arc::new(Look { page: self.page.clone() }) as _]),
            config: AgentConfig { system: config.system.or(Some("be brief".into())), ..config },
            opening,
            steering: Arc::clone(&self.queue) as _,
            ..parts
        });
        Talk { agent }
    }

    fn sent(&self) -> Vec<Sent> {
        self.server.requests().iter().map(|request| Sent::of(request)).collect()
    }
}

fn opened(path: &Path) -> Opening {
    let (journal, loaded) = Journal::open(path, Arc::default()).unwrap();
    Opening { state: loaded.state, journal: Some(journal), trouble: None }
}

/// A run of the session.
struct Talk {
    agent: Agent,
}

impl Talk {
    async fn say(&mut self, prompt: &str) -> TurnOutcome {
        let input = vec![ContentBlock::text(prompt)];
        self.agent.run_turn(input, CancellationToken::new()).await.unwrap()
    }

    fn revision(&self) -> u64 {
        self.agent.state().revision()
    }
}

/// A request as it came to the server.
struct Sent {
    path: String,
    body: String,
}

impl Sent {
    fn of(request: &str) -> Self {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let path = head.lines().next().unwrap().to_owned();
        Self { path, body: body.to_owned() }
    }

    /// The body up to where the next request may say more.
    fn beginning(&self) -> &str {
        match self.body.strip_suffix(LAST_MARK) {
            Some(unmarked) => unmarked,
            None => self.body.strip_suffix("]}").expect("the messages end a body"),
        }
    }

    fn begins_like(&self, earlier: &Self) -> bool {
        let is_marked = earlier.body.ends_with(LAST_MARK);
        let Some(rest) = self.body.strip_prefix(earlier.beginning()) else { return false };
        // Without its mark the earlier message ends here, and something follows.
        let goes_on = rest.starts_with(if is_marked { "}]},{" } else { "," });
        self.path == earlier.path && goes_on
    }
}

#[track_caller]
fn assert_each_begins_with_the_one_before(dialect: Dialect, sent: &[Sent]) {
    for (at, two) in sent.windows(2).enumerate() {
        let [earlier, later] = two else { unreachable!("windows of two") };
        let (earlier_body, later_body) = (&earlier.body, &later.body);
        assert!(later.begins_like(earlier), "{dialect:?} {at}:\n{earlier_body}\n{later_body}");
    }
}

#[tokio::test]
async fn each_request_begins_with_the_one_before_across_steps_turns_and_a_resume() {
    for dialect in Dialect::ALL {
        let answers = [
            Says::Calls(&["a", "b"]),
            // Some servers give the same ids again.
            Says::Calls(&["a"]),
            Says::Calls(&["c"]),
            Says::Text("I saw it."),
            Says::Calls(&["a"]),
            Says::Text("Nothing more."),
        ];
        let bench = Bench::new(dialect, &answers).await;
        // The first run ends in the middle of its work: the results are there, nobody was told them.
        let mut talk = bench.begin(AgentConfig { max_steps: 2, ..CONFIG });
        assert_eq!(talk.say("look at two pages").await, TurnOutcome::MaxSteps);
        let revision = talk.revision();
        drop(talk);
        let mut talk = bench.resume();
        // A paste is kept with marks that no model sees, and a line entered meanwhile goes with results.
        bench.queue.push("look at the margin too");
        let pasted = format!("go on with {}", paste::embed("a pasted\nnote"));
        assert_eq!(talk.say(&pasted).await, TurnOutcome::Done);
        assert_eq!(talk.say("and now?").await, TurnOutcome::Done);
        assert_eq!(talk.revision(), revision, "{dialect:?}");

        let sent = bench.sent();
        assert_eq!(sent.len(), 6);
        assert_each_begins_with_the_one_before(dialect, &sent);
        let (first, last) = (&sent[0].body, &sent[5].body);
        for fixed in ["be brief", "shows a page"] {
            assert_eq!(last.matches(fixed).count(), 1, "{dialect:?}: {last}");
        }
        assert!(
            last.contains("\"a page\"") && !first.contains("\"a page\""),
            "{dialect:?}: {last}"
        );
        assert!(last.contains("look at two pages") && last.contains("and now?"), "{last}");
        for said in ["look at the margin too", "a pasted\\nnote"] {
            assert_eq!(last.matches(said).count(), 1, "{dialect:?}: {last}");
        }
        assert!(!last.contains(paste::MARK), "{dialect:?}: {last}");
        // What the model thought goes back to it, signed or sealed, or as its server wants it.
        let thought = match dialect {
            Dialect::Anthropic | Dialect::Gemini => "c2lnbmVk",
            Dialect::OpenaiResponses => "c2VhbGVk",
            Dialect::OpenaiChat => continue,
        };
        assert_eq!(last.matches(thought).count(), 5, "{dialect:?}: {last}");
    }
}

/// What somebody wants that changes how requests begin.
#[derive(Debug, Clone, Copy)]
enum Change {
    Forgotten,
    Summarised,
    OtherModel,
    OtherInstructions,
}

#[tokio::test]
async fn what_changes_the_beginning_of_requests_raises_the_revision_of_the_context() {
    use Change::{Forgotten, OtherInstructions, OtherModel, Summarised};
    for dialect in Dialect::ALL {
        for change in [Forgotten, Summarised, OtherModel, OtherInstructions] {
            let summary = matches!(change, Summarised).then_some(Says::Text("a summary"));
            let answers: Vec<Says> = [Says::Calls(&["a", "b"]), Says::Text("I saw it.")]
                .into_iter()
                .chain(summary)
                .chain([Says::Calls(&["c"]), Says::Text("Again.")])
                .collect();
            let bench = Bench::new(dialect, &answers).await;
            let mut talk = bench.begin(CONFIG);
            talk.say("look").await;
            let revision = talk.revision();
            let before = bench.sent();
            talk = make(change, talk, &bench).await;
            assert!(talk.revision() > revision, "{dialect:?} {change:?}");
            let asked = bench.sent().len();
            talk.say("look again").await;
            let after = bench.sent().split_off(asked);
            assert_eq!((before.len(), after.len()), (2, 2));
            assert!(!after[0].begins_like(&before[1]), "{dialect:?} {change:?}");
            // From there on everything is as before.
            assert_each_begins_with_the_one_before(dialect, &after);
        }
    }
}

async fn make(change: Change, mut talk: Talk, bench: &Bench) -> Talk {
    match change {
        Change::Forgotten => talk.agent.clear(),
        Change::Summarised => {
            talk.agent.compact(None, CancellationToken::new()).await.unwrap();
        }
        Change::OtherModel => {
            talk.agent.switch_model(Arc::clone(&bench.provider), model("x:other"));
        }
        Change::OtherInstructions => {
            drop(talk);
            let config = AgentConfig { system: Some("take your time".into()), ..CONFIG };
            talk = bench.talk(opened(&bench.path()), config);
            // By itself a session keeps the instructions it began with.
            talk.agent.restamp(StampReason::Trust);
        }
    }
    talk
}

#[tokio::test]
async fn old_results_that_give_way_break_the_beginning_once() {
    for dialect in Dialect::ALL {
        let answers: Vec<Says> = (0..6)
            .map(|_| Says::Calls(&["a"]))
            .chain([Says::Calls(&["b"]), Says::Text("I saw it.")])
            .collect();
        let mut bench = Bench::new(dialect, &answers).await;
        // Six of these are more than six tenths of the window, and three of them are worth the change.
        bench.page = "a line of a long page\n".repeat(1_364);
        bench.model.context = Some(75_000);
        let mut talk = bench.begin(CONFIG);
        let revision = talk.revision();
        talk.say("look at it").await;
        assert_eq!(talk.revision(), revision + 1, "{dialect:?}");
        let sent = bench.sent();
        assert_eq!(sent.len(), 8);
        let broken: Vec<usize> =
            (1..sent.len()).filter(|at| !sent[*at].begins_like(&sent[at - 1])).collect();
        let cleared: Vec<usize> =
            (0..sent.len()).filter(|at| sent[*at].body.contains("[cleared: look")).collect();
        // The request in which they gave way is another; the one behind it begins like that.
        assert_eq!((&broken[..], &cleared[..]), (&[6][..], &[6, 7][..]), "{dialect:?}");
    }
}
