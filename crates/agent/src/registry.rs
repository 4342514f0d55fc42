//! The tools on offer: names, specs, and a dispatch that always yields a result.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use llm::{ContentBlock, ToolSpec};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::secrets::{RedactStream, Redactor};
use crate::tool::{OnCancel, OutputSink, Tool, ToolContext, ToolError, ToolOutput};
use crate::truncate;

/// Most characters of one result that reach the model.
const MAX_OUTPUT_CHARS: usize = 40_000;

/// Most characters of a preview for a person.
const MAX_PREVIEW_CHARS: usize = 8_000;

/// How long a cancelled call may take to clean up before it is reported as uncertain.
const CLEANUP_GRACE: Duration = Duration::from_secs(10);

/// The set of tools a session offers, in the order the model sees them.
#[derive(Default)]
pub struct ToolRegistry {
    tools: Vec<(ToolSpec, Arc<dyn Tool>)>,
    redactor: Arc<Redactor>,
}

/// A tool that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Another tool has the name.
    #[error("a tool called '{0}' is already registered")]
    Duplicate(String),
    /// The name would be refused by a provider.
    #[error("'{0}' is not a tool name: 1 to 64 letters, digits, '_' or '-' are")]
    BadName(String),
}

/// What a dispatched call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatched {
    /// The result for the transcript; always a `ToolResult`.
    pub result: ContentBlock,
    /// What a person should see of it. Bounded.
    pub preview: String,
}

impl ToolRegistry {
    /// The same tools, whose results, errors, previews and live output hold none of the secrets that
    /// `redactor` knows.
    #[must_use]
    pub fn redacting(self, redactor: Arc<Redactor>) -> Self {
        Self { redactor, ..self }
    }

    /// What takes secrets out of all that the tools give.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Adds a tool after those already there.
    ///
    /// # Errors
    /// When the name is taken or not allowed by every provider.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.name().to_owned();
        if !is_portable_name(&name) {
            return Err(RegistryError::BadName(name));
        }
        if self.get(&name).is_some() {
            return Err(RegistryError::Duplicate(name));
        }
        let description = tool.description().to_owned();
        let input_schema = tool.input_schema();
        self.tools.push((ToolSpec { name, description, input_schema }, tool));
        Ok(())
    }

    /// The tools as the model sees them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Names in the model's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|(spec, _)| spec.name.as_str())
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|(spec, _)| spec.name == name).map(|(_, tool)| tool)
    }

    /// Runs a call and turns whatever happens into a result, a panic included.
    ///
    /// The tool runs in a task of its own: dropping this future, or cancelling `ctx.cancel`, asks it
    /// to stop but lets it finish cleaning up.
    pub async fn dispatch(
        &self,
        call_id: &str,
        name: &str,
        args: &Value,
        ctx: &ToolContext,
    ) -> Dispatched {
        let outcome = match self.get(name) {
            None => Err(ToolError::Failed(self.unknown_tool(name))),
            Some(_) if !args.is_object() => Err(ToolError::InvalidArgs(not_an_object(args))),
            Some(tool) => {
                let (ctx, live) = self.guarded(ctx);
                let outcome = run_owned(Arc::clone(tool), args.clone(), &ctx).await;
                if let Some(live) = live {
                    live.flush();
                }
                outcome
            }
        };
        self.to_result(call_id, outcome)
    }

    /// What a person should see before approving a call: all of it, but for secrets.
    pub async fn preview(&self, name: &str, args: &Value, ctx: &ToolContext) -> Option<String> {
        let (ctx, _) = self.guarded(ctx);
        let preview = self.get(name)?.preview(args, &ctx).await?;
        Some(self.redactor.redact_owned(preview))
    }

    /// The context as a tool gets it: whatever it prints goes past the redactor.
    fn guarded(&self, ctx: &ToolContext) -> (ToolContext, Option<Arc<RedactedOutput>>) {
        let redacted = |sink| Arc::new(RedactedOutput::new(&self.redactor, sink));
        let live = ctx.output.clone().map(redacted);
        let output = live.clone().map(|live| live as Arc<dyn OutputSink>);
        (ToolContext { redactor: Arc::clone(&self.redactor), output, ..ctx.clone() }, live)
    }

    fn to_result(&self, call_id: &str, outcome: Result<ToolOutput, ToolError>) -> Dispatched {
        let is_error = outcome.is_err();
        let output = outcome.unwrap_or_else(|error| ToolOutput::from(error.to_string()));
        // Before anything is cut, because half a secret is not recognised any more.
        let text = self.redactor.redact_owned(output.text);
        let content = truncate::middle(&text, MAX_OUTPUT_CHARS).into_owned();
        let display = output.display.map(|display| self.redactor.redact_owned(display));
        let shown = display.as_deref().unwrap_or(&content);
        let preview = truncate::middle(shown, MAX_PREVIEW_CHARS).into_owned();
        let result = ContentBlock::ToolResult {
            call_id: call_id.to_owned(),
            content,
            is_error,
            images: output.images,
        };
        Dispatched { result, preview }
    }

    fn unknown_tool(&self, name: &str) -> String {
        let names: Vec<&str> = self.names().collect();
        format!("Unknown tool '{name}'. Available tools: {}", names.join(", "))
    }
}

/// Live output that keeps back what may be the beginning of a secret.
struct RedactedOutput {
    stream: Mutex<RedactStream>,
    sink: Arc<dyn OutputSink>,
}

impl RedactedOutput {
    fn new(redactor: &Arc<Redactor>, sink: Arc<dyn OutputSink>) -> Self {
        Self { stream: Mutex::new(redactor.stream()), sink }
    }

    /// Passes on what was kept back, when nothing follows it any more.
    fn flush(&self) {
        self.pass_on(RedactStream::finish_str);
    }

    fn pass_on(&self, step: impl FnOnce(&mut RedactStream) -> String) {
        // The sink is called under the lock, so that pieces keep their order; it never waits.
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let text = step(&mut stream);
        if !text.is_empty() {
            self.sink.chunk(&text);
        }
    }
}

impl OutputSink for RedactedOutput {
    fn chunk(&self, text: &str) {
        self.pass_on(|stream| stream.push_str(text));
    }
}

/// Whether every provider accepts the name: `^[a-zA-Z0-9_-]{1,64}$`, the strictest common rule.
fn is_portable_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn not_an_object(args: &Value) -> String {
    let received = match args {
        // What the model sent was not JSON at all and is kept as its text.
        Value::String(raw) => raw.clone(),
        other => other.to_string(),
    };
    format!("arguments must be a JSON object. Received: {}", truncate::middle(&received, 500))
}

/// Runs the tool in a task that outlives this future, and waits for it as long as cancelling allows.
async fn run_owned(
    tool: Arc<dyn Tool>,
    args: Value,
    ctx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let name = tool.name().to_owned();
    let on_cancel = tool.on_cancel();
    let mut owned = ctx.clone();
    owned.cancel = ctx.cancel.child_token();
    let _stop_when_dropped = owned.cancel.clone().drop_guard();
    let mut task = tokio::spawn(async move { tool.call(args, &owned).await });
    tokio::select! {
        biased;
        outcome = &mut task => settle(&name, outcome),
        () = ctx.cancel.cancelled() => match tokio::time::timeout(CLEANUP_GRACE, &mut task).await {
            Ok(outcome) => settle(&name, outcome),
            Err(_) => Err(ToolError::Cancelled(abandoned(&name, on_cancel))),
        },
    }
}

fn settle(
    name: &str,
    outcome: <JoinHandle<Result<ToolOutput, ToolError>> as Future>::Output,
) -> Result<ToolOutput, ToolError> {
    outcome.unwrap_or_else(|error| {
        tracing::error!(tool = name, %error, "tool task ended abnormally");
        Err(ToolError::Failed(format!(
            "{name} crashed (a fault in anvil, not in the call). \
             It may have changed something: check before repeating it."
        )))
    })
}

fn abandoned(name: &str, on_cancel: OnCancel) -> String {
    let effect = match on_cancel {
        OnCancel::Atomic => "It either happened completely or not at all",
        OnCancel::MayBePartial => "Part of it may have happened",
    };
    format!(
        "{name} was cancelled but did not stop within {} seconds. {effect}: \
         check the state before repeating it.",
        CLEANUP_GRACE.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::tool::Effects;

    const SECRET: &str = "sk-test-0123456789abcdef0123";

    /// Answers with what it was given, or with as many letters as `repeat` asks for.
    struct Echo(&'static str);

    #[async_trait]
    impl Tool for Echo {
        fn name(&self) -> &str {
            self.0
        }
        fn description(&self) -> &str {
            "echoes"
        }
        fn input_schema(&self) -> Value {
            json!({"type": "object"})
        }
        fn effects(&self, _args: &Value) -> Effects {
            Effects::none()
        }
        fn on_cancel(&self) -> OnCancel {
            OnCancel::Atomic
        }
        async fn preview(&self, args: &Value, _ctx: &ToolContext) -> Option<String> {
            Some(args.to_string())
        }
        async fn call(&self, args: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
            for piece in args["prints"].as_array().into_iter().flatten() {
                ctx.output.as_ref().unwrap().chunk(piece.as_str().unwrap());
            }
            if let Some(why) = args["fails"].as_str() {
                return Err(ToolError::Failed(why.to_owned()));
            }
            let repeat = args["repeat"].as_u64().map(|n| usize::try_from(n).unwrap());
            Ok(ToolOutput {
                text: repeat.map_or_else(|| args.to_string(), |n| "x".repeat(n)),
                display: args["display"].as_str().map(str::to_owned),
                ..ToolOutput::default()
            })
        }
    }

    fn registry() -> ToolRegistry {
        let mut registry = ToolRegistry::default();
        registry.register(Arc::new(Echo("zeta"))).unwrap();
        registry.register(Arc::new(Echo("alpha"))).unwrap();
        registry
    }

    fn context() -> ToolContext {
        ToolContext {
            cwd: "/".into(),
            cancel: CancellationToken::new(),
            session_id: "s".into(),
            output: None,
            grants: crate::tool::Grants::default(),
            redactor: Arc::default(),
        }
    }

    async fn dispatch(name: &str, args: Value) -> (String, bool, String) {
        let redactor = Arc::new(Redactor::new([("MY_KEY", SECRET)]));
        let registry = registry().redacting(redactor);
        let dispatched = registry.dispatch("c1", name, &args, &context()).await;
        match dispatched.result {
            ContentBlock::ToolResult { call_id, content, is_error, .. } => {
                assert_eq!(call_id, "c1");
                (content, is_error, dispatched.preview)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tools_are_offered_in_the_order_they_were_registered() {
        let names: Vec<String> = registry().specs().into_iter().map(|spec| spec.name).collect();
        assert_eq!(names, ["zeta", "alpha"]);
    }

    #[test]
    fn a_name_is_taken_once() {
        let error = registry().register(Arc::new(Echo("alpha"))).unwrap_err();
        assert_eq!(error, RegistryError::Duplicate("alpha".into()));
    }

    #[test]
    fn a_name_that_some_provider_refuses_is_refused_here() {
        let long: &'static str = Box::leak("x".repeat(65).into_boxed_str());
        for name in ["", "a b", "a.b", "é", long] {
            let error = registry().register(Arc::new(Echo(name))).unwrap_err();
            assert_eq!(error, RegistryError::BadName(name.to_owned()));
        }
        let longest: &'static str = Box::leak("x".repeat(64).into_boxed_str());
        assert_eq!(registry().register(Arc::new(Echo(longest))), Ok(()));
    }

    #[tokio::test]
    async fn an_unknown_tool_lists_the_known_ones() {
        let (text, is_error, _) = dispatch("nope", json!({})).await;
        assert!(is_error);
        assert_eq!(text, "Unknown tool 'nope'. Available tools: zeta, alpha");
    }

    #[tokio::test]
    async fn arguments_that_are_no_object_are_echoed_back() {
        let (text, is_error, _) = dispatch("alpha", json!("not json")).await;
        assert!(is_error);
        assert_eq!(text, "invalid arguments: arguments must be a JSON object. Received: not json");
        let (text, ..) = dispatch("alpha", json!([1, 2])).await;
        assert!(text.ends_with("Received: [1,2]"), "{text}");
    }

    #[tokio::test]
    async fn a_long_result_is_cut_and_says_so() {
        let (text, is_error, preview) = dispatch("alpha", json!({"repeat": 1_000_000})).await;
        assert!(!is_error);
        assert!(text.chars().count() < MAX_OUTPUT_CHARS + 500);
        assert!(text.contains("cut"), "no note in the result");
        assert!(preview.chars().count() < MAX_PREVIEW_CHARS + 500);
    }

    #[tokio::test]
    async fn results_errors_and_displays_hold_no_secret() {
        let (text, _, preview) = dispatch("alpha", json!({"x": SECRET, "display": SECRET})).await;
        assert_eq!(text, r#"{"x":"«redacted:MY_KEY»","display":"«redacted:MY_KEY»"}"#);
        assert_eq!(preview, "«redacted:MY_KEY»");
        let (text, is_error, preview) = dispatch("alpha", json!({"fails": SECRET})).await;
        assert!(is_error);
        assert_eq!((text.as_str(), preview.as_str()), ("«redacted:MY_KEY»", "«redacted:MY_KEY»"));
        let (text, ..) = dispatch("alpha", json!(SECRET)).await;
        assert!(text.ends_with("Received: «redacted:MY_KEY»"), "{text}");
    }

    #[tokio::test]
    async fn a_secret_where_a_result_is_cut_leaves_no_half() {
        for before in MAX_OUTPUT_CHARS / 2 - 40..MAX_OUTPUT_CHARS / 2 + 10 {
            let filled = "x ".repeat(before / 2) + SECRET + &" y".repeat(MAX_OUTPUT_CHARS);
            let (text, ..) = dispatch("alpha", json!({ "x": filled })).await;
            assert!(text.contains("characters cut here"), "{before}");
            assert!(!text.contains("sk-t") && !text.contains("0123"), "{before}");
        }
    }

    #[tokio::test]
    async fn a_preview_for_approval_holds_no_secret() {
        let registry = registry().redacting(Arc::new(Redactor::new([("MY_KEY", SECRET)])));
        let preview = registry.preview("alpha", &json!({ "x": SECRET }), &context()).await;
        assert_eq!(preview.unwrap(), r#"{"x":"«redacted:MY_KEY»"}"#);
        assert_eq!(registry.preview("nope", &json!({}), &context()).await, None);
    }

    #[derive(Default)]
    struct Screen(Mutex<String>);

    impl OutputSink for Screen {
        fn chunk(&self, text: &str) {
            self.0.lock().unwrap().push_str(text);
        }
    }

    #[tokio::test]
    async fn live_output_holds_no_secret_wherever_its_pieces_are_cut() {
        let registry = registry().redacting(Arc::new(Redactor::new([("MY_KEY", SECRET)])));
        for cut in 0..SECRET.len() {
            let screen = Arc::new(Screen::default());
            let ctx = ToolContext { output: Some(screen.clone()), ..context() };
            let (head, tail) = SECRET.split_at(cut);
            let args = json!({"prints": [format!("a {head}"), format!("{tail} b s")]});
            registry.dispatch("c1", "alpha", &args, &ctx).await;
            assert_eq!(*screen.0.lock().unwrap(), "a «redacted:MY_KEY» b s", "{cut}");
        }
    }

    #[tokio::test]
    async fn a_person_sees_what_the_tool_made_for_the_screen() {
        let (text, _, preview) = dispatch("alpha", json!({"display": "+ new line"})).await;
        assert_eq!(preview, "+ new line");
        assert_ne!(text, preview);
    }
}
