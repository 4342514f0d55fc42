//! Questions: who is asked, what becomes of the answer, and to what exactly a yes is a yes.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agent::event::TurnOutcome;
use agent::permissions::{Effect, Rules, Written};
use agent::tools::access::{AccessRules, FileAccess};
use agent::tools::bash::Bash;
use agent::{
    ApprovalDecision, ApprovalRequest, Approver, DenyAll, Effects, OnCancel, PathSet, Scope,
    ScriptedApprover, SubjectKind, Tool, ToolContext, ToolError, ToolOutput, tools,
};
use async_trait::async_trait;
use llm::testing::script;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::setup::{Act, Probe, Setup, results, writes};

#[tokio::test]
async fn a_refused_call_never_runs_and_the_feedback_reaches_the_model() {
    let probe = writes("probe", Act::Say("ran"));
    let calls = Arc::clone(&probe.calls);
    let deny = ApprovalDecision::Deny { feedback: Some("use the other file".into()) };
    let approver = Arc::new(ScriptedApprover::new([deny]));
    let call = script::tool_call("a", "probe", json!({}));
    let mut bench = Setup::new(vec![call, script::text("ok")])
        .tool(probe)
        .asking(Arc::clone(&approver) as _)
        .build();
    bench.run("x").await.unwrap();
    let answer = results(&bench.agent.transcript()[2])[0].1.to_owned();
    assert!(answer.contains("use the other file"), "{answer}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    assert_eq!(approver.asked()[0].because.why, "probe would change files");
}

#[tokio::test]
async fn a_headless_run_is_told_the_way_forward() {
    let probe = writes("probe", Act::Say("ran"));
    let calls = Arc::clone(&probe.calls);
    let call = script::tool_call("a", "probe", json!({}));
    let mut bench =
        Setup::new(vec![call, script::text("ok")]).tool(probe).asking(Arc::new(DenyAll)).build();
    bench.run("x").await.unwrap();
    let answer = results(&bench.agent.transcript()[2])[0].1.to_owned();
    assert!(
        answer.starts_with(
            "This action requires approval, which isn't available in headless mode. \
             Re-run with --permission-mode accept-edits or add an allow rule."
        ),
        "{answer}"
    );
    assert!(answer.ends_with("--allow 'probe({})'."), "{answer}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_headless_run_that_wanted_a_command_is_told_which_mode_runs_one() {
    let command = Probe {
        name: "run",
        effects: Effects::command(),
        act: Act::Say("ran"),
        calls: Arc::default(),
    };
    let call = script::tool_call("a", "run", json!({}));
    let mut bench =
        Setup::new(vec![call, script::text("ok")]).tool(command).asking(Arc::new(DenyAll)).build();
    bench.run("x").await.unwrap();
    let answer = results(&bench.agent.transcript()[2])[0].1.to_owned();
    assert!(answer.ends_with("Commands run with --permission-mode bypass."), "{answer}");
}

#[tokio::test]
async fn a_call_allowed_for_the_session_is_not_asked_about_again() {
    let rule = r#"probe({"n":1})"#.to_owned();
    let always = ApprovalDecision::Always { rule: rule.clone(), scope: Scope::Session };
    let approver = Arc::new(ScriptedApprover::new([always]));
    let same = |id: &str| script::tool_call(id, "probe", json!({"n": 1}));
    let other = script::tool_call("c", "probe", json!({"n": 2}));
    let mut bench = Setup::new(vec![same("a"), same("b"), other, script::text("ok")])
        .tool(writes("probe", Act::Say("ran")))
        .asking(Arc::clone(&approver) as _)
        .build();
    bench.run("x").await.unwrap();
    let errors: Vec<bool> =
        [2, 4, 6].map(|n| results(&bench.agent.transcript()[n])[0].2).into_iter().collect();
    assert_eq!(errors, [false, false, true]);
    let asked = approver.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].proposals, [rule, "probe".to_owned()]);
}

/// An approver that announces the question and never answers.
struct Silent(Notify);

#[async_trait]
impl Approver for Silent {
    async fn approve(&self, _: ApprovalRequest, _: &CancellationToken) -> ApprovalDecision {
        self.0.notify_one();
        pending().await
    }
}

#[tokio::test]
async fn cancelling_an_open_question_denies_it() {
    let probe = writes("probe", Act::Say("ran"));
    let calls = Arc::clone(&probe.calls);
    let approver = Arc::new(Silent(Notify::new()));
    let call = script::tool_call("a", "probe", json!({}));
    let mut bench = Setup::new(vec![call]).tool(probe).asking(Arc::clone(&approver) as _).build();
    let cancel = CancellationToken::new();
    let asked = async {
        approver.0.notified().await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.run_with("x", cancel.clone()), asked);
    assert_eq!(outcome.unwrap(), TurnOutcome::Cancelled);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn no_rule_is_proposed_where_none_would_keep_the_question_away() {
    let mut rules = Rules::default();
    let asks = Written { text: "probe".into(), ..Written::default() };
    rules.add(Effect::Ask, asks, &[("probe", Some(SubjectKind::Name))]).unwrap();
    let approver = Arc::new(ScriptedApprover::new([ApprovalDecision::Allow]));
    let call = script::tool_call("a", "probe", json!({}));
    let mut setup = Setup::new(vec![call, script::text("ok")])
        .tool(writes("probe", Act::Say("ran")))
        .asking(Arc::clone(&approver) as _);
    setup.rules = rules;
    let mut bench = setup.build();
    bench.run("x").await.unwrap();
    let asked = approver.asked().remove(0);
    assert_eq!(asked.because.rule.as_deref(), Some("probe"));
    assert_eq!(asked.proposals, Vec::<String>::new());
}

/// A tool that may touch more from one moment to the next, and somebody who agrees at that moment.
struct Growing {
    grows: AtomicUsize,
    ran: AtomicBool,
}

/// The tool; the approver makes it grow while it is asked, as often as the number says.
struct Shifting(Arc<Growing>, AtomicUsize);

#[async_trait]
impl Tool for Growing {
    fn name(&self) -> &str {
        "growing"
    }
    fn description(&self) -> &str {
        "a tool for tests"
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn effects(&self, _args: &Value) -> Effects {
        let files = (0..=self.grows.load(Ordering::SeqCst)).map(|n| PathBuf::from(n.to_string()));
        Effects::writes(PathSet::Paths(files.collect()))
    }
    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }
    async fn call(&self, _args: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.ran.store(true, Ordering::SeqCst);
        Ok(ToolOutput::from("ran".to_owned()))
    }
}

#[async_trait]
impl Approver for Shifting {
    async fn approve(&self, _: ApprovalRequest, _: &CancellationToken) -> ApprovalDecision {
        if self.1.fetch_sub(1, Ordering::SeqCst) > 0 {
            self.0.grows.fetch_add(1, Ordering::SeqCst);
        }
        ApprovalDecision::Allow
    }
}

/// What the model reads of a call that changes `times` times while a person agrees to it, and whether
/// it ran.
async fn agreed_to_while_it_changes(times: usize) -> (String, bool) {
    let tool = Arc::new(Growing { grows: AtomicUsize::new(0), ran: AtomicBool::new(false) });
    let approver = Shifting(Arc::clone(&tool), AtomicUsize::new(times));
    let call = script::tool_call("a", "growing", json!({}));
    let setup = Setup::new(vec![call, script::text("ok")]).asking(Arc::new(approver));
    let mut bench = setup.with(Arc::clone(&tool) as _);
    bench.run("x").await.expect("the script has an answer");
    let answer = results(&bench.agent.transcript()[2])[0].1.to_owned();
    (answer, tool.ran.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_yes_to_something_else_than_what_would_run_is_asked_for_again() {
    assert_eq!(agreed_to_while_it_changes(0).await, ("ran".to_owned(), true));
    assert_eq!(agreed_to_while_it_changes(2).await, ("ran".to_owned(), true));
    let (answer, ran) = agreed_to_while_it_changes(3).await;
    assert!(!ran && answer.contains("changed each time"), "{answer}");
}

/// Changes a file while it is asked about an edit of it, and agrees.
struct Meddler(PathBuf);

#[async_trait]
impl Approver for Meddler {
    async fn approve(&self, request: ApprovalRequest, _: &CancellationToken) -> ApprovalDecision {
        assert!(request.preview.is_some_and(|diff| diff.contains("-two\n+2\n")));
        std::fs::write(&self.0, "one\ntwo\nTHREE\n").expect("the folder is the test's own");
        ApprovalDecision::Allow
    }
}

#[tokio::test]
async fn an_edit_of_a_file_that_changes_before_the_yes_is_refused_by_the_tool() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().canonicalize().unwrap().join("f.txt");
    std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
    let path = file.to_str().unwrap();
    let read = script::tool_call("a", "read_file", json!({"file_path": path}));
    let edit = json!({"file_path": path, "old_string": "two", "new_string": "2"});
    let edit = script::tool_call("b", "edit_file", edit);
    let rules = AccessRules::workspace(dir.path().canonicalize().unwrap());
    let tools = tools::builtin(FileAccess::new(rules).unwrap(), Bash::unconfined());
    let tools = tools.into_iter().filter(|tool| tool.name().ends_with("_file")).collect();
    let setup = Setup::new(vec![read, edit, script::text("ok")]);
    let mut bench = setup.asking(Arc::new(Meddler(file.clone()))).with_tools(tools);
    bench.run("x").await.unwrap();
    let (_, answer, is_error) = results(&bench.agent.transcript()[4])[0];
    assert!(is_error, "{answer}");
    assert_eq!(answer, "File changed on disk since you last read it. Read it again.");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\nTHREE\n");
}
