//! Files `sessions/*.json` that are about the program: what it says, and whether it goes on, when what a
//! session was begun with is gone. The others are held by the tests of the crate that writes sessions.

#[path = "../../../agent/tests/cases/sessions/written.rs"]
mod written;

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use self::written::Written;
use crate::Report;
use crate::support::model::{Answer, Model};
use crate::support::{Home, Ran, run as finish};

/// A model that the server of the test answers for.
const MODEL: &str = "anthropic:claude-opus-4-5";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    build: Vec<String>,
    damage: Vec<Damage>,
    expect: Expect,
    #[serde(rename = "notes")]
    _notes: String,
    #[serde(rename = "topic")]
    _topic: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Damage {
    /// The folder that the session was begun in is gone.
    RemoveRecordedCwd,
    /// Nothing but that somebody goes on with it.
    Resume,
}

/// What must hold. A field that is not listed here is an error, not a pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    load: Option<String>,
    notice: Option<String>,
    asks: Option<String>,
    no_crash_loop: Option<bool>,
}

/// Runs the files of one folder.
pub(crate) fn run(folder: &Path) -> Report {
    let mut report = Report::default();
    let Ok(entries) = std::fs::read_dir(folder.join("sessions")) else {
        report.uncovered.push("there is no folder sessions".to_owned());
        return report;
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    for path in paths {
        let value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let id = value["id"].as_str().unwrap().to_owned();
        if !is_ours(&value["damage"]) {
            report.uncovered.push(format!("{id}: of the session's file"));
            continue;
        }
        let held = serde_json::from_value::<Case>(value)
            .map_err(|error| format!("the adapter does not know: {error}"))
            .and_then(|case| check(&case));
        match held {
            Ok(()) => report.passed += 1,
            Err(why) => report.failed.push(format!("{id}: {why}")),
        }
    }
    report
}

/// Whether all that happens, happens to what is around the file.
fn is_ours(damage: &Value) -> bool {
    serde_json::from_value::<Vec<Damage>>(damage.clone()).is_ok_and(|damage| !damage.is_empty())
}

fn check(case: &Case) -> Result<(), String> {
    let home = Home::new();
    let written = Written::build_asking(&home.data(), &case.build, MODEL)?;
    if case.damage.contains(&Damage::RemoveRecordedCwd) {
        // Nothing made it, so that it is gone.
        ensure(!written.cwd.exists(), &case.id)?;
    }
    let session = written.path().file_stem().unwrap().to_str().unwrap().to_owned();
    match case.expect.load.as_deref() {
        Some("ok") => {
            let looked = finish(home.anvil().args(["sessions", "fsck", &session]));
            ensure(looked.code() == 0, &looked.err)?;
        }
        other => return Err(format!("the adapter does not know this: {other:?}")),
    }
    let resume = |more: &[&str]| -> (Ran, Model) {
        let model = Model::new([Answer::text("Here.")]);
        let mut command = home.anvil_with(&model);
        let ran = finish(command.args(["-p", "go on", "-r", &session, "--no-stdin"]).args(more));
        ran.assert_no_panic();
        (ran, model)
    };
    let (ran, model) = resume(&[]);
    if let Some(hint) = &case.expect.notice {
        ensure(ran.code() == 0 && ran.err.contains(hint.as_str()), &ran.err)?;
        ensure(model.requests().len() == 1, "the model was not asked once")?;
    }
    match case.expect.asks.as_deref() {
        None => {}
        // Nobody can answer here: which model is gone, and how one is named, has to be said instead.
        Some("model") => {
            let is_told = ran.err.contains("old:") && ran.err.contains("-m");
            ensure(ran.code() == 78 && is_told, &ran.err)?;
            ensure(model.requests().is_empty(), "another model was asked unasked")?;
            let (ran, model) = resume(&["-m", MODEL]);
            ensure(ran.code() == 0 && model.requests().len() == 1, &ran.err)?;
        }
        Some(other) => return Err(format!("the adapter does not know to ask for {other}")),
    }
    if case.expect.no_crash_loop == Some(true) {
        let (ran, model) = resume(&[]);
        let sent = model.requests().first().map(|request| request["messages"].to_string());
        let goes_on = sent.is_some_and(|sent| sent.contains("hello") && sent.contains("Here."));
        ensure(ran.code() == 0 && goes_on, &ran.err)?;
    }
    Ok(())
}

fn ensure(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}
