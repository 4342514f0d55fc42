//! What it costs to keep a session: one record more, a long file that is loaded again, and a list of long
//! ones.
//!
//! Loading is set beside taking the same lines apart as plain JSON, which any reader would have to do.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

use agent::secrets::Redactor;
use agent::session::journal::{Journal, load};
use agent::session::record::{How, Meta, Record};
use agent::session::store::Store;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use llm::{ContentBlock, Message, Role};
use serde_json::{Value, json};

/// Records of one step of the long session: a call, its beginning, its end, and the results.
const A_STEP: usize = 4;
/// Steps of the long session: 100,000 records in all.
const STEPS: usize = 25_000;
/// Bytes of each result and of the text before each call, which make 100 MB together.
const RESULT: usize = 2_600;
const TEXT: usize = 900;

fn journal(folder: &Path, name: &str, redactor: Redactor) -> Journal {
    let meta = Meta { id: "s".into(), cwd: "/w".into(), model: "p:m".into(), ..Meta::default() };
    let path = folder.join(name).with_extension("jsonl");
    Journal::create(&path, meta, Arc::new(redactor)).expect("a fresh folder").0
}

/// Text as programs print it: short lines, with quotes and marks that JSON has to escape.
fn output(bytes: usize) -> String {
    "    let name = \"value\"; // line\n\tmore".chars().cycle().take(bytes).collect()
}

fn user(text: &str) -> Record {
    Record::MessageAppended { message: Arc::new(Message::user_text(text)), notices: Vec::new() }
}

fn step(number: usize, text: &str, result: &str) -> [Record; A_STEP] {
    let id = format!("call_{number}");
    let call = ContentBlock::ToolCall {
        id: id.clone(),
        name: "bash".into(),
        arguments: json!({"command": format!("sed -n {number},+40p src/lib.rs")}),
        meta: None,
    };
    let message = Message::new(Role::Assistant, vec![ContentBlock::text(text), call]);
    let result = ContentBlock::tool_result(&id, result, false);
    [
        Record::MessageAppended { message: Arc::new(message.by("p:m")), notices: Vec::new() },
        Record::ToolStarted { call_id: id.clone(), tool: "bash".into(), intended: Vec::new() },
        Record::ToolFinished { call_id: id.clone(), result, how: How::Ran },
        Record::ResultsAppended { call_ids: vec![id], extra: Vec::new(), notices: Vec::new() },
    ]
}

fn append(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = (0..8).map(|number| {
        (
            format!("KEY_{number}"),
            format!("sk-{number}-AVeryLongAndSecretKeyOf48Bytes-{number:016}"),
        )
    });
    let result = || step(1, "", &output(2048))[2].clone();
    let mut group = c.benchmark_group("append");
    for (name, record, redactor) in [
        ("prompt", user("go on"), Redactor::default()),
        ("result of 2 KB", result(), Redactor::default()),
        ("result of 2 KB, 8 keys to look for", result(), Redactor::new(keys)),
    ] {
        let mut journal = journal(folder.path(), name, redactor);
        group.bench_function(name, |b| {
            b.iter(|| journal.append(black_box(&record)).expect("there is space"));
        });
    }
    group.finish();
}

fn reading(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = journal(folder.path(), "long", Redactor::default());
    let (text, result) = (output(TEXT), output(RESULT));
    journal.append(&user("go")).expect("there is space");
    for number in 0..STEPS {
        for record in step(number, &text, &result) {
            journal.append(&record).expect("there is space");
        }
    }
    let path = journal.path();
    let mut group = c.benchmark_group("load");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(journal.bytes()));
    group.bench_function("session", |b| {
        b.iter(|| black_box(load(path).expect("it was just written").records));
    });
    group.bench_function("plain JSON", |b| {
        b.iter(|| {
            let lines = BufReader::new(File::open(path).expect("it was just written")).lines();
            for line in lines {
                let line = line.expect("the disk can be read");
                black_box(serde_json::from_str::<Value>(&line).expect("it was just written"));
            }
        });
    });
    group.finish();
}

/// How many sessions are listed, and the steps of each.
const LISTED: usize = 20;
const LISTED_STEPS: usize = 1_000;

fn listing(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::new(folder.path());
    let (text, result) = (output(TEXT), output(RESULT));
    for id in 0..LISTED {
        let meta = Meta { id: id.to_string(), cwd: "/w".into(), ..Meta::default() };
        let (mut journal, _) = store.create(meta, Arc::default()).expect("a fresh folder");
        journal.append(&user("go")).expect("there is space");
        for number in 0..LISTED_STEPS {
            for record in step(number, &text, &result) {
                journal.append(&record).expect("there is space");
            }
        }
    }
    let mut group = c.benchmark_group("list");
    group.throughput(Throughput::Elements(LISTED as u64));
    group.bench_function("sessions of 4 MB", |b| {
        b.iter(|| black_box(store.list(Path::new("/w")).expect("it was just written").len()));
    });
    group.finish();
}

criterion_group!(benches, append, reading, listing);
criterion_main!(benches);
