//! A session's file and what is made of it: whatever is written loads as it was, whatever is damaged is
//! told with its place.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod damage;
mod full_disk;
mod paths;
mod replay;
mod running;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
#[cfg(target_os = "linux")]
mod unconfirmed;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::session::journal::Journal;
use agent::session::record::{How, Meta, Record};
use agent::session::reduce::State;
use llm::{ContentBlock, Message, Role};
use serde_json::json;

/// A session of one call, in a folder of its own.
struct Written {
    dir: tempfile::TempDir,
    path: PathBuf,
    state: State,
}

fn meta() -> Meta {
    let cwd = PathBuf::from("/w");
    Meta { id: "s".into(), cwd, model: "p:m".into(), anvil: "0".into(), ..Meta::default() }
}

fn create(dir: &Path) -> (Journal, State) {
    Journal::create(&dir.join("s.jsonl"), meta(), Arc::default()).unwrap()
}

fn user(text: &str) -> Record {
    Record::MessageAppended { message: Arc::new(Message::user_text(text)), notices: Vec::new() }
}

fn says(text: &str) -> Record {
    let message = Arc::new(Message::assistant_text(text));
    Record::MessageAppended { message, notices: Vec::new() }
}

fn calls(ids: &[String]) -> Record {
    let call = |id: &String| ContentBlock::ToolCall {
        id: id.clone(),
        name: "bash".into(),
        arguments: json!({"command": "ls"}),
        meta: None,
    };
    let message = Arc::new(Message::new(Role::Assistant, ids.iter().map(call).collect()));
    Record::MessageAppended { message, notices: Vec::new() }
}

fn started(id: &str) -> Record {
    Record::ToolStarted { call_id: id.into(), tool: "bash".into(), intended: Vec::new() }
}

fn finished(id: &str, text: &str) -> Record {
    let result = ContentBlock::tool_result(id, text, false);
    Record::ToolFinished { call_id: id.into(), result, how: How::Ran }
}

fn results(ids: &[&str]) -> Record {
    let call_ids = ids.iter().map(|id| (*id).to_owned()).collect();
    Record::ResultsAppended { call_ids, extra: Vec::new(), notices: Vec::new() }
}

/// Nine records: a question, an answer, a call that ran, and the end.
fn write() -> Written {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, mut state) = create(dir.path());
    for record in [
        user("hello"),
        says("text"),
        user("run ls"),
        calls(&["c1".to_owned()]),
        started("c1"),
        finished("c1", "ok"),
        results(&["c1"]),
        says("done"),
    ] {
        state.apply(&record).unwrap();
        journal.append(&record).unwrap();
    }
    let path = journal.path().to_owned();
    Written { dir, path, state }
}

impl Written {
    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.bytes()).unwrap().lines().map(str::to_owned).collect()
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(&self.path, bytes).unwrap();
    }

    fn put_lines(&self, lines: &[String]) {
        self.put((lines.join("\n") + "\n").as_bytes());
    }
}
