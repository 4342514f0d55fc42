//! The sessions of a case, made by the real writer. Another crate's cases are made of it too.

#![allow(dead_code, reason = "each test target uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::secrets::Redactor;
use agent::session::journal::Journal;
use agent::session::record::{How, Meta, Record};
use agent::session::store::Store;
use llm::{ContentBlock, Dialect, Message, ProviderMeta, Role};
use serde_json::json;

/// The secret that is known in all cases.
const SECRET: &str = "sk-test-0123456789abcdef0123";

/// What signs the reasoning of a case.
pub(super) const SIGNATURE: &str = "c2lnbmVk";

/// The files of a case.
pub(super) struct Written {
    pub(super) store: Store,
    /// One for each session that was begun.
    pub(super) paths: Vec<PathBuf>,
    pub(super) cwd: PathBuf,
    redactor: Arc<Redactor>,
}

impl Written {
    /// Makes the sessions that `steps` name, below `dir`.
    pub(super) fn build(dir: &Path, steps: &[String]) -> Result<Self, String> {
        Self::build_asking(dir, steps, "scripted:m")
    }

    /// The same; a session whose case names no model asked this one.
    pub(super) fn build_asking(dir: &Path, steps: &[String], model: &str) -> Result<Self, String> {
        let mut written = Self {
            store: Store::new(dir),
            paths: Vec::new(),
            cwd: PathBuf::new(),
            redactor: Arc::new(Redactor::new([("KEY", SECRET)])),
        };
        let mut journal = None;
        for step in steps {
            if let Some(options) = step.strip_prefix("SessionStarted") {
                journal = Some(written.begin(dir, options, model)?);
                continue;
            }
            let journal = journal.as_mut().ok_or("a record before its session")?;
            for record in records(step)? {
                journal.append(&record).map_err(|error| error.to_string())?;
            }
        }
        Ok(written)
    }

    fn begin(&mut self, dir: &Path, options: &str, model: &str) -> Result<Journal, String> {
        let id = format!("s{}", self.paths.len());
        let cwd = dir.join("work");
        let mut meta = Meta { id, cwd, model: model.into(), ..Meta::default() };
        for option in options.split_whitespace() {
            match option.split_once('=') {
                Some(("cwd", path)) => meta.cwd = path.into(),
                Some(("model", model)) => meta.model = model.to_owned(),
                _ => return Err(format!("the adapter does not know the option {option}")),
            }
        }
        self.cwd.clone_from(&meta.cwd);
        let created = self.store.create(meta, Arc::clone(&self.redactor));
        let (journal, _) = created.map_err(|error| error.to_string())?;
        self.paths.push(journal.path().to_owned());
        Ok(journal)
    }

    /// The session that was begun last.
    pub(super) fn path(&self) -> &Path {
        self.paths.last().expect("every case begins a session")
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }
}

/// The records that one step of `build` names.
fn records(step: &str) -> Result<Vec<Record>, String> {
    if let Some(text) = step.strip_prefix("User:") {
        return Ok(vec![said(Message::user_text(text))]);
    }
    if let Some(spec) = step.strip_prefix("Assistant:") {
        return Ok(vec![said(answer(spec))]);
    }
    let words: Vec<&str> = step.split_whitespace().collect();
    let record = match words[..] {
        ["ToolStarted", id] => {
            Record::ToolStarted { call_id: id.into(), tool: "bash".into(), intended: Vec::new() }
        }
        ["ToolFinished", id, how] => {
            let text = match how {
                "ok" => "ok",
                "output_contains_known_secret" => "KEY=sk-test-0123456789abcdef0123",
                _ => return Err(format!("the adapter does not know the result {how}")),
            };
            let result = ContentBlock::tool_result(id, text, false);
            Record::ToolFinished { call_id: id.into(), result, how: How::Ran }
        }
        ["ToolResult", id] => {
            let call_ids = vec![id.to_owned()];
            Record::ResultsAppended { call_ids, extra: Vec::new(), notices: Vec::new() }
        }
        ["Repeat", count, "User/Assistant", "pairs"] => {
            let count: usize = count.parse().map_err(|error| format!("{step}: {error}"))?;
            let pair =
                |n| [said(Message::user_text(format!("q{n}"))), said(answer(&format!("a{n}")))];
            return Ok((0..count).flat_map(pair).collect());
        }
        _ => return Err(format!("the adapter does not know the step {step}")),
    };
    Ok(vec![record])
}

fn said(message: Message) -> Record {
    Record::MessageAppended { message: Arc::new(message), notices: Vec::new() }
}

/// `text`, or signed reasoning and calls as in `reasoning signed+call c1 bash,c2 bash`.
fn answer(spec: &str) -> Message {
    let mut content = Vec::new();
    for part in spec.split('+') {
        if part == "reasoning signed" {
            let data = json!({"type": "thinking", "signature": SIGNATURE});
            let meta = Some(ProviderMeta { provider: Dialect::Anthropic.name().into(), data });
            content.push(ContentBlock::Reasoning { text: "private thought".into(), meta });
        } else if let Some(calls) = part.strip_prefix("call ") {
            for call in calls.split(',') {
                let (id, name) = call.split_once(' ').expect("a call has an id and a tool");
                let arguments = json!({"command": "ls"});
                let (id, name) = (id.to_owned(), name.to_owned());
                content.push(ContentBlock::ToolCall { id, name, arguments, meta: None });
            }
        } else {
            content.push(ContentBlock::text(part));
        }
    }
    Message::new(Role::Assistant, content).by("anthropic:x")
}
