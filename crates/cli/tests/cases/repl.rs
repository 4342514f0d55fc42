//! Rows of `repl/runs.jsonl`: the real binary in pipes and shells.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use serde::Deserialize;
use serde_json::Value;
use unicode_width::UnicodeWidthChar as _;

use crate::Report;
use crate::support::model::{Answer, Model};
use crate::support::{Home, Ran, Running, has};

/// Cases that wait, each with what it waits for.
const PENDING: [(&str, &str); 0] = [];

/// Memory that a run may use before its input counts.
const BASE_MB: i64 = 24;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    how: How,
    argv: Vec<String>,
    expect: Expect,
    #[serde(rename = "notes")]
    _notes: String,
    #[serde(rename = "topic")]
    _topic: String,
    stdin: Option<String>,
    stdin_repeat: Option<Repeat>,
    #[serde(default)]
    stdin_keep_open: bool,
    #[serde(default)]
    env: BTreeMap<String, Option<String>>,
    model_text: Option<String>,
    tool_args: Option<Value>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum How {
    Pipe,
    PipeB64argv,
    Shell,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    text: String,
    times: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    read_bytes_per_second: u64,
}

/// What must hold. A field that is not listed here is an error, not a pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(alias = "exit")]
    status: Option<i32>,
    #[serde(alias = "exit_any")]
    status_any: Option<Vec<i32>>,
    #[serde(default)]
    exit_nonzero: bool,
    #[serde(default)]
    stdout_empty: bool,
    #[serde(default)]
    stdout_contains: Vec<String>,
    #[serde(default)]
    stdout_excludes: Vec<String>,
    #[serde(default)]
    stdout_excludes_hex: Vec<String>,
    #[serde(default)]
    stderr_contains: Vec<String>,
    #[serde(default)]
    stderr_empty: bool,
    #[serde(default)]
    stderr_excludes: Vec<String>,
    #[serde(default)]
    prompt_contains: Vec<String>,
    #[serde(default)]
    all_lines_json: bool,
    last_line_type: Option<String>,
    line_width_max: Option<usize>,
    within_ms: Option<u64>,
    max_rss_growth_mb: Option<i64>,
    #[serde(default)]
    message_or_cut: bool,
    #[serde(default)]
    notice: bool,
    message_hint: Option<String>,
    #[serde(default)]
    no_survivors: bool,
    #[serde(default)]
    no_busy_loop: bool,
    /// What the documentation must settle; no panic and no hang are demanded of every row.
    #[serde(rename = "note")]
    _note: Option<String>,
}

/// Runs the rows of one folder.
pub(crate) fn run(folder: &Path) -> Report {
    let mut report = Report::default();
    let Ok(text) = std::fs::read_to_string(folder.join("repl/runs.jsonl")) else {
        report.uncovered.push("there is no repl/runs.jsonl".to_owned());
        return report;
    };
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).unwrap();
        let id = value["id"].as_str().unwrap().to_owned();
        if serde_json::from_value::<How>(value["how"].clone()).is_err() {
            report.uncovered.push(format!("{id}: run as {}", value["how"]));
            continue;
        }
        if let Some((_, why)) = PENDING.iter().find(|(pending, _)| *pending == id) {
            report.pending.push(format!("{id}: {why}"));
            continue;
        }
        if line.contains("| jq ") && !has("jq") {
            let line = format!("{id}: jq is not installed on this machine");
            // Past the test harness, which keeps what passing tests print to itself.
            std::io::stderr().write_all(format!("NOTE: not run: {line}\n").as_bytes()).unwrap();
            report.pending.push(line);
            continue;
        }
        match serde_json::from_value::<Row>(value) {
            Err(error) => report.failed.push(format!("{id}: the adapter does not know: {error}")),
            Ok(row) => match check(&row) {
                Ok(()) => report.passed += 1,
                Err(why) => report.failed.push(format!("{id}: {why}")),
            },
        }
    }
    report
}

fn check(row: &Row) -> Result<(), String> {
    let home = Home::new();
    let model = Model::new(answers(row));
    let busy_before = children_cpu();
    let ran = start(row, &home, &model);
    let busy = children_cpu().saturating_sub(busy_before);
    expect_status(&row.expect, &ran)?;
    expect_output(&row.expect, &ran)?;
    expect_rest(&row.expect, &ran, &home, &model, busy)
}

fn answers(row: &Row) -> Vec<Answer> {
    let text = match (&row.model_text, row.steps.is_empty()) {
        (Some(text), _) => text.clone(),
        (None, true) => "ok".to_owned(),
        // More than a pipe holds, for a reader that is slow.
        (None, false) => "some words of an answer ".repeat(4000),
    };
    let call = row.tool_args.clone().map(|args| Answer::call("bash", args));
    call.into_iter().chain([Answer::Text(text)]).collect()
}

fn start(row: &Row, home: &Home, model: &Model) -> Ran {
    if row.argv.iter().any(|word| word.contains("{SESSION}")) {
        let mut command = home.anvil_with(model);
        Running::start(command.args(["-p", "something to replay", "--no-stdin"])).finish();
    }
    let mut command = command(row, home, model);
    for (name, value) in &row.env {
        match value {
            Some(value) => command.env(name, expand(value, home)),
            None => command.env_remove(name),
        };
        // The row is about where a home is found, so none is given beside it.
        if name == "HOME" || name.starts_with("XDG_") {
            command.env_remove("ANVIL_HOME");
        }
    }
    let has_input = row.stdin.is_some() || row.stdin_repeat.is_some() || row.stdin_keep_open;
    command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
    if let [step] = row.steps.as_slice() {
        return read_slowly(&mut command, step.read_bytes_per_second);
    }
    let mut running = Running::start(&mut command);
    let mut stdin = running.child.stdin.take();
    let keep = row.stdin_keep_open.then(|| stdin.take());
    let input = expand(row.stdin.as_deref().unwrap_or_default(), home);
    let repeat = row.stdin_repeat.as_ref().map(|repeat| (repeat.text.clone(), repeat.times));
    std::thread::spawn(move || {
        let Some(mut stdin) = stdin else { return };
        let mut write = |bytes: &[u8]| stdin.write_all(bytes).is_ok();
        let mut goes_on = write(input.as_bytes());
        // In pieces of a thousand: neither a system call for each nor all of it in memory.
        if let Some((text, times)) = repeat {
            let piece = text.repeat(1000);
            for _ in 0..times / 1000 {
                goes_on = goes_on && write(piece.as_bytes());
            }
        }
    });
    let ran = running.finish();
    drop(keep);
    ran
}

fn command(row: &Row, home: &Home, model: &Model) -> Command {
    let argv: Vec<String> = row.argv.iter().map(|word| expand(word, home)).collect();
    match row.how {
        How::Shell => {
            assert_eq!(argv[..2], ["sh", "-c"], "{}", row.id);
            home.shell(&argv[2], model)
        }
        How::Pipe => {
            let mut command = home.anvil_with(model);
            command.args(&argv[1..]);
            command
        }
        How::PipeB64argv => {
            let mut command = home.anvil_with(model);
            command.args(argv[1..].iter().map(|word| std::ffi::OsString::from_vec(base64(word))));
            command
        }
    }
}

/// Fills in `{REPEAT:n:s}` (s, n times), `{ABS}`, `{HOME}`, `{DATA}` and `{SESSION}`. Any other placeholder is one
/// that this adapter would have to learn.
fn expand(text: &str, home: &Home) -> String {
    let mut text = text
        .replace("{ABS}", home.work().to_str().unwrap())
        .replace("{HOME}", home.home().to_str().unwrap())
        .replace("{DATA}", home.data().to_str().unwrap());
    if text.contains("{SESSION}") {
        text = text.replace("{SESSION}", &only_session(home));
    }
    while let Some(start) = text.find("{REPEAT:") {
        let end = start + text[start..].find('}').unwrap();
        let (times, part) = text[start + "{REPEAT:".len()..end].split_once(':').unwrap();
        let repeated = part.repeat(times.parse().unwrap());
        text.replace_range(start..=end, &repeated);
    }
    let unknown = text.match_indices('{').find_map(|(at, _)| {
        let name = text[at + 1..].split('}').next()?;
        (name.len() > 2 && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
            .then_some(name)
    });
    assert!(unknown.is_none(), "the placeholder {unknown:?} is not known");
    text
}

/// The id of the one session that the home has.
fn only_session(home: &Home) -> String {
    let ran = Running::start(home.anvil().args(["sessions", "--output-format", "json"])).finish();
    ran.json()["sessions"][0]["id"].as_str().unwrap().to_owned()
}

fn base64(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = LETTERS.iter().position(|known| *known == letter).unwrap();
        bits = bits << 6 | u32::try_from(value).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).unwrap());
        }
    }
    bytes
}

fn read_slowly(command: &mut Command, per_second: u64) -> Ran {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut all, mut piece) = (Vec::new(), vec![0; usize::try_from(per_second / 20).unwrap()]);
    let started = std::time::Instant::now();
    loop {
        match out.read(&mut piece).unwrap() {
            0 => break,
            read => all.extend_from_slice(&piece[..read]),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    let status = child.wait().unwrap();
    Ran { status, out: String::from_utf8(all).unwrap(), err, took: started.elapsed() }
}

fn expect_status(expect: &Expect, ran: &Ran) -> Result<(), String> {
    let code = ran.status.code();
    need(code.is_some(), || format!("ended by a signal: {ran:?}"))?;
    need(expect.status.is_none() || expect.status == code, || format!("status {code:?}: {ran:?}"))?;
    let any = expect.status_any.as_ref();
    need(any.is_none_or(|any| any.contains(&code.unwrap_or(-1))), || format!("status {code:?}"))?;
    need(!(expect.exit_nonzero && code == Some(0)), || format!("ended with 0: {ran:?}"))
}

fn expect_output(expect: &Expect, ran: &Ran) -> Result<(), String> {
    need(!expect.stdout_empty || ran.out.is_empty(), || format!("standard output: {ran:?}"))?;
    for part in &expect.stdout_contains {
        need(ran.out.contains(part), || format!("no {part:?} in {ran:?}"))?;
    }
    for part in &expect.stdout_excludes {
        need(!ran.out.contains(part), || format!("{part:?} in {ran:?}"))?;
    }
    for part in &expect.stderr_contains {
        need(ran.err.contains(part), || format!("no {part:?} in {ran:?}"))?;
    }
    need(!expect.stderr_empty || ran.err.is_empty(), || format!("standard error: {ran:?}"))?;
    for hex in &expect.stdout_excludes_hex {
        let byte = u8::from_str_radix(hex, 16).map_err(|error| error.to_string())?;
        need(!ran.out.bytes().any(|found| found == byte), || format!("{hex} in {ran:?}"))?;
    }
    for part in expect.stderr_excludes.iter().map(String::as_str).chain(["panicked"]) {
        need(!ran.err.contains(part), || format!("{part:?} in {ran:?}"))?;
    }
    if let Some(most) = expect.line_width_max {
        for line in ran.out.lines().chain(ran.err.lines()) {
            let width: usize = line.chars().map(|c| c.width().unwrap_or(0)).sum();
            need(width <= most, || format!("{width} columns: {line}"))?;
        }
    }
    if expect.all_lines_json {
        for line in ran.out.lines() {
            serde_json::from_str::<Value>(line).map_err(|error| format!("{error}: {line}"))?;
        }
    }
    if let Some(kind) = &expect.last_line_type {
        let last = ran.out.lines().last().unwrap_or_default();
        let last: Value = serde_json::from_str(last).map_err(|error| error.to_string())?;
        need(last["type"] == kind.as_str(), || format!("the last line is {last}"))?;
    }
    Ok(())
}

fn expect_rest(
    expect: &Expect,
    ran: &Ran,
    home: &Home,
    model: &Model,
    busy: Duration,
) -> Result<(), String> {
    for part in &expect.prompt_contains {
        let text = model.last_user_text();
        need(text.contains(part), || format!("no {part:?} in the prompt {text:?}"))?;
    }
    if let Some(most) = expect.within_ms {
        need(ran.took <= Duration::from_millis(most), || format!("took {:?}", ran.took))?;
    }
    if let Some(most) = expect.max_rss_growth_mb {
        let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() / 1024;
        need(used <= most + BASE_MB, || format!("{used} MB"))?;
    }
    if expect.message_or_cut {
        need(ran.code() != 0 && ran.err.contains("MiB"), || format!("not told: {ran:?}"))?;
    }
    if expect.notice {
        need(ran.err.lines().any(|line| line.starts_with("anvil: ")), || format!("{ran:?}"))?;
    }
    if let Some(hint) = &expect.message_hint {
        need(ran.err.contains(hint), || format!("no {hint:?} in {ran:?}"))?;
    }
    if expect.no_survivors {
        need(is_deserted(home), || "something is still alive".to_owned())?;
    }
    need(!expect.no_busy_loop || busy < Duration::from_millis(500), || format!("busy for {busy:?}"))
}

/// Whether everything that was started with this home is gone a moment after the run.
fn is_deserted(home: &Home) -> bool {
    let mark = format!("ANVIL_HOME={}", home.data().parent().unwrap().display());
    (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        !environments().iter().any(|variables| variables.contains(&mark))
    })
}

/// The variables of every process that may be looked into.
#[cfg(target_os = "linux")]
fn environments() -> Vec<Vec<String>> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let read = processes.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    read.map(|all| String::from_utf8_lossy(&all).split('\0').map(str::to_owned).collect()).collect()
}

#[cfg(not(target_os = "linux"))]
fn environments() -> Vec<Vec<String>> {
    let listed = Command::new("ps").args(["-axEww", "-o", "command="]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn children_cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let time = usage.user_time() + usage.system_time();
    let micros = u64::try_from(time.tv_usec()).unwrap();
    Duration::from_secs(time.tv_sec().try_into().unwrap()) + Duration::from_micros(micros)
}

fn need(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}
