//! What a tool is: something the model can call, which states beforehand what it may touch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use llm::ImageData;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::secrets::Redactor;
use crate::session::record::Intended;

/// A tool the model can call.
///
/// Most tools implement [`TypedTool`] instead and get this for free.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The name the model calls it by.
    fn name(&self) -> &str;

    /// What it does and when to use it; a prompt, written for the model.
    fn description(&self) -> &str;

    /// JSON Schema of the arguments; the root is an object.
    fn input_schema(&self) -> Value;

    /// What this very call may touch. Argument-dependent, and judged before anything runs.
    fn effects(&self, args: &Value) -> Effects;

    /// What is left behind when a running call is cancelled.
    fn on_cancel(&self) -> OnCancel;

    /// Whether a call that was started and never finished may simply be run again.
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Unsafe
    }

    /// The text that permission rules match: the command, the path.
    fn permission_subject(&self, _args: &Value) -> Option<String> {
        None
    }

    /// What that text is. A tool that has one says so for all its calls.
    fn subject_kind(&self) -> Option<SubjectKind> {
        None
    }

    /// What a person should see before approving the call, for example a diff. Changes nothing.
    async fn preview(&self, _args: &Value, _ctx: &ToolContext) -> Option<String> {
        None
    }

    /// What the call will make of files, as far as that can be told before it runs: who finds it
    /// unfinished compares. Changes nothing. The call looks for itself once more: until it runs there is a sync
    /// to disk, and meanwhile others may write.
    async fn intend(&self, _args: &Value, _ctx: &ToolContext) -> Vec<Intended> {
        Vec::new()
    }

    /// SHA-256 of a file that a call was to change, in hexadecimal; nothing inside where there is no file,
    /// nothing at all where it cannot be looked at.
    async fn fingerprint(&self, _path: &Path, _ctx: &ToolContext) -> Option<Option<String>> {
        None
    }

    /// Runs the call.
    ///
    /// # Errors
    /// Faults that the model can read and mend; they become error results.
    async fn call(&self, args: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

/// A tool whose arguments are a Rust type; schema and parsing follow from it.
#[async_trait]
pub trait TypedTool: Send + Sync {
    /// The arguments. Doc comments of the fields become descriptions in the schema.
    type Args: DeserializeOwned + JsonSchema + Send;

    /// See [`Tool::name`].
    fn name(&self) -> &str;
    /// See [`Tool::description`].
    fn description(&self) -> &str;
    /// See [`Tool::effects`]; arguments that do not parse never reach it.
    fn effects(&self, args: &Self::Args) -> Effects;
    /// See [`Tool::on_cancel`].
    fn on_cancel(&self) -> OnCancel;
    /// See [`Tool::replay_safety`].
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Unsafe
    }
    /// See [`Tool::permission_subject`].
    fn permission_subject(&self, _args: &Self::Args) -> Option<String> {
        None
    }
    /// See [`Tool::subject_kind`].
    fn subject_kind(&self) -> Option<SubjectKind> {
        None
    }
    /// See [`Tool::preview`].
    async fn preview(&self, _args: Self::Args, _ctx: &ToolContext) -> Option<String> {
        None
    }
    /// See [`Tool::intend`].
    async fn intend(&self, _args: Self::Args, _ctx: &ToolContext) -> Vec<Intended> {
        Vec::new()
    }
    /// See [`Tool::fingerprint`].
    async fn fingerprint(&self, _path: &Path, _ctx: &ToolContext) -> Option<Option<String>> {
        None
    }
    /// See [`Tool::call`].
    ///
    /// # Errors
    /// Faults that the model can read and mend.
    async fn run(&self, args: Self::Args, ctx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

#[async_trait]
impl<T: TypedTool> Tool for T {
    fn name(&self) -> &str {
        TypedTool::name(self)
    }

    fn description(&self) -> &str {
        TypedTool::description(self)
    }

    fn input_schema(&self) -> Value {
        schema_of::<T::Args>()
    }

    fn effects(&self, args: &Value) -> Effects {
        // A call whose arguments do not parse ends in an argument error before it touches anything.
        parse::<T::Args>(args)
            .map_or_else(|_| Effects::none(), |args| TypedTool::effects(self, &args))
    }

    fn on_cancel(&self) -> OnCancel {
        TypedTool::on_cancel(self)
    }

    fn replay_safety(&self) -> ReplaySafety {
        TypedTool::replay_safety(self)
    }

    fn permission_subject(&self, args: &Value) -> Option<String> {
        TypedTool::permission_subject(self, &parse::<T::Args>(args).ok()?)
    }

    fn subject_kind(&self) -> Option<SubjectKind> {
        TypedTool::subject_kind(self)
    }

    async fn preview(&self, args: &Value, ctx: &ToolContext) -> Option<String> {
        TypedTool::preview(self, parse::<T::Args>(args).ok()?, ctx).await
    }

    async fn intend(&self, args: &Value, ctx: &ToolContext) -> Vec<Intended> {
        match parse::<T::Args>(args) {
            Ok(args) => TypedTool::intend(self, args, ctx).await,
            Err(_) => Vec::new(),
        }
    }

    async fn fingerprint(&self, path: &Path, ctx: &ToolContext) -> Option<Option<String>> {
        TypedTool::fingerprint(self, path, ctx).await
    }

    async fn call(&self, args: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.run(parse(&args)?, ctx).await
    }
}

fn parse<A: DeserializeOwned>(args: &Value) -> Result<A, ToolError> {
    A::deserialize(args).map_err(|error| ToolError::InvalidArgs(error.to_string()))
}

/// The schema of `A` as the model should see it: one self-contained object, without what is of use
/// only to a reader of schema files. Every byte of it is sent with every request.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.transforms.push(Box::new(RecursiveTransform(leave_out_the_obvious)));
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(root) = schema.as_object_mut() {
        // The description of the whole is the tool's own.
        for key in ["$schema", "title", "description"] {
            root.remove(key);
        }
    }
    schema
}

/// Drops widths of numbers and the null that an absent optional field may also be written as.
fn leave_out_the_obvious(schema: &mut Schema) {
    schema.remove("format");
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
}

/// What a call gave back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// Pictures for the model.
    pub images: Vec<ImageData>,
    /// What a person should see instead of the head of `text`, for example a unified diff.
    pub display: Option<String>,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// Why a call gave nothing back. Each becomes an error result that the model reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The arguments do not fit the schema.
    #[error("invalid arguments: {0}")]
    InvalidArgs(String),
    /// The call was carried out and failed, or was refused.
    #[error("{0}")]
    Failed(String),
    /// The call was cancelled; the text says what is known of its effects and what it had printed.
    #[error("{0}")]
    Cancelled(String),
}

/// What a call may touch. Everything a policy decides follows from this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Files it reads.
    pub reads: PathSet,
    /// Files it creates, changes or removes.
    pub writes: PathSet,
    /// Whether it may open connections.
    pub network: bool,
    /// Whether it starts processes.
    pub subprocess: bool,
    /// Whether it may do something not named here.
    pub unknown: bool,
}

impl Effects {
    /// Computes and nothing else.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the given files.
    pub fn reads(paths: PathSet) -> Self {
        Self { reads: paths, ..Self::default() }
    }

    /// Reads and writes the given files.
    pub fn writes(paths: PathSet) -> Self {
        Self { reads: paths.clone(), writes: paths, ..Self::default() }
    }

    /// Runs a command: whatever the user could do.
    pub fn command() -> Self {
        Self {
            reads: PathSet::Anywhere,
            writes: PathSet::Anywhere,
            network: true,
            subprocess: true,
            unknown: true,
        }
    }

    /// What two calls may touch together: what a call does that carries out others.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            reads: self.reads.union(other.reads),
            writes: self.writes.union(other.writes),
            network: self.network || other.network,
            subprocess: self.subprocess || other.subprocess,
            unknown: self.unknown || other.unknown,
        }
    }

    /// Whether the call leaves everything as it was; such calls may run side by side.
    pub fn is_read_only(&self) -> bool {
        self.writes == PathSet::None && !self.network && !self.subprocess && !self.unknown
    }
}

/// A set of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PathSet {
    /// No file.
    #[default]
    None,
    /// Exactly these, as the model named them.
    Paths(Vec<PathBuf>),
    /// Any file below the workspace.
    Workspace,
    /// Any file.
    Anywhere,
}

impl PathSet {
    /// The smallest set there is a name for that holds both. Named paths may lie anywhere.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, set) | (set, Self::None) => set,
            (Self::Paths(mut paths), Self::Paths(more)) => {
                paths.extend(more);
                Self::Paths(paths)
            }
            (Self::Workspace, Self::Workspace) => Self::Workspace,
            _ => Self::Anywhere,
        }
    }
}

/// What the text is that permission rules match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectKind {
    /// A command line for a shell.
    Command,
    /// A file or a folder.
    Path,
    /// The name of something.
    Name,
}

/// What a cancelled call leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnCancel {
    /// Nothing: the call either happened or did not.
    Atomic,
    /// Possibly part of its effects; the result says so.
    MayBePartial,
}

/// Whether an unfinished call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaySafety {
    /// Repeating it could do harm; its outcome is unknown until someone looks.
    Unsafe,
    /// Running it twice is the same as running it once.
    Safe,
}

/// Where a running tool reports output as it appears. Bounded: pieces may be dropped under load.
pub trait OutputSink: Send + Sync {
    /// Offers a piece of live output; never waits.
    fn chunk(&self, text: &str);
}

/// What a call may use.
#[derive(Clone)]
pub struct ToolContext {
    /// The workspace: where relative paths start and commands run.
    pub cwd: PathBuf,
    /// Asks the call to stop.
    pub cancel: CancellationToken,
    /// The session's id, told to child processes.
    pub session_id: String,
    /// Live output for a person.
    pub output: Option<Arc<dyn OutputSink>>,
    /// What a person opened for this one call, beyond what is open to every call.
    pub grants: Grants,
    /// Takes secrets out of text. A tool that shortens text does so before; whatever it gives back or shows
    /// goes past it once more.
    pub redactor: Arc<Redactor>,
}

/// What a person's word opens for one call. Nothing by default; no rule and no mode adds to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Whether the command may connect to anywhere although the sandbox has no network.
    pub network: bool,
    /// Paths outside the roots, exactly as they are named here.
    pub paths: Vec<GrantedPath>,
}

/// One path that a person opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedPath {
    /// The path, absolute and without `.` and `..`.
    pub path: PathBuf,
    /// Whether it may be written too.
    pub write: bool,
}

impl Grants {
    /// Whether nothing is opened.
    pub fn is_empty(&self) -> bool {
        !self.network && self.paths.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Sample {
        /// How many.
        count: Option<u32>,
        /// Which way.
        order: Option<Order>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        Up,
        Down,
    }

    #[test]
    fn a_schema_is_one_object_without_references_titles_or_nulls() {
        insta::assert_json_snapshot!(schema_of::<Sample>(), @r#"
        {
          "type": "object",
          "additionalProperties": false,
          "properties": {
            "count": {
              "type": "integer",
              "description": "How many.",
              "minimum": 0
            },
            "order": {
              "type": "string",
              "enum": [
                "up",
                "down"
              ],
              "description": "Which way."
            }
          }
        }
        "#);
    }
}
