//! A turn and its file while both go on: what is on disk before what, and that the file is the state.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agent::channel::EventReceiver;
use agent::session::Opening;
use agent::session::journal::{Journal, load};
use agent::session::record::Record;
use agent::steering::{Notice, Source, Steering};
use agent::tools::calculator::Calculator;
use agent::{
    Agent, AgentConfig, AgentEvent, AgentParts, ApprovalDecision, Effects, ModelRef, OnCancel,
    PathSet, ReplaySafety, ScriptedApprover, Tool, ToolContext, ToolError, ToolOutput, TurnOutcome,
};
use async_trait::async_trait;
use llm::models::{Above, Price};
use llm::provider::EventStream;
use llm::testing::{ScriptedProvider, script};
use llm::{ChatRequest, ContentBlock, LlmError, Message, Provider, StreamEvent, Usage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::support::{CONFIG, model, parts, registry};
use super::{calls, create, finished, results, says, started, user};

/// Writes down what is in the session's file while it runs.
struct Looks {
    name: &'static str,
    path: PathBuf,
    effects: Effects,
    seen: Mutex<Vec<Vec<String>>>,
}

/// The type of each line, and of lines about a call its id.
fn kinds(path: &PathBuf) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| match line["call_id"].as_str() {
            Some(id) => format!("{} {id}", line["type"].as_str().unwrap()),
            None => line["type"].as_str().unwrap().to_owned(),
        })
        .collect()
}

#[async_trait]
impl Tool for Looks {
    fn name(&self) -> &str {
        self.name
    }
    fn description(&self) -> &str {
        "looks at the session's file"
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn effects(&self, _args: &Value) -> Effects {
        self.effects.clone()
    }
    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }
    async fn call(&self, args: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.seen.lock().unwrap().push(kinds(&self.path));
        if let Some(output) = &ctx.output {
            output.chunk("working\n");
        }
        if args["fails"] == true {
            return Err(ToolError::Failed("it failed".into()));
        }
        Ok(ToolOutput::from("x".repeat(1_600)))
    }
}

/// A session in a folder of its own, with a tool that looks and one that changes something.
struct Stage {
    dir: tempfile::TempDir,
    looks: Arc<Looks>,
    changes: Arc<Looks>,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let tool = |name, effects| {
            let (path, seen) = (path.clone(), Mutex::default());
            Arc::new(Looks { name, path, effects, seen })
        };
        let looks = tool("look", Effects::reads(PathSet::Workspace));
        let changes = tool("change", Effects::writes(PathSet::Workspace));
        Self { dir, looks, changes }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("s.jsonl")
    }

    fn parts(&self, provider: Arc<dyn Provider>) -> (AgentParts, EventReceiver) {
        let (parts, events) = parts(provider);
        let opening = match self.path().exists() {
            false => {
                let (journal, state) = create(self.dir.path());
                Opening { state, journal: Some(journal), trouble: None }
            }
            true => {
                let (journal, loaded) = Journal::open(&self.path(), Arc::default()).unwrap();
                Opening { state: loaded.state, journal: Some(journal), trouble: None }
            }
        };
        let calculator: Arc<dyn Tool> = Arc::new(Calculator);
        let tools: [Arc<dyn Tool>; 3] =
            [calculator, Arc::clone(&self.looks) as _, Arc::clone(&self.changes) as _];
        // The model that the file names, so that going on changes nothing by itself.
        let parts = AgentParts { model: model("p:m"), tools: registry(tools), opening, ..parts };
        (parts, events)
    }

    fn agent(&self, answers: Vec<Vec<StreamEvent>>) -> (Agent, EventReceiver) {
        let (parts, events) = self.parts(Arc::new(ScriptedProvider::new(answers)));
        (Agent::new(parts), events)
    }
}

async fn say(agent: &mut Agent, text: &str) -> TurnOutcome {
    let input = vec![ContentBlock::text(text)];
    agent.run_turn(input, CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn a_call_finds_its_own_beginning_in_the_file_and_nothing_of_the_one_after_it() {
    let stage = Stage::new();
    let batch = script::tool_calls(&[("a", "change", json!({})), ("b", "change", json!({}))]);
    let (mut agent, _events) = stage.agent(vec![batch, script::text("done")]);
    assert_eq!(say(&mut agent, "go").await, TurnOutcome::Done);
    let seen = stage.changes.seen.lock().unwrap().clone();
    let tail = |seen: &[String]| seen[seen.len() - 3..].join(", ");
    assert_eq!(tail(&seen[0]), "message_appended, usage, tool_started a");
    assert_eq!(tail(&seen[1]), "tool_started a, tool_finished a, tool_started b");
}

#[tokio::test]
async fn an_answer_in_words_alone_begins_no_call() {
    let stage = Stage::new();
    let (mut agent, _events) = stage.agent(vec![script::text("hi")]);
    assert_eq!(say(&mut agent, "hello").await, TurnOutcome::Done);
    let kinds = kinds(&stage.path());
    assert!(kinds.ends_with(&["turn_finished".to_owned()]), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "message_appended").count(), 2);
    assert!(!kinds.iter().any(|kind| kind.starts_with("tool_")), "{kinds:?}");
}

#[tokio::test]
async fn every_call_is_told_once_before_its_output_and_its_result_whatever_becomes_of_it() {
    let stage = Stage::new();
    let batch = script::tool_calls(&[
        ("runs", "change", json!({})),
        ("fails", "change", json!({"fails": true})),
        ("unknown", "nope", json!({})),
        ("lacks", "calculator", json!({"a": 1})),
        ("refused", "change", json!({})),
    ]);
    let provider = Arc::new(ScriptedProvider::new(vec![batch, script::text("done")]));
    let (parts, mut events) = stage.parts(Arc::clone(&provider) as _);
    let yes = ApprovalDecision::Allow;
    let no = ApprovalDecision::Deny { feedback: None };
    let approver = Arc::new(ScriptedApprover::new([yes.clone(), yes, no]));
    let policy = agent::permissions::Policy::of_mode(agent::permissions::PermissionMode::Default);
    let mut agent = Agent::new(AgentParts { approver, policy, ..parts });
    assert_eq!(say(&mut agent, "go").await, TurnOutcome::Done);
    drop(agent);
    let mut told = Vec::new();
    while let Some(event) = events.recv().await {
        told.extend(match event {
            AgentEvent::ToolCallStarted { id, .. } => Some(format!("{id} starts")),
            AgentEvent::ToolOutput { id, .. } => Some(format!("{id} prints")),
            AgentEvent::ToolCallFinished { id, is_error, .. } => {
                Some(format!("{id} ends {}", if is_error { "badly" } else { "well" }))
            }
            _ => None,
        });
    }
    let want = [
        "runs starts",
        "runs prints",
        "runs ends well",
        "fails starts",
        "fails prints",
        "fails ends badly",
        "unknown starts",
        "unknown ends badly",
        "lacks starts",
        "lacks ends badly",
        "refused starts",
        "refused ends badly",
    ];
    assert_eq!(told, want);
    assert_eq!(stage.changes.seen.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn going_on_twice_closes_a_call_once_and_leaves_a_clean_dialogue_alone() {
    let stage = Stage::new();
    let (mut journal, _) = create(stage.dir.path());
    for record in [user("q"), calls(&["c1".to_owned(), "c2".to_owned()]), started("c1")] {
        journal.append(&record).unwrap();
    }
    drop(journal);
    let mut lines = Vec::new();
    for (prompt, closed) in
        [("go on", ["tool_finished c1", "tool_finished c2"].as_slice()), ("more", &[])]
    {
        let before = kinds(&stage.path()).len();
        let (mut agent, _events) = stage.agent(vec![script::text("so it is")]);
        let (said, state) = (agent.transcript().to_vec(), agent.state().clone());
        assert_eq!(say(&mut agent, prompt).await, TurnOutcome::Done);
        let new = kinds(&stage.path())[before..].to_vec();
        let about: Vec<&String> = new.iter().filter(|kind| kind.starts_with("tool_")).collect();
        assert_eq!(about, closed, "{new:?}");
        assert_eq!(agent.transcript()[..said.len()], said, "what was said stays");
        assert_eq!(load(&stage.path()).unwrap().state, *agent.state());
        assert_ne!(*agent.state(), state);
        lines.push(new);
    }
    assert!(lines[0].contains(&"results_appended".to_owned()));
    assert!(!lines[1].contains(&"results_appended".to_owned()));
}

/// Holds every request against the session that its file gives at that moment.
struct Compared {
    script: ScriptedProvider,
    path: PathBuf,
    equal: Mutex<usize>,
}

#[async_trait]
impl Provider for Compared {
    fn name(&self) -> &str {
        self.script.name()
    }
    async fn stream(&self, req: &ChatRequest) -> Result<EventStream, LlmError> {
        // A summary is asked for beside the dialogue.
        if !req.tools.is_empty() {
            let state = load(&self.path).unwrap().state;
            assert_eq!(state.messages(), req.messages);
            assert_eq!(state.system().map(|text| &**text), req.system.as_deref());
            *self.equal.lock().unwrap() += 1;
        }
        self.script.stream(req).await
    }
}

/// One notice, at the first boundary at which somebody asks.
struct Once;

impl Steering for Once {
    fn pending(&self) -> Vec<Notice> {
        vec![Notice { id: "n1".into(), source: Source::Job, text: "the job is done".into() }]
    }
}

#[tokio::test]
async fn at_every_request_the_file_holds_what_is_sent_after_notices_clearing_and_compaction_too() {
    let stage = Stage::new();
    let look = |id: &str| script::tool_call(id, "look", json!({}));
    let mut answers: Vec<_> = ["a", "b", "c", "d"].into_iter().map(look).collect();
    answers.insert(3, script::text("THE SUMMARY"));
    answers.extend([script::text("done"), script::text("THE SUMMARY"), script::text("done")]);
    let script = ScriptedProvider::new(answers);
    let provider = Arc::new(Compared { script, path: stage.path(), equal: Mutex::default() });
    let (parts, mut events) = stage.parts(Arc::clone(&provider) as _);
    let mut agent = Agent::new(AgentParts {
        model: ModelRef { context: Some(2_000), ..parts.model.clone() },
        steering: Arc::new(Once),
        config: AgentConfig { system: Some("be brief".into()), ..CONFIG },
        ..parts
    });
    assert_eq!(say(&mut agent, "keep to tabs").await, TurnOutcome::Done);
    assert_eq!(load(&stage.path()).unwrap().state, *agent.state());
    assert!(agent.state().was_delivered("n1"));
    assert!(*provider.equal.lock().unwrap() >= 4);
    assert!(kinds(&stage.path()).contains(&"context_replaced".to_owned()));
    drop(agent);
    let mut compacted = 0;
    while let Some(event) = events.recv().await {
        compacted += usize::from(matches!(event, AgentEvent::Compacted { .. }));
    }
    assert!(compacted > 0);
}

#[test]
fn only_what_a_request_begins_with_counts_the_revision_up() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut state) = create(dir.path());
    let head = |revision, upto| {
        use agent::session::record::{Change, ReplaceReason};
        let messages = vec![Arc::new(Message::user_text("so far"))];
        let change = Change::Head { upto, messages, stand_in: None };
        let reason = ReplaceReason::Compacted;
        Record::ContextReplaced {
            revision,
            reason,
            change,
            before_tokens: None,
            after_tokens: None,
        }
    };
    let stamp = || {
        let reason = agent::session::record::StampReason::Sandbox;
        Record::SystemStamped { text: "be brief".into(), digest: "d".into(), reason, basis: None }
    };
    for (record, rises) in [
        (stamp(), true),
        (user("q"), false),
        (calls(&["c".to_owned()]), false),
        (started("c"), false),
        (finished("c", "ok"), false),
        (results(&["c"]), false),
        (says("a"), false),
        (Record::TodosChanged { todos: json!([]) }, false),
        (Record::ModelChanged { model: "p:n".into() }, true),
        (head(2, 4), true),
    ] {
        let before = state.revision();
        state.apply(&record).unwrap();
        assert_eq!(state.revision(), before + u64::from(rises), "{record:?}");
    }
    let stale = state.apply(&head(2, 1)).unwrap_err();
    assert_eq!(stale.to_string(), "the context is at revision 3, and this was made from 2");
}

#[tokio::test]
async fn counts_that_no_server_could_mean_end_no_session() {
    let stage = Stage::new();
    let most = Some(u64::MAX);
    let usage = Usage { input: most, output: most, cache_read: most, cache_write: most };
    let add = script::tool_call("a", "calculator", json!({"a": 1, "b": 1, "op": "add"}));
    let answers = [add, script::text("THE SUMMARY"), script::text("done"), script::text("again")];
    let answers = answers.map(|answer| script::with_usage(answer, usage)).to_vec();
    let (parts, mut events) = stage.parts(Arc::new(ScriptedProvider::new(answers)));
    let above = Some(Above {
        input_tokens: 9,
        input: 2.0,
        output: 2.0,
        cache_read: None,
        cache_write: None,
    });
    let price = Price {
        input: 1.0,
        output: 1.0,
        cache_read: Some(1.0),
        cache_write: Some(1.0),
        above,
        as_of: None,
    };
    let model = ModelRef { price: Some(price), context: Some(1 << 20), ..parts.model.clone() };
    let mut agent = Agent::new(AgentParts { model, ..parts });
    for prompt in ["go", "and again"] {
        let input = vec![ContentBlock::text(prompt)];
        drop(agent.run_turn(input, CancellationToken::new()).await);
    }
    assert_eq!(load(&stage.path()).unwrap().state, *agent.state());
    drop(agent);
    let mut finished = 0;
    while let Some(event) = events.recv().await {
        finished += usize::from(matches!(event, AgentEvent::TurnFinished(_)));
    }
    assert_eq!(finished, 2);
}
