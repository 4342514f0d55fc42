//! The program is killed after every record of a session, and its file is cut at bytes inside of each;
//! whatever is left, `--resume` goes on with it, and nothing happens twice.
//!
//! What a run that went on has to find is computed here from the whole records alone: the dialogue, the
//! calls that are open, and the files as the finished calls left them. A call that began and has no end
//! is tried both ways: it had done its work when the program died, or it had not.

#![expect(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use agent::session::journal::load;
use llm::Tail;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use support::model::{Answer, Model};
use support::{Home, Running, run, wait_until};

const PROMPT: &str = "Do it.";
const MORE: &str = "Go on.";

/// Files of the workspace and what they hold.
type Files = BTreeMap<String, String>;

fn before() -> Files {
    Files::from([("a.txt".to_owned(), "one\n".to_owned())])
}

/// Edits, commands that would be seen to have run twice, looks, and two calls in one message.
fn script() -> Vec<Answer> {
    let read = ("read_file", json!({"file_path": "a.txt"}));
    let find = ("glob", json!({"pattern": "*.txt"}));
    vec![
        Answer::bash("echo 1 >> log.txt"),
        Answer::Calls("I look.".into(), vec![read.clone()]),
        Answer::call(
            "edit_file",
            json!({"file_path": "a.txt", "old_string": "one", "new_string": "one two"}),
        ),
        Answer::Calls(
            "Both.".into(),
            vec![
                ("bash", json!({"command": "echo 2 >> log.txt"})),
                ("write_file", json!({"file_path": "b.txt", "content": "new\n"})),
            ],
        ),
        Answer::Calls("I look again.".into(), vec![read, find]),
        Answer::bash("echo 3 >> log.txt"),
        Answer::text("All done."),
    ]
}

/// What a call does to the files.
fn act(files: &mut Files, name: &str, args: &Value) {
    let text = |key: &str| args[key].as_str().unwrap().to_owned();
    match name {
        "bash" => {
            let command = text("command");
            let word = command.split(' ').nth(1).unwrap();
            let log = files.entry("log.txt".to_owned()).or_default();
            writeln!(log, "{word}").unwrap();
        }
        "write_file" => {
            files.insert(text("file_path"), text("content"));
        }
        "edit_file" => {
            let file = files.get_mut(&text("file_path")).unwrap();
            *file = file.replacen(&text("old_string"), &text("new_string"), 1);
        }
        _ => {}
    }
}

fn put(home: &Home, files: &Files) {
    for file in fs::read_dir(home.work()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    files.iter().for_each(|(name, text)| home.write(name, text));
}

fn found(home: &Home) -> Files {
    let names = fs::read_dir(home.work()).unwrap().map(|file| file.unwrap().file_name());
    names
        .map(|name| name.into_string().unwrap())
        .map(|name| (name.clone(), home.read(&name)))
        .collect()
}

/// The file of the one session in the home.
fn session_file(home: &Home) -> Option<PathBuf> {
    let folders = fs::read_dir(home.data().join("sessions")).ok()?;
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    files
        .map(|file| file.unwrap().path())
        .find(|file| file.extension().is_some_and(|e| e == "jsonl"))
}

fn id(file: &Path) -> &str {
    file.file_stem().unwrap().to_str().unwrap()
}

fn begin(home: &Home, model: &Model) -> Running {
    put(home, &before());
    let mut command = home.anvil_with(model);
    Running::start(command.args(["-p", PROMPT, "--yolo", "--no-stdin"]))
}

/// What can be told from whole records.
#[derive(Default)]
struct Expected {
    files: Files,
    /// Texts that were said or given back, each acknowledged by a record.
    said: Vec<String>,
    /// Calls without a record of their result, in order: the record's arguments and whether they began.
    open: Vec<(Value, bool)>,
    /// The kind of the last record.
    last: String,
}

impl Expected {
    fn of(lines: &[Value]) -> Self {
        let mut expected = Self { files: before(), ..Self::default() };
        for line in lines {
            expected.last = line["type"].as_str().unwrap().to_owned();
            match expected.last.as_str() {
                "message_appended" => expected.message(&line["message"]),
                "tool_started" => {
                    let open =
                        expected.open.iter_mut().find(|(call, _)| call["id"] == line["call_id"]);
                    open.unwrap().1 = true;
                }
                "tool_finished" => expected.finished(line),
                _ => {}
            }
        }
        expected
    }

    fn message(&mut self, message: &Value) {
        for block in message["content"].as_array().unwrap() {
            match block["type"].as_str().unwrap() {
                "text" => self.said.push(block["text"].as_str().unwrap().to_owned()),
                _ => self.open.push((block.clone(), false)),
            }
        }
    }

    fn finished(&mut self, line: &Value) {
        let at = self.open.iter().position(|(call, _)| call["id"] == line["call_id"]).unwrap();
        let (call, _) = self.open.remove(at);
        if line["how"] == "ran" {
            act(&mut self.files, call["name"].as_str().unwrap(), &call["arguments"]);
        }
        self.said.push(line["result"]["content"].as_str().unwrap().to_owned());
    }
}

/// What became of the open calls of one kill, in the words of the matrix.
#[derive(Default)]
struct Told(Vec<&'static str>);

/// Goes on with what is left and holds it against what has to be.
fn resume(home: &Home, file: &Path, expected: &Expected, files: &Files) -> Told {
    let model = Model::new([Answer::text("So it is.")]);
    let mut command = home.anvil_with(&model);
    let ran = run(command.args(["-p", MORE, "--yolo", "--no-stdin", "--resume", id(file)]));
    ran.assert_code(0).assert_no_panic();
    assert_eq!(&found(home), files, "something happened again");
    let loaded = load(file).unwrap();
    assert!(loaded.torn.is_none());
    llm::validate_transcript(loaded.state.messages(), Tail::Settled).unwrap();
    let request = model.requests()[0].clone();
    let sent = all_texts(&request);
    for text in expected.said.iter().map(String::as_str).chain([MORE]) {
        let count = sent.iter().filter(|one| *one == text).count();
        let acknowledged = expected.said.iter().filter(|one| *one == text).count().max(1);
        assert!(count >= acknowledged, "{text:?} is missing in {sent:?}");
    }
    assert_eq!(sent.iter().filter(|one| *one == MORE).count(), 1);
    let results = model.results_in(0);
    let mut told = Told::default();
    for (call, has_begun) in &expected.open {
        let is_look = matches!(call["name"].as_str().unwrap(), "read_file" | "glob");
        let (word, is_so): (_, fn(&str, bool) -> bool) = match (has_begun, is_look) {
            (false, _) => {
                ("not run", |text, failed| failed && text.starts_with("Not run: the program"))
            }
            (true, false) => {
                ("unknown", |text, failed| failed && text.starts_with("Unknown outcome"))
            }
            (true, true) => ("looked again", |text, failed| !failed && !text.is_empty()),
        };
        assert!(results.iter().any(|(text, failed)| is_so(text, *failed)), "{word}: {results:?}");
        told.0.push(word);
    }
    told
}

fn all_texts(request: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for message in request["messages"].as_array().unwrap() {
        for block in message["content"].as_array().into_iter().flatten() {
            let content = if block["type"] == "tool_result" { &block["content"] } else { block };
            match content {
                Value::String(text) => texts.push(text.clone()),
                Value::Array(blocks) => {
                    texts.extend(
                        blocks.iter().filter_map(|one| one["text"].as_str()).map(str::to_owned),
                    );
                }
                block => texts.extend(block["text"].as_str().map(str::to_owned)),
            }
        }
    }
    texts
}

/// A row of the matrix: how often, and what was told.
#[derive(Default)]
struct Row {
    kills: u32,
    told: BTreeMap<&'static str, u32>,
}

type Matrix = Mutex<BTreeMap<String, Row>>;

fn note(matrix: &Matrix, last: &str, told: Told) {
    let mut matrix = matrix.lock().unwrap();
    let row = matrix.entry(last.to_owned()).or_default();
    row.kills += 1;
    for word in told.0 {
        *row.told.entry(word).or_default() += 1;
    }
}

/// A whole run, to be cut.
struct Whole {
    home: Home,
    file: PathBuf,
    bytes: Vec<u8>,
}

fn whole() -> Whole {
    let home = Home::new();
    begin(&home, &Model::new(script())).finish().assert_code(0);
    let file = session_file(&home).unwrap();
    let bytes = fs::read(&file).unwrap();
    Whole { home, file, bytes }
}

impl Whole {
    /// Where each line begins, and where the file ends.
    fn bounds(&self) -> Vec<usize> {
        let ends = self.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        [0].into_iter().chain(ends.map(|(at, _)| at + 1)).collect()
    }

    /// Cuts the file at `at`, and resumes with the files as they may have been.
    fn cut(&self, at: usize, matrix: &Matrix) {
        let left = &self.bytes[..at];
        // A whole record counts also without its line feed.
        let lines: Vec<Value> = left
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        let expected = Expected::of(&lines);
        let mut ways = vec![expected.files.clone()];
        if let Some((call, _)) = expected.open.iter().find(|(_, has_begun)| *has_begun) {
            let mut done = expected.files.clone();
            act(&mut done, call["name"].as_str().unwrap(), &call["arguments"]);
            ways.push(done);
        }
        ways.dedup();
        for files in ways {
            put(&self.home, &files);
            fs::write(&self.file, left).unwrap();
            if lines.is_empty() {
                self.is_empty();
                note(matrix, "nothing", Told::default());
                continue;
            }
            note(matrix, &expected.last, resume(&self.home, &self.file, &expected, &files));
        }
    }

    fn is_empty(&self) {
        let model = Model::new([Answer::text("no")]);
        let mut command = self.home.anvil_with(&model);
        let ran = run(command.args(["-p", MORE, "--no-stdin", "--resume", id(&self.file)]));
        ran.assert_code(1).assert_no_panic();
        assert!(ran.err.contains("is empty"), "{}", ran.err);
        assert!(model.requests().is_empty());
    }
}

/// Where a line is cut: at its end, before its line feed, at two fixed places inside, and at eight that
/// differ from line to line.
fn cuts(from: usize, to: usize, line: usize) -> Vec<usize> {
    let len = to - from;
    let inside = |share: usize| from + 1 + (len - 3) * share / 1000;
    let mut cuts = vec![to, to - 1, from + 1, to - 2];
    cuts.extend((1..=8).map(|turn| inside((line * 389 + turn * 123) % 1000)));
    cuts
}

#[test]
fn whatever_is_left_of_a_session_goes_on_and_nothing_happens_twice() {
    let matrix = Matrix::default();
    let next = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (matrix, next) = (&matrix, &next);
            scope.spawn(move || {
                let whole = whole();
                let bounds = whole.bounds();
                for line in (0..bounds.len() - 1).filter(|line| line % 2 == worker) {
                    for at in cuts(bounds[line], bounds[line + 1], line) {
                        whole.cut(at, matrix);
                    }
                }
                next.lock().unwrap().push(bounds.len() - 1);
            });
        }
    });
    // Both runs wrote the same records, so all of them were cut.
    let lengths = next.into_inner().unwrap();
    assert_eq!(lengths[0], lengths[1]);
    let matrix = matrix.into_inner().unwrap();
    let kills: u32 = matrix.values().map(|row| row.kills).sum();
    assert!(kills >= 500, "{kills}");
    hold_page(&page(&matrix, kills));
}

#[test]
fn a_program_killed_at_any_record_goes_on() {
    let records = whole().bounds().len() - 1;
    for wanted in 1..=records {
        let home = Home::new();
        let model = Model::new(script());
        let mut running = begin(&home, &model);
        let has_enough = || {
            let file = session_file(&home).and_then(|file| fs::read(file).ok());
            file.is_some_and(|bytes| bytes.iter().filter(|byte| **byte == b'\n').count() >= wanted)
        };
        wait_until("the record", || has_enough() || running.child.try_wait().unwrap().is_some());
        running.signal(Signal::SIGKILL);
        running.child.wait().unwrap();
        let file = session_file(&home).unwrap();
        wait_until("the last command to end", || !is_at_work(&home, id(&file)));
        let left = fs::read(&file).unwrap();
        let lines: Vec<Value> = left
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        let expected = Expected::of(&lines);
        let files = found(&home);
        resume(&home, &file, &expected, &files);
        for word in ["1", "2", "3"] {
            let times = files.get("log.txt").map_or(0, |log| log.matches(word).count());
            assert!(times <= 1, "{word} was logged {times} times");
        }
    }
}

/// Whether something that the dead program started is alive: it has the session's environment, or not yet
/// and stands in its folder.
fn is_at_work(home: &Home, session: &str) -> bool {
    let work = home.work();
    let stands_there = |process: &fs::DirEntry| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|folder| folder == work)
    };
    let found = agent::process::of_session(session);
    found.is_some_and(|processes| !processes.is_empty())
        || fs::read_dir("/proc").unwrap().flatten().any(|process| stands_there(&process))
}

fn page(matrix: &BTreeMap<String, Row>, kills: u32) -> String {
    let mut page = format!(
        "# What a crash leaves, and what becomes of it\n\n\
         `crates/cli/tests/crash.rs` ends a scripted session with real edits and commands {kills} times, at and \
         inside\nevery record of its file, goes on with it and compares the files, the dialogue and what the model \
         is\ntold: a file that was cut stands for the program killed in the middle of a write. A second test there ends\n\
         the running program with SIGKILL as soon as each record is in its file. This page is the result of the\n\
         first; `UPDATE_DOCS=1 cargo test -p cli --test crash` writes it anew.\n\n\
         In no case did a command or an edit run again, and everything that a whole record had acknowledged\n\
         was in the next request.\n\n\
         | last whole record | kills | calls that had not begun | looks that ran again | outcome unknown |\n\
         | --- | ---: | --- | --- | --- |\n"
    );
    for (last, row) in matrix {
        let cell = |word: &str, told: &str| match row.told.get(word) {
            Some(count) => format!("{count} × {told}"),
            None => "–".to_owned(),
        };
        writeln!(
            page,
            "| {} | {} | {} | {} | {} |",
            last.replace('_', "\\_"),
            row.kills,
            cell("not run", "told so, not run"),
            cell("looked again", "the result of now"),
            cell("unknown", "told so, with traces"),
        )
        .unwrap();
    }
    page.push_str(
        "\n`nothing` is a file whose first record was never finished: it is refused as empty and left as it is.\n",
    );
    page
}

fn hold_page(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/crash-matrix.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/crash-matrix.md is not the result:\n{page}");
}
