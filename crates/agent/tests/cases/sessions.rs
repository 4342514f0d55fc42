//! Kind `sessions`: files made by the real writer, what happens to them, and what loading them, listing
//! them and going on with them shows.

mod compacting;
mod damaged;
mod going_on;
mod written;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use agent::session::journal::{Journal, JournalError, load};
use agent::session::reduce::State;
use llm::testing::{Answer, ScriptedProvider, script};
use llm::{Dialect, LlmError, Role, TargetFor, TargetOverrides};
use serde::Deserialize;
use serde_json::Value;

use self::going_on::{GoingOn, result_of};
use self::written::{SIGNATURE, Written};
use crate::memory;
use crate::support::{documents, ensure, fill_in, run_all, scratch, typed};

/// Tells another process of this program which session it shall hold.
const HOLDS: &str = "ANVIL_TEST_HOLDS_SESSION";

/// Cases that this adapter has no operation for, and the tests that show the like.
const PENDING: &[(&str, &str)] = &[];

/// Cases about the program that goes on with a session; its own tests hold them.
const OF_THE_PROGRAM: [&str; 2] = ["ses-cwd-gone", "ses-model-gone"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "id")]
    _id: String,
    build: Vec<String>,
    damage: Vec<Damage>,
    expect: Expect,
    #[serde(rename = "notes")]
    _notes: String,
    #[serde(rename = "topic")]
    _topic: String,
}

/// What happens to the file, or to the program that has it.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Damage {
    PrependBytes {
        b64: String,
    },
    AppendBytes {
        b64: String,
    },
    InsertBytesAfterLine {
        line: usize,
        b64: String,
    },
    TruncateBytesFromEnd {
        n: usize,
    },
    ReplaceLine {
        line: usize,
        text: Option<String>,
        with_: Option<String>,
    },
    DuplicateLine {
        line: usize,
    },
    SetVersion {
        version: u32,
    },
    TimestampsDecreasing,
    TimestampsInFuture,
    /// The writer is gone; what it wrote is all there is.
    Kill9,
    LeaveLockOfDeadPid,
    SecondProcessResumes,
    RemoveSessionsDirWhileRunning,
    ProviderFailsThenInput {
        text: String,
    },
    ResumeAndAppend {
        text: String,
    },
    ResumeWithModel {
        model: String,
    },
    /// A person wants a summary.
    Compact {
        provider: String,
    },
    CompactWhileStreaming,
    RunTurns {
        n: usize,
        window: u64,
        fixed_overhead_tokens: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    load: Option<String>,
    load_any: Option<Vec<String>>,
    no_panic: Option<bool>,
    message_hint: Option<String>,
    names_line: Option<u64>,
    file_unchanged: Option<bool>,
    records: Option<u64>,
    order: Option<String>,
    within_ms: Option<u64>,
    max_rss_growth_mb: Option<u64>,
    listing: Option<String>,
    listing_within_ms: Option<u64>,
    file_mode: Option<String>,
    dir_mode: Option<String>,
    distinct_dirs: Option<usize>,
    file_must_not_contain: Option<Vec<String>>,
    synthesised: Option<Vec<String>>,
    outcome: Option<String>,
    outcomes: Option<BTreeMap<String, String>>,
    tool_runs: Option<usize>,
    valid_transcript: Option<bool>,
    then_append: Option<String>,
    no_glued_line: Option<bool>,
    last_user: Option<String>,
    panic: Option<bool>,
    reports: Option<usize>,
    consecutive_users: Option<usize>,
    survives_restart_once: Option<bool>,
    must_not_send: Option<Vec<String>>,
    notice: Option<String>,
    second: Option<String>,
    interleaved: Option<bool>,
    compactions: Option<usize>,
    compactions_max: Option<usize>,
    attempts_max: Option<usize>,
    context_unchanged: Option<bool>,
    failed_attempts_in_context: Option<usize>,
}

#[test]
fn every_session_case_holds() {
    if let Some(path) = std::env::var_os(HOLDS) {
        return hold(Path::new(&path));
    }
    let mut cases = documents("sessions");
    cases.retain(|case| !OF_THE_PROGRAM.iter().any(|id| case["id"] == *id));
    run_all("sessions", &cases, PENDING, run);
}

fn run(case: &Value) -> Result<(), String> {
    let mut case = case.clone();
    fill_in(&mut case, &[]);
    let Case { mut build, damage, expect, .. } = typed(&case)?;
    let dir = scratch();
    // What a turn says that fails is written by the turn.
    let fails = matches!(damage[..], [Damage::ProviderFailsThenInput { .. }]);
    let first = if fails { build.pop() } else { None };
    let written = Written::build(dir.path(), &build)?;
    let whole = load(written.path()).ok().map(|loaded| loaded.state);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut reports = None;
    for one in &damage {
        match one {
            Damage::Compact { .. } | Damage::CompactWhileStreaming | Damage::RunTurns { .. } => {
                return runtime.block_on(compacting::hold(&written, one, &expect));
            }
            Damage::Kill9 => {}
            Damage::LeaveLockOfDeadPid => die_with(written.path())?,
            Damage::SecondProcessResumes => second(&written, &expect)?,
            Damage::RemoveSessionsDirWhileRunning => {
                reports = Some(runtime.block_on(without_folder(&written))?);
            }
            Damage::ProviderFailsThenInput { text } => {
                let first = first.as_deref().and_then(|step| step.strip_prefix("User:"));
                let first = first.ok_or("nothing is said first")?;
                runtime.block_on(fail_then(&written, first, text, &expect))?;
            }
            Damage::ResumeAndAppend { text } => {
                let text = text.strip_prefix("User:").ok_or("only a user can add something")?;
                runtime.block_on(go_on(&written, text, &expect))?;
            }
            Damage::ResumeWithModel { model } => {
                runtime.block_on(with_model(&written, model, &expect))?;
            }
            other => ensure(written.damage(other), format!("nothing does {other:?}"))?,
        }
    }
    ensure(reports == expect.reports, format!("told {reports:?} times"))?;
    files(&written, &expect)?;
    listing(&written, &expect)?;
    if reports.is_none() {
        loading(&written, &expect, whole.as_ref())?;
        runtime.block_on(unfinished(&written, &expect))?;
    }
    // A panic fails the case before it gets here.
    ensure(expect.panic != Some(true) && expect.no_panic != Some(false), "no panic is wanted")
}

/// What reading the file gives, and that it leaves the file alone.
fn loading(written: &Written, expect: &Expect, whole: Option<&State>) -> Result<(), String> {
    let before = written.bytes();
    let (rss, reads) = (memory::reset_peak(), memory::Reads::start());
    let loaded = load(written.path());
    let (read, grown) = (reads.bytes(), memory::peak().saturating_sub(rss) / 1024);
    ensure(written.bytes() == before, "reading changed the file")?;
    if expect.within_ms.is_some() {
        // Times are the benches'. What makes one long is a file that is read more than once.
        let once = before.len() as u64 + (64 << 10);
        ensure(read <= once, format!("{read} bytes are read of {}", before.len()))?;
    }
    ensure(expect.max_rss_growth_mb.is_none_or(|most| grown <= most), format!("{grown} MiB"))?;
    let outcome = if loaded.is_ok() { "ok" } else { "error" };
    let told = loaded.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let accepted = expect.load_any.iter().flatten().chain(&expect.load).collect::<Vec<_>>();
    let fits = accepted.is_empty() || accepted.iter().any(|one| *one == outcome);
    ensure(fits, format!("loading gave {outcome}: {told}"))?;
    if let Some(hint) = &expect.message_hint {
        ensure(told.contains(hint.as_str()), format!("'{hint}' is not in: {told}"))?;
    }
    match &loaded {
        Err(error) => {
            let named = expect.names_line.is_none_or(|line| error.line() == Some(line));
            ensure(named, format!("another line: {told}"))?;
            // Who wants to go on with it gets the same answer, and the file stays as it is.
            ensure(Journal::open(written.path(), Arc::default()).is_err(), "it was opened")?;
            let unchanged = written.bytes() == before;
            ensure(expect.file_unchanged != Some(true) || unchanged, "opening changed the file")
        }
        Ok(loaded) => {
            let count = expect.records.is_none_or(|count| loaded.records == count);
            ensure(count, format!("{} records", loaded.records))?;
            match expect.order.as_deref() {
                None => Ok(()),
                Some("sequence") => ensure(Some(&loaded.state) == whole, "the order is another"),
                Some(other) => Err(format!("the adapter does not know the order {other}")),
            }
        }
    }
}

fn files(written: &Written, expect: &Expect) -> Result<(), String> {
    let mode =
        |path: &Path| format!("{:o}", fs::metadata(path).unwrap().permissions().mode() & 0o777);
    let folder = written.path().parent().unwrap();
    if let Some(wanted) = &expect.file_mode {
        ensure(mode(written.path()) == *wanted, mode(written.path()))?;
    }
    if let Some(wanted) = &expect.dir_mode {
        ensure(mode(folder) == *wanted, mode(folder))?;
        ensure(mode(written.store.root()) == *wanted, mode(written.store.root()))?;
    }
    if let Some(count) = expect.distinct_dirs {
        let folders: HashSet<_> = written.paths.iter().map(|path| path.parent()).collect();
        ensure(folders.len() == count, format!("{folders:?}"))?;
    }
    for text in expect.file_must_not_contain.iter().flatten() {
        ensure(!written.text().contains(text.as_str()), format!("{text} is in the file"))?;
    }
    if expect.no_glued_line == Some(true) {
        for (number, line) in (0_u64..).zip(written.text().lines()) {
            let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            ensure(line["seq"] == number, format!("line {} is not its record", number + 1))?;
        }
    }
    Ok(())
}

fn listing(written: &Written, expect: &Expect) -> Result<(), String> {
    if expect.listing.is_none() && expect.listing_within_ms.is_none() {
        return Ok(());
    }
    let reads = memory::Reads::start();
    let entries = written.store.list(&written.cwd).map_err(|error| error.to_string())?;
    if expect.listing_within_ms.is_some() {
        // However long a session is, its beginning is enough for a list.
        let (read, size) = (reads.bytes(), written.bytes().len());
        ensure(read < 1 << 19 && size > 1 << 22, format!("{read} bytes are read of {size}"))?;
    }
    let [entry] = &entries[..] else { return Err(format!("{entries:?}")) };
    match expect.listing.as_deref() {
        // A session without a prompt is listed, and never taken for the last one.
        Some("tolerates") => {
            let latest = written.store.latest(&written.cwd).map_err(|error| error.to_string())?;
            ensure(entry.first_prompt.is_none() && latest.is_none(), format!("{latest:?}"))
        }
        // How an age is told is the program's; that there is one does not fail here.
        Some("no negative age") | None => {
            ensure(entry.first_prompt.as_deref() == Some("hello"), format!("{entry:?}"))
        }
        Some(other) => Err(format!("the adapter does not know the listing {other}")),
    }
}

/// The calls that have no result when somebody goes on: what they get, and that it happens once.
async fn unfinished(written: &Written, expect: &Expect) -> Result<(), String> {
    let wanted = expect.synthesised.is_some()
        || expect.tool_runs.is_some()
        || expect.valid_transcript.is_some()
        || expect.then_append.is_some();
    if !wanted {
        return Ok(());
    }
    let mut outcomes = expect.outcomes.clone().unwrap_or_default();
    for id in expect.synthesised.iter().flatten() {
        if let Some(outcome) = &expect.outcome {
            outcomes.insert(id.clone(), outcome.clone());
        }
        ensure(outcomes.contains_key(id), format!("nothing is said about {id}"))?;
    }
    let mut told = Vec::new();
    // The second one finds nothing left to do.
    for time in ["first", "second"] {
        let mut going_on =
            GoingOn::answered(written.path(), vec![Answer::Events(script::text("so it is"))])?;
        going_on.say(&format!("the {time} time")).await?;
        let runs = going_on.runs();
        ensure(runs == expect.tool_runs.unwrap_or(0), format!("a tool ran {runs} times"))?;
        let messages = going_on.agent.transcript();
        for (id, outcome) in &outcomes {
            let result = result_of(messages, id).ok_or(format!("{id} has no result"))?;
            let has = match outcome.as_str() {
                "recorded" => result.contains("\"ok\""),
                "not_started" => result.contains("Not run"),
                "unknown" => result.contains("Unknown outcome"),
                other => return Err(format!("the adapter does not know the outcome {other}")),
            };
            ensure(has, format!("{id} is told {result}"))?;
            told.push(result);
        }
    }
    let (first, second) = told.split_at(told.len() / 2);
    ensure(first == second, format!("{first:?} became {second:?}"))?;
    let loaded = load(written.path()).map_err(|error| error.to_string())?;
    ensure(loaded.torn.is_none(), "a line is torn after it was gone on with")?;
    match expect.then_append.as_deref() {
        None | Some("parses") => Ok(()),
        Some(other) => Err(format!("the adapter does not know the append {other}")),
    }
}

async fn go_on(written: &Written, text: &str, expect: &Expect) -> Result<(), String> {
    let answers = vec![Answer::Events(script::text("yes"))];
    let mut going_on = GoingOn::answered(written.path(), answers)?;
    going_on.say(text).await?;
    let state = load(written.path()).map_err(|error| error.to_string())?.state;
    let mut users = state.messages().iter().filter(|message| message.role() == Role::User);
    let last = users.next_back().map(|message| message.text());
    ensure(last == expect.last_user, format!("the user said {last:?} last"))
}

/// Two turns of a session whose folder is gone; how often a person was told so.
async fn without_folder(written: &Written) -> Result<usize, String> {
    let answers = ["one", "two"].map(|text| Answer::Events(script::text(text)));
    let mut going_on = GoingOn::answered(written.path(), answers.into())?;
    fs::remove_dir_all(written.store.root()).unwrap();
    going_on.say("one").await?;
    going_on.say("two").await?;
    Ok(going_on.reports().await)
}

async fn fail_then(
    written: &Written,
    first: &str,
    then: &str,
    expect: &Expect,
) -> Result<(), String> {
    let refusal = LlmError::Api {
        kind: "invalid_request_error".into(),
        message: "refused".into(),
        status: None,
    };
    let answers = vec![Answer::Refuse(refusal), Answer::Events(script::text("yes"))];
    let mut going_on = GoingOn::answered(written.path(), answers)?;
    ensure(going_on.say(first).await.is_err(), "the first turn did not fail")?;
    going_on.say(then).await?;
    let live = going_on.agent.transcript().to_vec();
    drop(going_on);
    let roles: Vec<_> = live.iter().map(|message| message.role()).collect();
    let users = roles.windows(2).filter(|two| two[0] == Role::User && two[1] == Role::User).count();
    ensure(expect.consecutive_users.is_none_or(|count| count == users), format!("{roles:?}"))?;
    if expect.survives_restart_once == Some(true) {
        let state = load(written.path()).map_err(|error| error.to_string())?.state;
        ensure(state.messages() == live, "it is another dialogue after the restart")?;
        let said: String = live.iter().map(|message| message.text()).collect();
        let once = [first, then].iter().all(|text| said.matches(*text).count() == 1);
        ensure(once, format!("not once: {said}"))?;
    }
    Ok(())
}

async fn with_model(written: &Written, model: &str, expect: &Expect) -> Result<(), String> {
    ensure(model.starts_with("openai-chat:"), "the adapter does not know this dialect")?;
    let told = TargetOverrides { foreign_calls: Some(false), ..TargetOverrides::NONE };
    let target = TargetFor::new(Dialect::OpenaiChat, None, "").with(&told);
    let provider = || ScriptedProvider::new(vec![script::text("yes")]).as_if(target);
    let mut going_on = GoingOn::new(written.path(), provider(), model)?;
    let label = going_on.agent.model().clone();
    let calls_told = going_on.agent.switch_model(Arc::clone(&going_on.provider) as _, label);
    match expect.notice.as_deref() {
        // The number is what a person is told about the handoff.
        Some("handoff") => ensure(calls_told == 1, format!("{calls_told} calls are told"))?,
        other => return Err(format!("the adapter does not know the notice {other:?}")),
    }
    going_on.say("go on").await?;
    let sent = serde_json::to_string(&going_on.provider.requests()[0].messages).unwrap();
    for text in expect.must_not_send.iter().flatten() {
        ensure(!sent.contains(text.as_str()) && !sent.contains(SIGNATURE), sent.clone())?;
    }
    Ok(())
}

/// What another process does that has the session: holds it until its input ends.
fn hold(path: &Path) {
    let _journal = Journal::open(path, Arc::default()).unwrap();
    println!("\nthe session is held");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

/// Starts that process, and returns when it has the session.
fn holder(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sessions::every_session_case_holds", "--nocapture"])
        .env(HOLDS, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let held = lines.any(|line| line.unwrap() == "the session is held");
    assert!(held, "the other process ended before it had the session");
    child
}

/// Leaves the session to a process that is then killed.
fn die_with(path: &Path) -> Result<(), String> {
    let mut child = holder(path);
    child.kill().unwrap();
    child.wait().unwrap();
    Journal::open(path, Arc::default()).map(drop).map_err(|error| error.to_string())
}

/// Wants a session that another process has.
fn second(written: &Written, expect: &Expect) -> Result<(), String> {
    let before = written.bytes();
    let mut child = holder(written.path());
    let opened = Journal::open(written.path(), Arc::default());
    let forked = written.store.fork(written.path(), "copy", &written.cwd, Arc::default());
    drop(child.stdin.take());
    child.wait().unwrap();
    let refused = matches!(opened, Err(JournalError::InUse { .. }));
    match expect.second.as_deref() {
        Some("refused_or_forked") => ensure(refused && forked.is_ok(), "both have it")?,
        other => return Err(format!("the adapter does not know the second {other:?}")),
    }
    let unchanged = written.bytes() == before;
    ensure(expect.interleaved != Some(false) || unchanged, "both wrote into it")
}
